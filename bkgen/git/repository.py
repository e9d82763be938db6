"""The repository around a directory, and the questions that bkgen asks it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from bkgen.build import Build
from bkgen.changes import Changes, ChangeSet, ChangesNotAsked, UnknownChanges, printable
from bkgen.errors import BkgenError, EnvironmentFailure, UserError
from bkgen.git import files, objects
from bkgen.git.command import Answer, GitFault, Runner
from bkgen.git.history import Comparison, History

PushBase = Literal["parent", "always-run"]
WORK_TREE = "working tree"


class Repository:
    """A work tree and its git repository. `root` is the top level of the work tree.

    Every public call is bounded: git and all it started end when the time is up.
    """

    def __init__(self, runner: Runner, root: Path, *, shallow: bool) -> None:
        self.root = root
        self._runner = runner
        self._shallow = shallow
        self._compared: dict[tuple[Build, str, str | None], Comparison | UnknownChanges] = {}

    @classmethod
    def open(cls, directory: Path, *, environ: Mapping[str, str], time_limit: float = 120.0) -> Repository:
        """The repository whose work tree contains `directory`; git sees `environ` and nothing else.

        `time_limit` bounds each call on the result, in seconds, fetching included. Raises UserError where
        there is no work tree, and EnvironmentFailure where git is missing or refuses the repository.
        """
        runner = Runner.create(directory, environ, time_limit)
        answer = runner.run(
            "rev-parse",
            "--is-bare-repository",
            "--is-inside-work-tree",
            "--is-shallow-repository",
            "--show-toplevel",
        )
        # The path comes last: it may hold newlines of its own.
        bare, _, rest = answer.out.partition(b"\n")
        if answer.status != 0:
            raise _not_opened(directory, answer, bare=bare == b"true")
        _, shallow, top = rest.split(b"\n", 2)
        root = Path(files.decode(top.removesuffix(b"\n")))
        return cls(runner.anew(root), root, shallow=shallow == b"true")

    def changes(
        self,
        build: Build,
        *,
        default_branch: str,
        push_base: PushBase = "parent",
        base: str | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Changes:
        """The files that this build's commit changes, or why they are not known or not asked for.

        `default_branch` is what a local build is compared with; `base` is a revision to compare with instead
        of what the build's kind asks for. Never raises for a fault of git's: any doubt is `UnknownChanges`.
        A local build counts uncommitted and untracked files, too, and fetches nothing.
        """
        not_asked = _not_asked(build, push_base)
        if not_asked:
            return ChangesNotAsked(not_asked)
        compared = self._compare(build, default_branch, base, progress)
        if isinstance(compared, UnknownChanges):
            return compared
        git = self._runner.anew()
        head, description = compared.head, compared.description
        try:
            found = files.between(git, compared.bases, compared.head)
            if build.is_local:
                found = files.with_uncommitted(found, files.uncommitted(git, self.root))
                head, description = WORK_TREE, f"{description}, with uncommitted and untracked files"
        except EnvironmentFailure as fault:
            return UnknownChanges(str(fault))
        ordered = tuple(found[path] for path in sorted(found))
        return ChangeSet(ordered, compared.bases[0], head, description)

    def base_commit(self, build: Build, *, default_branch: str) -> str | UnknownChanges:
        """The commit that `changes` compares with; for a pull request the merge base with its base branch.

        It is part of the base repository's history, so a fork's pull request cannot write what it holds.
        For a fork's branch without a pull request it is the merge base with the default branch: HEAD's own
        parents are the fork's.
        """
        if build.is_fork and build.pull_request is None:
            build = Build(
                source="webhook",
                branch=build.branch,
                commit=build.commit,
                pull_request=0,
                base_branch=default_branch,
                repository=build.repository,
            )
        not_asked = _not_asked(build, "parent")
        if not_asked:
            return UnknownChanges(not_asked)
        compared = self._compare(build, default_branch, None, None)
        return compared if isinstance(compared, UnknownChanges) else compared.bases[0]

    def read_tree(self, revision: str, paths: Sequence[str]) -> dict[str, bytes]:
        """The regular files at or below `paths` in `revision`, by path from the repository's root.

        Read out of git's objects, not from the work tree; symlinks and submodules are left out. Raises
        UserError for a revision that names no commit.
        """
        git = self._runner.anew()
        return objects.contents(git, objects.tree(git, revision, paths))

    def tree_modes(self, revision: str, paths: Sequence[str]) -> dict[str, str]:
        """Git's six-digit mode of all at or below `paths` in `revision`, symlinks and submodules too."""
        listed = objects.tree(self._runner.anew(), revision, paths)
        return {path: mode for path, (mode, _) in listed.items()}

    def tracked_files(self) -> list[tuple[str, str]]:
        """Path and mode of every file in the index."""
        return objects.tracked(self._runner.anew())

    def untracked_files(self) -> list[str]:
        """Path of every file of the work tree that is neither in the index nor ignored."""
        return objects.untracked(self._runner.anew())

    def has_commit(self, revision: str) -> bool:
        """Whether `revision` names a commit here: an id, a branch, a tag, or `HEAD~3`."""
        return objects.commit_id(self._runner.anew(), revision) is not None

    def head(self) -> str | None:
        """The id of the commit that is checked out; None before the first commit.

        Raises EnvironmentFailure where git cannot tell.
        """
        answer = self._runner.anew().run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if answer.status not in (0, 1):
            raise GitFault(f"git rev-parse failed: {answer.complaint}")
        return answer.out.decode().strip() or None

    def _compare(
        self, build: Build, default_branch: str, base: str | None, progress: Callable[[str], None] | None
    ) -> Comparison | UnknownChanges:
        # Remembered, so that reading a fork's base and listing its changes fetch once.
        key = (build, default_branch, base)
        if key not in self._compared:
            history = History(self._runner.anew(), self._shallow, progress or (lambda _: None))
            try:
                self._compared[key] = _comparison(history, build, default_branch, base)
            except EnvironmentFailure as fault:
                self._compared[key] = UnknownChanges(str(fault))
            self._shallow = history.shallow
        return self._compared[key]


def _comparison(history: History, build: Build, default_branch: str, base: str | None) -> Comparison:
    if base is not None:
        return history.against_revision(base)
    if build.is_local:
        return history.against_default_branch(default_branch)
    if build.is_merge_queue:
        return history.against_queue_base(build)
    if build.pull_request is not None:
        return history.against_branch(build)
    return history.against_parent(build)


def _not_asked(build: Build, push_base: PushBase) -> str | None:
    if build.is_scheduled:
        return "a scheduled build runs whatever changed"
    if build.tag is not None:
        return "a build of a tag runs whatever changed"
    if build.is_by_hand:
        return "a build started by hand runs whatever changed"
    if build.is_push and push_base == "always-run":
        return "a push runs whatever changed (push_base: always-run)"
    return None


def _not_opened(directory: Path, answer: Answer, *, bare: bool) -> BkgenError:
    where = printable(str(directory))
    if bare:
        return UserError.single(
            "git-bare", f"{where} is a bare repository", "run bkgen in a checkout, which has the files"
        )
    if "ownership" in answer.complaint or "unsafe repository" in answer.complaint:
        named = re.search(r"'(.+?)'", answer.complaint)
        return EnvironmentFailure(
            f"git refuses {where}: it belongs to another user",
            f"git config --global --add safe.directory {named[1] if named else where}",
        )
    if "not a git repository" in answer.complaint:
        return UserError.single(
            "git-repository", f"{where} is not in a git repository", "run bkgen inside a git checkout"
        )
    if "work tree" in answer.complaint:
        return UserError.single(
            "git-work-tree", f"{where} is not in a work tree", "run bkgen in the checkout, outside its .git"
        )
    if "cannot change to" in answer.complaint:
        return UserError.single("git-directory", f"{where} cannot be entered", "name a directory that exists")
    return EnvironmentFailure(f"git cannot open {where}: {answer.complaint}", "git status there says more")
