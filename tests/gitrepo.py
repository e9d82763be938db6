"""Real git repositories for tests, composed from small functions. Nothing of the developer's git shows."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from bkgen.build import Build
from bkgen.changes import Changes, ChangeSet, ChangesNotAsked, UnknownChanges
from bkgen.git import Repository

DATE = "2024-05-01T10:00:00+00:00"
_QUICK = ("-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "maintenance.auto=false")


@dataclass(frozen=True)
class Link:
    """A symlink to `target`."""

    target: str


@dataclass(frozen=True)
class Program:
    """An executable file."""

    text: str = "#!/bin/sh\n"


Content = str | bytes | Link | Program | None
"""What a path holds; None takes it away."""

START: dict[str, Content] = {
    "README.md": "read me\n",
    "docs/a.md": "a\n",
    "docs/n.md": "n\n",
    "src/core.py": "core = 1\n",
    "src/other.py": "other = 1\n",
    ".buildkite/pipeline.yml": "steps: []\n",
}


def environ(home: Path, **more: str) -> dict[str, str]:
    """The environment of a machine with git and nothing configured; `more` adds to it."""
    plain = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    return {**plain, **more}


@dataclass
class Checkout:
    """A repository with a work tree, and ways to change it."""

    path: Path
    environ: dict[str, str] = field(repr=False)

    @property
    def url(self) -> str:
        """A URL that git fetches from by its transport protocol (a bare path would copy files)."""
        return f"file://{self.path}"

    @property
    def head(self) -> str:
        """The id of the commit that is checked out."""
        name = (self.path / ".git/HEAD").read_text().strip()
        loose = self.path / ".git" / name.removeprefix("ref: ")
        if not name.startswith("ref: "):
            return name
        return loose.read_text().strip() if loose.is_file() else self.git("rev-parse", "HEAD")

    def git(self, *arguments: str, date: str = DATE, feed: str | None = None) -> str:
        """Standard output of git, without the newline at its end; fails the test if git fails."""
        identity = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "Test"), ("EMAIL", "test@example.invalid"), ("DATE", date))
        }
        done = subprocess.run(
            ["git", *_QUICK, "-c", "protocol.file.allow=always", *arguments],
            cwd=self.path,
            env=self.environ | identity,
            input=feed.encode() if feed is not None else None,
            stdin=None if feed is not None else subprocess.DEVNULL,
            capture_output=True,
        )
        assert done.returncode == 0, (arguments, done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def write(self, files: Mapping[str, Content]) -> None:
        """Writes, links or deletes files of the work tree."""
        for name, content in files.items():
            path = self.path / name
            if path.is_symlink() or path.is_file():
                path.unlink()
            if content is None:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                path.symlink_to(content.target)
            elif isinstance(content, Program):
                path.write_text(content.text)
                path.chmod(0o755)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(
        self, files: Mapping[str, Content] | None = None, *, message: str = "change", date: str = DATE
    ) -> str:
        """Commits `files` and all else that changed (nothing gives an empty commit); returns the id."""
        self.write(files or {})
        if files:
            self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message, date=date)
        return self.head

    def chain(self, branch: str, count: int, *, start: str | None = None) -> None:
        """`count` commits on `branch` (from `start`, default: its tip), each changing the file `BRANCH.txt`.

        Made by one git process, and the work tree is left behind: for histories, not for files.
        """
        lines = [f"reset refs/heads/{branch}", f"from {self.git('rev-parse', start or branch)}", ""]
        for number in range(count):
            text = f"{branch} {number}"
            lines += [f"commit refs/heads/{branch}", "committer Test <test@example.invalid> 1714557600 +0000"]
            lines += [
                f"data {len(text)}",
                text,
                f"M 100644 inline {branch}.txt",
                f"data {len(text)}",
                text,
                "",
            ]
        self.git("fast-import", "--quiet", "--force", feed="\n".join(lines))

    def branch(self, name: str, start: str = "HEAD") -> None:
        """A new branch `name` at `start`, checked out."""
        self.git("checkout", "--quiet", "-b", name, start)

    def switch(self, revision: str) -> None:
        """Checks a branch or commit out."""
        self.git("checkout", "--quiet", revision)

    def merge(self, *revisions: str, message: str = "merge") -> str:
        """A merge commit of HEAD with `revisions`, never a fast-forward; returns the id."""
        self.git("merge", "--quiet", "--no-ff", "--message", message, *revisions)
        return self.head

    def pack(self) -> None:
        """Puts all objects into one file, so that a copy of the repository is made quickly."""
        self.git("repack", "-a", "-d", "--quiet")
        shutil.rmtree(self.path / ".git/logs", ignore_errors=True)

    def write_info(self, name: str, text: str) -> None:
        """Writes a file below `.git/info`."""
        (self.path / ".git/info").mkdir(exist_ok=True)
        (self.path / ".git/info" / name).write_text(text)

    def configure(self, text: str) -> None:
        """Adds `text` to the repository's own configuration."""
        with (self.path / ".git/config").open("a") as file:
            file.write(text)

    def open(self, directory: Path | None = None, *, time_limit: float = 60.0, **more: str) -> Repository:
        """The repository as bkgen opens it, from `directory` (default: the top level)."""
        return Repository.open(directory or self.path, environ=self.environ | more, time_limit=time_limit)

    def state(self) -> dict[str, bytes]:
        """Every file of the work tree and of the repository itself, but for objects and reflogs."""
        kept = {}
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path).as_posix()
            if name.startswith((".git/objects/", ".git/logs/")) or path.is_dir():
                continue
            kept[name] = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        return kept

    def copy(self, path: Path) -> Checkout:
        """A copy of the directory; its files have new time stamps."""
        shutil.copytree(self.path, path, symlinks=True, copy_function=shutil.copy)
        return Checkout(path, environ(path.parent))


def repository(path: Path, *, files: Mapping[str, Content] | None = None, branch: str = "main") -> Checkout:
    """A new repository with one commit of `files` (default: `START`) on `branch`."""
    made = Checkout(path, environ(path.parent))
    if files is None and branch == "main":
        shutil.copytree(_start(), path)
        return made
    path.mkdir(parents=True)
    made.git("init", "--quiet", "--template=", f"--initial-branch={branch}")
    made.commit(START if files is None else files, message="start")
    return made


@cache
def _start() -> Path:
    """The repository that most tests begin with, made once in a process and copied from then on."""
    made = repository(_home() / "start", files=START)
    made.pack()
    return made.path


@cache
def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="bkgen-test-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def clone(source: Checkout, path: Path, *, revision: str = "main", depth: int | None = None) -> Checkout:
    """A clone as Buildkite leaves it: `revision` detached, every branch of `source` as a tracking ref.

    With `depth` only `revision` is fetched, that deep, and there are no tracking refs. A full clone is made
    by copying files: twenty times as fast as git, and the result is the same.
    """
    commit = source.git("rev-parse", revision)
    made = Checkout(path, environ(path.parent))
    remote = f'[remote "origin"]\n\turl = {source.url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
    if depth is not None:
        path.mkdir(parents=True)
        made.git("init", "--quiet", "--template=", "--initial-branch=unused")
        made.configure(remote)
        made.git(
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", f"--depth={depth}", "origin", commit
        )
    else:
        shutil.copytree(source.path, path, symlinks=True)
        shutil.rmtree(path / ".git/logs", ignore_errors=True)
        (path / ".git/refs/remotes").mkdir()
        (path / ".git/refs/heads").rename(path / ".git/refs/remotes/origin")
        (path / ".git/refs/heads").mkdir()
        (path / ".git/HEAD").write_text(f"{source.head}\n")
        made.configure(remote)
        if source.head == commit:
            return made
    made.git("checkout", "--quiet", "--detach", commit)
    return made


@dataclass
class PullRequest:
    """A pull request: the base repository, and a checkout of the pull request's head."""

    upstream: Checkout
    checkout: Checkout
    base: str

    def build(self, **facts: object) -> Build:
        """The build of this pull request, with some `facts` changed."""
        known: dict[str, object] = {
            "source": "webhook",
            "branch": "feature",
            "commit": self.checkout.head,
            "pull_request": 7,
            "base_branch": self.base,
            "repository": self.upstream.url,
        }
        return Build(**(known | facts))  # type: ignore[arg-type]

    def changes(
        self, directory: str = ".", *, environ: Mapping[str, str] | None = None, **facts: object
    ) -> Changes:
        """What bkgen says of it, opened in `directory`, with `environ` added to the environment."""
        opened = self.checkout.open(self.checkout.path / directory, **(environ or {}))
        return opened.changes(self.build(**facts), default_branch="main")


def pull_request(
    path: Path,
    change: Mapping[str, Content] | None = None,
    *,
    base: str = "main",
    base_change: str = "src/other.py",
    depth: int | None = None,
) -> PullRequest:
    """A pull request of one commit, `change`; meanwhile its base changed the file `base_change`."""
    if change is None and depth is None:
        return _copied(_usual(base, base_change), path)
    upstream = _parted(base, base_change).copy(path / "upstream")
    upstream.commit({"src/core.py": "core = 2\n"} if change is None else change)
    checkout = clone(upstream, path / "checkout", revision="feature", depth=depth)
    upstream.switch(base)
    return PullRequest(upstream, checkout, base)


@cache
def _usual(base: str, base_change: str) -> PullRequest:
    """The pull request that most tests begin with."""
    home = _home() / "usual" / base / base_change
    made = pull_request(home, {"src/core.py": "core = 2\n"}, base=base, base_change=base_change)
    made.upstream.pack()
    made.checkout.pack()
    return made


def _copied(made: PullRequest, path: Path) -> PullRequest:
    upstream = made.upstream.copy(path / "upstream")
    checkout = made.checkout.copy(path / "checkout")
    config = checkout.path / ".git/config"
    config.write_text(config.read_text().replace(made.upstream.url, upstream.url))
    return PullRequest(upstream, checkout, made.base)


@cache
def _parted(base: str, name: str) -> Checkout:
    """A repository whose base branch has moved on by a change of `name` since `feature` left it."""
    made = repository(_home() / "parted" / base / name, branch=base)
    made.branch("feature")
    made.switch(base)
    made.commit({name: "changed\n"})
    made.switch("feature")
    made.pack()
    return made


def push_build(checkout: Checkout, **facts: object) -> Build:
    """A push of the checkout's HEAD to main."""
    known: dict[str, object] = {"source": "webhook", "branch": "main", "commit": checkout.head}
    return Build(**(known | facts))  # type: ignore[arg-type]


def paths(changes: Changes) -> list[str]:
    """The paths of a change set; fails the test for anything else."""
    return [file.path for file in change_set(changes).files]


def statuses(changes: Changes) -> dict[str, str]:
    """Status letter by path of a change set."""
    return {file.path: file.status for file in change_set(changes).files}


def change_set(changes: Changes) -> ChangeSet:
    """`changes`, which have to be known."""
    assert isinstance(changes, ChangeSet), changes
    return changes


def reason(changes: Changes, kind: Literal["unknown", "not asked"] = "unknown") -> str:
    """Why the changes are not known (or not asked for); fails the test where they are known."""
    assert isinstance(changes, UnknownChanges if kind == "unknown" else ChangesNotAsked), changes
    return changes.reason


def program(path: Path, text: str) -> Path:
    """An executable bash script at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path
