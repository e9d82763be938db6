"""`bkgen completion`: the script with which a shell completes commands, options and suites."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_BKGEN_COMPLETE"
"""What click's script sets when the shell asks; click derives the name from the program's."""


def run_completion(group: click.Group, shell: str) -> None:
    """Print the script of `shell`, which must be one that click knows."""
    kind = get_completion_class(shell)
    if kind is None:
        raise AssertionError(f"click completes in no shell called {shell}")
    click.echo(kind(group, {}, "bkgen", VARIABLE).source(), nl=False)
