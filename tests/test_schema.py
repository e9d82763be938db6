"""bkgen schema: right files pass an independent validator, wrong ones fail it and bkgen alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from bkgen.cli.entry import run
from bkgen.config.load import read_configuration
from bkgen.config.trees import WorkTree
from bkgen.schema import SCHEMAS, field_docs
from checkrepo import SCRIPT, without_git
from gitrepo import Program

ROOT = Path(__file__).resolve().parent.parent
SUITES = sorted(path.parent.name for path in (ROOT / "k3_tests").glob("*/pipeline.yml"))


@cache
def validator(which: str) -> Draft202012Validator:
    schema = SCHEMAS[which]()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(which: str, text: str) -> list[str]:
    """What the validator says of YAML as an editor reads it (YAML 1.2)."""
    value = YAML(typ="safe", pure=True).load(StringIO(text))
    return [f"{error.json_path}: {error.message}" for error in validator(which).iter_errors(value)]


def refused_by_bkgen(directory: Path, which: str, text: str) -> bool:
    """bkgen finds an error of shape in the same text."""
    name = {"suite": "k3_tests/unit/pipeline.yml", "settings": "bkgen.yml"}[which]
    root = without_git(directory, {name: text, "k3_tests/unit/run.sh": Program(SCRIPT)})
    problems = read_configuration(WorkTree(root)).problems
    return any(one.code in {"spec-value", "spec-unknown-key"} for one in problems)


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_of_this_repository_is_valid(suite: str) -> None:
    assert not faults("suite", (ROOT / "k3_tests" / suite / "pipeline.yml").read_text(encoding="utf-8"))


def test_the_settings_and_the_path_table_of_this_repository_are_valid() -> None:
    assert not faults("settings", (ROOT / "bkgen.yml").read_text(encoding="utf-8"))
    assert not faults("paths", (ROOT / "k3_tests/paths.test.yml").read_text(encoding="utf-8"))


RIGHT = {
    "a description alone": "description: what it tests",
    "keys of one's own at the top": "x-pod: &pod {gpus: 1}\npod: *pod",
    "text that an editor takes for a number": "description: 1.10\nenv: {A: 1, B: true, C: }\npod: {memory: 4e3, shm: 1}",
    "one pattern instead of a list": "when: {paths: src/**, labels: long, cadence: nightly}",
    "a step that is a word": "steps: [wait, {command: a}, block, input]",
    "a wait with nothing behind it": "steps: [{command: a}, {wait: }, {command: b}]",
    "a wait with a condition": "steps: [{command: a}, {wait: ~, if: build.branch == 'main'}, {command: b}]",
    "a wait in its old nested form": "steps: [{command: a}, {wait: {continue_on_failure: true}}]",
    "commands in a list": "steps: [{commands: [a, b], label: 'A'}]",
    "a script, as it was called once": "steps: [{script: ./run.sh}]",
    "a step that says its type": "steps: [{type: wait}, {type: command, command: a}]",
    "a step with a plugin alone": "steps: [{plugins: [{docker#v5.0.0: {image: a}}, cache]}]",
    "a step that is nothing but its pod": "steps: [{pod: {gpus: 1}, key: a}]",
    "no pod": "steps: [{command: a, pod: false}]",
    "a pod with nothing behind it": "steps: [{command: a, pod: }]",
    "shards as a number": "steps: [{command: a, shards: 4}]",
    "shards in full": "steps: [{command: a, shards: {count: 4, by: pytest-split, durations: d.json, budget_minutes: 1.5}}]",
    "a mirror with nothing behind it": "steps: [{command: a, mirrors: {mi300: , l40s: {soft_fail: true}}}]",
    "a group with its steps": "steps: [{group: G, steps: [{command: a}, wait, {trigger: other, async: true}]}]",
    "a matrix with adjustments": (
        "steps: [{command: a, matrix: {setup: {x: [1, b], y: [true]}, adjustments: [{with: {x: 1, y: c}, skip: true}]}}]"
    ),
    "a retry by name and in Buildkite's form": (
        "steps: [{command: a, retry: infra}, {command: b, retry: {automatic: [{exit_status: -1, limit: 2}], manual: false}}]"
    ),
    "a dependency in each form": "steps: [{command: a, depends_on: b}, {command: b, depends_on: [c, {step: d, allow_failure: true}]}]",
    "a silence with its reason": "silence: {script-inner-wait: slow}",
    "a block with fields": "steps: [{block: Go, fields: [{text: a, key: b}], blocked_state: running, allowed_teams: [x]}]",
}  # fmt: skip
WRONG = {
    "a key that nobody knows": "descripton: a",
    "a key of one's own inside": "pod: {x-gpus: 1}",
    "a step of no kind": "steps: [{label: A}]",
    "a step of two kinds": "steps: [{command: a, block: b}]",
    "no steps in the list": "steps: []",
    "a list at the top": "- command: a",
    "steps in a map": "steps: {command: a}",
    "a misspelt attribute": "steps: [{command: a, timeout_in_minute: 3}]",
    "a number in quotes": 'steps: [{command: a, parallelism: "4"}]',
    "half a GPU": "pod: {gpus: 0.5}",
    "less than no GPU": "pod: {gpus: -1}",
    "a boolean for a count": "pod: {gpus: true}",
    "a timeout of nothing": "steps: [{command: a, timeout_in_minutes: 0}]",
    "an expectation of nothing": "steps: [{command: a, expected_minutes: 0}]",
    "a word that is none": "pod: {image_pull_policy: always}",
    "another word that is none": "steps: [{command: a, shards: {count: 2, by: pytest}}]",
    "shards without a count": "steps: [{command: a, shards: {by: none}}]",
    "no shards": "steps: [{command: a, shards: 0}]",
    "a group in a group": "steps: [{group: A, steps: [{group: B, steps: [{command: a}]}]}]",
    "a group without steps": "steps: [{group: A, steps: []}]",
    "steps of which none is left": "steps:\n",
    "a retry too often": "steps: [{command: a, retry: {automatic: {limit: 11}}}]",
    "a status that is none": "steps: [{command: a, retry: {automatic: [{exit_status: 256}]}}]",
    "a mount without a path": "pod: {mounts: [{name: a, host_path: /data}]}",
    "paths in an empty list": "when: {paths: []}",
    "a key that is too long": f"steps: [{{command: a, key: {'k' * 101}}}]",
    "yes for true": 'when: {include_trivial: "yes"}',
    "a word for a step that is none": "steps: [command]",
    "a pod that is true": "steps: [{command: a, pod: true}]",
}  # fmt: skip
SETTINGS_RIGHT = {
    "everything short": (
        "version: 1\nx-mine: 1\npolicy: {cadences: {weekly: }, scopes: {all: }, labels: {a: 1}}\nprofiles: {a: , b: {pod: false}}\n"
        "caches: {hf: {claim: hf, mount_path: /hf}}\nfilter: {trivial: '*.md'}\n"
        "retries: {infra: [{exit_status: '*', limit: 1}]}\ntimeout_factor: 2"
    ),
}  # fmt: skip
SETTINGS_WRONG = {
    "another version": "version: 2",
    "a key that nobody knows": "test_dir: a",
    "a cache without a path": "caches: {hf: {host_path: /data}}",
    "a factor below one": "timeout_factor: 0.5",
    "a limit of nothing": "limits: {jobs_per_upload: 0}",
    "a word that is none": "filter: {push_base: merge-base}",
}


@pytest.mark.parametrize(
    ("which", "text"),
    [
        *(("suite", text) for text in RIGHT.values()),
        *(("settings", text) for text in SETTINGS_RIGHT.values()),
    ],
    ids=[*RIGHT, *SETTINGS_RIGHT],
)
def test_what_bkgen_takes_the_schema_takes(tmp_path: Path, which: str, text: str) -> None:
    assert not faults(which, text)
    assert not refused_by_bkgen(tmp_path / "r", which, text)


@pytest.mark.parametrize(
    ("which", "text"),
    [
        *(("suite", text) for text in WRONG.values()),
        *(("settings", text) for text in SETTINGS_WRONG.values()),
    ],
    ids=[*WRONG, *(f"settings, {name}" for name in SETTINGS_WRONG)],
)
def test_what_bkgen_refuses_the_schema_refuses(tmp_path: Path, which: str, text: str) -> None:
    assert faults(which, text)
    assert refused_by_bkgen(tmp_path / "r", which, text)


@pytest.mark.parametrize(
    "text", ["runs: []", "- {changed: [a]}", "- {runs: [], chnaged: a}", "- {runs: [], source: cron}"]
)
def test_a_wrong_path_table_is_refused(text: str) -> None:
    assert faults("paths", text)


def properties(node: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every property that a table of the schema lists, with its place."""
    if isinstance(node, dict):
        if node.get("additionalProperties") is False and "title" in node:
            for name, body in node.get("properties", {}).items():
                yield f"{node['title']}.{name}", body
        for key, value in node.items():
            yield from properties(value, f"{where}/{key}")
    elif isinstance(node, list):
        for item in node:
            yield from properties(item, where)


@pytest.mark.parametrize("which", SCHEMAS)
def test_every_key_has_a_description(which: str) -> None:
    found = dict(properties(SCHEMAS[which]()))
    assert len(found) >= 8
    assert [name for name, body in found.items() if not body.get("description")] == []


def test_descriptions_are_the_docstrings_of_the_source() -> None:
    docs = field_docs()
    assert docs["Pod"]["shm"] == "Size of the tmpfs on /dev/shm; below the memory limit."
    assert docs["CommandStep"]["key"] == docs["StepBase"]["key"]
    assert docs["StepBase"]["if"].startswith("Buildkite's own condition")
    suite = SCHEMAS["suite"]()
    assert suite["$defs"]["Pod"]["properties"]["shm"]["description"] == docs["Pod"]["shm"]
    assert suite["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_reference_leads_somewhere() -> None:
    for make in SCHEMAS.values():
        schema = make()
        text = json.dumps(schema)
        wanted = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
        assert wanted == set(schema.get("$defs", {}))


def test_the_command_prints_one_schema_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "suite"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMAS["suite"]()
    assert run(["schema"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["suite", "settings", "paths"]
    assert run(["schema", "pipeline"]) == 2
    assert capsys.readouterr().out == ""
