"""`bkgen upload`: decide, generate, hand over to the agent, annotate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from bkgen.build import Build
from bkgen.cli.entry import say
from bkgen.cli.facts import Flags, Workspace, build_from
from bkgen.cli.planning import generation_for, tell_warnings
from bkgen.cli.rendering import pipeline_text, told_of_fork
from bkgen.errors import BkgenError, Diagnostic, UsageError, UserError
from bkgen.generate.leaks import leaked
from bkgen.generate.phases import Generation
from bkgen.report.annotation import annotation, failure_annotation, style_of, warnings_of
from bkgen.report.figures import counted
from bkgen.report.table import plain_table

if TYPE_CHECKING:
    from bkgen.agent import Agent


def run_upload(
    flags: Flags, names: tuple[str, ...], *, dry_run: bool, as_json: bool, checks: tuple[str, ...]
) -> None:
    """The main job. With `dry_run` the pipeline goes to standard output and nothing leaves the machine."""
    agent = None if dry_run else _find_agent()
    with _failure_annotated(agent, "uploaded nothing: something must be mended first"):
        build = build_from(flags, os.environ)
        with _checks_explained(names if checks else ()):
            space, generation = generation_for(build, flags, names)
        leaks = leaked(generation.pipeline, os.environ)
        if leaks:
            raise UserError(leaks)
    _tell(space, generation)
    if agent is None and not dry_run:
        from bkgen.report.plain import plain_facts

        say(f"\n{plain_facts(generation.plan)}\n")
    if dry_run:
        click.echo(pipeline_text(generation, as_json), nl=False)
        return
    if generation.uploads:
        if checks and agent is not None:
            _wait(agent, build, checks)
        with _failure_annotated(agent, "could not upload the pipeline"):
            _upload(agent, generation, names or build.only)
    _annotate(agent, generation)


def _find_agent() -> Agent | None:
    from bkgen.agent import Agent

    return Agent.find(os.environ)


def _tell(space: Workspace, generation: Generation) -> None:
    if space.specs_from is not None:
        say(told_of_fork(space.specs_from))
    say(plain_table(generation.plan).rstrip())
    warnings = [one for one in generation.diagnostics if one.severity == "warning"]
    tell_warnings(generation.plan.facts.warnings, warnings)
    if generation.plan.is_empty:
        say("nothing to run: nothing is uploaded")


def _upload(agent: Agent | None, generation: Generation, names: tuple[str, ...]) -> None:
    if agent is None:
        raise UserError.single(
            "agent-not-found",
            "buildkite-agent is not on the path, so nothing was uploaded",
            "run this in a Buildkite job; on a laptop use `bkgen upload --dry-run` or `bkgen render SUITE`",
        )
    from bkgen.agent import Batch, deliver

    batches = [Batch(upload.document, upload.interpolate, upload.keys) for upload in generation.uploads]
    delivered = deliver(agent, batches, selection=" ".join(sorted(names)) or "all", report=say)
    if delivered.uploaded:
        say(f"uploaded {delivered.uploaded} of {counted(len(batches), 'document')}")


def _annotate(agent: Agent | None, generation: Generation) -> None:
    if agent is None:
        return
    warnings = warnings_of(generation.plan, generation.diagnostics)
    body = annotation(generation.plan, generation.diagnostics)
    failed = agent.annotate(body, style=style_of(generation.plan, warnings))
    if failed:
        say(f"warning: {failed}")


@contextmanager
def _checks_explained(names: tuple[str, ...]) -> Iterator[None]:
    """Behind `--wait-for-checks a b` the word `b` is taken for a suite: the error says so."""
    try:
        yield
    except UsageError as error:
        word = next((name for name in names if f"'{name}'" in str(error).partition("\n")[0]), None)
        if word is None:
            raise
        hint = f"{error.hint}; if it is a check: --wait-for-checks takes one word, so write A,B or repeat it"
        raise UsageError(str(error).partition("\n")[0], hint) from None


@contextmanager
def _failure_annotated(agent: Agent | None, what: str) -> Iterator[None]:
    try:
        yield
    except BkgenError as error:
        said = error.diagnostics if isinstance(error, UserError) else (Diagnostic("", str(error)),)
        if agent is not None:
            failed = agent.annotate(failure_annotation(what, said), style="error")
            if failed:
                say(f"warning: {failed}")
        raise


def _wait(agent: Agent, build: Build, checks: tuple[str, ...]) -> None:
    from bkgen.cli.checks import wait_for_checks

    with _failure_annotated(agent, "uploaded nothing: it waited for checks"):
        wait_for_checks(build, checks, os.environ, say)
