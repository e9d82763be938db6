"""What an HTTP error of GitHub's API means: worth another try, or the user's to mend."""

from __future__ import annotations

import http.client
import json
import re
import time
from email.message import Message
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError

from bkgen.changes import printable
from bkgen.errors import BkgenError, EnvironmentFailure, UserError

UNTOLD_LIMIT_SECONDS = 60.0
"""How long to keep still after a rate limit that names no time. Source: GitHub's best practices."""


class GitHubUnavailable(EnvironmentFailure):
    """GitHub cannot answer now. `retry_after`: the seconds it asks to be left alone, or None."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, "retry this step")


def refusal(error: HTTPError, host: str, repository: str, *, has_token: bool) -> BkgenError:
    """The error to raise for an answer of `host` that is not 200."""
    said = _message(error)
    words = f"{error.code} {said}".strip()
    if _is_rate_limit(error, said):
        wait = asked_to_wait(error.headers, time.time())
        wait = UNTOLD_LIMIT_SECONDS if wait is None else wait
        return GitHubUnavailable(f"{host} limits the rate of requests ({words}), for {wait:.0f} s more", wait)
    if error.code >= 500 or error.code == 408:
        return GitHubUnavailable(f"{host} fails ({words})", asked_to_wait(error.headers, time.time()))
    code, message, hint = _explained(error.code, host, repository, has_token=has_token)
    return UserError.single(code, f"{message} ({words})", hint)


def _explained(status: int, host: str, repository: str, *, has_token: bool) -> tuple[str, str, str]:
    rights = "a token that may read its checks and commit statuses"
    if status == 401:
        message = f"{host} does not accept the token"
        return "github-token", message, "renew GITHUB_TOKEN (or BKGEN_GITHUB_TOKEN)"
    if status == 403:
        message = f"{host} does not show the checks of {repository}"
        return "github-forbidden", message, f"give GITHUB_TOKEN {rights}"
    if status == 404:
        hint = f"a private repository needs {rights}: set GITHUB_TOKEN"
        if has_token:
            hint = f"is the name right? a private repository needs {rights}"
        return "github-not-found", f"{host} knows no repository {repository}", hint
    if status == 422:
        hint = "push the commit, or set GITHUB_API_URL if the repository is elsewhere"
        return "github-commit", f"{repository} has no such commit on {host}", hint
    return "github-refused", f"{host} refuses the request", "is GITHUB_API_URL right?"


def _message(error: HTTPError) -> str:
    try:
        found = json.loads(error.read(65536))
    except (ValueError, OSError, http.client.HTTPException):
        return ""
    said = found.get("message") if isinstance(found, dict) else None
    return printable(said[:200]) if isinstance(said, str) else ""


def _is_rate_limit(error: HTTPError, said: str) -> bool:
    if error.code == 429:
        return True
    exhausted = error.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in error.headers
    return error.code == 403 and (exhausted or "rate limit" in said.casefold())


def asked_to_wait(headers: Message, now: float) -> float | None:
    """Seconds from `now` (seconds since 1970) that GitHub asks to be left alone; None where it does not."""
    after = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", after):
        return float(after)
    if after:
        try:
            return max(0.0, parsedate_to_datetime(after).timestamp() - now)
        except ValueError:
            return None
    reset = headers.get("x-ratelimit-reset", "").strip()
    if headers.get("x-ratelimit-remaining") == "0" and re.fullmatch(r"[0-9]{1,12}", reset):
        # One second more: the limit is lifted during the second it names.
        return max(0.0, float(reset) + 1 - now)
    return None
