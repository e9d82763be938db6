"""Local builds: everything since the default branch, committed or not, and nothing is fetched or written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bkgen.build import Build
from bkgen.changes import Changes
from gitrepo import (
    Checkout,
    Content,
    Link,
    Program,
    change_set,
    clone,
    paths,
    program,
    pull_request,
    reason,
    repository,
    statuses,
)


def _changes(checkout: Checkout, *, default_branch: str = "main", base: str | None = None) -> Changes:
    return checkout.open().changes(Build(), default_branch=default_branch, base=base)


def _branch(tmp_path: Path) -> Checkout:
    """A checkout with one commit on a branch, while the default branch has moved on."""
    made = pull_request(tmp_path).checkout
    made.git("checkout", "--quiet", "-b", "feature")
    return made


def test_commits_since_the_remote_default_branch_are_listed(tmp_path: Path) -> None:
    made = _branch(tmp_path)
    base, head, tip = (made.git("rev-parse", rev)[:10] for rev in ("HEAD~1", "HEAD", "origin/main"))
    found = change_set(_changes(made))
    assert [file.path for file in found.files] == ["src/core.py"]
    assert (found.base[:10], found.head) == (base, "working tree")
    assert found.description == (
        f"merge base {base} of HEAD {head} and origin/main (not fetched; its tip {tip} is of"
        " 2024-05-01 10:00 UTC), with uncommitted and untracked files"
    )


def test_staged_unstaged_and_untracked_files_are_listed_and_ignored_ones_are_not(tmp_path: Path) -> None:
    made = _branch(tmp_path)
    made.write({"docs/n.md": "staged", "new/staged.py": "s"})
    made.git("add", "--all")
    made.write(
        {
            "docs/a.md": "unstaged",
            "README.md": None,
            "new/deep/untracked.py": "u",
            ".gitignore": "*.log\n",
            "new/agent.log": "ignored",
        }
    )
    assert statuses(_changes(made)) == {
        ".gitignore": "A",
        "README.md": "D",
        "docs/a.md": "M",
        "docs/n.md": "M",
        "new/deep/untracked.py": "A",
        "new/staged.py": "A",
        "src/core.py": "M",
    }


CASES: dict[str, tuple[Mapping[str, Content], Mapping[str, Content], tuple[str, str, str]]] = {
    "committed and edited on": ({"x": "1"}, {"x": "2"}, ("A", "000000", "100644")),
    "committed, then taken away": ({"docs/a.md": "1"}, {"docs/a.md": None}, ("D", "100644", "000000")),
    "added by a commit, then taken away": ({"x": "1"}, {"x": None}, ("D", "100644", "000000")),
    "deleted by a commit, then written anew": (
        {"docs/a.md": None},
        {"docs/a.md": "2"},
        ("M", "100644", "100644"),
    ),
    "made executable": ({}, {"docs/a.md": Program("a\n")}, ("M", "100644", "100755")),
    "turned into a symlink": ({}, {"docs/a.md": Link("n.md")}, ("T", "100644", "120000")),
    "a new symlink": ({}, {"x": Link("docs")}, ("A", "000000", "120000")),
    "a new program": ({}, {"x": Program()}, ("A", "000000", "100755")),
    "a commit undone in the work tree": ({"docs/a.md": "1"}, {"docs/a.md": "a\n"}, ("M", "100644", "100644")),
}


@pytest.mark.parametrize(("committed", "uncommitted", "expected"), CASES.values(), ids=CASES)
def test_file_that_is(
    tmp_path: Path,
    committed: Mapping[str, Content],
    uncommitted: Mapping[str, Content],
    expected: tuple[str, str, str],
) -> None:
    made = repository(tmp_path / "main")
    made.branch("feature")
    if committed:
        made.commit(committed)
    made.write(uncommitted)
    (file,) = change_set(_changes(made)).files
    assert (file.status, file.old_mode, file.new_mode) == expected


def test_rename_that_is_only_staged_lists_both_names(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.git("mv", "src/core.py", "docs/core.py")
    assert statuses(_changes(made)) == {"docs/core.py": "A", "src/core.py": "D"}


def test_file_staged_and_taken_away_again_is_still_listed(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.write({"x": "1"})
    made.git("add", "x")
    made.write({"x": None})
    assert statuses(_changes(made)) == {"x": "D"}


def test_file_taken_out_of_the_index_but_kept_is_listed_once(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.git("rm", "--quiet", "--cached", "docs/a.md")
    assert statuses(_changes(made)) == {"docs/a.md": "M"}


def test_directory_in_place_of_a_file_lists_both(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.write({"docs/a.md": None, "docs/a.md/x": "1"})
    assert statuses(_changes(made)) == {"docs/a.md": "D", "docs/a.md/x": "A"}


@pytest.mark.parametrize("theirs", ["theirs\n", None], ids=["changed on both sides", "deleted on one side"])
def test_file_in_conflict_is_listed_once(tmp_path: Path, theirs: Content) -> None:
    made = repository(tmp_path / "main")
    made.branch("feature")
    made.commit({"docs/a.md": "ours\n"})
    made.branch("other", "main")
    made.commit({"docs/a.md": theirs})
    made.switch("feature")
    with pytest.raises(AssertionError, match="merge"):
        made.merge("other")
    assert statuses(_changes(made)) == {"docs/a.md": "M"}


def test_odd_names_arrive_byte_for_byte_untracked_too(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    staged = {"a b": "", "ca\nfé": "", "\udcff": ""}
    untracked = {" x": "", "y ": "", "? z": "", "new/\udcfe\t": "", "1 .M": ""}
    made.write(staged)
    made.git("add", "--all")
    made.write(untracked)
    assert set(paths(_changes(made))) == {*staged, *untracked}


def test_untracked_repository_inside_is_listed_as_a_link(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    repository(made.path / "inner")
    (file,) = change_set(_changes(made)).files
    assert (file.path, file.status, file.new_mode) == ("inner", "A", "160000")


def test_edited_file_in_a_submodule_is_listed_though_it_is_to_be_ignored(tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    made = repository(tmp_path / "main")
    made.git("submodule", "--quiet", "add", library.url, "vendor/lib")
    made.git("config", "--file", ".gitmodules", "submodule.vendor/lib.ignore", "all")
    made.commit({".gitattributes": ""})
    made.configure('[submodule "vendor/lib"]\n\tignore = all\n[diff]\n\tignoreSubmodules = all\n')
    assert paths(_changes(made)) == []
    (made.path / "vendor/lib/src/core.py").write_text("edited\n")
    assert statuses(_changes(made)) == {"vendor/lib": "M"}


def test_new_time_stamps_are_no_change_and_the_index_stays_byte_for_byte(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.write({"docs/a.md": "a\n", "docs/n.md": "edited\n"})
    before = made.state()
    assert paths(_changes(made)) == ["docs/n.md"]
    assert made.state() == before


def test_nothing_is_fetched_and_nothing_is_written(tmp_path: Path) -> None:
    made = _branch(tmp_path)
    made.write({"docs/a.md": "edited", "new.py": "new"})
    made.git("remote", "set-url", "origin", "ssh://git.example.invalid/base.git")
    ssh = program(tmp_path / "ssh", f'touch "{tmp_path}/marker"')
    before = made.state()
    changes = made.open(GIT_SSH_COMMAND=str(ssh)).changes(Build(), default_branch="main")
    assert paths(changes) == ["docs/a.md", "new.py", "src/core.py"]
    assert made.state() == before
    assert not (tmp_path / "marker").exists()


def test_default_branch_itself_without_a_remote_counts_uncommitted_files_only(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.commit({"src/core.py": "core = 2\n"})
    assert paths(_changes(made)) == []
    made.write({"docs/a.md": "edited"})
    assert paths(_changes(made)) == ["docs/a.md"]


def test_unpushed_commits_of_the_default_branch_count(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    made = clone(upstream, tmp_path / "checkout")
    made.git("checkout", "--quiet", "-B", "main")
    made.commit({"src/core.py": "core = 2\n"})
    assert paths(_changes(made)) == ["src/core.py"]


def test_default_branch_that_is_nowhere_is_unknown(tmp_path: Path) -> None:
    made = repository(tmp_path / "work", branch="work")
    assert reason(_changes(made)) == (
        "there is no branch 'main' here to compare with, neither remote nor local"
    )


@pytest.mark.parametrize("name", ["--all", "", "a b"])
def test_default_branch_with_an_illegal_name_is_unknown(tmp_path: Path, name: str) -> None:
    made = repository(tmp_path / "main")
    assert reason(_changes(made, default_branch=name)) == (
        f"the default branch '{name}' is not a legal branch name"
    )


def test_default_branch_prefers_origin_then_its_head_then_other_remotes_then_the_local_one(
    tmp_path: Path,
) -> None:
    made = repository(tmp_path / "main")
    made.branch("feature")
    made.commit()
    steps = [
        ("main", None),
        ("fork/main", "refs/remotes/fork/main"),
        ("origin/HEAD", "refs/remotes/origin/HEAD"),
        ("origin/main", "refs/remotes/origin/main"),
    ]
    for expected, ref in steps:
        if ref is not None:
            made.git("update-ref", ref, "main")
        assert f" and {expected} (not fetched" in change_set(_changes(made)).description


def test_tags_do_not_shadow_the_default_branch(tmp_path: Path) -> None:
    made = _branch(tmp_path)
    for tag in ("main", "origin/main", "refs/remotes/origin/main"):
        made.git("tag", tag, "HEAD")
    assert paths(_changes(made)) == ["src/core.py"]


def test_local_build_without_a_common_commit_is_unknown(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.git("checkout", "--quiet", "--orphan", "fresh")
    made.commit({"docs/a.md": "fresh"})
    assert reason(_changes(made)) == "HEAD and main have no commit in common"


def test_base_that_the_user_names_is_used_instead(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    first = made.head
    made.commit({"src/core.py": "core = 2\n"})
    made.commit({"src/other.py": "other = 2\n"})
    made.write({"new.py": "new"})
    assert paths(_changes(made, base="HEAD~1")) == ["new.py", "src/other.py"]
    assert paths(_changes(made, base=first)) == ["new.py", "src/core.py", "src/other.py"]


def test_base_branch_that_the_user_names_is_compared_where_it_parted(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.branch("release/1")
    made.commit({"release.txt": "r"})
    made.branch("feature", "main")
    made.commit({"src/core.py": "core = 2\n"})
    assert paths(_changes(made, base="release/1")) == ["src/core.py"]


@pytest.mark.parametrize("base", ["nowhere", "--output=marker", "HEAD..HEAD", "HEAD:README.md", ""])
def test_base_that_names_no_commit_is_unknown(tmp_path: Path, base: str) -> None:
    made = repository(tmp_path / "main")
    assert reason(_changes(made, base=base)) == f"'{base}' names no commit here"
    assert not (made.path / "marker").exists()


def test_base_of_a_build_in_buildkite_leaves_uncommitted_files_out(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.write({"agent.log": "log"})
    changes = made.checkout.open().changes(made.build(), default_branch="main", base="origin/main")
    assert paths(changes) == ["src/core.py"]


def test_local_build_needs_four_git_calls_at_most(tmp_path: Path) -> None:
    made = _branch(tmp_path)
    made.write({"new.py": "new"})
    calls = tmp_path / "calls"
    real = next(part for part in made.environ["PATH"].split(":") if (Path(part) / "git").exists())
    program(tmp_path / "bin/git", f'echo "$*" >>"{calls}"\nexec "{real}/git" "$@"')
    opened = made.open(PATH=f"{tmp_path}/bin:{made.environ['PATH']}")
    calls.unlink()
    assert paths(opened.changes(Build(), default_branch="main")) == ["new.py", "src/core.py"]
    assert len(calls.read_text().splitlines()) <= 5
