"""The plan as a table: folded to the width of a terminal, plain columns everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from bkgen.changes import ChangeSet, UnknownChanges, printable
from bkgen.plan.planned import Plan, PlannedSuite
from bkgen.report.figures import counted, figures, minutes
from bkgen.report.terminal import folded, painted

HEAD = ("verdict", "suite", "steps", "jobs", "GPUs", "minutes", "why")
RIGHT = frozenset({2, 3, 4, 5})
LEAST = 20
"""Characters that a name and a reason get in a terminal that is too narrow for the table."""


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """One row a suite: verdict, name, steps, jobs, GPUs, minutes, reason."""
    return [_row(plan, planned) for planned in plan.suites]


def brief(plan: Plan, planned: PlannedSuite) -> str:
    """The reason without what `compared` has said for all suites: the policy's, or why nothing is known."""
    facts = plan.facts
    reason = planned.decision.reason.removesuffix(f": {facts.policy.reason}")
    if isinstance(facts.changes, UnknownChanges):
        reason = reason.removesuffix(f": {facts.changes.reason}")
    return reason


def _row(plan: Plan, planned: PlannedSuite) -> tuple[str, ...]:
    work = [step for step in planned.steps if step.is_work]
    running = [step for step in work if step.decision.runs]
    counted = running or work
    expected = max((step.minutes or 0.0 for step in counted), default=0.0)
    count = f"{len(running)}/{len(work)}" if running and len(running) != len(work) else str(len(counted))
    gpus = max((step.gpus for step in counted), default=0)
    return (
        planned.decision.verdict,
        planned.suite.name,
        count,
        str(sum(step.jobs for step in counted)),
        str(gpus) if gpus else "–",
        f"{expected:g}" if expected else "–",
        brief(plan, planned),
    )


def aligned(
    head: Sequence[str], body: Iterable[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> str:
    """Plain columns two blanks apart; the last one is not padded."""
    lines = [list(head), *(list(row) for row in body)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    return "".join(_line(line, widths, right) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = [
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return "  ".join([*padded, cells[-1]]).rstrip() + "\n"


def plain_table(plan: Plan) -> str:
    """The plan as plain text, with what was compared above and the totals below."""
    table = aligned(HEAD, rows(plan), right=RIGHT) if plan.suites else _no_suites(plan)
    return f"{compared(plan)}\n\n{table}\n{totals(plan)}\n"


def _no_suites(plan: Plan) -> str:
    return (
        f"there is no suite in {plan.facts.settings.tests_dir}\n"
        "  hint: `bkgen new NAME` makes one; tests_dir in bkgen.yml names another directory\n"
    )


def compared(plan: Plan) -> str:
    """What the changes were found by, in one line, and the policy in a second."""
    changes = plan.facts.changes
    if isinstance(changes, ChangeSet):
        found = f"{counted(len(changes.files), 'changed file')}: {changes.description}"
    elif isinstance(changes, UnknownChanges):
        found = f"changes unknown: {changes.reason}"
    else:
        found = f"changes not asked: {changes.reason}"
    labels = ", ".join(map(printable, plan.facts.build.labels)) or "none"
    return f"{found}\nlabels: {labels}; {plan.facts.policy.reason}"


def totals(plan: Plan) -> str:
    """The sums in one line."""
    total = figures(plan)
    runs = "runs" if total.suites == 1 else "run"
    text = (
        f"{counted(total.suites, 'suite')} {runs}, {total.skipped} {'is' if total.skipped == 1 else 'are'} "
        f"skipped: {counted(total.steps, 'step')}, {counted(total.jobs, 'job')}, "
        f"{counted(total.gpu_minutes, 'GPU minute')} planned, {total.gpu_minutes_saved:g} saved, "
        f"longest path {minutes(total.longest_path_minutes)}"
    )
    if total.without_expectation:
        says = "says" if total.without_expectation == 1 else "say"
        text += f" ({counted(total.without_expectation, 'GPU step')} {says} no expected_minutes)"
    return text


def terminal_table(plan: Plan, width: int, *, colour: bool) -> str:
    """The same for a terminal of `width` columns: a long reason goes on below itself."""
    if not plan.suites:
        return plain_table(plan)
    body = rows(plan)
    widths = [max(map(len, column)) for column in zip(HEAD, *body, strict=True)][:-1]
    # Names and reasons share what the other columns leave; no name takes more than half of it.
    width = max(width, 2 * LEAST)
    left = max(width - (sum(widths) - widths[1] + 2 * len(widths)), LEAST)
    widths[1] = min(widths[1], left // 2)
    room = left - widths[1]

    lines = [(part, "", "dim") for line in compared(plan).splitlines() for part in folded(line, width)]
    lines += [("", "", ""), (_line(HEAD, widths, RIGHT).rstrip("\n"), "", "bold")]
    for row in body:
        style = "green" if row[0] == "RUN" else "dim"
        for part in zip_longest(folded(row[0], widths[0]), *_parts(row, widths, room), fillvalue=""):
            text = _line(part, widths, RIGHT).rstrip("\n")
            split = widths[0] + 2 + widths[1]
            lines.append((text[:split], text[split:], style))
    lines += [("", "", ""), *((part, "", "bold") for part in folded(totals(plan), width))]
    return "".join(f"{painted(head, style if colour else '')}{rest}\n" for head, rest, style in lines)


def _parts(row: Sequence[str], widths: Sequence[int], room: int) -> list[list[str]]:
    """Every cell behind the verdict in lines; only the name and the reason may take several."""
    return [folded(row[1], widths[1]), *([cell] for cell in row[2:-1]), folded(row[-1], room)]
