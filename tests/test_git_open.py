"""Finding the work tree: where there is none, or git will not or cannot answer, it is said with a hint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bkgen.build import Build
from bkgen.errors import BkgenError, EnvironmentFailure, UserError
from bkgen.git import Repository
from gitrepo import clone, environ, paths, program, pull_request, reason, repository


def _refused(directory: Path, **more: str) -> BkgenError:
    with pytest.raises(BkgenError) as caught:
        Repository.open(directory, environ=environ(directory.parent, **more))
    return caught.value


@pytest.mark.parametrize("below", [".", "docs", "a/b"])
def test_root_is_the_top_level_from_anywhere_inside(tmp_path: Path, below: str) -> None:
    made = repository(tmp_path / "main")
    (made.path / below).mkdir(parents=True, exist_ok=True)
    assert made.open(made.path / below).root == made.path


def test_root_may_hold_blanks_newlines_and_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    made = repository(tmp_path / "a b\nc\udcff")
    assert made.open(made.path / "docs").root == made.path


def test_directory_outside_a_repository_is_the_users_to_fix(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    error = _refused(tmp_path / "plain")
    assert isinstance(error, UserError)
    assert f"{tmp_path}/plain is not in a git repository [git-repository]\n  hint: " in str(error)


def test_bare_repository_is_the_users_to_fix(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.git("clone", "--quiet", "--bare", ".", "../bare")
    error = _refused(tmp_path / "bare")
    assert isinstance(error, UserError)
    assert "is a bare repository" in str(error)


def test_git_directory_itself_is_the_users_to_fix(tmp_path: Path) -> None:
    error = _refused(repository(tmp_path / "main").path / ".git")
    assert isinstance(error, UserError)
    assert "is not in a work tree" in str(error)


def test_directory_that_does_not_exist_is_the_users_to_fix(tmp_path: Path) -> None:
    error = _refused(tmp_path / "nowhere")
    assert isinstance(error, UserError)
    assert "cannot be entered" in str(error)


def test_git_that_is_not_installed_is_the_environments_fault(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    (tmp_path / "bin").mkdir()
    error = _refused(made.path, PATH=str(tmp_path / "bin"))
    assert isinstance(error, EnvironmentFailure)
    assert str(error).startswith("git is not on the path\n  hint: install git")


def test_git_that_vanishes_after_opening_is_unknown(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    real = next(part for part in made.checkout.environ["PATH"].split(":") if (Path(part) / "git").exists())
    stand_in = program(tmp_path / "bin/git", f'exec "{real}/git" "$@"')
    opened = made.checkout.open(PATH=f"{tmp_path}/bin:{made.checkout.environ['PATH']}")
    stand_in.unlink()
    assert "git" in reason(opened.changes(made.build(), default_branch="main"))


def test_repository_of_a_format_that_git_does_not_know_is_the_environments_fault(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    made.git("config", "core.repositoryFormatVersion", "99")
    error = _refused(made.path)
    assert isinstance(error, EnvironmentFailure)
    assert "git cannot open" in str(error)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a checkout to another user")


@needs_root
def test_checkout_of_another_user_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    os.chown(made.path, 12345, 12345)
    os.chown(made.path / ".git", 12345, 12345)
    error = _refused(made.path)
    assert isinstance(error, EnvironmentFailure)
    assert str(error) == (
        f"git refuses {made.path}: it belongs to another user\n"
        f"  hint: git config --global --add safe.directory {made.path}"
    )


@needs_root
def test_checkout_of_another_user_that_is_declared_safe_is_read(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    os.chown(made.checkout.path, 12345, 12345)
    os.chown(made.checkout.path / ".git", 12345, 12345)
    safe = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(made.checkout.path),
    }
    assert paths(made.changes("docs", environ=safe)) == ["src/core.py"]


@needs_root
@pytest.mark.parametrize("local", [True, False], ids=["local build", "pull request"])
def test_checkout_given_to_another_user_after_opening_is_unknown(tmp_path: Path, local: bool) -> None:
    made = pull_request(tmp_path)
    opened, build = made.checkout.open(), Build() if local else made.build()
    os.chown(made.checkout.path, 12345, 12345)
    os.chown(made.checkout.path / ".git", 12345, 12345)
    assert "dubious ownership" in reason(opened.changes(build, default_branch="main"))


def test_work_tree_that_lost_its_repository_is_unknown_and_never_compared_without_one(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    opened, build = made.checkout.open(), made.build()
    (made.checkout.path / ".git").rename(tmp_path / "away")
    assert "not a git repository" in reason(opened.changes(build, default_branch="main"))
    with pytest.raises(EnvironmentFailure, match="not a git repository"):
        opened.head()


def test_git_that_hangs_over_a_short_call_is_ended(tmp_path: Path) -> None:
    made = repository(tmp_path / "main")
    real = next(part for part in made.environ["PATH"].split(":") if (Path(part) / "git").exists())
    script = f'case "$*" in *diff-tree*) exec sleep 300 ;; esac\nexec "{real}/git" "$@"'
    program(tmp_path / "bin/git", script)
    opened = made.open(time_limit=0.5, PATH=f"{tmp_path}/bin:{made.environ['PATH']}")
    made.commit({"src/core.py": "core = 2\n"})
    build = Build(source="webhook", branch="main", commit=made.head)
    assert (
        reason(opened.changes(build, default_branch="main")) == "git diff-tree did not end within 0.5 seconds"
    )


def test_head_is_the_commit_that_is_checked_out(tmp_path: Path) -> None:
    upstream = repository(tmp_path / "upstream")
    assert upstream.open().head() == upstream.head
    assert clone(upstream, tmp_path / "detached").open().head() == upstream.head
