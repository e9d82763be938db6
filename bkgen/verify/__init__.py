"""Does Buildkite take these steps, does Kubernetes take their pods, and does the test run as asked?

Steps are the plain maps that go into the upload. Nothing here reads a file, a variable or a cluster.

    verify_steps   a whole build, with the rules across steps
    verify_step    one step (a group with its steps)
    verify_pod     the map of one `kubernetes` plugin

Which rules there are, with examples: `bkgen.verify.catalogue.rules()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bkgen.verify.attributes import attributes, kind_of
from bkgen.verify.examine import Examined, Examiner, examine
from bkgen.verify.finding import DEFAULT_RULES, Finding, Path, PodRules, error
from bkgen.verify.pipeline import IndexPath, across_steps
from bkgen.verify.plugins import NAME, entries, others_size, plugins
from bkgen.verify.step import STEP_RULES, Context, commands, tags_of
from bkgen.verify.values import as_list, as_map
from bkgen.verify.width import job_count

__all__ = [
    "Finding",
    "IndexPath",
    "Path",
    "PodRules",
    "job_count",
    "verify_pod",
    "verify_step",
    "verify_steps",
]


def verify_pod(plugin: Mapping[str, Any], rules: PodRules = DEFAULT_RULES) -> tuple[Finding, ...]:
    """Findings about the map of a `kubernetes` plugin; paths start in that map."""
    return examine(plugin, rules).findings


def verify_step(
    step: Mapping[str, Any] | str, rules: PodRules = DEFAULT_RULES, *, interpolate: bool = False
) -> tuple[Finding, ...]:
    """Findings about one step, and about the steps of a group; paths start in `step`.

    `interpolate`: the step comes from a file whose `$VAR` the upload fills in, and is not escaped yet.
    """
    examiner = Examiner(rules, interpolate=interpolate)
    found = list(_verify(step, examiner))
    for index, inner in enumerate(_inner(step)):
        found += [one.below(("steps", index)) for one in _verify(inner, examiner, in_group=True)]
    return tuple(found)


def verify_steps(
    steps: Sequence[Mapping[str, Any] | str],
    rules: PodRules = DEFAULT_RULES,
    *,
    interpolate: bool | Sequence[bool] = False,
) -> dict[IndexPath, tuple[Finding, ...]]:
    """Findings about all steps of a build, by the place of the step; paths start in that step.

    `(3,)` is the fourth step, `(3, 0)` the first step of the group there, `()` the build as a whole. Steps
    without findings are left out. `interpolate` may be given for each step of the list. Equal pods are
    examined once, cheapest where they are one object.
    """
    flags = [interpolate] * len(steps) if isinstance(interpolate, bool) else interpolate
    examiners = {flag: Examiner(rules, interpolate=flag) for flag in (False, True)}
    found: dict[IndexPath, list[Finding]] = {}
    for index, (step, flag) in enumerate(zip(steps, flags, strict=True)):
        for one in _verify(step, examiners[flag]):
            found.setdefault((index,), []).append(one)
        for place, inner in enumerate(_inner(step)):
            for one in _verify(inner, examiners[flag], in_group=True):
                found.setdefault((index, place), []).append(one)
    for node, one in across_steps(steps, rules):
        found.setdefault(node, []).append(one)
    return {node: tuple(dict.fromkeys(found[node])) for node in sorted(found)}


def _inner(step: object) -> Sequence[Any]:
    return as_list(step.get("steps")) if isinstance(step, dict) else ()


def _verify(step: Any, examiner: Examiner, *, in_group: bool = False) -> list[Finding]:
    kind = kind_of(step) if isinstance(step, (str, dict)) else None
    if kind is None:
        message = "nobody can tell what kind of step this is"
        return [error("step-kind", (), message, "a step has command, wait, block, input, trigger or group")]
    if isinstance(step, str):
        return []
    found = list(attributes(step, kind, interpolate=examiner.interpolate))
    if kind == "group":
        found += _group(step, in_group=in_group)
    written = entries(step) if "plugins" in step else []
    if "plugins" in step:
        found += plugins(step, written, interpolate=examiner.interpolate, fork=examiner.rules.fork)
    pods = [(path, examiner.of(config)) for path, name, config in written if name == NAME]
    for path, pod in pods:
        for one in pod.findings:
            # A resource class gives the containers what it says, after all that is written here.
            if one.code != "pod-memory-limit" or "resource_class" not in tags_of(step):
                found.append(one.below(path))
    seen = [pod for _, pod in pods]
    size = others_size(written) if len(written) > len(seen) else 0
    context = Context(examiner.rules, examiner.interpolate, seen, size, examiner.retries)
    for marks, rule in STEP_RULES:
        if marks is None or not marks.isdisjoint(step):
            found += rule(step, context)
    if kind == "command":
        found += _nothing_to_run(step, written, pods)
    return found


def _group(step: Mapping[str, Any], *, in_group: bool) -> Iterator[Finding]:
    if in_group:
        yield error("group-nested", ("group",), "a group cannot hold a group", "move its steps up")
    if not step.get("steps"):
        yield error("group-empty", (), "a group needs at least one step", "add steps, or take the group out")


def _nothing_to_run(
    step: Mapping[str, Any], found: list[tuple[Path, str, Any]], pods: list[tuple[Path, Examined]]
) -> Iterator[Finding]:
    """Other plugins can run something by themselves, and so can a template; the bare plugin cannot."""
    only_pods = len(found) == len(pods)
    if not only_pods or any(line.strip() for _, line in commands(step)):
        return
    if any(not pod.runs_command for _, pod in pods) or any(
        as_map(config).get("podTemplate") for _, _, config in found
    ):
        return
    message = "the step has no command, so its job does nothing and passes"
    yield error("step-without-command", (), message, "add command")
