"""What can go wrong, and how it is said.

    BkgenError                 exit 3   a bug, when nothing below fits
    ├── UserError              exit 1   the user must fix something; carries every diagnostic found
    ├── UsageError             exit 2   the command line is wrong
    └── EnvironmentFailure     exit 75  not the user's fault; a retry may help

A `Diagnostic` is one mistake as a value. It prints as

    k3_tests/unit/pipeline.yml:6:3: pod.gpu: unknown key
      hint: did you mean 'gpus'?
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple

Severity = Literal["error", "warning"]


class Position(NamedTuple):
    """A place in a file the user wrote: path relative to the repository, line and column from 1."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(NamedTuple):
    """One mistake: a stable `code`, where it is, which `field` (dotted), what is wrong, what to do next."""

    code: str
    message: str
    hint: str = ""
    position: Position | None = None
    field: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        parts = [str(self.position)] if self.position else []
        if self.field:
            parts.append(self.field)
        prefix = "warning: " if self.severity == "warning" else ""
        suffix = f" [{self.code}]" if self.code else ""
        text = ": ".join([*parts, prefix + self.message]) + suffix
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def as_json(self) -> dict[str, object]:
        """The same for programs."""
        place = self.position or Position("")
        return {
            "code": self.code,
            "severity": self.severity,
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "field": self.field,
            "message": self.message,
            "hint": self.hint,
        }

    def as_warning(self) -> "Diagnostic":
        """This diagnostic with severity `warning`."""
        return self._replace(severity="warning")


def in_reading_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Each diagnostic once, by file, line, column and code: the same on every machine."""
    unique = dict.fromkeys(diagnostics)
    return tuple(sorted(unique, key=lambda d: (d.position or Position(""), d.code, d.field, d.message)))


def dotted(path: Iterable[str | int]) -> str:
    """A path of keys and indexes as people write it: `steps[0].pod.gpus`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


class BkgenError(Exception):
    """The root. Raised itself only for a bug in bkgen."""

    exit_code: ClassVar[int] = 3


class UserError(BkgenError):
    """The user can fix it: a wrong file, a cycle, a name nobody knows. Carries all problems at once."""

    exit_code = 1

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = in_reading_order(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))

    @classmethod
    def single(
        cls, code: str, message: str, hint: str = "", *, position: Position | None = None, field: str = ""
    ) -> "UserError":
        """A `UserError` with one diagnostic."""
        return cls([Diagnostic(code, message, hint, position, field)])


class UsageError(BkgenError):
    """The command line is wrong."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)


class EnvironmentFailure(BkgenError):
    """Git, the agent, the network or the cluster failed; the same call may work in a minute."""

    exit_code = 75

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when nothing is close enough to be meant."""
    choices = sorted(set(known))
    folded = {choice.casefold().replace("-", "_"): choice for choice in reversed(choices)}
    same = folded.get(name.casefold().replace("-", "_"))
    if same is not None and same != name:
        return same
    import difflib  # a build without mistakes never needs it, and it is slow to load

    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(
    name: str, known: Iterable[str], *, what: str = "known", none: str = "there are none"
) -> str:
    """A hint: the nearest known name, else the list of all of them (at most twelve); `none` without any."""
    choices = sorted(set(known))
    close = nearest(name, choices)
    if close:
        return f"did you mean '{close}'?"
    if not choices:
        return none
    shown = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    return f"{what}: {shown}"
