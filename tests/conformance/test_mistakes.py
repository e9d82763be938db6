"""Mistakes that the real agent takes, or half takes, and what bkgen makes of each before any upload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bkgen.agent import Agent, UploadRefusedError
from bkgen.agent.child import run
from bkgen.agent.outcome import call_failure
from bkgen.errors import UserError
from bkgen.pipeline.encode import encode
from conformance.agentcalls import STRICT, dry_run, read_back
from conformance.conftest import Site
from conformance.loopback import AgentApi

pytestmark = pytest.mark.conformance

WARNS = "There were some issues with the pipeline input"


@dataclass(frozen=True)
class Mistake:
    """A pipeline.yml, what the agent does with it by itself, and how bkgen refuses it."""

    text: str
    agent_status: int
    agent_says: str
    bkgen_says: str


LONG = "k" * 1100
REFUSED = {
    "a map in a list of commands": Mistake(
        "steps:\n  - commands: [{a: b}]\n", 0, WARNS, "pipeline.yml:2:15: steps[0].commands: item 1 is a map"
    ),
    "a list in env": Mistake(
        "steps:\n  - command: x\n    env: {A: [1]}\n", 0, WARNS, "pipeline.yml:3:14: steps[0].env.A"
    ),
    "an empty file": Mistake("", 1, "is empty", "pipeline.yml:1:1: the file is empty"),
    "a file with comments only": Mistake("# nothing\n", 0, "", "pipeline.yml:1:1: the file is empty"),
    "an empty list of steps": Mistake(
        "steps: []\n", 0, '"steps": []', "pipeline.yml:1:8: steps: the list is empty"
    ),
    "a second document": Mistake(
        "steps:\n  - command: x\n---\n",
        1,
        '"command": "x"',
        "pipeline.yml:4:1: a second document starts here",
    ),
    "a step without a type": Mistake(
        "steps:\n  - label: x\n", 0, WARNS, "pipeline.yml:2:5: steps[0]: this step has no type"
    ),
    "a step of one unknown word": Mistake(
        "steps:\n  - nonsense\n", 0, WARNS, "pipeline.yml:2:5: steps[0]: a step is a map"
    ),
    "a step that is nothing": Mistake(
        "steps:\n  - null\n", 1, "unsupported type", "pipeline.yml:2:5: steps[0]:"
    ),
    "a checkout that is no map": Mistake(
        "steps:\n  - command: x\n    checkout: 5\n",
        0,
        "",
        "pipeline.yml:3:15: steps[0].checkout: a map is wanted",
    ),
    "a variable that is there twice": Mistake(
        "steps:\n  - command: x\n    env: {A: 1, A: 2}\n",
        0,
        '"A": "2"',
        "pipeline.yml:3:17: the key 'A' is here twice",
    ),
    "a misspelt attribute": Mistake(
        "steps:\n  - command: x\n    timeout_in_minute: 5\n",
        0,
        '"timeout_in_minute": 5',
        "'timeout_in_minutes'",
    ),
    "a key of more than a thousand bytes": Mistake(
        f"steps:\n  - command: x\n    agents:\n      ? {LONG}\n      : v\n",
        0,
        LONG,
        "a key of more than 1,000 bytes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bkgen_refuses_first_what_the_agent_would_have_taken(site: Site, name: str) -> None:
    mistake = REFUSED[name]
    site.write("k3_tests/one/pipeline.yml", mistake.text)
    file = site.root / "k3_tests/one/pipeline.yml"
    taken = dry_run(site.program, file)
    assert taken.returncode == mistake.agent_status, taken.stderr
    assert mistake.agent_says in taken.stdout + taken.stderr
    for command in (("render", "one"), ("upload", "one")):
        refused = site.bkgen(*command)
        assert refused.returncode == 1
        assert mistake.bkgen_says in refused.stderr
        assert refused.stdout == ""
    assert site.api.seen("upload") == []


@dataclass(frozen=True)
class Repair:
    """Something the agent cannot type, and the attributes that it reads once bkgen has written it."""

    text: str
    reads: dict[str, Any]


REPAIRED = {
    "an unquoted date in env": Repair("env: {D: 2026-01-01}", {"env": {"D": "2026-01-01"}}),
    "a date and time in env": Repair("env: {D: 2026-01-01 10:00:00}", {"env": {"D": "2026-01-01 10:00:00"}}),
    "an integer beyond 63 bits in env": Repair(
        "env: {N: 9223372036854775808}", {"env": {"N": "9223372036854775808"}}
    ),
    "secrets that are nothing": Repair("secrets: null", {}),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_bkgen_writes_as_text_what_the_agent_could_not_type(site: Site, tmp_path: Path, name: str) -> None:
    repair = REPAIRED[name]
    site.write("k3_tests/one/pipeline.yml", f"steps:\n  - command: x\n    {repair.text}\n")
    alone = dry_run(site.program, site.root / "k3_tests/one/pipeline.yml")
    rendered = site.bkgen("render", "one", "--json")
    assert rendered.returncode == 0, rendered.stderr
    read = read_back(site.program, tmp_path / "p.json", rendered.stdout.encode())
    assert read == {"steps": [{"command": "x", "key": "one", **repair.reads}]}
    # Where the agent warns of the author's own text, the step would have gone out untyped.
    assert WARNS in alone.stderr or json.loads(alone.stdout)["steps"][0].get("secrets", 0) is None


def test_the_agent_uploads_the_first_of_two_documents_and_then_fails(
    program: Path, tmp_path: Path, api: AgentApi
) -> None:
    """Why a pipeline is one document: a trailing `---` leaves half an upload behind."""
    file = tmp_path / "p.yml"
    file.write_text("steps:\n  - command: x\n    key: half\n---\n")
    agent = Agent(str(program), {"PATH": "/usr/bin:/bin", **api.environ()})
    with pytest.raises(UploadRefusedError, match="pipeline parsing of"):
        agent.upload(file, interpolate=False)
    assert api.keys == ["half"]


def test_an_untyped_step_is_refused_by_agents_that_can_refuse_warnings(
    program: Path, tmp_path: Path, api: AgentApi
) -> None:
    agent = Agent(str(program), {"PATH": "/usr/bin:/bin", **api.environ()})
    version = agent.version()
    assert version is not None
    file = tmp_path / "p.json"
    file.write_bytes(encode({"steps": [{"label": "no type"}]}))
    if version < (3, 130, 0):
        # It ignores the variable: bkgen's own checks are what stands between this and the build.
        agent.upload(file, interpolate=False)
        assert len(api.uploads) == 1
        return
    with pytest.raises(UploadRefusedError, match="cannot infer step type"):
        agent.upload(file, interpolate=False)
    assert api.uploads == []


def test_the_value_of_a_secret_is_refused_by_agents_that_can_refuse_secrets(
    program: Path, tmp_path: Path, api: AgentApi
) -> None:
    environ = {"PATH": "/usr/bin:/bin", **api.environ(), "HF_TOKEN": "hunter2-hunter2"}
    agent = Agent(str(program), environ)
    version = agent.version()
    assert version is not None
    file = tmp_path / "p.json"
    file.write_bytes(encode({"steps": [{"command": "login hunter2-hunter2"}]}))
    if version < (3, 113, 0):
        agent.upload(file, interpolate=False)
        assert len(api.uploads) == 1
        return
    with pytest.raises(UploadRefusedError, match="HF_TOKEN") as caught:
        agent.upload(file, interpolate=False)
    assert "hunter2" not in str(caught.value)
    assert api.uploads == []


@pytest.mark.parametrize(
    "arguments", [["pipeline", "upload", "--of-the-future"], ["pipeline", "of-the-future"]], ids=" ".join
)
def test_an_agent_that_is_too_old_for_a_call_is_told_by_its_words(
    program: Path, api: AgentApi, arguments: list[str]
) -> None:
    finished = run([str(program), *arguments], {"PATH": "/usr/bin:/bin", **api.environ()}, seconds=30)
    assert finished.status != 0
    failure = call_failure(finished, "pipeline upload", str(program), 30)
    assert isinstance(failure, UserError)
    assert [diagnostic.code for diagnostic in failure.diagnostics] == ["agent-too-old"]
    assert "of-the-future" in str(failure)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ('{"steps": [{"command": "\\ud83d\\ude80"}]}', "an emoji as a surrogate pair"),
        ('{"steps": [{"command": "\\/bin"}]}', "an escaped slash"),
        ('{"steps": [{"command": "\x7f"}]}', "a raw DEL"),
        ('{"steps": [{"command": "\ufffe"}]}', "a raw U+FFFE"),
        (f'{{"steps": [{{"command": "x", "agents": {{"{"k" * 1023}": 1}}}}]}}', "a key of 1,023 bytes"),
        ("null", "an empty document"),
    ],
    ids=lambda value: value if len(value) < 30 and "{" not in value else "document",
)
def test_json_that_the_agents_parser_cannot_read(
    program: Path, tmp_path: Path, document: str, why: str
) -> None:
    """Each of these is a reason for a rule of `encode`; an agent that learns to read one is news."""
    file = tmp_path / "p.json"
    file.write_text(document)
    refused = dry_run(program, file, environ=STRICT)
    assert refused.returncode == 1, why
    assert "fatal" in refused.stderr


def test_a_raw_next_line_is_read_as_a_blank(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"steps": [{"command": "a\x85b"}]}')
    assert json.loads(dry_run(program, file).stdout)["steps"][0]["command"] == "a b"
