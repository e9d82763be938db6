"""Python files that start pytest themselves and lose what it says."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping

from bkgen.check.commands import Named
from bkgen.check.files import Disk
from bkgen.check.inline_python import started_files
from bkgen.check.lost_results import DROPPED, lost_results
from bkgen.check.shell import parse
from bkgen.errors import Diagnostic, Position, Severity

_MAY_CALL = (b"pytest.main", b"import main", b"import pytest as", b"main as")


def python_problems(
    directories: Iterable[str], scripts: Mapping[str, list[Named]], disk: Disk
) -> Iterator[Diagnostic]:
    """Calls of `pytest.main` whose result nobody looks at.

    In the suites' `directories`, in files that `scripts` start, and, as a warning since nobody may start
    them so, in every other test file that git tracks.
    """
    seen: set[str] = set()
    for directory in directories:
        for path in disk.below(directory, (".py",)):
            seen.add(path)
            yield from _in_file(path, disk.text(path) or "", "error")
    for path in _started(scripts, disk):
        if path not in seen:
            seen.add(path)
            yield from _in_file(path, _calling(path, disk), "error")
    for path in _test_files(disk):
        if path not in seen:
            yield from _in_file(path, _calling(path, disk), "warning")


def _started(scripts: Mapping[str, list[Named]], disk: Disk) -> Iterator[str]:
    for path in scripts:
        text = disk.text(path) or ""
        if path.endswith(".py"):
            yield path
        elif ".py" in text:
            for candidates in started_files(path, parse(text)):
                yield from [one for one in candidates if disk.is_file(one)][:1]


def _test_files(disk: Disk) -> Iterator[str]:
    for path in sorted(disk.listing.tracked) if disk.listing else ():
        name = path.rsplit("/", 1)[-1]
        if name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py")):
            yield path


def _calling(path: str, disk: Disk) -> str:
    """The text of a file that may call `pytest.main`; empty for one that does not, as nearly all do not."""
    try:
        content = (disk.root / path).read_bytes() if disk.is_file(path) else b""
    except OSError:
        return ""
    if b"pytest" not in content or not any(word in content for word in _MAY_CALL):
        return ""
    return content.decode("utf-8", "surrogateescape")


def _in_file(path: str, text: str, severity: Severity) -> Iterator[Diagnostic]:
    if "pytest" not in text:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.encode("utf-8", "surrogateescape"))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        yield Diagnostic(
            "python-unreadable",
            f"Python {version} cannot read the file: {getattr(error, 'msg', error)}",
            "mend it; a lost exit status in it would go unseen",
            Position(path, line, getattr(error, "offset", None) or 1),
            severity="warning",
        )
        return
    for call in lost_results(tree, in_tests=severity == "error"):
        place = Position(path, call.lineno, call.col_offset + 1)
        yield Diagnostic("python-pytest-main", *DROPPED, place, severity=severity)
