"""Keys, dependencies, order: what the plan makes of decisions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.decide.facts import Selection
from bkgen.errors import UserError
from bkgen.graph import closure, depths, find_cycle
from bkgen.plan.keys import keyed_steps, slug
from bkgen.report.figures import figures, minutes
from decisions import loaded, plan, pull_request, settings, step_verdicts, suite, verdicts


def keys(values) -> list[str]:
    return [item.key for item in keyed_steps(values)]


def cmd(**more):
    return {"command": "./run.sh", **more}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([cmd(label="anything")], ["unit"]),
        (None, ["unit"]),
        ([cmd(label=":rocket: P2P %N"), "wait", cmd(label="Second one")], ["unit-p2p", "unit-wait", "unit-second-one"]),
        ([cmd(label="same"), cmd(label="same")], ["unit-same", "unit-same-2"]),
        ([cmd(key="mine"), cmd(command="./scripts/run-p2p.sh")], ["mine", "unit-scripts-run-p2p"]),
        ([cmd(label="unit"), cmd(label="unit tests")], ["unit-2", "unit-tests"]),
        ([cmd(mirrors={"mi300": {}, "x.y": {"key": "own"}})], ["unit", "unit-mi300", "own"]),
        ([{"group": "Two GPUs", "steps": [cmd(label="a")]}, cmd(label="b")], ["unit-two-gpus", "unit-a", "unit-b"]),
        ([{"block": "Go?"}, {"input": "Name"}, {"trigger": "deploy"}], ["unit-go", "unit-name", "unit-deploy"]),
        ([cmd(label="{{matrix}} 🚀"), cmd(label="!!!")], ["unit-command", "unit-command-2"]),
        ([cmd(identifier="old"), cmd(id="older")], ["old", "older"]),
    ],
)  # fmt: skip
def test_keys_come_from_names_and_are_unique(steps, expected) -> None:
    assert keys(suite(steps=steps)) == expected


@given(st.text(max_size=300))
def test_a_slug_is_always_legal(text: str) -> None:
    made = slug(text)
    assert len(made) <= 60
    assert all(c.isascii() and (c.isalnum() or c in "-_") for c in made)


def test_keys_do_not_depend_on_what_is_selected() -> None:
    steps = [cmd(label="a", when={"paths": ["src/**"]}), cmd(label="b", when={"paths": ["lib/**"]})]
    made = suite(steps=steps)
    assert set(step_verdicts(plan([made], ["src/x"]))) == set(step_verdicts(plan([made], ["lib/x"])))


def failing(*suites) -> str:
    with pytest.raises(UserError) as error:
        plan(suites)
    return str(error.value)


def test_two_suites_with_one_key_are_an_error_that_names_both_files() -> None:
    message = failing(suite("a.b"), suite("a-b"))
    assert "k3_tests/a.b/pipeline.yml" in message
    assert "k3_tests/a-b/pipeline.yml" in message
    assert "the key 'a-b' is taken" in message


@pytest.mark.parametrize("key", ["with blank", "ü", "a/b", "123e4567-e89b-12d3-a456-426614174000"])
def test_a_key_that_buildkite_refuses_is_an_error(key: str) -> None:
    assert "key" in failing(suite(steps=[cmd(key=key)]))


def test_a_step_cannot_have_the_key_of_its_suites_group() -> None:
    message = failing(suite("unit", steps=[cmd(key="unit"), cmd()]))
    assert "the key 'unit' is that of the group which the suite's steps make" in message


def test_a_step_has_one_key_under_one_name() -> None:
    assert "the step has 2 keys" in failing(suite(steps=[cmd(key="a", identifier="b")]))
    assert keys(suite(steps=[cmd(key="a", id="a")])) == ["a"]


def test_an_unknown_dependency_is_an_error_with_the_nearest_key() -> None:
    message = failing(suite("a", steps=[cmd(key="build")]), suite("b", steps=[cmd(depends_on=["biuld"])]))
    assert "no step has the key 'biuld'" in message
    assert "did you mean 'build'?" in message
    assert "k3_tests/b/pipeline.yml" in message


def test_all_unknown_dependencies_are_reported_at_once() -> None:
    message = failing(
        suite("a", steps=[cmd(depends_on="x")]), suite("b", steps=[cmd(depends_on=[{"step": "y"}])])
    )
    assert "'x'" in message
    assert "'y'" in message


def test_every_step_that_needs_a_missing_key_is_told_the_nearest_one() -> None:
    message = failing(
        suite("a", steps=[cmd(key="build")]),
        suite("b", steps=[cmd(depends_on="biuld"), cmd(depends_on=["biuld", "bulid"])]),
    )
    assert message.count("no step has the key 'biuld'") == 2
    assert message.count("did you mean 'build'?") == 3


@pytest.mark.parametrize(
    ("one", "two", "chain"),
    [
        ({"key": "a", "depends_on": "b"}, {"key": "b", "depends_on": ["a"]}, "a → b → a"),
        ({"key": "a", "depends_on": "a"}, {"key": "b"}, "a → a"),
    ],
)
def test_a_cycle_is_an_error_that_names_the_way_round(one, two, chain) -> None:
    message = failing(suite("one", steps=[cmd(**one)]), suite("two", steps=[cmd(**two)]))
    assert chain in message


def test_a_cycle_through_a_group_is_found() -> None:
    group = {"group": "g", "key": "g", "steps": [cmd(key="inner", depends_on="outer")]}
    assert "wait for each other" in failing(
        suite("one", steps=[group]), suite("two", steps=[cmd(key="outer", depends_on="g")])
    )


def test_what_a_selected_step_needs_is_pulled_in_and_says_by_whom() -> None:
    base = suite("base", when={"paths": ["docker/**"]}, steps=[cmd(key="base")])
    image = suite("image", when={"paths": ["docker/**"]}, steps=[cmd(key="image", depends_on="base")])
    test = suite("test", when={"paths": ["src/**"]}, steps=[cmd(key="test", depends_on="image")])
    made = plan([image, base, test], ["src/x.py"])
    assert verdicts(made) == {"test": "RUN paths-match", "image": "RUN needed", "base": "RUN needed"}
    by_name = {planned.suite.name: planned.decision for planned in made.suites}
    assert "test/test depends on it" in by_name["image"].reason
    assert "image/image depends on it" in by_name["base"].reason


def test_depending_on_a_group_pulls_in_all_its_steps() -> None:
    build = suite("build", when={"paths": ["docker/**"]}, steps=[cmd(label="x"), cmd(label="y")])
    test = suite("test", steps=[cmd(depends_on="build")])
    made = plan([build, test], ["src/x.py"])
    assert step_verdicts(made) == {"test": "RUN default", "build-x": "RUN needed", "build-y": "RUN needed"}


def test_a_dependency_of_a_group_holds_for_its_steps() -> None:
    build = suite("build", when={"paths": ["docker/**"]}, steps=[cmd(key="image")])
    grouped = suite("test", steps=[{"group": "g", "depends_on": "image", "steps": [cmd(label="t")]}])
    assert verdicts(plan([build, grouped], ["src/x.py"]))["build"] == "RUN needed"


def test_an_unadmitted_dependency_is_pulled_in_unblocked() -> None:
    given = settings(policy={"labels": {"mp": "x"}})
    build = suite("build", when={"labels": ["mp"]}, steps=[cmd(key="image")])
    test = suite("test", steps=[cmd(depends_on="image")])
    assert verdicts(plan([build, test], ["src/x.py"], given=given))["build"] == "RUN needed"


GATED = [
    {"block": "go", "key": "go"},
    {"group": "g", "key": "g", "steps": [cmd(key="image")]},
    {"block": "publish"},
    cmd(key="push"),
]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["src/a.py"], ["image"]),
        (["docker/a"], ["go", "image", "push"]),
    ],
    ids=["pulled in", "wanted for its own sake"],
)
def test_a_block_holds_no_step_that_another_suite_pulled_in(files: list[str], expected: list[str]) -> None:
    image = suite("images", when={"paths": ["docker/**"]}, steps=GATED)
    test = suite("test", when={"paths": ["src/**"]}, steps=[cmd(key="test", depends_on="image")])
    made = plan([image, test], files)
    running = [key for key, verdict in step_verdicts(made).items() if verdict.startswith("RUN")]
    assert [key for key in running if key in {"go", "image", "push"}] == expected


def test_a_block_that_a_pulled_in_step_names_is_pulled_in_with_it() -> None:
    steps = [{"block": "go", "key": "go"}, cmd(key="image", depends_on="go")]
    image = suite("images", when={"paths": ["docker/**"]}, steps=steps)
    test = suite("test", when={"paths": ["src/**"]}, steps=[cmd(key="test", depends_on="image")])
    assert step_verdicts(plan([image, test], ["src/a.py"]))["go"].startswith("RUN")


def test_what_depends_on_something_forbidden_to_forks_is_skipped() -> None:
    build = suite("build", when={"forks": False}, steps=[cmd(key="image")])
    test = suite("test", steps=[cmd(key="test", depends_on="image")])
    later = suite("later", steps=[cmd(key="later", depends_on="test")])
    free = suite("free")
    made = plan([build, test, later, free], ["src/x.py"], build=pull_request(is_fork=True))
    assert verdicts(made) == {
        "build": "SKIP not-admitted",
        "free": "RUN default",
        "later": "SKIP dependency-refused",
        "test": "SKIP dependency-refused",
    }


def test_a_wait_goes_with_the_last_step_around_it() -> None:
    steps = [
        cmd(key="a", when={"paths": ["a/**"]}),
        "wait",
        cmd(key="b", when={"paths": ["b/**"]}),
        "wait",
        cmd(key="c"),
    ]
    running = [
        k
        for k, v in step_verdicts(plan([suite("x", steps=steps)], ["b/y", "z"])).items()
        if v.startswith("RUN")
    ]
    assert running == ["b", "x-wait-2", "c"]


CLAIM = {"include_trivial": True}
ONE, TWO = cmd(key="a", when=CLAIM), cmd(key="b", when=CLAIM)


@pytest.mark.parametrize(
    "steps",
    [
        [ONE, {"wait": None, "key": "w"}, TWO],
        [ONE, {"wait": None, "key": "w"}, TWO, cmd(key="left-out")],
        [{"group": "g", "steps": [ONE]}, {"wait": None, "key": "w"}, {"group": "h", "steps": [TWO]}],
    ],
    ids=["everything runs", "something is left out", "between groups"],
)
def test_a_wait_follows_its_neighbours_even_where_the_file_is_skipped(steps: list[object]) -> None:
    made = step_verdicts(plan([suite("x", steps=steps)], ["docs/a.md"]))
    assert [made[key].split()[0] for key in ("a", "w", "b")] == ["RUN"] * 3, made
    assert not made.get("left-out", "SKIP").startswith("RUN")


def test_a_wait_that_a_step_depends_on_stays_with_nothing_before_it() -> None:
    steps = [
        cmd(key="a", when={"paths": ["a/**"]}),
        {"wait": None, "key": "w"},
        cmd(key="b", depends_on="w"),
    ]
    made = step_verdicts(plan([suite("x", steps=steps)], ["b/y"]))
    assert [key for key, verdict in made.items() if verdict.startswith("RUN")] == ["w", "b"]


def test_a_gate_of_a_skipped_suite_runs_for_the_step_that_waits_for_it() -> None:
    gate = suite("gate", steps=[{"block": "Go?", "key": "go"}], when={"paths": ["a/**"]})
    made = plan([gate, suite("x", steps=[cmd(depends_on="go")])], ["b/y"])
    assert verdicts(made) == {"gate": "RUN needed", "x": "RUN default"}


def test_a_block_with_nothing_behind_it_goes() -> None:
    steps = [cmd(key="a"), {"block": "Deploy?", "key": "gate"}, cmd(key="b", when={"paths": ["b/**"]})]
    assert step_verdicts(plan([suite("x", steps=steps)], ["a"]))["gate"].startswith("SKIP")


def test_a_group_without_selected_steps_goes() -> None:
    steps = [{"group": "g", "steps": [cmd(key="a", when={"paths": ["a/**"]})]}, cmd(key="b")]
    assert step_verdicts(plan([suite("x", steps=steps)], ["z"]))["x-g"].startswith("SKIP")


def test_a_group_runs_where_one_of_its_steps_does() -> None:
    inner = cmd(key="a", when={"include_trivial": True})
    made = step_verdicts(
        plan([suite("x", steps=[{"group": "g", "steps": [inner, cmd(key="b")]}])], ["docs/a.md"])
    )
    assert made == {"x-g": "RUN default", "a": "RUN default", "b": "SKIP only-trivial"}


ASKING = suite("x", steps=[{"wait": None}, {"input": "Which?"}, {"group": "g", "steps": [{"block": "Go?"}]}])


def test_a_suite_of_nothing_but_questions_runs_as_it_is_written() -> None:
    (planned,) = plan([ASKING], ["z"]).suites
    assert planned.decision.rule == "default"
    assert len(planned.selected) == len(planned.steps) == 4
    assert not plan([ASKING], ["README.md"]).suites[0].selected


@pytest.mark.parametrize(
    ("files", "left"),
    [(["src/a", "lib/b"], ["a", "b", "release"]), (["src/a"], ["a"]), (["lib/b"], ["b", "release"])],
    ids=["everything", "what the block follows is skipped", "what is far from it is skipped"],
)
def test_a_block_at_the_end_stays_while_nothing_is_left_out(files: list[str], left: list[str]) -> None:
    steps = [
        cmd(key="a", when={"paths": ["src/**"]}),
        {
            "group": "g",
            "key": "g",
            "steps": [cmd(key="b", when={"paths": ["lib/**"]}), {"block": "R?", "key": "release"}],
        },
    ]
    running = {
        key for key, said in step_verdicts(plan([suite("x", steps=steps)], files)).items() if "RUN" in said
    }
    assert sorted(running - {"g"}) == left


@pytest.mark.parametrize("condition", [{"branches": "main"}, {"if": "build.branch == 'main'"}])
def test_a_wait_stays_in_front_of_one_with_a_condition(condition: dict[str, str]) -> None:
    steps = [
        cmd(key="a"), {"wait": None, "key": "w1"}, {"wait": None, "key": "w2", **condition}, cmd(key="b"),
        cmd(key="c", when={"paths": ["other/**"]}),
    ]  # fmt: skip
    said = step_verdicts(plan([suite("x", steps=steps)], ["src/a"]))
    assert [said[key].split()[0] for key in ("a", "w1", "w2", "b", "c")] == ["RUN"] * 4 + ["SKIP"]


def test_more_gpus_and_longer_steps_go_first_and_ties_by_name() -> None:
    def sized(name: str, gpus: int, expected: int):
        return suite(name, pod={"gpus": gpus}, steps=[cmd(expected_minutes=expected)])

    made = plan([sized("d", 1, 5), sized("a", 1, 9), sized("c", 8, 1), sized("b", 1, 9)])
    assert [planned.suite.name for planned in made.suites] == ["c", "a", "b", "d"]


def test_named_steps_narrow_a_suite() -> None:
    chosen = Selection(frozenset({"x"}), {"x": frozenset({"b"})})
    made = plan([suite("x", steps=[cmd(key="a"), cmd(key="b")])], ["z"], selection=chosen)
    assert step_verdicts(made) == {"a": "SKIP not-named", "b": "RUN default"}


def test_mirrors_have_their_own_when_dependencies_and_minutes() -> None:
    mirrors = {
        "mi300": {"when": {"labels": ["amd"]}, "expected_minutes": 30, "depends_on": None},
        "xpu": None,
    }
    step = cmd(key="t", depends_on="image", expected_minutes=10, mirrors=mirrors)
    given = settings(policy={"labels": {"amd": "x"}})
    made = plan([suite("x", steps=[step, cmd(key="image")])], ["z"], given=given)
    assert step_verdicts(made)["t-mi300"] == "SKIP not-admitted"
    by_key = {step.key: step for step in made.suites[0].steps}
    assert by_key["t-mi300"].minutes == 30
    assert by_key["t-xpu"].minutes == 10
    assert by_key["t-mi300"].needs == ()
    assert by_key["t-xpu"].needs == ("image",)


def test_figures_add_up_jobs_gpu_minutes_and_the_longest_path() -> None:
    steps = [
        cmd(key="a", expected_minutes=10, parallelism=3),
        cmd(key="b", expected_minutes=20, depends_on="a", matrix=["x", "y"]),
        cmd(key="c", pod={"gpus": 4}),
    ]
    total = figures(plan([suite("x", pod={"gpus": 2}, steps=steps)], ["z"]))
    assert (total.suites, total.steps, total.jobs) == (1, 3, 6)
    assert total.gpu_minutes == 2 * 3 * 10 + 2 * 2 * 20
    assert total.longest_path_minutes == 30
    assert total.without_expectation == 1


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 min"), (59.6, "1 h 00 min"), (14, "14 min"), (125, "2 h 05 min")]
)
def test_minutes_read_well(value: float, shown: str) -> None:
    assert minutes(value) == shown


def test_the_position_of_a_dangling_dependency_is_its_line() -> None:
    suites = loaded(
        {"x": "steps:\n- command: a\n  depends_on:\n    - ok\n    - nope\n- {command: b, key: ok}\n"}
    )
    with pytest.raises(UserError) as error:
        plan(suites)
    assert "k3_tests/x/pipeline.yml:5:7: steps[0].depends_on[1]: no step has the key 'nope'" in str(
        error.value
    )


EDGES = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3), max_size=6
)


@given(EDGES)
def test_a_found_cycle_is_a_cycle_and_none_means_depths_exist(edges: dict[str, list[str]]) -> None:
    cycle = find_cycle(edges)
    if cycle is None:
        rank = depths(edges)
        assert all(rank[node] > rank[needed] for node, needs in edges.items() for needed in needs)
    else:
        assert cycle[0] == cycle[-1]
        assert all(after in edges[before] for before, after in pairwise(cycle))


@given(EDGES, st.sampled_from("abcdef"))
def test_a_closure_is_closed_and_names_who_asked(edges: dict[str, list[str]], root: str) -> None:
    found = closure(edges, [root])
    reached = {root, *found}
    assert all(needed in reached for node in reached for needed in edges.get(node, ()))
    assert all(node in edges[by] for node, by in found.items())
