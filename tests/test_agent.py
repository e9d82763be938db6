"""The agent package against a stand-in program: what it is given, and what its failures become."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bkgen.agent import (
    OLDEST_SUPPORTED,
    Agent,
    Batch,
    Delivered,
    Interrupted,
    UploadRefusedError,
    deliver,
    terminate_as_interrupt,
)
from bkgen.agent.child import TAIL_BYTES, Finished, run
from bkgen.agent.outcome import last_words, upload_failure
from bkgen.agent.process import ANNOTATION_BYTES, capped
from bkgen.agent.record import Record, record_key
from bkgen.errors import BkgenError, EnvironmentFailure, UserError

pytestmark = pytest.mark.slow

FAKES = Path(__file__).parent / "fakes"


@dataclass
class Bench:
    """A stand-in agent with a directory of its own, and what bkgen reported."""

    state: Path
    scratch: Path
    said: list[str] = field(default_factory=list)

    def environ(self, **variables: str) -> dict[str, str]:
        python = str(Path(sys.executable).parent)
        return {
            "PATH": os.pathsep.join([str(FAKES), python, "/usr/bin", "/bin"]),
            "FAKE_AGENT_DIR": str(self.state),
            "TMPDIR": str(self.scratch),
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": "job-1",
            "BUILDKITE_AGENT_ACCESS_TOKEN": "token-of-the-test",
            **variables,
        }

    def agent(self, **variables: str) -> Agent:
        agent = Agent.find(self.environ(**variables))
        assert agent is not None
        return agent

    def deliver(self, *batches: Batch, selection: str = "unit", **variables: str) -> Delivered:
        self.said.clear()
        return deliver(self.agent(**variables), batches, selection=selection, report=self.said.append)

    def calls(self, command: str = "") -> list[dict[str, object]]:
        log = self.state / "calls.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for call in map(json.loads, lines) if call["command"].startswith(command)]

    def uploads(self) -> list[bytes]:
        return [file.read_bytes() for file in sorted((self.state / "uploads").glob("*.json"))]

    def record(self) -> list[str]:
        """The states of the batches in the order in which they were begun."""
        file = self.state / "meta-data" / "bkgen%3Aupload%3Aunit"
        return list(json.loads(file.read_text())["batches"].values()) if file.exists() else []


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    return Bench(tmp_path / "agent", scratch)


@dataclass
class Store:
    """Meta-data in memory, for what the record makes of it."""

    values: dict[str, str]

    def meta_data_get(self, key: str) -> str | None:
        return self.values.get(key)

    def meta_data_set(self, key: str, value: str) -> None:
        self.values[key] = value


def batch(*keys: str, interpolate: bool = False) -> Batch:
    steps = [{"key": key, "command": f"echo {key} $HOME"} for key in keys]
    return Batch(json.dumps({"steps": steps}).encode(), interpolate, keys)


def script(tmp_path: Path, text: str) -> str:
    file = tmp_path / "agent-script"
    file.write_text(f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)
    return str(file)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the expected state was never reached"
        time.sleep(0.01)


# Finding


def test_the_agent_on_the_path_is_found(bench: Bench) -> None:
    assert bench.agent().path == str(FAKES / "buildkite-agent")


def test_buildkite_agent_names_another_program(bench: Bench, tmp_path: Path) -> None:
    named = script(tmp_path, "exit 0")
    assert bench.agent(BUILDKITE_AGENT=named).path == named


@pytest.mark.parametrize("environ", [{}, {"PATH": ""}, {"PATH": "/nonexistent"}])
def test_no_agent_on_the_path_is_none_and_no_error(environ: dict[str, str]) -> None:
    assert Agent.find(environ) is None


def test_a_named_agent_that_is_no_program_is_the_users_to_fix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"BUILDKITE_AGENT names .*no-such-agent.*\[agent-not-found\]"):
        Agent.find({"PATH": "/usr/bin", "BUILDKITE_AGENT": str(tmp_path / "no-such-agent")})


@pytest.mark.parametrize("text", ["soon", "-1", "0", "1e3", "nan"])
def test_a_time_limit_that_is_no_positive_number_is_refused(bench: Bench, text: str) -> None:
    with pytest.raises(UserError, match=f"BKGEN_AGENT_TIMEOUT is '{text}'"):
        bench.agent(BKGEN_AGENT_TIMEOUT=text)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("buildkite-agent version 3.138.1+x..dirty", (3, 138, 1)),
        ("buildkite-agent version 3.104.0, build 9999", (3, 104, 0)),
        ("buildkite-agent version 4.0.0-beta.15+123", (4, 0, 0)),
        ("nothing of the kind", None),
    ],
)
def test_the_version_is_read(
    bench: Bench, tmp_path: Path, said: str, version: tuple[int, int, int] | None
) -> None:
    assert bench.agent(BUILDKITE_AGENT=script(tmp_path, f"echo '{said}'")).version() == version


def test_an_agent_that_cannot_be_started_is_the_users_to_fix(bench: Bench, tmp_path: Path) -> None:
    broken = tmp_path / "agent-of-another-machine"
    broken.write_bytes(b"\x00\x01\x02")
    broken.chmod(0o755)
    agent = bench.agent(BUILDKITE_AGENT=str(broken))
    with pytest.raises(UserError, match=r"cannot be started: .*\[agent-not-started\]"):
        agent.meta_data_set("key", "value")
    assert agent.version() is None


def test_the_oldest_supported_agent_is_the_oldest_that_is_proven() -> None:
    pin = (Path(__file__).parent / "conformance/agents/oldest/go.mod").read_text()
    assert f"buildkite/agent/v3 v{'.'.join(map(str, OLDEST_SUPPORTED))}" in pin


# What an upload is given


@pytest.mark.parametrize(
    ("interpolate", "flags"),
    [(False, ["--no-interpolation"]), (True, [])],
    ids=["literal by flag", "interpolated on request"],
)
def test_an_upload_is_one_call_with_one_private_file(
    bench: Bench, interpolate: bool, flags: list[str]
) -> None:
    sent = batch("a", interpolate=interpolate)
    assert bench.deliver(sent) == Delivered(uploaded=1)
    [call] = bench.calls("pipeline upload")
    *given_flags, document = call["arguments"]  # type: ignore[misc]
    assert given_flags == flags
    assert bench.uploads() == [sent.document]
    assert call["file_mode"] == "0o600"
    assert call["directory_mode"] == "0o700"
    assert not Path(document).exists()
    assert list(bench.scratch.iterdir()) == []


def test_parse_warnings_and_secrets_are_refused_by_variables(bench: Bench) -> None:
    bench.deliver(batch("a"), BUILDKITE_AGENT_APPLY_IF_CHANGED="false", BUILDKITE_AGENT_LOG_LEVEL="debug")
    [call] = bench.calls("pipeline upload")
    environ = call["environ"]
    assert isinstance(environ, dict)
    assert environ["BUILDKITE_AGENT_PIPELINE_UPLOAD_REJECT_PARSE_WARNINGS"] == "true"
    assert environ["BUILDKITE_AGENT_PIPELINE_UPLOAD_REJECT_SECRETS"] == "true"
    assert environ["BUILDKITE_AGENT_APPLY_IF_CHANGED"] == "false"
    assert environ["BUILDKITE_AGENT_LOG_LEVEL"] == "debug"
    assert environ["BUILDKITE_AGENT_ACCESS_TOKEN"] == "token-of-the-test"


def test_what_would_change_a_call_is_not_inherited(bench: Bench) -> None:
    foreign = {
        "BUILDKITE_PIPELINE_REPLACE": "true",
        "BUILDKITE_PIPELINE_UPLOAD_DRY_RUN": "true",
        "BUILDKITE_PIPELINE_NO_INTERPOLATION": "true",
        "BUILDKITE_AGENT_PIPELINE_UPLOAD_ALLOW_SECRETS": "true",
        "BUILDKITE_TRACE_CONTEXT": "abc",
        "BUILDKITE_METADATA_BUILD_ID": "another-build",
        "BUILDKITE_ANNOTATION_APPEND": "true",
        "BUILDKITE_ANNOTATION_SCOPE": "job",
        "BUILDKITE_AGENT_LOG_LEVEL": "fatal",
        "BKGEN_NIL": "x",
    }
    bench.agent(**foreign).meta_data_set("key", "value")
    [call] = bench.calls()
    environ = call["environ"]
    assert isinstance(environ, dict)
    assert foreign.keys() & environ.keys() == set()


def test_no_batches_is_no_call(bench: Bench) -> None:
    assert bench.deliver() == Delivered()
    assert bench.calls() == []


# How an upload fails

SERVER = "ERROR  Couldn't upload: failed to upload and accept pipeline: POST http://h/v3/jobs/j/pipelines"
STAMP = "2026-01-01 00:00:00"


@pytest.mark.parametrize(
    ("status", "said", "error", "exit_code", "expected"),
    [
        pytest.param(23, "", EnvironmentFailure, 75, "ended with status 23", id="an unknown status"),
        pytest.param(
            1,
            f"{STAMP} {SERVER}?async=true: 422 Unprocessable Entity: step 2 has no command",
            UploadRefusedError,
            1,
            "the upload was refused: step 2 has no command",
            id="422 from the server",
        ),
        pytest.param(
            1,
            f"{STAMP} {SERVER}: 401 Unauthorized: job is finished",
            UploadRefusedError,
            1,
            "job is finished",
            id="another 4xx",
        ),
        pytest.param(
            1,
            "fatal: Failed to upload and process pipeline: Pipeline upload rejected: no such queue",
            UploadRefusedError,
            1,
            "refused: no such queue",
            id="rejected after polling",
        ),
        pytest.param(
            1,
            f"{STAMP} WARN   POST http://h/x: 422 Unprocessable Entity (Attempt 1/60)\n"
            f"{STAMP} {SERVER}: 503 Service Unavailable",
            EnvironmentFailure,
            75,
            "503 Service Unavailable",
            id="5xx at the end whatever came before",
        ),
        pytest.param(
            1, f"{STAMP} {SERVER}: 429 Too Many Requests", EnvironmentFailure, 75, "429", id="429 to the end"
        ),
        pytest.param(
            1,
            f'{STAMP} ERROR  Couldn\'t upload: Post "http://h": read tcp: connection reset by peer',
            EnvironmentFailure,
            75,
            "connection reset by peer",
            id="a connection that breaks",
        ),
        pytest.param(
            1,
            f"{STAMP} ERROR  Couldn't upload: pipeline upload not yet applied: pending",
            EnvironmentFailure,
            75,
            "has not applied it yet",
            id="still pending",
        ),
        pytest.param(
            1,
            'buildkite-agent: fatal: pipeline "p.json" parsed with warnings; refusing upload because '
            "--reject-parse-warnings is enabled:\nstep 1: unknown type",
            UploadRefusedError,
            1,
            "step 1: unknown type",
            id="parse warnings",
        ),
        pytest.param(
            1,
            'buildkite-agent: fatal: pipeline "p.json" contains values interpolated from the following '
            "secret environment variables: [HF_TOKEN], and cannot be uploaded",
            UploadRefusedError,
            1,
            "HF_TOKEN",
            id="secrets",
        ),
        pytest.param(
            137, "", EnvironmentFailure, 75, "killed by SIGKILL", id="killed below a wrapper script"
        ),
    ],
)
def test_a_failed_upload_is_told_by_its_last_words(
    status: int, said: str, error: type[BkgenError], exit_code: int, expected: str
) -> None:
    failure = upload_failure(Finished(status, b"", said, timed_out=False), "buildkite-agent", 1800)
    assert type(failure) is error
    assert failure.exit_code == exit_code
    assert expected in str(failure)


def test_an_unknown_status_fails_the_step_and_names_the_batch(bench: Bench) -> None:
    with pytest.raises(
        EnvironmentFailure, match=r"(?s)ended with status 23; .*nonsense.*batch 1 of 1"
    ) as caught:
        bench.deliver(batch("a"), FAKE_AGENT_UPLOAD_EXIT="23", FAKE_AGENT_UPLOAD_SAY="nonsense")
    assert caught.value.exit_code == 75
    assert bench.uploads() == []
    assert list(bench.scratch.iterdir()) == []


def test_a_killed_agent_is_the_environments_failure_and_names_signal_and_keys(bench: Bench) -> None:
    with pytest.raises(EnvironmentFailure, match=r"(?s)killed by SIGSEGV.*k0, .*, k7 and 12 more"):
        bench.deliver(batch(*(f"k{n}" for n in range(20))), FAKE_AGENT_KILL=str(int(signal.SIGSEGV)))
    assert bench.record() == ["started"]


def test_an_agent_too_old_for_a_flag_is_the_users_to_fix(bench: Bench) -> None:
    with pytest.raises(
        UserError, match=r"(?s)does not know '-no-interpolation'.*3\.104\.0 or newer"
    ) as caught:
        bench.deliver(batch("a"), FAKE_AGENT_NO_FLAG="no-interpolation")
    assert caught.value.exit_code == 1
    assert bench.uploads() == []


def test_outside_a_job_the_message_names_the_dry_run(bench: Bench) -> None:
    with pytest.raises(UserError, match=r"--dry-run"):
        bench.deliver(batch("a"), BUILDKITE_JOB_ID="")


@pytest.mark.slow
def test_a_hanging_agent_is_stopped_when_its_time_is_over(bench: Bench) -> None:
    begun = time.monotonic()
    with pytest.raises(EnvironmentFailure, match=r"not done after 1 seconds"):
        bench.deliver(batch("a"), FAKE_AGENT_SLEEP="60", BKGEN_AGENT_TIMEOUT="1")
    assert time.monotonic() - begun < 20
    [call] = bench.calls("pipeline upload")
    assert not Path(f"/proc/{call['pid']}").exists()
    assert list(bench.scratch.iterdir()) == []


@pytest.mark.slow
def test_an_agent_that_ignores_the_request_to_stop_is_killed(tmp_path: Path) -> None:
    stubborn = script(tmp_path, "trap '' TERM; echo ready; while :; do read -rt 1 <> <(:); done")
    finished = run([stubborn], os.environ, seconds=0.3, grace=0.1)
    assert finished.timed_out
    assert finished.status == -signal.SIGKILL


def test_a_process_left_behind_that_holds_the_output_is_not_waited_for(tmp_path: Path) -> None:
    leaves = script(tmp_path, "sleep 30 & echo $! ; exit 3")
    begun = time.monotonic()
    finished = run([leaves], os.environ, seconds=20)
    os.kill(int(finished.tail), signal.SIGKILL)
    assert finished.status == 3
    assert time.monotonic() - begun < 5


def test_only_the_end_of_long_output_is_kept(tmp_path: Path) -> None:
    noisy = script(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end")
    finished = run([noisy], os.environ, seconds=20, live=False)
    assert len(finished.tail) == TAIL_BYTES
    assert last_words(finished.tail).endswith("the end")


def test_an_agent_that_does_not_read_its_input_blocks_nothing(tmp_path: Path) -> None:
    deaf = script(tmp_path, "exit 0")
    assert run([deaf], os.environ, seconds=20, stdin=b"x" * 1_000_000).status == 0


def test_the_agents_streams_both_go_to_standard_error(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    noisy = script(tmp_path, "echo from its stdout; echo from its stderr >&2")
    bench.agent(BUILDKITE_AGENT=noisy).upload(tmp_path / "p.json", interpolate=False)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == ["from its stdout", "from its stderr"]


def test_output_is_shown_while_the_agent_still_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waiting = script(tmp_path, f"echo first line; cat {gate} >/dev/null; echo last line")
    code = f"import os; from bkgen.agent.child import run; run([{waiting!r}], os.environ, seconds=20)"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "first line\n"
        gate.write_text("go")
        assert process.stderr.read() == "last line\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("", ""),
        ("\x1b[31m2026-01-01 00:00:00 ERROR \x1b[0m it broke\n", "it broke"),
        ("buildkite-agent: fatal: it broke\n\n", "it broke"),
        ("2026-01-01 00:00:00 WARN   careful\n2026-01-01 00:00:00 UTC ERROR  one\n  two\n", "one\n  two"),
        ("plain words", "plain words"),
    ],
)
def test_the_last_words_have_no_time_stamp_and_keep_their_lines(tail: str, words: str) -> None:
    assert last_words(tail) == words


# Stopping

PROGRAM = """
import os, sys
from bkgen.agent import Agent, Batch, deliver, terminate_as_interrupt

def say(line):
    print(line, file=sys.stderr, flush=True)

try:
    with terminate_as_interrupt():
        batches = [Batch(b'{"steps": [{"key": "a"}]}', False, ("a",)),
                   Batch(b'{"steps": [{"key": "b"}]}', False, ("b",))]
        deliver(Agent.find(os.environ), batches, selection="unit", report=say)
except KeyboardInterrupt as stop:
    say(f"stopped: {stop}")
    sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_in_mid_upload_stops_the_agent_and_clears_up(bench: Bench, signum: int) -> None:
    environ = bench.environ(FAKE_AGENT_SLEEP="60", FAKE_AGENT_UPLOAD_FROM="2")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: len(bench.calls("pipeline upload")) == 2)
        process.send_signal(signum)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert f"stopped by {signal.Signals(signum).name}" in said
    assert "in the build: a; unknown: b" in said
    assert not Path(f"/proc/{bench.calls('pipeline upload')[1]['pid']}").exists()
    assert list(bench.scratch.iterdir()) == []
    assert bench.record() == ["done", "started"]
    assert bench.deliver(*(batch_of(key) for key in "ab")) == Delivered(uploaded=1, already=1)


def batch_of(key: str) -> Batch:
    """The batch that PROGRAM has for this key."""
    return Batch(json.dumps({"steps": [{"key": key}]}).encode(), False, (key,))


def test_sigterm_outside_a_call_is_an_interrupt_and_the_old_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with terminate_as_interrupt(), pytest.raises(Interrupted, match="stopped by SIGTERM"):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_call_from_another_thread_leaves_signal_handlers_alone(tmp_path: Path) -> None:
    statuses: list[int] = []
    thread = threading.Thread(
        target=lambda: statuses.append(run([script(tmp_path, "exit 4")], os.environ, seconds=20).status)
    )
    thread.start()
    thread.join()
    assert statuses == [4]


# Once in a build


def test_a_retried_step_does_not_upload_twice_and_says_so(bench: Bench) -> None:
    batches = batch("a"), batch("b", interpolate=True)
    assert bench.deliver(*batches) == Delivered(uploaded=2)
    assert bench.record() == ["done", "done"]
    assert bench.deliver(*batches) == Delivered(already=2)
    assert len(bench.calls("pipeline upload")) == 2
    assert [line for line in bench.said if "not uploaded again" in line] == bench.said
    assert len(bench.said) == 2


def test_another_selection_in_the_same_build_has_a_record_of_its_own(bench: Bench) -> None:
    bench.deliver(batch("a"), selection="unit")
    assert bench.deliver(batch("b"), selection="correctness") == Delivered(uploaded=1)


def test_the_record_is_written_before_and_after_each_upload(bench: Bench) -> None:
    bench.deliver(batch("a"), batch("b"))
    story = [
        (call["command"], list(json.loads(str(call["stdin"]))["batches"].values()) if call["stdin"] else None)
        for call in bench.calls()
    ]
    assert story == [
        ("meta-data get", None),
        ("meta-data set", ["started"]),
        ("pipeline upload", None),
        ("meta-data set", ["done", "started"]),
        ("pipeline upload", None),
        ("meta-data set", ["done", "done"]),
    ]


def test_an_upload_whose_end_is_unknown_counts_once_the_build_has_its_keys(bench: Bench) -> None:
    with pytest.raises(EnvironmentFailure, match=r"unknown: a, b"):
        bench.deliver(batch("a", "b"), FAKE_AGENT_KILL_AFTER=str(int(signal.SIGKILL)))
    assert bench.record() == ["started"]
    assert bench.deliver(batch("a", "b")) == Delivered(already=1)
    assert "it counts as uploaded" in bench.said[-1]
    assert bench.record() == ["done"]
    assert len(bench.uploads()) == 1


def test_an_upload_that_never_arrived_is_made_by_the_retry(bench: Bench) -> None:
    with pytest.raises(EnvironmentFailure):
        bench.deliver(batch("a"), FAKE_AGENT_UPLOAD_EXIT="1", FAKE_AGENT_UPLOAD_SAY=f"{SERVER}: 503 No")
    assert bench.deliver(batch("a")) == Delivered(uploaded=1)


def test_a_key_that_somebody_else_uses_is_refused_and_stays_refused(bench: Bench) -> None:
    bench.deliver(batch("a"), selection="somebody-else")
    for _ in range(2):
        with pytest.raises(UploadRefusedError, match="another upload uses the same keys"):
            bench.deliver(batch("a", "b"))
        assert bench.record() == ["refused"]
    assert len(bench.uploads()) == 1


def test_an_unfinished_try_does_not_excuse_keys_of_other_batches(bench: Bench) -> None:
    with pytest.raises(EnvironmentFailure):
        bench.deliver(Batch(batch("a").document, False, ("b",)), FAKE_AGENT_KILL="9")
    bench.deliver(batch("a"), selection="somebody-else")
    with pytest.raises(UploadRefusedError):
        bench.deliver(Batch(batch("a").document, False, ("b",)))


def test_an_unfinished_try_does_not_excuse_one_key_of_its_own_that_another_upload_brought(
    bench: Bench,
) -> None:
    with pytest.raises(EnvironmentFailure):
        bench.deliver(batch("a", "b"), FAKE_AGENT_KILL="9")
    bench.deliver(batch("a"), selection="somebody-else")
    for _ in range(2):
        with pytest.raises(UploadRefusedError, match="another upload uses the same keys"):
            bench.deliver(batch("a", "b"))
    assert bench.record() == ["refused"]
    assert len(bench.uploads()) == 1


def test_where_the_build_cannot_be_asked_an_unfinished_try_stays_unknown(bench: Bench) -> None:
    with pytest.raises(EnvironmentFailure):
        bench.deliver(batch("a", "b"), FAKE_AGENT_KILL_AFTER="9")
    with pytest.raises(EnvironmentFailure, match="step get: ended with status 1"):
        bench.deliver(batch("a", "b"), FAKE_AGENT_STEP_GET_EXIT="1")
    assert bench.record() == ["started"]
    assert bench.deliver(batch("a", "b")) == Delivered(already=1)


def test_when_the_second_batch_is_refused_the_first_is_recorded_and_both_are_named(bench: Bench) -> None:
    batches = batch("a", "b"), batch("c"), batch("d")
    with pytest.raises(UploadRefusedError) as caught:
        bench.deliver(
            *batches,
            FAKE_AGENT_UPLOAD_FROM="2",
            FAKE_AGENT_UPLOAD_EXIT="1",
            FAKE_AGENT_UPLOAD_SAY=f"{STAMP} {SERVER}: 422 Unprocessable Entity: c is wrong",
        )
    message = str(caught.value)
    assert "the upload was refused: c is wrong" in message
    assert "batch 2 of 3; step keys in the build: a, b; refused: c; not tried: d" in message
    assert bench.record() == ["done", "refused"]
    assert bench.deliver(*batches) == Delivered(uploaded=2, already=1)
    assert bench.uploads() == [one.document for one in batches]


def test_a_retry_with_another_pipeline_uploads_nothing_and_asks_for_a_new_build(bench: Bench) -> None:
    bench.deliver(batch("a"))
    with pytest.raises(UserError, match=r"start a new build.*") as caught:
        bench.deliver(batch("a", "b"))
    assert caught.value.exit_code == 1
    assert len(bench.uploads()) == 1


def test_after_a_refusal_a_corrected_pipeline_may_go_up(bench: Bench) -> None:
    with pytest.raises(UploadRefusedError):
        bench.deliver(
            batch("a"), FAKE_AGENT_UPLOAD_EXIT="1", FAKE_AGENT_UPLOAD_SAY=f"{SERVER}: 422 No: wrong"
        )
    assert bench.deliver(batch("b")) == Delivered(uploaded=1)


@pytest.mark.parametrize(
    ("failing", "words", "written"),
    [
        ("FAKE_AGENT_META_DATA_GET_EXIT", "could not be read", 0),
        ("FAKE_AGENT_META_DATA_SET_EXIT", "could not be written", 1),
    ],
)
def test_meta_data_that_fails_is_one_warning_and_the_upload_goes_on(
    bench: Bench, failing: str, words: str, written: int
) -> None:
    assert bench.deliver(batch("a"), batch("b"), **{failing: "1"}) == Delivered(uploaded=2)
    assert [words in line for line in bench.said] == [True]
    assert len(bench.calls("meta-data set")) == written
    assert bench.record() == []


@pytest.mark.parametrize(
    "text",
    [
        "not JSON",
        "[]",
        '{"version": 2}',
        '{"version": 1, "batches": []}',
        '{"version": 1, "batches": {"d": "x"}}',
    ],
)
def test_meta_data_that_is_no_record_is_written_anew_with_a_warning(text: str) -> None:
    store, said = Store({record_key("unit"): text}), list[str]()
    record = Record(store, "unit", said.append)
    record.load()
    assert "is not bkgen's record" in said[0]
    record.mark({"digest": "done"})
    again = Record(store, "unit", said.append)
    again.load()
    assert again.state("digest") == "done"
    assert len(said) == 1


def test_meta_data_that_is_not_there_is_none(bench: Bench) -> None:
    agent = bench.agent()
    assert agent.meta_data_get("nothing") is None
    agent.meta_data_set("something", "é\n✓")
    assert agent.meta_data_get("something") == "é\n✓"


@settings(max_examples=50)
@given(st.text(), st.text())
def test_a_record_key_is_short_plain_and_different_for_different_selections(one: str, other: str) -> None:
    key = record_key(one)
    assert key.startswith("bkgen:")
    assert key.isascii()
    assert key.isprintable()
    assert " " not in key
    assert len(key) <= 100
    assert (key == record_key(other)) == (one == other)


# Annotations


def test_an_annotation_goes_over_standard_input(bench: Bench) -> None:
    assert bench.agent().annotate("--style is no option here ✓", style="info", priority=7) is None
    [call] = bench.calls("annotate")
    assert call["arguments"] == ["--style", "info", "--context", "bkgen", "--priority", "7"]
    assert call["stdin"] == "--style is no option here ✓"


def test_an_annotation_that_fails_is_a_warning(bench: Bench) -> None:
    warning = bench.agent(FAKE_AGENT_ANNOTATE_EXIT="7").annotate("body", style="info")
    assert warning is not None
    assert "ended with status 7" in warning


def test_a_long_annotation_is_cut_at_a_line_and_says_so(bench: Bench) -> None:
    body = "".join(f"{number} é\n" for number in range(200_000))
    assert bench.agent().annotate(body, style="info") is None
    stdin = str(bench.calls("annotate")[0]["stdin"])
    assert len(stdin.encode()) <= ANNOTATION_BYTES
    note, text = stdin.split("\n\n", 1)
    assert "Cut" in note
    assert body.startswith(text)
    assert text.endswith(" é\n")


@settings(max_examples=20)
@given(st.text(alphabet="aé✓🧪\n", min_size=1, max_size=5), st.integers(0, 3))
def test_a_cut_never_splits_a_character_and_never_exceeds_the_limit(unit: str, odd: int) -> None:
    body = "x" * odd + unit * (ANNOTATION_BYTES // len(unit.encode()) + 10)
    cut = capped(body)
    assert len(cut) <= ANNOTATION_BYTES
    assert body.startswith(cut.decode().split("\n\n", 1)[1])


def test_names_that_are_not_utf8_are_shown_escaped() -> None:
    assert capped("caf\udce9") == b"caf\\udce9"
