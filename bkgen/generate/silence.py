"""Warnings that a suite says do not apply to it, by code and with a reason."""

from __future__ import annotations

from collections.abc import Iterable

from bkgen.config.load import Configuration
from bkgen.errors import Diagnostic
from bkgen.plan.planned import Plan
from bkgen.spec.suite import Suite


def is_silenced(diagnostic: Diagnostic, suite: Suite | None) -> bool:
    """`suite`, from which `diagnostic` comes, silences its code. An error is never silenced."""
    return suite is not None and diagnostic.severity == "warning" and diagnostic.code in suite.spec.silence


def load_warnings(configuration: Configuration, plan: Plan) -> tuple[Diagnostic, ...]:
    """What loading warned of in the settings and in the suites that run, less what these silence."""
    if not configuration.warnings:
        return ()
    running = {planned.suite.source.file for planned in plan.selected}
    suites = {suite.source.file: suite for suite in configuration.suites}
    return tuple(_kept(configuration.warnings, suites, running))


def _kept(
    warnings: Iterable[Diagnostic], suites: dict[str, Suite], running: set[str]
) -> Iterable[Diagnostic]:
    for warning in warnings:
        file = warning.position.file if warning.position else ""
        if file in suites and file not in running:
            continue
        if not is_silenced(warning, suites.get(file)):
            yield warning
