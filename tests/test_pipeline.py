"""What is emitted: steps, groups, text on its way to a shell, times, uploads within the limits, goldens."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.build import Build
from bkgen.buildkite import BuiltPod
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import load_configuration
from bkgen.decide.facts import Selection
from bkgen.errors import UserError
from bkgen.generate.phases import Generation, generate
from bkgen.pipeline.commands import for_kubelet, in_directory
from decisions import Files

GOLDEN = Path(__file__).with_name("golden")
SETTINGS = """\
version: 1
default_profile: h200
profiles:
  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8, image: "example/ci:1", image_pull_policy: Never}
  mi300: {gpu_resource: amd.com/gpu, queue: amd-k8s, image: "example/rocm:1", label: MI300}
  musa: {pod: false, queue: MooreThreads}
caches:
  huggingface: {host_path: /data/huggingface, mount_path: /root/.cache/huggingface}
retries:
  infra: [{signal_reason: stack_error, limit: 1}, {signal_reason: agent_stop, limit: 2}, {exit_status: -1, limit: 2}]
  once: [{exit_status: "*", limit: 1}]
default_retry: infra
"""


def generated(settings: str = SETTINGS, **suites: str) -> Generation:
    files = {"bkgen.yml": settings}
    for name, text in suites.items():
        files[f"k3_tests/{name}/pipeline.yml"] = text
        files[f"k3_tests/{name}/run.sh"] = ""
    configuration = load_configuration(Files(files))
    named = Selection(frozenset(suite.name for suite in configuration.suites), None, True)
    return generate(configuration, Build(), ChangesNotAsked("a test"), named)


def steps(settings: str = SETTINGS, **suites: str) -> list[dict[str, Any]]:
    return generated(settings, **suites).pipeline.document()["steps"]


def one(text: str, settings: str = SETTINGS) -> dict[str, Any]:
    (step,) = steps(settings, unit=text)
    return step


POD = "pod: {gpus: 1, memory: 64Gi, shm: 1Gi}\n"


def test_no_steps_is_one_step_that_runs_the_script_in_a_pod() -> None:
    step = one("description: nothing else\n")
    assert step["command"] == "k3_tests/unit/run.sh"
    assert step["key"] == "unit"
    assert "kubernetes" in step["plugins"][0]


def test_a_step_without_pod_or_plugin_is_a_plain_agent_step() -> None:
    assert one("steps: [{command: make}]\n") == {"command": "make", "key": "unit"}


@pytest.mark.parametrize("where", ["pod: false", "pod: {profile: musa}"])
def test_no_plugin_where_the_pod_is_declined(where: str) -> None:
    step = one(f"{POD}steps:\n- {{command: ./run.sh, {where}}}\n")
    assert "plugins" not in step


def test_a_bare_metal_profile_sends_the_step_to_its_queue() -> None:
    assert one(f"{POD}steps:\n- {{command: ./run.sh, pod: {{profile: musa}}}}\n")["agents"] == {
        "queue": "MooreThreads"
    }


def test_a_step_keeps_its_own_plugin_and_its_other_plugins() -> None:
    text = POD + (
        "steps:\n- command: ./run.sh\n  plugins:\n  - docker-login#v3: {server: x}\n  - cache\n"
        "  - kubernetes: {podSpec: {containers: [{name: container-0, image: 'a:1', resources: {limits: {nvidia.com/gpu: 1}}}]}}\n"
    )
    plugins = one(text)["plugins"]
    assert plugins[:2] == [{"docker-login#v3": {"server": "x"}}, "cache"]
    assert plugins[2]["kubernetes"]["podSpec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": "1"
    }


def test_a_pod_is_added_behind_the_steps_plugins() -> None:
    plugins = one(f"{POD}steps: [{{command: ./run.sh, plugins: [{{cache#v1: {{path: x}}}}]}}]\n")["plugins"]
    assert [next(iter(plugin)) for plugin in plugins] == ["cache#v1", "kubernetes"]


def test_what_stands_at_the_top_is_pushed_down_and_nothing_is_left_there() -> None:
    text = (
        "env: {A: '1', B: '1'}\nagents: {queue: other, os: linux}\npriority: 3\nsecrets: [TOKEN]\nimage: 'x:1'\n"
        "steps:\n- {command: a, label: a, env: {B: '2'}, agents: {queue: mine}}\n- {command: b, label: b, agents: [os=mac]}\n- wait\n"
    )
    document = generated(unit=text).pipeline.document()
    assert set(document) == {"steps"}
    first, second = document["steps"][0]["steps"][:2]
    assert first["env"] == {"A": "1", "B": "2"}
    assert first["agents"] == {"queue": "mine", "os": "linux"}
    assert second["agents"] == {"queue": "other", "os": "mac"}
    assert first["priority"] == 3
    assert first["secrets"] == ["TOKEN"]
    assert first["image"] == "x:1"


def test_notify_of_the_selected_files_is_joined_once() -> None:
    text = "notify: [{slack: '#ci'}, github_check]\nsteps: [{command: x}]\n"
    document = generated(a=text, b=text).pipeline.document()
    assert document["notify"] == [{"slack": "#ci"}, "github_check"]


def test_several_steps_are_a_group_and_own_groups_stay() -> None:
    (grouped,) = steps(unit="steps:\n- {command: a, label: a}\n- wait\n- {command: b, label: b}\n")
    assert (grouped["group"], grouped["key"]) == ("unit", "unit")
    assert [step["key"] for step in grouped["steps"]] == ["unit-a", "unit-wait", "unit-b"]
    own = steps(unit="steps:\n- {group: g, steps: [{command: a, label: a}]}\n- {command: b, label: b}\n")
    assert [step["key"] for step in own] == ["unit-g", "unit-b"]


FENCED = """\
steps:
- {group: one, key: one, steps: [{command: a, label: a}]}
- {wait: ~, continue_on_failure: true}
- {group: two, key: two, steps: [{command: b, label: b}]}
- {block: go, key: go}
- {command: c, key: c, depends_on: one}
- {command: d, key: d}
- {command: e, key: e, depends_on: ~}
- {command: f, key: f, depends_on: []}
"""


def test_a_wait_between_own_groups_holds_back_no_other_suite() -> None:
    other = "steps: [{command: x}]\n"
    items = {step["key"]: step for step in steps(unit=FENCED, other=other)}
    assert not any("wait" in step for step in items.values())
    assert items["two"]["depends_on"] == [{"step": "one", "allow_failure": True}]
    assert items["go"]["depends_on"] == [{"step": "one"}, {"step": "two"}]
    assert items["c"]["depends_on"] == "one"
    assert items["d"]["depends_on"] == [{"step": "go"}]
    assert items["e"]["depends_on"] is None
    assert items["f"]["depends_on"] == []
    assert "depends_on" not in items["other"]


def test_steps_of_one_concurrency_group_keep_their_order() -> None:
    text = POD + (
        "steps:\n- {command: a, key: a, concurrency: 1, concurrency_group: g}\n- {command: z, key: z}\n"
        "- {command: b, key: b, concurrency: 1, concurrency_group: g, pod: {gpus: 4}}\n"
        "- {command: c, key: c, pod: {gpus: 8}}\n"
    )
    (group,) = steps(unit=text)
    assert [step["key"] for step in group["steps"]] == ["c", "a", "b", "z"]


def test_a_suite_alone_keeps_its_waits_as_they_are() -> None:
    assert [next(iter(step)) for step in steps(unit=FENCED)] == ["group", "wait", "group", "block"] + 4 * [
        "command"
    ]


WIDE = """\
steps:
- {group: one, key: one, steps: [{command: a, key: a, parallelism: 6}]}
- {command: d, key: d, depends_on: a}
- {WAIT}
- {block: go, key: go}
- {group: two, key: two, steps: [{command: b, key: b, parallelism: 6}]}
"""
SMALL = SETTINGS + "limits: {jobs_per_upload: 10}\n"


def test_a_suite_in_several_uploads_keeps_its_waits_and_blocks_as_dependencies() -> None:
    documents = [
        json.loads(upload.document)
        for upload in generated(SMALL, unit=WIDE.replace("{WAIT}", "wait")).uploads
    ]
    found = {step["key"]: step.get("depends_on") for document in documents for step in document["steps"]}
    assert len(documents) == 2
    assert found == {
        "one": None,
        "d": "a",
        "go": [{"step": "one"}, {"step": "d"}],
        "two": [{"step": "go"}],
    }


def test_a_wait_with_a_condition_cannot_be_split() -> None:
    with pytest.raises(UserError, match=r"the wait 'unit-wait.*has a condition"):
        generated(SMALL, unit=WIDE.replace("{WAIT}", "{wait: null, if: build.branch == 'main'}"))


@pytest.mark.parametrize(
    ("given", "timeout"),
    [
        ("expected_minutes: 14", 18), ("expected_minutes: 8", 10), ("expected_minutes: 0.5", 1),
        ("expected_minutes: 10, timeout_in_minutes: 40", 40), ("timeout_in_minutes: 7", 7), ("label: x", None),
    ],
)  # fmt: skip
def test_the_expectation_gives_the_timeout(given: str, timeout: int | None) -> None:
    assert one(f"steps: [{{command: x, {given}}}]\n").get("timeout_in_minutes") == timeout


def test_a_timeout_beyond_six_hours_moves_the_controllers_deadline() -> None:
    plugin = one(f"{POD}steps: [{{command: x, timeout_in_minutes: 400}}]\n")["plugins"][0]["kubernetes"]
    assert plugin["jobActiveDeadlineSeconds"] == (400 + 15) * 60
    plugin = one(f"{POD}steps: [{{command: x, timeout_in_minutes: 360}}]\n")["plugins"][0]["kubernetes"]
    assert "jobActiveDeadlineSeconds" not in plugin


def test_retries_by_name_by_default_and_in_buildkites_form() -> None:
    infra = [
        {"signal_reason": "stack_error", "limit": 1},
        {"signal_reason": "agent_stop", "limit": 2},
        {"exit_status": -1, "limit": 2},
    ]
    assert one(f"{POD}steps: [{{command: x}}]\n")["retry"] == {"automatic": infra}
    assert one(f"{POD}steps: [{{command: x, retry: once}}]\n")["retry"] == {
        "automatic": [{"exit_status": "*", "limit": 1}]
    }
    own = {"automatic": {"exit_status": 7, "limit": 1}, "manual": False}
    assert one(f"{POD}steps: [{{command: x, retry: {json.dumps(own)}}}]\n")["retry"] == own
    assert "retry" not in one("steps: [{command: x}]\n")


def test_the_infra_preset_is_there_undeclared_and_knows_a_sick_gpu() -> None:
    by_default = one(f"{POD}steps: [{{command: x}}]\n", "version: 1\ndefault_retry: infra\n")["retry"]
    assert one(f"{POD}steps: [{{command: x, retry: infra}}]\n", "version: 1\n")["retry"] == by_default
    assert {"exit_status": 78, "limit": 2} in by_default["automatic"]
    assert not [rule for rule in by_default["automatic"] if rule.get("exit_status") in {"*", 1}]
    assert "retry" not in one(f"{POD}steps: [{{command: x}}]\n", "version: 1\n")


def test_shards_give_parallelism_label_and_environment() -> None:
    text = (
        POD
        + "steps: [{command: ./run.sh, label: Unit, shards: {count: 4, by: pytest-split, durations: d.json}}]\n"
    )
    step = one(text)
    assert step["parallelism"] == 4
    assert step["label"] == "Unit %N of %t"
    assert step["env"]["BKGEN_SHARDS_BY"] == "pytest-split"
    assert step["env"]["BKGEN_SHARDS_DURATIONS"] == "k3_tests/unit/d.json"
    assert one("steps: [{command: x, shards: 3}]\n") == {
        "label": "unit %N of %t", "command": "x", "key": "unit", "parallelism": 3,
    }  # fmt: skip
    assert one("steps: [{command: x, label: 'S %n', shards: 3}]\n")["label"] == "S %n"


def test_a_mirror_is_the_step_on_other_hardware() -> None:
    text = POD + (
        "steps:\n- command: ./run.sh\n  label: Unit\n  expected_minutes: 10\n  shards: 2\n  concurrency: 1\n"
        "  concurrency_group: g\n  mirrors:\n    mi300: {soft_fail: true, expected_minutes: 20, env: {X: '1'}, pod: {gpus: 2}}\n"
        "    musa: {label: Musa}\n"
    )
    base, amd, musa = steps(unit=text)
    assert [step["key"] for step in (base, amd, musa)] == ["unit", "unit-mi300", "unit-musa"]
    assert amd["command"] == base["command"]
    assert amd["label"] == "Unit (MI300) %N of %t"
    assert amd["soft_fail"] is True
    assert amd["timeout_in_minutes"] == 25
    assert amd["agents"] == {"queue": "amd-k8s"}
    assert amd["env"] == {"BKGEN_GPUS": "2", "X": "1"}
    assert (
        amd["plugins"][0]["kubernetes"]["podSpec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"]
        == "2"
    )
    assert amd["parallelism"] == 2
    assert amd["concurrency_group"] == "g"
    assert musa["label"] == "Musa %N of %t"
    assert musa["agents"] == {"queue": "MooreThreads"}
    assert "plugins" not in musa


def test_every_attribute_of_a_native_step_passes_unchanged() -> None:
    native: dict[str, Any] = {
        "label": "n", "command": ["a", "b"], "key": "n", "agents": {"queue": "q"}, "artifact_paths": ["x", "y"],
        "branches": ["main"], "cache": {"paths": ["p"], "size": "20g", "name": "c"}, "cancel_on_build_failing": True,
        "concurrency": 1, "concurrency_group": "g", "concurrency_method": "eager", "depends_on": [{"step": "n2", "allow_failure": True}],
        "allow_dependency_failure": True, "env": {"A": "b"}, "if": "build.branch == 'main'", "image": "i:1",
        "matrix": {"setup": {"a": ["1", "2"]}, "adjustments": [{"with": {"a": "3"}, "soft_fail": True}]},
        "notify": [{"slack": "#x"}], "plugins": [{"docker#v1": {"image": "x"}}], "priority": -1,
        "retry": {"automatic": [{"exit_status": [1, 2], "limit": 2, "signal": "SIGKILL"}], "manual": {"allowed": False, "reason": "no"}},
        "secrets": {"A_B": "c"}, "skip": "why", "soft_fail": [{"exit_status": 1}], "timeout_in_minutes": 5, "checkout": {"depth": 1},
    }  # fmt: skip
    others = [
        {"command": "x", "key": "n2"},
        {"wait": None, "key": "w", "continue_on_failure": True, "if": "true", "allow_dependency_failure": True, "depends_on": "n2"},
        {"block": "b", "key": "b", "prompt": "p", "fields": [{"text": "t", "key": "k"}], "blocked_state": "running", "branches": ["x"]},
        {"input": "i", "key": "i", "prompt": "p", "fields": [{"select": "s", "key": "k", "options": [{"label": "a", "value": "b"}]}]},
        {"trigger": "other", "key": "t", "label": "l", "async": True, "build": {"branch": "b", "commit": "c", "message": "m",
         "env": {"E": "f"}, "meta_data": {"k": "v"}}, "skip": False, "soft_fail": True, "branches": ["main"], "if": "x"},
    ]  # fmt: skip
    (group,) = steps(unit=json.dumps({"steps": [native, *others]}))
    emitted = {step["key"]: step for step in group["steps"]}
    for step in [native, *others]:
        assert emitted[step["key"]] == step


def test_words_and_nested_forms_of_steps() -> None:
    text = "steps:\n- {command: a, label: a}\n- wait\n- wait: {continue_on_failure: true}\n- block\n- {command: {command: b, label: b}}\n- {script: c, label: c}\n"
    (group,) = steps(unit=text)
    assert [step.get("command", "–") for step in group["steps"]] == ["a", "–", "–", "–", "b", "c"]


def test_a_native_group_keeps_its_attributes() -> None:
    group = {"group": "g", "key": "g", "depends_on": "x", "if": "true", "notify": [{"slack": "#x"}], "skip": "no",
             "allow_dependency_failure": True, "steps": [{"command": "a", "key": "a"}]}  # fmt: skip
    assert steps(unit=json.dumps({"steps": [group, {"command": "x", "key": "x"}]}))[0] == group


# -- commands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("echo $HOME", "echo $HOME"),
        ("kill $$", "kill $$$$"),
        ("echo $(date)", "echo $(date)"),
        ("echo $(KNOWN)", "echo $$(KNOWN)"),
        ("echo $(BUILDKITE_COMMAND)", "echo $$(BUILDKITE_COMMAND)"),
        ("echo $$(date)", "echo $$$$(date)"),
        ("echo $$$(KNOWN)", "echo $$$$$$(KNOWN)"),
        ("echo ${A%.py} $'x' $", "echo ${A%.py} $'x' $"),
        ("$(KNOWN)$(OTHER)", "$$(KNOWN)$(OTHER)"),
        # All up to the first bracket is one name that nothing has, and comes back as it is.
        ("echo $(ps -p $$) $$", "echo $(ps -p $$) $$$$"),
        ("echo $(cat $(KNOWN)) $(KNOWN)", "echo $(cat $(KNOWN)) $$(KNOWN)"),
        ("case $(x in a) $$", "case $(x in a) $$$$"),
        ("echo $(( $$ %2", "echo $(( $$$$ %2"),
        ("echo $é", "echo $$é"),
    ],
)
def test_a_command_survives_the_kubelet(command: str, sent: str) -> None:
    pod = BuiltPod({}, known_variables=frozenset({"KNOWN"}))
    assert for_kubelet(command, pod) == sent


def kubelet(value: str, known: dict[str, str]) -> str:
    """What the kubelet does to an environment value. Source: Kubernetes' third_party/forked/golang/expansion."""
    text, out, at = value.encode(), b"", 0
    while at < len(text):
        following = text[at + 1 : at + 2]
        end = text.find(b")", at)
        if text[at : at + 1] != b"$" or not following:
            out, at = out + text[at : at + 1], at + 1
        elif following == b"(" and end > 0:
            name = text[at + 2 : end].decode()
            out, at = out + known.get(name, f"$({name})").encode(), end + 1
        elif following == b"$":
            out, at = out + b"$", at + 2
        else:
            # Go's string(byte): the byte as a code point.
            out, at = out + b"$" + chr(following[0]).encode(), at + 2
    return out.decode(errors="replace")


@given(
    st.lists(
        st.sampled_from(
            ["$", "$$", "$(", "(", ")", "K", "$(K)", "$(L)", "BUILDKITE_X", "$(BUILDKITE_X)", "\\", " ", "é"]
        ),
        max_size=12,
    ).map("".join)
)
def test_what_the_author_wrote_is_what_the_shell_sees(command: str) -> None:
    known = {"K": "1", "BUILDKITE_X": "2"}
    pod = BuiltPod({}, known_variables=frozenset({"K"}))
    assert kubelet(for_kubelet(command, pod), known) == command


def test_only_commands_in_pods_are_escaped() -> None:
    assert one("steps: [{command: 'kill $$'}]\n")["command"] == "kill $$"
    assert one(f"{POD}steps: [{{command: 'kill $$'}}]\n")["command"] == "kill $$$$"


@pytest.mark.parametrize(
    ("command", "sent"),
    [("./run.sh -x", "d/run.sh -x"), ("bash ./run.sh", "bash ./run.sh"), ("../x", "../x"), (".", ".")],
)
def test_a_leading_dot_slash_is_the_suites_directory(command: str, sent: str) -> None:
    assert in_directory(command, "d") == sent


def test_one_interpolating_suite_leaves_the_others_exact() -> None:
    made = generated(
        a="interpolate: true\nsteps: [{command: 'echo $BUILDKITE_COMMIT'}]\n",
        b="steps: [{command: 'echo $HOME'}]\n",
    )
    (upload,) = made.uploads
    assert upload.interpolate
    commands = {step["key"]: step["command"] for step in json.loads(upload.document)["steps"]}
    assert commands == {"a": "echo $BUILDKITE_COMMIT", "b": "echo $$HOME"}


# -- limits ----------------------------------------------------------------------------------------------------


def wide(count: int, key: str = "w", needs: str = "") -> str:
    depends = f", depends_on: {needs}" if needs else ""
    return f"steps: [{{command: x, key: {key}, parallelism: {count}{depends}}}]\n"


def test_uploads_stay_below_the_limit_and_dependencies_go_first() -> None:
    made = generated(a=wide(300, "a", "c"), b=wide(300, "b"), c=wide(300, "c"))
    keys = [upload.keys for upload in made.uploads]
    assert [key for batch in keys for key in batch].index("c") < [
        key for batch in keys for key in batch
    ].index("a")
    assert all(sum(300 for _ in batch) <= 500 for batch in keys)


def test_items_that_need_each_other_go_up_together() -> None:
    tangled = {
        "a": "steps:\n- {command: x, key: a1, parallelism: 100, depends_on: b1}\n- {command: x, key: a2}\n",
        "b": "steps:\n- {command: x, key: b1, parallelism: 100}\n- {command: x, key: b2, depends_on: a2}\n",
        "c": wide(400),
    }
    batches = [set(upload.keys) for upload in generated(**tangled).uploads]
    assert any({"a1", "a2", "b1", "b2"} <= batch for batch in batches)


def test_a_group_larger_than_an_upload_is_an_error_before_anything_goes_up() -> None:
    big = "steps:\n- {command: x, key: a, parallelism: 300}\n- {command: x, key: b, parallelism: 300}\n"
    with pytest.raises(UserError, match="601 jobs"):
        generated(unit=big)


def test_more_jobs_than_a_build_takes_are_an_error() -> None:
    with pytest.raises(UserError, match="Buildkite takes 1000 in one build"):
        generated(
            SETTINGS + "limits: {jobs_per_build: 1000}\n", **{f"s{n}": wide(400, f"k{n}") for n in range(3)}
        )


# -- goldens ---------------------------------------------------------------------------------------------------

CASES = sorted(path.stem for path in GOLDEN.glob("*.yml"))


@pytest.mark.parametrize("case", CASES)
def test_a_golden_pipeline(case: str, request: pytest.FixtureRequest) -> None:
    made = generated(unit=(GOLDEN / f"{case}.yml").read_text())
    emitted = json.dumps(made.pipeline.document(), indent=1, ensure_ascii=False) + "\n"
    expected = GOLDEN / f"{case}.json"
    if request.config.getoption("--update-golden"):
        expected.write_text(emitted)
    assert emitted == expected.read_text(), (
        f"read the difference, then: ./dev test tests/test_pipeline.py --update-golden ({case})"
    )


def test_there_are_goldens() -> None:
    assert len(CASES) >= 4


@pytest.mark.slow
def test_the_emitter_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    import os
    import sys

    (tmp_path / "k3_tests/unit").mkdir(parents=True)
    (tmp_path / "bkgen.yml").write_text(SETTINGS)
    (tmp_path / "k3_tests/unit/pipeline.yml").write_text((GOLDEN / "compact.yml").read_text())
    (tmp_path / "k3_tests/unit/run.sh").write_text("")
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "bkgen", "render", "unit", "--json"],
            cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
