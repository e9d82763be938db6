"""Requests to GitHub's API. The token comes from the environment and goes into one header, nowhere else."""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from bkgen.build import normalise_repository
from bkgen.changes import printable
from bkgen.errors import BkgenError, EnvironmentFailure, UserError
from bkgen.github.checks import Check, check_runs, statuses

DEFAULT_API = "https://api.github.com"
REQUEST_SECONDS = 30.0
PAGE = 100
MOST_PAGES = 50
_MOST_BYTES = 32 * 1024 * 1024
_HOSTS = frozenset({"github.com", "www.github.com", "ssh.github.com"})
_UNTOLD_LIMIT_SECONDS = 60.0
"""How long to keep still after a rate limit that names no time. Source: GitHub's best practices."""


class GitHubUnavailable(EnvironmentFailure):
    """GitHub cannot answer now. `retry_after`: the seconds it asks to be left alone, None where it does not."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, "retry this step")


@dataclass(frozen=True, slots=True)
class GitHub:
    """One repository on one GitHub. `repository` is `owner/name`; a public one needs no token."""

    api: str
    repository: str
    token: str | None = field(default=None, repr=False)
    request_seconds: float = REQUEST_SECONDS

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], repository: str | None) -> GitHub:
        """The repository of the URL `repository`, asked by `GITHUB_API_URL` with the token of
        `BKGEN_GITHUB_TOKEN` or `GITHUB_TOKEN`. UserError for a URL or token that cannot be used.
        """
        host, name = _named(repository)
        token = _token(environ)
        api = environ.get("GITHUB_API_URL", "").strip().rstrip("/")
        if not api and host not in _HOSTS:
            # A token for one's own GitHub is not shown to the public one.
            raise UserError.single(
                "github-api-unknown",
                f"the repository is on {printable(host)}, and GITHUB_API_URL does not say where its API is",
                f"set GITHUB_API_URL, for GitHub Enterprise to https://{printable(host)}/api/v3",
            )
        return cls(_checked(api or DEFAULT_API, token), name, token)

    def checks(self, commit: str) -> tuple[Check, ...]:
        """All check runs and commit statuses of `commit`.

        Raises GitHubUnavailable where a later try may help, UserError for what the user must mend.
        """
        base = f"{self.api}/repos/{quote(self.repository)}/commits/{quote(commit, safe='')}"
        runs = check_runs(self._items(f"{base}/check-runs?filter=latest&", "check_runs"))
        return (*runs, *statuses(self._items(f"{base}/status?", "statuses")))

    def _items(self, url: str, key: str) -> Iterator[Any]:
        seen = 0
        for page in range(1, MOST_PAGES + 1):
            answer = self._get(f"{url}per_page={PAGE}&page={page}")
            items = answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(items, list):
                raise EnvironmentFailure(
                    f"GitHub's answer has no list '{key}'", "is GITHUB_API_URL the address of its API?"
                )
            yield from items
            seen += len(items)
            total = answer.get("total_count")
            if not items or seen >= (total if isinstance(total, int) else 0):
                return

    def _get(self, url: str) -> Any:
        headers = {
            "Accept": "application/vnd.github+json",
            "User-Agent": "bkgen",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = Request(url, headers=headers)  # noqa: S310 - the scheme is checked where the address is read
        try:
            with _opener().open(request, timeout=self.request_seconds) as response:
                body = _read(response, self.request_seconds)
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise GitHubUnavailable(f"{self._host} cannot be reached: {printable(str(reason))}") from None
        try:
            return json.loads(body)
        except ValueError:
            raise GitHubUnavailable(f"{self._host} answered with something that is no JSON") from None

    @property
    def _host(self) -> str:
        return urlsplit(self.api).netloc

    def _refusal(self, error: HTTPError) -> BkgenError:
        said = _message(error)
        words = f"{error.code} {said}".strip()
        if _is_rate_limit(error, said):
            wait = _asked_to_wait(error.headers, time.time())
            wait = _UNTOLD_LIMIT_SECONDS if wait is None else wait
            return GitHubUnavailable(
                f"{self._host} limits the rate of requests ({words}), for {wait:.0f} s more", wait
            )
        if error.code >= 500 or error.code == 408:
            wait = _asked_to_wait(error.headers, time.time())
            return GitHubUnavailable(f"{self._host} fails ({words})", wait)
        code, message, hint = self._explained(error.code)
        return UserError.single(code, f"{message} ({words})", hint)

    def _explained(self, status: int) -> tuple[str, str, str]:
        rights = "a token that may read its checks and commit statuses"
        if status == 401:
            return (
                "github-token",
                f"{self._host} does not accept the token",
                "renew GITHUB_TOKEN (or BKGEN_GITHUB_TOKEN)",
            )
        if status == 403:
            return (
                "github-forbidden",
                f"{self._host} does not show the checks of {self.repository}",
                f"give GITHUB_TOKEN {rights}",
            )
        if status == 404:
            hint = (
                f"a private repository needs {rights}: set GITHUB_TOKEN"
                if self.token is None
                else f"is the name right? if it is private, GITHUB_TOKEN must hold {rights}"
            )
            return "github-not-found", f"{self._host} knows no repository {self.repository}", hint
        if status == 422:
            return (
                "github-commit",
                f"{self.repository} has no such commit on {self._host}",
                "push the commit, or set GITHUB_API_URL if the repository is elsewhere",
            )
        return "github-refused", f"{self._host} refuses the request", "is GITHUB_API_URL right?"


class _SameHost(HTTPRedirectHandler):
    """Follows a renamed repository, and never carries the token to another host."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """The request to follow. UserError where it would leave the host or drop to plain HTTP."""
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise UserError.single(
                "github-redirect",
                f"{here.netloc} sends the request on to {printable(f'{there.scheme}://{there.netloc}')}; "
                "it was not followed, because the token is not meant for others",
                "set GITHUB_API_URL to the address of the API",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> OpenerDirector:
    return build_opener(_SameHost)


def _read(response: http.client.HTTPResponse, seconds: float) -> bytes:
    # The socket's own limit is for one packet; an answer that trickles would never reach it.
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    size = 0
    while part := response.read1(65536):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise OSError("the answer does not end")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer is too slow")
    return b"".join(parts)


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
    headers = error.headers
    exhausted = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    return error.code == 403 and (exhausted or "rate limit" in said.casefold())


def _asked_to_wait(headers: Message, now: float) -> float | None:
    """Seconds from `now` (seconds since 1970) that GitHub asks to be left alone."""
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


def _named(repository: str | None) -> tuple[str, str]:
    if not repository:
        raise UserError.single(
            "github-repository",
            "BUILDKITE_REPO does not say which repository's checks to ask for",
            "run this in a Buildkite job, or set BUILDKITE_REPO to the repository's URL",
        )
    parts = normalise_repository(repository).split("/")
    if len(parts) < 3 or not all(re.fullmatch(r"[A-Za-z0-9_.-]+", part) for part in parts[-2:]):
        raise UserError.single(
            "github-repository",
            f"BUILDKITE_REPO is '{printable('/'.join(parts))}', which is no HOST/OWNER/NAME",
            "set it to the repository's URL on GitHub",
        )
    return parts[0], "/".join(parts[-2:])


def _token(environ: Mapping[str, str]) -> str | None:
    for name in ("BKGEN_GITHUB_TOKEN", "GITHUB_TOKEN"):
        token = environ.get(name, "").strip()
        if token and not re.fullmatch(r"[!-~]+", token):
            raise UserError.single(
                "github-token",
                f"{name} holds blanks or odd characters in its middle, so it is no token",
                "set it to the token alone",
            )
        if token:
            return token
    return None


def _checked(api: str, token: str | None) -> str:
    parts = urlsplit(api)
    plain_is_safe = token is None or _is_loopback(parts.hostname or "")
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        problem = "it is no address such as https://api.github.com"
    elif parts.scheme == "http" and not plain_is_safe:
        problem = "a token is not sent over plain HTTP"
    elif parts.scheme not in {"http", "https"}:
        problem = "it must begin with https://"
    else:
        return api
    raise UserError.single(
        "github-api-url",
        f"GITHUB_API_URL cannot be used: {problem}",
        "set it to the API's address, such as https://api.github.com",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
