"""Decisions for every suite and step, with what they need pulled in, in a stable order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bkgen.decide.decision import Decision, Evidence
from bkgen.decide.facts import Facts
from bkgen.decide.rules import Subject, decide
from bkgen.errors import Diagnostic, UserError, did_you_mean
from bkgen.graph import closure, find_cycle
from bkgen.plan.keys import Keyed, is_group, key_problems, keyed_steps, suite_key
from bkgen.spec.merge import MergedPod, merged_pod
from bkgen.spec.references import Path
from bkgen.spec.steps import AnyStep, CommandStep, GroupStep, Mirror, SelectableStep, TriggerStep, WaitStep, When
from bkgen.spec.suite import Suite
from bkgen.spec.width import gpus, jobs


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step (or mirror of one) with its decision and its cost.

    `minutes` is the author's expectation for one job; `gpus` is what one job holds; `needs` are the
    keys it depends on, its group's included.
    """

    key: str
    suite: Suite
    path: Path
    step: AnyStep
    group: str | None
    decision: Decision
    needs: tuple[str, ...] = ()
    mirror: str | None = None
    pod: MergedPod = None
    jobs: int = 1
    gpus: int = 0
    minutes: float | None = None

    @property
    def mirror_spec(self) -> Mirror | None:
        """What the author wrote for this mirror."""
        if self.mirror is None or not isinstance(self.step, CommandStep) or self.step.mirrors is None:
            return None
        return self.step.mirrors[self.mirror]

    @property
    def is_work(self) -> bool:
        """A command or trigger: something that is chosen for its own sake."""
        return isinstance(self.step, (CommandStep, TriggerStep))

    @property
    def gpu_minutes(self) -> float:
        """GPUs times minutes times jobs."""
        return self.gpus * self.jobs * (self.minutes or 0.0)

    @property
    def name(self) -> str:
        """`suite/key`, as the command line takes it."""
        return f"{self.suite.name}/{self.key}"


@dataclass(frozen=True, slots=True)
class PlannedSuite:
    """A suite with its decision and all its steps in file order, the skipped ones included."""

    suite: Suite
    key: str
    decision: Decision
    steps: tuple[PlannedStep, ...]

    @property
    def selected(self) -> tuple[PlannedStep, ...]:
        """The steps that run."""
        return tuple(step for step in self.steps if step.decision.runs)


@dataclass(frozen=True, slots=True)
class Plan:
    """All suites, those that run first and in upload order; the rest by name."""

    suites: tuple[PlannedSuite, ...]
    facts: Facts

    @property
    def selected(self) -> tuple[PlannedSuite, ...]:
        """The suites that run."""
        return tuple(planned for planned in self.suites if planned.decision.runs)

    @property
    def is_empty(self) -> bool:
        """Nothing runs."""
        return not any(planned.decision.runs for planned in self.suites)


def make_plan(suites: Sequence[Suite], facts: Facts) -> Plan:
    """The plan of a build. UserError for key clashes, unknown dependencies and cycles, all at once."""
    drafts = {suite.name: keyed_steps(suite) for suite in suites}
    owners = _owners(suites, drafts)
    edges = _edges(suites, drafts, owners)
    decided = {suite.name: _decided(suite, drafts[suite.name], facts, edges) for suite in suites}
    closed = _closed({step.key: step for steps in decided.values() for step in steps}, edges, owners)
    planned = [_planned(suite, [closed[step.key] for step in decided[suite.name]]) for suite in suites]
    return Plan(tuple(sorted(planned, key=_suite_order)), facts)


def _suite_order(planned: PlannedSuite) -> tuple[object, ...]:
    selected = planned.selected
    most = max((step.gpus for step in selected), default=0)
    longest = max((step.minutes or 0.0 for step in selected), default=0.0)
    return (not planned.decision.runs, -most, -longest, planned.suite.name)


# -- keys and dependencies ---------------------------------------------------------------------------------


def _owners(suites: Iterable[Suite], drafts: Mapping[str, tuple[Keyed, ...]]) -> dict[str, tuple[Suite, Keyed | None]]:
    owners: dict[str, tuple[Suite, Keyed | None]] = {}
    problems: list[Diagnostic] = []
    for suite in suites:
        keyed = drafts[suite.name]
        if any(item.step.own_key or item.mirror for item in keyed):
            problems += key_problems(suite, keyed)
        whole: list[Keyed | None] = [None] if is_group(suite) else []
        for item in [*whole, *keyed]:
            key = suite_key(suite) if item is None else item.key
            if key in owners:
                problems.append(_clash(key, suite, item, *owners[key]))
            else:
                owners[key] = (suite, item)
    if problems:
        raise UserError(problems)
    return owners


def _clash(key: str, suite: Suite, item: Keyed | None, other: Suite, other_item: Keyed | None) -> Diagnostic:
    first = other.source.position(other_item.path if other_item else ())
    return Diagnostic(
        "step-key-twice",
        f"the key '{key}' is taken by {first}",
        "give one of the two steps a `key` of its own, or rename a suite",
        suite.source.position(item.path if item else ()),
        "key",
    )


def _depends_on(item: Keyed) -> tuple[Path, object]:
    if item.mirror is not None and isinstance(item.step, CommandStep) and item.step.mirrors is not None:
        mirror = item.step.mirrors[item.mirror]
        if "depends_on" in mirror.model_fields_set:
            return (*item.path, "depends_on"), mirror.depends_on
        return (*item.path[:-2], "depends_on"), item.step.depends_on
    return (*item.path, "depends_on"), item.step.depends_on


def dependency_keys(depends_on: object) -> list[str]:
    """The keys in any of Buildkite's forms of `depends_on`."""
    if depends_on is None:
        return []
    if isinstance(depends_on, str):
        return [depends_on]
    return [d if isinstance(d, str) else d.get("step", "") for d in depends_on]  # type: ignore[attr-defined]


def _edges(
    suites: Iterable[Suite], drafts: Mapping[str, tuple[Keyed, ...]], owners: Mapping[str, object]
) -> dict[str, tuple[str, ...]]:
    edges: dict[str, tuple[str, ...]] = {}
    problems: list[Diagnostic] = []
    for suite in suites:
        by_group: dict[str, list[str]] = {}
        whole = suite_key(suite)
        for item in drafts[suite.name]:
            path, depends_on = _depends_on(item)
            needs = dependency_keys(depends_on)
            for index, key in enumerate(needs):
                if key not in owners:
                    problems.append(_dangling(suite, (*path, index), key, owners))
            if item.group is not None:
                by_group.setdefault(item.group, []).append(item.key)
                # A group's own dependencies hold for everything in it.
                needs += [key for key in edges.get(item.group, ()) if item.group != whole]
            edges[item.key] = tuple(dict.fromkeys(needs))
        for group, members in by_group.items():
            edges[f"{group}\0members"] = tuple(members)
    if problems:
        raise UserError(problems)
    _refuse_cycles(edges, owners, suites)
    return edges


def _dangling(suite: Suite, path: Path, key: str, known: Mapping[str, object]) -> Diagnostic:
    return Diagnostic(
        "step-unknown-dependency",
        f"no step has the key '{key}'",
        did_you_mean(key, known),
        suite.source.position(path, of_key=False),
        ".".join(map(str, path)),
    )


def _refuse_cycles(
    edges: Mapping[str, tuple[str, ...]], owners: Mapping[str, object], suites: Iterable[Suite]
) -> None:
    if not any(edges[key] for key in edges if "\0" not in key):
        return
    # Depending on a group is depending on everything in it.
    flat = {
        key: tuple(m for need in needs for m in (need, *edges.get(f"{need}\0members", ())) if m != key)
        for key, needs in edges.items()
        if "\0" not in key
    }
    own = next((key for key, needs in edges.items() if key in needs), None)
    cycle = [own, own] if own else find_cycle(flat)
    if cycle is None:
        return
    files = {key: owner[0].source.file for key, owner in owners.items()}  # type: ignore[index]
    named = ", ".join(dict.fromkeys(files[key] for key in cycle))
    start = next(suite for suite in suites if suite.source.file == files[cycle[0]])
    path = owners[cycle[0]][1].path  # type: ignore[index]
    raise UserError.single(
        "step-cycle",
        f"these steps wait for each other: {' → '.join(cycle)} ({named})",
        "remove one of the depends_on",
        position=start.source.position((*path, "depends_on")),
        field="depends_on",
    )


# -- decisions -----------------------------------------------------------------------------------------------


def subject_of(suite: Suite, item_path: Path, step: AnyStep, group: When | None, mirror: Mirror | None) -> Subject:
    """What is asked about one step: the chain of `when`s from the file down to the step or its mirror."""
    chain: list[tuple[Path, When]] = [(("when",), suite.spec.when)]
    if group is not None:
        chain.append(((*item_path[:2], "when"), group))
    step_path = item_path[:-2] if mirror is not None else item_path
    if isinstance(step, SelectableStep) and step.when is not None:
        chain.append(((*step_path, "when"), step.when))
    if mirror is not None and mirror.when is not None:
        chain.append(((*item_path, "when"), mirror.when))
    return Subject(suite.name, suite.source.file, tuple(chain))


def subjects(suite: Suite, keyed: Iterable[Keyed]) -> dict[str, Subject]:
    """The subject of every key of a suite."""
    groups: dict[str, When | None] = {}
    found: dict[str, Subject] = {}
    for item in keyed:
        if isinstance(item.step, GroupStep):
            groups[item.key] = item.step.when
        mirror = item.step.mirrors[item.mirror] if item.mirror and isinstance(item.step, CommandStep) and item.step.mirrors else None
        found[item.key] = subject_of(suite, item.path, item.step, groups.get(item.group or ""), mirror)
    return found


def _decided(
    suite: Suite, keyed: tuple[Keyed, ...], facts: Facts, edges: Mapping[str, tuple[str, ...]]
) -> list[PlannedStep]:
    asked = subjects(suite, keyed)
    whole = Subject(suite.name, suite.source.file, ((("when",), suite.spec.when),))
    default = decide(whole, facts)
    wanted = (facts.selection.steps or {}).get(suite.name)
    steps = []
    for item in keyed:
        decision = default if len(asked[item.key].chain) == 1 else decide(asked[item.key], facts)
        if wanted and item.key not in wanted and isinstance(item.step, (CommandStep, TriggerStep)):
            decision = _not_this_step(item.key, wanted)
        steps.append(_costed(suite, item, decision, edges.get(item.key, ())))
    return steps


def _not_this_step(key: str, wanted: Iterable[str]) -> Decision:
    return Decision(
        "SKIP",
        "not-named",
        f"only {', '.join(sorted(wanted))} was asked for",
        Evidence(source="the command line or BKGEN_ONLY"),
        f"name '{key}' as well, or name the whole suite",
    )


def _costed(suite: Suite, item: Keyed, decision: Decision, needs: tuple[str, ...]) -> PlannedStep:
    step = item.step
    if not isinstance(step, CommandStep):
        return PlannedStep(item.key, suite, item.path, step, item.group, decision, needs)
    mirror = step.mirrors[item.mirror] if item.mirror is not None and step.mirrors else None
    pod = merged_pod(suite.spec, step, mirror)
    minutes = mirror.expected_minutes if mirror is not None and mirror.expected_minutes else step.expected_minutes
    return PlannedStep(
        item.key, suite, item.path, step, item.group, decision, needs, item.mirror, pod, jobs(step), gpus(step, pod), minutes
    )


def _closed(
    steps: dict[str, PlannedStep], edges: Mapping[str, tuple[str, ...]], owners: Mapping[str, object]
) -> dict[str, PlannedStep]:
    if not any(step.needs for step in steps.values()):
        return steps
    flat = {
        key: tuple(
            member
            for need in step.needs
            for member in (*edges.get(f"{need}\0members", ()), *((need,) if need in steps else ()))
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
            closed[by] = replace(closed[by], decision=_refused(closed[key]))
    for key, by in wanted.items():
        if not closed[key].decision.runs:
            closed[key] = replace(closed[key], decision=_needed(closed[key], closed[by]))
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


def _planned(suite: Suite, steps: list[PlannedStep]) -> PlannedSuite:
    kept = _without_idle(steps)
    work = [step for step in kept if step.is_work]
    running = [step for step in work if step.decision.runs]
    if running:
        own = [step for step in running if step.decision.rule != "needed"]
        decision = (own or running)[0].decision
    elif work:
        decision = work[0].decision
    else:
        decision = steps[0].decision
    return PlannedSuite(suite, suite_key(suite), decision, tuple(kept))


def _without_idle(steps: list[PlannedStep]) -> list[PlannedStep]:
    """Waits, blocks and groups have no work of their own: they go where nothing is left around them."""
    kept = list(steps)
    containers = dict.fromkeys(step.group for step in steps)
    for container in containers:
        _trim(kept, [i for i, step in enumerate(kept) if step.group == container])
    for index, step in enumerate(kept):
        if isinstance(step.step, GroupStep):
            inside = [s for s in kept if s.group == step.key and s.is_work and s.decision.runs]
            if not inside:
                kept[index] = _idle(step)
            elif not step.decision.runs:
                kept[index] = replace(step, decision=inside[0].decision)
    return kept


def _trim(steps: list[PlannedStep], indexes: list[int]) -> None:
    def works(index: int) -> bool:
        step = steps[index]
        if isinstance(step.step, GroupStep):
            return any(s.group == step.key and s.is_work and s.decision.runs for s in steps)
        return step.is_work and step.decision.runs

    for place, index in enumerate(indexes):
        step = steps[index]
        if step.is_work or isinstance(step.step, GroupStep):
            continue
        after = next((i for i in indexes[place + 1 :] if works(i)), None)
        before = any(works(i) for i in indexes[:place])
        last = place + 1 < len(indexes) and _is_wait(steps[indexes[place + 1]]) and _is_wait(step)
        if after is None or (isinstance(step.step, WaitStep) and (not before or last)):
            steps[index] = _idle(step)
        elif not step.decision.runs and getattr(step.step, "when", None) is None:
            steps[index] = replace(step, decision=steps[after].decision)


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
    return replace(step, decision=decision)
