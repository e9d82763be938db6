"""Names that must exist: profiles, caches, labels, cadences, retry presets; patterns that can match.

Needs only what users wrote, so it runs on every load: a name nobody knows never reaches a build.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bkgen.errors import Diagnostic, did_you_mean
from bkgen.globs import faults
from bkgen.spec.merge import has_native_pod
from bkgen.spec.pod import Pod
from bkgen.spec.settings import Settings
from bkgen.spec.steps import AnyStep, CommandStep, GroupStep, SelectableStep, When
from bkgen.spec.suite import Located, Suite

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
    labels = settings.policy.labels
    for kind, rules in (("cadences", settings.policy.cadences), ("scopes", settings.policy.scopes)):
        for name, rule in rules.items():
            path: Path = ("policy", kind, name, "minus")
            yield from _unknown(source, path, "label", rule.minus, labels)
    yield from _one_schedule(settings, source)
    if "regular" in settings.policy.cadences:
        yield Diagnostic(
            "spec-reserved-name",
            "'regular' is the name of builds without a cadence",
            "give the cadence another name",
            source.position(("policy", "cadences", "regular")),
            "policy.cadences.regular",
        )
    if settings.default_profile is not None:
        yield from _unknown(source, ("default_profile",), "profile", [settings.default_profile], settings.profiles)
    if settings.default_retry is not None:
        yield from _unknown(source, ("default_retry",), "retry preset", [settings.default_retry], settings.retries)


def _one_schedule(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    marked = [name for name, cadence in settings.policy.cadences.items() if cadence.schedule]
    for name in marked[1:]:
        yield Diagnostic(
            "spec-two-schedules",
            f"'{marked[0]}' is the schedule's cadence already",
            "mark one cadence with schedule: true; other schedules name theirs through BKGEN_CADENCE",
            source.position(("policy", "cadences", name, "schedule")),
            f"policy.cadences.{name}.schedule",
        )


def suite_problems(suite: Suite, settings: Settings) -> Iterator[Diagnostic]:
    """Names in a suite that the settings do not declare, patterns that cannot match, words that clash."""
    yield from _when_problems(suite, settings, ("when",), suite.spec.when)
    if isinstance(suite.spec.pod, Pod):
        yield from _pod_problems(suite, settings, ("pod",), suite.spec.pod)
    for path, step in walk(suite):
        if isinstance(step, SelectableStep) and step.when is not None:
            yield from _when_problems(suite, settings, (*path, "when"), step.when)
        if isinstance(step, CommandStep):
            yield from _command_problems(suite, settings, path, step)


def _when_problems(suite: Suite, settings: Settings, path: Path, when: When) -> Iterator[Diagnostic]:
    if when.paths is not None:
        yield from _pattern_problems(suite.source, (*path, "paths"), when.paths)
    yield from _unknown(suite.source, (*path, "labels"), "label", when.labels, settings.policy.labels)
    cadences = {"regular", *settings.policy.cadences}
    yield from _unknown(suite.source, (*path, "cadence"), "cadence", when.cadence, cadences)


def _command_problems(suite: Suite, settings: Settings, path: Path, step: CommandStep) -> Iterator[Diagnostic]:
    source = suite.source
    if isinstance(step.pod, Pod):
        yield from _pod_problems(suite, settings, (*path, "pod"), step.pod)
    if isinstance(step.retry, str):
        yield from _unknown(source, (*path, "retry"), "retry preset", [step.retry], settings.retries)
    for name, mirror in (step.mirrors or {}).items():
        yield from _unknown(source, (*path, "mirrors", name), "profile", [name], settings.profiles)
        if isinstance(mirror.pod, Pod):
            yield from _pod_problems(suite, settings, (*path, "mirrors", name, "pod"), mirror.pod)
        if mirror.when is not None:
            yield from _when_problems(suite, settings, (*path, "mirrors", name, "when"), mirror.when)
    yield from _clashes(source, path, step)


def _clashes(source: Located, path: Path, step: CommandStep) -> Iterator[Diagnostic]:
    def clash(field: str, message: str, hint: str, code: str = "spec-clash", *, warning: bool = False) -> Diagnostic:
        found = Diagnostic(code, message, hint, source.position((*path, field)), _dotted((*path, field)))
        return found.as_warning() if warning else found

    if not step.commands_list and step.plugins is None:
        yield clash("command", "the step runs nothing", "write 'command: ./run.sh'", "spec-no-command")
    if isinstance(step.pod, Pod) and has_native_pod(step):
        yield clash(
            "pod", "the step has a pod and a kubernetes plugin of its own", "keep one: `pod`, or the plugin"
        )
    if step.command is not None and step.commands is not None:
        yield clash("commands", "the step has both command and commands", "keep one; the agent would drop `command`")
    if step.shards is not None:
        if step.matrix is not None:
            yield clash("shards", "shards and matrix cannot be joined", "drop one; Buildkite takes no parallelism with a matrix")
        if step.parallelism is not None:
            yield clash("shards", "shards and parallelism say the same thing", "keep `shards`")
        if step.shards.by == "balanced":
            yield clash(
                "shards",
                "by: balanced is reserved: bkgen does not make its own assignment yet",
                "use pytest-split with a durations file, or pytest-shard",
                "spec-reserved",
            )
    if step.if_changed is not None:
        yield clash(
            "if_changed",
            "the agent's change filter misses renames and multi-commit pushes",
            "say it with `when: {paths: […]}`, which also shows in plan and why",
            "native-if-changed",
            warning=True,
        )
    expected, timeout = step.expected_minutes, step.timeout_in_minutes
    if expected is not None and timeout is not None:
        if timeout < expected:
            yield clash(
                "timeout_in_minutes",
                f"the step is stopped after {timeout} minutes but takes {expected:g}",
                "raise it, or drop it: expected_minutes gives one",
                "time-below-expectation",
            )
        elif expected > 0.8 * timeout:
            yield clash(
                "timeout_in_minutes",
                f"{expected:g} expected minutes are {100 * expected / timeout:.0f} % of the timeout of {timeout}",
                "raise it: a slow node would end a healthy job",
                "time-near-timeout",
                warning=True,
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
            _dotted((*path, "scratch")),
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
                _dotted((*path, "mounts", index)),
            )
        if mount.type is not None and mount.host_path is None:
            yield Diagnostic(
                "spec-clash",
                "type belongs to a host_path",
                "drop it, or give a host_path",
                source.position((*path, "mounts", index, "type")),
                _dotted((*path, "mounts", index, "type")),
            )
    for name, reference in (pod.secrets or {}).items():
        if reference.count("/") != 1 or not all(reference.split("/")):
            yield Diagnostic(
                "spec-secret-reference",
                f"'{reference}' does not name a secret and its key",
                "write NAME: secret/key, such as HF_TOKEN: huggingface/token",
                source.position((*path, "secrets", name), of_key=False),
                _dotted((*path, "secrets", name)),
            )


def _pattern_problems(source: Located, path: Path, patterns: tuple[str, ...]) -> Iterator[Diagnostic]:
    for fault in faults(patterns):
        place: Path = (*path, fault.index)
        yield Diagnostic("spec-pattern", fault.message, fault.hint, source.position(place), _dotted(place))


def _unknown(
    source: Located, path: Path, what: str, names: Iterable[str], known: Iterable[str]
) -> Iterator[Diagnostic]:
    declared = set(known)
    for index, name in enumerate(names):
        if name not in declared:
            place = source.position((*path, index), of_key=False)
            yield Diagnostic(
                f"spec-unknown-{what.split()[0]}",
                f"the {what} '{name}' is declared nowhere in the settings",
                did_you_mean(name, declared, what="declared"),
                place,
                _dotted(path),
            )


def _dotted(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text
