"""One place where every failure becomes a message and an exit code.

0 well   1 the user must fix something   2 usage   75 a retry may help   3 a bug   130 interrupted
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import click

from bkgen.changes import printable
from bkgen.errors import BkgenError, EnvironmentFailure, UsageError, UserError

INTERRUPTED = 130
BUG = 3


def main() -> NoReturn:
    """Run the command line and exit."""
    _travel_light()
    _fill_streams()
    status = run(sys.argv[1:])
    # Else the interpreter searches everything that is alive for cycles once more before it ends.
    gc.freeze()
    sys.exit(status)


def _travel_light() -> None:
    """Spare a process that lives for half a second what only pays in a long life."""
    # Next to nothing here is garbage in cycles, and looking for it takes a sixth of the time.
    gc.set_threshold(1_000_000)


def _fill_streams() -> None:
    """Open on nowhere what the caller closed (`>&-`): its number must not go to the next file opened."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def run(arguments: list[str]) -> int:
    """Run one command; the exit code. Never raises."""
    # A plug-in of the environment could change what is decided, and looking for one reads the metadata
    # of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from bkgen.cli.commands import bkgen

    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = bkgen.main(with_listed_files(arguments), prog_name="bkgen", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        return _usage(error)
    except (KeyboardInterrupt, click.Abort):
        say("bkgen: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough.
        _drop_output()
        return 0
    except BkgenError as error:
        return _failed(error)
    except OSError as error:
        _drop_output()
        return _failed(
            EnvironmentFailure(
                f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error),
                "look at the disk, its permissions and TMPDIR, then run it again",
            )
        )
    except Exception:  # noqa: BLE001 - the one place where a bug becomes a report
        return _bug()


def say(text: str) -> None:
    """Lines for a person: standard error, so that standard output holds the product only.

    Nothing in them is obeyed by a terminal, and nobody who does not read them stops an upload.
    """
    with suppress(OSError):
        click.echo("\n".join(map(printable, text.split("\n"))), err=True)


def _drop_output() -> None:
    # Python would try to write what is left once more at its end, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminated(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _usage(error: click.ClickException) -> int:
    say(f"bkgen: {error.format_message()}")
    context = getattr(error, "ctx", None)
    if context is not None:
        say(f"  hint: {context.command_path} --help")
    return 2


def _failed(error: BkgenError) -> int:
    if isinstance(error, UserError):
        for diagnostic in error.diagnostics:
            say(str(diagnostic))
        errors = sum(diagnostic.severity == "error" for diagnostic in error.diagnostics)
        if errors > 1:
            say(f"bkgen: {errors} errors")
    else:
        say(f"bkgen: {error}")
    return error.exit_code


def _bug() -> int:
    import traceback

    traceback.print_exc()
    say("bkgen: this is a bug in bkgen\n  hint: report it with the lines above and the command you ran")
    return BUG


def with_listed_files(arguments: list[str]) -> list[str]:
    """`--changed A B C` as click takes it: `--changed A --changed B --changed C`."""
    result: list[str] = []
    listing = False
    for position, argument in enumerate(arguments):
        if argument == "--":
            return result + arguments[position:]
        if argument == "--changed":
            listing = True
            if arguments[position + 1 : position + 2] in ([], ["--"]):
                raise UsageError("--changed names no file", "write the files behind it")
            continue
        if argument.startswith("-"):
            listing = False
        result += ["--changed", argument] if listing else [argument]
    return result
