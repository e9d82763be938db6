"""GitHub's API: requests, refusals, and whom to ask with which token."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest

from bkgen.errors import UserError
from bkgen.github import GitHub, GitHubUnavailable
from githubserver import Answer, GitHubServer, run, serving, status

TOKEN = "ghp_secret0123456789"
COMMIT = "a" * 40
URL = "https://github.com/Octo/Widgets.git"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as github:
        yield github


def client(server: GitHubServer, **more: Any) -> GitHub:
    return GitHub(**{"api": server.url, "repository": "octo/widgets", "token": TOKEN, **more})


def test_a_commit_is_asked_for_with_the_token_in_one_header(server: GitHubServer) -> None:
    server.polls = [[run("lint")]]
    server.statuses = [status("build")]
    found = client(server).checks(COMMIT)
    assert {check.name for check in found} == {"lint", "build"}
    base = f"/repos/octo/widgets/commits/{COMMIT}"
    assert server.paths == [f"{base}/check-runs", f"{base}/status"]
    for path, headers in server.requests:
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert headers["accept"] == "application/vnd.github+json"
        assert TOKEN not in path


def test_without_a_token_there_is_no_header(server: GitHubServer) -> None:
    client(server, token=None).checks(COMMIT)
    assert all("authorization" not in headers for _, headers in server.requests)


def test_checks_beyond_the_first_page_are_found(server: GitHubServer) -> None:
    server.polls = [[run(f"job {number}") for number in range(250)]]
    server.statuses = [status(f"context {number}") for number in range(101)]
    names = {check.name for check in client(server).checks(COMMIT)}
    assert {"job 0", "job 249", "context 100"} <= names
    assert len(names) == 351
    assert len(server.requests) == 3 + 2


REFUSALS = {
    "401": (Answer(401, body={"message": "Bad credentials"}), "does not accept the token (401 Bad credentials)"),
    "403": (
        Answer(403, body={"message": "Resource not accessible by integration"}),
        "does not show the checks of octo/widgets",
    ),
    "404": (Answer(404, body={"message": "Not Found"}), "knows no repository octo/widgets"),
    "422": (Answer(422, body={"message": "No commit found"}), "has no such commit"),
    "400 without a word": (Answer(400, body=b"<html>"), "refuses the request (400)"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_for_the_user_to_mend(server: GitHubServer, answer: Answer, words: str) -> None:
    server.always = answer
    with pytest.raises(UserError) as caught:
        client(server).checks(COMMIT)
    (fault,) = caught.value.diagnostics
    assert words in fault.message
    assert fault.hint
    assert TOKEN not in str(caught.value)
    assert len(server.requests) == 1


def test_a_404_without_a_token_proposes_one(server: GitHubServer) -> None:
    server.always = Answer(404)
    with pytest.raises(UserError, match="set GITHUB_TOKEN"):
        client(server, token=None).checks(COMMIT)


def unavailable(now: float) -> dict[str, tuple[Answer, float | None]]:
    """Answers that may pass, and how many seconds after `now` they ask to be left alone."""
    return {
        "500": (Answer(500), None),
        "502 from a proxy": (Answer(502, body=b"<html>bad gateway</html>"), None),
        "503 that names a time": (Answer(503, {"Retry-After": "3"}), 3),
        "429": (Answer(429, {"Retry-After": "17"}), 17),
        "429 with a date": (Answer(429, {"Retry-After": formatdate(now + 3600, usegmt=True)}), 3600),
        "429 with an odd time": (Answer(429, {"Retry-After": "soon"}), 60),
        "403 with the limit used up": (
            Answer(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(now) + 900)}),
            900,
        ),
        "403 for a secondary limit": (
            Answer(403, body={"message": "You have exceeded a secondary rate limit"}),
            60,
        ),
        "an answer that is no JSON": (Answer(200, body=b"<html>"), None),
        "an answer that breaks off": (Answer(200, {"Content-Length": "999"}, body=b"{"), None),
        "another protocol": (Answer(200, {"Transfer-Encoding": "chunked"}, body=b"zebra"), None),
    }


@pytest.mark.parametrize("case", unavailable(0))
def test_what_may_pass_says_how_long_to_keep_still(server: GitHubServer, case: str) -> None:
    answer, seconds = unavailable(time.time())[case]
    server.always = answer
    with pytest.raises(GitHubUnavailable) as caught:
        client(server).checks(COMMIT)
    if seconds is None:
        assert caught.value.retry_after is None
    else:
        assert caught.value.retry_after == pytest.approx(seconds, abs=30)
    assert TOKEN not in str(caught.value)


# Headers that name a moment are made when the test runs: a long run would come too late for an earlier one.
MOMENTS = {
    "429 with a date": (429, lambda moment: {"Retry-After": formatdate(moment, usegmt=True)}),
    "403 with the limit used up": (
        403,
        lambda moment: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(moment))},
    ),
}


@pytest.mark.parametrize(("code", "headers"), MOMENTS.values(), ids=MOMENTS)
def test_a_moment_is_told_as_the_seconds_until_then(
    server: GitHubServer, code: int, headers: Callable[[float], dict[str, str]]
) -> None:
    server.always = Answer(code, headers(time.time() + 900))
    with pytest.raises(GitHubUnavailable) as caught:
        client(server).checks(COMMIT)
    assert caught.value.retry_after == pytest.approx(900, abs=30)


@pytest.mark.parametrize("answer", [Answer(hangs=True), Answer(trickles=True)], ids=["hangs", "trickles"])
def test_an_answer_that_does_not_come_or_does_not_end_is_given_up(
    server: GitHubServer, answer: Answer
) -> None:
    server.always = answer
    started = time.monotonic()
    with pytest.raises(GitHubUnavailable):
        client(server, request_seconds=0.2).checks(COMMIT)
    assert time.monotonic() - started < 10


def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        api = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(GitHubUnavailable, match="cannot be reached"):
            GitHub(api, "octo/widgets", TOKEN).checks(COMMIT)


def test_a_renamed_repository_is_followed_on_the_same_host(server: GitHubServer) -> None:
    server.polls = [[run("lint")]]
    there = f"{server.url}/repositories/1/commits/{COMMIT}/check-runs?per_page=100&page=1"
    server.first = [Answer(301, {"Location": there})]
    assert client(server).checks(COMMIT)[0].name == "lint"
    assert server.paths[1].startswith("/repositories/1/")
    assert server.requests[1][1]["authorization"] == f"Bearer {TOKEN}"


def test_a_redirect_to_another_host_is_not_followed_and_the_token_stays(server: GitHubServer) -> None:
    with serving() as stranger:
        server.always = Answer(302, {"Location": f"{stranger.url}/elsewhere"})
        with pytest.raises(UserError, match="not followed, because the token is not meant for others"):
            client(server).checks(COMMIT)
        assert stranger.requests == []


def test_a_redirect_in_a_circle_ends(server: GitHubServer) -> None:
    server.always = Answer(302, {"Location": f"{server.url}/again"})
    with pytest.raises(UserError, match="refuses the request"):
        client(server).checks(COMMIT)
    assert len(server.requests) < 20


# -- whom to ask ---------------------------------------------------------------------------------------------

ADDRESSES: dict[str, tuple[str | None, dict[str, str], str]] = {
    "https": (URL, {}, "https://api.github.com octo/widgets None"),
    "ssh": ("git@github.com:octo/widgets.git", {}, "https://api.github.com octo/widgets None"),
    "ssh over 443": ("ssh://git@ssh.github.com:443/octo/w.x", {}, "https://api.github.com octo/w.x None"),
    "a token": (URL, {"GITHUB_TOKEN": " t1\n"}, "https://api.github.com octo/widgets t1"),
    "bkgen's own token first": (
        URL,
        {"GITHUB_TOKEN": "t1", "BKGEN_GITHUB_TOKEN": "t2"},
        "https://api.github.com octo/widgets t2",
    ),
    "an enterprise's own": (
        "git@ghe.example.invalid:octo/widgets",
        {"GITHUB_API_URL": "https://ghe.example.invalid/api/v3/", "GITHUB_TOKEN": "t1"},
        "https://ghe.example.invalid/api/v3 octo/widgets t1",
    ),
    "plain HTTP on this machine": (
        URL,
        {"GITHUB_API_URL": "http://127.0.0.1:1", "GITHUB_TOKEN": "t1"},
        "http://127.0.0.1:1 octo/widgets t1",
    ),
}


@pytest.mark.parametrize(("url", "environ", "expected"), ADDRESSES.values(), ids=ADDRESSES)
def test_the_environment_says_whom_to_ask(url: str | None, environ: dict[str, str], expected: str) -> None:
    found = GitHub.from_environ(environ, url)
    assert f"{found.api} {found.repository} {found.token}" == expected
    assert "t1" not in repr(found)


BAD_ADDRESSES: dict[str, tuple[str | None, dict[str, str], str]] = {
    "no repository": (None, {}, "set BUILDKITE_REPO"),
    "a path": ("/srv/repo", {}, "no HOST/OWNER/NAME"),
    "another host": ("git@ghe.example.invalid:a/b", {"GITHUB_TOKEN": TOKEN}, "set GITHUB_API_URL"),
    "a name that is a path": ("https://github.com/a/..%2f..", {}, "no HOST/OWNER/NAME"),
    "plain HTTP": (
        URL,
        {"GITHUB_API_URL": "http://api.github.com", "GITHUB_TOKEN": TOKEN},
        "a token is not sent over plain HTTP",
    ),
    "a file": (URL, {"GITHUB_API_URL": "file:///etc/passwd"}, "must begin with https://"),
    "a password": (URL, {"GITHUB_API_URL": f"https://u:{TOKEN}@x.invalid"}, "more than a host and a path"),
    "no port": (URL, {"GITHUB_API_URL": "https://x.invalid:http"}, "no address"),
    "a token of two lines": (URL, {"GITHUB_TOKEN": f"{TOKEN}\r\nX: y"}, "is no token"),
}


@pytest.mark.parametrize(("url", "environ", "words"), BAD_ADDRESSES.values(), ids=BAD_ADDRESSES)
def test_an_environment_that_leads_nowhere_is_explained(
    url: str | None, environ: dict[str, str], words: str
) -> None:
    with pytest.raises(UserError) as caught:
        GitHub.from_environ(environ, url)
    assert words in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "hint:" in str(caught.value)
