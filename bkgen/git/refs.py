"""Names of branches and remotes, and which remote is the base repository."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from bkgen.build import normalise_repository
from bkgen.changes import printable
from bkgen.git.command import GitFault, Runner

_ILLEGAL = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|\.$|(^|/)\.|\.lock(/|$)|^[-/]")


def is_legal_branch(name: str) -> bool:
    """Whether git would let a branch have this name (the rules of `git check-ref-format --branch`).

    A name that starts with a dash is not legal: it would be read as an option. Nor is `HEAD`.
    """
    return bool(name) and name not in {"@", "HEAD"} and _ILLEGAL.search(name) is None


def legal_branch(name: str, what: str) -> str:
    """`name`; raises GitFault where it is no legal branch name, and `what` says which fact it is."""
    if not is_legal_branch(name):
        raise GitFault(f"{what} '{printable(name)[:80]}' is not a legal branch name")
    return name


class Source(NamedTuple):
    """Where to fetch from: a configured remote by its name, or a URL that is no remote of this clone."""

    name: str
    is_remote: bool
    runner: Runner

    def tracking_ref(self, branch: str) -> str | None:
        """The remote-tracking ref of `branch`; None for a URL, which has none."""
        return f"refs/remotes/{self.name}/{branch}" if self.is_remote else None

    def shown(self, branch: str) -> str:
        """`branch` there, in words for people."""
        return printable(f"{self.name}/{branch}" if self.is_remote else f"{branch} of the base repository")


def find_source(git: Runner, repository: str | None) -> Source:
    """The place to fetch the base repository from: the remote that has its URL, else the URL itself.

    `origin` may be a contributor's fork, whose branches are old copies; it is taken without a match only
    where the build names no repository. Raises GitFault where there is nothing to fetch from.
    """
    answer = git.run("config", "-z", "--get-regexp", r"^(remote\..*\.url|core\.sshcommand|ssh\.variant)$")
    if answer.status not in (0, 1):
        raise GitFault(f"git config failed: {answer.complaint}")
    entries = [entry.partition("\n") for entry in answer.out.decode("utf-8", "surrogateescape").split("\0")]
    urls: dict[str, str] = {}
    for key, _, value in entries:
        if key.startswith("remote."):
            urls.setdefault(key[len("remote.") : -len(".url")], value)
    if not any(key.startswith(("core.", "ssh.")) for key, _, _ in entries):
        git = _without_prompts(git)
    remote = _choose_remote(urls, repository)
    if remote is not None:
        return Source(remote, True, git)
    if repository is None:
        raise GitFault("this clone has no remote to fetch the base branch from")
    # A transport helper (`ext::…`) runs what its URL says; a password in it would show in the process list.
    if repository.startswith("-") or "::" in repository or re.search(r"://[^/@]*:[^/@]*@", repository):
        raise GitFault(
            "no remote of this clone has the base repository's URL, and it cannot be fetched by URL"
        )
    return Source(repository, False, git)


def _choose_remote(urls: Mapping[str, str], repository: str | None) -> str | None:
    names = sorted(
        (name for name in urls if is_legal_branch(name)), key=lambda name: (name != "origin", name)
    )
    if repository is None:
        return names[0] if names and (names[0] == "origin" or len(names) == 1) else None
    wanted = normalise_repository(repository)
    return next((name for name in names if normalise_repository(urls[name]) == wanted), None)


def _without_prompts(git: Runner) -> Runner:
    if "GIT_SSH_COMMAND" in git.environ or "GIT_SSH" in git.environ:
        return git
    return git.with_variable("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
