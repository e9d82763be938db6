"""What a careless or hostile user tries: one line says what is wrong, or exactly what was written goes up."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.check import check_repository
from bkgen.config.load import load_configuration
from bkgen.config.trees import CommitTree, WorkTree
from bkgen.errors import UserError
from bkgen.generate.phases import generate, select
from bkrun import Cli, Result, suite, unit_pipeline
from decisions import Files
from gitrepo import Content, Link

P = "k3_tests/unit/pipeline.yml"
SETTINGS = """\
policy: {cadences: {nightly: {}}}
profiles:
  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8, image: "example/ci:1"}
  mi300: {gpu_resource: amd.com/gpu, image: "example/amd:1", queue: amd}
"""


def step(attributes: str) -> str:
    """A suite of one step with these attributes (the inside of a YAML map)."""
    return f"steps:\n- {{command: ./run.sh, {attributes}}}\n"


def rendered(settings: str = SETTINGS, **suites: str) -> list[dict[str, Any]]:
    """The steps that the suites become, groups opened."""
    files = {f"k3_tests/{name}/pipeline.yml": text for name, text in suites.items()}
    files |= {f"k3_tests/{name}/run.sh": "" for name in suites}
    configuration = load_configuration(Files({**files, "bkgen.yml": settings}))
    selection = select([*suites], configuration.suites, forced=True)
    generation = generate(configuration, Build(), ChangesNotAsked("all of it"), selection)
    steps = [step for upload in generation.uploads for step in json.loads(upload.document)["steps"]]
    return [inner for one in steps for inner in (one.get("steps") or [one])]


def refusal(settings: str = SETTINGS, **suites: str) -> str:
    """What is said instead of a pipeline."""
    with pytest.raises(UserError) as error:
        rendered(settings, **suites)
    return str(error.value)


# -- a mistake in a suite --------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[str, str]] = {
    "skip: no, which would be taken for a reason": (step("skip: no"), "2:29: steps[0].skip: true, false or a reason"),
    "skip: 0": (step("skip: 0"), "steps[0].skip: true, false or a reason in words is wanted, not '0'"),
    "an if_changed that names no file": (step("if_changed: []"), "steps[0].if_changed: it names no file"),
    "an if_changed without include": (step("if_changed: {exclude: [a]}"), "steps[0].if_changed: it names no file"),
    "an if_changed of true": (step("if_changed: true"), "steps[0].if_changed: a glob is wanted, not true"),
    "a matrix of nothing": (step("matrix: []"), "steps[0].matrix: the list is empty"),
    "a matrix without setup": (step("matrix: {}"), "steps[0].matrix: the key 'setup' is missing"),
    "an adjustment that names no combination": (
        step("matrix: {setup: [a], adjustments: [{skip: true}]}"), "matrix.adjustments[0]: the key 'with' is missing"
    ),
    "an adjustment of half the dimensions": (
        step("matrix: {setup: {a: [x], b: [y]}, adjustments: [{with: {a: x}}]}"), "an adjustment that does not give every"
    ),
    "a NUL character in a variable": (step(r'env: {A: "a\0b"}'), "2:32: a NUL character"),
    "a step of three keys": (step("key: a, id: b, identifier: c"), "steps[0].key: the step has 3 keys"),
    "an agent tag without a value": (step("agents: [gpu], pod: {}"), "steps[0].agents[0]: a tag is written key=value"),
    "a kubernetes plugin that is a list": (step("plugins: [{kubernetes: [a]}]"), "kubernetes: a map is wanted, not a list"),
    "a misspelt channel": ("notify: [{slak: x}]\n", "notify[0]: nobody can be told by 'slak'; did you mean 'slack'?"),
    "a channel's entry with a condition alone": ("notify: [{if: x}]\n", "notify[0]: an entry says whom to tell"),
    "a timeout of two million years": (step("timeout_in_minutes: 999999999999999999"), "it must be at most 1,000,000"),
    "a deadline of two million years": (step("pod: {active_deadline_minutes: 999999999999}"), "it must be at most 1,000,000"),
    "an expectation with a longer number than 64 bits": (step("expected_minutes: 99999999999999999999.5"), "at most 1,000,000"),
    "a container whose name is a list": (step("pod: {spec: {containers: [{name: [a]}]}}"), "containers.0.name: text is wanted"),
    "a container whose name is a map": (step("pod: {spec: {containers: [{name: {a: b}}]}}"), "containers.0.name: text is wanted"),
    "a number of GPUs in superscript": (
        step("plugins: [{kubernetes: {podSpec: {containers: [{image: 'x:1', resources: {limits: {nvidia.com/gpu: ²}}}]}}}]"),
        "'²' is not a quantity",
    ),
    "a mirror of a plugin that was written out": (
        step("plugins: [{kubernetes: {podSpec: {containers: [{image: 'x:1'}]}}}], mirrors: {mi300: }"),
        "steps[0].mirrors: a mirror runs on other hardware",
    ),
    "an empty image": (step("pod: {image: ''}"), "steps[0].pod.image: the text is empty"),
    "durations outside the suite": (
        step("shards: {count: 2, durations: ../../secret}"), "'../../secret' does not lie in the suite's directory"
    ),
    "no cadence at all": ("when: {cadence: []}\n", "when.cadence: the list is empty"),
    "an empty branch": ("when: {branches: ['']}\n", "when.branches[0]: the text is empty"),
    "waits with nothing between them": ("steps: [wait, wait]\n", "steps: nothing in this file can run"),
    "a group of waits alone": ("steps: [{group: g, steps: [wait]}]\n", "steps: nothing in this file can run"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_suite_is_one_line_with_its_place(name: str) -> None:
    text, expected = MISTAKES[name]
    said = refusal(unit=text)
    assert expected in said
    assert f"{P}:" in said


SETTING_MISTAKES: dict[str, tuple[str, str]] = {
    "no profile": ("profiles: {}\n", "bkgen.yml:1:11: profiles: the map is empty"),
    "the root as the directory of the suites": ("tests_dir: .\n", "bkgen.yml:1:12: tests_dir: '.' is no directory below"),
    "no directory of the suites": ("tests_dir: ''\n", "bkgen.yml:1:12: tests_dir: '' is no directory below"),
    "a directory outside the repository": ("tests_dir: ../x\n", "tests_dir: '../x' is no directory below"),
    "an absolute directory": ("tests_dir: /etc\n", "tests_dir: '/etc' is no directory below"),
    "a resource without a domain": ("profiles: {h: {gpu_resource: gpu}}\n", "profiles.h.gpu_resource: 'gpu' is no resource"),
    "an empty queue of a profile": ("profiles: {h: {queue: ''}}\n", "profiles.h.queue: the text is empty"),
    "a label with a comma": ("policy: {labels: {'a,b': x}}\n", "policy.labels.a,b: no build can carry this name"),
    "a label with a blank in front": ("policy: {labels: {' a': x}}\n", "policy.labels. a: no build can carry this name"),
    "a cadence without a name": ("policy: {cadences: {'': {}}}\n", "policy.cadences.: no build can carry this name"),
    "a prefix that begins with a blank": ("policy: {label_prefix: ' '}\n", "policy.label_prefix: no build can carry this name"),
    "an empty force label": ("filter: {force_label: ''}\n", "filter.force_label: no build can carry this name"),
    "a gigantic timeout factor": ("timeout_factor: 1000\n", "timeout_factor: 1000 is out of range: it must be at most 100"),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTING_MISTAKES)
def test_a_mistake_in_the_settings_is_one_line_with_its_place(name: str) -> None:
    text, expected = SETTING_MISTAKES[name]
    assert expected in refusal(text, unit="description: x\n")


@pytest.mark.parametrize("written", ["k3_tests/", "./k3_tests", "k3_tests//", "k3_tests/."])
def test_the_directory_of_the_suites_may_be_spelt_loosely(written: str) -> None:
    (one,) = rendered(f"tests_dir: {written}\n", unit=step("label: x"))
    assert one["command"] == "k3_tests/unit/run.sh"


# -- what was written is what goes up --------------------------------------------------------------------------

KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "skip: False": (step("skip: False"), {"skip": False}),
    "skip: TRUE": (step("skip: TRUE"), {"skip": True}),
    "a reason to skip": (step("skip: no GPU here"), {"skip": "no GPU here"}),
    "a signature": (step("signature: {a: 1, b: [x]}"), {"signature": {"a": 1, "b": ["x"]}}),
    "the file's secrets beside the step's": (
        "secrets: [A]\n" + step("secrets: {C: d}"), {"secrets": {"A": "A", "C": "d"}}
    ),
    "the file's list of secrets beside the step's list": (
        "secrets: [A, B]\n" + step("secrets: [B, C]"), {"secrets": ["A", "B", "C"]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_was_written_is_what_goes_up(name: str) -> None:
    text, expected = KEPT[name]
    (one,) = rendered(unit=text)
    assert {key: one[key] for key in expected} == expected


def test_a_mirror_of_a_plain_step_gets_the_pod_of_its_hardware() -> None:
    plain, mirror = rendered(unit=step("mirrors: {mi300: }"))
    assert "plugins" not in plain
    assert mirror["plugins"][0]["kubernetes"]["podSpec"]["containers"][0]["image"] == "example/amd:1"
    assert mirror["agents"] == {"queue": "amd"}


@pytest.mark.parametrize("mirror", ["{}", "{pod: false}"])
def test_a_mirror_goes_to_the_queue_of_its_hardware_whatever_the_step_says(mirror: str) -> None:
    _, mirrored = rendered(unit=step(f"agents: {{queue: mine, x: y}}, mirrors: {{mi300: {mirror}}}"))
    assert mirrored["agents"] == {"queue": "amd", "x": "y"}


def test_a_wait_that_a_step_depends_on_stays_when_what_is_before_it_is_skipped(cli: Cli) -> None:
    pipeline = (
        "steps:\n- {command: x, when: {paths: [lib/**]}}\n- {wait: null, key: w}\n"
        "- {command: y, key: y, depends_on: w}\n"
    )
    root = cli.files({**suite("unit", pipeline), "lib/a": "", "src/a": ""}).path
    result = cli.run(root, "upload", "--dry-run", "--json", "--changed", "src/a")
    assert result.code == 0, result.err
    assert [one["key"] for one in result.json()["steps"][0]["steps"]] == ["w", "y"]


@pytest.mark.parametrize("plugins", ["[kubernetes]", "{'my-kubernetes#v1': null}", "['my-kubernetes#v1']"])
def test_check_counts_pods_whatever_form_plugins_have(plugins: str, cli: Cli) -> None:
    root = cli.files(suite("unit", step(f"plugins: {plugins}"))).path
    report = check_repository(root, os.environ)
    assert report.errors == 0
    assert report.checked.pods == 0


# -- files that are none ---------------------------------------------------------------------------------------

UNIT: dict[str, Content] = suite("unit", unit_pipeline())


def all_commands(cli: Cli, root: Path) -> dict[str, Result]:
    """What every command that reads the configuration says."""
    commands = ["plan", "check", "render unit", "upload --dry-run", "docs --check", "why unit", "new other"]
    return {command: cli.run(root, *command.split()) for command in commands}


@pytest.mark.parametrize("name", ["bkgen.yml", P, "k3_tests/unit/run.sh"])
@pytest.mark.parametrize("kind", ["a pipe or a device", "a directory", "a symlink"])
def test_what_is_no_file_is_named_by_every_command_and_never_read(name: str, kind: str, cli: Cli) -> None:
    root = cli.files({**UNIT, "bkgen.yml": "version: 1\n"}).path
    (root / name).unlink()
    if kind == "a symlink":
        (root / name).symlink_to("/dev/zero")
    elif kind == "a directory":
        (root / name).mkdir()
    else:
        os.mkfifo(root / name)
    for command, result in all_commands(cli, root).items():
        assert result.code == 1, (command, result.err)
        assert f"{name}:1:1: this is {kind}, not a file" in result.out + result.err, command


@pytest.mark.parametrize("kind", ["a symlink", "a file"])
def test_the_suites_lie_in_a_directory_of_their_own(kind: str, cli: Cli) -> None:
    files = {path.replace("k3_tests", "elsewhere"): content for path, content in UNIT.items()}
    content: Content = Link("elsewhere") if kind == "a symlink" else "x"
    root = cli.files({**files, "k3_tests": content}).path
    for command, result in all_commands(cli, root).items():
        assert result.code == 1, (command, result.err)
        assert f"k3_tests: the directory of the suites is {kind}" in result.out + result.err, command


def test_a_pipe_for_a_path_table_does_not_hold_check_up(cli: Cli) -> None:
    root = cli.files(UNIT).path
    os.mkfifo(root / "k3_tests/paths.test.yml")
    os.mkfifo(root / "k3_tests/unit/lib.sh")
    result = cli.run(root, "check")
    assert result.code == 1
    assert "k3_tests/paths.test.yml:1:1: this is a pipe or a device, not a file" in result.out


def test_a_directory_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: File name too long"):
        WorkTree(tmp_path).entries("x" * 300)
    with pytest.raises(UserError, match="cannot be read: File name too long"):
        WorkTree(tmp_path).read("x" * 300)


def test_a_symlink_in_a_commit_is_no_file_either() -> None:
    with pytest.raises(UserError, match=r"bkgen.yml:1:1: this is a symlink, not a file"):
        CommitTree({}, {"bkgen.yml": "120000"}).read("bkgen.yml")
