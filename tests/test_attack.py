"""What a careless or hostile user tries: one line says what is wrong, or exactly what was written goes up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.check import check_repository
from bkgen.config.load import load_configuration
from bkgen.config.trees import CommitTree, WorkTree
from bkgen.errors import UserError
from bkgen.generate.phases import generate, select
from bkgen.globs import Patterns
from bkgen.report.annotation import annotation
from bkgen.scaffold.new import write_suite
from bkgen.scalars import natural
from bkgen.verify import PodRules, verify_steps
from bkgen.verify.catalogue import as_steps, rules
from bkgen.yamlio import load
from bkrun import FAKES, Cli, Result, suite, unit_pipeline
from decisions import Files, plan, pull_request
from decisions import suite as memory_suite
from gitrepo import Content, Link

pytestmark = pytest.mark.slow

P = "k3_tests/unit/pipeline.yml"
JOB = {
    "BUILDKITE": "true", "BUILDKITE_JOB_ID": "j", "BUILDKITE_AGENT_ACCESS_TOKEN": "t", "BUILDKITE_SOURCE": "webhook",
    "BUILDKITE_BRANCH": "feature",
}  # fmt: skip
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


def test_pods_of_keys_that_make_one_name_are_told_apart(cli: Cli) -> None:
    keys = ["a_b", "a-b", "A-B", "l" * 70, "l" * 71]
    steps = "".join(f"- {{command: x, key: {key}, pod: {{}}}}\n" for key in keys)
    root = cli.files({**suite("unit", f"steps:\n{steps}"), "bkgen.yml": SETTINGS}).path
    result = cli.run(root, "render", "unit", "--pods", "--json")
    assert result.code == 0, result.err
    names = [pod["metadata"]["name"] for pod in result.json()["items"]]
    assert names == ["a-b", "a-b-2", "a-b-3", "l" * 63, "l" * 56 + "-2"]


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


# -- values of every kind in every place -----------------------------------------------------------------------


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of everything inside `value`."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.mark.parametrize(
    "odd", [["x"], {"a": None}, None, 10**30], ids=["a list", "a map", "nothing", "a huge number"]
)
def test_no_value_in_any_place_of_a_step_or_pod_is_too_odd_for_verification(odd: object) -> None:
    for rule in rules():
        text = json.dumps(as_steps(rule.about, natural(load(rule.failing.encode(), "example").value)))
        settings = PodRules(**rule.settings)
        for path in places(json.loads(text)):
            steps = json.loads(text)
            holder = steps
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = odd
            assert isinstance(verify_steps(steps, settings), dict), (rule.code, path)


# -- the command line and its surroundings ---------------------------------------------------------------------


def spawned(root: Path, command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A shell command in which `bkgen` is a program of its own; for what concerns its standard streams."""
    program = f'bkgen() {{ "{sys.executable}" -m bkgen "$@"; }}; {command}'
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parent.parent),
        # A limit on the size of files would leave halves of compiled modules behind.
        "PYTHONDONTWRITEBYTECODE": "1",
        **environ,
    }
    return subprocess.run(["bash", "-c", program], cwd=root, env=env, capture_output=True, text=True)


@pytest.fixture
def unit(cli: Cli) -> Path:
    """A repository of one suite."""
    return cli.files({**UNIT, "src/a.py": "", "docs/a.md": ""}).path


@pytest.mark.parametrize("command", ["plan <&- >&- 2>&-", "render unit >&-", "check >&-"])
def test_a_closed_standard_stream_is_nobody_reading(command: str, unit: Path) -> None:
    done = spawned(unit, f"bkgen {command}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_full_disk_behind_standard_output_is_the_environments_failure(unit: Path) -> None:
    done = spawned(unit, "bkgen render unit >/dev/full")
    assert done.returncode == 75
    assert done.stderr.startswith("bkgen: No space left on device\n  hint: ")
    assert "Traceback" not in done.stderr


def test_a_full_disk_behind_standard_error_stops_nothing(unit: Path) -> None:
    done = spawned(unit, "bkgen plan --changed src/a.py 2>/dev/full")
    assert done.returncode == 0
    assert "src/a.py changed" in done.stdout


def test_a_deleted_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = spawned(tmp_path / "gone", 'rmdir "$PWD"; bkgen plan; bkgen render unit')
    assert done.returncode == 1
    assert done.stderr.count("the current directory is gone [no-directory]\n") == 2


@pytest.mark.parametrize("limit", [0, 1])
def test_a_temporary_file_that_does_not_fit_is_worth_a_retry(limit: int, cli: Cli) -> None:
    # 1 is a KiB: the file can be made, and the pipeline is longer.
    root = cli.files(suite("unit", step("label: '" + "x" * 2000 + "'"))).path
    cli.agent.directory.mkdir()
    done = spawned(
        root,
        f"ulimit -f {limit}; bkgen upload --changed k3_tests/unit/run.sh",
        PATH=f"{FAKES}{os.pathsep}{os.environ['PATH']}",
        FAKE_AGENT_DIR=str(cli.agent.directory),
        **JOB,
    )
    assert done.returncode == 75
    assert "bkgen: a temporary file could not be written" in done.stderr
    assert not (cli.agent.directory / "uploads").exists() or not cli.agent.uploads


CHANGED: dict[str, tuple[list[str], str]] = {
    "no file": (["--changed"], "--changed names no file"),
    "no file before the end of the options": (["--changed", "--", "unit"], "--changed names no file"),
    "an empty name": (["--changed", ""], "--changed '' is no file of the repository"),
    "the root": (["--changed", "."], "--changed '.' is no file of the repository"),
    "a file outside": (["--changed", "src/../../x"], "--changed 'src/../../x' is no file of the repository"),
    "an absolute file outside": (["--changed", "/etc/passwd"], "--changed '/etc/passwd' is no file of the repository"),
    "a name that YAML cannot hold": (["--as-case", "--changed", "a\udcff"], r"'a\xff' is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_changed_takes_files_of_the_repository(name: str, cli: Cli, unit: Path) -> None:
    arguments, expected = CHANGED[name]
    result = cli.run(unit, "plan", *arguments)
    assert result.code == 2
    assert f"bkgen: {expected}" in result.err


@pytest.mark.parametrize("folder", [".", "src", "docs"])
def test_changed_takes_an_absolute_name_from_anywhere(folder: str, cli: Cli, unit: Path) -> None:
    result = cli.run(unit / folder, "plan", "--json", "--changed", str(unit / "docs/a.md"), "x" * 300)
    assert [file["path"] for file in result.json()["changes"]["files"]] == ["docs/a.md", "x" * 300]


@pytest.mark.parametrize("number", ["abc", "-1", "1.5", "²", "true"])
def test_a_pull_request_without_a_number_is_not_taken_for_none(number: str, cli: Cli, unit: Path) -> None:
    result = cli.run(unit, "plan", environ={**JOB, "BUILDKITE_PULL_REQUEST": number})
    assert result.code == 1
    assert f"BUILDKITE_PULL_REQUEST is '{number}', which is no number [build-pull-request]" in result.err


def test_empty_variables_of_buildkite_are_unset_ones() -> None:
    names = ["BUILDKITE_SOURCE", "BUILDKITE_PULL_REQUEST", "BUILDKITE_TAG", "BUILDKITE_REPO", "BKGEN_CADENCE"]
    assert Build.from_environ({**JOB, **dict.fromkeys(names, "")}) == Build.from_environ(JOB)


@pytest.mark.parametrize(
    ("environ", "code"), [({"BKGEN_ONLY": "untt"}, 2), ({"BKGEN_CADENCE": "nigthly"}, 1)]
)
def test_an_upload_that_comes_to_nothing_is_annotated(
    environ: dict[str, str], code: int, cli: Cli, unit: Path
) -> None:
    result = cli.run(unit, "upload", environ={**JOB, **environ})
    assert result.code == code
    assert cli.agent.annotations["bkgen"].startswith("error\n**bkgen uploaded nothing")
    assert not cli.agent.uploads


def test_a_tags_name_reaches_no_terminal_as_it_is(cli: Cli, unit: Path) -> None:
    tag = "v1\x1b]0;owned\x07"
    for command in ("plan", "why unit"):
        result = cli.run(unit, *command.split(), environ={**JOB, "BUILDKITE_TAG": tag})
        assert result.code == 0, result.err
        assert "\x1b" not in result.out + result.err
        assert "this build is for the tag v1" in result.out


def test_a_directorys_name_reaches_no_terminal_as_it_is(cli: Cli, unit: Path) -> None:
    name = "k3_tests/\x1b]0;owned\x07\n\udcff"
    (unit / name).mkdir()
    (unit / name / "x").touch()
    for command in ("plan", "check", "render unit"):
        result = cli.run(unit, *command.split())
        said = result.out + result.err
        assert result.code == 1
        assert r"\x1b]0;owned\x07" in said
        assert "\x1b" not in said
        assert "\x07" not in said


def test_of_two_who_make_one_suite_the_second_is_told(cli: Cli, unit: Path) -> None:
    files = {"run.sh": "", "pipeline.yml": ""}
    write_suite(unit, "k3_tests/new", files)
    with pytest.raises(UserError, match="k3_tests/new: this is here already"):
        write_suite(unit, "k3_tests/new", {"run.sh": "other"})
    assert sorted(path.name for path in (unit / "k3_tests").iterdir()) == ["new", "unit"]
    assert (unit / "k3_tests/new/run.sh").read_text() == ""


# -- the annotation --------------------------------------------------------------------------------------------

HOSTILE = (
    "<img src=x onerror=alert(1)>", "[a](javascript:x)", "![a](//b)", "`code`", "**b**", "a|b", "~~s~~", "&lt;b&gt;", "#1",
    "@all", "www.example.com", "https://example.com", "<!-- -->", "</details>", "\\<b>", "$x$", ":tada:", "a\nb",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("changed", ["src", "docs"])
def test_an_annotation_shows_names_and_obeys_none(text: str, changed: str) -> None:
    build = pull_request(labels=(f"run-ci-{text}",), tag=text if changed == "src" else None)
    body = annotation(plan([memory_suite()], [f"{changed}/{text}.md"], build=build))
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body)
    inline = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inline} <= {
        "text", "softbreak", "strong_open", "strong_close", "text_special",
    }  # fmt: skip
    assert {token.content for token in tokens if token.type == "html_block"} <= {
        "<details open><summary>1 suite skipped</summary>\n", "</details>\n",
        "<details open><summary>1 changed file</summary>\n", "<details><summary>1 changed file</summary>\n",
    }  # fmt: skip
    # GitHub's dialect makes links of these without any mark.
    assert not re.search(r"://|www\.|@all", body)
    assert text.replace("\n", r"\n") in "".join(child.content for child in inline)


@pytest.mark.parametrize("name", ["---", "- a", "1. a", "+ a", "# a", "=", "    a"])
def test_a_changed_file_begins_no_block_of_the_annotation(name: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(annotation(plan([memory_suite()], [name])))
    assert not {token.type for token in tokens} & {
        "hr",
        "bullet_list_open",
        "ordered_list_open",
        "heading_open",
    }
    assert name.strip() in [token.content.replace("&#35;", "#") for token in tokens if token.type == "inline"]


def test_an_annotation_says_how_many_warnings_it_leaves_out() -> None:
    build = pull_request(labels=tuple(f"run-ci-{number}" for number in range(1000)))
    body = annotation(plan([memory_suite()], build=build))
    assert body.count(":warning:") == 50
    assert "- … and 950 more; the job's log has them all" in body


# -- size ------------------------------------------------------------------------------------------------------

DETOURS = {
    "many deep wildcards": ("**/a/" * 60 + "c", "a/" * 400 + "b", "a/" * 400 + "c"),
    "deep wildcards between names that come again": (
        "tests/**/data/**/x*/**/*.json",
        "tests/" + "data/" * 400 + "xx/" * 300 + "y",
        "tests/" + "data/" * 400 + "xx/" * 300 + "y.json",
    ),
    "many stars in a name": ("*a" * 14 + "b", "a" * 250, "a" * 250 + "b"),
    "many stars between brackets": ("[a-z]*" * 40 + "Q", "a" * 250, "a" * 250 + "Q"),
}


@pytest.mark.parametrize("name", DETOURS)
def test_no_name_of_a_file_makes_a_pattern_search_for_ever(name: str) -> None:
    pattern, other, matching = DETOURS[name]
    began = time.monotonic()
    assert Patterns([pattern]).match(other) is None
    assert Patterns([pattern]).match(matching) == pattern
    assert time.monotonic() - began < 5


LARGE: dict[str, str] = {
    "a thousand groups": "".join(f"- {{group: g{n}, steps: [{{command: x{n}}}]}}\n" for n in range(1000)),
    "a thousand steps of one label": "- {command: x, label: same}\n" * 1000,
    "a thousand waits": "- {command: x}\n- wait\n" * 1000,
}


@pytest.mark.parametrize("name", LARGE)
def test_time_grows_with_the_number_of_steps_and_not_with_its_square(name: str) -> None:
    settings = "limits: {jobs_per_upload: 10000, jobs_per_build: 10000}\n"
    lines = LARGE[name].splitlines(keepends=True)

    def calls(part: list[str]) -> int:
        count = 0

        def counted(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event in {"call", "c_call"}

        sys.setprofile(counted)
        try:
            rendered(settings, unit="steps:\n" + "".join(part))
        finally:
            sys.setprofile(None)
        return count

    calls(lines[:20])
    half, whole = calls(lines[: len(lines) // 2]), calls(lines)
    assert whole < 2.3 * half
