"""GitHub's checks: how a name stands, and a wait that ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.errors import BkgenError, EnvironmentFailure, UserError
from bkgen.github import GitHub, Patience, standing, wait
from bkgen.github.checks import check_runs, statuses
from githubserver import LINK, Answer, GitHubServer, run, serving, status

COMMIT = "a" * 40


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as github:
        yield github


STANDINGS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "success": ([run("lint")], [], "lint: green"),
    "neutral": ([run("lint", "neutral")], [], "lint: green"),
    "skipped": ([run("lint", "skipped")], [], "lint: green"),
    "in progress": ([run("lint", None)], [], "lint: pending (in_progress)"),
    "queued": ([run("lint", None, status="queued")], [], "lint: pending (queued)"),
    "failure": ([run("lint", "failure")], [], "lint: failed (failure)"),
    "cancelled": ([run("lint", "cancelled")], [], "lint: failed (cancelled)"),
    "timed out": ([run("lint", "timed_out")], [], "lint: failed (timed_out)"),
    "action required": ([run("lint", "action_required")], [], "lint: failed (action_required)"),
    "a conclusion nobody knows yet": ([run("lint", "mauve")], [], "lint: failed (mauve)"),
    "completed without a conclusion": (
        [run("lint", None, status="completed")],
        [],
        "lint: failed (no conclusion)",
    ),
    "a commit status": ([], [status("lint")], "lint: green"),
    "a pending commit status": ([], [status("lint", "pending")], "lint: pending (pending)"),
    "a failed commit status": ([], [status("lint", "failure")], "lint: failed (failure)"),
    "a commit status in error": ([], [status("lint", "error")], "lint: failed (error)"),
    "both kinds, one pending": ([run("lint")], [status("lint", "pending")], "lint: pending (pending)"),
    "both kinds, one failed": ([run("lint", "failure")], [status("lint")], "lint: failed (failure)"),
    "run again and well": ([run("lint", "failure", id=1), run("lint", id=2)], [], "lint: green"),
    "run again, in whatever order": ([run("lint", id=2), run("lint", "failure", id=1)], [], "lint: green"),
    "run again and still running": (
        [run("lint", id=1), run("lint", None, id=2)],
        [],
        "lint: pending (in_progress)",
    ),
    "two apps, one failed": (
        [run("lint", id=2), run("lint", "failure", id=1, app={"slug": "other"})],
        [],
        "lint: failed (failure)",
    ),
    "no app": ([run("lint", app=None)], [], "lint: green"),
    "absent": ([run("build")], [], "lint: not there yet"),
    "absent, with a near name": ([run("lints")], [], "lint: not there yet (did you mean 'lints'?)"),
    "another case is another name": ([run("Lint")], [], "lint: not there yet (did you mean 'Lint'?)"),
}


@pytest.mark.parametrize(("runs", "states", "shown"), STANDINGS.values(), ids=STANDINGS)
def test_the_standing_of_a_check(runs: list[Any], states: list[Any], shown: str) -> None:
    assert str(standing("lint", [*check_runs(runs), *statuses(states)])) == shown


def test_the_name_on_the_page_of_a_pull_request_leads_to_the_name_of_the_check() -> None:
    found = standing("CI / lint (pull_request)", check_runs([run("lint"), run("CI / lint2")]))
    assert found.meant == "lint"


@pytest.mark.parametrize(
    "item",
    [None, [], {}, run("x", name=None), run("x", status=3), {"context": "x"}],
    ids=["null", "a list", "empty", "no name", "a status that is a number", "something else"],
)
def test_what_is_no_check_run_is_a_failure_of_the_environment(item: Any) -> None:
    with pytest.raises(EnvironmentFailure):
        check_runs([item])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["success", "failure", "cancelled", None]), st.integers(1, 5), st.booleans()
        ),
        min_size=1,
    )
)
def test_a_check_is_green_only_if_the_newest_run_of_every_source_is(found: list[Any]) -> None:
    runs = [run("lint", end, id=number, app={"slug": str(app)}) for end, number, app in found]
    unique = {(one["app"]["slug"], one["id"]): one for one in reversed(runs)}
    newest = {app: max(n for a, n in unique if a == app) for app, _ in unique}
    ends = {unique[app, number]["conclusion"] for app, number in newest.items()}
    assert (standing("lint", check_runs(runs)).state == "green") == (ends == {"success"})


# -- waiting -------------------------------------------------------------------------------------------------


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.sleeps.append(seconds)
        self.now += seconds


def waited(
    server: GitHubServer, *names: str, **patience: float
) -> tuple[Clock, list[str], BkgenError | None]:
    """The clock after the wait, what was said, and how it ended."""
    clock, said = Clock(), list[str]()
    github = GitHub(server.url, "octo/widgets")
    try:
        wait(
            lambda: github.checks(COMMIT),
            names,
            Patience(**patience),  # type: ignore[arg-type]
            said.append,
            sleep=clock.sleep,
            clock=clock,
        )
    except BkgenError as error:
        return clock, said, error
    return clock, said, None


def test_green_checks_are_not_waited_for(server: GitHubServer) -> None:
    server.polls = [[run("lint"), run("other", "failure")]]
    clock, said, error = waited(server, "lint")
    assert error is None
    assert clock.sleeps == []
    assert said == ["checks: lint: green"]


def test_pending_checks_are_asked_for_ever_more_slowly_and_told_when_they_change(
    server: GitHubServer,
) -> None:
    server.polls = [[]] * 3 + [[run("lint", None)]] * 6 + [[run("lint")]]
    clock, said, error = waited(server, "lint")
    assert error is None
    assert clock.sleeps == [10, 15, 22.5, 33.75, 50.625, 60, 60, 60, 60]
    assert said == [
        "checks: lint: not there yet",
        "checks: lint: pending (in_progress)",
        "checks: lint: green",
    ]


def test_a_failed_check_ends_the_wait_at_once_with_its_link(server: GitHubServer) -> None:
    server.polls = [[run("unit", None), run("lint", None)], [run("unit", None), run("lint", "failure")]]
    clock, _, error = waited(server, "unit", "lint")
    assert isinstance(error, UserError)
    (fault,) = error.diagnostics
    assert "'lint' has failed (failure), so nothing was uploaded" in fault.message
    assert f"{LINK}/lint" in fault.hint
    assert len(clock.sleeps) == 1


@pytest.mark.parametrize(
    ("polls", "words"),
    [
        ([[run("lints")]], "lint: not there yet (did you mean 'lints'?)"),
        ([[run("lint", None)]], "lint: pending (in_progress)"),
    ],
    ids=["never there", "never done"],
)
def test_the_wait_is_bounded_and_says_what_was_missing(
    server: GitHubServer, polls: list[list[Any]], words: str
) -> None:
    server.polls = polls
    clock, _, error = waited(server, "lint", total=120)
    assert isinstance(error, EnvironmentFailure)
    assert error.exit_code == 75
    assert "not green after 2 min" in str(error)
    assert words in str(error)
    assert clock.now - 100 == pytest.approx(120)


def test_no_time_at_all_asks_once(server: GitHubServer) -> None:
    server.polls = [[run("lint", None)]]
    clock, _, error = waited(server, "lint", total=0)
    assert isinstance(error, EnvironmentFailure)
    assert clock.sleeps == []
    assert server.asked == 1


def test_a_failure_that_passes_is_borne(server: GitHubServer) -> None:
    server.polls = [[run("lint")]]
    server.first = [Answer(500), Answer(200, body=b"<html>"), Answer(503, {"Retry-After": "44"})]
    clock, said, error = waited(server, "lint")
    assert error is None
    assert clock.sleeps == [10, 15, 44]
    assert "asked again in 44 s" in said[2]


def test_a_failure_that_does_not_pass_is_not_borne_for_ever(server: GitHubServer) -> None:
    server.always = Answer(500)
    clock, _, error = waited(server, "lint", failures=5)
    assert isinstance(error, EnvironmentFailure)
    assert len(server.requests) == 5
    assert len(clock.sleeps) == 4


def test_a_rate_limit_is_waited_out_to_its_end(server: GitHubServer) -> None:
    server.polls = [[run("lint")]]
    reset = str(int(time.time()) + 300)
    server.first = [Answer(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})]
    clock, said, error = waited(server, "lint")
    assert error is None
    assert clock.sleeps[0] == pytest.approx(300, abs=5)
    assert "limits the rate of requests" in said[0]


def test_a_rate_limit_that_outlasts_the_wait_is_not_waited_for(server: GitHubServer) -> None:
    server.always = Answer(429, {"Retry-After": "3600"})
    clock, _, error = waited(server, "lint")
    assert isinstance(error, EnvironmentFailure)
    assert "for 3600 s more" in str(error)
    assert clock.sleeps == []


@pytest.mark.parametrize("name", ["BKGEN_CHECKS_TIMEOUT", "BKGEN_CHECKS_INTERVAL"])
@pytest.mark.parametrize("value", ["soon", "-1", "1e3", "1,5"])
def test_an_odd_time_is_an_error(name: str, value: str) -> None:
    with pytest.raises(UserError, match=f"{name} is '{value}'"):
        Patience.from_environ({name: value})


def test_the_environment_sets_the_patience() -> None:
    assert Patience.from_environ({}) == Patience(total=1800, interval=10)
    found = Patience.from_environ({"BKGEN_CHECKS_TIMEOUT": "2.5", "BKGEN_CHECKS_INTERVAL": "90"})
    assert (found.total, found.interval, found.longest_interval) == (150, 90, 90)
