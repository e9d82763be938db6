"""Decisions for every suite and step, with what they need pulled in, in a stable order."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from bkgen.decide.decision import Decision, Evidence
from bkgen.decide.facts import Facts
from bkgen.decide.rules import Subject, decide
from bkgen.plan.closing import closed_over
from bkgen.plan.dependencies import edges_of, owners_of
from bkgen.plan.keys import Keyed, keyed_steps, suite_key
from bkgen.plan.planned import Plan, PlannedStep, PlannedSuite
from bkgen.plan.trimming import without_idle
from bkgen.plan.unclaimed import with_unclaimed
from bkgen.spec.merge import merged_pod
from bkgen.spec.references import Path
from bkgen.spec.steps import AnyStep, CommandStep, GroupStep, Mirror, SelectableStep, TriggerStep
from bkgen.spec.suite import Suite
from bkgen.spec.when import When
from bkgen.spec.width import gpus, jobs


def make_plan(suites: Sequence[Suite], facts: Facts) -> Plan:
    """The plan of a build. UserError for key clashes, unknown dependencies and cycles, all at once."""
    drafts = {suite.name: keyed_steps(suite) for suite in suites}
    owners = owners_of(suites, drafts)
    edges = edges_of(suites, drafts, owners)
    asked = {suite.name: subjects(suite, drafts[suite.name]) for suite in suites}
    facts = with_unclaimed(facts, (one for named in asked.values() for one in named.values()))
    decided = {
        suite.name: _decided(suite, drafts[suite.name], asked[suite.name], facts, edges) for suite in suites
    }
    closed = closed_over({step.key: step for steps in decided.values() for step in steps}, edges)
    needed = frozenset(need for step in closed.values() if step.decision.runs for need in step.needs)
    planned = [
        _planned(suite, [closed[step.key] for step in decided[suite.name]], needed) for suite in suites
    ]
    return Plan(tuple(sorted(planned, key=_suite_order)), facts)


def _suite_order(planned: PlannedSuite) -> tuple[object, ...]:
    selected = planned.selected
    most = max((step.gpus for step in selected), default=0)
    longest = max((step.minutes or 0.0 for step in selected), default=0.0)
    return (not planned.decision.runs, -most, -longest, planned.suite.name)


def subject_of(
    suite: Suite, item_path: Path, step: AnyStep, group: When | None, mirror: Mirror | None
) -> Subject:
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
        mirror = (
            item.step.mirrors[item.mirror]
            if item.mirror and isinstance(item.step, CommandStep) and item.step.mirrors
            else None
        )
        found[item.key] = subject_of(suite, item.path, item.step, groups.get(item.group or ""), mirror)
    return found


def _decided(
    suite: Suite,
    keyed: tuple[Keyed, ...],
    asked: Mapping[str, Subject],
    facts: Facts,
    edges: Mapping[str, tuple[str, ...]],
) -> list[PlannedStep]:
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
    minutes = (
        mirror.expected_minutes if mirror is not None and mirror.expected_minutes else step.expected_minutes
    )
    return PlannedStep(
        item.key,
        suite,
        item.path,
        step,
        item.group,
        decision,
        needs,
        item.mirror,
        pod,
        jobs(step),
        gpus(step, pod),
        minutes,
    )


def _planned(suite: Suite, steps: list[PlannedStep], needed: Collection[str]) -> PlannedSuite:
    kept = without_idle(steps, needed)
    # A gate that another suite waits for is work enough.
    work = [step for step in kept if step.is_work or step.key in needed]
    running = [step for step in work if step.decision.runs]
    if running:
        own = [step for step in running if step.decision.rule != "needed"]
        decision = (own or running)[0].decision
    elif work:
        decision = work[0].decision
    else:
        decision = kept[0].decision
    return PlannedSuite(suite, suite_key(suite), decision, tuple(kept))
