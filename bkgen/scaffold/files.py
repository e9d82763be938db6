"""A file as it is and as it should be; replaced at once or not at all."""

from __future__ import annotations

import difflib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bkgen.errors import EnvironmentFailure, Position, UserError


@dataclass(frozen=True, slots=True)
class Page:
    """A file below the repository's root: its bytes now (None: there is none), and as they should be."""

    path: str
    before: bytes | None
    after: bytes

    @property
    def is_stale(self) -> bool:
        """It is not as it should be."""
        return self.before != self.after

    def diff(self) -> str:
        """What would change, as a unified diff; empty where nothing would."""
        old = f"a/{self.path}" if self.before is not None else os.devnull
        lines = difflib.unified_diff(_lines(self.before or b""), _lines(self.after), old, f"b/{self.path}")
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


def _lines(data: bytes) -> list[str]:
    # Not splitlines(), which also breaks lines at form feeds and other characters of the author's.
    lines = data.decode("utf-8", "replace").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def read_page(root: Path, path: str) -> bytes | None:
    """The bytes of a file that may be replaced; None where there is none. UserError for a symlink."""
    place = root / path
    if place.is_symlink():
        # Replacing it would leave the file it points to as it is, and the link would be gone.
        raise UserError.single(
            "docs-symlink", "this is a symlink", "put the file itself here", position=Position(path)
        )
    with translated(path):
        return place.read_bytes() if place.is_file() else None


def write_page(root: Path, page: Page) -> None:
    """Replaces the file in one move: a reader sees the old bytes or the new ones. Keeps its mode.

    UserError where the user may not write; EnvironmentFailure where the disk fails.
    """
    place = root / page.path
    with translated(page.path):
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else new_mode(0o666)
        write_whole(place, page.after, mode)


def write_whole(place: Path, data: bytes, mode: int) -> None:
    """`data` at `place`, on the disk before the name points to it. OSError."""
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".tmp", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(place)
    except BaseException:
        # Ctrl-C, too, leaves nothing behind.
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    sync_directory(place.parent)


def sync_directory(directory: Path) -> None:
    """Makes the names in `directory` last through a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def new_mode(wanted: int) -> int:
    """The mode of a new file: `wanted` without what the user's umask takes away."""
    mask = os.umask(0)
    os.umask(mask)
    return wanted & ~mask


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Faults of the disk, said as what they are to the user. UserError, EnvironmentFailure."""
    try:
        yield
    except (PermissionError, NotADirectoryError, IsADirectoryError) as error:
        hint = "make the directory writable for you, and a file of this name a plain one"
        raise UserError.single("docs-write", f"{error.strerror}", hint, position=Position(path)) from None
    except OSError as error:
        raise EnvironmentFailure(f"{path}: {error.strerror}", "look at the disk, then run it again") from None
