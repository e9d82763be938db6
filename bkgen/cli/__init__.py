"""The command line: the only reader of the environment, the only writer to the terminal."""

from bkgen.cli.entry import main

__all__ = ["main"]
