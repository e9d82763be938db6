"""The scripts that a step's commands name, and where each of them lies."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from bkgen.check.shell import Word, commands, parse
from bkgen.check.testlike import unwrapped
from bkgen.pipeline.commands import in_directory
from bkgen.spec.references import Path, walk
from bkgen.spec.steps import CommandStep
from bkgen.spec.suite import Suite

SUFFIXES = (".sh", ".bash", ".py")
"""The ends of names that are scripts for certain; another path may be built by the command before it."""
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "source", "."})
_PYTHONS = ("python", "pypy")
_MARKS = ("{{", "$", "*", "?", "[", "`")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a step, as written; `field` is its place in the suite's file."""

    suite: Suite
    step: CommandStep
    step_path: Path
    field: Path
    text: str


@dataclass(frozen=True, slots=True)
class Named:
    """A script that a command names: `path` from the repository's root, `written` as it stands there.

    `executed` says that the file itself is started, so that it needs its run bit.
    """

    command: Command
    path: str
    written: str
    executed: bool


def commands_of(suite: Suite) -> Iterator[Command]:
    """Every command of the suite's steps; `./run.sh` where the file has no steps."""
    if suite.spec.steps is None:
        yield Command(suite, CommandStep(command="./run.sh"), (), (), "./run.sh")
    for path, step in walk(suite):
        if isinstance(step, CommandStep):
            name = "commands" if step.commands is not None else "command"
            written = step.commands if step.commands is not None else step.command
            for index, text in enumerate(step.commands_list):
                field: Path = (*path, name) if isinstance(written, str) else (*path, name, index)
                yield Command(suite, step, path, field, text)


def named_scripts(suite: Suite) -> Iterator[Named]:
    """The scripts that the suite's commands name. After a `cd` nobody can tell, and none is."""
    moved: set[Path] = set()
    for command in commands_of(suite):
        for named in _in_command(command):
            if named is None:
                moved.add(command.step_path)
            elif command.step_path not in moved:
                yield named


def _in_command(command: Command) -> Iterator[Named | None]:
    text = in_directory(command.text, command.suite.directory)
    for simple, _ in commands(parse(text).body):
        words = {word.text: word for word in simple.argv}
        if simple.texts[:1] in (["cd"], ["pushd"]):
            yield None
            continue
        found = _script_in(unwrapped(simple.texts))
        if found is not None:
            written, executed = found
            if _is_plain(words.get(written)):
                own = text != command.text and simple.offset == 0 and executed
                if own or written.endswith(SUFFIXES):
                    shown = command.text.split()[0] if own else written
                    yield Named(command, posixpath.normpath(written), shown, executed)


def _script_in(words: list[str]) -> tuple[str, bool] | None:
    """The script that a command starts, and whether the file itself is what is started."""
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    if name in _SHELLS or name.startswith(_PYTHONS):
        for word in words[1:]:
            if word in {"-c", "-m"}:
                return None
            if not word.startswith("-"):
                return (word, False) if _is_path(word) else None
        return None
    return (words[0], True) if "/" in words[0] and _is_path(words[0]) else None


def _is_path(word: str) -> bool:
    return not word.startswith(("/", "~")) and ("/" in word or word.endswith(SUFFIXES))


def _is_plain(word: Word | None) -> bool:
    return word is not None and word.literal and not any(mark in word.text for mark in _MARKS)
