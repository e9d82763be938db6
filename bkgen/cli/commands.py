"""The commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from bkgen.build import SOURCES
from bkgen.cli.facts import Flags, build_from, find_root, here, offline_workspace
from bkgen.errors import UsageError

Function = Callable[..., Any]


class InOrder(click.Group):
    """Commands in the order of a day's work, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names as they were added."""
        del ctx
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command: the help on standard error, and the status of a wrong command line."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each command with its whole first sentence; click would cut it off at the edge."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(500)) for name, one in self.commands.items()])


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="bkgen", message="%(prog)s %(version)s")
def bkgen() -> None:
    """One Buildkite pipeline from a folder of GPU test directories: what changed decides what runs."""


def fact_options(function: Function) -> Function:
    """The flags that set a fact of the build; for trying things out on a laptop."""
    options = [
        click.option(
            "--label", "labels", multiple=True, metavar="LABEL", help="The pull request carries LABEL."
        ),
        click.option("--source", type=click.Choice(SOURCES), help="What started the build."),
        click.option("--cadence", metavar="NAME", help="The cadence, as BKGEN_CADENCE names it."),
        click.option("--branch", metavar="NAME", help="The branch that is built."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def change_options(function: Function, *, hidden: bool = False) -> Function:
    """The flags that say what changed; hidden where they are known only to be refused with a reason."""
    base = click.option(
        "--base", metavar="REV", hidden=hidden, help="Compare with REV instead of the default branch."
    )
    changed = click.option(
        "--changed",
        multiple=True,
        metavar="FILE…",
        hidden=hidden,
        # The shell completes files that are there; what is asked about may be gone.
        type=click.Path(),
        help="These files changed; git is not asked.",
    )
    return base(changed(function))


def build_options(function: Function) -> Function:
    """All the flags that set what a decision rests on."""
    return fact_options(change_options(function))


def complete_suites(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Suite names for the shell, and behind a `/` the suite's steps."""
    from bkgen.errors import BkgenError

    try:
        _, configuration = offline_workspace(find_root(here()))
    except BkgenError:
        return []
    names = [suite.name for suite in configuration.suites]
    if "/" in incomplete:
        from bkgen.plan.keys import keyed_steps

        names = [f"{suite.name}/{item.key}" for suite in configuration.suites for item in keyed_steps(suite)]
    return [name for name in names if name.startswith(incomplete)]


suites_argument = click.argument(
    "suites", nargs=-1, metavar="[SUITE[/STEP]]…", shell_complete=complete_suites
)


@bkgen.command()
@suites_argument
@build_options
@click.option("--dry-run", is_flag=True, help="Print the pipeline instead of uploading it.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: the document as JSON.")
@click.option(
    "--wait-for-checks",
    multiple=True,
    metavar="NAME,…",
    help="Hold the upload back until these GitHub checks are green; for more, write it again.",
)
def upload(
    suites: tuple[str, ...], dry_run: bool, as_json: bool, wait_for_checks: tuple[str, ...], **flags: Any
) -> None:
    """The upload step: decide, generate, upload, annotate. Names narrow it to these suites."""
    if as_json and not dry_run:
        raise UsageError("--json says how --dry-run prints", "add --dry-run, or leave --json out")
    from bkgen.cli.uploading import run_upload

    run_upload(Flags(**flags), suites, dry_run=dry_run, as_json=as_json, checks=wait_for_checks)


@bkgen.command()
@click.argument("suites", nargs=-1, required=True, metavar="SUITE[/STEP]…", shell_complete=complete_suites)
@fact_options
@partial(change_options, hidden=True)
@click.option("--json", "as_json", is_flag=True, help="The document as it would be uploaded, as JSON.")
@click.option("--pods", is_flag=True, help="Kubernetes Pod manifests instead, for kubectl apply -f -.")
def render(suites: tuple[str, ...], as_json: bool, pods: bool, **flags: Any) -> None:
    """The pipeline of these suites as it would be uploaded, whatever changed. Needs no network or cluster.

    Only in the build of a fork's pull request is git asked, for the base's settings and suites.
    """
    from bkgen.cli.rendering import run_render

    given = Flags(**flags)
    run_render(build_from(given, os.environ), given, suites, as_json=as_json, pods=pods)


@bkgen.command()
@suites_argument
@build_options
@click.option(
    "--json", "as_json", is_flag=True, help="Every decision with rule, reason, evidence and remedy."
)
@click.option("--as-case", is_flag=True, help="A case for paths.test.yml, ready to paste.")
def plan(suites: tuple[str, ...], as_json: bool, as_case: bool, **flags: Any) -> None:
    """A table of all suites: what would run, why, and what it costs."""
    from bkgen.cli.planning import run_plan, run_plan_as_case

    if as_json and as_case:
        raise UsageError("--as-case prints YAML for paths.test.yml, and --json the plan", "keep one of them")
    build = build_from(Flags(**flags), os.environ)
    if as_case:
        run_plan_as_case(build, Flags(**flags), suites)
    else:
        run_plan(build, Flags(**flags), suites, as_json=as_json)


@bkgen.command()
@click.argument("name", metavar="SUITE[/STEP]", shell_complete=complete_suites)
@build_options
@click.option("--json", "as_json", is_flag=True, help="The same for programs.")
def why(name: str, as_json: bool, **flags: Any) -> None:
    """Why a suite or step runs or is skipped.

    Every rule in order, the deciding one with its evidence and its line, and what would turn it round.
    """
    from bkgen.cli.explaining import run_why

    run_why(build_from(Flags(**flags), os.environ), Flags(**flags), name, as_json=as_json)


@bkgen.command()
@click.option("--strict", is_flag=True, help="Warnings fail, too.")
@click.option("--json", "as_json", is_flag=True, help="Every problem with code, place, message and hint.")
def check(strict: bool, as_json: bool) -> int:
    """Every problem in settings, suites, scripts, patterns and path tables, all at once."""
    from bkgen.cli.checking import run_check

    return run_check(strict=strict, as_json=as_json)


@bkgen.command()
@click.argument("file", required=False, type=click.Choice(["suite", "settings", "paths"]))
def schema(file: str | None) -> None:
    """The JSON Schema of pipeline.yml (suite), bkgen.yml (settings) or paths.test.yml (paths), for editors.

    Without a name: one object that holds them all.
    """
    from bkgen.cli.checking import run_schema

    run_schema(file)


@bkgen.command()
@click.argument("name", metavar="SUITE")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs of its pod; absent: one, where there are any.")
@click.option("--labels", multiple=True, metavar="LABEL,…", help="Labels that it asks for.")
def new(name: str, gpus: int | None, labels: tuple[str, ...]) -> None:
    """A new suite: run.sh, pipeline.yml, BK_WEB_SETUP.md."""
    from bkgen.cli.scaffolding import run_new

    run_new(name, gpus, labels)


@bkgen.command()
@click.argument("suites", nargs=-1, metavar="[SUITE]…", shell_complete=complete_suites)
@click.option(
    "--check", is_flag=True, help="Write nothing; print what differs, and end with 1 if anything does."
)
def docs(suites: tuple[str, ...], check: bool) -> int:
    """The setup pages and the upload step to paste.

    Writes the generated parts of each BK_WEB_SETUP.md, and buildkite-pipeline.yml; what authors wrote stays.
    """
    from bkgen.cli.scaffolding import run_docs

    return run_docs(suites, check=check)


@bkgen.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """The script with which a shell completes names.

    For this shell alone: eval "$(bkgen completion bash)". For good: put that line into ~/.bashrc.
    """
    from bkgen.cli.completion import run_completion

    run_completion(bkgen, shell)
