"""`bkgen docs` and `bkgen new`."""

from __future__ import annotations

from pathlib import Path

import click

from bkgen.cli.entry import say
from bkgen.cli.facts import find_root, here, offline_workspace
from bkgen.errors import UsageError
from bkgen.generate.phases import select
from bkgen.scaffold.docs import pages
from bkgen.scaffold.files import write_page
from bkgen.scaffold.new import Wanted, new_suite, write_suite
from bkgen.spec.cases import FILE as TABLE

SCHEMA = ".schemas/suite.json"
"""Where the first line of a new pipeline.yml looks for its schema."""


def run_docs(names: tuple[str, ...], *, check: bool) -> int:
    """Write the pages that are not as they should be; with `check` print the difference, and return 1."""
    root = find_root(here())
    _, configuration = offline_workspace(root)
    selection = select(names, configuration.suites)
    if selection.steps:
        raise UsageError("a page is a whole suite's", "name suites, without a step")
    stale = [page for page in pages(root, configuration, selection.suites) if page.is_stale]
    for page in stale:
        if check:
            click.echo(page.diff(), nl=False)
            say(f"{page.path}: {'out of date' if page.before is not None else 'missing'}")
        else:
            write_page(root, page)
            say(f"{page.path}: {'updated' if page.before is not None else 'written'}")
    if check and stale:
        say("  hint: `bkgen docs` mends it")
        return 1
    return 0


def run_new(name: str, gpus: int | None, labels: tuple[str, ...]) -> None:
    """Write the directory of a new suite, and say what comes next."""
    root = find_root(here())
    tree, configuration = offline_workspace(root)
    files = new_suite(tree, configuration, Wanted(name, gpus, labels))
    tests_dir = configuration.settings.tests_dir
    directory = f"{tests_dir}/{name}"
    write_suite(root, directory, files)
    for file in files:
        say(f"{directory}/{file}: written")
    say(f"next: write the test in {directory}/run.sh, then `bkgen check --strict` and `bkgen render {name}`")
    if not labels and tree.read(f"{tests_dir}/{TABLE}") is not None:
        say(f"  {tests_dir}/{TABLE}: `bkgen check` names the cases that run '{name}', too; add it to `runs`")
    if tree.read(SCHEMA) is None:
        say(f"  for the editor: mkdir -p {Path(SCHEMA).parent} && bkgen schema suite >{SCHEMA}")
