"""Which files differ: between two commits, and between HEAD and the work tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast, get_args

from bkgen.changes import ChangedFile, Status
from bkgen.git.command import GitFault, Runner

_ABSENT = "000000"
_SUBMODULE = "160000"

# Plumbing, and every setting that could shorten the list, reorder it or run a program is named all the same.
_DIFF = (
    *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-relative", "-O/dev/null"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--full-index"),
)
_STATUS = (
    *("status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no"),
    *("--no-renames", "--ignore-submodules=none", "--no-show-stash", "--no-branch"),
)


class Modes(NamedTuple):
    """A path's modes in HEAD, the index (`staged`) and the work tree; `000000` where it does not exist."""

    head: str
    staged: str
    work_tree: str


def decode(raw: bytes) -> str:
    """A path out of git as text that keeps every byte (surrogate escapes)."""
    return raw.decode("utf-8", "surrogateescape")


def between(git: Runner, bases: Iterable[str], head: str) -> dict[str, ChangedFile]:
    """The files of `head` that differ from at least one of `bases`, by path.

    A criss-cross history has several merge bases. Each alone could hide a change that takes a file back to
    how that base has it, so their lists are joined.
    """
    files: dict[str, ChangedFile] = {}
    for base in bases:
        for changed in parse_raw(git.output(*_DIFF, base, head, "--")):
            files.setdefault(changed.path, changed)
    return files


def parse_raw(raw: bytes) -> list[ChangedFile]:
    """The entries of `git diff --raw -z`; raises GitFault for anything else than A, M, D and T entries."""
    fields = raw.split(b"\0")
    if fields.pop() != b"" or len(fields) % 2:
        raise GitFault("git diff-tree ended in the middle of an entry")
    files = []
    for entry, path in zip(fields[::2], fields[1::2], strict=True):
        words = entry.decode("ascii", "replace").split(" ")
        if len(words) != 5 or not words[0].startswith(":") or words[4] not in get_args(Status):
            raise GitFault(f"git diff-tree gave an entry that nobody knows: {' '.join(words)[:80]}")
        files.append(ChangedFile(decode(path), cast("Status", words[4]), words[0][1:], words[1]))
    return files


def uncommitted(git: Runner, root: Path) -> dict[str, Modes]:
    """What differs between HEAD, the index and the work tree below `root`; untracked files, too.

    `git status` compares contents where only a time stamp differs, and leaves the index as it is
    (`git diff` would write it). Ignored files are not listed.
    """
    fields = iter(git.output(*_STATUS).split(b"\0"))
    found: dict[str, Modes] = {}
    for entry in fields:
        if entry[:2] == b"? ":
            path = decode(entry[2:])
            known = found.get(path.removesuffix("/"), Modes(_ABSENT, _ABSENT, _ABSENT))
            found[path.removesuffix("/")] = Modes(known.head, known.staged, _mode_on_disk(root, path))
        elif entry[:2] in (b"1 ", b"u "):
            found.update([_tracked(entry)])
        elif entry and entry[:2] != b"# ":
            raise GitFault(f"git status gave an entry that nobody knows: {decode(entry[:40])!a}")
    return found


def _tracked(entry: bytes) -> tuple[str, Modes]:
    if entry[:2] == b"1 ":
        *words, path = entry.split(b" ", 8)
        head, index, work_tree = (word.decode() for word in words[3:6])
    else:
        # A conflict has up to three sides in the index: the common one, ours and theirs.
        *words, path = entry.split(b" ", 10)
        sides = [word.decode() for word in words[3:6]]
        head = next((mode for mode in (sides[1], sides[0], sides[2]) if mode != _ABSENT), _ABSENT)
        index, work_tree = head, words[6].decode()
    return decode(path), Modes(head, index, work_tree)


def with_uncommitted(
    committed: Mapping[str, ChangedFile], uncommitted: Mapping[str, Modes]
) -> dict[str, ChangedFile]:
    """Both lists as one, from the base to the work tree. A file that either of them names stays named."""
    files = dict(committed)
    for path, modes in uncommitted.items():
        old = committed[path].old_mode if path in committed else modes.head
        new = modes.work_tree
        if old == _ABSENT and new == _ABSENT:
            # Added and deleted again, one of the two not committed: HEAD or the index still has it.
            old = modes.head if modes.head != _ABSENT else modes.staged
        files[path] = ChangedFile(path, _status(old, new), old, new)
    return files


def _status(old: str, new: str) -> Status:
    if old == _ABSENT:
        return "A"
    if new == _ABSENT:
        return "D"
    return "M" if old[:3] == new[:3] else "T"


def _mode_on_disk(root: Path, path: str) -> str:
    if path.endswith("/"):
        # An untracked directory is listed as a whole only where it is a repository of its own.
        return _SUBMODULE
    try:
        mode = os.lstat(root / path).st_mode
    except OSError:
        return "100644"
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & stat.S_IXUSR else "100644"
