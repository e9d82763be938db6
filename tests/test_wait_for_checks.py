"""`bkgen upload --wait-for-checks NAME`: from a Buildkite job to GitHub's answers and the agent's calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bkgen.build import Build
from bkgen.cli.checks import wait_for_checks
from bkgen.errors import BkgenError
from bkrun import FAKES, Cli, Result, pull_request_environ
from githubserver import LINK, Answer, GitHubServer, run, serving, status
from gitrepo import PullRequest, pull_request

pytestmark = pytest.mark.slow

TOKEN = "ghp_secret0123456789"
SUITE = {
    "src/core.py": "core = 2\n",
    "k3_tests/unit/pipeline.yml": "steps: [{command: ./run.sh}]\n",
    "k3_tests/unit/run.sh": "#!/bin/sh\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> PullRequest:
    """A pull request that brings its first suite, so there is something to run."""
    return pull_request(tmp_path_factory.mktemp("octo") / "widgets", SUITE)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as github:
        yield github


def environ(server: GitHubServer, made: PullRequest, **more: str) -> dict[str, str]:
    """The job's environment, with short times."""
    github = {
        "GITHUB_API_URL": server.url,
        "GITHUB_TOKEN": TOKEN,
        "BKGEN_CHECKS_INTERVAL": "0.02",
        "BKGEN_CHECKS_TIMEOUT": "0.2",
        "BUILDKITE_PIPELINE_SLUG": "gpu",
    }
    return pull_request_environ(made, **{**github, **more})


def upload(cli: Cli, server: GitHubServer, made: PullRequest, *arguments: str, **more: str) -> Result:
    result = cli.run(made.checkout.path, "upload", *arguments, environ=environ(server, made, **more))
    told = [result.out, result.err, *cli.agent.annotations.values(), str(cli.agent.calls)]
    assert not any(TOKEN in text for text in told)
    return result


def waited(server: GitHubServer, made: PullRequest, name: str = "lint", **more: str) -> str:
    """What is said while the check `name` is waited for, without the upload around it."""
    told: list[str] = []
    given = environ(server, made, **more)
    wait_for_checks(Build.from_environ(given), (name,), {**os.environ, **given}, told.append)
    return "\n".join(told)


LINT = ("--wait-for-checks", "lint")


def test_green_checks_let_the_upload_through(cli: Cli, server: GitHubServer, made: PullRequest) -> None:
    server.polls = [[run("lint"), run("types", "skipped")]]
    server.statuses = [status("license/cla")]
    names = ("--wait-for-checks", "lint", "--wait-for-checks", "types", "--wait-for-checks", "license/cla")
    result = upload(cli, server, made, *names)
    assert result.code == 0, result.err
    assert cli.agent.keys() == {"unit"}
    assert "lint: green; types: green; license/cla: green" in result.err
    assert all(made.checkout.head in path for path in server.paths)
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, headers in server.requests)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("lint,types", ["lint", "types"]),
        ("build (3.11, cuda),lint", ["build (3.11, cuda)", "lint"]),
        ("test (3.11,cuda)", ["test (3.11,cuda)"]),
        ("Format, lint", ["Format, lint"]),
    ],
)
def test_a_comma_separates_checks_unless_it_belongs_to_a_name(
    server: GitHubServer, made: PullRequest, given: str, names: list[str]
) -> None:
    server.polls = [[run(name) for name in names]]
    assert waited(server, made, given).endswith("; ".join(f"{name}: green" for name in names))


def test_a_second_word_that_is_no_suite_is_told_how_checks_are_named(
    cli: Cli, server: GitHubServer, made: PullRequest
) -> None:
    result = upload(cli, server, made, *LINT, "types")
    assert result.code == 2
    assert "no suite is called 'types'" in result.err
    assert "--wait-for-checks takes one word, so write A,B or repeat it" in result.err
    assert "--wait-for-checks" not in upload(cli, server, made, "types").err


def test_pending_checks_are_waited_for_until_they_are_green(server: GitHubServer, made: PullRequest) -> None:
    server.polls = [[], [run("lint", None)], [run("lint")]]
    _, *told = waited(server, made).splitlines()
    assert server.asked == 3
    assert told == [
        "checks: lint: not there yet",
        "checks: lint: pending (in_progress)",
        "checks: lint: green",
    ]


def test_a_failed_check_stops_the_upload_with_its_link(
    cli: Cli, server: GitHubServer, made: PullRequest
) -> None:
    server.polls = [[run("lint", None)], [run("lint", "failure")]]
    result = upload(cli, server, made, *LINT)
    assert result.code == 1
    assert "the GitHub check 'lint' has failed (failure), so nothing was uploaded" in result.err
    assert f"see {LINK}/lint" in result.err
    assert cli.agent.uploads == []
    (body,) = cli.agent.annotations.values()
    assert body.startswith("error")
    assert "has failed" in body


@pytest.mark.parametrize(
    "polls", [[[run("lints")]], [[run("lint", None), run("lints")]]], ids=["absent", "pending"]
)
def test_a_check_that_is_not_green_in_time_is_worth_a_retry(
    cli: Cli, server: GitHubServer, made: PullRequest, polls: list[list[dict[str, object]]]
) -> None:
    server.polls = polls
    result = upload(cli, server, made, *LINT, BKGEN_CHECKS_TIMEOUT="0.002")
    assert result.code == 75
    assert "these GitHub checks are not green after 0.002 min: lint:" in result.err
    assert ("did you mean 'lints'?" in result.err) == (len(polls[0]) == 1)
    assert cli.agent.uploads == []


def test_a_failure_of_github_that_passes_is_borne(server: GitHubServer, made: PullRequest) -> None:
    server.first = [Answer(500), Answer(503)]
    server.polls = [[run("lint")]]
    told = waited(server, made)
    assert "fails (500)" in told
    assert told.endswith("checks: lint: green")


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer(500), 75, "fails (500)"),
        (
            Answer(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"}),
            75,
            "limits the rate",
        ),
        (Answer(401), 1, "renew GITHUB_TOKEN"),
        (Answer(404), 1, "knows no repository"),
    ],
    ids=["an outage", "a rate limit beyond the wait", "a bad token", "no such repository"],
)
def test_a_github_that_does_not_tell_ends_the_wait(
    server: GitHubServer, made: PullRequest, answer: Answer, code: int, words: str
) -> None:
    server.always = answer
    with pytest.raises(BkgenError) as caught:
        waited(server, made, BKGEN_CHECKS_INTERVAL="0.001")
    assert caught.value.exit_code == code
    assert words in str(caught.value)


def test_nothing_to_run_waits_for_nothing(cli: Cli, server: GitHubServer) -> None:
    docs_only = cli.pull_request({"docs/guide.md": "better\n"})
    result = upload(cli, server, docs_only, *LINT)
    assert result.code == 0, result.err
    assert "nothing is uploaded" in result.err
    assert server.requests == []


def test_a_dry_run_waits_for_nothing(cli: Cli, server: GitHubServer, made: PullRequest) -> None:
    assert upload(cli, server, made, *LINT, "--dry-run").code == 0
    assert server.requests == []


def test_a_commit_that_buildkite_calls_head_is_looked_up(
    server: GitHubServer, made: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.polls = [[run("lint")]]
    monkeypatch.chdir(made.checkout.path)
    waited(server, made, BUILDKITE_COMMIT="HEAD")
    assert server.paths
    assert all(made.checkout.head in path for path in server.paths)


@pytest.mark.parametrize(
    ("name", "more", "code", "words"),
    [
        (" ", {}, 2, "--wait-for-checks has an empty name"),
        ("buildkite/gpu", {}, 1, "it would wait for itself"),
        ("buildkite/gpu/pr", {}, 1, "it would wait for itself"),
        ("lint", {"BKGEN_CHECKS_TIMEOUT": "half an hour"}, 1, "give a number of minutes, for example 30"),
        ("lint", {"GITHUB_API_URL": "http://api.example.invalid"}, 1, "not sent over plain HTTP"),
    ],
    ids=["an empty name", "its own status", "its own status for pull requests", "an odd time", "plain HTTP"],
)
def test_what_cannot_be_waited_for_is_said_at_once(
    server: GitHubServer, made: PullRequest, name: str, more: dict[str, str], code: int, words: str
) -> None:
    with pytest.raises(BkgenError) as caught:
        waited(server, made, name, **more)
    assert caught.value.exit_code == code
    assert words in str(caught.value)
    assert server.requests == []


def test_without_a_token_the_log_says_so(server: GitHubServer, made: PullRequest) -> None:
    server.polls = [[run("lint")]]
    assert "no GITHUB_TOKEN is set" in waited(server, made, GITHUB_TOKEN="")
    assert "GITHUB_TOKEN" not in waited(server, made)


def test_a_cancelled_job_ends_the_wait(cli: Cli, server: GitHubServer, made: PullRequest) -> None:
    server.polls = [[run("lint", None)]]
    cli.agent.directory.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "bkgen", "upload", *LINT],
        cwd=made.checkout.path,
        env={
            **os.environ,
            **environ(server, made, BKGEN_CHECKS_INTERVAL="30", BKGEN_CHECKS_TIMEOUT="30"),
            "PATH": f"{FAKES}{os.pathsep}{os.environ['PATH']}",
            "FAKE_AGENT_DIR": str(cli.agent.directory),
        },
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while len(server.requests) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130, err.decode()
    assert b"Traceback" not in err
    assert cli.agent.uploads == []
