"""bkgen's command line in a test: a real repository, the stand-in agent, and what came out."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bkgen.cli.entry import run
from gitrepo import Checkout, Content, Program, PullRequest, clone, repository

FAKES = Path(__file__).with_name("fakes")
RUN = Program("#!/usr/bin/env bash\nset -euo pipefail\necho run\n")
SETTINGS = """\
version: 1
policy:
  labels: {mp: multiprocess}
profiles:
  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8, image: "example/ci:1"}
"""


def suite(name: str, pipeline: str, directory: str = "k3_tests") -> dict[str, Content]:
    """The files of one suite."""
    return {f"{directory}/{name}/pipeline.yml": pipeline, f"{directory}/{name}/run.sh": RUN}


def unit_pipeline(paths: str = "") -> str:
    """A suite of one GPU step, for the paths given (a YAML list without brackets)."""
    when = f"when: {{paths: [{paths}]}}\n" if paths else ""
    memory = "memory: {request: 8Gi, limit: 16Gi}"
    return f"{when}pod: {{gpus: 1, {memory}, shm: 1Gi}}\nsteps:\n- {{label: it, command: ./run.sh, expected_minutes: 10}}\n"


THREE: dict[str, Content] = {
    "bkgen.yml": SETTINGS,
    "README.md": "read me\n",
    "docs/guide.md": "guide\n",
    "src/core.py": "core = 1\n",
    "lib/other.py": "other = 1\n",
    ".buildkite/pipeline.yml": "steps: []\n",
    **suite("alpha", unit_pipeline("src/**")),
    **suite("beta", unit_pipeline("lib/**")),
    **suite("gamma", unit_pipeline()),
}
"""A repository of three suites: one for src, one for lib, one for everything."""


@dataclass(frozen=True)
class Result:
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class FakeAgent:
    """What the stand-in agent saw."""

    directory: Path

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Every call, in order."""
        path = self.directory / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def uploads(self) -> list[dict[str, Any]]:
        """Every document that was taken."""
        return [json.loads(path.read_text()) for path in sorted((self.directory / "uploads").glob("*"))]

    @property
    def annotations(self) -> dict[str, str]:
        """Style and body by context."""
        return {path.name: path.read_text() for path in sorted((self.directory / "annotations").glob("*"))}

    def keys(self) -> set[str]:
        """The keys of everything that went up."""
        steps = [step for document in self.uploads for step in document["steps"]]
        return {inner["key"] for step in steps for inner in [step, *step.get("steps", [])]}


class Cli:
    """Runs `bkgen …` in this process."""

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.tmp_path = tmp_path
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        self.agent = FakeAgent(tmp_path / "agent")

    def run(
        self, directory: Path, *arguments: str, environ: Mapping[str, str] | None = None, agent: bool = True
    ) -> Result:
        """One command in `directory`, with `environ` added."""
        with self._monkeypatch.context() as patch, restored_signals():
            patch.chdir(directory)
            if agent:
                self.agent.directory.mkdir(exist_ok=True)
                patch.setenv("FAKE_AGENT_DIR", str(self.agent.directory))
                patch.setenv("PATH", f"{FAKES}{os.pathsep}{os.environ['PATH']}")
            for name, value in (environ or {}).items():
                patch.setenv(name, value)
            self._capfd.readouterr()
            code = run(list(arguments))
            out, err = self._capfd.readouterr()
        return Result(code, out, err)

    def files(self, files: Mapping[str, Content], name: str = "repo") -> Checkout:
        """A repository of one commit with these files."""
        return repository(self.tmp_path / name, files=files)

    def pull_request(
        self, change: Mapping[str, Content], files: Mapping[str, Content] = THREE
    ) -> PullRequest:
        """A pull request against main that makes `change` to `files`; main has gone on since."""
        upstream = repository(self.tmp_path / "upstream", files=files)
        upstream.branch("feature")
        upstream.commit(change)
        upstream.switch("main")
        upstream.commit({"lib/other.py": "other = 2\n"})
        return PullRequest(upstream, clone(upstream, self.tmp_path / "checkout", revision="feature"), "main")


@contextmanager
def restored_signals() -> Iterator[None]:
    """Undo what a command does to the handlers of this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def pull_request_environ(made: PullRequest, *, labels: Sequence[str] = (), **more: str) -> dict[str, str]:
    """What Buildkite tells about this pull request."""
    return {
        "BUILDKITE": "true",
        "BUILDKITE_BUILD_ID": "b-1",
        "BUILDKITE_JOB_ID": "j-1",
        "BUILDKITE_AGENT_ACCESS_TOKEN": "a-token",
        "BUILDKITE_SOURCE": "webhook",
        "BUILDKITE_BRANCH": "feature",
        "BUILDKITE_COMMIT": made.checkout.head,
        "BUILDKITE_PULL_REQUEST": "7",
        "BUILDKITE_PULL_REQUEST_BASE_BRANCH": made.base,
        "BUILDKITE_PULL_REQUEST_LABELS": ",".join(labels),
        "BUILDKITE_REPO": made.upstream.url,
        "BUILDKITE_PULL_REQUEST_REPO": made.upstream.url,
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        **more,
    }
