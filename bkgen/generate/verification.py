"""What verification found in the emitted steps, said in terms of the files their authors wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bkgen.build import Build
from bkgen.buildkite import EmittedStep, Pipeline
from bkgen.config.load import Configuration
from bkgen.errors import Diagnostic, Position, in_reading_order
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite
from bkgen.verify import Finding, PodRules, verify_steps

_POD_FIELDS = {
    "image": "image", "imagePullPolicy": "image_pull_policy", "securityContext": "privileged",
    "nodeSelector": "node_selector", "tolerations": "tolerations", "runtimeClassName": "runtime_class",
    "serviceAccountName": "service_account", "priorityClassName": "priority_class", "sidecars": "sidecars",
    "checkout": "checkout", "metadata": "queue_name", "jobActiveDeadlineSeconds": "active_deadline_minutes",
}  # fmt: skip
"""Which word of `pod` an emitted field comes from."""


def pod_rules(settings: Settings, build: Build) -> PodRules:
    """What the settings say that a rule needs to know."""
    profiles = settings.profiles.values()
    per_node = {p.gpu_resource: p.gpus_per_node for p in profiles if p.gpu_resource and p.gpus_per_node}
    return PodRules(
        host_paths=settings.host_paths,
        gpu_resources=tuple(sorted({p.gpu_resource for p in profiles if p.gpu_resource})),
        gpus_per_node=per_node,
        jobs_per_upload=settings.limits.jobs_per_upload,
        jobs_per_build=settings.limits.jobs_per_build,
        local_images=tuple(sorted({p.image for p in profiles if p.image and p.image_pull_policy == "Never"})),
        known_keys=(build.step_key,) if build.step_key else (),
        fork=build.is_fork,
        fork_privileged=settings.forks.privileged,
        fork_secrets=settings.forks.secrets,
    )


def verified(pipeline: Pipeline, configuration: Configuration, build: Build) -> tuple[Diagnostic, ...]:
    """Every finding in `pipeline` that its suite has not silenced, in reading order."""
    bodies = [item.body for item in pipeline.items]
    # Each file is judged by its own word on `$`: what is not interpolated is escaped on its way out.
    words = [item.interpolate for item in pipeline.items]
    found = verify_steps(bodies, pod_rules(configuration.settings, build), interpolate=words)
    if not found:
        return ()
    emitted = {id(step.body): step for item in pipeline.items for step in item.steps}
    suites = {suite.name: suite for suite in configuration.suites}
    diagnostics: list[Diagnostic] = []
    for place, findings in found.items():
        body, suite_name = _body_at(pipeline, place)
        step = emitted.get(id(body))
        suite = suites[suite_name]
        for finding in findings:
            if finding.severity == "warning" and finding.code in suite.spec.silence:
                continue
            diagnostics.append(diagnostic_of(finding, suite, step, body))
    return in_reading_order(diagnostics)


def _body_at(pipeline: Pipeline, place: tuple[str | int, ...]) -> tuple[Mapping[str, object], str]:
    numbers = [part for part in place if isinstance(part, int)]
    item = pipeline.items[numbers[0]] if numbers else pipeline.items[0]
    body: Mapping[str, object] = item.body
    for number in numbers[1:]:
        body = body["steps"][number]  # type: ignore[index]
    return body, item.suite


def diagnostic_of(
    finding: Finding, suite: Suite, step: EmittedStep | None, body: Mapping[str, object]
) -> Diagnostic:
    """A finding with the line of the user's file it comes from."""
    base = step.path if step is not None else ()
    position = _position(finding, suite, base)
    key = body.get("key")
    field = ".".join(map(str, finding.path))
    named = f"{key}: {field}" if key and field else str(key or field)
    return Diagnostic(finding.code, finding.message, finding.hint, position, named, finding.severity)


def _position(finding: Finding, suite: Suite, base: tuple[str | int, ...]) -> Position:
    best = suite.source.position(base)
    for candidate in _candidates(finding.path, base):
        position = suite.source.position(candidate)
        parent = suite.source.position(candidate[:-1])
        if position != parent or candidate == ():
            return position
    return best


def _candidates(path: tuple[str | int, ...], base: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    for length in range(len(path), 0, -1):
        yield (*base, *path[:length])
    word = _pod_word(path)
    for pod in ((*base, "pod"), ("pod",)):
        if word:
            yield (*pod, word)
        yield pod


def _pod_word(path: Iterable[str | int]) -> str | None:
    parts = [part for part in path if isinstance(part, str)]
    for part in reversed(parts):
        if part in _POD_FIELDS:
            return _POD_FIELDS[part]
    if "resources" in parts:
        return next((name for name in ("cpu", "memory") if name in parts), "gpus")
    return next((word for part, word in (("env", "env"), ("volumeMounts", "mounts")) if part in parts), None)
