"""The numbers of a plan: jobs, GPU minutes planned and saved, the longest path."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bkgen.plan.planned import Plan, PlannedStep, PlannedSuite
from bkgen.spec.steps import BlockStep, WaitStep


class Figures(NamedTuple):
    """Totals of one plan. Minutes are the authors' expectations; steps without one count as nothing."""

    suites: int
    skipped: int
    steps: int
    jobs: int
    gpu_minutes: float
    gpu_minutes_saved: float
    longest_path_minutes: float
    without_expectation: int


def figures(plan: Plan) -> Figures:
    """The totals of `plan`. The longest path assumes that no job waits for a GPU."""
    everything = [step for suite in plan.suites for step in suite.steps if step.is_work]
    running = [step for step in everything if step.decision.runs]
    return Figures(
        suites=len(plan.selected),
        skipped=len(plan.suites) - len(plan.selected),
        steps=len(running),
        jobs=sum(step.jobs for step in running),
        gpu_minutes=sum(step.gpu_minutes for step in running),
        gpu_minutes_saved=sum(step.gpu_minutes for step in everything if not step.decision.runs),
        longest_path_minutes=_longest_path(plan.selected),
        without_expectation=sum(step.minutes is None and step.gpus > 0 for step in running),
    )


def _longest_path(suites: Iterable[PlannedSuite]) -> float:
    """Minutes until the last job ends; waits and blocks hold back what follows them, but take no time."""
    spans: dict[str, float] = {}
    needs: dict[str, list[str]] = {}
    for planned in suites:
        for step in planned.selected:
            spans[step.key] = (step.minutes or 0.0) if step.is_work else 0.0
            needs.setdefault(step.key, []).extend(step.needs)
        _fence(planned, needs)
    return max(_ends(spans, needs).values(), default=0.0)


def _fence(planned: PlannedSuite, needs: dict[str, list[str]]) -> None:
    fences: dict[str | None, str] = {}
    since: dict[str | None, list[str]] = {}
    for step in planned.selected:
        inside = step.group
        # What holds a group back holds back all that stands in it; the group ends with the last of them.
        needs[step.key] += [fences[place] for place in dict.fromkeys((inside, None)) if place in fences]
        if inside is not None:
            needs.setdefault(inside, []).append(step.key)
        if _holds(step):
            needs[step.key] += since.pop(inside, [])
            fences[inside] = step.key
        else:
            since.setdefault(inside, []).append(step.key)


def _holds(step: PlannedStep) -> bool:
    """A wait or block that stops everything; one with a condition may not be there at all."""
    return isinstance(step.step, (WaitStep, BlockStep)) and not (step.step.if_ or step.step.branches)


def _ends(spans: Mapping[str, float], needs: Mapping[str, Iterable[str]]) -> dict[str, float]:
    """When each step ends, in an order that never waits for what comes later."""
    left = {key: {need for need in found if need in needs and need != key} for key, found in needs.items()}
    waiting: dict[str, list[str]] = {}
    for key, found in left.items():
        for need in found:
            waiting.setdefault(need, []).append(key)
    ends = {key: spans.get(key, 0.0) for key in needs}
    ready = [key for key, found in left.items() if not found]
    for key in ready:
        for after in waiting.get(key, ()):
            ends[after] = max(ends[after], ends[key] + spans.get(after, 0.0))
            left[after].discard(key)
            if not left[after]:
                ready.append(after)
    return ends


def minutes(value: float) -> str:
    """`14 min` or `2 h 05 min`."""
    whole = round(value)
    return f"{whole} min" if whole < 60 else f"{whole // 60} h {whole % 60:02d} min"


def counted(number: float, what: str) -> str:
    """`1 suite`, `2 suites`."""
    return f"{number:g} {what}" if number == 1 else f"{number:g} {what}s"
