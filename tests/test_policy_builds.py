"""Labels and cadences by the command line: what an environment makes of a build."""

from __future__ import annotations

import pytest

from bkrun import Cli, pull_request_environ, unit_pipeline
from bkrun import suite as suite_files
from gitrepo import Checkout, repository

CADENCE_SETTINGS = """\
version: 1
policy:
  labels: {long: over 30 minutes, megatron: distributed}
  cadences:
    nightly: {schedule: true, minus: [long], label: run-ci-nightly}
    weekly: {}
profiles:
  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8, image: "example/ci:1"}
"""
REPOSITORY = {
    "bkgen.yml": CADENCE_SETTINGS,
    "src/core.py": "core = 1\n",
    "docs/guide.md": "guide\n",
    **suite_files("quick", unit_pipeline("src/**")),
    **suite_files("slow", "when: {labels: [long]}\n" + unit_pipeline()),
    **suite_files("train", "when: {labels: [megatron]}\n" + unit_pipeline()),
    **suite_files("nightlies", "when: {cadence: nightly}\n" + unit_pipeline()),
}
SCHEDULE = {
    "BUILDKITE": "true",
    "BUILDKITE_BUILD_ID": "b-1",
    "BUILDKITE_JOB_ID": "j-1",
    "BUILDKITE_AGENT_ACCESS_TOKEN": "a-token",
    "BUILDKITE_SOURCE": "schedule",
    "BUILDKITE_BRANCH": "main",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One repository for all that only read it."""
    return repository(tmp_path_factory.mktemp("cadences") / "repo", files=REPOSITORY)


EVERY_DAY = {"quick", "train", "nightlies"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, EVERY_DAY),
        ({"BKGEN_CADENCE": "nightly"}, EVERY_DAY),
        ({"BKGEN_CADENCE": "weekly"}, {"quick", "slow", "train"}),
        ({"BUILDKITE_SOURCE": "ui"}, {"quick"}),
        ({"BUILDKITE_SOURCE": "ui", "BKGEN_CADENCE": " nightly "}, EVERY_DAY),
        ({"BUILDKITE_SOURCE": "trigger_job", "BKGEN_CADENCE": "weekly"}, {"quick", "slow", "train"}),
    ],
    ids=[
        "a schedule that names none has the marked cadence",
        "a schedule that names nightly",
        "a schedule that names another cadence",
        "a build by hand is regular",
        "a build by hand may name a cadence",
        "a triggered build may name a cadence",
    ],
)
def test_the_cadence_of_a_build_decides_what_goes_up(
    cli: Cli, made: Checkout, more: dict[str, str], expected: set[str]
) -> None:
    result = cli.run(made.path, "upload", "--dry-run", "--json", environ={**SCHEDULE, **more})
    assert result.code == 0, result.err
    assert {step["key"] for step in result.json()["steps"]} == expected
    assert "labels: none;" in result.err


@pytest.mark.parametrize("source", ["schedule", "webhook", "ui"])
def test_a_cadence_that_nothing_declares_uploads_nothing_and_proposes_the_nearest(
    cli: Cli, made: Checkout, source: str
) -> None:
    environ = {**SCHEDULE, "BUILDKITE_SOURCE": source, "BKGEN_CADENCE": "nigthly"}
    result = cli.run(made.path, "upload", environ=environ)
    assert result.code == 1
    assert "BKGEN_CADENCE is 'nigthly', which the settings do not declare" in result.err
    assert "did you mean 'nightly'?" in result.err
    assert cli.agent.uploads == []
    (body,) = cli.agent.annotations.values()
    assert body.startswith("error")


def test_a_schedule_that_names_nothing_where_no_cadence_is_marked_says_so(cli: Cli) -> None:
    made = cli.files({**REPOSITORY, "bkgen.yml": CADENCE_SETTINGS.replace("schedule: true, ", "")})
    result = cli.run(made.path, "upload", "--dry-run", "--json", environ=SCHEDULE)
    assert result.code == 0, result.err
    assert [step["key"] for step in result.json()["steps"]] == ["quick"]
    assert "warning: a schedule started this build, but BKGEN_CADENCE names no cadence" in result.err


def test_a_webhook_never_inherits_the_cadence_of_the_schedule(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"}, REPOSITORY)
    for source in ("webhook", "ui"):
        environ = pull_request_environ(made, BKGEN_CADENCE="nightly", BUILDKITE_SOURCE=source)
        result = cli.run(made.checkout.path, "plan", "--json", environ=environ)
        assert result.json()["policy"]["cadence"] == "regular"
        assert "BKGEN_CADENCE=nightly is ignored" in result.json()["warnings"][0]
        assert {s["suite"] for s in result.json()["suites"] if s["decision"]["verdict"] == "RUN"} == {"quick"}


def test_a_pull_request_asks_for_a_cadence_by_the_label_that_the_settings_name(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"}, REPOSITORY)
    environ = pull_request_environ(made, labels=("bug", " run-ci-nightly "))
    result = cli.run(made.checkout.path, "upload", "--dry-run", "--json", environ=environ)
    assert result.code == 0, result.err
    assert {step["key"] for step in result.json()["steps"]} == EVERY_DAY
    assert "labels: bug, run-ci-nightly; a nightly build admits every label but long" in result.err


def test_a_label_with_the_name_of_a_cadence_that_no_label_asks_for_is_unknown(
    cli: Cli, made: Checkout
) -> None:
    result = cli.run(made.path, "plan", "--json", "--changed", "src/core.py", "--label", "run-ci-weekly")
    assert result.json()["policy"]["cadence"] == "regular"
    assert result.json()["unknown_labels"] == [{"label": "run-ci-weekly", "nearest": None}]


def test_the_flag_names_a_cadence_as_the_variable_does(cli: Cli, made: Checkout) -> None:
    result = cli.run(made.path, "plan", "--json", "--changed", "docs/x.py", "--cadence", "weekly")
    assert result.json()["policy"]["cadence"] == "weekly"
    refused = cli.run(made.path, "plan", "--changed", "docs/x.py", "--cadence", "weakly")
    assert refused.code == 2
    assert "--cadence 'weakly' is no cadence that bkgen.yml declares" in refused.err
    assert "did you mean 'weekly'?" in refused.err
    assert cli.run(made.path, "render", "quick", "--cadence", "weakly").code == 2


@pytest.mark.slow
def test_a_misspelt_label_is_in_log_annotation_and_json_and_uploads_the_same(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"}, REPOSITORY)
    right = cli.run(made.checkout.path, "upload", "--dry-run", "--json", environ=pull_request_environ(made))
    typo = pull_request_environ(made, labels=("run-ci-megatrn",))
    wrong = cli.run(made.checkout.path, "upload", environ=typo)
    assert [right.json()] == cli.agent.uploads
    warning = "the label 'run-ci-megatrn' selects nothing; did you mean 'run-ci-megatron'?"
    assert f"warning: {warning}" in wrong.err
    assert "warning" not in right.err
    (body,) = cli.agent.annotations.values()
    assert body.startswith("warning")
    assert "selects nothing" in body
    shown = cli.run(made.checkout.path, "plan", "--json", environ=typo).json()
    assert shown["warnings"] == [warning]
    assert shown["unknown_labels"] == [{"label": "run-ci-megatrn", "nearest": "run-ci-megatron"}]


@pytest.mark.parametrize(
    ("pipeline", "hint"),
    [
        ("when: {labels: [megatrn]}\n", "did you mean 'megatron'?"),
        ("steps: [{command: ./run.sh, when: {labels: [lnog]}}]\n", "did you mean 'long'?"),
        ("when: {cadence: nigthly}\n", "did you mean 'nightly'?"),
    ],
    ids=["a suite's label", "a step's label", "a suite's cadence"],
)
def test_a_name_in_a_suite_that_the_settings_do_not_declare_is_an_error(
    cli: Cli, pipeline: str, hint: str
) -> None:
    made = cli.files({**REPOSITORY, **suite_files("odd", pipeline)})
    result = cli.run(made.path, "plan", "--changed", "src/core.py")
    assert result.code == 1
    assert "k3_tests/odd/pipeline.yml:1:" in result.err
    assert "is declared nowhere in the settings" in result.err
    assert hint in result.err
