"""Pushes, merge queues, and the builds for which git is not asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from bkgen.build import Build
from bkgen.changes import UnknownChanges
from gitrepo import Checkout, change_set, clone, paths, program, push_build, reason, repository


def test_push_is_compared_with_the_first_parent_and_names_it(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    parent, head = made.head, made.commit({"src/core.py": "core = 2\n"})
    found = change_set(made.open().changes(push_build(made), default_branch="main"))
    assert [file.path for file in found.files] == ["src/core.py"]
    assert (found.base, found.head) == (parent, head)
    assert found.description == f"first parent {parent[:10]} of HEAD {head[:10]}"


def test_push_of_a_merge_lists_all_that_the_merge_brought(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.branch("feature")
    made.commit({"src/core.py": "core = 2\n"})
    made.commit({"docs/a.md": "b\n"})
    made.switch("main")
    made.commit({"src/other.py": "other = 2\n"})
    made.merge("feature")
    assert paths(made.open().changes(push_build(made), default_branch="main")) == ["docs/a.md", "src/core.py"]


def test_push_of_an_empty_commit_is_a_known_and_empty_list(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.commit()
    assert paths(made.open().changes(push_build(made), default_branch="main")) == []


def test_first_commit_is_unknown(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    changes = made.open().changes(push_build(made), default_branch="main")
    assert reason(changes) == f"HEAD {made.head[:10]} has no parent: it is the first commit"


def test_repository_without_a_commit_is_unknown(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.git("checkout", "--quiet", "--orphan", "fresh")
    opened = made.open()
    assert opened.head() is None
    assert reason(opened.changes(Build(source="webhook", branch="fresh"), default_branch="main"))
    assert reason(opened.changes(Build(), default_branch="main"))


def test_push_whose_head_is_not_the_builds_commit_is_unknown(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    pushed = made.commit({"src/core.py": "core = 2\n"})
    head = made.commit({"docs/a.md": "b\n"})
    changes = made.open().changes(push_build(made, commit=pushed), default_branch="main")
    assert reason(changes) == f"HEAD is {head[:10]}, but the build is for {pushed[:10]}"


def test_commit_written_short_or_in_capitals_is_the_same_commit(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    head = made.commit({"src/core.py": "core = 2\n"})
    for commit in (head[:8], head.upper(), "HEAD"):
        changes = made.open().changes(push_build(made, commit=commit), default_branch="main")
        assert paths(changes) == ["src/core.py"]


def test_parent_whose_objects_are_missing_is_unknown(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    parent = made.commit({"src/other.py": "other = 2\n"})
    made.commit({"src/core.py": "core = 2\n"})
    (made.path / ".git/objects" / parent[:2] / parent[2:]).unlink()
    assert reason(made.open().changes(push_build(made), default_branch="main")).startswith("git ")


def test_push_needs_three_git_calls_at_most(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.commit({"src/core.py": "core = 2\n"})
    calls = tmp_path / "calls"
    real = next(p for p in made.environ["PATH"].split(":") if (Path(p) / "git").exists())
    program(tmp_path / "bin/git", f'echo "$*" >>"{calls}"\nexec "{real}/git" "$@"')
    opened = made.open(PATH=f"{tmp_path}/bin:{made.environ['PATH']}")
    assert paths(opened.changes(push_build(made), default_branch="main")) == ["src/core.py"]
    assert len(calls.read_text().splitlines()) <= 3


def test_push_with_always_run_is_not_asked(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    changes = made.open().changes(push_build(made), default_branch="main", push_base="always-run")
    assert reason(changes, "not asked") == "a push runs whatever changed (push_base: always-run)"


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (Build(source="schedule", branch="main"), "a scheduled build runs whatever changed"),
        (Build(source="webhook", branch="v1", tag="v1"), "a build of a tag runs whatever changed"),
        (Build(source="ui", branch="main"), "a build started by hand runs whatever changed"),
        (Build(source="api", branch="main"), "a build started by hand runs whatever changed"),
        (Build(source="trigger_job", branch="main"), "a build started by hand runs whatever changed"),
    ],
    ids=["schedule", "tag", "by hand", "by API", "by another pipeline"],
)
def test_git_is_not_asked_for_a(tmp_path: Path, build: Build, why: str) -> None:
    made = repository(tmp_path / "main")
    opened = made.open()
    (made.path / ".git").rename(tmp_path / "away")
    assert reason(opened.changes(build, default_branch="main"), "not asked") == why
    assert opened.base_commit(build, default_branch="main") == UnknownChanges(why)


def _queue(tmp_path: Path) -> tuple[Checkout, str]:
    """A group of three pull requests on top of a base commit, the last of them documentation only."""
    upstream = repository(tmp_path / "upstream")
    base = upstream.head
    upstream.branch("gh-readonly-queue/main/pr-3")
    for change in ({"src/core.py": "core = 2\n"}, {"src/other.py": "other = 2\n"}, {"docs/a.md": "b\n"}):
        upstream.commit(change)
    return clone(upstream, tmp_path / "checkout", revision="HEAD"), base


def _queue_build(checkout: Checkout, base: str | None) -> Build:
    return push_build(checkout, branch="gh-readonly-queue/main/pr-3", merge_queue_base_commit=base)


def test_merge_queue_lists_the_whole_group(tmp_path: Path) -> None:
    checkout, base = _queue(tmp_path)
    found = change_set(checkout.open().changes(_queue_build(checkout, base), default_branch="main"))
    assert [file.path for file in found.files] == ["docs/a.md", "src/core.py", "src/other.py"]
    assert found.description == f"merge queue base {base[:10]} of HEAD {checkout.head[:10]}"


@pytest.mark.parametrize("base", [None, "0" * 40, "main", "--output=x"])
def test_merge_queue_without_a_usable_base_is_unknown(tmp_path: Path, base: str | None) -> None:
    checkout, _ = _queue(tmp_path)
    changes = checkout.open().changes(_queue_build(checkout, base), default_branch="main")
    assert reason(changes) == "the build names no base commit of its merge queue"


def test_merge_queue_base_that_nobody_has_is_unknown(tmp_path: Path) -> None:
    checkout, _ = _queue(tmp_path)
    changes = checkout.open().changes(_queue_build(checkout, "12" * 20), default_branch="main")
    assert reason(changes).startswith("git fetch failed: ")
