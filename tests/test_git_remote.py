"""The base branch: which remote has it, and what its name may be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bkgen.git.refs import is_legal_branch
from gitrepo import PullRequest, change_set, clone, paths, pull_request, reason, repository

pytestmark = pytest.mark.slow


def test_stale_tracking_ref_is_brought_up_to_date(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("update-ref", "refs/remotes/origin/main", made.checkout.head)
    tip = made.upstream.commit({"src/later.py": "later"})
    assert f"its tip {tip[:10]} " in change_set(made.changes()).description
    assert made.checkout.git("rev-parse", "refs/remotes/origin/main") == tip


def test_tracking_ref_that_never_existed_is_made(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("update-ref", "-d", "refs/remotes/origin/main")
    assert paths(made.changes()) == ["src/core.py"]


def test_tracking_ref_of_a_rewound_base_is_moved_back(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.upstream.git("reset", "--quiet", "--hard", "HEAD~1")
    assert paths(made.changes()) == ["src/core.py"]
    assert made.checkout.git("rev-parse", "refs/remotes/origin/main") == made.upstream.head


def test_base_branch_with_slashes_and_dots_is_compared_with_itself(tmp_path: Path) -> None:
    made = pull_request(tmp_path, base="release/18.x")
    assert paths(made.changes()) == ["src/core.py"]


def test_base_branch_is_the_builds_and_not_the_default_branch(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    upstream.branch("release")
    upstream.commit({"release.txt": "r"})
    upstream.branch("feature")
    upstream.commit({"src/core.py": "core = 2\n"})
    upstream.switch("main")
    made = PullRequest(upstream, clone(upstream, tmp_path / "checkout", revision="feature"), "release")
    assert paths(made.changes()) == ["src/core.py"]


@pytest.mark.parametrize("base", ["gone", "main2", "mai", "+main", "HEAD~1"])
def test_base_branch_that_the_remote_has_not_is_unknown(tmp_path: Path, base: str) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("update-ref", "refs/remotes/origin/gone", made.checkout.head)
    assert reason(made.changes(base_branch=base))


def test_deleted_base_branch_is_unknown_though_its_stale_ref_is_still_here(tmp_path: Path) -> None:
    made = pull_request(tmp_path, base="release/1")
    made.upstream.git("branch", "--move", "release/1", "release/2")
    assert reason(made.changes()) == "git fetch failed: couldn't find remote ref refs/heads/release/1"


def test_base_branch_that_the_build_does_not_name_is_unknown(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    assert reason(made.changes(base_branch=None)) == "the build names no base branch for its pull request"


OPTION_SHAPED = [
    "--upload-pack=touch marker; git-upload-pack",
    "--upload-pack=touch${IFS}marker",
    "--output=marker",
    "-q",
    "main:refs/heads/stolen",
    "main --upload-pack=touch",
    "ext::sh -c touch% marker",
    "",
]


@pytest.mark.parametrize("base", OPTION_SHAPED)
def test_base_branch_shaped_like_an_option_or_refspec_runs_nothing(tmp_path: Path, base: str) -> None:
    made = pull_request(tmp_path)
    before = made.checkout.state()
    assert reason(made.changes(base_branch=base)) == f"the base branch '{base}' is not a legal branch name"
    assert made.checkout.state() == before


NAMES = [
    *(
        "main",
        "release/18.x",
        "a/b/c",
        "feature-1",
        "x.y",
        "a@b",
        "ünï",
        "a'b",
        'a"b',
        "a$b",
        "a;b",
        "a|b",
        "{x}",
    ),
    *(
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.",
        "a.lock",
        "a.lock/b",
        "a..b",
        "a b",
        "a~b",
        "a^b",
        "a:b",
    ),
    *(
        "a?b",
        "a*b",
        "a[b",
        "a\\b",
        "a\x7fb",
        "a\tb",
        "a\nb",
        "a@{b",
        "@{",
        "@",
        "-a",
        "--a",
        "HEAD",
        "a.lockx",
        "+a",
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_legal_branch_names_are_those_of_git(tmp_path: Path, name: str) -> None:
    checked = subprocess.run(["git", "check-ref-format", "--branch", name], cwd=tmp_path, capture_output=True)
    # Git lets `@` and `HEAD` pass there, as they stand for the current branch; neither can be created.
    expected = checked.returncode == 0 and name not in {"@", "HEAD"}
    assert is_legal_branch(name) == expected


@pytest.mark.parametrize(
    "branch", ["octocat:fix", "octocat:--upload-pack=x", "a'; touch marker; '", "$(touch marker)"]
)
def test_head_branch_of_a_fork_is_only_a_text(tmp_path: Path, branch: str) -> None:
    made = pull_request(tmp_path)
    assert paths(made.changes(branch=branch, is_fork=True)) == ["src/core.py"]
    assert not (made.checkout.path / "marker").exists()


def test_tag_that_shadows_the_base_branch_is_not_taken_for_it(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.upstream.git("tag", "main", "feature")
    made.checkout.git("tag", "main", "HEAD")
    made.checkout.git("tag", "origin/main", "HEAD")
    made.checkout.git("tag", "refs/remotes/origin/main", "HEAD")
    made.checkout.git("branch", "origin/main", "HEAD")
    assert paths(made.changes()) == ["src/core.py"]


def test_base_is_fetched_from_upstream_where_origin_is_the_fork(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    fork = made.upstream.copy(tmp_path / "fork")
    fork.git("update-ref", "refs/heads/main", "feature")
    made.checkout.git("remote", "set-url", "origin", fork.url)
    made.checkout.git("remote", "add", "upstream", made.upstream.url)
    found = change_set(made.changes())
    assert [file.path for file in found.files] == ["src/core.py"]
    assert "upstream/main" in found.description


def test_base_is_fetched_by_its_url_where_no_remote_has_it(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    fork = made.upstream.copy(tmp_path / "fork")
    fork.git("update-ref", "refs/heads/main", "feature")
    made.checkout.git("remote", "set-url", "origin", fork.url)
    tip = made.upstream.commit({"src/later.py": "later"})
    before = made.checkout.state()
    found = change_set(made.changes())
    assert [file.path for file in found.files] == ["src/core.py"]
    assert f"main of the base repository (fetched; its tip {tip[:10]}" in found.description
    assert made.checkout.state() == before


def test_base_that_is_missing_at_the_url_is_unknown(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("remote", "remove", "origin")
    made.upstream.git("branch", "x/refs/heads/gone")
    assert reason(made.changes(base_branch="gone")) == "the base repository has no branch gone"


@pytest.mark.parametrize(
    "repository_url",
    ["--upload-pack=touch marker", "ext::sh -c touch% marker", "https://user:secret@example.invalid/x.git"],
    ids=["an option", "a transport helper", "a URL with a password"],
)
def test_base_repository_is_not_fetched_by(tmp_path: Path, repository_url: str) -> None:
    made = pull_request(tmp_path)
    made.checkout.configure('[protocol "ext"]\n\tallow = always\n')
    why = reason(made.changes(repository=repository_url))
    assert why == "no remote of this clone has the base repository's URL, and it cannot be fetched by URL"
    assert not (made.checkout.path / "marker").exists()


@pytest.mark.parametrize("remotes", [["origin"], ["origin", "other"], ["other"]], ids=" and ".join)
def test_build_that_names_no_repository_uses_the_remote_that_can_be_meant(
    tmp_path: Path, remotes: list[str]
) -> None:
    made = pull_request(tmp_path)
    if remotes[0] != "origin":
        made.checkout.git("remote", "rename", "origin", remotes[0])
    for name in remotes[1:]:
        made.checkout.git("remote", "add", name, "file:///nowhere")
    assert f"{remotes[0]}/main" in change_set(made.changes(repository=None)).description


def test_build_that_names_no_repository_in_a_clone_with_no_remote_is_unknown(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("remote", "remove", "origin")
    assert reason(made.changes(repository=None)) == "this clone has no remote to fetch the base branch from"
