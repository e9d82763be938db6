"""What a selected step needs is selected, too; what it may not have takes it out."""

from bkgen.decide.decision import Decision, Evidence
from bkgen.graph import closure
from bkgen.plan.dependencies import Edges, members_of
from bkgen.plan.planned import PlannedStep


def closed_over(steps: dict[str, PlannedStep], edges: Edges) -> dict[str, PlannedStep]:
    """The steps with every need of a running one running, too."""
    if not any(step.needs for step in steps.values()):
        return steps
    flat = {
        key: tuple(
            member
            for need in step.needs
            for member in (*members_of(edges, need), *((need,) if need in steps else ()))
        )
        for key, step in steps.items()
    }
    closed = dict(steps)
    while True:
        roots = [key for key, step in closed.items() if step.decision.runs and step.is_work]
        wanted = closure(flat, roots)
        refused = {key: by for key, by in wanted.items() if _is_forbidden(closed[key])}
        if not refused:
            break
        for key, by in refused.items():
            closed[by] = closed[by]._replace(decision=_refused(closed[key]))
    for key, by in wanted.items():
        if not closed[key].decision.runs:
            closed[key] = closed[key]._replace(decision=_needed(closed[key], closed[by]))
    return closed


def _is_forbidden(step: PlannedStep) -> bool:
    decision = step.decision
    if decision.runs:
        return False
    by_itself = decision.rule == "not-admitted" and decision.evidence.field[-1:] == ("forks",)
    return by_itself or decision.rule == "dependency-refused"


def _refused(needed: PlannedStep) -> Decision:
    return Decision(
        "SKIP",
        "dependency-refused",
        f"it depends on {needed.name}, which is not for the pull requests of forks",
        Evidence(field=("depends_on",), source=needed.suite.source.file),
        needed.decision.remedy,
    )


def _needed(step: PlannedStep, by: PlannedStep) -> Decision:
    return Decision(
        "RUN",
        "needed",
        f"{by.name} depends on it (alone it would be skipped: {step.decision.reason})",
        Evidence(field=(*by.path, "depends_on"), source=by.suite.source.file),
        f"it runs as long as {by.name} does",
    )
