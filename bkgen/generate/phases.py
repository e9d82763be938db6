"""From a configuration and a change set to verified uploads.

configuration + facts → plan → pods → pipeline → verified → batches
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bkgen.build import Build
from bkgen.buildkite import BuiltPod, Pipeline
from bkgen.changes import Changes
from bkgen.config.load import Configuration
from bkgen.decide.facts import Selection, gather
from bkgen.errors import Diagnostic, UsageError, UserError, did_you_mean, in_reading_order
from bkgen.generate.silence import load_warnings
from bkgen.pipeline.batches import split
from bkgen.pipeline.emit import emit
from bkgen.pipeline.encode import encode, escape_interpolation
from bkgen.plan.keys import keyed_steps
from bkgen.plan.planned import Plan, PlannedStep
from bkgen.plan.planning import make_plan
from bkgen.pods.build import adopt_native, build_pod
from bkgen.spec.merge import native_plugin
from bkgen.spec.pod import Pod
from bkgen.spec.settings import Settings
from bkgen.spec.steps import CommandStep
from bkgen.spec.suite import Suite


class Upload(NamedTuple):
    """One document for one upload: its bytes, whether the agent fills in `$VAR`, and the keys in it."""

    document: bytes
    interpolate: bool
    keys: tuple[str, ...]


class Generation(NamedTuple):
    """Every intermediate value of one run."""

    configuration: Configuration
    plan: Plan
    pipeline: Pipeline
    diagnostics: tuple[Diagnostic, ...]
    uploads: tuple[Upload, ...]


def generate(
    configuration: Configuration, build: Build, changes: Changes, selection: Selection
) -> Generation:
    """The whole way. UserError with all errors of plan and verification."""
    settings = configuration.settings
    facts = gather(build, settings, configuration.suites, changes, selection)
    plan = make_plan(configuration.suites, facts)
    pods = build_pods(plan, settings)
    pipeline = emit(plan, pods, settings)
    found = (*load_warnings(configuration, plan), *_verified(pipeline, configuration, build))
    diagnostics = in_reading_order(found)
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if errors:
        raise UserError(diagnostics)
    uploads = tuple(_upload(batch) for batch in split(pipeline, settings.limits)) if pipeline.items else ()
    return Generation(configuration, plan, pipeline, diagnostics, uploads)


def _verified(pipeline: Pipeline, configuration: Configuration, build: Build) -> tuple[Diagnostic, ...]:
    if not pipeline.items:
        return ()
    # The rules know every shape of a pod; a build that skips everything need not load them.
    from bkgen.generate.verification import verified

    return verified(pipeline, configuration, build)


def build_pods(plan: Plan, settings: Settings) -> dict[str, BuiltPod]:
    """The pod of every selected command step by key; steps with one `pod` share one built object."""
    shared: dict[int, BuiltPod] = {}
    pods: dict[str, BuiltPod] = {}
    for suite in plan.selected:
        for step in suite.selected:
            pod = _pod_of(step, settings, shared)
            if pod is not None:
                pods[step.key] = pod
    return pods


def _pod_of(step: PlannedStep, settings: Settings, shared: dict[int, BuiltPod]) -> BuiltPod | None:
    if not isinstance(step.step, CommandStep):
        return None
    pod = step.pod
    if step.mirror is not None:
        # A mirror is the step on other hardware: its profile is its name; without a pod the queue is left.
        built = build_pod((pod or Pod()).model_copy(update={"profile": step.mirror}), settings)
        return built if pod is not False else BuiltPod(None, built.agents)
    if isinstance(pod, Pod):
        if id(pod) not in shared:
            shared[id(pod)] = build_pod(pod, settings)
        return shared[id(pod)]
    native = native_plugin(step.step)
    if native is None or pod is False:
        return None
    return shared.setdefault(id(native), adopt_native(native))


def _upload(batch: Pipeline) -> Upload:
    interpolate = batch.interpolate
    document = batch.document()
    if interpolate:
        document["steps"] = [
            item.body if item.interpolate else escape_interpolation(item.body) for item in batch.items
        ]
        if "notify" in document:
            document["notify"] = escape_interpolation(document["notify"])
    keys = tuple(step.key for item in batch.items for step in item.steps)
    return Upload(encode(document), interpolate, keys)


def select(names: Sequence[str], suites: Iterable[Suite], *, forced: bool = False) -> Selection:
    """What `SUITE` and `SUITE/STEP` words name. UsageError for one that names nothing."""
    known = {suite.name: suite for suite in suites}
    steps: dict[str, set[str]] = {}
    whole: set[str] = set()
    for name in names:
        suite_name, slash, key = name.strip("/").partition("/")
        if suite_name not in known:
            raise UsageError(
                f"no suite is called '{suite_name}'",
                did_you_mean(suite_name, known, what="suites", none="there is none; `bkgen new` makes one"),
            )
        if not slash:
            whole.add(suite_name)
            continue
        keys = {item.key for item in keyed_steps(known[suite_name])}
        if key not in keys:
            hint = did_you_mean(key, keys, what="steps")
            raise UsageError(f"the suite '{suite_name}' has no step '{key}'", hint)
        steps.setdefault(suite_name, set()).add(key)
    narrowed = {name: frozenset(keys) for name, keys in steps.items() if name not in whole}
    return Selection(frozenset({*whole, *steps}), narrowed or None, forced)


def as_json(value: object) -> str:
    """JSON for programs: stable, readable, newline at the end."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
