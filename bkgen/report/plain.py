"""What the annotation says beyond the table, as plain text: for a log where no agent takes an annotation."""

from __future__ import annotations

from collections.abc import Iterator

from bkgen.plan.planned import Plan, PlannedSuite
from bkgen.report.annotation import MOST_ROWS, changed_files
from bkgen.report.figures import counted


def plain_facts(plan: Plan) -> str:
    """The changed files; for each suite its rule, the files it rests on, and what would run a skipped one."""
    files = changed_files(plan)
    lines = [counted(len(plan.facts.files), "changed file"), *(f"  {file}" for file in files), ""]
    for planned in plan.suites[:MOST_ROWS]:
        lines += _suite(planned)
    if len(plan.suites) > MOST_ROWS:
        lines.append(f"… and {counted(len(plan.suites) - MOST_ROWS, 'suite')} more")
    return "\n".join(lines if files else lines[2:])


def _suite(planned: PlannedSuite) -> Iterator[str]:
    decision = planned.decision
    yield f"{planned.suite.name}: {decision.verdict} by the rule {decision.rule}"
    if decision.evidence.files:
        yield f"  files: {', '.join(decision.evidence.files)}"
    if not decision.runs:
        yield f"  to turn it round: {decision.remedy}"
