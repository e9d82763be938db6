"""What a pull request changes: the merge base of HEAD and the real base branch, and both trees in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitrepo import (
    Link,
    Program,
    PullRequest,
    change_set,
    clone,
    paths,
    pull_request,
    reason,
    repository,
    statuses,
)

pytestmark = pytest.mark.slow


def test_only_what_the_pull_request_changed_is_listed(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"src/core.py": "core = 2\n", "new/x.py": "x\n"})
    found = change_set(made.changes())
    assert [(file.path, file.status) for file in found.files] == [("new/x.py", "A"), ("src/core.py", "M")]
    assert found.base == made.upstream.git("rev-parse", "main~1")
    assert found.head == made.checkout.head


def test_the_description_names_both_commits_and_the_date_of_the_fetched_tip(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    base, head, tip = (made.upstream.git("rev-parse", rev)[:10] for rev in ("main~1", "feature", "main"))
    assert change_set(made.changes()).description == (
        f"merge base {base} of HEAD {head} and origin/main"
        f" (fetched; its tip {tip} is of 2024-05-01 10:00 UTC)"
    )


def test_two_checkouts_of_one_pull_request_give_equal_changes(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    second = PullRequest(made.upstream, clone(made.upstream, tmp_path / "second", revision="feature"), "main")
    assert made.changes() == second.changes()
    assert made.changes() == made.changes()


def test_rename_out_of_source_lists_both_names(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"src/core.py": None, "docs/core.py": "core = 1\n"})
    assert statuses(made.changes()) == {"docs/core.py": "A", "src/core.py": "D"}


def test_rename_into_source_lists_both_names(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"docs/a.md": None, "src/a.md": "a\n"})
    assert statuses(made.changes()) == {"docs/a.md": "D", "src/a.md": "A"}


def test_copy_is_an_added_file(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"docs/core.py": "core = 1\n"})
    made.checkout.configure("[diff]\n\trenames = copies\n")
    assert statuses(made.changes()) == {"docs/core.py": "A"}


def test_deletion_counts_like_an_edit(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"src/core.py": None})
    (file,) = change_set(made.changes()).files
    assert (file.path, file.status, file.old_mode, file.new_mode) == ("src/core.py", "D", "100644", "000000")


EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
ODD_NAMES = {
    "src/my file.md": "blank",
    "src/tab\tand\nnewline.py": "tab and newline",
    'src/"quoted"\\.py': "quote and backslash",
    "src/café.py": "letters outside ASCII",
    "src/\udcff\udcfe.py": "bytes that are not UTF-8",
    "src/-dash --option": "dashes",
    "src/:(glob)*": "a pathspec's magic",
    " leading": "a leading blank",
    "trailing ": "a trailing blank",
}


def test_odd_names_arrive_byte_for_byte_and_each_as_one(tmp_path: Path) -> None:
    made = pull_request(tmp_path, dict.fromkeys(ODD_NAMES, "x"))
    assert set(paths(made.changes())) == set(ODD_NAMES)
    made.checkout.configure("[core]\n\tquotePath = true\n")
    assert set(paths(made.changes())) == set(ODD_NAMES)


def test_mode_change_is_a_change_with_both_modes(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"src/core.py": Program("core = 1\n")})
    (file,) = change_set(made.changes()).files
    assert (file.status, file.old_mode, file.new_mode) == ("M", "100644", "100755")
    assert file.is_special


def test_file_that_becomes_a_symlink_is_a_type_change(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"docs/a.md": Link("../src/core.py")})
    (file,) = change_set(made.changes()).files
    assert (file.path, file.status, file.old_mode, file.new_mode) == ("docs/a.md", "T", "100644", "120000")
    assert file.is_special


def test_new_symlink_carries_its_mode(tmp_path: Path) -> None:
    made = pull_request(tmp_path, {"docs/link": Link("../src")})
    (file,) = change_set(made.changes()).files
    assert (file.status, file.new_mode) == ("A", "120000")
    assert file.is_link


@pytest.mark.parametrize("ignore", ["", "all"], ids=["plain", "with ignore = all everywhere"])
def test_submodule_bump_lists_the_link_itself(tmp_path: Path, ignore: str) -> None:
    library = repository(tmp_path / "library")
    first, second = library.head, library.commit({"x": "x"})
    modules = '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../library\n' + (
        f"\tignore = {ignore}\n" if ignore else ""
    )
    upstream = repository(tmp_path / "upstream")
    upstream.write({".gitmodules": modules})
    upstream.git("add", ".gitmodules")
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{first},vendor/lib")
    upstream.commit()
    upstream.branch("feature")
    upstream.git("update-index", "--cacheinfo", f"160000,{second},vendor/lib")
    upstream.commit()
    checkout = clone(upstream, tmp_path / "checkout", revision="feature")
    if ignore:
        checkout.configure('[submodule "lib"]\n\tignore = all\n[diff]\n\tignoreSubmodules = all\n')
    (file,) = change_set(PullRequest(upstream, checkout, "main").changes()).files
    assert (file.path, file.status, file.old_mode, file.new_mode) == ("vendor/lib", "M", "160000", "160000")
    assert file.is_special


def test_empty_commit_is_a_known_and_empty_list(tmp_path: Path) -> None:
    assert paths(pull_request(tmp_path, {}).changes()) == []


def test_commit_and_its_revert_are_a_known_and_empty_list(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.commit({"src/core.py": "core = 1\n"})
    assert paths(made.changes()) == []


def test_three_thousand_files_and_one_more_are_all_listed(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    many = "".join(f"100644 {EMPTY_BLOB}\ta/{number:04}\n" for number in range(3100))
    made.checkout.git("hash-object", "-w", "--stdin", feed="")
    made.checkout.git("update-index", "--index-info", feed=many)
    made.checkout.commit()
    found = paths(made.changes())
    assert len(found) == 3101
    assert found[-1] == "src/core.py"


def test_files_left_in_the_checkout_do_not_join_the_list(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.write({"agent.log": "log", "docs/a.md": "edited"})
    made.checkout.git("add", "docs/a.md")
    assert paths(made.changes()) == ["src/core.py"]


def test_nothing_in_the_checkout_changes_but_the_tracking_ref_of_the_base(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.write({"agent.log": "log", "docs/a.md": "edited"})
    made.upstream.git("tag", "v1")
    tip = made.upstream.commit({"src/later.py": "later"})
    made.upstream.git("branch", "another")
    before = made.checkout.state()
    assert paths(made.changes()) == ["src/core.py"]
    after = made.checkout.state()
    assert after.pop(".git/refs/remotes/origin/main").decode().strip() == tip
    assert before.pop(".git/refs/remotes/origin/main") != tip
    assert after == before


def test_merge_of_the_base_into_the_branch_does_not_list_the_bases_files(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.merge("origin/main")
    assert paths(made.changes()) == ["src/core.py"]


def test_merge_refspec_head_is_compared_with_the_base_that_was_merged(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    pushed = made.checkout.head
    made.checkout.switch("origin/main")
    merged = made.checkout.head
    made.checkout.merge(pushed)
    made.upstream.commit({"src/later.py": "the base went on after the merge"})
    found = change_set(made.changes(commit=pushed))
    assert (found.base, [file.path for file in found.files]) == (merged, ["src/core.py"])


def test_merge_refspec_head_of_a_clone_of_depth_one_is_compared_with_the_merged_base(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    pushed, merged = made.checkout.head, made.upstream.head
    made.upstream.git("checkout", "--quiet", "--detach")
    made.upstream.merge(pushed)
    made.upstream.git("update-ref", "refs/pull/7/merge", "HEAD")
    shallow = clone(made.upstream, tmp_path / "shallow", revision="refs/pull/7/merge", depth=1)
    found = change_set(PullRequest(made.upstream, shallow, "main").changes(commit=pushed))
    assert (found.base, [file.path for file in found.files]) == (merged, ["src/core.py"])


def test_base_merged_into_the_checkout_by_a_hook_does_not_list_the_bases_files(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    pushed = made.checkout.head
    made.checkout.merge("origin/main")
    assert paths(made.changes(commit=pushed)) == ["src/core.py"]


def test_head_that_is_not_the_builds_commit_is_unknown(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    pushed = made.checkout.head
    made.checkout.switch("origin/main")
    assert reason(made.changes(commit=pushed)) == (
        f"HEAD is {made.checkout.head[:10]}, but the build is for {pushed[:10]}"
    )


def test_commit_named_head_by_the_build_is_taken_as_checked_out(tmp_path: Path) -> None:
    assert paths(pull_request(tmp_path).changes(commit="HEAD")) == ["src/core.py"]


def test_criss_cross_history_lists_what_either_merge_base_shows(tmp_path: Path) -> None:
    # Two merge bases, M1 and M2. The branch takes src/other.py, which it got from M2, back to how M1 has it:
    # compared with M1 alone that change cannot be seen.
    upstream = repository(tmp_path / "upstream")
    upstream.branch("feature")
    first = upstream.commit({"src/core.py": "core = 2\n"})
    upstream.switch("main")
    second = upstream.commit({"src/other.py": "other = 2\n"})
    upstream.merge(first)
    upstream.switch("feature")
    upstream.merge(second)
    upstream.commit({"src/other.py": "other = 1\n", "docs/a.md": "new"})
    made = PullRequest(upstream, clone(upstream, tmp_path / "checkout", revision="feature"), "main")
    found = change_set(made.changes())
    assert [file.path for file in found.files] == ["docs/a.md", "src/core.py", "src/other.py"]
    assert found.base == min(first, second)
    assert "merge bases " in found.description


def test_no_common_commit_is_unknown_and_nothing_else_is_compared(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.upstream.git("checkout", "--quiet", "--orphan", "fresh")
    made.upstream.commit({"docs/a.md": "fresh"})
    made.upstream.git("branch", "--force", "main")
    assert reason(made.changes()) == "HEAD and origin/main have no commit in common"


def test_full_clone_stays_full_while_its_base_is_fetched(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    for number in range(4):
        made.upstream.commit({"src/other.py": f"other = {number}\n"})
    assert paths(made.changes()) == ["src/core.py"]
    assert made.checkout.git("rev-parse", "--is-shallow-repository") == "false"
    assert made.checkout.git("rev-list", "--count", "origin/main") == "6"


def test_commit_date_that_no_calendar_has_is_said_so(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    raw = made.upstream.git("cat-file", "commit", "main").replace(
        "1714557600 +0000", "9999999999999999 +0000"
    )
    odd = made.upstream.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", feed=raw + "\n")
    made.upstream.git("update-ref", "refs/heads/main", odd)
    assert "is of an impossible date" in change_set(made.changes()).description


def test_base_commit_is_what_the_changes_are_compared_with_and_is_fetched_once(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    opened, build = made.checkout.open(), made.build()
    base = opened.base_commit(build, default_branch="main")
    assert base == made.upstream.git("rev-parse", "main~1")
    made.upstream.path.rename(tmp_path / "gone")
    assert change_set(opened.changes(build, default_branch="main")).base == base
