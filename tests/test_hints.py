"""The hint below a likely mistake says what to write instead."""

from __future__ import annotations

import pytest

from bkgen.config.load import load_configuration
from bkgen.errors import UserError
from bkrun import THREE, Cli
from decisions import Files, plan, suite

P = "k3_tests/unit/pipeline.yml"
STEP = "steps:\n- command: ./run.sh\n"
LABELS = "policy: {labels: {long: takes long}}\n"

YAML = {
    "a pattern that begins with a star, in a list": ("when:\n  paths:\n  - *.py\n", "quote text that starts with '*', such as \"*.py\""),
    "a pattern that begins with a star, in brackets": ("when: {paths: [src/**, *.py]}\n", "quote text that starts with '*', such as \"*.py\""),
    "a pattern that begins with two stars": ("when:\n  paths: **/*.py\n", "quote text that starts with '*', such as \"*.py\""),
    "a pattern that excludes, in a list": ("when:\n  paths:\n  - src/**\n  - !src/x.py\n", "quote text that starts with '!'; values take no tags here"),
    "a pattern that excludes, in brackets": ("when: {paths: [src/**, !src/x.py]}\n", "quote text that starts with '!', such as \"!docs/**\""),
    "an alias without an anchor": ("steps: *gone\n", "an alias (*name) needs its anchor (&name) earlier in the same file"),
    "an open quotation mark": ('description: a\nenv:\n  A: "b\n', "close the quotation mark that opens in line 3"),
    "an open bracket": ("when:\n  paths: [a,\n    b\nsteps: []\n", "close the '[' that opens in line 2, or put a ',' between its items"),
    "an open brace": ("pod: {gpus: 1\nsteps: [wait]\n", "close the '{' that opens in line 1, or put a ',' between its items"),
}  # fmt: skip
VALUES = {
    "a unit behind a number": (STEP + "  expected_minutes: 14m\n", "write a number alone, such as 14 or 2.5"),
    "a map among the commands": ("steps:\n- command:\n  - echo a: b\n", "put quotation marks around the whole command"),
    "a part of a GPU": ("pod: {gpus: 0.5}\n", "write a whole number; for a part, name a profile whose gpu_resource is that part"),
    "a number in quotes": ('pod: {gpus: "2"}\n', "numbers and booleans are written without quotes: 4, true, false"),
    "a pod that is on": ("pod: on\n", "write 'pod: {}' for the default pod, 'pod: false' for none"),
    "a pod that is a list": ("pod: [x]\n", "bkgen's docs/reference lists what may stand here; `bkgen schema` prints it for an editor"),
    "a step that is a word": ("steps: [run]\n", "write '- command: ./run.sh', or '- wait'"),
    "a step that says nothing": ("steps:\n- label: x\n", "write 'command: ./run.sh', or remove the step"),
    "a group in a group": ("steps:\n- group: a\n  steps:\n  - group: b\n    steps: [wait]\n", "move the inner steps out of it"),
    "a list where a boolean belongs": ("interpolate: []\n", "write true or false"),
}  # fmt: skip
NAMES = {
    "a label with its prefix": (
        "when: {labels: [run-ci-long]}\n",
        LABELS,
        "write it without the prefix: long",
    ),
    "a label that is misspelt": ("when: {labels: [lnog]}\n", LABELS, "did you mean 'long'?"),
    "a label where none is declared": (
        "when: {labels: [long]}\n",
        "",
        "declare it in bkgen.yml: policy.labels",
    ),
    "a cache where none is declared": ("pod: {caches: [models]}\n", "", "declare it in bkgen.yml: caches"),
    "a preset beside the one that is always there": (STEP + "  retry: once\n", "", "declared: infra"),
}


PODSPEC = {
    "resources": "write gpus, cpu and memory",
    "limits": "write gpus, cpu: {limit: …}, memory: {limit: …}",
    "volumes": "write caches, mounts or shm",
    "containers": "put it under spec",
    "nodeSelector": "did you mean 'node_selector'?",
    "imagePullPolicy": "did you mean 'image_pull_policy'?",
    "serviceAccountName": "did you mean 'service_account'?",
}


def hint(text: str, given: str = "") -> str:
    with pytest.raises(UserError) as error:
        load_configuration(Files({P: text, "k3_tests/unit/run.sh": "", "bkgen.yml": given or "version: 1\n"}))
    (found,) = error.value.diagnostics
    return found.hint


@pytest.mark.parametrize(("text", "expected"), {**YAML, **VALUES}.values(), ids=[*YAML, *VALUES])
def test_a_mistake_is_followed_by_what_to_write(text: str, expected: str) -> None:
    assert hint(text) == expected


@pytest.mark.parametrize(("text", "given", "expected"), NAMES.values(), ids=NAMES)
def test_a_name_that_is_declared_nowhere(text: str, given: str, expected: str) -> None:
    assert hint(text, given) == expected


@pytest.mark.parametrize(("word", "expected"), PODSPEC.items(), ids=PODSPEC)
@pytest.mark.parametrize("where", ["pod: {%s: x}\n", STEP + "  pod: {%s: x}\n"], ids=["file", "step"])
def test_a_word_of_kubernetes_in_a_pod(where: str, word: str, expected: str) -> None:
    assert hint(where % word) == expected


def test_a_word_of_kubernetes_elsewhere_is_only_unknown() -> None:
    assert hint("when: {volumes: x}\n").startswith("known: branches, cadence, ")


def test_a_prefix_does_not_belong_into_minus() -> None:
    text = "policy:\n  labels: {long: takes long}\n  scopes: {quick: {minus: [run-ci-long]}}\n"
    assert hint(STEP, text) == "write it without the prefix: long"


STEPS = [{"key": "unit", "command": "./run.sh"}, {"key": "more", "command": "./run.sh"}]


def test_a_step_may_not_have_the_key_of_its_suites_group() -> None:
    with pytest.raises(UserError) as error:
        plan([suite("unit", steps=STEPS)])
    (found,) = error.value.diagnostics
    assert found.message == "the key 'unit' is that of the group which the suite's steps make"
    assert found.hint == "give the step another key, such as 'unit-tests'"


def test_a_step_alone_may_have_the_key_of_its_suite() -> None:
    made = plan([suite("unit", steps=STEPS[:1])])
    assert [step.key for step in made.suites[0].steps] == ["unit"]


def test_the_place_is_that_of_the_key(cli: Cli) -> None:
    text = "steps:\n- label: a\n  command: ./run.sh\n  key: alpha\n- command: ./run.sh\n"
    made = cli.files({**THREE, "k3_tests/alpha/pipeline.yml": text})
    assert (
        "k3_tests/alpha/pipeline.yml:4:3: key: the key 'alpha' is that of" in cli.run(made.path, "plan").err
    )


def test_a_repository_without_suites_is_told_how_to_make_one(cli: Cli) -> None:
    made = cli.files({"README.md": "empty\n"})
    assert cli.run(made.path, "render", "unit").err == (
        "bkgen: no suite is called 'unit'\n  hint: there is none; `bkgen new` makes one\n"
    )


def test_a_new_suite_with_a_label_is_told_where_labels_are_declared(cli: Cli) -> None:
    made = cli.files({"README.md": "empty\n"})
    assert cli.run(made.path, "new", "unit", "--labels", "long").err.endswith(
        "  hint: declare it in bkgen.yml: policy.labels\n"
    )
