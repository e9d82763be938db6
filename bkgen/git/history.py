"""Which commits to compare: the base of a build, found in the commit graph and fetched where it must be."""

import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import NamedTuple

from bkgen.build import Build
from bkgen.changes import printable
from bkgen.git.command import GitFault, Runner
from bkgen.git.objects import commit_id
from bkgen.git.refs import Source, find_source, is_legal_branch, legal_branch

Progress = Callable[[str], None]

# Each step adds to the one before it. A branch that forked further back than they reach pays for all of it.
DEEPENING = ("--deepen=50", "--deepen=200", "--deepen=1000", "--deepen=4000", "--unshallow")

# Only what the refspec on the command line names is written: no tags, no FETCH_HEAD, no configured refspecs,
# no pruning, no submodules.
_FETCH = (
    *("fetch", "--quiet", "--refmap=", "--no-tags", "--no-prune"),
    *("--no-recurse-submodules", "--no-write-fetch-head"),
)


class Comparison(NamedTuple):
    """The commit ids to compare: `head` with each of `bases`; `description` says it in words."""

    bases: tuple[str, ...]
    head: str
    description: str


class Commit(NamedTuple):
    """A commit's id, the ids of the parents that this clone knows, and its committer's Unix seconds."""

    id: str
    parents: tuple[str, ...]
    seconds: int

    @property
    def short(self) -> str:
        """The first ten digits of the id."""
        return self.id[:10]

    @property
    def date(self) -> str:
        """The date for people. It is the commit's, not an age: the same commits give the same bytes."""
        try:
            return datetime.fromtimestamp(self.seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        except (ValueError, OverflowError, OSError):
            return "an impossible date"


class History:
    """The commit graph of one clone, which may be shallow."""

    def __init__(self, git: Runner, shallow: bool, progress: Progress) -> None:
        self.git = git
        self.shallow = shallow
        self.progress = progress

    def against_branch(self, build: Build) -> Comparison:
        """A pull request: the merge bases of HEAD and the base branch as it is on the remote now."""
        if build.base_branch is None:
            raise GitFault("the build names no base branch for its pull request")
        branch = legal_branch(build.base_branch, "the base branch")
        source = find_source(self.git, build.repository)
        shown = source.shown(branch)
        self.progress(f"fetching {shown}")
        tracking = source.tracking_ref(branch)
        if tracking is None:
            refspec = f"refs/heads/{branch}"
            revision = _advertised(source, refspec)
        else:
            refspec, revision = f"+refs/heads/{branch}:{tracking}", tracking
        if not self.shallow:
            _fetch(source, refspec)
        head, tip, bases = self._common(source, refspec, revision, shown)
        _must_be_built(build, head)
        return Comparison(
            bases, head.id, f"{_named(bases)} of HEAD {head.short} and {shown} (fetched; {_tip(tip)})"
        )

    def against_queue_base(self, build: Build) -> Comparison:
        """A merge queue: the commit that the whole group was put on."""
        base = (build.merge_queue_base_commit or "").lower()
        if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", base) or not base.strip("0"):
            raise GitFault("the build names no base commit of its merge queue")
        try:
            head, known = self._commits("HEAD", f"{base}^{{commit}}")
        except GitFault:
            source = find_source(self.git, build.repository)
            self.progress(f"fetching the merge queue's base {base[:10]}")
            # Depth 1 is for a clone that is shallow already: it would cut the history of a full one.
            _fetch(source, base, *(["--depth=1"] if self.shallow else []))
            head, known = self._commits("HEAD", f"{base}^{{commit}}")
        _must_be_built(build, head)
        return Comparison((known.id,), head.id, f"merge queue base {known.short} of HEAD {head.short}")

    def against_parent(self, build: Build) -> Comparison:
        """A push: the first parent of HEAD."""
        head = self._commits("HEAD")[0]
        _must_be_built(build, head)
        if not head.parents and self.shallow:
            source = find_source(self.git, build.repository)
            self.progress("fetching the parent of HEAD")
            try:
                self._deepen(source, "--deepen=1", head.id)
            except GitFault:
                # Some servers give out nothing by its id.
                if not is_legal_branch(build.branch):
                    raise
                self._deepen(source, "--deepen=1", f"refs/heads/{build.branch}")
            head = self._commits("HEAD")[0]
        if not head.parents:
            why = "its history is cut off there" if self.shallow else "it is the first commit"
            raise GitFault(f"HEAD {head.short} has no parent: {why}")
        parent = head.parents[0]
        return Comparison((parent,), head.id, f"first parent {parent[:10]} of HEAD {head.short}")

    def against_default_branch(self, default_branch: str) -> Comparison:
        """A local build: the merge bases of HEAD and the default branch as it was last fetched."""
        ref = self._default_ref(legal_branch(default_branch, "the default branch"))
        return self._against_local(
            ref, printable(re.sub(r"^refs/(remotes|heads)/", "", ref)), "not fetched; "
        )

    def against_revision(self, revision: str) -> Comparison:
        """The merge bases of HEAD and `revision`, whatever names a commit here."""
        commit = commit_id(self.git, revision)
        if commit is None:
            raise GitFault(f"'{printable(revision)}' names no commit here")
        return self._against_local(commit, printable(revision), "")

    def _against_local(self, revision: str, shown: str, note: str) -> Comparison:
        head, tip = self._commits("HEAD", revision)
        bases = self._merge_bases(head, tip)
        if not bases:
            raise GitFault(f"HEAD and {shown} have no commit in common")
        if self.shallow and not self._is_certain(head, tip, bases):
            raise GitFault(f"the history is too shallow for the merge base of HEAD and {shown}")
        return Comparison(
            bases, head.id, f"{_named(bases)} of HEAD {head.short} and {shown} ({note}{_tip(tip)})"
        )

    def _default_ref(self, branch: str) -> str:
        # Settings name the branch, so a remote's idea of its HEAD is asked only where that branch is missing.
        patterns = (f"refs/remotes/*/{branch}", "refs/remotes/*/HEAD", f"refs/heads/{branch}")
        listed = self.git.output("for-each-ref", "--format=%(refname)", *patterns)
        refs = set(listed.decode("utf-8", "surrogateescape").splitlines())
        remote = sorted(refs - {f"refs/heads/{branch}"}, key=lambda ref: (ref.endswith("/HEAD"), ref))
        preferred = [
            f"refs/remotes/origin/{branch}",
            "refs/remotes/origin/HEAD",
            *remote,
            f"refs/heads/{branch}",
        ]
        for ref in preferred:
            if ref in refs:
                return ref
        raise GitFault(
            f"there is no branch '{printable(branch)}' here to compare with, neither remote nor local"
        )

    def _common(
        self, source: Source, refspec: str, revision: str, shown: str
    ) -> tuple[Commit, Commit, tuple[str, ...]]:
        steps = iter(DEEPENING)
        if self.shallow:
            self._deepen(source, next(steps), refspec)
        while True:
            head, tip = self._commits("HEAD", revision)
            bases = self._merge_bases(head, tip)
            if bases and (not self.shallow or self._is_certain(head, tip, bases)):
                return head, tip, bases
            step = next(steps, None) if self.shallow else None
            if step is None:
                raise GitFault(f"HEAD and {shown} have no commit in common")
            self.progress(f"the history is too shallow for the merge base: git fetch {step}")
            self._deepen(source, step, refspec)

    def _deepen(self, source: Source, step: str, refspec: str) -> None:
        """Lengthens every cut history that the server's refs reach; one that is cut nowhere is left alone."""
        _fetch(source, refspec, step)
        self.shallow = self.git.output("rev-parse", "--is-shallow-repository").strip() == b"true"

    def _commits(self, *revisions: str) -> list[Commit]:
        listed = self.git.output(
            "rev-list", "--no-walk=unsorted", "--timestamp", "--parents", *revisions, "--"
        )
        commits = []
        for line in listed.decode().splitlines():
            seconds, commit, *parents = line.split()
            commits.append(Commit(commit, tuple(parents), int(seconds)))
        # git prints a commit once, even where two revisions name it.
        return [commits[0], commits[-1]]

    def _merge_bases(self, head: Commit, tip: Commit) -> tuple[str, ...]:
        answer = self.git.run("merge-base", "--all", head.id, tip.id)
        if answer.status not in (0, 1):
            raise GitFault(f"git merge-base failed: {answer.complaint}")
        return tuple(sorted(answer.out.decode().split()))

    def _is_certain(self, head: Commit, tip: Commit, bases: tuple[str, ...]) -> bool:
        """Whether no deeper history could give other merge bases.

        A better common ancestor could hide only behind a commit whose parents are cut off and that lies
        above the bases which were found. (One at or below them leads to their own ancestors.)
        """
        ends = self.git.output(
            "rev-list", "--max-parents=0", "--max-count=1", head.id, tip.id, "--not", *bases, "--"
        )
        return not ends


def _fetch(source: Source, refspec: str, *depth: str) -> None:
    source.runner.output(*_FETCH, *depth, "--", source.name, refspec)


def _advertised(source: Source, ref: str) -> str:
    """The commit id of `ref` at a URL, which has no remote-tracking ref to read it from."""
    listed = source.runner.output("ls-remote", "--quiet", "--", source.name, ref).decode(
        "utf-8", "surrogateescape"
    )
    for line in listed.splitlines():
        commit, _, name = line.partition("\t")
        if name == ref:
            return commit
    raise GitFault(f"the base repository has no branch {printable(ref.removeprefix('refs/heads/'))}")


def _must_be_built(build: Build, head: Commit) -> None:
    """HEAD has to be the build's commit, or for a pull request a merge of it with the base branch."""
    commit = build.commit.lower()
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        return
    candidates = (head.id, *head.parents) if build.pull_request is not None else (head.id,)
    if not any(candidate.startswith(commit) for candidate in candidates):
        raise GitFault(f"HEAD is {head.short}, but the build is for {commit[:10]}")


def _named(bases: tuple[str, ...]) -> str:
    return f"merge base{'s' if len(bases) > 1 else ''} {', '.join(base[:10] for base in bases)}"


def _tip(tip: Commit) -> str:
    return f"its tip {tip.short} is of {tip.date}"
