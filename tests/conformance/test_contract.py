"""The stand-in of the quick tests and the real agent: same calls, same ends, same effect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest

from conformance.conftest import ROOT
from conformance.loopback import JOB, TOKEN, AgentApi

pytestmark = pytest.mark.conformance

FAKE = ROOT / "tests/fakes/buildkite-agent"
PIPELINE = {
    "steps": [{"key": "a", "command": "echo"}, {"group": "g", "key": "g", "steps": [{"command": "x"}]}]
}


@dataclass(frozen=True)
class Call:
    """One call; `{file}` in its arguments is a file with `document`."""

    arguments: tuple[str, ...]
    stdin: str = ""
    document: str = json.dumps(PIPELINE)
    environ: Mapping[str, str] = field(default_factory=dict)


UPLOAD = Call(("pipeline", "upload", "--no-interpolation", "{file}"))
SET = Call(("meta-data", "set", "k"), "value é\n")
SCENARIOS: dict[str, tuple[Call, ...]] = {
    "an upload": (UPLOAD,),
    "an upload with interpolation": (Call(("pipeline", "upload", "{file}")),),
    "a key that comes twice": (UPLOAD, UPLOAD),
    "a dry run": (Call(("pipeline", "upload", "--dry-run", "--no-interpolation", "{file}")),),
    "an empty file": (Call(UPLOAD.arguments, document=""),),
    "a file that is no document": (Call(UPLOAD.arguments, document='{"steps": ['),),
    "an upload without a job": (Call(UPLOAD.arguments, environ={"BUILDKITE_JOB_ID": ""}),),
    "an upload without a token": (Call(UPLOAD.arguments, environ={"BUILDKITE_AGENT_ACCESS_TOKEN": ""}),),
    "a flag that upload does not know": (Call(("pipeline", "upload", "--no-such-flag", "{file}")),),
    "a sub-command that nobody knows": (Call(("pipeline", "no-such-command")),),
    "meta-data set over standard input": (SET,),
    "meta-data set by argument": (Call(("meta-data", "set", "k", "v")),),
    "meta-data set twice": (SET, Call(("meta-data", "set", "k", "other"))),
    "meta-data set and got": (SET, Call(("meta-data", "get", "k"))),
    "meta-data got with a default that is not needed": (
        SET,
        Call(("meta-data", "get", "--default", "d", "k")),
    ),
    "meta-data that is not there": (Call(("meta-data", "get", "k")),),
    "meta-data that is not there, with a default": (Call(("meta-data", "get", "--default", "d", "k")),),
    "meta-data that is not there, with an empty default": (Call(("meta-data", "get", "--default", "", "k")),),
    "meta-data got with the flag at the end": (Call(("meta-data", "get", "k", "--default", "d")),),
    "meta-data with a blank value": (Call(("meta-data", "set", "k"), " \n"),),
    "meta-data with a blank key": (Call(("meta-data", "set", " ", "v")),),
    "meta-data without a key": (Call(("meta-data", "get")),),
    "meta-data without a job": (Call(SET.arguments, "v", environ={"BUILDKITE_JOB_ID": ""}),),
    "a key with odd characters": (Call(("meta-data", "set", "bkgen:a/b.c é", "v")),),
    "a step that the build has": (UPLOAD, Call(("step", "get", "key", "--step", "a"))),
    "a group that the build has": (UPLOAD, Call(("step", "get", "group", "--step", "g"))),
    "a step that the build has not": (UPLOAD, Call(("step", "get", "label", "--step", "b"))),
    "a step without a key": (Call(("step", "get", "label")),),
    "a step without a token": (
        Call(("step", "get", "label", "--step", "a"), environ={"BUILDKITE_AGENT_ACCESS_TOKEN": ""}),
    ),
    "an annotation": (Call(("annotate", "--style", "info", "--context", "bkgen"), "**é** 🚀"),),
    "an annotation with a priority": (
        Call(("annotate", "--style=warning", "--context=bkgen", "--priority", "7"), "body"),
    ),
    "an annotation by argument": (Call(("annotate", "body", "--style", "success", "--context", "c")),),
    "an annotation that is replaced": (
        Call(("annotate", "--style", "info", "--context", "bkgen"), "one"),
        Call(("annotate", "--style", "error", "--context", "bkgen"), "two"),
    ),
    "an annotation of the full size": (Call(("annotate", "--style", "info", "--context", "c"), "x" * 2**20),),
    "an annotation that is too long": (
        Call(("annotate", "--style", "info", "--context", "c"), "x" * (2**20 + 1)),
    ),
    "an annotation with a flag that it does not know": (Call(("annotate", "--colour", "red"), "body"),),
}


@dataclass(frozen=True)
class Outcome:
    """What a caller and a build see of a scenario."""

    statuses: list[int]
    printed: list[str]
    uploads: list[object]
    meta_data: dict[str, str]
    annotations: dict[str, tuple[str, str]]


def play(
    program: Path, calls: tuple[Call, ...], directory: Path, environ: Mapping[str, str]
) -> tuple[list[int], list[str]]:
    statuses, printed = [], []
    for call in calls:
        file = directory / "pipeline.json"
        file.write_text(call.document)
        done = subprocess.run(
            [str(program), *(word.format(file=file) for word in call.arguments)],
            input=call.stdin,
            env={**environ, **call.environ},
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        statuses.append(done.returncode)
        # Usage texts differ; what is printed by a call that worked is part of the contract.
        printed.append(as_data(done.stdout) if done.returncode == 0 else "")
    return statuses, printed


def as_data(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def play_real(program: Path, calls: tuple[Call, ...], directory: Path, api: AgentApi) -> Outcome:
    statuses, printed = play(program, calls, directory, {"PATH": "/usr/bin:/bin", **api.environ()})
    annotations = {name: (one.get("style", ""), one["body"]) for name, one in api.annotations.items()}
    return Outcome(statuses, printed, list(api.uploads), dict(api.meta_data), annotations)


def play_fake(calls: tuple[Call, ...], directory: Path) -> Outcome:
    state = directory / "state"
    environ = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "FAKE_AGENT_DIR": str(state),
        "BUILDKITE_JOB_ID": JOB,
        "BUILDKITE_AGENT_ACCESS_TOKEN": TOKEN,
    }
    statuses, printed = play(FAKE, calls, directory, environ)
    annotations = {}
    for file in (state / "annotations").iterdir():
        style, _, body = file.read_text().partition("\n")
        annotations[file.name] = (style, body)
    uploads = [json.loads(file.read_text()) for file in sorted((state / "uploads").iterdir())]
    meta_data = {unquote(file.name): file.read_text() for file in (state / "meta-data").iterdir()}
    return Outcome(statuses, printed, uploads, meta_data, annotations)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_stand_in_does_what_the_real_agent_does(
    program: Path, tmp_path: Path, api: AgentApi, scenario: str
) -> None:
    calls = SCENARIOS[scenario]
    (tmp_path / "real").mkdir()
    (tmp_path / "fake").mkdir()
    real = play_real(program, calls, tmp_path / "real", api)
    assert play_fake(calls, tmp_path / "fake") == real
