"""Whole builds: keys, dependencies, cycles, job counts, and the time it all takes."""

from __future__ import annotations

import copy
import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bkgen.verify import PodRules, job_count, verify_pod, verify_step, verify_steps
from bkgen.verify.examine import Examiner
from verify_samples import LOCAL, command, gpu_pod


def build_codes(steps: list[Any], rules: PodRules = LOCAL) -> dict[tuple[int, ...], list[str]]:
    return {place: [one.code for one in group] for place, group in verify_steps(steps, rules).items()}


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


def best_of_three(work: Callable[[], object]) -> float:
    """Seconds of this process that the quickest of three runs took."""
    seconds = []
    for _ in range(3):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["pods shared as objects", "pods equal in content"])
def test_a_thousand_steps_with_forty_pods_are_verified_nearly_as_fast_as_they_are_written(
    shared: bool,
) -> None:
    steps = many_steps(1000, shared=shared)
    rules = PodRules(local_images=LOCAL.local_images)
    assert verify_steps(steps, rules) == {}
    written = best_of_three(lambda: json.dumps(steps))
    assert best_of_three(lambda: verify_steps(steps, rules)) < 6 * written


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
    assert [one.code for one in verify_step(step, LOCAL)] == ["pod-image-malformed"]
    assert [one.code for one in verify_pod(plugin, LOCAL)] == ["pod-image-malformed"]


def test_verifying_changes_nothing_and_says_the_same_twice() -> None:
    steps = [
        *many_steps(3, shared=True),
        command("bad key", depends_on="nope", plugins=[{"kubernetes": {"a": 1}}]),
    ]
    before = copy.deepcopy(steps)
    assert verify_steps(steps) == verify_steps(steps)
    assert steps == before
