"""`bkgen render`."""

from __future__ import annotations

import click

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.cli.entry import say
from bkgen.cli.facts import find_root, here, offline_workspace
from bkgen.errors import UserError
from bkgen.generate.phases import Generation, generate, select


def run_render(build: Build, suites: tuple[str, ...], *, as_json: bool, pods: bool) -> None:
    """Print the pipeline (YAML, or JSON), or the Pods, of the named suites."""
    _, configuration = offline_workspace(find_root(here()))
    selection = select(suites, configuration.suites, forced=True)
    generation = generate(configuration, build, ChangesNotAsked("render shows what is named"), selection)
    for diagnostic in generation.diagnostics:
        say(str(diagnostic))
    if not generation.uploads:
        raise UserError.single(
            "render-empty", "nothing in these suites can run", "name a suite that has steps"
        )
    click.echo(_manifests(generation, as_json) if pods else pipeline_text(generation, as_json), nl=False)


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
