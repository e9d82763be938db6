"""Files out of git's objects, as a fork's base is read: never from the work tree, never through a link."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bkgen.errors import EnvironmentFailure, UserError
from gitrepo import Link, Program, paths, pull_request, reason, repository

pytestmark = pytest.mark.slow

SUITE = {
    "bkgen.yml": "version: 1\n",
    "k3_tests/unit/pipeline.yml": "steps: []\n",
    "k3_tests/unit/run.sh": Program(),
    "k3_tests/unit/link.yml": Link("../../bkgen.yml"),
    "k3_tests/unit/empty": "",
    "k3_tests/b\n\udcff": b"\x00\xff\r\n",
    "k3_tests2/other.yml": "other",
}


def test_regular_files_below_the_paths_are_read_as_they_were_committed(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files=SUITE)
    revision = made.head
    made.commit({"bkgen.yml": "version: 2\n", "k3_tests/unit/pipeline.yml": None})
    made.write({"k3_tests/unit/run.sh": "edited"})
    assert made.open().read_tree(revision, ["bkgen.yml", "k3_tests", "nowhere"]) == {
        "bkgen.yml": b"version: 1\n",
        "k3_tests/unit/pipeline.yml": b"steps: []\n",
        "k3_tests/unit/run.sh": b"#!/bin/sh\n",
        "k3_tests/unit/empty": b"",
        "k3_tests/b\n\udcff": b"\x00\xff\r\n",
    }


@pytest.mark.parametrize("path", ["k3_tests/unit", "k3_tests/unit/", "./k3_tests//unit"])
def test_path_may_be_written_with_dots_and_slashes(tmp_path: Path, path: str) -> None:
    made = repository(tmp_path / "main", files=SUITE)
    assert set(made.open(made.path / "k3_tests").read_tree("HEAD", [path])) == {
        "k3_tests/unit/pipeline.yml",
        "k3_tests/unit/run.sh",
        "k3_tests/unit/empty",
    }


@pytest.mark.parametrize("root", ["", "."])
def test_root_means_all_files(tmp_path: Path, root: str) -> None:
    made = repository(tmp_path / "main", files=SUITE)
    assert len(made.open().read_tree("HEAD", ["bkgen.yml", root])) == len(SUITE) - 1


def test_no_path_means_no_file(tmp_path: Path) -> None:
    assert repository(tmp_path / "main").open().read_tree("HEAD", []) == {}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "docs/../../x"])
def test_path_that_leads_out_of_the_repository_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UserError, match="leads out of the repository"):
        repository(tmp_path / "main").open().read_tree("HEAD", [path])


def test_path_with_a_pathspecs_magic_is_taken_literally(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files={":(glob)*": "magic", "plain": "plain", "*": "star"})
    assert made.open().read_tree("HEAD", [":(glob)*", "*"]) == {":(glob)*": b"magic", "*": b"star"}


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD~9", "HEAD:docs", "0" * 40, "", "HEAD..HEAD"])
def test_revision_that_names_no_commit_is_the_users_to_fix(tmp_path: Path, revision: str) -> None:
    opened = repository(tmp_path / "main").open()
    for call in (opened.read_tree, opened.tree_modes):
        with pytest.raises(UserError, match="names no commit of this repository"):
            call(revision, ["docs"])


def test_tag_and_branch_are_revisions_too(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files={"x": "1"})
    made.git("tag", "--annotate", "--message", "one", "v1")
    made.commit({"x": "2"})
    assert made.open().read_tree("v1", ["x"]) == {"x": b"1"}
    assert made.open().read_tree("main", ["x"]) == {"x": b"2"}


def test_modes_tell_programs_links_and_submodules_apart(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files=SUITE)
    made.git("update-index", "--add", "--cacheinfo", f"160000,{made.head},k3_tests/lib")
    made.git("commit", "--quiet", "--message", "submodule")
    assert made.open().tree_modes("HEAD", ["k3_tests"]) == {
        "k3_tests/unit/pipeline.yml": "100644",
        "k3_tests/unit/run.sh": "100755",
        "k3_tests/unit/link.yml": "120000",
        "k3_tests/unit/empty": "100644",
        "k3_tests/b\n\udcff": "100644",
        "k3_tests/lib": "160000",
    }
    assert "k3_tests/lib" not in made.open().read_tree("HEAD", ["k3_tests"])


def test_tracked_files_are_those_of_the_index_in_order(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files=SUITE)
    made.write({"untracked": "", "k3_tests/a": Program()})
    made.git("add", "k3_tests/a")
    opened = made.open(made.path / "k3_tests")
    assert [
        entry for entry in opened.tracked_files() if entry[0].startswith(("k3_tests/a", "k3_tests/b"))
    ] == [
        ("k3_tests/a", "100755"),
        ("k3_tests/b\n\udcff", "100644"),
    ]
    assert {path for path, _ in opened.tracked_files()} == {*SUITE, "k3_tests/a"}


def test_tracked_file_in_conflict_is_listed_once(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files={"x": "1"})
    made.branch("other")
    made.commit({"x": "2"})
    made.switch("main")
    made.commit({"x": "3"})
    with pytest.raises(AssertionError, match="merge"):
        made.merge("other")
    assert made.open().tracked_files() == [("x", "100644")]


def test_file_whose_object_is_missing_is_the_environments_fault(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.commit({"x": "only here"})
    blob = made.git("rev-parse", "HEAD:x")
    (made.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(EnvironmentFailure, match="has no file for"):
        made.open().read_tree("HEAD", ["x"])


def test_replaced_objects_are_not_read(tmp_path: Path) -> None:
    made = repository(tmp_path / "main", files={"x": "genuine"})
    made.write({"forged": "forged"})
    made.git("replace", made.git("rev-parse", "HEAD:x"), made.git("hash-object", "-w", "forged"))
    assert made.git("show", "HEAD:x") == "forged"
    assert made.open().read_tree("HEAD", ["x"]) == {"x": b"genuine"}


def test_fork_cannot_choose_what_is_read_from_its_base(tmp_path: Path) -> None:
    made = pull_request(
        tmp_path, {"bkgen.yml": "forks: {privileged: true}\n", "docs/a.md": Link("/etc/passwd")}
    )
    opened, build = made.checkout.open(), made.build(branch="octocat:fix", is_fork=True)
    base = opened.base_commit(build, default_branch="main")
    assert isinstance(base, str)
    assert opened.read_tree(base, ["bkgen.yml", "docs"]) == {"docs/a.md": b"a\n", "docs/n.md": b"n\n"}
    assert paths(opened.changes(build, default_branch="main")) == ["bkgen.yml", "docs/a.md"]


def test_base_of_a_fork_that_cannot_be_fetched_is_unknown_and_no_commit(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.upstream.path.rename(tmp_path / "gone")
    base = made.checkout.open().base_commit(made.build(is_fork=True), default_branch="main")
    assert not isinstance(base, str)
    assert reason(base).startswith("git fetch failed: ")


NAME = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=12
).filter(lambda name: name.lower() not in {".", "..", ".git"} and len(name.encode()) < 200)


@settings(max_examples=8, deadline=None)
@given(files=st.dictionaries(NAME, st.binary(max_size=40), min_size=1, max_size=6))
def test_what_is_committed_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    made = repository(tmp_path_factory.mktemp("round") / "main", files={})
    made.git("config", "core.autocrlf", "false")
    made.git("config", "core.protectNTFS", "false")
    made.git("config", "core.protectHFS", "false")
    made.commit({f"d/{name}": content for name, content in files.items()})
    opened = made.open()
    assert opened.read_tree("HEAD", ["d"]) == {f"d/{name}": content for name, content in files.items()}
    assert {path for path, _ in opened.tracked_files()} == {f"d/{name}" for name in files}
