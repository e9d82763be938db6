"""Files as git has them: in a revision's tree, out of its objects, and in the index."""

from __future__ import annotations

from collections.abc import Sequence

from bkgen.changes import printable
from bkgen.errors import UserError
from bkgen.git.command import GitFault, Runner
from bkgen.git.files import decode

_REGULAR = ("100644", "100755")


def commit_id(git: Runner, revision: str) -> str | None:
    """The id of the commit that `revision` names, else None. `revision` is never read as an option."""
    answer = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return answer.out.decode().strip() if answer.status == 0 else None


def tree(git: Runner, revision: str, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Mode and object id of every file, symlink and submodule at or below `paths` in `revision`, by path.

    `paths` are relative to the repository's root; `""` and `.` mean all of it, and a path that is not there
    adds nothing. Raises UserError where `revision` names no commit or a path leads out of the repository.
    """
    wanted = [_inside(path) for path in paths]
    if not wanted:
        return {}
    limit = () if "" in wanted else tuple(wanted)
    commit = commit_id(git, revision)
    if commit is None:
        raise UserError.single(
            "git-revision",
            f"'{printable(revision)}' names no commit of this repository",
            "git log shows the commits there are; a branch that was never fetched has none",
        )
    listed = git.output("ls-tree", "-r", "-z", "--full-tree", commit, "--", *limit)
    files = {}
    for entry in listed.split(b"\0")[:-1]:
        words, _, path = entry.partition(b"\t")
        mode, _, identity = words.decode().split(" ")
        files[decode(path)] = (mode, identity)
    return files


def contents(git: Runner, files: dict[str, tuple[str, str]]) -> dict[str, bytes]:
    """The bytes of the regular files among `files` (as `tree` gives them), in one git call."""
    regular = {path: identity for path, (mode, identity) in files.items() if mode in _REGULAR}
    identities = list(dict.fromkeys(regular.values()))
    if not identities:
        return {}
    blobs = _parse_batch(git.output("cat-file", "--batch", feed="\n".join(identities).encode() + b"\n"))
    return {path: blobs[identity] for path, identity in regular.items()}


def _parse_batch(raw: bytes) -> dict[str, bytes]:
    blobs = {}
    at = 0
    while at < len(raw):
        end = raw.index(b"\n", at)
        header = raw[at:end].decode("ascii", "replace").split(" ")
        if len(header) != 3 or header[1] != "blob":
            raise GitFault(f"git cat-file has no file for {header[0]}: {header[-1]}")
        size = int(header[2])
        blobs[header[0]] = raw[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return blobs


def tracked(git: Runner) -> list[tuple[str, str]]:
    """Path and mode of everything in the index, in git's order; a path in conflict is listed once."""
    modes: dict[str, str] = {}
    for entry in git.output("ls-files", "-s", "-z").split(b"\0")[:-1]:
        words, _, path = entry.partition(b"\t")
        modes.setdefault(decode(path), words[:6].decode())
    return list(modes.items())


def untracked(git: Runner) -> list[str]:
    """Path of everything in the work tree that is not in the index and not ignored, in git's order."""
    raw = git.output("ls-files", "--others", "--exclude-standard", "-z")
    return [decode(path) for path in raw.split(b"\0")[:-1]]


def _inside(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise UserError.single(
            "git-path",
            f"'{printable(path)}' leads out of the repository",
            "name it relative to the repository's root",
        )
    return "/".join(parts)
