"""Words of one step that cannot stand together, or that contradict each other."""

from collections.abc import Iterable, Iterator

from bkgen.errors import Diagnostic, dotted
from bkgen.spec.merge import has_native_pod
from bkgen.spec.pod import Pod
from bkgen.spec.steps import CommandStep
from bkgen.spec.suite import Located

Path = tuple[str | int, ...]
Fault = tuple[str, str, str, str]
"""Field, message, hint, code."""

NEAR = 0.8
"""The share of its timeout above which an expectation is too near: a slow node would end a healthy job."""


def clashes(source: Located, path: Path, step: CommandStep) -> Iterator[Diagnostic]:
    """Every clash in `step`, which stands at `path` of `source`."""
    late = _too_late(step.expected_minutes, step.timeout_in_minutes)
    yield from _said(source, path, (*_double_words(step), *_shards(step), *late))
    yield from (fault.as_warning() for fault in _said(source, path, _doubtful(step)))
    for name, mirror in (step.mirrors or {}).items():
        # A mirror's own timeout holds for it, whoever said how long it takes.
        expected = mirror.expected_minutes or step.expected_minutes
        place: Path = (*path, "mirrors", name)
        yield from _said(source, place, _too_late(expected, mirror.timeout_in_minutes))
        near = _said(source, place, _near(expected, mirror.timeout_in_minutes))
        yield from (fault.as_warning() for fault in near)


def _said(source: Located, path: Path, faults: Iterable[Fault]) -> Iterator[Diagnostic]:
    for field, message, hint, code in faults:
        yield Diagnostic(code, message, hint, source.position((*path, field)), dotted((*path, field)))


def _double_words(step: CommandStep) -> Iterator[Fault]:
    if not step.commands_list and step.plugins is None:
        yield "command", "the step runs nothing", "write 'command: ./run.sh'", "spec-no-command"
    if isinstance(step.pod, Pod) and has_native_pod(step):
        message = "the step has a pod and a kubernetes plugin of its own"
        yield "pod", message, "keep one: `pod`, or the plugin", "spec-clash"
    if step.mirrors and has_native_pod(step):
        message = (
            "a mirror runs on other hardware, and what a kubernetes plugin asks for cannot be moved there"
        )
        yield "mirrors", message, "say it with `pod`, or write the step out twice", "spec-clash"
    if step.command is not None and step.commands is not None:
        hint = "keep one; the agent would drop `command`"
        yield "commands", "the step has both command and commands", hint, "spec-clash"


def _shards(step: CommandStep) -> Iterator[Fault]:
    if step.shards is None:
        return
    if step.matrix is not None:
        hint = "drop one; Buildkite takes no parallelism with a matrix"
        yield "shards", "shards and matrix cannot be joined", hint, "spec-clash"
    if step.parallelism is not None:
        yield "shards", "shards and parallelism say the same thing", "keep `shards`", "spec-clash"
    if step.shards.by == "balanced":
        message = "by: balanced is reserved: bkgen does not make its own assignment yet"
        hint = "use pytest-split with a durations file, or pytest-shard"
        yield "shards", message, hint, "spec-reserved"


def _too_late(expected: float | None, timeout: int | None) -> Iterator[Fault]:
    if expected is not None and timeout is not None and timeout < expected:
        message = f"the step is stopped after {timeout} minutes but takes {expected:g}"
        hint = "raise it, or drop it: expected_minutes gives one"
        yield "timeout_in_minutes", message, hint, "time-below-expectation"


def _near(expected: float | None, timeout: int | None) -> Iterator[Fault]:
    if expected is not None and timeout is not None and NEAR * timeout < expected <= timeout:
        share = f"{100 * expected / timeout:.0f} %"
        message = f"{expected:g} expected minutes are {share} of the timeout of {timeout}"
        hint = "raise it: a slow node would end a healthy job"
        yield "timeout_in_minutes", message, hint, "time-near-timeout"


def _doubtful(step: CommandStep) -> Iterator[Fault]:
    yield from _near(step.expected_minutes, step.timeout_in_minutes)
    if step.if_changed is not None:
        message = "the agent's change filter misses renames and multi-commit pushes"
        hint = "say it with `when: {paths: […]}`, which also shows in plan and why"
        yield "if_changed", message, hint, "native-if-changed"
