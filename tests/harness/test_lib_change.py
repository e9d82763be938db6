"""lib.sh: merging the pull request's base before testing, on real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.bash_tools import bash, environment, stand_in

PULL_REQUEST = {"BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "release/1.x"}


class Repositories:
    """A base repository with `release/1.x` and a branch `feature`, and a checkout of the latter, as an agent
    leaves it: HEAD detached, no tracking ref of the base."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path, self.base, self.checkout = tmp_path, tmp_path / "base", tmp_path / "checkout"
        self.env = environment(tmp_path) | {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (
                ("NAME", "Tester"),
                ("EMAIL", "t@localhost"),
                ("DATE", "2024-01-02T03:04:05+00:00"),
            )
        }
        self.git(tmp_path, "init", "--quiet", "--initial-branch=release/1.x", str(self.base))
        self.commit("shared.txt", "one\ntwo\nthree\n")
        self.git(self.base, "checkout", "--quiet", "-b", "feature")
        self.commit("feature.txt", "feature\n")

    def git(self, where: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(where), *arguments], env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, name: str, text: str) -> str:
        (self.base / name).write_text(text)
        self.git(self.base, "add", "--all")
        self.git(self.base, "commit", "--quiet", "--message", name)
        return self.git(self.base, "rev-parse", "HEAD")

    def on_base(self, name: str, text: str) -> str:
        self.git(self.base, "checkout", "--quiet", "release/1.x")
        sha = self.commit(name, text)
        self.git(self.base, "checkout", "--quiet", "feature")
        return sha

    def check_out(self, *options: str) -> str:
        self.git(
            self.tmp_path, "clone", "--quiet", "--single-branch", "--branch=feature", *options,
            f"file://{self.base}", str(self.checkout),
        )  # fmt: skip
        self.git(self.checkout, "checkout", "--quiet", "--detach")
        return self.git(self.checkout, "rev-parse", "HEAD")

    def merge(self, **extra: str) -> subprocess.CompletedProcess[str]:
        return bash(
            "sleep() { :; }\nmerge_base_branch",
            environment(self.tmp_path) | PULL_REQUEST | extra,
            self.checkout,
        )

    def files(self) -> set[str]:
        return {path.name for path in self.checkout.iterdir()} - {".git", "script.sh"}


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path)


def test_the_base_is_merged_into_head_and_no_branch_or_configuration_is_touched(
    repositories: Repositories,
) -> None:
    tip = repositories.on_base("base.txt", "base\n")
    head = repositories.check_out()
    repositories.git(repositories.checkout, "checkout", "--quiet", "feature")
    before = (repositories.checkout / ".git/config").read_text()
    done = repositories.merge()
    assert done.returncode == 0, done.stderr
    assert repositories.files() == {"shared.txt", "feature.txt", "base.txt"}
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD^1", "HEAD^2").split() == [head, tip]
    assert repositories.git(repositories.checkout, "rev-parse", "feature") == head
    assert repositories.git(repositories.checkout, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert (repositories.checkout / ".git/config").read_text() == before
    assert list((repositories.tmp_path / "home").iterdir()) == []
    assert f"merged release/1.x at {tip}" in done.stderr


def test_a_second_run_changes_nothing_and_another_job_tests_the_same_commit(
    repositories: Repositories,
) -> None:
    repositories.on_base("base.txt", "base\n")
    repositories.check_out()
    commits = set()
    for again in (False, True, False):
        if not again:
            repositories.git(repositories.checkout, "checkout", "--quiet", "--detach", "feature")
        assert repositories.merge().returncode == 0
        commits.add(repositories.git(repositories.checkout, "rev-parse", "HEAD"))
    assert len(commits) == 1
    dates = repositories.git(repositories.checkout, "show", "--no-patch", "--format=%aI %cI", commits.pop())
    assert dates == "2024-01-02T03:04:05+00:00 2024-01-02T03:04:05+00:00"


@pytest.mark.parametrize("pull_request", ["false", ""])
def test_outside_a_pull_request_nothing_happens(pull_request: str, repositories: Repositories) -> None:
    repositories.on_base("base.txt", "base\n")
    head = repositories.check_out()
    done = repositories.merge(BUILDKITE_PULL_REQUEST=pull_request, BUILDKITE_PULL_REQUEST_BASE_BRANCH="")
    assert done.returncode == 0
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD") == head
    assert "not a pull request" in done.stderr


def test_a_conflict_fails_with_the_files_and_leaves_the_checkout_as_it_was(
    repositories: Repositories,
) -> None:
    repositories.commit("shared.txt", "one\nFEATURE\nthree\n")
    repositories.commit("a name.txt", "feature\n")
    repositories.on_base("shared.txt", "one\nBASE\nthree\n")
    repositories.on_base("a name.txt", "base\n")
    head = repositories.check_out()
    done = repositories.merge()
    assert done.returncode == 1
    assert "    a name.txt\n    shared.txt\n  hint: merge or rebase onto release/1.x" in done.stderr
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD") == head
    assert repositories.git(repositories.checkout, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.parametrize("name", ["--upload-pack=touch owned", "-x", "", "a..b", "x y", "refs/heads/*"])
def test_a_base_that_is_no_branch_name_is_refused(name: str, repositories: Repositories) -> None:
    repositories.check_out()
    done = repositories.merge(BUILDKITE_PULL_REQUEST_BASE_BRANCH=name)
    assert done.returncode == 1
    assert f"is not the name of a branch: '{name}'" in done.stderr
    assert not (repositories.checkout / "owned").exists()


def test_a_base_that_cannot_be_fetched_is_the_environments_failure(repositories: Repositories) -> None:
    repositories.check_out()
    done = repositories.merge(BUILDKITE_PULL_REQUEST_BASE_BRANCH="gone")
    assert done.returncode == 75
    assert done.stderr.count("of 3 of") == 3
    assert "the base branch 'gone' cannot be fetched" in done.stderr


@pytest.mark.parametrize("depth", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 50))])
def test_a_shallow_clone_is_deepened_until_the_merge_is_right(depth: int, repositories: Repositories) -> None:
    for number in range(6):
        repositories.commit("feature.txt", f"feature {number}\n")
    tip = repositories.on_base("base.txt", "base\n")
    head = repositories.check_out(f"--depth={depth}")
    done = repositories.merge()
    assert done.returncode == 0, done.stderr
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD^1", "HEAD^2").split() == [head, tip]
    assert (repositories.checkout / "feature.txt").read_text() == "feature 5\n"


def test_a_full_clone_stays_full(repositories: Repositories) -> None:
    repositories.on_base("base.txt", "base\n")
    repositories.check_out()
    assert repositories.merge().returncode == 0
    assert repositories.git(repositories.checkout, "rev-parse", "--is-shallow-repository") == "false"


def test_hostile_settings_of_the_user_do_not_change_the_merge(repositories: Repositories) -> None:
    repositories.on_base("base.txt", "base\n")
    repositories.check_out()
    hooks = repositories.tmp_path / "hooks"
    for name in ("pre-merge-commit", "commit-msg", "post-checkout", "reference-transaction"):
        stand_in(hooks, name, f"touch {hooks}/ran; exit 1")
    (repositories.tmp_path / "home/.gitconfig").write_text(
        "[merge]\n ff = only\n autoStash = true\n[commit]\n gpgSign = true\n[user]\n useConfigOnly = true\n"
        f"[fetch]\n prune = true\n[core]\n hooksPath = {hooks}\n[rerere]\n enabled = true\n"
    )
    done = repositories.merge()
    assert done.returncode == 0, done.stderr
    assert "base.txt" in repositories.files()
    assert not (hooks / "ran").exists()


def test_the_base_comes_from_the_base_repository_even_where_origin_is_the_fork(
    repositories: Repositories,
) -> None:
    fork = repositories.tmp_path / "fork"
    repositories.git(repositories.tmp_path, "clone", "--quiet", "--bare", str(repositories.base), str(fork))
    tip = repositories.on_base("base.txt", "base\n")
    repositories.check_out()
    repositories.git(repositories.checkout, "remote", "set-url", "origin", f"file://{fork}")
    url = f"file://{repositories.base}"
    done = repositories.merge(BUILDKITE_REPO=url)
    assert done.returncode == 0, done.stderr
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD^2") == tip


def test_later_jobs_merge_the_commit_that_the_first_one_noted(repositories: Repositories) -> None:
    agent = """[ "$1" = meta-data ] || exit 9
case "$2" in
get) cat "$STATE" 2>/dev/null || printf '%s' "$5" ;;
set) printf '%s' "$4" >"$STATE" ;;
esac"""
    stand_in(repositories.tmp_path / "bin", "buildkite-agent", agent)
    state = repositories.tmp_path / "state"
    extra = {
        "PATH": f"{repositories.tmp_path}/bin:{repositories.env['PATH']}",
        "STATE": str(state),
        "BUILDKITE_BUILD_ID": "b",
    }
    first = repositories.on_base("base.txt", "base\n")
    repositories.check_out()
    assert repositories.merge(**extra).returncode == 0
    assert state.read_text() == first
    repositories.on_base("late.txt", "late\n")
    repositories.git(repositories.checkout, "checkout", "--quiet", "--detach", "feature")
    assert repositories.merge(**extra).returncode == 0
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD^2") == first
    assert "late.txt" not in repositories.files()

    state.write_text("--upload-pack=touch owned")
    done = repositories.merge(**extra)
    assert done.returncode == 1
    assert "is not a commit: '--upload-pack=touch owned'" in done.stderr


def test_jobs_that_start_at_the_same_moment_merge_one_and_the_same_commit(
    repositories: Repositories,
) -> None:
    """Both find the meta-data empty, and both write: this job's is overwritten before it looks again."""
    earlier = repositories.on_base("base.txt", "base\n")
    repositories.on_base("late.txt", "late\n")
    agent = f"""case "$2" in
get) cat "$STATE" 2>/dev/null || printf '%s' "$5" ;;
set) printf '%s' {earlier} >"$STATE" ;;
esac"""
    stand_in(repositories.tmp_path / "bin", "buildkite-agent", agent)
    repositories.check_out()
    done = repositories.merge(
        PATH=f"{repositories.tmp_path}/bin:{repositories.env['PATH']}",
        STATE=str(repositories.tmp_path / "state"),
        BUILDKITE_BUILD_ID="b",
    )
    assert done.returncode == 0, done.stderr
    assert repositories.git(repositories.checkout, "rev-parse", "HEAD^2") == earlier
    assert "late.txt" not in repositories.files()


def test_a_broken_agent_does_not_stop_the_merge(repositories: Repositories) -> None:
    stand_in(repositories.tmp_path / "bin", "buildkite-agent", "exit 5")
    repositories.on_base("base.txt", "base\n")
    repositories.check_out()
    path = f"{repositories.tmp_path}/bin:{repositories.env['PATH']}"
    done = repositories.merge(PATH=path, BUILDKITE_BUILD_ID="b")
    assert done.returncode == 0
    assert "could not be noted for other jobs" in done.stderr
    assert "base.txt" in repositories.files()
