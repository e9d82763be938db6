"""Requests to GitHub's API. The token comes from the environment and goes into one header, nowhere else."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from bkgen.changes import printable
from bkgen.errors import EnvironmentFailure, UserError
from bkgen.github.address import api_of, repository_of, token_of
from bkgen.github.checks import Check, check_runs, statuses
from bkgen.github.refusals import GitHubUnavailable, refusal

REQUEST_SECONDS = 30.0
PAGE = 100
MOST_PAGES = 50
_MOST_BYTES = 32 * 1024 * 1024
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "User-Agent": "bkgen",
    "X-GitHub-Api-Version": "2022-11-28",
}


@dataclass(frozen=True, slots=True)
class GitHub:
    """One repository on one GitHub. `repository` is `owner/name`; a public one needs no token."""

    api: str
    repository: str
    token: str | None = field(default=None, repr=False)
    request_seconds: float = REQUEST_SECONDS

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], repository: str | None) -> GitHub:
        """The repository with the URL `repository`, asked at `GITHUB_API_URL` with the token of
        `BKGEN_GITHUB_TOKEN` or `GITHUB_TOKEN`. UserError for a URL or token that cannot be used.
        """
        host, name = repository_of(repository)
        token = token_of(environ)
        return cls(api_of(environ, host, token), name, token)

    @property
    def host(self) -> str:
        """Who is asked, for messages."""
        return urlsplit(self.api).netloc

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
                    f"the answer of {self.host} has no list '{key}'", "is GITHUB_API_URL its API's address?"
                )
            yield from items
            seen += len(items)
            total = answer.get("total_count")
            if not items or seen >= (total if isinstance(total, int) else 0):
                return

    def _get(self, url: str) -> Any:
        authorisation = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        request = Request(url, headers={**_HEADERS, **authorisation})  # noqa: S310 - its scheme was checked
        try:
            with build_opener(_SameHost).open(request, timeout=self.request_seconds) as response:
                body = _read(response, self.request_seconds)
        except HTTPError as error:
            with error:
                raise refusal(error, self.host, self.repository, has_token=self.token is not None) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise GitHubUnavailable(f"{self.host} cannot be reached: {printable(str(reason))}") from None
        try:
            return json.loads(body)
        except ValueError:
            raise GitHubUnavailable(f"the answer of {self.host} is no JSON") from None


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
