"""Python that a shell script runs: what stands in it, after `-c` or as a heredoc, and the files it starts."""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Iterator

from bkgen.check.fault import Fault
from bkgen.check.lost_results import DROPPED, lost_results
from bkgen.check.shell import Document, Script, Simple, Word, commands
from bkgen.check.testlike import unwrapped

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_WITH_VALUE = frozenset({"-W", "-X"})


def inline_faults(script: Script) -> Iterator[Fault]:
    """`pytest.main(…)` whose result is dropped, in the Python that stands in the script itself."""
    for simple, _ in commands(script.body):
        arguments = _arguments(simple)
        if arguments is None:
            continue
        code, file = _given(arguments)
        if code is not None:
            for _ in _lost(code.text):
                yield _fault(code.offset)
        elif file is None or file.text == "-":
            for number in simple.documents:
                document = script.documents.get(number)
                if document is not None:
                    yield from _in_document(document)


def started_files(path: str, script: Script) -> Iterator[tuple[str, ...]]:
    """Where each Python file that the script at `path` starts may lie, from the repository's root."""
    folder = posixpath.dirname(path)
    for simple, _ in commands(script.body):
        arguments = _arguments(simple)
        file = _given(arguments)[1] if arguments is not None else None
        if file is not None and file.text.endswith(".py"):
            # What is before the last expansion is some folder: the script's own, or the root.
            tail = re.split(r"[)}]/|\$\w+/", file.text)[-1]
            places = (posixpath.normpath(tail), posixpath.normpath(f"{folder}/{tail}"))
            yield tuple(place for place in places if not place.startswith(("..", "/")))


def _arguments(simple: Simple) -> list[Word] | None:
    """What a Python interpreter is given, or None for another command."""
    rest = unwrapped(simple.texts)
    if not rest or not _PYTHON.fullmatch(rest[0]):
        return None
    return list(simple.argv[len(simple.argv) - len(rest) + 1 :])


def _given(arguments: list[Word]) -> tuple[Word | None, Word | None]:
    """The code after `-c`, or else the file; neither for a module."""
    skipped = False
    for index, word in enumerate(arguments):
        if skipped:
            skipped = False
        elif word.text == "-c":
            return (arguments[index + 1] if index + 1 < len(arguments) else None), Word("", True, word.offset)
        elif word.text == "-m":
            return None, Word("", True, word.offset)
        elif word.text == "-" or not word.text.startswith("-"):
            return None, word
        else:
            skipped = word.text in _WITH_VALUE
    return None, None


def _in_document(document: Document) -> Iterator[Fault]:
    lines = document.text.split("\n")
    # `<<-` takes tabs away; where the others begin so, the code would not be Python anyway.
    for call in _lost("\n".join(line.lstrip("\t") for line in lines)) or _lost(document.text):
        before = sum(len(line) + 1 for line in lines[: call.lineno - 1])
        written = lines[call.lineno - 1]
        yield _fault(document.offset + before + max(written.find("pytest"), 0))


def _lost(text: str) -> list[ast.Call]:
    """The calls whose result is dropped; none where the text is no Python, or not all of it stands there."""
    if "main" not in text:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(lost_results(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _fault(offset: int) -> Fault:
    return Fault("python-pytest-main", offset, *DROPPED)
