"""The numbers of a plan: jobs, GPU minutes planned and saved, the longest path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bkgen.plan.planned import Plan, PlannedStep


@dataclass(frozen=True, slots=True)
class Figures:
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
        longest_path_minutes=_longest_path(running),
        without_expectation=sum(step.minutes is None and step.gpus > 0 for step in running),
    )


def _longest_path(steps: Iterable[PlannedStep]) -> float:
    by_key = {step.key: step for step in steps}
    members: dict[str, list[str]] = {}
    for step in by_key.values():
        if step.group is not None:
            members.setdefault(step.group, []).append(step.key)
    ends: dict[str, float] = {}

    def end(key: str) -> float:
        if key not in ends:
            step = by_key[key]
            needs = [name for need in step.needs for name in (members.get(need) or [need]) if name in by_key]
            ends[key] = max((end(name) for name in needs if name != key), default=0.0) + (step.minutes or 0.0)
        return ends[key]

    return max((end(key) for key in by_key), default=0.0)


def minutes(value: float) -> str:
    """`14 min` or `2 h 05 min`."""
    whole = round(value)
    return f"{whole} min" if whole < 60 else f"{whole // 60} h {whole % 60:02d} min"
