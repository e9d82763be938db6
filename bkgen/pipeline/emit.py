"""The selected steps of a plan as the items of one pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bkgen.buildkite import BuiltPod, EmittedStep, Item, Pipeline
from bkgen.pipeline.steps import emitted_step
from bkgen.plan.keys import is_group
from bkgen.plan.planned import Plan, PlannedStep, PlannedSuite
from bkgen.spec.settings import Settings
from bkgen.spec.steps import BlockStep, GroupStep, WaitStep


def emit(plan: Plan, pods: Mapping[str, BuiltPod], settings: Settings) -> Pipeline:
    """The pipeline of `plan`; `pods` holds the built pod of each step by key. No selected step is lost."""
    selected = plan.selected
    items: list[Item] = []
    notify: list[Any] = []
    for planned in selected:
        own = _items(planned, pods, settings)
        # In another upload a wait or a block holds back nothing of this one; a dependency does.
        alone = len(selected) == 1 and sum(item.jobs for item in own) <= settings.limits.jobs_per_upload
        items += own if alone else _fenced(own, planned)
        notify += [entry for entry in planned.suite.spec.notify or () if entry not in notify]
    _keep_every_step(selected, items)
    return Pipeline(tuple(items), tuple(notify))


def _items(planned: PlannedSuite, pods: Mapping[str, BuiltPod], settings: Settings) -> list[Item]:
    selected = planned.selected
    bodies = {step.key: emitted_step(step, pods.get(step.key), settings) for step in selected}
    interpolate = planned.suite.spec.interpolate
    places: dict[str | None, list[PlannedStep]] = {}
    for step in selected:
        places.setdefault(step.group, []).append(step)
    if is_group(planned.suite):
        inside = _ordered(places.get(planned.key, []))
        body: dict[str, Any] = {"group": planned.suite.name, "key": planned.key}
        return [_group(planned.key, body, inside, bodies, interpolate)]
    items = []
    for step in _ordered(places.get(None, [])):
        if isinstance(step.step, GroupStep):
            inside = _ordered(places.get(step.key, []))
            items.append(_group(step.key, bodies[step.key], inside, bodies, interpolate, head=step))
        else:
            items.append(_single(step, bodies[step.key], interpolate))
    return items


def _ordered(steps: Iterable[PlannedStep]) -> list[PlannedStep]:
    """More GPUs first, then longer ones, between waits and blocks, which keep their places."""
    result: list[PlannedStep] = []
    segment: list[PlannedStep] = []
    for step in steps:
        if step.is_work or isinstance(step.step, GroupStep):
            segment.append(step)
        else:
            result += [*_by_cost(segment), step]
            segment = []
    return result + _by_cost(segment)


def _by_cost(steps: list[PlannedStep]) -> list[PlannedStep]:
    ordered = sorted(steps, key=lambda step: (-step.gpus, -(step.minutes or 0.0)))
    # Buildkite starts the jobs of one concurrency group in the order in which they were made.
    queues: dict[str, list[PlannedStep]] = {}
    for step in steps:
        if group := getattr(step.step, "concurrency_group", None):
            queues.setdefault(group, []).append(step)
    for group, queue in queues.items():
        places = [
            i for i, step in enumerate(ordered) if getattr(step.step, "concurrency_group", None) == group
        ]
        for place, step in zip(places, queue, strict=True):
            ordered[place] = step
    return ordered


def _single(step: PlannedStep, body: dict[str, Any], interpolate: bool) -> Item:
    emitted = EmittedStep(step.key, body, step.suite.name, step.path)
    keys = frozenset({step.key})
    return Item(
        step.key, body, step.suite.name, (emitted,), step.jobs, keys, frozenset(step.needs), interpolate
    )


def _group(
    key: str,
    body: dict[str, Any],
    inside: list[PlannedStep],
    bodies: Mapping[str, dict[str, Any]],
    interpolate: bool,
    head: PlannedStep | None = None,
) -> Item:
    body["steps"] = [bodies[step.key] for step in inside]
    emitted = [EmittedStep(step.key, bodies[step.key], step.suite.name, step.path) for step in inside]
    if head is not None:
        emitted.insert(0, EmittedStep(key, body, head.suite.name, head.path))
    keys = frozenset({key, *(step.key for step in inside)})
    needs = frozenset(need for step in [*inside, *([head] if head else [])] for need in step.needs) - keys
    jobs = 1 + sum(step.jobs for step in inside)
    suite = (head or inside[0]).suite.name
    return Item(key, body, suite, tuple(emitted), jobs, keys, needs, interpolate)


def _fenced(items: list[Item], planned: PlannedSuite) -> list[Item]:
    """Waits between a suite's own groups, turned into dependencies: they hold back no other suite, and hold
    in other uploads. A wait with a condition cannot be said that way and stays; verify warns of it.
    """
    kinds = {step.key: step.step for step in planned.selected}
    result: list[Item] = []
    before: list[dict[str, Any]] = []
    fence: list[dict[str, Any]] = []
    for item in items:
        step = kinds.get(item.key)
        if isinstance(step, WaitStep) and step.if_ is None and step.branches is None:
            fence = [
                {**entry, "allow_failure": True} if step.continue_on_failure else entry for entry in before
            ]
            continue
        blocks = isinstance(step, BlockStep)
        result.append(_with_dependencies(item, before if blocks else fence))
        if blocks:
            fence = [{"step": item.key}]
        before.append({"step": item.key})
    return result


def _with_dependencies(item: Item, needed: list[dict[str, Any]]) -> Item:
    # A step that names its dependencies, be it none, waits for no wait or block. Source: Buildkite's
    # documentation of `depends_on`.
    if not needed or "depends_on" in item.body:
        return item
    item.body["depends_on"] = list(needed)
    return item._replace(needs=item.needs | {entry["step"] for entry in needed})


def _keep_every_step(selected: Iterable[PlannedSuite], items: Iterable[Item]) -> None:
    # A step that vanishes on the way is a green build that tested nothing.
    planned = {step.key for suite in selected for step in suite.selected if step.is_work}
    emitted = {step.key for item in items for step in item.steps}
    if not planned <= emitted:
        raise AssertionError(f"planned but not emitted: {sorted(planned - emitted)}")
