"""Stands in for GitHub's API: a real HTTP server on this machine that answers as it is told, and remembers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LINK = "https://example.invalid/checks"


def run(name: str, conclusion: str | None = "success", /, **more: Any) -> dict[str, Any]:
    """A check run as GitHub describes it; without a conclusion it is still in progress."""
    return {
        "id": 1,
        "name": name,
        "status": "completed" if conclusion else "in_progress",
        "conclusion": conclusion,
        "html_url": f"{LINK}/{name}",
        "details_url": "https://example.invalid/details",
        "app": {"slug": "github-actions"},
        **more,
    }


def status(context: str, state: str = "success", /, **more: Any) -> dict[str, Any]:
    """A commit status as GitHub describes it."""
    return {"id": 1, "context": context, "state": state, "target_url": f"{LINK}/{context}", **more}


@dataclass(frozen=True)
class Answer:
    """One answer out of the ordinary; `hangs` is one that never comes, `trickles` one that never ends."""

    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    hangs: bool = False
    trickles: bool = False


@dataclass
class GitHubServer:
    """What it answers, and what it was asked.

    `polls` are the check runs at the first, the second, … question; the last one stays. `first` are
    answers that come before all others, `always` one that comes for ever.
    """

    polls: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])
    statuses: list[dict[str, Any]] = field(default_factory=list)
    first: list[Answer] = field(default_factory=list)
    always: Answer | None = None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, without what follows the `?`."""
        return [urlsplit(path).path for path, _ in self.requests]

    def answer(self, path: str) -> Answer:
        """What comes back for `path`."""
        if self.first:
            return self.first.pop(0)
        if self.always is not None:
            return self.always
        query = parse_qs(urlsplit(path).query)
        page, size = int(query["page"][0]), int(query["per_page"][0])
        if urlsplit(path).path.endswith("/check-runs"):
            self.asked += page == 1
            key, items = "check_runs", self.polls[min(self.asked, len(self.polls)) - 1]
        else:
            key, items = "statuses", self.statuses
        shown = items[(page - 1) * size : page * size]
        return Answer(body={"total_count": len(items), key: shown})


class _Handler(BaseHTTPRequestHandler):
    github: GitHubServer

    def do_GET(self) -> None:
        self.github.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        answer = self.github.answer(self.path)
        if answer.hangs:
            self.github.released.wait(30)
            return
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.code)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if not answer.trickles:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        while answer.trickles and not self.github.released.wait(0.02):
            self.wfile.write(b" ")

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True  # the client has given up, as it should

    def log_message(self, *_arguments: object) -> None:
        """Standard error is the product's here."""


@contextmanager
def serving() -> Iterator[GitHubServer]:
    """A server at `url` until the block ends."""
    github = GitHubServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"github": github}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    github.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield github
    finally:
        github.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
