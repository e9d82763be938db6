"""One build behind an Agent API on 127.0.0.1, as far as the agent needs it; answers can be made to fail.

The protocol was read in the source of buildkite-agent 3.104.0 and 3.138.1: a pipeline is posted to
`jobs/JOB/pipelines?async=true` and answered with 202 and a Location to poll, or with 200; the same UUID
is the same upload, however often it is sent.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

JOB = "0190046e-e199-453b-a302-a21a4d649d31"
TOKEN = "access-token-of-the-loopback-build"


@dataclass(frozen=True)
class Answer:
    """What the server does instead of the ordinary.

    `status` with `message` is an error; without one, `hang` keeps the connection open and silent,
    `reset` breaks it. With `after` the request takes effect first, and only the answer is lost.
    """

    status: int = 0
    message: str = ""
    hang: bool = False
    reset: bool = False
    after: bool = False


ORDINARY = Answer(after=True)


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    kind: str
    path: str
    body: Any
    attempt: str | None


@dataclass
class AgentApi:
    """The state of one build and the script of its failures.

    `answers[kind]` is used up in order, then everything is ordinary. Kinds: upload, status, annotate,
    get, set, step. `states` are reported by the status route before the true outcome.
    """

    asynchronous: bool = True
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    states: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    uploads: list[dict[str, Any]] = field(default_factory=list)
    meta_data: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    endpoint: str = ""
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, kind: str, *answers: Answer) -> None:
        """Let the next requests of this kind be answered so."""
        with self.lock:
            self.answers[kind] += answers

    def heal(self) -> None:
        """Drop the failures that have not been used."""
        with self.lock:
            self.answers.clear()

    def seen(self, kind: str) -> list[Request]:
        """The requests of one kind so far."""
        with self.lock:
            return [request for request in self.requests if request.kind == kind]

    @property
    def keys(self) -> list[str]:
        """The step keys that the build has, in upload order."""
        return [key for pipeline in self.uploads for key in step_keys(pipeline["steps"])]

    def environ(self) -> dict[str, str]:
        """What tells an agent where this build is and which job is calling."""
        return {
            "BUILDKITE_AGENT_ENDPOINT": self.endpoint,
            "BUILDKITE_AGENT_ACCESS_TOKEN": TOKEN,
            "BUILDKITE_JOB_ID": JOB,
        }

    def next_answer(self, kind: str) -> Answer | None:
        return self.answers[kind].pop(0) if self.answers[kind] else None

    def apply(self, uuid: str, pipeline: dict[str, Any]) -> str:
        """The reason of a refusal, or nothing; a UUID that was seen before changes nothing."""
        if uuid not in self.outcomes:
            new = list(step_keys(pipeline["steps"]))
            taken = [key for index, key in enumerate(new) if key in self.keys or key in new[:index]]
            self.outcomes[uuid] = (
                f'The key "{taken[0]}" has already been used by another step in this build' if taken else ""
            )
            if not taken:
                self.uploads.append(pipeline)
        return self.outcomes[uuid]


def step_keys(steps: list[Any]) -> Iterator[str]:
    """Every key of these steps and of the steps in their groups."""
    return (step["key"] for step in steps_in(steps) if "key" in step)


def steps_in(steps: list[Any]) -> Iterator[dict[str, Any]]:
    """These steps and those in their groups."""
    for step in steps:
        if isinstance(step, dict):
            yield step
            yield from steps_in(step.get("steps") or [])


class Loopback:
    """The server: start it with `with`, stop it by leaving the block."""

    def __init__(self, api: AgentApi) -> None:
        self._api = api

        class Handler(_Handler):
            build = api

        # Port 0: the kernel gives one that is free.
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> AgentApi:
        host, port = self._server.server_address[:2]
        self._api.endpoint = f"http://{host!s}:{port}/v3"
        self._thread.start()
        return self._api

    def __exit__(self, *_error: object) -> None:
        self._api.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


_ROUTES = (
    ("upload", re.compile(r"/v3/jobs/([^/]+)/pipelines")),
    ("status", re.compile(r"/v3/jobs/([^/]+)/pipelines/([^/]+)")),
    ("annotate", re.compile(r"/v3/jobs/([^/]+)/annotations")),
    ("get", re.compile(r"/v3/jobs/([^/]+)/data/get")),
    ("set", re.compile(r"/v3/jobs/([^/]+)/data/set")),
    ("step", re.compile(r"/v3/steps/([^/]+)/export")),
)


class _Handler(BaseHTTPRequestHandler):
    build: AgentApi

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        self._answer(json.loads(self.rfile.read(size) or b"null"))

    def log_message(self, *_arguments: object) -> None:
        """Silence: the requests are kept, and the test's output is for failures."""

    def _answer(self, body: Any) -> None:
        path = urlsplit(self.path).path
        matches = ((kind, route.fullmatch(path)) for kind, route in _ROUTES)
        kind, found = next(((kind, match) for kind, match in matches if match), ("", None))
        if found is None:
            self._send(404, {"message": f"no route {path}"})
            return
        strange = kind != "step" and unquote(found[1]) != JOB
        if self.headers.get("Authorization") != f"Token {TOKEN}" or strange:
            self._send(401, {"message": "unknown token or job"})
            return
        with self.build.lock:
            attempt = self.headers.get("X-Buildkite-Backoff-Sequence")
            self.build.requests.append(Request(kind, path, body, attempt))
            scripted = self.build.next_answer(kind)
            if scripted is not None and not scripted.after:
                reply: tuple[int, Any, dict[str, str]] = (scripted.status, {"message": scripted.message}, {})
            else:
                reply = getattr(self, f"_{kind}")(body, found)
        if scripted is not None and scripted.hang:
            self.build.closing.wait(60)
        elif scripted is not None and scripted.reset:
            self._reset()
        else:
            self._send(*reply)

    def _upload(self, body: Any, found: re.Match[str]) -> tuple[int, Any, dict[str, str]]:
        refusal = self.build.apply(body["uuid"], body["pipeline"])
        if self.build.asynchronous:
            place = f"{self.build.endpoint}/jobs/{found[1]}/pipelines/{body['uuid']}"
            return 202, {}, {"Location": place, "Retry-After": "0"}
        return (422, {"message": refusal}, {}) if refusal else (200, {}, {})

    def _status(self, _body: Any, found: re.Match[str]) -> tuple[int, Any, dict[str, str]]:
        refusal = self.build.outcomes[found[2]]
        state = "rejected" if refusal else "applied"
        if self.build.states:
            state = self.build.states.pop(0)
        return 200, {"state": state, "message": refusal}, {"Retry-After": "0"}

    def _annotate(self, body: Any, _found: re.Match[str]) -> tuple[int, Any, dict[str, str]]:
        self.build.annotations[body.get("context", "default")] = body
        return 201, {}, {}

    def _get(self, body: Any, _found: re.Match[str]) -> tuple[int, Any, dict[str, str]]:
        if body["key"] not in self.build.meta_data:
            return 404, {"message": f"No key {body['key']} found"}, {}
        return 200, {"key": body["key"], "value": self.build.meta_data[body["key"]]}, {}

    def _set(self, body: Any, _found: re.Match[str]) -> tuple[int, Any, dict[str, str]]:
        self.build.meta_data[body["key"]] = body["value"]
        return 200, {}, {}

    def _step(self, body: Any, found: re.Match[str]) -> tuple[int, Any, dict[str, str]]:
        key = unquote(found[1])
        for pipeline in self.build.uploads:
            for step in steps_in(pipeline["steps"]):
                if step.get("key") == key:
                    return 200, {"output": str(step.get(body["attribute"], ""))}, {}
        return 404, {"message": f"No step {key} found"}, {}

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _reset(self) -> None:
        # Lingering for no time makes the kernel send RST in place of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        os.close(self.connection.detach())
