"""The main job end to end: a real repository goes in, calls of the agent come out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bkrun import FAKES, THREE, Cli, pull_request_environ, suite, unit_pipeline
from gitrepo import PullRequest

ALL = {"alpha", "beta", "gamma"}


def kinds(cli: Cli) -> list[str]:
    return [call["command"] for call in cli.agent.calls if "meta-data" not in call["command"]]


def upload(cli: Cli, made: PullRequest, *arguments: str, labels: tuple[str, ...] = (), **more: str):
    return cli.run(
        made.checkout.path, "upload", *arguments, environ=pull_request_environ(made, labels=labels, **more)
    )


def test_a_docs_only_pull_request_uploads_nothing_and_annotates_once(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    result = upload(cli, made)
    assert result.code == 0, result.err
    assert kinds(cli) == ["annotate"]
    (body,) = cli.agent.annotations.values()
    assert body.startswith("success")
    assert "every changed file is trivial (docs/guide.md)" in body
    assert "nothing is uploaded" in result.err
    assert result.out == ""


@pytest.mark.slow
def test_a_change_under_buildkite_uploads_every_suite(cli: Cli) -> None:
    made = cli.pull_request({".buildkite/pipeline.yml": "steps: [wait]\n"})
    assert upload(cli, made).code == 0
    assert cli.agent.keys() == ALL


def test_a_change_in_one_suites_directory_uploads_that_suite(cli: Cli) -> None:
    made = cli.pull_request({"k3_tests/beta/run.sh": "#!/bin/bash\n"})
    result = upload(cli, made)
    assert result.code == 0, result.err
    assert cli.agent.keys() == {"beta"}
    assert result.err.endswith("\nuploaded 1 of 1 document\n")


@pytest.mark.slow
def test_a_scheduled_docs_only_build_uploads_every_suite(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    more = {"BUILDKITE_SOURCE": "schedule", "BUILDKITE_PULL_REQUEST": "false", "BUILDKITE_BRANCH": "main"}
    assert upload(cli, made, **more).code == 0
    assert cli.agent.keys() == ALL


@pytest.mark.slow
def test_the_force_label_uploads_every_suite_of_a_docs_only_change(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    assert upload(cli, made, labels=("a", " force-ci ")).code == 0
    assert cli.agent.keys() == ALL


def test_a_label_that_only_contains_the_force_label_forces_nothing(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    assert upload(cli, made, labels=("no-force-ci",)).code == 0
    assert cli.agent.keys() == set()


@pytest.mark.slow
def test_an_unreachable_base_uploads_every_suite_and_says_why(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    result = upload(cli, made, BUILDKITE_PULL_REQUEST_BASE_BRANCH="gone")
    assert result.code == 0, result.err
    assert cli.agent.keys() == ALL
    assert "changes unknown" in result.err
    assert cli.agent.annotations["bkgen"].startswith("warning")
    assert "gone" in result.err


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a checkout to another user")
def test_a_checkout_of_another_user_uploads_every_suite_and_says_why(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    for path in [made.checkout.path, *made.checkout.path.rglob("*")]:
        os.chown(path, 12345, 12345, follow_symlinks=False)
    result = upload(cli, made)
    assert result.code == 0, result.err
    assert cli.agent.keys() == ALL
    assert "git cannot read this checkout" in result.err


def test_outside_a_repository_the_error_says_where_to_go(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = cli.run(tmp_path / "empty", "plan")
    assert result.code == 1
    assert "is in no git repository" in result.err


def test_an_upload_that_fails_with_23_fails_the_step(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    result = upload(cli, made, FAKE_AGENT_UPLOAD_EXIT="23")
    assert result.code == 75
    assert "23" in result.err
    assert cli.agent.annotations["bkgen"].startswith("error\n**bkgen could not upload the pipeline**")


def test_facts_that_buildkite_never_gives_fail_the_step_and_are_annotated(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    result = upload(cli, made, BUILDKITE_SOURCE="carrier-pigeon")
    assert result.code == 1
    assert kinds(cli) == ["annotate"]
    assert "carrier-pigeon" in cli.agent.annotations["bkgen"]


SECRET = 'hf"abcdef\\123456'


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["uploaded", "printed"])
def test_a_secret_of_the_environment_is_never_written_into_the_build(cli: Cli, dry: tuple[str, ...]) -> None:
    pipeline = "steps:\n- {key: leaky, command: " + json.dumps(f"login {SECRET}") + "}\n"
    made = cli.pull_request({"k3_tests/alpha/pipeline.yml": pipeline})
    result = upload(cli, made, *dry, HF_TOKEN=SECRET)
    assert (result.code, result.out) == (1, "")
    assert not cli.agent.uploads
    (line,) = [line for line in result.err.splitlines() if "[upload-secret]" in line]
    assert line.startswith("leaky: the value of HF_TOKEN")
    assert SECRET not in result.err + str(cli.agent.annotations if not dry else "")


@pytest.mark.parametrize(
    ("name", "value"),
    [("HF_TOKEN", "short"), ("MODEL_NAME", "facebook/opt-125m"), ("HF_TOKEN", "another-secret")],
)
def test_what_is_no_secret_of_the_environment_is_written_as_it_is(cli: Cli, name: str, value: str) -> None:
    pipeline = "steps:\n- {key: open, command: login short facebook/opt-125m}\n"
    made = cli.pull_request({"k3_tests/alpha/pipeline.yml": pipeline})
    assert upload(cli, made, "--dry-run", **{name: value}).code == 0


@pytest.mark.slow
def test_an_annotation_that_fails_does_not_fail_the_step(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    result = upload(cli, made, FAKE_AGENT_ANNOTATE_EXIT="7")
    assert result.code == 0
    assert "warning" in result.err
    assert cli.agent.keys() == {"alpha", "gamma"}


@pytest.mark.slow
def test_a_retried_upload_step_uploads_nothing_twice_and_ends_well(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    assert upload(cli, made).code == 0
    again = upload(cli, made, BUILDKITE_RETRY_COUNT="1")
    assert again.code == 0, again.err
    assert len(cli.agent.uploads) == 1
    assert "already" in again.err


def test_without_an_agent_a_skipped_build_still_ends_well(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    environ = pull_request_environ(made)
    result = cli.run(made.checkout.path, "upload", environ=environ, agent=False)
    assert result.code == 0
    assert "every changed file is trivial" in result.err
    assert (
        "\n1 changed file\n  docs/guide.md (trivial)\n\n"
        "alpha: SKIP by the rule only-trivial\n  files: docs/guide.md\n"
        "  to turn it round: put the label force-ci on the pull request" in result.err
    )


def test_without_an_agent_an_upload_is_an_error_with_a_hint(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    result = cli.run(made.checkout.path, "upload", environ=pull_request_environ(made), agent=False)
    assert result.code == 1
    assert "buildkite-agent is not on the path" in result.err
    assert "\nalpha: RUN by the rule paths-match\n  files: src/core.py\n" in result.err
    assert "hint:" in result.err


def test_a_broken_suite_uploads_nothing_and_annotates_the_error(cli: Cli) -> None:
    made = cli.pull_request({"k3_tests/alpha/pipeline.yml": "stepz: []\n"})
    result = upload(cli, made)
    assert result.code == 1
    assert kinds(cli) == ["annotate"]
    (body,) = cli.agent.annotations.values()
    assert body.startswith("error")
    assert "k3_tests/alpha/pipeline.yml:1:1: stepz: unknown key" in result.err


def test_a_name_that_no_suite_has_is_a_usage_error(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    result = upload(cli, made, "alpah")
    assert result.code == 2
    assert "did you mean 'alpha'?" in result.err
    assert cli.agent.keys() == set()


def test_names_narrow_an_upload_but_docs_still_pass_by_themselves(cli: Cli) -> None:
    made = cli.pull_request({"docs/guide.md": "better\n"})
    assert upload(cli, made, "alpha").code == 0
    assert cli.agent.keys() == set()


@pytest.mark.slow
def test_bkgen_only_narrows_like_a_name(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    assert upload(cli, made, BKGEN_ONLY="gamma").code == 0
    assert cli.agent.keys() == {"gamma"}


def test_a_dry_run_prints_the_document_and_calls_no_agent(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    result = upload(cli, made, "--dry-run", "--json")
    assert result.code == 0
    assert {step["key"] for step in result.json()["steps"]} == {"alpha", "gamma"}
    assert cli.agent.calls == []


def test_same_inputs_give_the_same_bytes(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    first, second = (upload(cli, made, "--dry-run", "--json") for _ in range(2))
    assert first.out == second.out
    assert first.err == second.err


@pytest.mark.slow
def test_the_commands_reach_the_agent_exactly_as_written(cli: Cli) -> None:
    command = r"""for f in $FILES; do echo "${f%.py}" '\$x' $(date) 🚀; done"""
    text = f"steps:\n- command: {json.dumps(command, ensure_ascii=False)}\n"
    made = cli.pull_request({"src/core.py": "core = 2\n"}, {**THREE, **suite("delta", text)})
    assert upload(cli, made, "delta").code == 0
    assert cli.agent.uploads[0]["steps"][0]["command"] == command
    (call,) = [call for call in cli.agent.calls if call["command"] == "pipeline upload"]
    assert "--no-interpolation" in call["arguments"]


@pytest.mark.slow
def test_more_than_500_jobs_go_up_in_several_uploads_dependencies_first(cli: Cli) -> None:
    wide = "steps:\n- {command: ./run.sh, key: first, parallelism: 400}\n- {command: ./run.sh, key: late, depends_on: base}\n"
    more = {
        **suite("wide", wide),
        **suite("base", "steps: [{command: ./run.sh, parallelism: 300, key: base}]\n"),
    }
    made = cli.pull_request({"src/core.py": "core = 2\n"}, {**THREE, **more})
    result = upload(cli, made)
    assert result.code == 0, result.err
    groups = [[step["key"] for step in document["steps"]] for document in cli.agent.uploads]
    assert len(groups) == 2
    assert "base" in groups[0]
    assert "wide" in groups[1]


@pytest.mark.slow
def test_a_fork_cannot_change_what_is_emitted(cli: Cli) -> None:
    evil = unit_pipeline().replace("gpus: 1", "gpus: 8, privileged: true")
    made = cli.pull_request({"k3_tests/gamma/pipeline.yml": evil, "bkgen.yml": "tests_dir: other\n"})
    fork = {
        "BUILDKITE_BRANCH": "someone:feature",
        "BUILDKITE_PULL_REQUEST_REPO": "https://example.invalid/x/y.git",
    }
    result = upload(cli, made, **fork)
    assert result.code == 0, result.err
    assert cli.agent.keys() == ALL
    for step in cli.agent.uploads[0]["steps"]:
        container = step["plugins"][0]["kubernetes"]["podSpec"]["containers"][0]
        assert "securityContext" not in container
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_in_mid_upload_ends_cleanly(cli: Cli, stop: signal.Signals, tmp_path: Path) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    cli.agent.directory.mkdir()
    environ = {
        **os.environ,
        **pull_request_environ(made),
        "PATH": f"{FAKES}{os.pathsep}{os.environ['PATH']}",
        "FAKE_AGENT_DIR": str(cli.agent.directory),
        "FAKE_AGENT_SLEEP": "30",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    (tmp_path / "tmp").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "bkgen", "upload"], cwd=made.checkout.path, env=environ, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 20
    while "pipeline upload" not in kinds(cli) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(stop)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130, err.decode()
    assert b"/bkgen/cli/" not in err, "a traceback of bkgen's own"
    assert list((tmp_path / "tmp").iterdir()) == []
