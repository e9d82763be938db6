"""What bkgen emits, read by the real agent: the same objects, every character of them."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bkgen.errors import UserError
from bkgen.pipeline.encode import KEY_BYTES, encode, escape_interpolation
from conformance.agentcalls import as_the_agent_writes, dry_run, read_back
from conformance.conftest import ROOT

pytestmark = pytest.mark.conformance

GOLDEN = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests/golden").glob("*.json"))
SUITES = sorted(file.parent.name for file in (ROOT / "k3_tests").glob("*/pipeline.yml"))

# Names that the random texts are likely to hold; any that is filled in by mistake is seen.
TRAPS = dict.fromkeys(("A", "X", "Xe", "Xé", "HOME", "BUILDKITE_JOB_ID"), "FILLED-IN")
ODD = "\x00\x07\x1b\x7f\x80\x85\x9f\xa0\u2028\u2029\ufeff\ufffd\ufffe\uffff\U0001f680\U0010ffff"
ODD += "\"\\/'\t\n\r#&*!|>%@`"
SHELL = ["$", "$$", "\\", "\\$", "${", "}", "(", "$(", "A", "X", "é", ":-", "?", "1", "_", "{{matrix}}", " "]
TEXT = st.one_of(
    st.lists(st.sampled_from(SHELL), max_size=12).map("".join),
    st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=30),
    st.sampled_from(
        ["", "yes", "no", "null", "~", "1.10", "012", "2026-01-01", "12:30", "0x1F", ".inf", "<<", "=", "---"]
    ),
)


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, Any]:
    """A pipeline with random text in every kind of place that bkgen writes text to."""
    texts = draw(st.lists(TEXT, min_size=24, max_size=24))
    pick = iter(texts * 3).__next__
    container = {
        "name": "container-0",
        "image": pick(),
        "command": [pick(), pick()],
        "args": [pick()],
        "env": [{"name": "A", "value": pick()}],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "1Gi"}},
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "v", "hostPath": {"path": pick()}}],
        "nodeSelector": {"a/b": pick()},
    }
    command = {
        "label": f"l{pick()}",
        "key": "k",
        "command": pick(),
        "env": {"E": pick(), "F": pick()},
        "agents": {"queue": pick()},
        "artifact_paths": [pick(), pick()],
        "plugins": [{"kubernetes": {"podSpec": pod, "metadata": {"annotations": {"n": pick()}}}}],
        "matrix": {
            "setup": {"os": [f"m{pick()}"]},
            "adjustments": [{"with": {"os": pick()}, "skip": f"s{pick()}"}],
        },
        "retry": {"automatic": [{"exit_status": -1, "limit": 2}]},
        "timeout_in_minutes": draw(st.integers(1, 10_000)),
        "soft_fail": draw(st.booleans()),
        "if": pick(),
        "notify": [{"slack": {"channels": [pick()], "message": pick()}}],
    }
    group = {
        "group": f"g{pick()}",
        "key": "g",
        "steps": [{"label": f"l{pick()}", "command": pick(), "key": "i"}, {"wait": None, "if": pick()}],
    }
    block = {"block": f"b{pick()}", "prompt": pick(), "fields": [{"text": pick(), "key": "f"}]}
    trigger = {"trigger": "t", "build": {"message": pick(), "env": {"E": pick()}, "meta_data": {"m": pick()}}}
    return {"notify": [{"email": pick()}], "steps": [command, group, block, "wait", trigger]}


PROPERTY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@PROPERTY
@given(pipelines())
def test_random_text_survives_a_literal_upload(
    program: Path, tmp_path: Path, document: dict[str, Any]
) -> None:
    read = read_back(program, tmp_path / "p.json", encode(document), **TRAPS)
    assert read == as_the_agent_writes(document)


@PROPERTY
@given(pipelines())
def test_random_text_survives_an_interpolated_upload(
    program: Path, tmp_path: Path, document: dict[str, Any]
) -> None:
    escaped = encode(escape_interpolation(document))
    read = read_back(program, tmp_path / "p.json", escaped, interpolate=True, **TRAPS)
    assert read == as_the_agent_writes(document)


@PROPERTY
@given(st.dictionaries(TEXT, TEXT, max_size=20))
def test_random_keys_survive_where_they_are_not_refused(
    program: Path, tmp_path: Path, entries: dict[str, str]
) -> None:
    document = {
        "steps": [{"command": "x", "agents": entries}, {"trigger": "t", "build": {"meta_data": entries}}]
    }
    literal = read_back(program, tmp_path / "p.json", encode(document), **TRAPS)
    assert literal == document
    escaped = encode(escape_interpolation(document))
    assert read_back(program, tmp_path / "p.json", escaped, interpolate=True, **TRAPS) == document


@pytest.mark.parametrize("interpolate", [False, True], ids=["literal", "interpolated"])
@pytest.mark.parametrize("source", [*SUITES, *GOLDEN], ids=str)
def test_every_suite_and_golden_pipeline_is_read_as_it_was_written(
    program: Path, tmp_path: Path, source: str, interpolate: bool
) -> None:
    assert_same(program, tmp_path, json.loads(written(source)), interpolate)


@functools.cache
def written(source: str) -> bytes:
    """The golden file, or what bkgen renders for the suite; once for all agents and modes."""
    if source in GOLDEN:
        return (ROOT / source).read_bytes()
    command = [sys.executable, "-m", "bkgen", "render", source, "--json"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout


def assert_same(program: Path, tmp_path: Path, document: dict[str, Any], interpolate: bool) -> None:
    emitted = encode(escape_interpolation(document) if interpolate else document)
    read = read_back(program, tmp_path / "p.json", emitted, interpolate=interpolate, **TRAPS)
    assert read == as_the_agent_writes(document)


def test_a_key_of_the_full_length_is_read(program: Path, tmp_path: Path) -> None:
    for key in ("k" * KEY_BYTES, "é" * (KEY_BYTES // 2), "\x01" * (KEY_BYTES // 6)):
        document = {"steps": [{"command": "x", "agents": {key: "v"}}]}
        assert read_back(program, tmp_path / "p.json", encode(document)) == document


def test_a_command_of_100_kilobytes_is_read(program: Path, tmp_path: Path) -> None:
    document = {"steps": [{"command": "echo 'é🚀\\$x' && \\\n" * 6000}]}
    assert read_back(program, tmp_path / "p.json", encode(document)) == document


def test_numbers_up_to_64_bits_are_read(program: Path, tmp_path: Path) -> None:
    numbers = {"most": 2**63 - 1, "least": -(2**63), "float": 1e-07, "large": 1e22, "half": 0.5, "no": None}
    document = {"steps": [{"command": "x", "agents": numbers}]}
    assert read_back(program, tmp_path / "p.json", encode(document)) == document


def test_a_dollar_in_a_key_of_an_unordered_map_is_filled_in_by_chance(program: Path, tmp_path: Path) -> None:
    """Why escape_interpolation refuses such keys: the agent may come to a renamed entry a second time."""
    config = {f"K{number}$A": "$A" for number in range(20)}
    document = {"steps": [{"command": "x", "plugins": [{"./p": config}]}]}
    with pytest.raises(UserError, match="interpolation-unsafe"):
        escape_interpolation(document)
    escaped = json.dumps(document).replace("$A", "$$A").encode()
    for _ in range(20):
        read = read_back(program, tmp_path / "p.json", escaped, interpolate=True, **TRAPS)
        if read != document:
            return
    pytest.fail(
        "this agent interpolates each entry once: escaping keys would be exact, so need not be refused"
    )


@pytest.mark.parametrize(
    "flags",
    [
        ("pipeline", "upload", "--no-interpolation"),
        ("annotate", "--style", "--context", "--priority"),
        ("meta-data", "get", "--default"),
        ("meta-data", "set"),
    ],
    ids=" ".join,
)
def test_every_flag_that_bkgen_passes_exists(program: Path, flags: tuple[str, ...]) -> None:
    command = [word for word in flags if not word.startswith("--")]
    shown = subprocess.run(
        [str(program), *command, "--help"], capture_output=True, text=True, check=True, env={"PATH": ""}
    ).stdout
    assert [flag for flag in flags if flag.startswith("--") and f"  {flag} " not in shown] == []


def test_the_dry_run_refuses_a_document_that_is_no_pipeline(program: Path, tmp_path: Path) -> None:
    """A check of the instrument: a broken document does not pass as read."""
    file = tmp_path / "p.json"
    file.write_text('{"steps": [{"command": "\\ud83d\\ude80"}]}')
    assert dry_run(program, file).returncode == 1
