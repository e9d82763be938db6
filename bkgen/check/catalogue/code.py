"""What is known of a code."""

from __future__ import annotations

from dataclasses import dataclass

from bkgen.errors import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """One code: how severe it is, what it is about, and why it matters or what helps."""

    code: str
    severity: Severity
    title: str
    explanation: str


def error(code: str, title: str, explanation: str) -> Code:
    """A code that makes `check` fail."""
    return Code(code, "error", title, explanation)


def warning(code: str, title: str, explanation: str) -> Code:
    """A code that a suite may silence."""
    return Code(code, "warning", title, explanation)
