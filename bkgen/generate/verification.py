"""What verification found in the emitted steps, said in terms of the files their authors wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bkgen.build import Build
from bkgen.buildkite import EmittedStep, Pipeline
from bkgen.config.load import Configuration
from bkgen.errors import Diagnostic, in_reading_order
from bkgen.generate.places import place_of
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite
from bkgen.verify import Finding, PodRules, verify_steps
from bkgen.verify.finding import DEFAULT_RULES
from bkgen.verify.pod import DEVICE_CLASS_PREFIX
from bkgen.verify.resources import VENDOR_RESOURCES


def pod_rules(settings: Settings, build: Build) -> PodRules:
    """What the settings say that a rule needs to know."""
    profiles = settings.profiles.values()
    return PodRules(
        host_paths=settings.host_paths,
        gpu_resources=tuple(sorted({p.gpu_resource for p in profiles if p.gpu_resource})),
        gpu_claims=tuple(sorted({p.claim_template for p in profiles if p.claim_template})),
        gpus_per_node=_per_node(settings),
        gpu_capacity=_capacity(settings),
        pod_pending_minutes=settings.limits.pod_pending_minutes,
        node_labels=settings.node_labels,
        selector_labels=tuple(sorted({label for p in profiles for label in p.node_selector})),
        queues=tuple(sorted({settings.queue, *(p.queue for p in profiles if p.queue)})),
        controller_tags=_controller_tags(settings),
        jobs_per_upload=settings.limits.jobs_per_upload,
        jobs_per_build=settings.limits.jobs_per_build,
        cuda_images=(*DEFAULT_RULES.cuda_images, *sorted(_cuda_images(settings))),
        local_images=tuple(sorted({p.image for p in profiles if p.image and p.image_pull_policy == "Never"})),
        known_keys=(build.step_key,) if build.step_key else (),
        fork=build.is_fork,
        fork_privileged=settings.forks.privileged,
        fork_secrets=settings.forks.secrets,
    )


def _per_node(settings: Settings) -> dict[str, int]:
    """The largest node of each resource: several profiles may ask for one resource on different nodes."""
    most: dict[str, int] = {}
    for profile in settings.profiles.values():
        if profile.gpu_resource and profile.gpus_per_node:
            most[profile.gpu_resource] = max(profile.gpus_per_node, most.get(profile.gpu_resource, 0))
    return most


def _capacity(settings: Settings) -> dict[str, int]:
    """All devices of a resource, where every profile with that resource says how many it has."""
    counts: dict[str, list[int | None]] = {}
    for profile in settings.profiles.values():
        if profile.gpu_resource:
            counts.setdefault(profile.gpu_resource, []).append(profile.gpus)
    known = {name: [count for count in all_of if count] for name, all_of in counts.items()}
    return {name: sum(some) for name, some in known.items() if len(some) == len(counts[name])}


def _controller_tags(settings: Settings) -> dict[str, dict[str, tuple[str, ...]]]:
    """The tags that profiles with pods ask for, by queue: so its controllers have them."""
    tags: dict[str, dict[str, tuple[str, ...]]] = {}
    for profile in settings.profiles.values():
        if profile.pod and profile.agents:
            of_queue = tags.setdefault(profile.queue or settings.queue, {})
            for key, value in profile.agents.items():
                of_queue[key] = (*of_queue.get(key, ()), value)
    return tags


def _cuda_images(settings: Settings) -> set[str]:
    """Images of profiles whose GPUs are NVIDIA's, or may be: other vendors' runtimes go by no variable."""
    others = tuple(name for name in VENDOR_RESOURCES if not name.startswith("nvidia.com/"))
    return {
        profile.image
        for profile in settings.profiles.values()
        if profile.image
        and profile.gpu_resource
        and profile.gpu_resource not in others
        and not profile.gpu_resource.startswith(DEVICE_CLASS_PREFIX)
    }


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
    return in_reading_order(_said_once(diagnostics))


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
    position, field = place_of(finding.path, base, suite.source, body)
    key = body.get("key")
    named = f"{key}: {field}" if key and field else str(key or field)
    return Diagnostic(finding.code, finding.message, finding.hint, position, named, finding.severity)


def _said_once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """One fault of a pod that many steps share, mirrors for instance, is one, under the first step's key."""
    steps: dict[tuple[object, ...], list[Diagnostic]] = {}
    for one in diagnostics:
        key, _, field = one.field.partition(": ")
        steps.setdefault((one.code, one.message, one.position, field or key), []).append(one)
    merged = []
    for same in steps.values():
        first, more = same[0], len(same) - 1
        key, colon, field = first.field.partition(": ")
        if more and colon:
            count = f"{more} more step{'s' * (more > 1)}"
            first = first._replace(field=f"{key} and {count}: {field}")
        merged.append(first)
    return merged
