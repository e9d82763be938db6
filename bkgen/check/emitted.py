"""Every suite's pipeline as if all of them ran: planned, built, emitted, verified, written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bkgen.build import Build
from bkgen.buildkite import Item, Pipeline
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import Configuration
from bkgen.decide.facts import Selection, gather
from bkgen.errors import Diagnostic, UserError
from bkgen.generate.phases import build_pods
from bkgen.generate.verification import verified
from bkgen.pipeline.emit import emit
from bkgen.pipeline.encode import encode, escape_interpolation
from bkgen.plan.dependencies import dependency_keys
from bkgen.plan.keys import keyed_steps, suite_key
from bkgen.plan.planned import Plan
from bkgen.plan.planning import make_plan
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite
from bkgen.verify.plugins import NAME, entries
from bkgen.yamlio import Document

_UNKNOWN_DEPENDENCIES = frozenset({"step-unknown-dependency", "depends-on-unknown"})


@dataclass(frozen=True, slots=True)
class Emitted:
    """The pipeline of all suites that can be planned. `whole` says that none had to be left out."""

    plan: Plan | None
    pipeline: Pipeline
    problems: tuple[Diagnostic, ...]
    whole: bool

    @property
    def steps(self) -> int:
        """How many steps were emitted."""
        return sum(len(item.steps) for item in self.pipeline.items)

    @property
    def pods(self) -> int:
        """How many different pods they have."""
        steps = [step for item in self.pipeline.items for step in item.steps]
        return len(
            {
                id(pod)
                for step in steps
                for _, name, pod in entries(step.body)
                if name == NAME and pod is not None
            }
        )


def emit_everything(
    suites: Sequence[Suite], settings: Settings, source: Document, faulty: Iterable[str], *, buildable: bool
) -> Emitted:
    """All of `suites` emitted, but for those whose files are `faulty`, which are planned only.

    `buildable`: the settings have no error, so that a pod can be built from them.
    """
    plan, problems = plan_everything(suites, settings)
    left_out = set(faulty)
    whole = plan is not None and len(plan.suites) == len(suites) and not left_out
    if plan is None or not buildable:
        return Emitted(plan, Pipeline(()), tuple(problems), whole=False)
    plan = plan._replace(suites=tuple(p for p in plan.suites if p.suite.source.file not in left_out))
    pipeline = emit(plan, build_pods(plan, settings), settings)
    loud = tuple(suite._replace(spec=suite.spec.model_copy(update={"silence": {}})) for suite in suites)
    found = verified(pipeline, Configuration(settings, source, loud), Build()) if pipeline.items else ()
    problems += [one for one in found if whole or one.code not in _UNKNOWN_DEPENDENCIES]
    problems += _unwritable(pipeline, {suite.name: suite for suite in suites})
    return Emitted(plan, pipeline, tuple(problems), whole)


def plan_everything(suites: Sequence[Suite], settings: Settings) -> tuple[Plan | None, list[Diagnostic]]:
    """The plan in which every suite runs, and what stood in its way.

    A suite with a fault is left out and the rest is planned again, so that no fault hides another.
    """
    problems: list[Diagnostic] = []
    dangling = _dangling_keys(suites)
    left = list(suites)
    while left:
        names = frozenset(suite.name for suite in left)
        selection = Selection(names, None, forced=True)
        facts = gather(Build(), settings, left, ChangesNotAsked("check looks at everything"), selection)
        try:
            return make_plan(left, facts), problems
        except UserError as error:
            problems += [one for one in error.diagnostics if _is_own(one, dangling)]
            files = {one.position.file for one in error.diagnostics if one.position}
        kept = [suite for suite in left if suite.source.file not in files]
        if len(kept) == len(left):
            return None, problems
        left = kept
    return None, problems


def _dangling_keys(suites: Iterable[Suite]) -> set[str]:
    keys: set[str] = set()
    needed: set[str] = set()
    for suite in suites:
        keys.add(suite_key(suite))
        for item in keyed_steps(suite):
            keys.add(item.key)
            needed.update(dependency_keys(item.step.depends_on))
            for mirror in (getattr(item.step, "mirrors", None) or {}).values():
                needed.update(dependency_keys(mirror.depends_on))
    return needed - keys


def _is_own(diagnostic: Diagnostic, dangling: set[str]) -> bool:
    """Not a mere consequence of a suite having been left out."""
    if diagnostic.code not in _UNKNOWN_DEPENDENCIES:
        return True
    return any(f"'{key}'" in diagnostic.message for key in dangling)


def _unwritable(pipeline: Pipeline, suites: dict[str, Suite]) -> Iterator[Diagnostic]:
    """What the agent could not read, or could not be kept from filling in."""
    for item in pipeline.items:
        for one in _encoding_faults(item, escaped=pipeline.interpolate and not item.interpolate):
            path = item.steps[0].path if item.steps else ()
            yield one._replace(position=suites[item.suite].source.position(path))


def _encoding_faults(item: Item, *, escaped: bool) -> tuple[Diagnostic, ...]:
    try:
        encode(item.body)
        if escaped:
            escape_interpolation(item.body)
    except UserError as error:
        return error.diagnostics
    return ()
