"""`bkgen upload` with the real agent against the loopback build: what arrives, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bkgen.agent.record import record_key
from conformance.conftest import Site
from conformance.loopback import ORDINARY, AgentApi, Answer

pytestmark = pytest.mark.conformance

LOST_BEFORE = Answer(hang=True)
LOST_AFTER = Answer(hang=True, after=True)
SHORT = "5"


def record(api: AgentApi, selection: str = "all") -> list[str]:
    """The states of the batches in the build's meta-data."""
    text = api.meta_data.get(record_key(selection))
    return list(json.loads(text)["batches"].values()) if text else []


def two_uploads(site: Site) -> Site:
    """The same site with one job an upload, so that each suite goes up by itself."""
    site.write("bkgen.yml", "version: 1\nlimits: {jobs_per_upload: 1}\n")
    return site


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the expected state was never reached"
        time.sleep(0.02)


@pytest.mark.parametrize("asynchronous", [True, False], ids=["applied after polling", "applied at once"])
def test_a_pipeline_arrives_once_with_its_annotation_and_record(site: Site, asynchronous: bool) -> None:
    site.api.asynchronous = asynchronous
    site.api.states += ["pending", "processing"] if asynchronous else []
    done = site.bkgen("upload")
    assert (done.returncode, done.stdout) == (0, "")
    [pipeline] = site.api.uploads
    steps = {step["key"]: step for step in pipeline["steps"]}
    assert set(steps) == {"one", "two"}
    assert steps["one"]["label"] == "one 🚀"
    assert steps["one"]["command"] == "k3_tests/one/run.sh $HOME"
    assert len(site.api.seen("upload")) == 1
    assert site.api.annotations["bkgen"]["style"] in {"info", "warning"}
    assert record(site.api) == ["done"]


def test_a_retried_step_uploads_nothing_and_says_so(site: Site) -> None:
    assert site.bkgen("upload").returncode == 0
    again = site.bkgen("upload", BUILDKITE_RETRY_COUNT="1")
    assert again.returncode == 0
    assert "not uploaded again" in again.stderr
    assert len(site.api.seen("upload")) == 1


def test_an_upload_that_is_refused_at_once_fails_the_step(site: Site) -> None:
    site.api.fail("upload", Answer(422, "step 'one' has no such attribute"))
    failed = site.bkgen("upload")
    assert failed.returncode == 1
    assert "the upload was refused: step 'one' has no such attribute" in failed.stderr
    assert "batch 1 of 1; step keys refused: one, two" in failed.stderr
    assert site.api.uploads == []
    assert len(site.api.seen("upload")) == 1
    assert record(site.api) == ["refused"]
    assert site.bkgen("upload").returncode == 0
    assert sorted(site.api.keys) == ["one", "two"]


def test_a_key_that_the_build_has_from_elsewhere_fails_the_step(site: Site) -> None:
    site.api.uploads.append({"steps": [{"key": "one"}]})
    failed = site.bkgen("upload")
    assert failed.returncode == 1
    assert 'The key "one" has already been used' in failed.stderr
    assert "another upload uses the same keys" in failed.stderr
    assert site.api.keys == ["one"]


def test_a_server_that_gives_up_on_a_pipeline_is_worth_a_retry(site: Site) -> None:
    site.api.states.append("failed")
    failed = site.bkgen("upload")
    assert failed.returncode == 75
    assert "pipeline upload failed" in failed.stderr.lower()
    assert record(site.api) == ["started"]


def test_a_server_that_never_answers_is_given_up_and_the_retry_uploads(site: Site) -> None:
    site.api.fail("upload", LOST_BEFORE)
    failed = site.bkgen("upload", BKGEN_AGENT_TIMEOUT=SHORT)
    assert failed.returncode == 75
    assert f"not done after {SHORT} seconds" in failed.stderr
    assert "unknown: one, two" in failed.stderr
    assert site.api.uploads == []
    assert site.bkgen("upload", BUILDKITE_RETRY_COUNT="1").returncode == 0
    assert sorted(site.api.keys) == ["one", "two"]


@pytest.mark.parametrize("asynchronous", [True, False], ids=["rejected after polling", "refused at once"])
def test_an_upload_whose_answer_was_lost_is_not_made_twice(site: Site, asynchronous: bool) -> None:
    site.api.asynchronous = asynchronous
    site.api.fail("upload", LOST_AFTER)
    assert site.bkgen("upload", BKGEN_AGENT_TIMEOUT=SHORT).returncode == 75
    assert record(site.api) == ["started"]
    again = site.bkgen("upload", BUILDKITE_RETRY_COUNT="1")
    assert again.returncode == 0
    assert "it counts as uploaded" in again.stderr
    assert record(site.api) == ["done"]
    assert sorted(site.api.keys) == ["one", "two"]


def test_a_key_from_elsewhere_does_not_pass_for_an_upload_that_never_arrived(site: Site) -> None:
    site.api.fail("upload", LOST_BEFORE)
    assert site.bkgen("upload", BKGEN_AGENT_TIMEOUT=SHORT).returncode == 75
    site.api.uploads.append({"steps": [{"key": "one"}]})
    again = site.bkgen("upload", BUILDKITE_RETRY_COUNT="1")
    assert again.returncode == 1
    assert "another upload uses the same keys" in again.stderr
    assert record(site.api) == ["refused"]
    assert site.api.keys == ["one"]


def test_sigterm_in_mid_upload_ends_the_agent_and_the_retry_uploads(site: Site) -> None:
    site.api.fail("upload", LOST_BEFORE)
    with site.start("upload") as process:
        wait_until(lambda: len(site.api.seen("upload")) == 1)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in said
    assert "unknown: one, two" in said
    assert list(site.scratch.iterdir()) == []
    assert not agent_processes(site)
    assert site.bkgen("upload").returncode == 0
    assert sorted(site.api.keys) == ["one", "two"]


def test_an_agent_that_is_killed_is_worth_a_retry_which_uploads(site: Site) -> None:
    site.api.fail("upload", LOST_AFTER)
    with site.start("upload") as process:
        wait_until(lambda: len(site.api.seen("upload")) == 1)
        [agent] = agent_processes(site)
        os.kill(int(agent.name), signal.SIGKILL)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 75
    assert "killed by SIGKILL" in said
    assert list(site.scratch.iterdir()) == []
    again = site.bkgen("upload", BUILDKITE_RETRY_COUNT="1")
    assert again.returncode == 0
    assert "it counts as uploaded" in again.stderr
    assert sorted(site.api.keys) == ["one", "two"]


def agent_processes(site: Site) -> list[Path]:
    """The processes on this machine that were started as this site's agent."""
    job = f"BUILDKITE_AGENT_ENDPOINT={site.api.endpoint}".encode()
    return [process for process in Path("/proc").glob("[0-9]*") if runs_as(process, job, site.program)]


def runs_as(process: Path, variable: bytes, program: Path) -> bool:
    try:
        environ = (process / "environ").read_bytes().split(b"\0")
        return variable in environ and (process / "exe").samefile(program)
    except OSError:
        return False


def test_when_the_second_of_two_uploads_is_refused_the_retry_makes_only_that_one(site: Site) -> None:
    two_uploads(site)
    site.api.asynchronous = False
    site.api.fail("upload", ORDINARY, Answer(422, "not today"))
    failed = site.bkgen("upload")
    assert failed.returncode == 1
    [first] = site.api.keys
    [second] = {"one", "two"} - {first}
    assert f"in the build: {first}; refused: {second}" in failed.stderr
    again = site.bkgen("upload", BUILDKITE_RETRY_COUNT="1")
    assert again.returncode == 0
    assert site.api.keys == [first, second]
    assert record(site.api) == ["done", "done"]


def test_a_refused_annotation_is_a_warning(site: Site) -> None:
    site.api.fail("annotate", *[Answer(400, "no annotations today")] * 9)
    done = site.bkgen("upload")
    assert done.returncode == 0
    assert "warning: the build was not annotated" in done.stderr
    assert "no annotations today" in done.stderr
    assert site.api.annotations == {}
    assert sorted(site.api.keys) == ["one", "two"]


@pytest.mark.parametrize(("kind", "verb"), [("get", "read"), ("set", "written")])
def test_meta_data_that_is_refused_is_a_warning_and_the_upload_goes_on(
    site: Site, kind: str, verb: str
) -> None:
    site.api.fail(kind, *[Answer(401, "no meta-data today")] * 9)
    done = site.bkgen("upload")
    assert done.returncode == 0
    assert f"could not be {verb}" in done.stderr
    assert sorted(site.api.keys) == ["one", "two"]
    assert record(site.api) == []


def test_meta_data_that_fails_after_the_upload_does_not_fail_the_step(site: Site) -> None:
    site.api.fail("set", ORDINARY, Answer(401, "no meta-data now"))
    done = site.bkgen("upload")
    assert done.returncode == 0
    assert record(site.api) == ["started"]
    again = site.bkgen("upload")
    assert again.returncode == 0
    assert "it counts as uploaded" in again.stderr
    assert sorted(site.api.keys) == ["one", "two"]


def test_an_unknown_job_is_refused_with_the_servers_words(site: Site) -> None:
    failed = site.bkgen("upload", BUILDKITE_JOB_ID="no-such-job", BKGEN_AGENT_TIMEOUT=SHORT)
    # Agents before 3.11x try every refusal but 422 again for five minutes, so there time ends it.
    assert failed.returncode in {1, 75}
    assert "unknown token or job" in failed.stderr
    assert site.api.uploads == []


def test_without_a_token_the_message_says_where_uploads_work(site: Site) -> None:
    failed = site.bkgen("upload", BUILDKITE_AGENT_ACCESS_TOKEN="")
    assert failed.returncode == 1
    assert "inside a Buildkite job only" in failed.stderr
