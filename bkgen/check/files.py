"""The repository as check sees it: its files on disk, and what git says of them."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bkgen.errors import EnvironmentFailure, UserError
from bkgen.globs import Paths

_LINKS = frozenset({"120000", "160000"})


@dataclass(frozen=True, slots=True)
class Listing:
    """Every file that git has, with its mode in the index, and every one it would take (`new`)."""

    tracked: Mapping[str, str]
    new: frozenset[str]
    names: tuple[str, ...]
    top: frozenset[str]
    paths: Paths

    @classmethod
    def of(cls, tracked: Mapping[str, str], new: frozenset[str] = frozenset()) -> Listing:
        """A listing; `names` and `paths` hold all files, new ones included, in order; `top` is the root's."""
        names = tuple(sorted({*tracked, *new}))
        top = frozenset(name.split("/")[0] for name in names)
        return cls(tracked, new, names, top, Paths((path, tracked.get(path) in _LINKS) for path in names))

    def below(self, directory: str) -> Sequence[str]:
        """The names below a directory, in order."""
        low = bisect_left(self.names, f"{directory}/")
        return self.names[low : bisect_left(self.names, f"{directory}0", low)]  # "0" comes after "/"

    def __contains__(self, path: str) -> bool:
        return path in self.tracked or path in self.new

    def is_link(self, path: str) -> bool:
        """A symlink or a submodule."""
        return self.tracked.get(path) in _LINKS


def list_files(root: Path, environ: Mapping[str, str]) -> Listing | str:
    """What git knows below `root`, or in one line why that is not known."""
    from bkgen.git import Repository

    try:
        repository = Repository.open(root, environ=environ)
        return Listing.of(dict(repository.tracked_files()), frozenset(repository.untracked_files()))
    except UserError as error:
        return error.diagnostics[0].message
    except EnvironmentFailure as error:
        return str(error).splitlines()[0]


@dataclass(frozen=True, slots=True)
class Disk:
    """Files below `root` by repository-relative path, and git's word on them where it is known."""

    root: Path
    listing: Listing | None

    def text(self, path: str) -> str | None:
        """The file as text, undecodable bytes kept as surrogates; None where there is no such file."""
        try:
            # Reading a pipe would wait for somebody who writes.
            if not self.is_file(path):
                return None
            return (self.root / path).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return None

    def is_file(self, path: str) -> bool:
        """A file is there, perhaps by way of a symlink."""
        return os.path.isfile(self.root / path)  # noqa: PTH113 - False, too, where nothing may be read

    def is_ignored(self, path: str) -> bool:
        """It is on this disk alone: git would not take it along."""
        return self.listing is not None and path not in self.listing

    def is_executable(self, path: str) -> bool:
        """The run bit is set: in git where the file is tracked, else on disk. A symlink's target decides."""
        mode = self.listing.tracked.get(path) if self.listing else None
        if mode in {"100644", "100755"}:
            return mode == "100755"
        try:
            return bool(os.stat(self.root / path).st_mode & stat.S_IXUSR)  # noqa: PTH116
        except OSError:
            return False

    def below(self, directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
        """Files below `directory` whose names end so, in order; those that git ignores are left out."""
        names = self.listing.below(directory) if self.listing else sorted(_walked(self.root, directory))
        for name in names:
            if name.endswith(suffixes) and self.is_file(name):
                yield name


def _walked(root: Path, directory: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root / directory):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        below = Path(folder).relative_to(root).as_posix()
        for name in files:
            yield f"{below}/{name}"
