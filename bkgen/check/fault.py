"""A mistake in a script, before anybody knows which file it stands in."""

from __future__ import annotations

from dataclasses import dataclass

from bkgen.errors import Severity


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake at an offset of the script."""

    code: str
    offset: int
    message: str
    hint: str
    severity: Severity = "error"
