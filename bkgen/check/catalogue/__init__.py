"""Every code that loading, planning and checking can say, each with what it means.

The rules about pods and emitted steps have a catalogue of their own: `bkgen.verify.catalogue`.
"""

from __future__ import annotations

from bkgen.check.catalogue import finding, loading
from bkgen.check.catalogue.code import Code

__all__ = ["Code", "codes", "groups", "severities"]


def groups() -> tuple[tuple[str, tuple[Code, ...]], ...]:
    """The codes by subject, in the order of the page."""
    return (
        ("Reading YAML", loading.YAML),
        ("Suites and settings", loading.SPEC),
        ("Steps, keys and uploads", loading.PLAN),
        ("Scripts", finding.SCRIPTS),
        ("Patterns", finding.PATTERNS),
        ("Policy", finding.POLICY),
        ("Path tables", finding.TABLES),
        ("Silence, and check itself", finding.SILENCE),
    )


def codes() -> tuple[Code, ...]:
    """All of them."""
    return tuple(code for _, group in groups() for code in group)


def severities() -> dict[str, frozenset[str]]:
    """Which severities each code of bkgen can have, verification's codes included."""
    from bkgen.verify.catalogue import rules

    known: dict[str, frozenset[str]] = {rule.code: frozenset({rule.severity}) for rule in rules()}
    for code in codes():
        known[code.code] = known.get(code.code, frozenset()) | {code.severity}
    for name in ("pattern-matches-nothing", "python-pytest-main"):
        known[name] |= {"warning"}
    return known
