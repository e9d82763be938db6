"""The real agents, a build behind a loopback API, and a repository in which bkgen runs for real."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.loopback import AgentApi, Loopback

ROOT = Path(__file__).parents[2]
NOT_BUILT = "no real buildkite-agent here; `./dev conformance` builds it (needs Go) and runs these tests"
SUITES = ("one", "two")


def pinned_version(go_mod: Path) -> str:
    """The version of the agent that a go.mod asks for."""
    found = re.search(r"github\.com/buildkite/agent/v3 v([\d.]+)", go_mod.read_text())
    assert found, f"{go_mod} pins no agent"
    return found[1]


def real_agents() -> dict[str, Path]:
    """What to test against, by name: BUILDKITE_AGENT, else the pinned ones, else one on the path."""
    named = os.environ.get("BUILDKITE_AGENT")
    if named:
        return {"BUILDKITE_AGENT": Path(named)}
    pins = sorted((ROOT / "tests/conformance/agents").glob("*/go.mod"))
    pinned = {
        version: ROOT / ".cache/agents" / version / "buildkite-agent" for version in map(pinned_version, pins)
    }
    on_path = shutil.which("buildkite-agent")
    if on_path and not any(path.exists() for path in pinned.values()):
        return {"on-the-path": Path(on_path)}
    return pinned


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that takes `program` runs against every agent."""
    if "program" in metafunc.fixturenames:
        agents = real_agents()
        metafunc.parametrize("program", agents.values(), ids=agents.keys(), indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without any agent one of these tests stands for all: one skip that says what to do, not hundreds."""
    if any(path.exists() for path in real_agents().values()):
        return
    absent = sorted(
        (item for item in items if "program" in getattr(item, "fixturenames", ())),
        key=lambda item: item.nodeid,
    )
    gone = {id(item) for item in absent[1:]}
    items[:] = [item for item in items if id(item) not in gone]
    config.hook.pytest_deselected(items=absent[1:])


@pytest.fixture(scope="session")
def program(request: pytest.FixtureRequest) -> Path:
    """The real agent of this version, or a skip that says how to get it."""
    path: Path = request.param
    if not path.exists():
        pytest.skip(NOT_BUILT)
    return path


@pytest.fixture
def api() -> Iterator[AgentApi]:
    """A build of its own for the test, on a port of its own."""
    with Loopback(AgentApi()) as build:
        yield build


@dataclass(frozen=True)
class Site:
    """A repository with the suites `one` and `two`, inside a job of the loopback build."""

    root: Path
    scratch: Path
    program: Path
    api: AgentApi

    def environ(self, **variables: str) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.scratch.parent),
            "TMPDIR": str(self.scratch),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "BUILDKITE": "true",
            "BUILDKITE_BUILD_ID": "build-1",
            "BUILDKITE_SOURCE": "ui",
            "BUILDKITE_BRANCH": "main",
            "BUILDKITE_COMMIT": "HEAD",
            "BUILDKITE_PULL_REQUEST": "false",
            "BUILDKITE_AGENT": str(self.program),
            **self.api.environ(),
            **variables,
        }

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """`bkgen ARGUMENTS` in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "bkgen", *arguments],
            cwd=self.root,
            env=self.environ(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def bkgen(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`bkgen ARGUMENTS` to its end; whatever happens, it leaves no temporary file."""
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        assert list(self.scratch.iterdir()) == [], "a temporary file was left behind"
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def write(self, path: str, text: str | bytes) -> None:
        """A file of the repository."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())


def make_site(directory: Path, program: Path, api: AgentApi) -> Site:
    """The repository, committed, and an empty directory for temporary files."""
    site = Site(directory / "repository", directory / "tmp", program, api)
    site.scratch.mkdir(parents=True)
    for name in SUITES:
        site.write(f"k3_tests/{name}/run.sh", "#!/usr/bin/env bash\nset -euo pipefail\necho ran\n")
        (site.root / f"k3_tests/{name}/run.sh").chmod(0o755)
        site.write(
            f"k3_tests/{name}/pipeline.yml", f"steps:\n  - label: '{name} 🚀'\n    command: ./run.sh $HOME\n"
        )
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", *command],
            cwd=site.root,
            check=True,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        )
    return site


@pytest.fixture
def site(tmp_path: Path, program: Path, api: AgentApi) -> Site:
    """The repository for one test."""
    return make_site(tmp_path, program, api)
