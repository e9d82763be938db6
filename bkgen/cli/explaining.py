"""`bkgen why`."""

from __future__ import annotations

import os
import sys

import click

from bkgen.build import Build
from bkgen.cli.entry import say
from bkgen.cli.facts import Flags, workspace
from bkgen.decide.facts import gather
from bkgen.generate.phases import as_json as json_text
from bkgen.generate.phases import select
from bkgen.plan.planning import make_plan
from bkgen.report.why import explanation, why_json
from bkgen.report.why_text import coloured_why, plain_why


def run_why(build: Build, flags: Flags, name: str, *, as_json: bool) -> None:
    """Print the whole decision about one suite or step. UsageError for a name that nothing has."""
    space = workspace(build, flags, os.environ, say)
    configuration = space.configuration
    select([name], configuration.suites)
    if space.specs_from is not None:
        say(f"a fork's pull request: what is explained is said by the base commit {space.specs_from[:12]}")
    # The name is only looked at: all suites are planned, for one of them may need this one.
    selection = select(build.only, configuration.suites)
    facts = gather(build, configuration.settings, configuration.suites, space.changes, selection)
    plan = make_plan(configuration.suites, facts)
    told = explanation(plan, configuration, name)
    for warning in facts.warnings:
        say(f"warning: {warning}")
    if as_json:
        text = json_text(why_json(told))
    elif sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        text = coloured_why(told, plan)
    else:
        text = plain_why(told, plan)
    click.echo(text, nl=False)
