"""What concerns all suites at once: shared files, what links hide, and files that no suite claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bkgen.changes import SUBMODULE, ChangedFile
from bkgen.globs import Paths, Patterns, reaches_below
from bkgen.spec.settings import Settings

SETTINGS = "bkgen.yml"


def forcing(
    files: Sequence[ChangedFile],
    paths: Paths,
    settings: Settings,
    trivial: Iterable[str],
    owners: Mapping[str, str],
) -> tuple[str, str | None] | None:
    """The changed file that makes everything run, and the pattern of `force_run` that says so.

    No pattern: the settings decide about every suite, and what lies among the suites in none of them is
    there for all. (A team that writes its own `force_run` must not lose that.)
    """
    if not files:
        return None
    patterns = settings.filter.force_run
    found = paths.first_match(Patterns(patterns)) or inside_link(patterns, files)
    if found is not None:
        return found
    prefix, weightless = f"{settings.tests_dir.strip('/')}/", set(trivial)
    for file in files:
        among = file.path.startswith(prefix) and file.path not in owners and file.path not in weightless
        if file.path == SETTINGS or (among and file.path != f"{prefix}paths.test.yml"):
            return file.path, None
    return None


def inside_link(patterns: Sequence[str], files: Iterable[ChangedFile]) -> tuple[str, str] | None:
    """A moved submodule or a symlink that `patterns` reach into, and the pattern that does.

    What changed inside is not in the list of files: only the link is.
    """
    for file in files:
        if file.is_link:
            found = None
            for pattern in patterns:
                if not pattern.startswith("!"):
                    floats = SUBMODULE in (file.old_mode, file.new_mode)
                    found = pattern if reaches_below(pattern, file.path, floats=floats) else found
                elif Patterns([pattern[1:]]).match(file.path, is_link=True) is not None:
                    found = None
            if found is not None:
                return file.path, found
    return None


def suites_behind(link: ChangedFile, directories: Mapping[str, str]) -> list[str]:
    """The suites that lie in a submodule or behind a symlink."""
    if not link.is_link:
        return []
    return [name for name, place in directories.items() if f"{place}/".startswith(f"{link.path}/")]
