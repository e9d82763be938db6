"""Failures after which the agent itself tries again, seconds later; all of them run side by side."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conformance.conftest import Site, make_site
from conformance.loopback import AgentApi, Answer, Loopback

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

FOR_EVER = 99


@dataclass(frozen=True)
class Case:
    """What fails, and how bkgen's one run must end.

    `requests` is how often the failing kind is asked for; None where that depends on the machine's speed.
    """

    kind: str
    answers: tuple[Answer, ...]
    status: int = 0
    requests: int | None = 2
    uploads: int = 1
    says: str = ""
    variables: dict[str, str] = field(default_factory=dict)


SOON = {"BKGEN_AGENT_TIMEOUT": "9"}
CASES = {
    "429 and then success": Case("upload", (Answer(429, "slow down"),), says="429 Too Many Requests"),
    "503 and then success": Case("upload", (Answer(503, "away"),), says="503 Service Unavailable"),
    "a reset and then success": Case("upload", (Answer(reset=True),), says="connection reset by peer"),
    "a reset after the pipeline was applied": Case("upload", (Answer(reset=True, after=True),)),
    "503 while polling and then success": Case("status", (Answer(503, "away"),)),
    "503 for an annotation and then success": Case("annotate", (Answer(503, "away"),)),
    "503 for a record and then success": Case("set", (Answer(503, "away"),), requests=3),
    "a reset for the earlier record and then success": Case("get", (Answer(reset=True),)),
    "503 until time is over": Case(
        "upload", (Answer(503, "away"),) * FOR_EVER, 75, None, 0, "not done after 9 seconds", SOON
    ),
    "resets until time is over": Case(
        "upload", (Answer(reset=True),) * FOR_EVER, 75, None, 0, "not done after 9 seconds", SOON
    ),
}

Run = tuple[Site, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def runs(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """Each case's site and how its `bkgen upload` ended."""
    with ExitStack() as servers, ThreadPoolExecutor(len(CASES)) as pool:
        sites = {}
        for name, case in CASES.items():
            api = servers.enter_context(Loopback(AgentApi()))
            api.fail(case.kind, *case.answers)
            sites[name] = make_site(tmp_path_factory.mktemp("slow"), program, api)
        ends = {
            name: pool.submit(sites[name].bkgen, "upload", **case.variables) for name, case in CASES.items()
        }
        yield {name: (sites[name], end.result()) for name, end in ends.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_agents_own_retries_lose_and_double_nothing(runs: dict[str, Run], name: str) -> None:
    case, (site, end) = CASES[name], runs[name]
    assert end.returncode == case.status, end.stderr
    assert case.says in end.stderr
    assert case.requests in {None, len(site.api.seen(case.kind))}
    assert len(site.api.uploads) == case.uploads
    assert sorted(site.api.keys) == ["one", "two"] * case.uploads
    assert len({request.body["uuid"] for request in site.api.seen("upload")}) == 1
    assert (site.api.annotations["bkgen"]["style"] == "error") == (case.status != 0)
