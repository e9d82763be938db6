"""Is `tests_dir` where the suites are? A misspelt one would make every build green, with nothing run."""

from collections import deque
from collections.abc import Iterable, Iterator

from bkgen.config.trees import DIRECTORY, Tree
from bkgen.errors import Diagnostic, Position, UserError, nearest
from bkgen.spec.suite import Located

_FILES = {"pipeline.yml", "run.sh"}
_MOST = 2000
"""Directories that are looked into for suites; they are read only where none was found."""


def tests_dir_problems(tree: Tree, tests_dir: str, source: Located, *, found: bool) -> Iterator[Diagnostic]:
    """What is wrong with the `tests_dir` that is written in `source`, if it is written at all.

    `found` says that something in it is a suite, or tries to be one. With no suite anywhere it is a warning:
    the first one is still to be made.
    """
    if not source.has(("tests_dir",)):
        return
    place = source.position(("tests_dir",), of_key=False)
    if _entries(tree, tests_dir).keys() >= _FILES:
        parent = tests_dir.rpartition("/")[0]
        yield Diagnostic(
            "settings-tests-dir",
            f"'{tests_dir}' is itself a suite, not the directory of the suites",
            f"name the directory above it: {parent}" if parent else "give the suite a directory below it",
            place,
            "tests_dir",
        )
        return
    if found:
        return
    exists = bool(_entries(tree, tests_dir))
    what = f"'{tests_dir}' holds no suite" if exists else f"there is no directory '{tests_dir}'"
    homes = list(_homes(tree))
    if homes:
        yield Diagnostic("settings-tests-dir", what, _meant(tests_dir, homes), place, "tests_dir")
    else:
        yield no_suites(what, place)


def no_suites(what: str, place: Position) -> Diagnostic:
    """The warning that no build of this repository can run anything."""
    hint = "`bkgen new NAME` makes a suite; tests_dir in bkgen.yml says where suites are"
    message = f"{what}: no build runs anything"
    return Diagnostic("settings-no-suites", message, hint, place, severity="warning")


def _meant(tests_dir: str, homes: list[str]) -> str:
    close = nearest(tests_dir, homes)
    return f"did you mean '{close}'?" if close else f"there are suites in {', '.join(homes[:3])}"


def _homes(tree: Tree) -> Iterable[str]:
    """The directories with a suite in them, those near the root first."""
    homes: dict[str, None] = {}
    left = deque([""])
    for _ in range(_MOST):
        if not left:
            break
        directory = left.popleft()
        entries = _entries(tree, directory)
        parent, _, name = directory.rpartition("/")
        if parent and entries.keys() >= _FILES and not name.startswith((".", "_")):
            homes[parent] = None
            continue
        left.extend(
            f"{directory}/{name}" if directory else name
            for name, mode in entries.items()
            if mode == DIRECTORY and name != ".git"
        )
    return homes


def _entries(tree: Tree, directory: str) -> dict[str, str]:
    try:
        return tree.entries(directory)
    except UserError:
        # What may not be read is said where it is read as a suite; here it is only searched.
        return {}
