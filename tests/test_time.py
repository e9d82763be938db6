"""Minutes: from `expected_minutes` to a timeout, a deadline, GPU minutes and the longest path."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.errors import Diagnostic
from bkgen.pipeline.steps import timeout_of
from bkgen.report.figures import figures
from bkgen.spec.references import suite_problems
from bkrun import THREE, Cli, unit_pipeline
from bkrun import suite as suite_files
from decisions import plan, settings, suite

HARDWARE = {"h200": {"gpu_resource": "nvidia.com/gpu"}, "mi300": {"gpu_resource": "amd.com/gpu"}}


def timeouts(step: dict[str, Any], **given: Any) -> dict[str, int | None]:
    """The timeout of a step and of its mirrors, by key."""
    config = settings(profiles=HARDWARE, **given)
    made = plan([suite("it", steps=[{"command": "x", "key": "it", **step}])], given=config)
    return {one.key: timeout_of(one, config) for one in made.suites[0].steps}


@given(st.integers(1, 40_000), st.integers(100, 400))
def test_a_timeout_is_the_expectation_times_the_factor_rounded_up(tenths: int, hundredths: int) -> None:
    timeout = timeouts({"expected_minutes": tenths / 10}, timeout_factor=hundredths / 100)["it"]
    assert timeout is not None
    exact = Fraction(tenths, 10) * Fraction(hundredths, 100)
    assert timeout - 1 < exact <= timeout


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"expected_minutes": 14}, {"it": 18}),
        ({"expected_minutes": 0.1}, {"it": 1}),
        ({"expected_minutes": 14, "timeout_in_minutes": 60}, {"it": 60}),
        ({}, {"it": None}),
        ({"timeout_in_minutes": 9}, {"it": 9}),
        ({"expected_minutes": 14, "mirrors": {"mi300": {}}}, {"it": 18, "it-mi300": 18}),
        (
            {"expected_minutes": 14, "mirrors": {"mi300": {"expected_minutes": 40}}},
            {"it": 18, "it-mi300": 50},
        ),
        (
            {
                "expected_minutes": 14,
                "timeout_in_minutes": 30,
                "mirrors": {"mi300": {"expected_minutes": 40}},
            },
            {"it": 30, "it-mi300": 50},
        ),
        (
            {"timeout_in_minutes": 30, "mirrors": {"mi300": {"timeout_in_minutes": 90}}},
            {"it": 30, "it-mi300": 90},
        ),
    ],
    ids=[
        "times 1.25, rounded up",
        "never less than a minute",
        "one's own timeout stays",
        "without an expectation there is none",
        "a timeout without an expectation",
        "a mirror takes as long as its step",
        "a mirror that takes longer",
        "a mirror's expectation beats the step's timeout",
        "a mirror's own timeout",
    ],
)
def test_the_timeout_of_a_step(step: dict[str, Any], expected: dict[str, int | None]) -> None:
    assert timeouts(step) == expected


def problems(step: dict[str, Any]) -> list[Diagnostic]:
    made = suite("it", steps=[{"command": "x", **step}])
    return list(suite_problems(made, settings(profiles=HARDWARE)))


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        ({"expected_minutes": 20, "timeout_in_minutes": 19}, ["error time-below-expectation"]),
        ({"expected_minutes": 20, "timeout_in_minutes": 20}, ["warning time-near-timeout"]),
        ({"expected_minutes": 20, "timeout_in_minutes": 24}, ["warning time-near-timeout"]),
        ({"expected_minutes": 20, "timeout_in_minutes": 25}, []),
        ({"expected_minutes": 20}, []),
        (
            {"expected_minutes": 20, "mirrors": {"mi300": {"timeout_in_minutes": 10}}},
            ["error time-below-expectation"],
        ),
        (
            {"mirrors": {"mi300": {"expected_minutes": 9, "timeout_in_minutes": 10}}},
            ["warning time-near-timeout"],
        ),
        ({"expected_minutes": 20, "mirrors": {"mi300": {"timeout_in_minutes": 30}}}, []),
    ],
    ids=[
        "below the expectation is an error",
        "at the expectation is a warning",
        "above 80 % is a warning",
        "at 80 % all is well",
        "what bkgen works out is well",
        "a mirror is held to its step's expectation",
        "a mirror is held to its own expectation",
        "a mirror with room is well",
    ],
)
def test_a_timeout_is_held_against_the_expectation(step: dict[str, Any], codes: list[str]) -> None:
    found = problems(step)
    assert [f"{one.severity} {one.code}" for one in found] == codes
    assert all(one.hint and one.field.endswith("timeout_in_minutes") for one in found)


# -- the longest path ----------------------------------------------------------------------------------------


def cmd(key: str, minutes: float, **more: Any) -> dict[str, Any]:
    return {"command": "x", "key": key, "expected_minutes": minutes, **more}


A, B, C = cmd("a", 10), cmd("b", 20), cmd("c", 5)
PATHS: dict[str, tuple[list[Any], float]] = {
    "side by side the longest counts": ([A, B, C], 20),
    "a dependency adds up": ([A, cmd("b", 20, depends_on="a"), C], 30),
    "a wait holds back what follows": ([A, B, "wait", C], 25),
    "two waits": ([A, "wait", B, "wait", C], 35),
    "a block holds back what follows": ([A, {"block": "Go?"}, B], 30),
    "an input holds back nothing": ([A, {"input": "Name?"}, B], 20),
    "a wait with a condition may not be there": ([A, {"wait": None, "if": "build.tag != null"}, B], 20),
    "a wait inside a group": ([{"group": "g", "steps": [A, "wait", B]}, C], 30),
    "a group ends with its last step": ([{"group": "g", "steps": [A, B]}, "wait", C], 25),
    "a wait before a group": ([A, "wait", {"group": "g", "steps": [B, C]}], 30),
    "a group that depends on a step": ([A, {"group": "g", "depends_on": "a", "steps": [B, C]}], 30),
    "a step that depends on a group": (
        [{"group": "g", "key": "g", "steps": [A, B]}, cmd("c", 5, depends_on="g")],
        25,
    ),
}


@pytest.mark.parametrize(("steps", "minutes"), PATHS.values(), ids=PATHS)
def test_the_longest_path(steps: list[Any], minutes: float) -> None:
    assert figures(plan([suite("it", steps=steps)])).longest_path_minutes == minutes


def test_the_longest_path_runs_across_suites_and_leaves_skipped_steps_out() -> None:
    suites = [
        suite("image", steps=[cmd("build", 7), cmd("push", 3, depends_on="build")]),
        suite("slow", when={"paths": ["docs/**"]}, steps=[cmd("slow", 500)]),
        suite("unit", steps=[cmd("unit", 20, depends_on="image")]),
    ]
    total = figures(plan(suites))
    assert total.longest_path_minutes == 30
    assert total.skipped == 1


def test_a_long_chain_of_waits_is_counted_to_its_end() -> None:
    steps: list[Any] = []
    for number in range(600):
        steps += [cmd(f"s{number}", 1), "wait"]
    assert figures(plan([suite("it", steps=steps)])).longest_path_minutes == 600


def test_steps_that_wait_for_each_other_across_a_wait_do_not_hang_the_sum() -> None:
    steps = [cmd("a", 10, depends_on="b"), "wait", B]
    assert figures(plan([suite("it", steps=steps)])).longest_path_minutes >= 20


# -- by the command line -------------------------------------------------------------------------------------


def test_the_plan_tells_gpu_minutes_and_the_longest_path_as_numbers(cli: Cli) -> None:
    steps = (
        "pod: {gpus: 4, memory: {request: 8Gi, limit: 16Gi}, shm: 1Gi}\nsteps:\n"
        "- {key: wide, command: ./run.sh, expected_minutes: 12, shards: 3}\n- wait\n"
        "- {key: late, command: ./run.sh, expected_minutes: 30, pod: {gpus: 2}}\n"
    )
    made = cli.files({**THREE, **suite_files("deep", steps)})
    result = cli.run(made.path, "plan", "--json", "--changed", "newdir/x.py")
    totals = result.json()["totals"]
    assert totals["gpu_minutes"] == 4 * 3 * 12 + 2 * 30 + 10  # deep, and gamma's one GPU for ten minutes
    assert totals["gpu_minutes_saved"] == 2 * 10  # alpha and beta
    assert totals["longest_path_minutes"] == 42
    shown = cli.run(made.path, "plan", "--changed", "newdir/x.py").out
    assert "214 GPU minutes planned, 20 saved, longest path 42 min" in shown


def test_a_timeout_beyond_six_hours_moves_the_controllers_deadline_behind_it(cli: Cli) -> None:
    long = unit_pipeline().replace("expected_minutes: 10", "expected_minutes: 400")
    made = cli.files({**THREE, **suite_files("long", long)})
    (step,) = cli.run(made.path, "render", "long", "--json").json()["steps"]
    assert step["timeout_in_minutes"] == 500
    assert step["plugins"][0]["kubernetes"]["jobActiveDeadlineSeconds"] == (500 + 15) * 60


def test_a_timeout_below_the_expectation_stops_the_upload_with_its_line(cli: Cli) -> None:
    tight = unit_pipeline().replace("expected_minutes: 10", "expected_minutes: 10, timeout_in_minutes: 9")
    made = cli.files({**THREE, **suite_files("tight", tight)})
    result = cli.run(made.path, "upload", "--dry-run")
    assert result.code == 1
    assert "k3_tests/tight/pipeline.yml:3:" in result.err
    assert "is stopped after 9 minutes but takes 10" in result.err
