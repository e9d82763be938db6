"""Admission: the whole truth table, and each promise about labels, scopes and cadences by itself."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import policy_table
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.build import SOURCES, Build
from bkgen.changes import Changes, ChangesNotAsked, UnknownChanges
from bkgen.decide.decision import RULES
from bkgen.decide.facts import Selection, gather
from bkgen.decide.policy import resolve_policy
from bkgen.decide.rules import Subject, decide
from bkgen.plan.planned import Plan
from bkgen.report.json_form import plan_json
from bkgen.report.table import plain_table
from bkgen.spec.settings import Settings
from bkgen.spec.suite import SuiteSpec
from bkgen.spec.when import When
from bkgen.yamlio import load
from decisions import changed, plan, pull_request, settings, suite, verdicts

LABELS = ("unit", "mp", "megatron", "short", "long", "ft-short", "ft-long", "image-test")
POLICY = {
    "labels": dict.fromkeys(LABELS, "x"),
    "cadences": {"nightly": {"schedule": True, "minus": ["long", "ft-long"]}, "weekly": {}},
    "scopes": {"all": {}, "image": {"minus": ["long", "ft-short", "ft-long"]}},
}
GIVEN = settings(policy=POLICY)

EVERY = "unit mp megatron short long ft-short ft-long image-test"
TABLE = {
    # cadence, scopes on the pull request: the labels that count, before any is asked for
    ("regular", ""): "",
    ("regular", "all"): EVERY,
    ("regular", "image"): "unit mp megatron short image-test",
    ("regular", "all image"): EVERY,
    ("nightly", ""): "unit mp megatron short ft-short image-test",
    ("nightly", "all"): EVERY,
    ("nightly", "image"): "unit mp megatron short ft-short image-test",
    ("nightly", "all image"): EVERY,
    ("weekly", ""): EVERY,
    ("weekly", "all"): EVERY,
    ("weekly", "image"): EVERY,
    ("weekly", "all image"): EVERY,
}
CADENCES = ("regular", "nightly", "weekly")
SCOPE_SETS = ("", "all", "image", "all image")
ASKED = ("", *LABELS)


def subsets(names: Iterable[str]) -> list[tuple[str, ...]]:
    listed = list(names)
    return list(chain.from_iterable(combinations(listed, count) for count in range(len(listed) + 1)))


SUITE_LABELS = subsets(LABELS)
SUBJECTS = {
    labels: Subject("it", "it.yml", ((("when",), When(labels=labels) if labels else When()),))
    for labels in SUITE_LABELS
}


def built(cadence: str, labels: Iterable[str]) -> Build:
    """A pull request's build of a cadence; the API may name both."""
    return pull_request(source="api", cadence=cadence, labels=tuple(labels))


def row_id(row: tuple[str, str, str]) -> str:
    cadence, scopes, asked = row
    on_it = f"with the scope {' and '.join(scopes.split())}" if scopes else "without a scope"
    return f"{cadence} {on_it} asking for {asked or 'nothing'}"


@pytest.mark.parametrize("row", list(product(CADENCES, SCOPE_SETS, ASKED)), ids=row_id)
def test_the_truth_table(row: tuple[str, str, str]) -> None:
    cadence, scopes, asked = row
    counting = {*TABLE[cadence, scopes].split(), *asked.split()}
    build = built(cadence, [f"run-ci-{name}" for name in f"{scopes} {asked}".split()])
    facts = gather(build, GIVEN, [], changed("src/core.py"), Selection())
    assert facts.policy.labels == counting
    for labels, subject in SUBJECTS.items():
        expected = "RUN" if not labels or counting.intersection(labels) else "SKIP"
        assert decide(subject, facts).verdict == expected, labels


def oracle(cadence: str, labels: Iterable[str]) -> set[str]:
    """Section 3 of the design, word for word and without any of bkgen's code."""
    names = [label[len("run-ci-") :] if label.startswith("run-ci-") else label for label in labels]
    if "all" in names:
        counting = {"unit", "mp", "megatron", "short", "long", "ft-short", "ft-long", "image-test"}
    elif cadence == "nightly":
        counting = {"unit", "mp", "megatron", "short", "ft-short", "image-test"}
    elif cadence == "weekly":
        counting = {"unit", "mp", "megatron", "short", "long", "ft-short", "ft-long", "image-test"}
    elif "image" in names:
        counting = {"unit", "mp", "megatron", "short", "image-test"}
    else:
        counting = set()
    for name in names:
        if name in EVERY.split():
            counting.add(name)
    return counting


@pytest.mark.parametrize("cadence", CADENCES)
@pytest.mark.parametrize("scopes", SCOPE_SETS, ids=lambda scopes: scopes or "no scope")
def test_every_set_of_requests_agrees_with_an_independent_reading_of_the_design(
    cadence: str, scopes: str
) -> None:
    for asked in subsets(LABELS):
        labels = [f"run-ci-{name}" for name in (*asked, *scopes.split())]
        assert resolve_policy(cadence, labels, GIVEN.policy).labels == oracle(cadence, labels), labels


@given(st.permutations([*LABELS, "all", "image", "bug", "no-run-ci-long"]), st.integers(0, 12), st.booleans())
def test_neither_the_order_nor_the_prefix_of_labels_matters(
    names: list[str], count: int, prefixed: bool
) -> None:
    bare = names[:count]
    written = [f"run-ci-{name}" if prefixed else name for name in reversed(bare)]
    for cadence in CADENCES:
        assert resolve_policy(cadence, written, GIVEN.policy).labels == oracle(cadence, bare)


@given(
    st.sampled_from(CADENCES),
    st.sets(st.sampled_from([*LABELS, "all", "image"])),
    st.sampled_from([*LABELS, "all", "image", "wip"]),
)
def test_one_more_label_never_takes_a_label_away(cadence: str, labels: set[str], more: str) -> None:
    before = resolve_policy(cadence, labels, GIVEN.policy).labels
    assert before <= resolve_policy(cadence, [*labels, more], GIVEN.policy).labels


CADENCE_LISTS = {
    # what `cadence` says: the builds it is for
    (): "regular nightly weekly",
    ("regular",): "regular nightly weekly",
    ("nightly",): "nightly",
    ("regular", "nightly"): "regular nightly",
    ("nightly", "weekly"): "nightly weekly",
    ("regular", "nightly", "weekly"): "regular nightly weekly",
}


@pytest.mark.parametrize("listed", CADENCE_LISTS, ids=lambda listed: " and ".join(listed) or "absent")
def test_a_list_of_cadences_is_for_builds_of_these_and_regular_alone_for_every_build(
    listed: tuple[str, ...],
) -> None:
    it = suite("it", when={"cadence": list(listed)} if listed else {})
    runs = {
        cadence
        for cadence in CADENCES
        if verdicts(plan([it], build=built(cadence, []), given=GIVEN))["it"].startswith("RUN")
    }
    assert runs == set(CADENCE_LISTS[listed].split())


def test_a_step_runs_where_its_file_and_it_itself_do() -> None:
    steps = [
        {"command": "a", "key": "plain", "when": {"cadence": "regular"}},
        {"command": "a", "key": "some", "when": {"cadence": ["regular", "weekly"]}},
    ]
    it = [suite("it", when={"cadence": ["nightly", "weekly"]}, steps=steps)]
    for cadence, expected in {"regular": [], "nightly": ["plain"], "weekly": ["plain", "some"]}.items():
        (planned,) = plan(it, build=built(cadence, []), given=GIVEN).suites
        assert [step.key for step in planned.selected] == expected, cadence


# -- the page ------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_holds_the_table_that_is_tested_here() -> None:
    assert GIVEN.policy.cadences == policy_table.EXAMPLE.cadences
    assert GIVEN.policy.scopes == policy_table.EXAMPLE.scopes
    head, *rows = policy_table.admitted_rows()
    assert [cell.strip("`") for cell in head[3:-1]] == list(policy_table.EXAMPLE.labels)
    shown = {}
    for cadence, scopes, _, *cells, _why in rows:
        names = scopes.replace("`", "").replace("run-ci-", "").replace(",", "").replace("–", "").strip()
        shown[cadence, names] = {label for label, cell in zip(LABELS, cells, strict=True) if cell == "runs"}
    assert shown == {row: set(counting.split()) for row, counting in TABLE.items()}


def test_the_page_holds_the_table_of_cadences_that_is_tested_here() -> None:
    head, *rows = policy_table.listed_rows()
    assert head[1:] == [f"a {name} build" for name in CADENCES]
    shown = {
        row[0]: " ".join(n for n, cell in zip(CADENCES, row[1:], strict=True) if cell == "runs")
        for row in rows
    }
    assert shown["nothing"] == CADENCE_LISTS[()]
    assert len(shown) == len(CADENCE_LISTS)
    for listed in filter(None, CADENCE_LISTS):
        assert shown[f"`[{', '.join(listed)}]`"] == CADENCE_LISTS[listed]


def test_the_committed_page_is_the_generated_one() -> None:
    committed = (ROOT / "docs/reference/policy.md").read_text(encoding="utf-8")
    note, _, rest = committed.partition("\n")
    assert note.startswith("<!-- Made by docs/generate.py")
    assert rest == policy_table.policy_page(), "./dev docs writes it anew"


@pytest.mark.parametrize("name", ["labels-and-cadences", "forks", "wait-for-checks"])
def test_what_the_guides_tell_to_write_can_be_read(name: str) -> None:
    text = (ROOT / f"docs/how-to/{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        value = load(block.encode(), name).value
        model = SuiteSpec if value.keys() & {"when", "steps"} else Settings
        model.model_validate(value)


# -- what was promised, line by line -------------------------------------------------------------------------

SUITES = [
    suite("plain"),
    suite("long-only", when={"labels": ["long"]}),
    suite("long-and-unit", when={"labels": ["long", "unit"]}),
    suite("ft-short-only", when={"labels": ["ft-short"]}),
    suite("megatron-only", when={"labels": ["megatron"]}),
]
NIGHTLY = Build(source="schedule", branch="main")


def running(build: Build, changes: Changes | None = None) -> set[str]:
    found = verdicts(plan(SUITES, changes or changed("src/core.py"), build=build, given=GIVEN))
    return {name for name, verdict in found.items() if verdict.startswith("RUN")}


def test_a_nightly_without_labels_leaves_out_what_is_labelled_long_only() -> None:
    assert running(NIGHTLY) == {"plain", "long-and-unit", "ft-short-only", "megatron-only"}


@pytest.mark.parametrize("label", ["run-ci-long", "long", "run-ci-all", "all"])
def test_a_nightly_with_a_label_that_asks_for_it_runs_the_long_step(label: str) -> None:
    assert "long-only" in running(built("nightly", [label]))


def test_the_scope_image_leaves_ft_short_out_and_its_label_brings_it_back() -> None:
    assert running(pull_request(labels=("run-ci-image",))) == {"plain", "long-and-unit", "megatron-only"}
    both = pull_request(labels=("run-ci-image", "run-ci-ft-short"))
    assert running(both) == {"plain", "long-and-unit", "megatron-only", "ft-short-only"}


def test_a_step_labelled_long_and_unit_runs_nightly_because_a_subtraction_is_no_veto() -> None:
    assert "long-and-unit" in running(NIGHTLY)


def test_a_label_that_only_contains_the_name_of_a_scope_or_label_selects_nothing() -> None:
    labels = ("image-tests", "no-run-ci-long", "longer", "run-ci-longer", "RUN-CI-LONG", "run-ci- long")
    assert running(pull_request(labels=labels)) == {"plain"}


def test_of_two_narrow_scopes_the_first_in_the_file_counts() -> None:
    given = settings(
        policy={**POLICY, "scopes": {"image": {"minus": ["long"]}, "slim": {"minus": ["long", "unit"]}}}
    )
    policy = resolve_policy("regular", ["slim", "image"], given.policy)
    assert policy.scope == "image"
    assert policy.labels == set(LABELS) - {"long"}


def changed_keys(one: Any, other: Any, path: str = "") -> set[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return set().union(*(changed_keys(one[key], other[key], f"{path}.{key}") for key in one))
    return set() if one == other else {path}


@pytest.mark.parametrize("build", [pull_request(), built("nightly", [])], ids=["regular", "nightly"])
def test_a_misspelt_label_warns_with_the_nearest_name_and_changes_nothing_else(build: Build) -> None:
    misspelt = build._replace(labels=("run-ci-megatrn",))
    before, after = (plan_json(plan(SUITES, build=one, given=GIVEN)) for one in (build, misspelt))
    assert changed_keys(before, after) == {".build.labels", ".unknown_labels", ".warnings"}
    assert after["unknown_labels"] == [{"label": "run-ci-megatrn", "nearest": "run-ci-megatron"}]
    assert after["warnings"] == [
        "the label 'run-ci-megatrn' selects nothing; did you mean 'run-ci-megatron'?"
    ]


@pytest.mark.parametrize(
    ("label", "nearest"),
    [
        ("RUN-CI-LONG", "run-ci-long"),
        ("Run_CI_ft_long", "run-ci-ft-long"),
        ("Force-CI", "force-ci"),
        ("force_ci", "force-ci"),
    ],
)
def test_another_spelling_of_a_label_warns_and_selects_nothing(label: str, nearest: str) -> None:
    made = plan(SUITES, build=pull_request(labels=(label,)), given=GIVEN)
    assert plan_json(made)["unknown_labels"] == [{"label": label, "nearest": nearest}]
    assert running(pull_request(labels=(label,))) == {"plain"}


@pytest.mark.parametrize("label", ["Long", "force", "ci-force", "unit", "run-ci-long", "force-ci"])
def test_a_label_of_somebody_else_is_no_other_spelling(label: str) -> None:
    made = plan(SUITES, build=pull_request(labels=(label,)), given=GIVEN)
    assert plan_json(made)["unknown_labels"] == []


@pytest.mark.parametrize(
    ("label", "nearest"),
    [
        ("run-ci-al", "run-ci-all"),
        ("run-ci-ft_long", "run-ci-ft-long"),
        ("run-ci-nigthly", "run-ci-nightly"),
        ("run-ci-forse", "run-ci-force"),
        ("run-ci-zebra", None),
        ("run-ci-", None),
    ],
)
def test_a_prefixed_label_that_nothing_declares_is_reported(label: str, nearest: str | None) -> None:
    policy = {**POLICY, "cadences": {"nightly": {"label": "run-ci-nightly"}}}
    given = settings(policy=policy, filter={"force_label": "run-ci-force"})
    (unknown,) = plan(SUITES, build=pull_request(labels=(label,)), given=given).facts.policy.unknown
    assert (unknown.label, unknown.nearest) == (label, nearest)


@pytest.mark.parametrize(
    "label", ["run-ci-force", "run-ci-all", "run-ci-nightly", "run-ci-mp", "bug", "force-ci"]
)
def test_a_label_that_means_something_or_has_no_prefix_is_not_reported(label: str) -> None:
    policy = {**POLICY, "cadences": {"nightly": {"label": "run-ci-nightly"}}}
    given = settings(policy=policy, filter={"force_label": "run-ci-force"})
    assert plan(SUITES, build=pull_request(labels=(label,)), given=given).facts.policy.unknown == ()


def test_without_a_prefix_no_label_can_be_told_from_everybody_elses() -> None:
    given = settings(policy={**POLICY, "label_prefix": ""})
    made = plan(SUITES, build=pull_request(labels=("megatrn", "mp")), given=given)
    assert made.facts.policy.unknown == ()
    assert made.facts.policy.labels == {"mp"}


def test_a_skip_for_want_of_a_label_names_every_label_that_would_run_it() -> None:
    made = plan([suite("x", when={"labels": ["ft-short", "unit"]}), SUITES[0]], given=GIVEN)
    remedy = next(p.decision.remedy for p in made.suites if p.suite.name == "x")
    for label in ("run-ci-ft-short", "run-ci-unit", "run-ci-all", "run-ci-image"):
        assert label in remedy
    (only,) = plan([suite("x", when={"labels": ["ft-short"]})], given=GIVEN).suites
    assert "run-ci-image" not in only.decision.remedy


@pytest.mark.parametrize(
    ("when", "files", "more", "reason"),
    [
        ({"labels": ["long"]}, ["docs/a.md"], {}, "every changed file is trivial"),
        ({"labels": ["long"], "paths": ["src/**"]}, ["lib/a.py"], {}, "the changed file does not match its paths"),
        ({"cadence": "nightly"}, ["docs/a.md"], {}, "every changed file is trivial"),
        ({"labels": ["long"]}, ["docs/a.md"], {"labels": ("force-ci",)}, None),
        ({"labels": ["long"]}, ["src/a.py"], {}, None),
        ({"cadence": "nightly"}, ["src/a.py"], {}, None),
    ],
    ids=[
        "a label and trivial files", "a label and other files", "a cadence's label and trivial files",
        "forced already", "files that matter", "a cadence and files that matter",
    ],
)  # fmt: skip
def test_a_remedy_by_label_really_runs_it(
    when: dict[str, object], files: list[str], more: dict[str, tuple[str, ...]], reason: str | None
) -> None:
    given = settings(policy={**POLICY, "cadences": {"nightly": {"label": "run-ci-nightly"}}})
    x = suite("x", when=when)
    carried = more.get("labels", ())
    (planned,) = plan([x], files, build=pull_request(labels=carried), given=given).suites
    remedy = planned.decision.remedy
    assert planned.decision.rule == "not-admitted"
    assert ("force-ci" in remedy) == (reason is not None)
    assert reason is None or remedy.endswith(f"; and force-ci as well, because {reason}")
    label = "run-ci-nightly" if "cadence" in when else "run-ci-long"
    assert label in remedy
    for force in (True, False):
        labels = (*carried, label, *(("force-ci",) if force else ()))
        (again,) = plan([x], files, build=pull_request(labels=labels), given=given).suites
        assert again.decision.runs == (force or reason is None)


def test_labels_on_all_levels_have_to_be_admitted() -> None:
    steps = [{"group": "g", "when": {"labels": ["mp"]}, "steps": [
        {"command": "a", "key": "a", "when": {"labels": ["long"]}}, {"command": "b", "key": "b"}]}]  # fmt: skip
    made = [suite("deep", when={"labels": ["unit"]}, steps=steps)]
    for labels, expected in {
        (): set(),
        ("unit",): set(),
        ("unit", "mp"): {"b"},
        ("unit", "mp", "long"): {"a", "b"},
        ("mp", "long"): set(),
    }.items():
        (planned,) = plan(made, build=pull_request(labels=labels), given=GIVEN).suites
        assert {step.key for step in planned.selected if step.is_work} == expected, labels


def test_the_labels_seen_are_in_every_log() -> None:
    assert "labels: bug, run-ci-long;" in plain_table(
        plan(SUITES, build=pull_request(labels=("bug", "run-ci-long")), given=GIVEN)
    )
    assert "labels: none;" in plain_table(plan(SUITES, build=NIGHTLY, given=GIVEN))


def test_a_label_cannot_move_the_cursor_of_whoever_reads_the_log() -> None:
    made = plan(SUITES, build=pull_request(labels=("run-ci-\x1b[2Jx", "\u202ereversed")), given=GIVEN)
    told = [*plain_table(made).splitlines(), *made.facts.warnings]
    assert all(line.isprintable() for line in told)
    assert "run-ci-\\x1b[2Jx" in told[1]


# -- every decision explains itself --------------------------------------------------------------------------

MANY = [
    suite("plain"),
    suite("paths", when={"paths": ["src/**", "!src/gen/**"]}),
    suite("docs", when={"include_trivial": True, "paths": ["docs/**"]}),
    suite("labelled", when={"labels": ["long"], "branches": ["main"]}),
    suite("nightly", when={"cadence": "nightly"}),
    suite("trusted", when={"forks": False}),
    suite("tree", steps=[
        {"command": "a", "key": "a", "when": {"labels": ["mp"]}},
        "wait",
        {"block": "go", "key": "go"},
        {"group": "g", "key": "g", "when": {"paths": ["src/**"]}, "steps": [
            {"command": "b", "key": "b", "depends_on": "a"},
            {"command": "c", "key": "c", "when": {"forks": False}}]},
        {"command": "d", "key": "d", "depends_on": "c", "mirrors": {"default": {"when": {"labels": ["unit"]}}}},
    ]),
]  # fmt: skip
FILES: list[Changes] = [
    changed("src/core.py"),
    changed("src/gen/x.py", "docs/a.md"),
    changed("docs/a.md"),
    changed("harness/lib.sh"),
    changed("k3_tests/tree/run.sh"),
    changed(),
    UnknownChanges("no merge base"),
    ChangesNotAsked("nobody asked"),
]
SELECTIONS = [
    Selection(),
    Selection(frozenset({"plain", "tree"}), {"tree": frozenset({"b"})}),
    Selection(frozenset({"docs"}), None, True),
]
LABEL_SETS = [(), ("run-ci-long",), ("run-ci-mp", "run-ci-typo"), ("run-ci-all",), ("force-ci",)]


def many_builds() -> Iterable[Build]:
    for source, labels, cadence, number in product(SOURCES, LABEL_SETS, (None, "nightly"), (None, 7)):
        yield Build(source=source, labels=labels, cadence=cadence, pull_request=number, branch="main")
        if number is not None:
            yield Build(source=source, labels=labels, pull_request=number, branch="x:y", is_fork=True)
    yield Build(source="webhook", branch="v1", tag="v1")
    yield Build(source="webhook", branch="gh-readonly-queue/main/pr-1", merge_queue_base_commit="abc")


def decisions_of(made: Plan) -> Iterable[dict[str, Any]]:
    for planned in plan_json(made)["suites"]:
        yield planned["decision"]
        yield from (step["decision"] for step in planned["steps"])


def test_no_decision_of_many_thousand_lacks_rule_reason_evidence_or_remedy() -> None:
    seen: dict[str, int] = {}
    cases = random.Random(4).sample(list(product(many_builds(), FILES, SELECTIONS)), 500)
    plans = [plan(MANY, changes, build=build, given=GIVEN, selection=one) for build, changes, one in cases]
    claimed = [suite("src", when={"paths": ["src/**"]})]
    plans.append(plan(claimed, ["nobodys.c"], given=settings(filter={"unclaimed": "run"})))
    for made in plans:
        for decision in decisions_of(made):
            assert decision.keys() == {"verdict", "rule", "reason", "evidence", "remedy"}
            assert decision["verdict"] in {"RUN", "SKIP"}
            assert decision["rule"] in RULES
            assert decision["reason"].strip()
            assert decision["remedy"].strip()
            assert decision["evidence"].keys() == {"files", "pattern", "labels", "field", "source"}
            assert decision["evidence"]["source"].strip()
            seen[decision["rule"]] = seen.get(decision["rule"], 0) + 1
    assert seen.keys() == RULES.keys()
    assert sum(seen.values()) > 5000
