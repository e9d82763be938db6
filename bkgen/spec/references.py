"""Names that must exist: profiles, caches, labels, cadences, retry presets; patterns that can match.

Needs only what users wrote, so it runs on every load: a name nobody knows never reaches a build.
"""

from collections.abc import Iterable, Iterator

from bkgen.errors import Diagnostic, did_you_mean, dotted
from bkgen.globs import faults
from bkgen.spec.clashes import clashes
from bkgen.spec.merge import merged_pod
from bkgen.spec.names import name_problems
from bkgen.spec.pod import Pod
from bkgen.spec.settings import Settings
from bkgen.spec.steps import AnyStep, CommandStep, GroupStep, SelectableStep, WaitStep
from bkgen.spec.suite import Located, Suite
from bkgen.spec.when import When

Path = tuple[str | int, ...]


def walk(suite: Suite) -> Iterator[tuple[Path, AnyStep]]:
    """Every step with its path in the file, groups before their steps."""
    for index, step in enumerate(suite.spec.steps or ()):
        yield ("steps", index), step
        if isinstance(step, GroupStep):
            for inner, leaf in enumerate(step.steps):
                yield ("steps", index, "steps", inner), leaf


def setting_problems(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    """Names in `bkgen.yml` that nothing declares, and patterns that git would not understand."""
    for field, patterns in (("trivial", settings.filter.trivial), ("force_run", settings.filter.force_run)):
        yield from _pattern_problems(source, ("filter", field), patterns)
    yield from _pattern_problems(source, ("host_paths",), settings.host_paths)
    policy = settings.policy
    for kind, rules in (("cadences", policy.cadences), ("scopes", policy.scopes)):
        for name, rule in rules.items():
            path: Path = ("policy", kind, name, "minus")
            yield from _unknown(source, path, "label", rule.minus, policy.labels, prefix=policy.label_prefix)
    yield from name_problems(settings, source)
    for field in ("default_profile", "upload_profile"):
        named = getattr(settings, field)
        if named is not None:
            yield from _unknown(source, (field,), "profile", [named], settings.profiles)
    if settings.default_retry is not None:
        yield from _unknown(
            source, ("default_retry",), "retry preset", [settings.default_retry], settings.retry_presets
        )


def suite_problems(suite: Suite, settings: Settings) -> Iterator[Diagnostic]:
    """Names in a suite that the settings do not declare, patterns that cannot match, words that clash."""
    yield from _when_problems(suite, settings, ("when",), suite.spec.when)
    if isinstance(suite.spec.pod, Pod):
        yield from _pod_problems(suite, settings, ("pod",), suite.spec.pod)
    if suite.spec.steps is None:
        yield from _gpu_problems(suite, settings, (), CommandStep.model_construct())
    if suite.spec.steps and all(isinstance(step, (WaitStep, GroupStep)) for _, step in walk(suite)):
        yield Diagnostic(
            "spec-no-command",
            "nothing in this file can run: a wait orders what stands around it",
            "add a step with a command, or drop `steps`: then ./run.sh runs",
            suite.source.position(("steps",)),
            "steps",
        )
    for path, step in walk(suite):
        if isinstance(step, SelectableStep) and step.when is not None:
            yield from _when_problems(suite, settings, (*path, "when"), step.when)
        if isinstance(step, CommandStep):
            yield from _command_problems(suite, settings, path, step)


def _when_problems(suite: Suite, settings: Settings, path: Path, when: When) -> Iterator[Diagnostic]:
    if when.paths is not None:
        yield from _pattern_problems(suite.source, (*path, "paths"), when.paths)
    policy = settings.policy
    labels = (*path, "labels")
    yield from _unknown(suite.source, labels, "label", when.labels, policy.labels, prefix=policy.label_prefix)
    cadences = {"regular", *settings.policy.cadences}
    yield from _unknown(suite.source, (*path, "cadence"), "cadence", when.cadence, cadences)


def _command_problems(
    suite: Suite, settings: Settings, path: Path, step: CommandStep
) -> Iterator[Diagnostic]:
    source = suite.source
    if isinstance(step.pod, Pod):
        yield from _pod_problems(suite, settings, (*path, "pod"), step.pod)
    if isinstance(step.retry, str):
        yield from _unknown(source, (*path, "retry"), "retry preset", [step.retry], settings.retry_presets)
    yield from _gpu_problems(suite, settings, path, step)
    pod = merged_pod(suite.spec, step)
    own = (pod.profile or settings.profile_name) if isinstance(pod, Pod) else None
    for name, mirror in (step.mirrors or {}).items():
        yield from _unknown(source, (*path, "mirrors", name), "profile", [name], settings.profiles)
        if mirror.pod is None and not mirror.env and name == own:
            place = (*path, "mirrors", name)
            message = f"'{name}' is the step's own profile: its jobs would run twice on the same hardware"
            hint = "mirror it on another profile, or give the mirror a pod or an env that differs"
            yield Diagnostic("spec-clash", message, hint, source.position(place), dotted(place))
        if isinstance(mirror.pod, Pod):
            yield from _pod_problems(suite, settings, (*path, "mirrors", name, "pod"), mirror.pod)
        if mirror.when is not None:
            yield from _when_problems(suite, settings, (*path, "mirrors", name, "when"), mirror.when)
    yield from clashes(source, path, step)


def _gpu_problems(suite: Suite, settings: Settings, path: Path, step: CommandStep) -> Iterator[Diagnostic]:
    pod = merged_pod(suite.spec, step)
    if not isinstance(pod, Pod) or not pod.gpus:
        return
    name = pod.profile or settings.profile_name
    profile = settings.profiles.get(name)
    if profile is None or not profile.pod or profile.gpu_resource or profile.claim_template:
        return
    own = isinstance(step.pod, Pod) and step.pod.gpus is not None
    place = (*path, "pod", "gpus") if own else ("pod", "gpus")
    yield Diagnostic(
        "spec-no-gpu-resource",
        f"the profile '{name}' does not say how a GPU is asked for, so the pod would get none",
        f"give the profile a gpu_resource such as nvidia.com/gpu, or name another profile than '{name}'",
        suite.source.position(place),
        dotted(place),
    )


def _pod_problems(suite: Suite, settings: Settings, path: Path, pod: Pod) -> Iterator[Diagnostic]:
    source = suite.source
    if pod.profile is not None:
        yield from _unknown(source, (*path, "profile"), "profile", [pod.profile], settings.profiles)
    yield from _unknown(source, (*path, "caches"), "cache", pod.caches or (), settings.caches)
    if pod.scratch is not None and settings.scratch is None:
        yield Diagnostic(
            "spec-unknown-name",
            "the settings declare no scratch",
            "add 'scratch: {host_path: /data/…}' to bkgen.yml",
            source.position((*path, "scratch")),
            dotted((*path, "scratch")),
        )
    for index, mount in enumerate(pod.mounts or ()):
        sources = [mount.host_path, mount.claim, mount.secret, mount.config_map, mount.empty_dir]
        given = sum(value is not None for value in sources)
        if given != 1:
            yield Diagnostic(
                "spec-mount-source",
                f"the mount has {given} sources" if given else "the mount has no source",
                "give one of host_path, claim, secret, config_map and empty_dir",
                source.position((*path, "mounts", index)),
                dotted((*path, "mounts", index)),
            )
        if mount.type is not None and mount.host_path is None:
            yield Diagnostic(
                "spec-clash",
                "type belongs to a host_path",
                "drop it, or give a host_path",
                source.position((*path, "mounts", index, "type")),
                dotted((*path, "mounts", index, "type")),
            )
    for name, reference in (pod.secrets or {}).items():
        if reference.count("/") != 1 or not all(reference.split("/")):
            yield Diagnostic(
                "spec-secret-reference",
                f"'{reference}' does not name a secret and its key",
                "write NAME: secret/key, such as HF_TOKEN: huggingface/token",
                source.position((*path, "secrets", name), of_key=False),
                dotted((*path, "secrets", name)),
            )


def _pattern_problems(source: Located, path: Path, patterns: tuple[str, ...]) -> Iterator[Diagnostic]:
    for fault in faults(patterns):
        place: Path = (*path, fault.index)
        yield Diagnostic("spec-pattern", fault.message, fault.hint, source.position(place), dotted(place))


_DECLARED_IN = {
    "label": "policy.labels",
    "cadence": "policy.cadences",
    "profile": "profiles",
    "cache": "caches",
    "retry preset": "retries",
}


def _unknown(
    source: Located, path: Path, what: str, names: Iterable[str], known: Iterable[str], prefix: str = ""
) -> Iterator[Diagnostic]:
    declared = set(known)
    for index, name in enumerate(names):
        if name not in declared:
            bare = name.removeprefix(prefix)
            hint = (
                f"write it without the prefix: {bare}"
                if bare in declared
                else did_you_mean(
                    name, declared, what="declared", none=f"declare it in bkgen.yml: {_DECLARED_IN[what]}"
                )
            )
            yield Diagnostic(
                f"spec-unknown-{what.split()[0]}",
                f"the {what} '{name}' is declared nowhere in the settings",
                hint,
                source.position((*path, index), of_key=False),
                dotted(path),
            )
