"""Warnings that a suite silences by code with a reason, and silences that are themselves a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bkgen.check.catalogue import severities
from bkgen.errors import Diagnostic, did_you_mean
from bkgen.generate.silence import is_silenced
from bkgen.spec.suite import Suite


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which suites may silence what is said of a file: the one it lies in, or those that start it."""

    suites: Mapping[str, Suite]
    shared: Mapping[str, frozenset[str]]

    def owners(self, diagnostic: Diagnostic) -> list[Suite]:
        """The suites that a diagnostic is about."""
        file = diagnostic.position.file if diagnostic.position else ""
        within = [suite for suite in self.suites.values() if file.startswith(f"{suite.directory}/")]
        return within or [self.suites[name] for name in sorted(self.shared.get(file, ()))]


def kept(diagnostics: Iterable[Diagnostic], ownership: Ownership) -> Iterator[tuple[Diagnostic, bool]]:
    """Each diagnostic, and whether it is silenced: by every suite that it is about."""
    for diagnostic in diagnostics:
        owners = ownership.owners(diagnostic)
        yield diagnostic, bool(owners) and all(is_silenced(diagnostic, suite) for suite in owners)


def silence_problems(
    suites: Iterable[Suite],
    diagnostics: Iterable[Diagnostic],
    ownership: Ownership,
    unexamined: frozenset[str],
) -> Iterator[Diagnostic]:
    """Silences with an unknown code, without a reason, of an error, or of nothing.

    Nothing is said of the idle silences of `unexamined` suites: not all that they may silence was looked at.
    """
    known = severities()
    used = {
        (suite.name, one.code)
        for one in diagnostics
        if one.severity == "warning"
        for suite in ownership.owners(one)
    }
    for suite in suites:
        for code, reason in suite.spec.silence.items():
            fault = _fault(code, reason, known)
            if fault is None and (suite.name, code) not in used and suite.name not in unexamined:
                fault = (
                    "silence-idle",
                    f"'{code}' silences nothing here any more",
                    "remove it, so that it hides nothing later",
                )
            if fault is not None:
                place = suite.source.position(("silence", code))
                found = Diagnostic(fault[0], fault[1], fault[2], place, f"silence.{code}")
                yield found.as_warning() if fault[0] == "silence-idle" else found


def _fault(code: str, reason: str, known: Mapping[str, frozenset[str]]) -> tuple[str, str, str] | None:
    if code not in known:
        return "silence-unknown", f"no check has the code '{code}'", did_you_mean(code, known, what="codes")
    if "warning" not in known[code]:
        return "silence-error", f"'{code}' is an error, and errors cannot be silenced", "mend what it says"
    if not reason.strip():
        return (
            "silence-without-reason",
            f"'{code}' is silenced without a reason",
            "say why it does not apply here",
        )
    return None
