"""The ten rules, one row a case; every decision carries rule, reason, evidence and remedy."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.build import Build
from bkgen.changes import ChangedFile, ChangesNotAsked, UnknownChanges
from bkgen.decide.decision import RULES
from bkgen.decide.facts import Selection
from bkgen.decide.rules import Subject, explain
from decisions import changed, plan, pull_request, settings, step_verdicts, suite, verdicts

SCHEDULE = Build(source="schedule", branch="main")
BY_HAND = Build(source="ui", branch="main")
TAG = Build(source="webhook", branch="v1", tag="v1")
QUEUE = Build(source="webhook", branch="gh-readonly-queue/main/pr-1", merge_queue_base_commit="abc")
FORK = pull_request(is_fork=True)
DOCS = ["docs/a.md"]
NOT_ASKED = ChangesNotAsked("a schedule")

SRC = suite("src", when={"paths": ["src/**"]})
ANY = suite("any")
DOC = suite("doc", when={"include_trivial": True})
DOC_PATHS = suite("docpaths", when={"include_trivial": True, "paths": ["docs/**"]})
OTHERS = suite("others", when={"paths": ["k3_tests/src/**"]})

CASES = {
    "a changed file matches the paths": (SRC, ["src/a.py"], {}, "RUN paths-match"),
    "no changed file matches the paths": (SRC, ["lib/a.py"], {}, "SKIP paths-miss"),
    "a trivial file that matches the paths counts for nothing": (SRC, ["src/a.md", "lib/x.py"], {}, "SKIP paths-miss"),
    "only trivial files": (SRC, DOCS, {}, "SKIP only-trivial"),
    "only trivial files, no paths": (ANY, DOCS, {}, "SKIP only-trivial"),
    "one file that is not trivial, no paths": (ANY, ["docs/a.md", "x.py"], {}, "RUN default"),
    "an unknown new top-level directory": (ANY, ["newmod/x.py"], {}, "RUN default"),
    "the suite's own spec": (SRC, ["k3_tests/src/pipeline.yml"], {}, "RUN own-directory"),
    "a Markdown file of its own directory is trivial": (SRC, ["k3_tests/src/README.md"], {}, "SKIP only-trivial"),
    "another suite's spec": (SRC, ["k3_tests/any/pipeline.yml"], {}, "SKIP only-trivial"),
    "another suite's spec that its own paths claim": (OTHERS, ["k3_tests/src/run.sh"], {}, "RUN paths-match"),
    "a shared directory of the suites": (ANY, ["k3_tests/_shared/x.sh"], {}, "RUN force-run"),
    "what the suites share, for a suite with paths": (SRC, ["k3_tests/_shared/x.sh"], {}, "RUN force-run"),
    "the upload step among the suites": (SRC, ["k3_tests/buildkite-pipeline.yml"], {}, "RUN force-run"),
    "a note among the suites": (SRC, ["k3_tests/README.md"], {}, "SKIP only-trivial"),
    "the table of paths": (SRC, ["k3_tests/paths.test.yml"], {}, "SKIP paths-miss"),
    "the settings, whatever force_run says": (
        SRC, ["bkgen.yml"], {"given": settings(filter={"force_run": ["/.ci/**"]})}, "RUN force-run"),
    "a file of a deleted suite": (SRC, ["k3_tests/gone/run.sh"], {}, "SKIP only-trivial"),
    "a file that forces everything": (SRC, ["harness/lib.sh"], {}, "RUN force-run"),
    "force beats trivial": (SRC, [".buildkite/README.md"], {}, "RUN force-run"),
    "include_trivial counts docs": (DOC, DOCS, {}, "RUN default"),
    "include_trivial with paths that match": (DOC_PATHS, DOCS, {}, "RUN paths-match"),
    "include_trivial with paths that miss": (DOC_PATHS, ["README.md"], {}, "SKIP paths-miss"),
    "include_trivial, only another suite's files": (DOC, ["k3_tests/src/x.md"], {}, "SKIP only-trivial"),
    "include_trivial, a Markdown file of its own": (DOC, ["k3_tests/doc/x.md"], {}, "RUN own-directory"),
    "nothing changed": (SRC, [], {}, "RUN changes-empty"),
    "unknown changes": (SRC, UnknownChanges("no merge base"), {}, "RUN changes-unknown"),
    "a schedule with a docs change": (SRC, NOT_ASKED, {"build": SCHEDULE}, "RUN no-question"),
    "a schedule even if git was asked": (SRC, DOCS, {"build": SCHEDULE}, "RUN no-question"),
    "a tag": (SRC, DOCS, {"build": TAG}, "RUN no-question"),
    "by hand": (SRC, DOCS, {"build": BY_HAND}, "RUN no-question"),
    "by API": (SRC, DOCS, {"build": Build(source="api", branch="x")}, "RUN no-question"),
    "by another pipeline": (SRC, DOCS, {"build": Build(source="trigger_job")}, "RUN no-question"),
    "a rebuild of a pull request by hand is still a pull request": (
        SRC, DOCS, {"build": pull_request(source="ui")}, "SKIP only-trivial"),
    "a merge queue asks": (SRC, DOCS, {"build": QUEUE}, "SKIP only-trivial"),
    "a push asks": (SRC, DOCS, {"build": Build(source="webhook", branch="main")}, "SKIP only-trivial"),
    "push_base always-run is not asked": (
        SRC, NOT_ASKED, {"build": Build(source="webhook", branch="main")}, "RUN no-question"),
    "the force label": (SRC, DOCS, {"build": pull_request(labels=("force-ci",))}, "RUN force-label"),
    "a label that holds the force label": (
        SRC, DOCS, {"build": pull_request(labels=("no-force-ci",))}, "SKIP only-trivial"),
    "the force label does not lift admission": (
        suite("long", when={"labels": ["mp"]}), DOCS, {"build": pull_request(labels=("force-ci",))}, "SKIP not-admitted"),
    "not named": (SRC, ["src/a.py"], {"selection": Selection(frozenset({"any"}))}, "SKIP not-named"),
    "named but not relevant": (SRC, DOCS, {"selection": Selection(frozenset({"src"}))}, "SKIP only-trivial"),
    "named for rendering": (SRC, DOCS, {"selection": Selection(frozenset({"src"}), None, True)}, "RUN named"),
    "a suite that forks may not run": (suite("x", when={"forks": False}), ["a.py"], {"build": FORK}, "SKIP not-admitted"),
    "a fork by default": (ANY, ["a.py"], {"build": FORK}, "RUN default"),
    "a branch push without the label": (
        suite("x", when={"labels": ["mp"], "branches": ["main", "release/*"]}), ["a.py"],
        {"build": Build(source="webhook", branch="release/1")}, "RUN default"),
    "a branch that a pattern takes away": (
        suite("x", when={"labels": ["mp"], "branches": ["release/*", "!release/0"]}), ["a.py"],
        {"build": Build(source="webhook", branch="release/0")}, "SKIP not-admitted"),
    "a pull request from a branch of that name needs the label": (
        suite("x", when={"labels": ["mp"], "branches": ["feature"]}), ["a.py"], {}, "SKIP not-admitted"),
    "a nightly suite in a regular build": (suite("x", when={"cadence": "nightly"}), ["a.py"], {}, "SKIP not-admitted"),
    "a nightly suite in a nightly build": (
        suite("x", when={"cadence": "nightly"}), NOT_ASKED,
        {"build": Build(source="schedule", cadence="nightly")}, "RUN no-question"),
}  # fmt: skip
GIVEN = settings(policy={"labels": {"mp": "x"}, "cadences": {"nightly": {}}})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_decision(case) -> None:
    subject, changes, more, expected = case
    made = plan([subject, ANY] if subject is not ANY else [ANY, SRC], changes, **{"given": GIVEN, **more})
    assert verdicts(made)[subject.name] == expected
    for planned in made.suites:
        for decision in [planned.decision, *(step.decision for step in planned.steps)]:
            assert decision.rule in RULES
            assert decision.reason
            assert decision.remedy
            assert decision.evidence.source
            assert set(decision.as_json()) == {"verdict", "rule", "reason", "evidence", "remedy"}


@pytest.mark.parametrize(
    "file",
    [
        ChangedFile("docs/a.md", "T", "100644", "120000"),
        ChangedFile("docs/a.md", "M", "120000", "120000"),
        ChangedFile("docs/a.md", "M", "100644", "100755"),
        ChangedFile("docs/lib.md", "M", "160000", "160000"),
        ChangedFile("docs/lib.md", "A", "000000", "160000"),
        ChangedFile("docs/lib.md", "D", "120000", "000000"),
    ],
    ids=["type", "symlink", "mode", "submodule", "new submodule", "deleted symlink"],
)
def test_what_is_no_regular_file_is_never_trivial(file: ChangedFile) -> None:
    assert verdicts(plan([ANY], changed(file))) == {"any": "RUN default"}


def test_a_new_regular_file_under_docs_is_trivial() -> None:
    assert verdicts(plan([ANY], changed(ChangedFile("docs/a.md", "A", "000000", "100644")))) == {
        "any": "SKIP only-trivial"
    }


def test_a_submodule_matches_the_rule_for_its_directory() -> None:
    lib = suite("lib", when={"paths": ["vendor/lib/**"]})
    bump = changed(ChangedFile("vendor/lib", "M", "160000", "160000"))
    assert verdicts(plan([lib], bump)) == {"lib": "RUN paths-match"}


BUMP = ChangedFile("vendor/lib", "M", "160000", "160000")
LINK = ChangedFile("vendor/lib", "M", "120000", "120000")


@pytest.mark.parametrize(
    ("paths", "file", "expected"),
    [
        (["/vendor/lib/src/**", "!vendor/lib/src/*.md"], BUMP, "RUN paths-match"),
        (["vendor/library/**"], BUMP, "SKIP paths-miss"),
        (["vendor/*/src/**"], BUMP, "RUN paths-match"),
        (["vendor/**/*.cu"], BUMP, "RUN paths-match"),
        (["**/*.cu"], BUMP, "RUN paths-match"),
        (["*.cu"], BUMP, "RUN paths-match"),
        (["*.cu", "!vendor/**"], BUMP, "SKIP paths-miss"),
        (["vendor/l?b/x.c"], BUMP, "RUN paths-match"),
        (["vendor/x*/x.c"], BUMP, "SKIP paths-miss"),
        (["vendor/*/src/**"], LINK, "RUN paths-match"),
        (["**/*.cu"], LINK, "SKIP paths-miss"),
    ],
)
def test_a_link_matches_what_reaches_into_it(paths: list[str], file: ChangedFile, expected: str) -> None:
    assert verdicts(plan([suite("lib", when={"paths": paths})], changed(file))) == {"lib": expected}


def test_a_link_that_force_run_reaches_into_runs_everything() -> None:
    given = settings(filter={"force_run": ["/vendor/lib/build/**"]})
    assert verdicts(plan([SRC], changed(BUMP), given=given)) == {"src": "RUN force-run"}


def test_suites_in_a_submodule_that_moved_run() -> None:
    bump = changed(ChangedFile("k3_tests", "M", "160000", "160000"))
    assert verdicts(plan([SRC, suite("doc", when={"paths": ["docs/**"]})], bump)) == {
        "src": "RUN own-directory",
        "doc": "RUN own-directory",
    }
    nested = changed(ChangedFile("k3_tests/src", "M", "160000", "160000"))
    assert verdicts(plan([SRC, ANY], nested)) == {"src": "RUN own-directory", "any": "SKIP only-trivial"}


UNCLAIMED = settings(filter={"unclaimed": "run"})
LIB = suite("lib", when={"paths": ["lib/**", "vendor/*/x.c"]})


def test_a_file_that_no_suite_claims_is_warned_of_or_runs_everything() -> None:
    warned = plan([SRC, LIB], ["newmod/x.py", "src/a.py", "README.md"])
    assert verdicts(warned) == {"src": "RUN paths-match", "lib": "SKIP paths-miss"}
    (warning,) = warned.facts.warnings
    assert warning.startswith("no suite's paths match newmod/x.py: nothing tests that; ")
    run = plan([SRC, LIB], ["newmod/x.py", "src/a.py", "README.md"], given=UNCLAIMED)
    assert verdicts(run) == {"src": "RUN unclaimed", "lib": "RUN unclaimed"}
    assert "everything runs" in run.facts.warnings[0]
    many = plan([SRC, LIB], [f"newmod/{name}.py" for name in "abcde"])
    assert "newmod/a.py, newmod/b.py, newmod/c.py and 2 more" in many.facts.warnings[0]


STEPS = suite(
    "steps",
    steps=[{"command": "a", "when": {"paths": ["one/**"]}}, {"command": "b", "when": {"paths": ["two/**"]}}],
)


@pytest.mark.parametrize(
    ("suites", "files"),
    [
        ([SRC, LIB], ["src/a.py", "lib/b.py"]),
        ([SRC, LIB], ["README.md", "k3_tests/lib/run.sh"]),
        ([SRC, ANY], ["newmod/x.py"]),
        ([SRC, LIB], ["newmod/x.py", "bkgen.yml"]),
        ([SRC, STEPS], ["two/x.py"]),
        ([], ["newmod/x.py"]),
        ([SRC], UnknownChanges("git is away")),
    ],
    ids=[
        "claimed", "trivial or of a suite", "a suite without paths", "everything runs anyway", "a step's paths",
        "no suites", "unknown changes",
    ],
)  # fmt: skip
def test_a_file_that_somebody_claims_is_no_reason_to_warn(suites, files) -> None:
    assert plan(suites, files).facts.warnings == ()
    assert "unclaimed" not in str(verdicts(plan(suites, files, given=UNCLAIMED)))


def test_a_moved_submodule_is_claimed_by_what_reaches_into_it() -> None:
    assert plan([SRC, LIB], changed(BUMP)).facts.warnings == ()
    assert "vendor/lib" in plan([SRC], changed(BUMP)).facts.warnings[0]
    assert plan([SRC], changed(ChangedFile("k3_tests", "M", "160000", "160000"))).facts.warnings == ()


def test_what_is_named_or_forced_is_not_asked_for_claims() -> None:
    named = Selection(frozenset({"src"}))
    assert plan([SRC, LIB], ["newmod/x.py"], selection=named).facts.warnings == ()
    assert plan([SRC, LIB], ["newmod/x.py"], build=pull_request(labels=("force-ci",))).facts.warnings == ()


def test_an_exception_carved_out_of_trivial_counts_for_all() -> None:
    given = settings(filter={"trivial": ["*.md", "!/prompts/**"]})
    assert verdicts(plan([ANY], ["prompts/system.md"], given=given)) == {"any": "RUN default"}


def test_a_step_is_relevant_when_file_group_and_step_match() -> None:
    steps = [
        {"group": "g", "when": {"paths": ["src/**"]}, "steps": [
            {"command": "a", "key": "a", "when": {"paths": ["src/a/**"]}}, {"command": "b", "key": "b"}]},
        {"command": "c", "key": "c", "when": {"paths": ["lib/**"]}},
    ]  # fmt: skip
    made = plan([suite("deep", steps=steps)], ["src/b/x.py"])
    assert step_verdicts(made) == {
        "deep-g": "RUN paths-match", "a": "SKIP paths-miss", "b": "RUN paths-match", "c": "SKIP paths-miss"}  # fmt: skip


def test_a_step_may_claim_trivial_files_that_its_file_does_not() -> None:
    steps = [{"command": "a", "key": "a"}, {"command": "b", "key": "b", "when": {"include_trivial": True}}]
    made = plan([suite("x", steps=steps)], DOCS)
    assert step_verdicts(made) == {"a": "SKIP only-trivial", "b": "RUN default"}
    assert made.suites[0].decision.runs


def test_the_files_of_a_decision_are_shown_on_one_line_and_counted() -> None:
    names = [f"lib/{n}\n\x1b[31m.py" for n in range(30)]
    (planned,) = plan([SRC], names).suites
    files = planned.decision.evidence.files
    assert len(files) == 21
    assert files[-1] == "… and 10 more"
    assert all(file.isprintable() for file in files)


def test_a_name_that_is_not_utf8_is_shown_with_its_bytes() -> None:
    (planned,) = plan([ANY], [b"caf\xe9.py".decode("utf-8", "surrogateescape")]).suites
    assert planned.decision.evidence.files == ("caf\\xe9.py",)


@given(
    st.lists(st.sampled_from(["src/a.py", "docs/a.md", "lib/b.py", "k3_tests/any/run.sh"]), min_size=1),
    st.randoms(),
)
def test_the_order_of_files_changes_no_verdict(files: list[str], shuffler: random.Random) -> None:
    shuffled = list(files)
    shuffler.shuffle(shuffled)
    suites = [SRC, ANY, DOC]
    assert verdicts(plan(suites, files)) == verdicts(plan(suites, shuffled))


@given(
    st.lists(st.sampled_from(["src/a.py", "docs/a.md", "lib/b.py", "k3_tests/any/run.sh"]), min_size=1),
    st.sampled_from(["src/new.py", "docs/new.md", "harness/x.sh", "k3_tests/src/x.py"]),
)
def test_one_more_changed_file_never_takes_a_suite_away(files: list[str], more: str) -> None:
    suites = [SRC, ANY, DOC, OTHERS]
    before = {name for name, verdict in verdicts(plan(suites, files)).items() if verdict.startswith("RUN")}
    after = {
        name for name, verdict in verdicts(plan(suites, [*files, more])).items() if verdict.startswith("RUN")
    }
    assert before <= after


def test_explain_shows_every_rule_and_marks_the_deciding_one() -> None:
    made = plan([SRC], ["src/a.py"])
    subject = Subject("src", "k3_tests/src/pipeline.yml", ((("when",), SRC.spec.when),))
    outcomes = explain(subject, made.facts)
    assert [outcome.note for outcome in outcomes].count("decides") == 1
    deciding = next(outcome for outcome in outcomes if outcome.note == "decides")
    assert deciding.rule == "paths-match"
    assert outcomes[-1].note == "not asked"
    assert len(outcomes) == 12
