"""Shallow clones: deepened until the merge base is certain, and never taken for more than they hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bkgen.build import Build
from gitrepo import (
    Checkout,
    PullRequest,
    change_set,
    clone,
    paths,
    pull_request,
    push_build,
    reason,
    repository,
)

pytestmark = pytest.mark.slow


def _parted(path: Path, *, common: int = 0, main: int, feature: int) -> Checkout:
    """`common` commits, then `main` ones on the base and `feature` ones on a branch."""
    upstream = repository(path)
    upstream.chain("main", common)
    upstream.chain("feature", feature, start="main")
    upstream.chain("main", main)
    return upstream


def test_shallow_clone_is_deepened_until_the_merge_base_is_there(tmp_path: Path) -> None:
    upstream = _parted(tmp_path / "upstream", main=70, feature=120)
    checkout = clone(upstream, tmp_path / "checkout", revision="feature", depth=1)
    said: list[str] = []
    build = PullRequest(upstream, checkout, "main").build()
    found = checkout.open().changes(build, default_branch="main", progress=said.append)
    assert [file.path for file in change_set(found).files] == ["feature.txt"]
    assert said == [
        "fetching origin/main",
        "the history is too shallow for the merge base: git fetch --deepen=200",
    ]


def test_shallow_clone_with_a_merge_base_in_reach_is_not_made_complete(tmp_path: Path) -> None:
    upstream = _parted(tmp_path / "upstream", common=100, main=3, feature=3)
    checkout = clone(upstream, tmp_path / "checkout", revision="feature", depth=2)
    assert paths(PullRequest(upstream, checkout, "main").changes()) == ["feature.txt"]
    assert checkout.git("rev-parse", "--is-shallow-repository") == "true"
    assert int(checkout.git("rev-list", "--count", "HEAD")) < 70


@dataclass
class _Cut:
    made: PullRequest
    wrong_base: str
    right_base: str


def _cut(path: Path, *, length: int = 2) -> _Cut:
    """A-B-X-…-L and A-Q; HEAD merges L and Q; the base grew from B; the clone is three commits deep.

    Git calls A the merge base there, with status 0, and B's files would be laid at the branch's door.
    """
    upstream = repository(path / "upstream")
    first = upstream.head
    second = upstream.commit({"b.txt": "b"})
    upstream.chain("left", length, start="main")
    upstream.branch("right", first)
    upstream.commit({"q.txt": "q"})
    upstream.switch("left")
    upstream.merge("right")
    upstream.switch("main")
    upstream.commit({"t.txt": "t"})
    checkout = clone(upstream, path / "checkout", revision="left", depth=3)
    checkout.git("fetch", "--quiet", "--depth=3", "origin", "main:refs/remotes/origin/main")
    return _Cut(PullRequest(upstream, checkout, "main"), first, second)


@pytest.mark.parametrize("length", [2, 70], ids=["within one step", "beyond one step"])
def test_older_merge_base_of_a_cut_history_is_not_believed(tmp_path: Path, length: int) -> None:
    cut = _cut(tmp_path, length=length)
    assert cut.made.checkout.git("merge-base", "HEAD", "origin/main") == cut.wrong_base
    found = change_set(cut.made.changes())
    assert found.base == cut.right_base
    assert [file.path for file in found.files] == ["left.txt", "q.txt"]


def test_local_build_does_not_believe_a_merge_base_of_a_cut_history(tmp_path: Path) -> None:
    changes = _cut(tmp_path).made.checkout.open().changes(Build(), default_branch="main")
    assert reason(changes) == "the history is too shallow for the merge base of HEAD and origin/main"


def test_shallow_clone_without_a_common_commit_is_unknown_in_the_end(tmp_path: Path) -> None:
    made = pull_request(tmp_path, depth=1)
    made.upstream.git("checkout", "--quiet", "--orphan", "fresh")
    made.upstream.commit({"docs/a.md": "fresh"})
    made.upstream.git("branch", "--force", "main")
    assert reason(made.changes()) == "HEAD and origin/main have no commit in common"


def test_head_is_deepened_though_its_branch_was_pushed_over_meanwhile(tmp_path: Path) -> None:
    made = pull_request(tmp_path, depth=1)
    made.upstream.git("branch", "--force", "feature", "main")
    assert paths(made.changes()) == ["src/core.py"]


def test_shallow_clone_whose_remote_is_gone_is_unknown(tmp_path: Path) -> None:
    made = pull_request(tmp_path, depth=1)
    made.upstream.path.rename(tmp_path / "gone")
    assert reason(made.changes()).startswith("git fetch failed: ")


def test_push_to_a_clone_of_depth_one_fetches_the_missing_parent_and_no_more(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    upstream.commit({"src/other.py": "other = 2\n"})
    upstream.commit({"src/core.py": "core = 2\n"})
    checkout = clone(upstream, tmp_path / "checkout", depth=1)
    assert paths(checkout.open().changes(push_build(checkout), default_branch="main")) == ["src/core.py"]
    assert checkout.git("rev-list", "--count", "HEAD") == "2"
    assert not checkout.git("for-each-ref")


def test_push_to_a_clone_of_depth_one_is_unknown_when_its_remote_is_gone(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    upstream.commit({"src/core.py": "core = 2\n"})
    checkout = clone(upstream, tmp_path / "checkout", depth=1)
    upstream.path.rename(tmp_path / "gone")
    changes = checkout.open().changes(push_build(checkout), default_branch="main")
    assert reason(changes).startswith("git fetch failed: ")


def test_push_deepens_by_its_branch_where_the_server_gives_out_no_ids(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    upstream.commit({"src/core.py": "core = 2\n"})
    checkout = clone(upstream, tmp_path / "checkout", depth=1)
    upstream.commit({"src/later.py": "later"})
    checkout.configure("[protocol]\n\tversion = 0\n")
    assert paths(checkout.open().changes(push_build(checkout), default_branch="main")) == ["src/core.py"]


def test_first_commit_of_a_shallow_clone_is_unknown(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    first = upstream.head
    upstream.commit({"src/core.py": "core = 2\n"})
    checkout = clone(upstream, tmp_path / "checkout", depth=1)
    checkout.git("fetch", "--quiet", "--depth=1", "origin", first)
    checkout.switch(first)
    changes = checkout.open().changes(push_build(checkout), default_branch="main")
    assert reason(changes).startswith(f"HEAD {first[:10]} has no parent: ")


@pytest.mark.parametrize("depth", [None, 1], ids=["full", "shallow"])
def test_missing_base_of_a_merge_queue_is_fetched(tmp_path: Path, depth: int | None) -> None:
    made = pull_request(tmp_path, depth=depth)
    base = made.upstream.commit({"src/late.py": "late"})
    build = made.build(pull_request=None, branch="gh-readonly-queue/main/pr-7", merge_queue_base_commit=base)
    found = made.checkout.open().changes(build, default_branch="main")
    assert paths(found) == ["src/core.py", "src/late.py", "src/other.py"]
    assert (made.checkout.git("rev-parse", "--is-shallow-repository") == "true") is (depth == 1)
