"""No configuration, hook, attribute or variable of anybody's changes the answer or runs a program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitrepo import Checkout, PullRequest, change_set, paths, program, pull_request, repository

pytestmark = pytest.mark.slow

HOSTILE = """
[diff]
    relative = true
    noprefix = true
    renames = copies
    ignoreSubmodules = all
    orderFile = {home}/order
    external = {home}/marker-program
    mnemonicPrefix = true
    submodule = log
    colorMoved = zebra
    autoRefreshIndex = false
[diff "evil"]
    textconv = {home}/marker-program
    command = {home}/marker-program
[core]
    quotePath = true
    pager = {home}/marker-program
    fsmonitor = {home}/marker-program
    hooksPath = {home}/hooks
    attributesFile = {home}/attributes
    askPass = {home}/marker-program
    logAllRefUpdates = always
[color]
    ui = always
    diff = always
[log]
    showSignature = true
    date = relative
[format]
    pretty = oneline
[status]
    showUntrackedFiles = no
    relativePaths = true
    short = true
    branch = true
    showStash = true
    renames = copies
[fetch]
    prune = true
    writeCommitGraph = true
    recurseSubmodules = true
[submodule]
    recurse = true
[pager]
    diff-tree = {home}/marker-program
    status = {home}/marker-program
[alias]
    diff-tree = !{home}/marker-program
    status = !{home}/marker-program
    rev-list = log
[interactive]
    diffFilter = {home}/marker-program
[gc]
    auto = 1
[maintenance]
    auto = true
"""


def _hostile_files(home: Path) -> str:
    """Files that the hostile configuration points at; every program leaves a file called `marker`."""
    program(home / "marker-program", f'echo "$0 $*" >>"{home}/marker"')
    for hook in ("reference-transaction", "post-index-change", "post-checkout", "pre-auto-gc"):
        program(home / "hooks" / hook, f'echo "$0 $*" >>"{home}/marker"')
    (home / "attributes").write_text("* diff=evil -text binary\n")
    (home / "order").write_text("docs/*\n")
    return HOSTILE.format(home=home)


@pytest.mark.parametrize("level", ["user", "system", "repository", "environment"])
def test_hostile_configuration_changes_nothing(tmp_path: Path, level: str) -> None:
    change = {"src/core.py": None, "docs/core.py": "core = 1\n", "docs/n.md": "changed\n"}
    made = pull_request(tmp_path, change)
    expected = made.changes()
    made.checkout.git("update-ref", "refs/remotes/origin/main", "HEAD")
    config = tmp_path / "config"
    config.write_text(_hostile_files(tmp_path))
    environ = {
        "user": {"GIT_CONFIG_GLOBAL": str(config)},
        "system": {"GIT_CONFIG_SYSTEM": str(config), "GIT_CONFIG_NOSYSTEM": "0"},
        "repository": {},
        "environment": {
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "include.path",
            "GIT_CONFIG_VALUE_0": str(config),
            "GIT_CONFIG_KEY_1": "diff.relative",
            "GIT_CONFIG_VALUE_1": "true",
        },
    }[level]
    if level == "repository":
        made.checkout.configure(config.read_text())
        made.checkout.write_info("attributes", "* diff=evil\n")
    assert made.changes("src/..", environ=environ) == expected
    assert made.changes("docs", environ=environ) == expected
    local = made.checkout.open(made.checkout.path / "docs", **environ)
    assert paths(local.changes(made.build(source="local"), default_branch="main")) == sorted(change)
    assert not (tmp_path / "marker").exists()


def test_the_list_is_the_same_from_a_subdirectory(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"src/core.py": "core = 2\n", "docs/n.md": "changed\n"})
    made.checkout.configure("[diff]\n\trelative = true\n")
    assert paths(made.changes("docs")) == ["docs/n.md", "src/core.py"]
    assert made.checkout.open(made.checkout.path / "docs").root == made.checkout.path


def test_git_variables_of_the_environment_change_nothing(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    other = repository(tmp_path / "other")
    marker = program(tmp_path / "marker-program", f'touch "{tmp_path}/marker"')
    environ = {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_COMMON_DIR": str(other.path / ".git"),
        "GIT_INDEX_FILE": str(tmp_path / "no-index"),
        "GIT_OBJECT_DIRECTORY": str(other.path / ".git/objects"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_PREFIX": "docs/",
        "GIT_EXTERNAL_DIFF": str(marker),
        "GIT_DIFF_OPTS": "--unified=0",
        "GIT_PAGER": str(marker),
        "GIT_ICASE_PATHSPECS": "1",
        "GIT_SHALLOW_FILE": str(tmp_path / "no-shallow"),
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_TRACE": str(tmp_path / "trace"),
        "PAGER": str(marker),
    }
    before = made.checkout.state()
    assert made.changes("docs", environ=environ) == made.changes()
    assert {k: v for k, v in made.checkout.state().items() if "remotes" not in k} == {
        k: v for k, v in before.items() if "remotes" not in k
    }
    assert not (tmp_path / "marker").exists()
    assert not (tmp_path / "trace").exists()


def test_git_variables_of_this_process_do_not_reach_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pull_request(tmp_path)
    expected = made.changes()
    monkeypatch.setitem(os.environ, "GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setitem(os.environ, "GIT_INDEX_FILE", str(tmp_path / "nowhere"))
    assert made.changes() == expected


def test_replaced_commits_and_trees_do_not_alter_the_answer(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    expected = made.changes()
    made.checkout.git("replace", "HEAD", "HEAD~1")
    made.checkout.git("replace", "HEAD^{tree}", "HEAD~1^{tree}")
    assert made.checkout.git("diff", "--name-only", "origin/main~1", "HEAD") == ""
    assert made.changes() == expected


def test_grafts_do_not_alter_the_answer(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    expected = made.changes()
    made.checkout.write_info("grafts", f"{made.checkout.head}\n")
    assert made.checkout.git("rev-list", "--count", "HEAD") == "1"
    assert made.changes() == expected


def test_hooks_of_the_repository_are_not_run(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.upstream.commit({"src/later.py": "later"})
    for hook in ("reference-transaction", "post-index-change", "pre-auto-gc", "post-merge"):
        program(made.checkout.path / ".git/hooks" / hook, f'touch "{tmp_path}/marker"')
    assert paths(made.changes()) == ["src/core.py"]
    assert paths(made.checkout.open().changes(made.build(source="local"), default_branch="main")) == [
        "src/core.py"
    ]
    assert not (tmp_path / "marker").exists()


def test_order_file_that_does_not_exist_is_no_fault(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.configure("[diff]\n\torderFile = nowhere\n")
    assert paths(made.changes()) == ["src/core.py"]


def test_partial_clone_without_trees_is_compared_all_the_same(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.upstream.configure("[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n")
    made.upstream.git("clone", "--quiet", "--filter=tree:0", "--no-checkout", made.upstream.url, "../partial")
    partial = Checkout(tmp_path / "partial", made.checkout.environ)
    partial.git("update-ref", "--no-deref", "HEAD", made.checkout.head)
    assert "?" in partial.git("rev-list", "--objects", "--missing=print", "HEAD")
    assert paths(PullRequest(made.upstream, partial, "main").changes()) == ["src/core.py"]


def test_linked_worktree_is_read_like_a_clone(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "HEAD")
    made.checkout.switch("origin/main")
    linked = made.checkout.open(tmp_path / "linked" / "src")
    assert linked.root == tmp_path / "linked"
    build = made.build(commit=linked.head())
    assert [file.path for file in change_set(linked.changes(build, default_branch="main")).files] == [
        "src/core.py"
    ]
