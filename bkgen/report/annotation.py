"""The build's annotation: what ran, what was skipped, why, and what would run it.

Names and labels come from pull requests, so everything that Markdown or HTML would obey is written
as a character reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bkgen.changes import UnknownChanges
from bkgen.decide.facts import SHOWN, listed
from bkgen.errors import Diagnostic
from bkgen.plan.planned import Plan, PlannedSuite
from bkgen.report.figures import counted, figures
from bkgen.report.table import brief, compared, totals

MOST_ROWS = 200
_OBEYED = r"(?<=[wW]{3})\.|[^A-Za-z0-9 .,;/()=+\-–…’àéüöä×→%'\"?]"


def escaped(text: str) -> str:
    """`text` that neither Markdown nor HTML nor the emoji reader obeys, on one line."""
    return re.sub(_OBEYED, lambda match: f"&#{ord(match[0])};", " ".join(text.split()))


def style_of(plan: Plan, warnings: Sequence[object]) -> str:
    """`warning` when there is something to mend, `success` when all was skipped, else `info`."""
    # Everything runs, on every push, until somebody mends what git reports.
    if warnings or isinstance(plan.facts.changes, UnknownChanges):
        return "warning"
    return "success" if plan.is_empty else "info"


def warnings_of(plan: Plan, diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Everything that somebody should mend, as sentences."""
    return [*plan.facts.warnings, *(str(d) for d in diagnostics if d.severity == "warning")]


def annotation(plan: Plan, diagnostics: Iterable[Diagnostic] = ()) -> str:
    """The Markdown body."""
    parts = [f"**{escaped(_headline(plan))}**", *map(escaped, compared(plan).splitlines()), ""]
    warnings = warnings_of(plan, diagnostics)
    if warnings:
        parts += [f"- :warning: {escaped(warning)}" for warning in warnings[:50]]
        if len(warnings) > 50:
            parts.append(f"- … and {len(warnings) - 50} more; the job's log has them all")
        parts.append("")
    if plan.selected:
        parts += [_table(("Runs", "Jobs", "Why"), (_run_row(plan, planned) for planned in plan.selected)), ""]
    skipped = [planned for planned in plan.suites if not planned.decision.runs]
    if skipped:
        rows = (_skip_row(plan, planned) for planned in skipped)
        table = _table(("Skipped", "Rule", "Why", "What would run it"), rows)
        summary = f"<summary>{counted(len(skipped), 'suite')} skipped</summary>"
        parts.append(_folded(summary, table, plan))
    files = changed_files(plan)
    if files:
        summary = f"<summary>{counted(len(plan.facts.files), 'changed file')}</summary>"
        # In a cell nothing begins a list or a rule, whatever the file is called.
        parts.append(_folded(summary, _table(("Changed",), ((file,) for file in files)), plan))
    parts.append(escaped(totals(plan)))
    return "\n\n".join(part for part in parts if part) + "\n"


def changed_files(plan: Plan) -> tuple[str, ...]:
    """The first changed files, which of them are trivial, and how many there are more."""
    facts = plan.facts
    names = [
        f"{file.shown} (trivial)" if file.path in facts.trivial else file.shown
        for file in facts.files[:SHOWN]
    ]
    return listed(names, len(facts.files))


def _folded(summary: str, body: str, plan: Plan) -> str:
    """Behind a click; a build that runs nothing has nothing else to show."""
    return "\n\n".join((f"<details{' open' if plan.is_empty else ''}>{summary}", body, "</details>"))


def _headline(plan: Plan) -> str:
    if plan.is_empty:
        return "Nothing to test: every suite is skipped"
    total = figures(plan)
    every = total.suites + total.skipped
    runs = "runs" if total.suites == 1 else "run"
    return f"{total.suites} of {counted(every, 'suite')} {runs}, {counted(total.jobs, 'job')}"


def _run_row(plan: Plan, planned: PlannedSuite) -> tuple[str, ...]:
    jobs = sum(step.jobs for step in planned.selected if step.is_work)
    return planned.suite.name, str(jobs), brief(plan, planned)


def _skip_row(plan: Plan, planned: PlannedSuite) -> tuple[str, ...]:
    decision = planned.decision
    first, *others = decision.evidence.files or ("",)
    # All skipped suites rest on the same files, and the list of them stands below.
    files = f" ({first}{', among others' if others else ''})" if first else ""
    return planned.suite.name, decision.rule, f"{brief(plan, planned)}{files}", decision.remedy


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = list(body)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(f"| … and {len(rows) - MOST_ROWS} more |" + " |" * (len(head) - 1))
    return "\n".join(lines)


def failure_annotation(what: str, diagnostics: Sequence[Diagnostic]) -> str:
    """The body for a build whose pipeline could not be made or uploaded; `what` bkgen did or could not do."""
    lines = [f"**bkgen {what}**"]
    lines += [f"- {escaped(str(diagnostic))}" for diagnostic in diagnostics[:50]]
    if len(diagnostics) > 50:
        lines.append(f"- … and {len(diagnostics) - 50} more")
    return "\n\n".join(lines) + "\n"
