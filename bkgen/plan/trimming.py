"""Waits, blocks and groups have no work of their own: they go where nothing is left around them."""

from collections.abc import Collection

from bkgen.decide.decision import Decision
from bkgen.plan.planned import PlannedStep
from bkgen.spec.steps import GroupStep, WaitStep


def without_idle(steps: list[PlannedStep], needed: Collection[str] = ()) -> list[PlannedStep]:
    """The steps, with what has nothing left to order or hold skipped; what `needed` names stays."""
    kept = list(steps)
    containers = dict.fromkeys(step.group for step in steps)
    for container in containers:
        _trim(kept, [i for i, step in enumerate(kept) if step.group == container], needed)
    for index, step in enumerate(kept):
        if isinstance(step.step, GroupStep):
            inside = [s for s in kept if s.group == step.key and s.is_work and s.decision.runs]
            if not inside:
                kept[index] = _idle(step)
            elif not step.decision.runs:
                kept[index] = step._replace(decision=inside[0].decision)
    return kept


def _trim(steps: list[PlannedStep], indexes: list[int], needed: Collection[str]) -> None:
    def works(index: int) -> bool:
        step = steps[index]
        if isinstance(step.step, GroupStep):
            return any(s.group == step.key and s.is_work and s.decision.runs for s in steps)
        return step.is_work and step.decision.runs

    for place, index in enumerate(indexes):
        step = steps[index]
        if step.is_work or isinstance(step.step, GroupStep) or step.key in needed:
            continue
        after = next((i for i in indexes[place + 1 :] if works(i)), None)
        before = any(works(i) for i in indexes[:place])
        last = place + 1 < len(indexes) and _is_wait(steps[indexes[place + 1]]) and _is_wait(step)
        if after is None or (isinstance(step.step, WaitStep) and (not before or last)):
            steps[index] = _idle(step)
        elif not step.decision.runs and getattr(step.step, "when", None) is None:
            steps[index] = step._replace(decision=steps[after].decision)


def _is_wait(step: PlannedStep) -> bool:
    return isinstance(step.step, WaitStep) and step.step.if_ is None and not step.step.continue_on_failure


def _idle(step: PlannedStep) -> PlannedStep:
    if not step.decision.runs:
        return step
    decision = Decision(
        "SKIP",
        step.decision.rule,
        "no step that it orders or holds is left",
        step.decision.evidence,
        "it comes back with the steps around it",
    )
    return step._replace(decision=decision)
