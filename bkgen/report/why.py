"""One decision whole: every rule in order, the deciding one, its place, and what would turn it round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bkgen.config.load import SETTINGS_FILE, Configuration
from bkgen.decide.decision import Decision, Evidence, RuleOutcome
from bkgen.decide.rules import Subject, explain
from bkgen.errors import Position, dotted
from bkgen.plan.keys import keyed_steps
from bkgen.plan.planned import Plan, PlannedStep, PlannedSuite
from bkgen.plan.planning import subjects
from bkgen.spec.references import Path
from bkgen.spec.suite import Suite


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field stands; `position` is None for a default that no file says."""

    field: str
    position: Position | None

    def __str__(self) -> str:
        if self.position is None:
            return f"{self.field}: the default, which {SETTINGS_FILE} does not change"
        return f"{self.position}: {self.field}"


@dataclass(frozen=True, slots=True)
class Level:
    """One `when` of the chain that applies: the file's, the group's, the step's, the mirror's."""

    name: str
    place: Place
    says: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Wanter:
    """A step that wanted the one before it, and where it says so."""

    name: str
    reason: str
    place: Place


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one suite or step.

    `asked` is what the rules alone say; `decision` is the plan's last word, after dependencies.
    """

    name: str
    suite: str
    key: str
    decision: Decision
    asked: Decision
    place: Place | None
    rules: tuple[RuleOutcome, ...]
    chain: tuple[Level, ...]
    wanted_by: tuple[Wanter, ...]
    steps: tuple[PlannedStep, ...]

    @property
    def is_plans(self) -> bool:
        """The plan decided otherwise than the rules, or for another reason."""
        return self.decision != self.asked


def explanation(plan: Plan, configuration: Configuration, name: str) -> Explanation:
    """Why `SUITE` or `SUITE/STEP` of `plan` is run or skipped. The name must be known."""
    suite_name, _, key = name.strip("/").partition("/")
    planned = next(one for one in plan.suites if one.suite.name == suite_name)
    keyed = keyed_steps(planned.suite)
    whole = Subject(suite_name, planned.suite.source.file, ((("when",), planned.suite.spec.when),))
    step = next((step for step in planned.steps if step.key == key), None)
    subject = whole if step is None else subjects(planned.suite, keyed)[key]
    decision = planned.decision if step is None else step.decision
    rules = explain(subject, plan.facts)
    asked = next(outcome.decision for outcome in rules if outcome.decision is not None)
    return Explanation(
        name=f"{suite_name}/{key}" if key else suite_name,
        suite=suite_name,
        key=key or planned.key,
        decision=decision,
        asked=asked,
        place=_place(decision, configuration, step),
        rules=rules,
        chain=tuple(_chain(planned.suite, subject, step)),
        wanted_by=tuple(_wanters(plan, step or _pulled(planned), configuration)),
        steps=planned.steps if step is None else (),
    )


def _pulled(planned: PlannedSuite) -> PlannedStep | None:
    if planned.decision.rule != "needed":
        return None
    return next((step for step in planned.steps if step.decision == planned.decision), None)


def _place(decision: Decision, configuration: Configuration, step: PlannedStep | None) -> Place | None:
    evidence = decision.evidence
    field = evidence.field
    if not field:
        return None
    if evidence.source == SETTINGS_FILE:
        # A `when` that says nothing about forks leaves the word to the settings.
        field = ("forks", "run") if field[-1] == "forks" else (*field, *_index(decision, configuration))
        position = _settings_position(configuration, field)
    elif decision.rule == "dependency-refused" and step is not None:
        field = (*step.path, *field)
        position = step.suite.source.position(field)
    else:
        position = _suite_position(configuration, evidence)
    return Place(dotted(field), position)


def _index(decision: Decision, configuration: Configuration) -> Path:
    """Which of the settings' patterns decided."""
    force_run = configuration.settings.filter.force_run
    return (force_run.index(decision.evidence.pattern),) if decision.evidence.pattern in force_run else ()


def _settings_position(configuration: Configuration, field: Path) -> Position | None:
    value: Any = configuration.settings_source.value
    for part in field:
        if isinstance(value, Mapping):
            if part not in value:
                return None
            value = value[part]
    return configuration.settings_source.position(field)


def _suite_position(configuration: Configuration, evidence: Evidence) -> Position:
    sources = {suite.source.file: suite.source for suite in configuration.suites}
    return sources[evidence.source].position(evidence.field)


def _chain(suite: Suite, subject: Subject, step: PlannedStep | None) -> Iterable[Level]:
    inside_group = step is not None and step.path[2:3] == ("steps",)
    for path, when in subject.chain:
        says = {
            name: getattr(when, name) for name in type(when).model_fields if name in when.model_fields_set
        }
        if not says:
            continue
        name = "step"
        if len(path) == 1:
            name = "file"
        elif "mirrors" in path:
            name = "mirror"
        elif inside_group and len(path) == 3:
            name = "group"
        yield Level(name, Place(dotted(path), suite.source.position(path)), says)


def _wanters(plan: Plan, step: PlannedStep | None, configuration: Configuration) -> Iterable[Wanter]:
    every = {(one.suite.source.file, one.path): one for suite in plan.suites for one in suite.steps}
    while step is not None and step.decision.rule == "needed":
        evidence = step.decision.evidence
        by = every[evidence.source, evidence.field[:-1]]
        place = Place(dotted(evidence.field), _suite_position(configuration, evidence))
        yield Wanter(by.name, by.decision.reason, place)
        step = by


def why_json(told: Explanation) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": told.name,
        # The words of `plan --json`.
        "suite": told.suite,
        "key": told.key,
        "decision": {**told.decision.as_json(), "place": _place_json(told.place)},
        "decided_by": "plan" if told.is_plans else "rules",
        "rules": [
            {
                "rule": outcome.rule,
                "title": outcome.title,
                "note": outcome.note,
                "decision": outcome.decision.as_json() if outcome.decision else None,
            }
            for outcome in told.rules
        ],
        "when": [
            {"level": level.name, "place": _place_json(level.place), "says": level.says}
            for level in told.chain
        ],
        "wanted_by": [
            {"name": by.name, "reason": by.reason, "place": _place_json(by.place)} for by in told.wanted_by
        ],
        "steps": [{"key": step.key, "decision": step.decision.as_json()} for step in told.steps],
    }


def _place_json(place: Place | None) -> dict[str, object] | None:
    if place is None:
        return None
    position = place.position
    return {
        "field": place.field,
        "file": position.file if position else SETTINGS_FILE,
        "line": position.line if position else None,
        "column": position.column if position else None,
    }


def listed(value: object) -> str:
    """A value of a `when` as people read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return (
        ", ".join(map(str, value))
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )
