"""`bkgen render`."""

from __future__ import annotations

import os

import click

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.cli.entry import say
from bkgen.cli.facts import Flags, named_workspace
from bkgen.errors import UsageError, UserError
from bkgen.generate.phases import Generation, generate, select


def run_render(build: Build, flags: Flags, suites: tuple[str, ...], *, as_json: bool, pods: bool) -> None:
    """Print the pipeline (YAML, or JSON), or the Pods, of the named suites.

    In a fork's build it is the base's, as for the upload. UsageError for flags that cannot matter here.
    """
    for given, flag in ((flags.base is not None, "--base"), (bool(flags.changed), "--changed")):
        if given:
            raise UsageError(
                f"{flag} decides nothing here: what is named is rendered, whatever changed",
                "leave it out, or ask `bkgen plan` or `bkgen upload --dry-run`, where it counts",
            )
    configuration, specs_from = named_workspace(build, flags, os.environ)
    if specs_from is not None:
        say(told_of_fork(specs_from))
    selection = select(suites, configuration.suites, forced=True)
    generation = generate(configuration, build, ChangesNotAsked("render shows what is named"), selection)
    for diagnostic in generation.diagnostics:
        say(str(diagnostic))
    if not generation.uploads:
        raise UserError.single(
            "render-empty", "nothing in these suites can run", "name a suite that has steps"
        )
    click.echo(_manifests(generation, as_json) if pods else pipeline_text(generation, as_json), nl=False)


def told_of_fork(commit: str) -> str:
    """Where a fork's settings and suites come from, in one sentence."""
    return f"a fork's pull request: settings and suites are those of the base commit {commit[:12]}"


def pipeline_text(generation: Generation, as_json: bool) -> str:
    """The uploads: exact JSON, one document a line, or YAML for people, one document each."""
    if as_json:
        return "".join(upload.document.decode("utf-8") + "\n" for upload in generation.uploads)
    import json

    from bkgen.yamldump import dump

    return "---\n".join(dump(json.loads(upload.document)) for upload in generation.uploads)


def _manifests(generation: Generation, as_json: bool) -> str:
    from bkgen.generate.manifests import pod_list
    from bkgen.generate.phases import as_json as json_text
    from bkgen.yamldump import dump

    manifests = pod_list(generation.pipeline)
    return json_text(manifests) if as_json else dump(manifests)
