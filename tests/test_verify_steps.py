"""Steps and whole builds: attributes, matrices, dependencies, cycles, counts, and the time it all takes."""

from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import pytest
from bkgen.verify import PodRules, job_count, verify_pod, verify_step, verify_steps
from bkgen.verify.examine import Examiner
from hypothesis import given, settings
from hypothesis import strategies as st

from verify_samples import gpu_pod

LOCAL = PodRules(local_images=("lmcache/ci-base",))


def codes(step: Any, rules: PodRules = LOCAL, *, interpolate: bool = False) -> set[str]:
    return {one.code for one in verify_step(step, rules, interpolate=interpolate)}


def build_codes(steps: list[Any], rules: PodRules = LOCAL) -> dict[tuple[int, ...], list[str]]:
    return {place: [one.code for one in group] for place, group in verify_steps(steps, rules).items()}


def command(key: str | None = None, **attributes: Any) -> dict[str, Any]:
    named = {"key": key} if key else {}
    return {"command": "./run.sh", **named, **attributes}


# ---------------------------------------------------------------- kinds and attributes

SOUND: dict[str, Any] = {
    "wait as a word": "wait",
    "a wait": {"wait": None},
    "a wait that goes on": {"wait": "", "continue_on_failure": True},
    "a block": {"block": "Release?", "prompt": "Sure?", "blocked_state": "running"},
    "an input": {"input": "Version", "fields": [{"text": "Version", "key": "version"}]},
    "a trigger": {"trigger": "deploy", "async": True, "build": {"branch": "main", "env": {"A": "1"}}},
    "a group": {"group": "Tests", "key": "tests", "steps": [command(), "wait", command()]},
    "a group without a name": {"group": None, "label": "Tests", "steps": [command()]},
    "a command with everything": command(
        "unit",
        label=":test_tube: Unit %N of %t",
        agents=["queue=k8s", "os=linux"],
        artifact_paths=["a/**/*"],
        branches="main",
        cancel_on_build_failing=True,
        concurrency=1,
        concurrency_group="gpu",
        concurrency_method="eager",
        depends_on=[{"step": "image", "allow_failure": True}, "lint", 7],
        env={"A": "1", "B": 2, "C": True, "D": None},
        image="python:3.12",
        notify=["github_commit_status"],
        parallelism=4,
        priority=-1,
        retry={"automatic": [{"exit_status": [-1, 78], "limit": 2}], "manual": False},
        secrets={"HF_TOKEN": "hf"},
        skip="no node has the driver",
        soft_fail=[{"exit_status": 1}],
        timeout_in_minutes=30,
        cache=["node_modules"],
        plugins=["docker-login#v3.0.0", {"docker#v5.13.0": {"image": "ubuntu"}}],
    ),
    "a plugin that brings its own command": {"plugins": [{"docker-compose#v5.0.0": {"run": "app"}}]},
    "plugins as a map": {"command": "x", "plugins": {"docker#v5.13.0": {"image": "ubuntu"}}},
    "a pod without settings": command(plugins=["kubernetes"]),
    "a pod that brings its own command": {
        "plugins": [
            {
                "kubernetes": {
                    "podSpec": {
                        "containers": [
                            {
                                "image": "ubuntu:24.04",
                                "command": ["./x"],
                                "resources": {"limits": {"memory": 1e9}},
                            }
                        ]
                    }
                }
            }
        ]
    },
    "a template that may bring a command": {"plugins": [{"kubernetes": {"podTemplate": "tests"}}]},
}


@pytest.mark.parametrize("step", SOUND.values(), ids=SOUND.keys())
def test_a_sound_step_has_no_finding(step: Any) -> None:
    assert verify_step(step) == ()


WRONG: dict[str, tuple[Any, str, tuple[str | int, ...]]] = {
    "no kind": ({"label": "x"}, "step-kind", ()),
    "a word that is no step": ("weit", "step-kind", ()),
    "command as a word": ("command", "step-kind", ()),
    "nothing": (None, "step-kind", ()),
    "a list": ([], "step-kind", ()),
    "a misspelt attribute": (command(timeout_in_minute=5), "step-unknown-key", ("timeout_in_minute",)),
    "env on a group": ({"group": "g", "env": {}, "steps": [command()]}, "step-unknown-key", ("env",)),
    "agents on a trigger": ({"trigger": "x", "agents": {}}, "step-unknown-key", ("agents",)),
    "if_changed on a wait": ({"wait": None, "if_changed": "*"}, "step-unknown-key", ("if_changed",)),
    "a word of bkgen's own": (command(expected_minutes=5), "step-unknown-key", ("expected_minutes",)),
    "parallelism zero": (command(parallelism=0), "step-wrong-type", ("parallelism",)),
    "parallelism true": (command(parallelism=True), "step-wrong-type", ("parallelism",)),
    "a timeout in quotes": (command(timeout_in_minutes="30"), "step-wrong-type", ("timeout_in_minutes",)),
    "a priority of a half": (command(priority=0.5), "step-wrong-type", ("priority",)),
    "a map among commands": ({"command": ["x", {"y": "z"}]}, "step-wrong-type", ("command",)),
    "an env list": (command(env=["A=1"]), "step-wrong-type", ("env",)),
    "a list in env": (command(env={"A": [1]}), "step-wrong-type", ("env",)),
    "an agent without a value": (command(agents=["queue"]), "step-wrong-type", ("agents",)),
    "checkout false": (command(checkout=False), "step-wrong-type", ("checkout",)),
    "secrets nothing": (command(secrets=None), "step-wrong-type", ("secrets",)),
    "a dependency with more": (
        command(depends_on=[{"step": "a", "allow": True}]),
        "step-wrong-type",
        ("depends_on",),
    ),
    "soft_fail a map": (command(soft_fail={"exit_status": 1}), "step-wrong-type", ("soft_fail",)),
    "a key with a blank": (command("unit tests"), "key-invalid", ("key",)),
    "a key with a matrix token": (command("unit-{{matrix}}"), "matrix-token", ("key",)),
    "a key like a UUID": (command("01234567-89ab-cdef-0123-456789abcdef"), "key-invalid", ("key",)),
    "an empty key": (command(id=""), "key-invalid", ("id",)),
    "a key of 101 letters": (command("x" * 101), "key-too-long", ("key",)),
    "exit status 256": (
        command(retry={"automatic": {"exit_status": [1, 256]}}),
        "retry-invalid",
        ("retry", "automatic", "exit_status"),
    ),
    "eleven retries": (
        command(retry={"automatic": [{"exit_status": -1, "limit": 11}]}),
        "retry-invalid",
        ("retry", "automatic", 0, "limit"),
    ),
    "an unknown signal reason": (
        command(retry={"automatic": [{"signal_reason": "agent_stopped"}]}),
        "retry-invalid",
        ("retry", "automatic", 0, "signal_reason"),
    ),
    "a misspelt key of a rule": (
        command(retry={"automatic": [{"exit_code": 1, "exit_status": -1}]}),
        "retry-invalid",
        ("retry", "automatic", 0, "exit_code"),
    ),
    "retries in words": (command(retry={"automatic": "twice"}), "retry-invalid", ("retry", "automatic")),
    "a lost machine not retried": (
        command(retry={"automatic": True}),
        "retry-without-lost",
        ("retry", "automatic"),
    ),
    "a rule for everything understood": (
        command(retry={"automatic": {"limit": 1}}),
        "retry-without-lost",
        ("retry", "automatic"),
    ),
    "a variable with a blank": (command(env={"A B": "1"}), "env-name", ("env", "A B")),
    "two plugins in one entry": (
        command(plugins=[{"kubernetes": {}, "docker#v5": {}}]),
        "plugin-map-keys",
        ("plugins", 0),
    ),
    "a plugin that is a number": (command(plugins=[5]), "plugin-map-keys", ("plugins", 0)),
    "a plugin with an owner": (
        command(plugins=[{"buildkite-plugins/kubernetes": {}}]),
        "plugin-name-versioned",
        ("plugins", 0, "buildkite-plugins/kubernetes"),
    ),
    "a plugin with a version and no settings": (
        command(plugins=["kubernetes#v1"]),
        "plugin-name-versioned",
        ("plugins", 0),
    ),
    "a plugin with a typing error": (
        command(plugins=[{"kuberntes": {}}]),
        "plugin-name-misspelt",
        ("plugins", 0, "kuberntes"),
    ),
    "nothing to run": ({"plugins": ["kubernetes"]}, "step-without-command", ()),
    "a blank to run": ({"command": " \n", "plugins": ["kubernetes"]}, "step-without-command", ()),
}


@pytest.mark.parametrize(("step", "code", "path"), WRONG.values(), ids=WRONG.keys())
def test_a_faulty_step_is_reported_at_its_place(step: Any, code: str, path: tuple[str | int, ...]) -> None:
    assert [(one.code, one.path) for one in verify_step(step)] == [(code, path)]


def test_another_s_plugin_that_resembles_ours_is_left_alone() -> None:
    assert (
        codes(command(plugins=[{"example/kubernetes#v1": {}}, {"k8s#v1": {}}, {"kubectl#v1": {}}])) == set()
    )


def test_findings_of_a_pod_stand_below_the_plugin_that_brings_it() -> None:
    step = command(plugins=["docker-login#v3.0.0", {"kubernetes": {"podSpec": {"container": []}}}])
    (found,) = verify_step(step)
    assert found.path == ("plugins", 1, "kubernetes", "podSpec", "container")
    (found,) = verify_step({"group": "Tests", "steps": ["wait", step]})
    assert found.path == ("steps", 1, "plugins", 1, "kubernetes", "podSpec", "container")


# ---------------------------------------------------------------- matrix, clocks, tags

MATRICES: dict[str, tuple[Any, str, int, set[str]]] = {
    "a list": (["a", "b", "c"], "{{matrix}}", 3, set()),
    "a setup": ({"setup": {"os": ["a", "b"], "gpu": [1, 2, 3]}}, "{{matrix.os}} {{ matrix.gpu }}", 6, set()),
    "an adjustment that skips": (
        {"setup": {"os": ["a", "b"]}, "adjustments": [{"with": {"os": "a"}, "skip": True}]},
        "{{matrix.os}}",
        1,
        set(),
    ),
    "an adjustment that adds": (
        {"setup": {"os": ["a", "b"]}, "adjustments": [{"with": {"os": "c"}, "soft_fail": True}]},
        "{{matrix.os}}",
        3,
        set(),
    ),
    "an adjustment of a list": (
        {"setup": ["a", "b"], "adjustments": [{"with": ["b"], "skip": "x"}]},
        "",
        1,
        set(),
    ),
    "50 jobs": ({"setup": {"a": list(range(25)), "b": [1, 2]}}, "", 50, set()),
    "51 jobs": ({"setup": {"a": list(range(17)), "b": [1, 2, 3]}}, "", 51, {"matrix-limit"}),
    "26 elements": (list(range(26)), "", 26, {"matrix-limit"}),
    "seven dimensions": ({"setup": {name: [1] for name in "abcdefg"}}, "", 1, {"matrix-limit"}),
    "an element of 129 bytes": (["ü" * 64 + "x", "y"], "", 2, {"matrix-limit"}),
    "a dimension without elements": ({"setup": {"os": [], "gpu": [1]}}, "", 0, {"matrix-limit"}),
    "13 adjustments": (
        {"setup": ["a"], "adjustments": [{"with": [str(n)]} for n in range(13)]},
        "",
        14,
        {"matrix-limit"},
    ),
    "a dimension that is not there": ({"setup": {"os": ["a"]}}, "{{matrix.gpu}}", 1, {"matrix-token"}),
    "a name where there is none": (["a"], "{{matrix.os}}", 1, {"matrix-token"}),
    "no name where there are some": ({"setup": {"os": ["a"]}}, "{{matrix}}", 1, {"matrix-token"}),
    "a token without a matrix": (None, "{{matrix}}", 1, {"matrix-token"}),
}


@pytest.mark.parametrize(("matrix", "token", "jobs", "expected"), MATRICES.values(), ids=MATRICES.keys())
def test_matrices(matrix: Any, token: str, jobs: int, expected: set[str]) -> None:
    step = command(command=f"./run.sh {token}") | ({} if matrix is None else {"matrix": matrix})
    assert codes(step) == expected
    assert job_count(step) == max(jobs, 1)


def test_tokens_count_in_env_agents_and_pods_and_not_in_images_of_the_step() -> None:
    plugin = gpu_pod()
    plugin["podSpec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "{{matrix.gpus}}"
    step = command(
        matrix={"setup": {"gpus": ["1", "2"], "queue": ["a"]}},
        env={"GPUS": "{{matrix.gpus}}"},
        agents={"queue": "{{matrix.queue}}"},
        plugins=[{"kubernetes": plugin}],
    )
    assert codes(step) == set()
    assert codes({**step, "matrix": {"setup": {"queue": ["a"]}}}) == {"matrix-token"}
    assert codes(command(matrix=["a"], image="python:{{matrix}}")) == {"matrix-token"}


DEADLINES: dict[str, tuple[dict[str, Any], int, bool]] = {
    "six hours": ({}, 360, True),
    "six hours and a minute": ({}, 361, False),
    "eight hours with a deadline of the Job": ({"jobActiveDeadlineSeconds": 28800}, 480, True),
    "an hour with a shorter deadline": ({"jobActiveDeadlineSeconds": 1800}, 60, False),
    "eight hours with a longer deadline of the pod alone": (
        {"podSpec": {"activeDeadlineSeconds": 28800}},
        480,
        False,
    ),
    "an hour with a deadline that the patch sets right": (
        {"podSpec": {"activeDeadlineSeconds": 1800}, "podSpecPatch": {"activeDeadlineSeconds": 3600}},
        60,
        True,
    ),
    "an hour with a shorter deadline of the pod": ({"podSpec": {"activeDeadlineSeconds": 1800}}, 60, False),
}


@pytest.mark.parametrize(("plugin", "minutes", "is_fine"), DEADLINES.values(), ids=DEADLINES.keys())
def test_timeouts_and_deadlines(plugin: dict[str, Any], minutes: int, is_fine: bool) -> None:
    step = command(timeout_in_minutes=minutes, plugins=[{"kubernetes": plugin}])
    assert codes(step) == (set() if is_fine else {"timeout-past-deadline"})


def test_a_plain_agent_step_has_no_deadline_of_a_pod() -> None:
    assert codes(command(timeout_in_minutes=600)) == set()


def test_the_controller_s_tags_decide_only_for_pods_in_its_own_queue() -> None:
    rules = PodRules(controller_tags={"k8s": {"gpu": "h200"}})

    def asking(**agents: str) -> set[str]:
        return codes(command(agents=agents, plugins=["kubernetes"]), rules)

    assert asking(queue="k8s", gpu="h200") == set()
    assert asking(queue="k8s", gpu="*") == set()
    assert asking(queue="k8s", resource_class="large") == set()
    assert asking(queue="amd", gpu="mi300") == set()
    assert asking(queue="k8s", gpu="h100") == {"tag-unknown"}
    assert asking(queue="k8s", os="linux") == {"tag-unknown"}
    assert codes(command(agents={"queue": "k8s", "os": "linux"}), rules) == set()


def test_jobs_that_take_turns_on_the_devices_wait_unless_something_holds_them_back() -> None:
    rules = PodRules(gpu_capacity={"nvidia.com/gpu": 8}, local_images=LOCAL.local_images)

    def shards(number: int, minutes: int = 30, plugin: dict[str, Any] | None = None, **more: Any) -> set[str]:
        plugins = [{"kubernetes": plugin or gpu_pod()}]
        return codes(command(parallelism=number, timeout_in_minutes=minutes, plugins=plugins, **more), rules)

    assert shards(8) == set()
    assert shards(9) == {"jobs-wait-too-long"}
    assert shards(16, minutes=15) == set()
    assert shards(24, minutes=10) == {"jobs-wait-too-long"}
    assert shards(9, concurrency=8, concurrency_group="gpu") == set()
    queued = gpu_pod()
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpu"
    for box in (*queued["podSpec"]["initContainers"], *queued["sidecars"]):
        box["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert shards(9, plugin=queued) == set()


# ---------------------------------------------------------------- the whole build

COUNTS: dict[str, tuple[Any, int]] = {
    "a command": (command(), 1),
    "a word": ("wait", 1),
    "shards": (command(parallelism=4), 4),
    "a matrix": (command(matrix=["a", "b"]), 2),
    "a group": ({"group": "g", "steps": [command(parallelism=4), "wait", command()]}, 7),
    "an empty group": ({"group": "g", "steps": []}, 1),
}


@pytest.mark.parametrize(("step", "jobs"), COUNTS.values(), ids=COUNTS.keys())
def test_job_counts(step: Any, jobs: int) -> None:
    assert job_count(step) == jobs


def test_too_many_jobs_are_an_error_of_the_build_and_of_the_piece_that_cannot_be_split() -> None:
    rules = PodRules(jobs_per_upload=4, jobs_per_build=8)
    group = {"group": "g", "steps": [command(parallelism=4)]}
    assert build_codes([group, command(parallelism=4)], rules) == {
        (): ["too-many-jobs"],
        (0,): ["too-many-jobs-in-upload"],
    }
    assert build_codes([command(parallelism=4), command(parallelism=4)], rules) == {}


GRAPHS: dict[str, tuple[list[Any], dict[tuple[int, ...], list[str]]]] = {
    "a chain": ([command("a"), command("b", depends_on="a"), command("c", depends_on=["a", "b"])], {}),
    "a dependency on what comes later": ([command("a", depends_on="b"), command("b")], {}),
    "a dependency on a group": (
        [{"group": "g", "key": "g", "steps": [command("a")]}, command("b", depends_on="g")],
        {},
    ),
    "a dependency into a group": (
        [{"group": "g", "steps": [command("a")]}, command("b", depends_on=[{"step": "a"}])],
        {},
    ),
    "a dependency on nobody": ([command("a", depends_on=["nope"])], {(0,): ["depends-on-unknown"]}),
    "a group's dependency on nobody": (
        [{"group": "g", "depends_on": "nope", "steps": [command()]}],
        {(0,): ["depends-on-unknown"]},
    ),
    "a step on itself": ([command("a", depends_on="a")], {(0,): ["depends-on-cycle"]}),
    "three in a ring": (
        [command("a", depends_on="c"), command("b", depends_on="a"), command("c", depends_on="b")],
        {(1,): ["depends-on-cycle"]},
    ),
    "two rings": (
        [command(x, depends_on=y) for x, y in ("ab", "ba", "cd", "dc")],
        {(1,): ["depends-on-cycle"], (3,): ["depends-on-cycle"]},
    ),
    "a step on its own group": (
        [{"group": "g", "key": "g", "steps": [command("a", depends_on="g")]}],
        {(0, 0): ["depends-on-cycle"]},
    ),
    "a group on its own step": (
        [{"group": "g", "key": "g", "depends_on": "a", "steps": [command("a")]}],
        {(0,): ["depends-on-cycle"]},
    ),
    "two groups on each other": (
        [
            {"group": "g", "key": "g", "steps": [command("a", depends_on="h")]},
            {"group": "h", "key": "h", "steps": [command("b", depends_on="a")]},
        ],
        {(1, 0): ["depends-on-cycle"]},
    ),
    "across a wait, backwards": (
        [command("a", depends_on="b"), "wait", command("b")],
        {(0,): ["depends-on-cycle"]},
    ),
    "across a wait, backwards, but the later step is free of it": (
        [command("a", depends_on="b"), "wait", command("b", depends_on=None)],
        {},
    ),
    "across a block in a group, backwards": (
        [{"group": "g", "steps": [command("a", depends_on="b"), {"block": "?"}, command("b")]}],
        {(0, 0): ["depends-on-cycle"]},
    ),
    "two keys alike": ([command("a"), command("a")], {(1,): ["key-duplicate"]}),
    "two keys alike under other names": (
        [command(identifier="a"), {"group": "g", "steps": [command(id="a")]}],
        {(1, 0): ["key-duplicate"]},
    ),
}


@pytest.mark.parametrize(("steps", "expected"), GRAPHS.values(), ids=GRAPHS.keys())
def test_keys_and_dependencies(steps: list[Any], expected: dict[tuple[int, ...], list[str]]) -> None:
    found = build_codes(steps)
    assert {place: sorted(set(group)) for place, group in found.items()} == expected


def test_a_cycle_names_all_its_steps_in_order_and_a_dangling_key_the_nearest() -> None:
    found = verify_steps(
        [command("a", depends_on="b"), command("b", depends_on="a"), command("c", depends_on="A")]
    )
    (cycle,), (dangling,) = found[(1,)], found[(2,)]
    assert "a → b → a" in cycle.message
    assert (dangling.path, dangling.hint) == (("depends_on",), "did you mean 'a'?")


def test_a_key_that_is_in_the_build_already_may_be_depended_on() -> None:
    step = command("unit", depends_on="upload")
    assert build_codes([step]) == {(0,): ["depends-on-unknown"]}
    assert build_codes([step], PodRules(known_keys=("upload",))) == {}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=14))
def test_a_cycle_is_reported_exactly_where_a_graph_has_one(edges: list[tuple[int, int]]) -> None:
    wanted = {number: sorted({f"k{b}" for a, b in edges if a == number}) for number in range(10)}
    steps = [command(f"k{number}", depends_on=wanted[number]) for number in range(10)]
    found = build_codes(steps)
    # Taking away what depends on nothing that is left ends in nothing, or in steps on and behind a cycle.
    left = dict(wanted)
    while free := [number for number, keys in left.items() if not any(int(key[1:]) in left for key in keys)]:
        for number in free:
            del left[number]
    assert bool(found) == bool(left)
    assert {place[0] for place in found} <= set(left)


def test_a_long_chain_needs_no_deep_stack() -> None:
    chain = [command(f"k{n}", depends_on=f"k{n + 1}") for n in range(3000)] + [command("k3000")]
    assert verify_steps(chain) == {}
    chain[-1]["depends_on"] = "k0"
    assert build_codes(chain) == {(3000,): ["depends-on-cycle"]}


def test_each_step_may_say_for_itself_whether_the_upload_fills_in_variables() -> None:
    steps = [command(command="echo $$HOME"), command(command="echo ${A%b}")]
    assert set(verify_steps(steps, interpolate=[True, True])) == {(1,)}
    assert set(verify_steps(steps, interpolate=[False, False])) == {(0,)}
    assert verify_steps(steps, interpolate=[True, False]) == {}
    with pytest.raises(ValueError, match="shorter"):
        verify_steps(steps, interpolate=[True])


# ---------------------------------------------------------------- time


def many_steps(number: int, *, shared: bool) -> list[dict[str, Any]]:
    pods = [gpu_pod() for _ in range(40)]
    for index, pod in enumerate(pods):
        pod["podSpec"]["containers"][0]["resources"]["limits"]["memory"] = f"{200 + index}Gi"
    frozen = [pickle.dumps(pod) for pod in pods]
    return [
        {
            "label": f":test_tube: Unit {index} %N of %t",
            "key": f"unit-{index}",
            "command": ["cd k3_tests/unit", "./run.sh --out=$OUT"],
            "env": {"SUITE": "unit", "MODE": "fast"},
            "agents": {"queue": "k8s"},
            "depends_on": [f"unit-{index - 1}"] if index % 3 else [],
            "retry": {
                "automatic": [{"signal_reason": "stack_error", "limit": 1}, {"exit_status": -1, "limit": 2}]
            },
            "timeout_in_minutes": 30,
            "parallelism": 1,
            "plugins": [{"kubernetes": pods[index % 40] if shared else pickle.loads(frozen[index % 40])}],
        }
        for index in range(number)
    ]


@pytest.mark.parametrize("shared", [True, False], ids=["pods shared as objects", "pods equal in content"])
def test_three_thousand_steps_with_forty_pods_are_verified_in_well_under_a_second(shared: bool) -> None:
    steps = many_steps(3000, shared=shared)
    rules = PodRules(local_images=LOCAL.local_images)
    # 0.1 s on an idle machine; the rest is for one that is busy or slow, and gets two more chances.
    for _ in range(3):
        started = time.process_time()
        assert verify_steps(steps, rules) == {}
        spent = time.process_time() - started
        if spent < 0.4:
            break
    assert spent < 0.8


def test_a_pod_is_examined_once_for_each_content_and_one_object_is_not_even_compared() -> None:
    examiner = Examiner(LOCAL, interpolate=False)
    first, equal, other = gpu_pod(), gpu_pod(), gpu_pod()
    other["podSpec"]["hostNetwork"] = 1
    known = examiner.of(first)
    assert examiner.of(first) is known
    assert examiner.of(equal) is known
    assert examiner.of(other) is not known
    assert [one.code for one in examiner.of(other).findings] == ["pod-wrong-type"]
    # Python holds 1 and true for equal; a pod with the one is refused and with the other is fine.
    other_true = copy.deepcopy(other)
    other_true["podSpec"]["hostNetwork"] = True
    assert examiner.of(other_true).findings == ()


def test_a_pod_of_values_that_are_no_json_is_still_judged() -> None:
    class Text(str):
        __slots__ = ()

    plugin = gpu_pod()
    plugin["podSpec"]["containers"][0]["image"] = Text("LMCache/x")
    step = command(plugins=[{"kubernetes": plugin}])
    assert codes(step) == {"pod-image-malformed"}
    assert [one.code for one in verify_pod(plugin, LOCAL)] == ["pod-image-malformed"]


def test_verifying_changes_nothing_and_says_the_same_twice() -> None:
    steps = [
        *many_steps(3, shared=True),
        command("bad key", depends_on="nope", plugins=[{"kubernetes": {"a": 1}}]),
    ]
    before = copy.deepcopy(steps)
    assert verify_steps(steps) == verify_steps(steps)
    assert steps == before
