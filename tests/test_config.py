"""Every mistake in a file is a line with place, fault and hint; YAML surprises stay the text that was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.config.load import load_configuration
from bkgen.config.trees import CommitTree, WorkTree
from bkgen.errors import UserError
from bkgen.scalars import Plain, natural
from bkgen.yamldump import dump
from bkgen.yamlio import load
from bkrun import RUN, Cli, suite
from decisions import Files

P = "k3_tests/unit/pipeline.yml"
STEP = "steps:\n- command: ./run.sh\n"


def loading(text: str | bytes, settings: str | bytes | None = None) -> Any:
    files: dict[str, str | bytes] = {P: text, "k3_tests/unit/run.sh": ""}
    if settings is not None:
        files["bkgen.yml"] = settings
    return load_configuration(Files(files))


BARE = "profiles: {default: {gpu_resource: nvidia.com/gpu}, bare: {}}\n"


def message(text: str | bytes, settings: str | bytes | None = BARE) -> str:
    with pytest.raises(UserError) as error:
        loading(text, settings)
    return str(error.value)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"b{i}: &b{i} [{','.join([f'*b{i - 1}' if i else '*a'] * 10)}]\n" for i in range(9)
)
MISTAKES: dict[str, tuple[str | bytes, str]] = {
    "a duplicate key": ("steps: []\nsteps: []\n", f"{P}:2:1: the key 'steps' is here twice"),
    "an unknown key at the top": ("stepz: []\n", f"{P}:1:1: stepz: unknown key [spec-unknown-key]\n  hint: did you mean 'steps'?"),
    "an unknown key of a step": (STEP + "  timeout_in_minute: 5\n", f"{P}:3:3: steps[0].timeout_in_minute: unknown key"),
    "an unknown key of a pod": ("pod: {gpu: 1}\n", f"{P}:1:7: pod.gpu: unknown key [spec-unknown-key]\n  hint: did you mean 'gpus'?"),
    "an unknown key of when": ("when:\n  path: [a]\n", f"{P}:2:3: when.path: unknown key"),
    "an unknown key deep in a retry": (STEP + "  retry: {automatic: [{limits: 1}]}\n", f"{P}:3:24: steps[0].retry.automatic[0].limits"),
    "an unknown key of a mirror": ("steps:\n- command: x\n  mirrors: {default: {softfail: true}}\n", "mirrors.default.softfail: unknown key"),
    "a tab": ("steps:\n\t- command: x\n", f"{P}:2:1: found"),
    "another encoding": (b"description: caf\xe9\n", f"{P}:1:17: byte 0xe9 is not UTF-8"),
    "UTF-16": ("steps: []".encode("utf-16"), f"{P}:1:1: byte 0xff is not UTF-8"),
    "a control character": (b"description: \x07\n", f"{P}:1:14: control character U+0007"),
    "an alias bomb": (BOMB, "unfold to more than 2,000,000 values"),
    "an anchor that holds itself": ("x-a: &a [*a]\n", "this anchor contains itself"),
    "deep nesting": ("[" * 300 + "]" * 300, "more than 100 levels"),
    "an undefined alias": ("steps: *gone\n", "found undefined alias"),
    "an empty file": ("", f"{P}:1:1: the file is empty"),
    "only comments": ("# later\n", f"{P}:1:1: the file is empty"),
    "a list where a map belongs": ("- command: x\n", f"{P}:1:1: the file must be a map of keys, not a list"),
    "a text where a map belongs": ("hello\n", f"{P}:1:1: the file must be a map of keys"),
    "two documents": ("steps: [wait]\n---\nsteps: [wait]\n", f"{P}:3:1: a second document starts here"),
    "a custom tag": ("description: !include x\n", f"{P}:1:14: the tag '!include' is not known"),
    "a key that is a list": ("? [a]\n: b\n", f"{P}:1:3: a key is text"),
    "a key that is nothing": ("~: b\n", "a key is missing"),
    "a merge of a text": ("x-a: &a text\nenv: {<<: *a}\n", "'<<' takes a map"),
    "no steps in the list": ("steps: []\n", f"{P}:1:8: steps: the list is empty"),
    "steps that are a map": ("steps: {command: x}\n", f"{P}:1:8: steps: a list is wanted, not a map"),
    "a null step": ("steps: [null]\n", f"{P}:1:9: steps[0]: a step is a map"),
    "a step that is an unknown word": ("steps: [weit]\n", "steps[0]: a step is a map, or one of wait"),
    "a step without a type": ("steps:\n- label: x\n", f"{P}:2:3: steps[0]: this step has no type"),
    "a misspelt type": ("steps:\n- comand: x\n", "did you mean 'command' by 'comand'?"),
    "a group in a group": ("steps:\n- group: a\n  steps:\n  - group: b\n    steps: [wait]\n", "a group cannot hold a group"),
    "an empty group": ("steps:\n- group: a\n  steps: []\n", "the list is empty"),
    "a map in a list of commands": ("steps:\n- command:\n  - echo a: b\n", "steps[0].command: item 1 is a map"),
    "text for a number": (STEP + '  parallelism: "4"\n', f"{P}:3:16: steps[0].parallelism: a whole number is wanted"),
    "a negative number": (STEP + "  parallelism: -2\n", "steps[0].parallelism: -2 is out of range: it must be at least 1"),
    "zero": (STEP + "  timeout_in_minutes: 0\n", "0 is out of range"),
    "a boolean for a number": (STEP + "  parallelism: true\n", "a whole number is wanted, not the text 'true'"),
    "an octal number": (STEP + "  timeout_in_minutes: 012\n", "'012' is not written as a plain decimal whole number"),
    "a sexagesimal number": (STEP + "  timeout_in_minutes: 1:30\n", "'1:30' is not written as a plain decimal"),
    "an underscored number": (STEP + "  timeout_in_minutes: 1_000\n", "'1_000' is not written as a plain decimal"),
    "a decimal for a whole number": (STEP + "  timeout_in_minutes: 1.5\n", "is not written as a plain decimal whole number"),
    "yes for true": ("interpolate: yes\n", f"{P}:1:14: interpolate: write true or false"),
    "on for true": (STEP + "  cancel_on_build_failing: on\n", "write true or false: 'on'"),
    "a list for text": (STEP + "  label: [a]\n", "steps[0].label: text is wanted, not a list"),
    "nothing for a text list": ("when: {paths: []}\n", "when.paths: the list is empty"),
    "a map in the environment": ("env: {A: {b: c}}\n", "env.A: text is wanted, not a map"),
    "an unknown signal reason": (STEP + "  retry: {automatic: {signal_reason: agent_stopp}}\n", "did you mean 'agent_stop'?"),
    "an exit status that no process has": (STEP + "  retry: {automatic: {exit_status: 300}}\n", "300 is out of range"),
    "a fraction of a GPU": ("pod: {gpus: 1.5}\n", "a pod takes whole GPUs"),
    "a negative number of GPUs": ("pod: {gpus: -1}\n", "-1 is out of range"),
    "many GPUs": ("pod: {gpus: many}\n", "a whole number is wanted, not the text 'many'"),
    "an unknown hostPath type": (
        "pod: {mounts: [{name: a, mount_path: /a, host_path: /data/a, type: Directoryorcreate}]}\n", "did you mean 'DirectoryOrCreate'?"),
    "an unknown profile": ("pod: {profile: h1000}\n", f"{P}:1:16: pod.profile: the profile 'h1000' is declared nowhere"),
    "an unknown cache": ("pod: {caches: [hugingface]}\n", "the cache 'hugingface' is declared nowhere"),
    "an unknown label": ("when: {labels: [mpp]}\n", "the label 'mpp' is declared nowhere"),
    "an unknown cadence": ("when: {cadence: nightlyy}\n", "the cadence 'nightlyy' is declared nowhere"),
    "an unknown retry preset": (STEP + "  retry: infro\n", "the retry preset 'infro' is declared nowhere"),
    "an unknown mirror": (STEP + "  mirrors: {mi3000: {}}\n", "the profile 'mi3000' is declared nowhere"),
    "scratch that is not declared": ("pod: {scratch: /scratch}\n", "the settings declare no scratch"),
    "only negative patterns": ('when: {paths: ["!docs/**"]}\n', "when.paths"),
    "branches that only take away": ("when: {branches: ['!main']}\n", "a list with only '!' patterns admits no branch"),
    "an empty pattern": ('when: {paths: [""]}\n', "when.paths[0]"),
    "GPUs of a profile that knows none": ("pod: {profile: bare, gpus: 1}\n", "how a GPU is asked for"),
    "a mount of two sources": ("pod: {mounts: [{name: a, mount_path: /a, claim: x, secret: y}]}\n", "the mount has 2 sources"),
    "a mount of no source": ("pod: {mounts: [{name: a, mount_path: /a}]}\n", "the mount has no source"),
    "a secret without a key": ("pod: {secrets: {A: hf}}\n", "does not name a secret and its key"),
    "a pod and a plugin": (
        STEP + "  pod: {}\n  plugins: [{kubernetes: {podSpec: {}}}]\n", "a pod and a kubernetes plugin of its own"),
    "command and commands": (STEP + "  commands: [a]\n", "both command and commands"),
    "shards with a matrix": (STEP + "  shards: 2\n  matrix: [a, b]\n", "shards and matrix cannot be joined"),
    "shards with parallelism": (STEP + "  shards: 2\n  parallelism: 2\n", "say the same thing"),
    "balanced shards": (STEP + "  shards: {count: 2, by: balanced}\n", "by: balanced is reserved"),
    "a timeout below the expectation": (
        STEP + "  expected_minutes: 30\n  timeout_in_minutes: 20\n", "stopped after 20 minutes but takes 30"),
    "a pod that is on": ("pod: on\n", "`pod` is a map or false"),
    "a step that runs nothing": ("steps: [{pod: {}}]\n", "the step runs nothing"),
    "a key of a trigger on a command": (
        STEP + "  async: true\n", "hint: 'async' belongs to a trigger step, and this is a command step; remove it"),
    "a question on a command": (STEP + "  prompt: why\n", "hint: 'prompt' belongs to a block or input step, and this is"),
    "a wait on a command": (STEP + "  wait: ~\n", "hint: 'wait' belongs to a wait step, and this is a command step"),
    "a command's key on a wait in a group": (
        "steps:\n- group: g\n  steps:\n  - {wait: ~, env: {A: b}}\n",
        "steps[0].steps[0].env: unknown key [spec-unknown-key]\n  hint: 'env' belongs to a command step, and this is a wait step"),
    "steps of which none is left": ("description: x\nsteps:\n  # - command: ./run.sh\n", f"{P}:2:7: steps: the key is here, but no step is below it"),
    "no word for an alias": (STEP + "  if_: x\n", "steps[0].if_: unknown key"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_suite(case: tuple[str | bytes, str]) -> None:
    text, expected = case
    shown = message(text)
    assert expected in shown
    assert "hint: " in shown
    assert shown.startswith(f"{P}:")


SETTINGS_MISTAKES = {
    "an unknown key": ("queues: k8s\n", "bkgen.yml:1:1: queues: unknown key [spec-unknown-key]\n  hint: did you mean 'queue'?"),
    "a wrong version": ("version: 2\n", "version"),
    "an unknown default profile": ("default_profile: h1\n", "the profile 'h1' is declared nowhere"),
    "a label in minus that is not declared": (
        "policy: {labels: {a: b}, cadences: {nightly: {minus: [c]}}}\n", "the label 'c' is declared nowhere"),
    "two schedules": (
        "policy: {cadences: {a: {schedule: true}, b: {schedule: true}}}\n", "'a' is the schedule's cadence already"),
    "a cadence called regular": ("policy: {cadences: {regular: {}}}\n", "'regular' is the name of builds without"),
    "a cache of two sources": ("caches: {a: {mount_path: /a, host_path: /b, claim: c}}\n", "either a host_path or a claim"),
    "a factor below one": ("timeout_factor: 0.5\n", "0.5 is out of range"),
    "an unknown preset": ("default_retry: infro\n", "the retry preset 'infro' is declared nowhere"),
    "only negative trivial patterns": ('filter: {trivial: ["!a"]}\n', "filter.trivial"),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS_MISTAKES.values(), ids=SETTINGS_MISTAKES)
def test_a_mistake_in_the_settings(case: tuple[str, str]) -> None:
    text, expected = case
    shown = message(STEP, text)
    assert expected in shown
    assert shown.startswith("bkgen.yml:")


def test_all_problems_of_all_files_come_at_once() -> None:
    files = {
        "bkgen.yml": "queues: 1\n",
        "k3_tests/a/pipeline.yml": "stepz: 1\nsteps:\n- {command: x, labell: y}\n",
        "k3_tests/a/run.sh": "",
        "k3_tests/b/run.sh": "",
        "k3_tests/c/pipeline.yml": "a: 1\na: 2\n",
        "k3_tests/c/run.sh": "",
    }
    with pytest.raises(UserError) as error:
        load_configuration(Files({**files, "bkgen.yml": "version: 1\n"}))
    codes = [(d.position.file if d.position else "", d.code) for d in error.value.diagnostics]
    assert codes == [
        ("k3_tests/a/pipeline.yml", "spec-unknown-key"),
        ("k3_tests/a/pipeline.yml", "spec-unknown-key"),
        ("k3_tests/b", "suite-incomplete"),
        ("k3_tests/c/pipeline.yml", "yaml-duplicate-key"),
    ]


@pytest.mark.parametrize("missing", ["run.sh", "pipeline.yml"])
def test_a_suite_that_lacks_a_file_is_an_error(missing: str) -> None:
    files = {P: STEP, "k3_tests/unit/run.sh": ""}
    del files[f"k3_tests/unit/{missing}"]
    with pytest.raises(UserError) as error:
        load_configuration(Files(files))
    assert f"k3_tests/unit:1:1: the suite has no {missing}" in str(error.value)


@pytest.mark.parametrize("name", ["_shared", ".hidden"])
def test_a_directory_with_such_a_name_is_no_suite(name: str) -> None:
    assert load_configuration(Files({f"k3_tests/{name}/x.sh": ""})).suites == ()


def test_symlinks_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "pipeline.yml").write_text(STEP)
    root = tmp_path / "root"
    (root / "k3_tests/a").mkdir(parents=True)
    (root / "k3_tests/a/run.sh").write_text("")
    (root / "k3_tests/a/pipeline.yml").symlink_to(outside / "pipeline.yml")
    (root / "k3_tests/b").symlink_to(outside)
    with pytest.raises(UserError) as error:
        load_configuration(WorkTree(root))
    assert "k3_tests/a/pipeline.yml:1:1: this is a symlink, not a file" in str(error.value)
    assert "a suite cannot be a symlink" in str(error.value)


def test_a_commits_tree_reads_like_a_work_tree(tmp_path: Path) -> None:
    (tmp_path / "k3_tests/unit").mkdir(parents=True)
    (tmp_path / P).write_text(STEP)
    (tmp_path / "k3_tests/unit/run.sh").write_text("")
    commit = CommitTree(
        {P: STEP.encode(), "k3_tests/unit/run.sh": b""}, {P: "100644", "k3_tests/unit/run.sh": "100644"}
    )
    disk = WorkTree(tmp_path)
    assert disk.entries("k3_tests") == commit.entries("k3_tests") == {"unit": "040000"}
    assert disk.entries("k3_tests/unit") == commit.entries("k3_tests/unit")
    assert disk.entries("gone") == commit.entries("gone") == {}
    assert disk.read(P) == commit.read(P)
    assert disk.read("gone") is commit.read("gone") is None
    assert load_configuration(disk).suites[0].spec == load_configuration(commit).suites[0].spec


SURPRISES = ["on", "off", "yes", "no", "y", "n", "012", "0o12", "0x1F", "22:30:00", "12:30", "1.10", "1.0", "1e3", "1_000",
             "2026-11-30", "20261130", "1234e56", ".inf", "+1", "08", "True", "NULL2", "=", "12.10"]  # fmt: skip


@pytest.mark.parametrize("written", SURPRISES)
def test_a_surprise_reaches_buildkite_as_the_text_that_was_written(cli: Cli, written: str) -> None:
    text = f"env: {{F: {written}}}\nsteps:\n- command: {written}\n  label: {written}\n  env: {{A: {written}}}\n  matrix: [{written}]\n"
    made = cli.files(suite("unit", text))
    result = cli.run(made.path, "render", "unit", "--json")
    assert result.code == 0, result.err
    (step,) = result.json()["steps"]
    assert step["env"] == {"F": written, "A": written}
    assert step["command"] == step["label"] == written
    assert step["matrix"] == [written]


def test_nothing_as_an_environment_value_is_an_empty_value(cli: Cli) -> None:
    made = cli.files(suite("unit", "steps:\n- command: x\n  env: {A: , B: ~, C: null}\n"))
    (step,) = cli.run(made.path, "render", "unit", "--json").json()["steps"]
    assert step["env"] == {"A": "", "B": "", "C": ""}


NATURAL = {"1": 1, "-3": -3, "0": 0, "true": True, "False": False, "1.5": 1.5, "1.10": "1.10", "012": "012", "on": "on",
           "999999999999999999999": "999999999999999999999", "1e3": "1e3"}  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), NATURAL.items(), ids=NATURAL)
def test_other_plugins_get_json_values(written: str, meant: object) -> None:
    value = natural({"a": [Plain(written)]})["a"][0]
    assert value == meant
    assert type(value) is type(meant)


def test_a_file_without_settings_works_and_says_nothing() -> None:
    made = loading(STEP)
    assert made.settings.tests_dir == "k3_tests"
    assert loading(STEP, "# nothing yet\n").settings == made.settings
    assert loading(STEP, "x-note: &n {a: 1}\nversion: 1\n").settings == made.settings


def test_extension_keys_and_anchors_share_what_they_name() -> None:
    text = "x-step: &s {command: ./run.sh, env: {A: '1'}}\nsteps:\n- {<<: *s, label: a}\n- <<: [*s, {label: b}]\n  env: {B: '2'}\n"
    first, second = loading(text).suites[0].spec.steps
    assert (first.label, first.env) == ("a", {"A": "1"})
    assert (second.label, second.env) == ("b", {"B": "2"})


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"), max_size=40)
VALUES = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_dumped_for_people_reads_back_the_same_in_yaml_1_2(value: Any) -> None:
    from ruamel.yaml import YAML

    text = dump({"value": value})
    assert json.loads(json.dumps(YAML(typ="safe", pure=True).load(text))) == {"value": value}


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["on", "1", "x y", "~"]), max_size=3)
)
def test_what_is_dumped_reads_back_the_same_here(value: dict[str, str]) -> None:
    document = load(dump(value).encode(), "x.yml")
    assert document.value == value
    for key in value:
        assert document.position([key]).line >= 1


def test_an_executable_with_a_run_bit_is_told_from_one_without(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.sh").write_text(RUN.text)
    (tmp_path / "d/b.sh").write_text(RUN.text)
    (tmp_path / "d/b.sh").chmod(0o755)
    assert WorkTree(tmp_path).entries("d") == {"a.sh": "100644", "b.sh": "100755"}


# -- where the suites are --------------------------------------------------------------------------------------

IN_BUILDKITE = {
    "BUILDKITE": "true",
    "BUILDKITE_BUILD_ID": "b-1",
    "BUILDKITE_JOB_ID": "j-1",
    "BUILDKITE_AGENT_ACCESS_TOKEN": "a-token",
    "BUILDKITE_SOURCE": "ui",
    "BUILDKITE_BRANCH": "main",
}
ELSEWHERE = {**suite("unit", STEP), **suite("deep", STEP, "ci/gpu"), "docs/a.md": "a\n", "alone/b.py": ""}


@pytest.mark.parametrize(
    ("written", "fault", "hint"),
    [
        ("k3_test", "there is no directory 'k3_test'", "did you mean 'k3_tests'?"),
        ("cii/gpu", "there is no directory 'cii/gpu'", "did you mean 'ci/gpu'?"),
        ("a//b", "there is no directory 'a/b'", "there are suites in k3_tests, ci/gpu"),
        ("alone", "'alone' holds no suite", "there are suites in k3_tests, ci/gpu"),
        ("k3_tests/unit", "'k3_tests/unit' is itself a suite", "name the directory above it: k3_tests"),
    ],
    ids=["misspelt", "misspelt above", "invented", "without a suite", "itself a suite"],
)
@pytest.mark.parametrize("command", [("upload",), ("check",)], ids=["upload", "check"])
def test_a_tests_dir_without_suites_is_refused_where_suites_lie_elsewhere(
    cli: Cli, command: tuple[str, ...], written: str, fault: str, hint: str
) -> None:
    made = cli.files({**ELSEWHERE, "bkgen.yml": f"tests_dir: {written}\n"})
    result = cli.run(made.path, *command, environ=IN_BUILDKITE)
    said = result.out + result.err
    assert result.code == 1
    assert f"bkgen.yml:1:12: tests_dir: {fault}" in said
    assert f"[settings-tests-dir]\n  hint: {hint}\n" in said
    assert not cli.agent.uploads
    assert all(body.startswith("error") for body in cli.agent.annotations.values())


@pytest.mark.parametrize(
    ("settings", "place", "found"),
    [
        ("tests_dir: ci/gpu\n", "bkgen.yml:1:12: tests_dir", 1),
        ("", "k3_tests", 0),
    ],
    ids=["its place is written", "its place is not written"],
)
def test_an_upload_of_no_suite_at_all_is_not_green_without_a_word(
    cli: Cli, settings: str, place: str, found: int
) -> None:
    made = cli.files({"README.md": "a\n", "bkgen.yml": settings or "version: 1\n"})
    result = cli.run(made.path, "upload", environ=IN_BUILDKITE)
    assert result.code == 0
    assert f"{place.split(':')[0]}" in result.err
    assert "no build runs anything [settings-no-suites]" in result.err
    (annotation,) = cli.agent.annotations.values()
    assert annotation.startswith("warning")
    assert cli.run(made.path, "check", "--strict").code == found


def test_a_suite_at_the_root_of_the_tests_is_told_to_move_down(cli: Cli) -> None:
    made = cli.files({"unit/pipeline.yml": STEP, "unit/run.sh": RUN, "bkgen.yml": "tests_dir: unit\n"})
    assert "hint: give the suite a directory below it" in cli.run(made.path, "check").out
