"""`bkgen plan`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable

import click

from bkgen.build import Build
from bkgen.changes import UnknownChanges, printable
from bkgen.cli.entry import say
from bkgen.cli.facts import Flags, Workspace, workspace
from bkgen.errors import Diagnostic, UsageError
from bkgen.generate.phases import Generation, as_json, generate, select


def generation_for(build: Build, flags: Flags, names: tuple[str, ...]) -> tuple[Workspace, Generation]:
    """Everything up to the verified pipeline, for the named suites or for all."""
    space = workspace(build, flags, os.environ, say)
    selection = select(names or build.only, space.configuration.suites)
    return space, generate(space.configuration, build, space.changes, selection)


def run_plan(build: Build, flags: Flags, names: tuple[str, ...], *, as_json: bool) -> None:
    """Print the plan as a table, or as JSON."""
    _, generation = generation_for(build, flags, names)
    click.echo(shown_plan(generation, as_json), nl=False)
    if not as_json:
        tell_warnings(generation.plan.facts.warnings, generation.diagnostics)


def tell_warnings(sentences: Iterable[str], diagnostics: Iterable[Diagnostic]) -> None:
    """Say what somebody should mend; a diagnostic names its own severity behind its place."""
    for sentence in sentences:
        say(f"warning: {sentence}")
    for diagnostic in diagnostics:
        say(str(diagnostic))


def run_plan_as_case(build: Build, flags: Flags, names: tuple[str, ...]) -> None:
    """Print the decision as one case of paths.test.yml. UsageError for what a case cannot say."""
    from bkgen.yamldump import dump

    if names or build.only:
        raise UsageError("a case speaks of all suites", "name none with --as-case")
    _, generation = generation_for(build, flags, ())
    facts = generation.plan.facts
    if isinstance(facts.changes, UnknownChanges):
        raise UsageError(f"what changed is not known: {facts.changes.reason}", "name files: --changed FILE…")
    case = {
        "name": "",
        "changed": [file.path for file in facts.files],
        "labels": list(build.labels),
        "cadence": build.cadence,
        "source": build.source if not build.is_local else None,
        "branch": build.branch,
        "fork": build.is_fork,
    }
    kept = {key: value for key, value in case.items() if value}
    runs = sorted(planned.suite.name for planned in generation.plan.selected)
    for text in (*(file.path for file in facts.files), *build.labels, build.branch):
        if not _is_unicode(text):
            raise UsageError(f"'{printable(text)}' is not UTF-8, and YAML has no way to write it")
    click.echo(dump([{**kept, "runs": runs}]), nl=False)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown_plan(generation: Generation, json_wanted: bool) -> str:
    """The plan for whoever reads standard output."""
    from bkgen.report.json_form import plan_json
    from bkgen.report.table import plain_table, terminal_table

    if json_wanted:
        return as_json(plan_json(generation.plan, generation.diagnostics))
    if sys.stdout.isatty():
        width = shutil.get_terminal_size((100, 24)).columns
        return terminal_table(generation.plan, width, colour="NO_COLOR" not in os.environ)
    return plain_table(generation.plan)
