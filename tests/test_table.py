"""The plan for people: a table that fits a terminal, numbers that agree with their nouns, nothing said twice."""

from __future__ import annotations

import re

import pytest

from bkgen.changes import UnknownChanges
from bkgen.plan.planned import Plan
from bkgen.report.annotation import annotation, style_of
from bkgen.report.plain import plain_facts
from bkgen.report.table import plain_table, rows, terminal_table, totals
from decisions import plan, settings, suite

GIVEN = settings(
    policy={"labels": {"long": "takes long"}}, profiles={"h200": {"gpu_resource": "nvidia.com/gpu"}}
)
STEP = {"command": "./run.sh", "pod": {"gpus": 1}}
OPEN = suite("open", steps=[{**STEP, "expected_minutes": 10}])
LABELLED = suite("labelled", when={"labels": ["long"]})
NARROW = suite("narrow", when={"paths": ["lib/**"]})
UNKNOWN = UnknownChanges("the base branch could not be fetched")


def reasons(made: Plan) -> dict[str, str]:
    return {row[1]: row[-1] for row in rows(made)}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(
            plan([OPEN, LABELLED], given=GIVEN),
            "1 suite runs, 1 is skipped: 1 step, 1 job, 10 GPU minutes planned, 0 saved, longest path 10 min",
            id="one of each",
        ),
        pytest.param(
            plan([OPEN, suite("more"), LABELLED, NARROW], given=GIVEN),
            "2 suites run, 2 are skipped: 2 steps, 2 jobs, 10 GPU minutes planned, 0 saved, longest path 10 min",
            id="two of each",
        ),
        pytest.param(
            plan([suite("open", steps=[STEP])], given=GIVEN),
            "1 suite runs, 0 are skipped: 1 step, 1 job, 0 GPU minutes planned, 0 saved, longest path 0 min "
            "(1 GPU step says no expected_minutes)",
            id="one without a time",
        ),
        pytest.param(
            plan([suite("open", steps=[STEP, {**STEP, "expected_minutes": 1}, STEP])], given=GIVEN),
            "1 suite runs, 0 are skipped: 3 steps, 3 jobs, 1 GPU minute planned, 0 saved, longest path 1 min "
            "(2 GPU steps say no expected_minutes)",
            id="two without a time",
        ),
    ],
)
def test_the_totals_agree_with_their_numbers(made: Plan, said: str) -> None:
    assert totals(made) == said


@pytest.mark.parametrize(
    ("files", "head", "reason"),
    [
        (["a.py"], "1 changed file: base and head\n", "the changed file does not match its paths"),
        (
            ["a.py", "b.py"],
            "2 changed files: base and head\n",
            "none of the 2 changed files matches its paths",
        ),
    ],
    ids=["one file", "two files"],
)
def test_changed_files_are_counted(files: list[str], head: str, reason: str) -> None:
    made = plan([NARROW], files)
    assert plain_table(made).startswith(head)
    assert reasons(made) == {"narrow": reason}


def test_what_stands_above_the_table_is_not_said_again_in_every_row() -> None:
    made = plan([OPEN, LABELLED], UNKNOWN, given=GIVEN)
    assert reasons(made) == {"open": "what changed is not known", "labelled": "it needs the label long"}
    for text in (plain_table(made), annotation(made)):
        assert text.count("could not be fetched") == 1
        assert text.count("a regular build admits what asks for no label") == 1
    # Alone it is told in full.
    assert made.suites[0].decision.reason == f"what changed is not known: {UNKNOWN.reason}"


def test_the_annotation_counts_suites_and_jobs() -> None:
    body = annotation(plan([OPEN, LABELLED], given=GIVEN))
    assert body.startswith("**1 of 2 suites runs, 1 job**\n")
    assert "<summary>1 suite skipped</summary>" in body
    body = annotation(plan([OPEN, suite("more"), LABELLED, NARROW], given=GIVEN))
    assert body.startswith("**2 of 4 suites run, 2 jobs**\n")
    assert "<summary>2 suites skipped</summary>" in body


def test_the_annotation_lists_the_first_changed_files_and_obeys_none_of_them() -> None:
    names = ["docs/<b>|x`.md", *(f"docs/{number:02}.md" for number in range(30))]
    body = annotation(plan([OPEN, LABELLED], names, given=GIVEN))
    assert "<details open><summary>31 changed files</summary>\n\n| Changed |\n| --- |\n| docs/" in body
    assert "&#60;b&#62;&#124;x&#96;.md (trivial)" in body
    assert "| docs/18.md (trivial) |\n| … and 11 more |\n" in body
    assert "docs/19.md" not in body
    assert "| every changed file is trivial (docs/&#60;b&#62;&#124;x&#96;.md, among others) |" in body
    assert "| it needs the label long |" in body
    busy = annotation(plan([OPEN], ["docs/a.md", "src/core.py"]))
    assert "<details><summary>2 changed files</summary>\n\n| Changed |" in busy
    assert "| docs/a.md (trivial) |\n| src/core.py |\n" in busy
    assert "changed file" not in annotation(plan([OPEN], UNKNOWN))


def test_without_an_agent_the_log_has_rule_files_and_remedy_of_every_suite() -> None:
    said = plain_facts(plan([OPEN, LABELLED], ["docs/a.md", "src/core.py"], given=GIVEN)).splitlines()
    assert said[:6] == [
        "2 changed files",
        "  docs/a.md (trivial)",
        "  src/core.py",
        "",
        "open: RUN by the rule default",
        "  files: src/core.py",
    ]
    assert said[6] == "labelled: SKIP by the rule not-admitted"
    assert said[7].startswith("  to turn it round: put one of these labels on the pull request: run-ci-long")
    assert plain_facts(plan([OPEN], UNKNOWN)) == "open: RUN by the rule changes-unknown"
    many = plain_facts(plan([suite(f"s{number}") for number in range(202)]))
    assert many.endswith("\n… and 2 suites more")


@pytest.mark.parametrize(
    ("made", "warnings", "style"),
    [
        pytest.param(plan([OPEN], UNKNOWN), [], "warning", id="changes that are unknown"),
        pytest.param(plan([OPEN]), ["mend it"], "warning", id="something to mend"),
        pytest.param(plan([OPEN]), [], "info", id="something runs"),
        pytest.param(plan([OPEN], ["docs/a.md"]), [], "success", id="nothing runs"),
    ],
)
def test_the_style_says_whether_there_is_something_to_mend(
    made: Plan, warnings: list[str], style: str
) -> None:
    assert style_of(made, warnings) == style


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("colour", [True, False], ids=["colours", "no colours"])
def test_a_terminal_gets_no_line_that_is_wider_than_itself(width: int, *, colour: bool) -> None:
    made = plan([OPEN, LABELLED, suite("with-a-longer-name")], UNKNOWN, given=GIVEN)
    shown = terminal_table(made, width, colour=colour)
    assert ("\x1b[" in shown) == colour
    if not colour:
        assert max(map(len, shown.splitlines())) <= width
        assert width < 80 or sorted(shown.split()) == sorted(plain_table(made).split())


@pytest.mark.parametrize("width", [0, 1, 20, 59], ids="width {}".format)
def test_a_terminal_that_is_too_narrow_still_gets_the_whole_table(width: int) -> None:
    shown = terminal_table(plan([OPEN, LABELLED], given=GIVEN), width, colour=False)
    assert {"RUN", "SKIP", "open", "labelled"} <= set(shown.split())
    assert len(shown.splitlines()) < 120


def test_colours_change_no_character() -> None:
    made = plan([OPEN, LABELLED], given=GIVEN)
    coloured = terminal_table(made, 80, colour=True)
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == [
        line.rstrip() for line in terminal_table(made, 80, colour=False).splitlines()
    ]
    assert "\x1b[32mRUN      open    \x1b[0m  " in coloured
    assert "\x1b[2mSKIP     labelled\x1b[0m  " in coloured


def test_a_repository_without_suites_is_told_where_they_were_looked_for() -> None:
    made = plan([], given=settings(tests_dir=".buildkite/k3_tests"))
    said = (
        "\n\nthere is no suite in .buildkite/k3_tests\n"
        "  hint: `bkgen new NAME` makes one; tests_dir in bkgen.yml names another directory\n\n"
        "0 suites run, 0 are skipped: "
    )
    assert said in plain_table(made)
    assert terminal_table(made, 80, colour=True) == plain_table(made)
