"""Waits, blocks and groups have no work of their own: they go where work around them was left out."""

from bisect import bisect
from collections.abc import Collection

from bkgen.decide.decision import Decision
from bkgen.plan.planned import PlannedStep
from bkgen.spec.steps import GroupStep, WaitStep


def without_idle(steps: list[PlannedStep], needed: Collection[str] = ()) -> list[PlannedStep]:
    """The steps, with what has nothing left to order or hold skipped; what `needed` names stays.

    Where all work runs for its own sake everything stays as it was written: a block at the end keeps the
    build from passing by itself. A block in front of steps that others pulled in holds nothing: nobody
    would press it, and they would wait.
    """
    kept = list(steps)
    containers: dict[str | None, list[int]] = {}
    busy: dict[str | None, Decision] = {}
    wanted: set[str | None] = set()
    thinned: set[str | None] = set()
    for index, step in enumerate(steps):
        containers.setdefault(step.group, []).append(index)
        if step.is_work:
            runs = step.decision.runs
            if runs:
                busy.setdefault(step.group, step.decision)
            (wanted if runs and step.decision.rule != "needed" else thinned).add(step.group)
    if thinned - wanted:
        # A group that is gone, or there for others only, is missing among the steps around it.
        thinned.add(None)
    for container, indexes in containers.items():
        if container in thinned:
            _trim(kept, indexes, needed, busy, wanted)
        elif container in busy or (container is None and busy):
            _follow(kept, indexes, busy.get(container) or next(iter(busy.values())))
    for index, step in enumerate(kept):
        if isinstance(step.step, GroupStep):
            if step.key in thinned and step.key not in busy:
                kept[index] = _idle(step)
            elif step.key in busy and not step.decision.runs:
                kept[index] = step._replace(decision=busy[step.key])
    return kept


def _follow(steps: list[PlannedStep], indexes: list[int], decision: Decision) -> None:
    for index in indexes:
        step = steps[index]
        if not step.decision.runs and getattr(step.step, "when", None) is None:
            steps[index] = step._replace(decision=decision)


def _trim(
    steps: list[PlannedStep],
    indexes: list[int],
    needed: Collection[str],
    busy: Collection[str | None],
    wanted: Collection[str | None],
) -> None:
    def works(index: int) -> bool:
        step = steps[index]
        return step.key in busy if isinstance(step.step, GroupStep) else step.is_work and step.decision.runs

    def is_wanted(index: int) -> bool:
        step = steps[index]
        return step.key in wanted if isinstance(step.step, GroupStep) else step.decision.rule != "needed"

    working = [index for index in indexes if works(index)]
    held = [index for index in working if is_wanted(index)]
    for place, index in enumerate(indexes):
        step = steps[index]
        if step.is_work or isinstance(step.step, GroupStep) or step.key in needed:
            continue
        behind = bisect(working, index)
        last = place + 1 < len(indexes) and _is_plain(steps[indexes[place + 1]]) and _is_plain(step)
        idle = behind == 0 or last if isinstance(step.step, WaitStep) else bisect(held, index) == len(held)
        if idle or behind == len(working):
            steps[index] = _idle(step)
        elif not step.decision.runs and getattr(step.step, "when", None) is None:
            steps[index] = step._replace(decision=steps[working[behind]].decision)


def _is_plain(step: PlannedStep) -> bool:
    """A wait that holds back everything behind it, always."""
    wait = step.step
    return (
        isinstance(wait, WaitStep)
        and wait.if_ is None
        and wait.branches is None
        and not wait.continue_on_failure
    )


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
