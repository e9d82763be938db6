"""Where files are read from: the work tree, or one commit out of git's objects."""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from bkgen.errors import Position, UserError

SYMLINK = "120000"
EXECUTABLE = "100755"
REGULAR = "100644"
DIRECTORY = "040000"
ODD = "000000"
"""A pipe, a socket or a device: git has no mode for it, and reading it may never end."""
KINDS = {SYMLINK: "a symlink", DIRECTORY: "a directory", ODD: "a pipe or a device", "160000": "a submodule"}
"""What is no file, in words."""


class Tree(Protocol):
    """Files by repository-relative path. Modes are git's: 100644, 100755, 120000, 040000."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file; None where nothing is. UserError for anything else in its place."""

    def entries(self, directory: str) -> dict[str, str]:
        """The names directly in `directory` with their modes; empty where there is no such directory.

        UserError where it may not be read.
        """


class WorkTree(NamedTuple):
    """The files as they lie on disk below `root`. A symlink in a file's place is not followed."""

    root: Path

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file; None where nothing is. UserError for anything else in its place."""
        try:
            # Opening a pipe for reading waits for somebody who writes.
            handle = os.open(
                os.path.join(self.root, path),  # noqa: PTH118 - 2 µs against 20
                os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC,
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from None
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                raise no_file(path, DIRECTORY if stat.S_ISDIR(mode) else ODD)
            with open(handle, "rb", closefd=False) as file:
                return file.read()
        except OSError as error:
            raise _unreadable(path, error) from None
        finally:
            os.close(handle)

    def entries(self, directory: str) -> dict[str, str]:
        """The names directly in `directory` with their modes; empty where there is no such directory."""
        try:
            with os.scandir(self.root / directory) as found:
                return {entry.name: _mode(entry) for entry in sorted(found, key=lambda e: e.name)}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise _unreadable(directory, error) from None


def no_file(path: str, mode: str) -> UserError:
    """The error for what lies in a file's place and is none."""
    return UserError.single(
        "file-kind",
        f"this is {KINDS[mode]}, not a file",
        "put the file itself here",
        position=Position(path, 1, 1),
    )


def _unreadable(path: str, error: OSError) -> UserError:
    if error.errno == errno.ELOOP:
        return no_file(path, SYMLINK)
    return UserError.single(
        "file-unreadable",
        f"it cannot be read: {error.strerror}",
        "make it readable for the user that runs bkgen",
        position=Position(path, 1, 1),
    )


def _mode(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return SYMLINK
    if entry.is_dir():
        return DIRECTORY
    mode = entry.stat().st_mode
    if not stat.S_ISREG(mode):
        return ODD
    return EXECUTABLE if mode & stat.S_IXUSR else REGULAR


class CommitTree(NamedTuple):
    """The files of one commit: contents of the regular ones, modes of all."""

    contents: Mapping[str, bytes]
    modes: Mapping[str, str]

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file; None where nothing is. UserError for anything else in its place."""
        if self.modes.get(path) in KINDS:
            raise no_file(path, self.modes[path])
        return self.contents.get(path)

    def entries(self, directory: str) -> dict[str, str]:
        """The names directly in `directory` with their modes; empty where there is no such directory."""
        prefix = f"{directory}/" if directory else ""
        found: dict[str, str] = {}
        for path, mode in self.modes.items():
            if path.startswith(prefix):
                name, slash, _ = path[len(prefix) :].partition("/")
                found[name] = DIRECTORY if slash else mode
        return dict(sorted(found.items()))
