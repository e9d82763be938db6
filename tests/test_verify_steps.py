"""Steps and whole builds: attributes, matrices, dependencies, cycles, counts, and the time it all takes."""

from __future__ import annotations

from typing import Any

import pytest

from bkgen.verify import PodRules, job_count, verify_step
from verify_samples import LOCAL, command, gpu_pod

FULL = "github.com/buildkite-plugins/kubernetes-buildkite-plugin"


def codes(step: Any, rules: PodRules = LOCAL, *, interpolate: bool = False) -> set[str]:
    return {one.code for one in verify_step(step, rules, interpolate=interpolate)}


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
    "every failure retried, by a word": (
        command(retry={"automatic": True}),
        "retry-every-failure",
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
    "a plugin that is an address": (
        command(plugins=[{f"https://{FULL}.git": {}}]),
        "plugin-name-versioned",
        ("plugins", 0, f"https://{FULL}.git"),
    ),
    "a plugin's full name with a version": (
        command(plugins=[{f"{FULL}#v1": {}}]),
        "plugin-name-versioned",
        ("plugins", 0, f"{FULL}#v1"),
    ),
    "one plugin under two names": (
        command(plugins=[{"kubernetes": {}}, {FULL: {}}]),
        "plugin-twice",
        ("plugins", 1, FULL),
    ),
    "a plugin whose name is a matrix value": (
        command(matrix=["a", "b"], plugins=[{"{{matrix}}": {}}]),
        "plugin-name-open",
        ("plugins", 0, "{{matrix}}"),
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


RETRIES: dict[str, tuple[Any, set[str]]] = {
    "nothing": (False, set()),
    "everything, as often as by default": ({}, {"retry-every-failure"}),
    "everything, ten times": ([{"exit_status": "*", "limit": 10}], {"retry-every-failure"}),
    "everything, and lost machines": (
        [{"exit_status": "*", "limit": 2}, {"exit_status": -1, "limit": 2}],
        {"retry-every-failure"},
    ),
    "everything, among others": ([{"exit_status": [1, "*"], "limit": 2}], {"retry-every-failure"}),
    "every failure of the command": ([{"signal_reason": "none", "limit": 3}], {"retry-every-failure"}),
    "every reason": ([{"signal_reason": "*", "limit": 3}], {"retry-every-failure"}),
    "once more, and lost machines": (
        [{"exit_status": "*", "limit": 1}, {"exit_status": -1, "limit": 2}],
        set(),
    ),
    "once more alone": ([{"exit_status": "*", "limit": 1}], {"retry-without-lost"}),
    "never": ([{"exit_status": "*", "limit": 0}, {"exit_status": -1, "limit": 0}], set()),
    "a signal": ([{"signal": "SIGKILL", "limit": 3}], set()),
    "a signal with any status": (
        [{"signal": "SIGKILL", "exit_status": "*", "limit": 3}],
        {"retry-without-lost"},
    ),
    "any status of a lost machine": (
        [{"signal_reason": "stack_error", "exit_status": "*", "limit": 2}],
        set(),
    ),
    "a status of its own": ([{"exit_status": 78, "limit": 3}], set()),
    "lost machines three times": ([{"exit_status": -1, "limit": 3}], {"retry-too-often"}),
    "lost agents three times": ([{"signal_reason": "agent_stop", "limit": 3}], {"retry-too-often"}),
    "a limit in words": ([{"exit_status": -1, "limit": "many"}], {"retry-invalid"}),
}


@pytest.mark.parametrize(("automatic", "expected"), RETRIES.values(), ids=RETRIES.keys())
def test_retries_are_for_lost_machines_and_few(automatic: Any, expected: set[str]) -> None:
    assert codes(command(retry={"automatic": automatic})) == expected


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
    rules = PodRules(controller_tags={"k8s": {"gpu": ("h200", "l40s")}})

    def asking(**agents: str) -> set[str]:
        return codes(command(agents=agents, plugins=["kubernetes"]), rules)

    assert asking(queue="k8s", gpu="h200") == set()
    assert asking(queue="k8s", gpu="l40s") == set()
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
