"""`bkgen why`: the deciding rule, its line, and who wanted what."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bkgen.changes import UnknownChanges
from bkgen.config.load import Configuration, load_configuration
from bkgen.config.trees import WorkTree
from bkgen.decide.facts import Selection, gather
from bkgen.plan.planned import Plan
from bkgen.plan.planning import make_plan
from bkgen.report.why import explanation, why_json
from bkgen.report.why_text import coloured_why, plain_why
from bkgen.spec.settings import Settings
from bkrun import Cli, Result, pull_request_environ, suite
from decisions import Files, changed, pull_request
from gitrepo import Checkout, Content, environ

REPOSITORY = Path(__file__).parent.parent
SETTINGS = """\
version: 1
filter:
  force_run:
    - /.buildkite/**
    - /ci/**
policy:
  labels: {mp: multiprocess, long: long ones}
  cadences: {nightly: {schedule: true, minus: [long]}}
"""
UNIT = """\
when:
  paths: [src/**, "!src/gen/**"]
pod: {gpus: 1, memory: 8Gi, shm: 1Gi}
steps:
- group: All of it
  when: {labels: [mp]}
  steps:
  - key: short
    command: ./run.sh
  - key: slow
    command: ./run.sh
    when:
      labels: [long]
"""
OPEN = "steps:\n- {key: open, command: ./run.sh}\n"
FILES: dict[str, Content] = {
    "bkgen.yml": SETTINGS,
    "src/core.py": "core = 1\n",
    **suite("unit", UNIT),
    **suite("open", OPEN),
    **suite("late", "when: {cadence: nightly}\n" + OPEN.replace("open", "late")),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    Checkout(path, environ(tmp_path)).write(FILES)
    return path


def why(cli: Cli, root: Path, *arguments: str, **more: str) -> Result:
    return cli.run(root, "why", *arguments, environ=more, agent=False)


def deciding(text: str) -> list[str]:
    """The deciding rule with its evidence, a line each, blanks made one."""
    lines = text.split("rules, in order\n")[1].split("\n\n")[0].splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("  decides"))
    block = [lines[start]]
    for line in lines[start + 1 :]:
        if not line.startswith("   "):
            break
        block.append(line)
    return [" ".join(line.split()) for line in block]


MP = ["--label", "run-ci-mp"]


@pytest.mark.parametrize(
    ("name", "flags", "verdict", "block"),
    [
        pytest.param(
            "unit/short", ["--changed", "src/core.py"],
            "unit/short: SKIP, it needs the label mp: a regular build admits what asks for no label",
            ["decides not admitted by labels, cadence or forks", "rule not-admitted",
             "where k3_tests/unit/pipeline.yml:6:10: steps[0].when.labels", "labels mp"],
            id="a label that is missing, at the group's line",
        ),
        pytest.param(
            "unit/slow", ["--changed", "src/core.py", *MP],
            "unit/slow: SKIP, it needs the label long: a regular build admits what asks for no label, and the pull request asks for mp",
            ["decides not admitted by labels, cadence or forks", "rule not-admitted",
             "where k3_tests/unit/pipeline.yml:13:7: steps[0].steps[1].when.labels", "labels long"],
            id="a label that is missing, at the step's line",
        ),
        pytest.param(
            "late", ["--changed", "src/core.py"],
            "late: SKIP, it is for nightly builds, and this is a regular one",
            ["decides not admitted by labels, cadence or forks", "rule not-admitted",
             "where k3_tests/late/pipeline.yml:1:8: when.cadence"],
            id="a cadence",
        ),
        pytest.param(
            "late", ["--changed", "src/core.py", "--source", "schedule"],
            "late: RUN, a schedule started this nightly build",
            ["decides schedule, tag, or started by hand: relevance is not asked", "rule no-question",
             "where the build's environment"],
            id="a schedule",
        ),
        pytest.param(
            "open", ["--changed", "README.md", "--label", "force-ci"],
            "open: RUN, the pull request carries the label force-ci",
            ["decides the force label is on the pull request", "rule force-label",
             "where the build's environment", "labels force-ci"],
            id="the force label",
        ),
        pytest.param(
            "open", ["--changed", "README.md", "ci/x.sh"],
            "open: RUN, ci/x.sh matches force_run",
            ["decides a changed file forces everything to run", "rule force-run",
             "where bkgen.yml:5:7: filter.force_run[1]", "pattern /ci/**", "files ci/x.sh"],
            id="a pattern of force_run, at its own line",
        ),
        pytest.param(
            "open", ["--changed", "k3_tests/open/run.sh"],
            "open: RUN, k3_tests/open/run.sh lies in the suite's own directory",
            ["decides a changed file lies in the suite's own directory", "rule own-directory", "where git",
             "files k3_tests/open/run.sh"],
            id="the suite's own directory",
        ),
        pytest.param(
            "open", ["--changed", "README.md", "docs/a.md"],
            "open: SKIP, every changed file is trivial",
            ["decides every changed file is trivial or belongs to another suite", "rule only-trivial",
             "where filter.trivial: the default, which bkgen.yml does not change", "files README.md", "docs/a.md"],
            id="trivial files, by a default",
        ),
        pytest.param(
            "unit/short", ["--changed", "lib/x.py", *MP],
            "unit/short: SKIP, the changed file does not match its paths",
            ["decides no changed file matches the paths", "rule paths-miss",
             "where k3_tests/unit/pipeline.yml:2:3: when.paths", "files lib/x.py"],
            id="paths that miss",
        ),
        pytest.param(
            "unit/short", ["--changed", "lib/x.py", "src/core.py", *MP],
            "unit/short: RUN, src/core.py matches src/**",
            ["decides a changed file matches the paths", "rule paths-match",
             "where k3_tests/unit/pipeline.yml:2:11: when.paths[0]", "pattern src/**", "files src/core.py"],
            id="paths that match, at the pattern's column",
        ),
        pytest.param(
            "open", ["--changed", "lib/x.py"],
            "open: RUN, lib/x.py changed, and the suite has no paths to narrow it",
            ["decides a changed file is not trivial, and nothing narrows the suite", "rule default", "where git",
             "files lib/x.py"],
            id="nothing that narrows",
        ),
    ],
)  # fmt: skip
def test_why_names_the_rule_that_decided_and_its_line(
    cli: Cli, root: Path, name: str, flags: list[str], verdict: str, block: list[str]
) -> None:
    result = why(cli, root, name, *flags)
    assert (result.code, result.err) == (0, "")
    first, second, *_ = result.out.splitlines()
    assert first == verdict
    assert second.startswith("to turn it round: ")
    assert deciding(result.out) == block
    where = next((line.removeprefix("where ") for line in block if ".yml:" in line), None)
    if where is not None:
        file, line, column, field = re.fullmatch(r"(.*?):(\d+):(\d+): (.*)", where).groups()  # type: ignore[union-attr]
        there = (root / file).read_text().splitlines()[int(line) - 1][int(column) - 1 :]
        last = re.sub(r"\[\d+\]$", "", field.rsplit(".", 1)[-1])
        assert there.startswith((f"{last}:", "src/**", "/ci/**"))


def test_every_rule_is_listed_once_in_order(cli: Cli, root: Path) -> None:
    out = why(cli, root, "open", "--changed", "ci/x.sh").out
    rules = out.split("rules, in order\n")[1].split("\n\n")[0]
    notes = re.findall(r"^  (does not apply|decides|not asked) ", rules, re.MULTILINE)
    assert notes == ["does not apply"] * 6 + ["decides"] + ["not asked"] * 5
    assert max(map(len, rules.splitlines())) <= 100


def test_the_changes_are_unknown_or_empty(root: Path) -> None:
    unknown = told(root, "open", UnknownChanges("git is away"))
    assert unknown.startswith("open: RUN, what changed is not known: git is away\n")
    assert "rule     changes-unknown\n" in unknown
    empty = told(root, "open", changed())
    assert "rule     changes-empty\n" in empty


def told(root: Path, name: str, changes: object) -> str:
    configuration = load_configuration(WorkTree(root))
    facts = gather(pull_request(), configuration.settings, configuration.suites, changes, Selection())  # type: ignore[arg-type]
    made = make_plan(configuration.suites, facts)
    return plain_why(explanation(made, configuration, name), made)


def test_the_chain_of_whens_goes_from_the_file_to_the_step(cli: Cli, root: Path) -> None:
    chain = why(cli, root, "unit/slow", "--changed", "src/core.py").out.split("\nwhen\n")[1]
    assert chain.splitlines() == [
        "  file    k3_tests/unit/pipeline.yml:1:1: when",
        "          paths: src/**, !src/gen/**",
        "  group   k3_tests/unit/pipeline.yml:6:3: steps[0].when",
        "          labels: mp",
        "  step    k3_tests/unit/pipeline.yml:12:5: steps[0].steps[1].when",
        "          labels: long",
    ]
    nothing = why(cli, root, "open/open", "--changed", "src/core.py").out.split("\nwhen\n")[1]
    assert nothing == "  nothing is said: every build, and every change that is not trivial\n"


def test_a_suite_shows_its_steps(cli: Cli, root: Path) -> None:
    out = why(cli, root, "unit", "--changed", "src/core.py", *MP).out
    assert out.startswith("unit: RUN, src/core.py matches src/**\n")
    steps = out.split("\nsteps\n")[1].splitlines()
    assert [line.split()[:2] for line in steps] == [["RUN", "short"], ["SKIP", "slow"]]
    assert "\nsteps\n" not in why(cli, root, "open", "--changed", "src/core.py").out


# -- what the plan adds --------------------------------------------------------------------------------------

NEEDS = {
    "test": "when: {paths: [src/**]}\nsteps:\n- {key: test, command: ./run.sh, depends_on: image}\n",
    "image": "when: {paths: [docker/**]}\nsteps:\n- {key: image, command: ./run.sh, depends_on: [base]}\n",
    "base": "when: {paths: [docker/**]}\nsteps:\n- key: base\n  command: ./run.sh\n  mirrors: {old: {when: {forks: false}}}\n",
}


def planned(
    suites: dict[str, str], settings: str = "profiles: {old: {image: 'i:1'}}\n", **facts: object
) -> tuple[Plan, Configuration]:
    files = {"bkgen.yml": settings}
    for name, text in suites.items():
        files |= {f"k3_tests/{name}/pipeline.yml": text, f"k3_tests/{name}/run.sh": ""}
    configuration = load_configuration(Files(files))
    found = changed("src/core.py")
    known = gather(pull_request(**facts), configuration.settings, configuration.suites, found, Selection())
    return make_plan(configuration.suites, known), configuration


def test_a_step_that_was_pulled_in_says_who_wanted_it_up_to_the_first() -> None:
    made, configuration = planned(NEEDS)
    out = plain_why(explanation(made, configuration, "base/base"), made)
    assert out.startswith("base/base: RUN, image/image depends on it (alone it would be skipped: ")
    assert deciding(out) == [
        "decides the plan, after the rules", "rule needed",
        "where k3_tests/image/pipeline.yml:3:35: steps[0].depends_on",
    ]  # fmt: skip
    assert "  applies         no changed file matches the paths\n" in out
    wanted = out.split("\nwanted by\n")[1].split("\n\n")[0]
    assert wanted.splitlines() == [
        "  image/image  k3_tests/image/pipeline.yml:3:35: steps[0].depends_on",
        "      test/test depends on it (alone it would be skipped: the changed file does not match its paths)",
        "  test/test  k3_tests/test/pipeline.yml:3:34: steps[0].depends_on",
        "      src/core.py matches src/**",
    ]
    whole = plain_why(explanation(made, configuration, "base"), made)
    assert "\nwanted by\n  image/image  " in whole


def test_the_mirror_has_its_own_level() -> None:
    made, configuration = planned(NEEDS)
    out = plain_why(explanation(made, configuration, "base/base-old"), made)
    assert (
        "  mirror  k3_tests/base/pipeline.yml:5:19: steps[0].mirrors.old.when\n          forks: false\n"
        in out
    )


def test_what_may_not_run_for_a_fork_takes_out_what_depends_on_it() -> None:
    suites = {**NEEDS, "base": "when: {forks: false}\n" + NEEDS["base"].split("\n", 1)[1]}
    made, configuration = planned(suites, is_fork=True)
    out = plain_why(explanation(made, configuration, "image/image"), made)
    assert out.startswith(
        "image/image: SKIP, it depends on base/base, which is not for the pull requests of forks\n"
    )
    assert "where    k3_tests/image/pipeline.yml:3:35: steps[0].depends_on" in out
    refused = plain_why(explanation(made, configuration, "base/base"), made)
    assert "where    k3_tests/base/pipeline.yml:1:8: when.forks" in refused


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ("forks: {run: false}\n", "bkgen.yml:1:9: forks.run"),
        ("forks:\n  secrets: true\n  run: false\n", "bkgen.yml:3:3: forks.run"),
    ],
)
def test_the_settings_word_on_forks_stands_in_the_settings(settings: str, where: str) -> None:
    made, configuration = planned({"open": OPEN}, settings, is_fork=True)
    out = plain_why(explanation(made, configuration, "open"), made)
    assert deciding(out)[2] == f"where {where}"


# -- names, forms and builds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("unti", "no suite is called 'unti'\n  hint: did you mean 'unit'?", id="a suite"),
        pytest.param(
            "unit/solw", "the suite 'unit' has no step 'solw'\n  hint: did you mean 'slow'?", id="a step"
        ),
    ],
)
def test_a_name_that_nothing_has_is_a_usage_error_with_the_nearest(
    cli: Cli, root: Path, name: str, says: str
) -> None:
    result = why(cli, root, name, "--changed", "x")
    assert (result.code, result.out) == (2, "")
    assert says in result.err


def test_bkgen_only_narrows_the_build_and_is_explained(cli: Cli, root: Path) -> None:
    result = why(cli, root, "unit", "--changed", "src/core.py", BKGEN_ONLY="open")
    assert result.out.startswith("unit: SKIP, only open was asked for\n")
    assert "where    the command line or BKGEN_ONLY" in result.out


def test_a_label_that_selects_nothing_is_a_warning_beside_the_product(cli: Cli, root: Path) -> None:
    result = why(cli, root, "open", "--changed", "src/core.py", "--label", "run-ci-lnog")
    assert result.err == "warning: the label 'run-ci-lnog' selects nothing; did you mean 'run-ci-long'?\n"
    assert result.out.startswith("open: RUN, ")


def test_the_same_for_programs(cli: Cli, root: Path) -> None:
    found = why(cli, root, "unit/slow", "--changed", "src/core.py", *MP, "--json").json()
    assert (found["name"], found["suite"], found["key"]) == ("unit/slow", "unit", "slow")
    assert found["decided_by"] == "rules"
    assert found["decision"]["verdict"] == "SKIP"
    assert found["decision"]["place"] == {
        "field": "steps[0].steps[1].when.labels", "file": "k3_tests/unit/pipeline.yml", "line": 13, "column": 7,
    }  # fmt: skip
    assert [rule["note"] for rule in found["rules"]][:3] == ["does not apply", "decides", "not asked"]
    assert found["rules"][1]["decision"]["evidence"]["labels"] == ["long"]
    assert [(level["level"], level["says"]) for level in found["when"]] == [
        ("file", {"paths": ["src/**", "!src/gen/**"]}),
        ("group", {"labels": ["mp"]}),
        ("step", {"labels": ["long"]}),
    ]
    assert (found["wanted_by"], found["steps"]) == ([], [])


def test_programs_are_told_who_wanted_it_and_of_defaults() -> None:
    made, configuration = planned(NEEDS)
    found = why_json(explanation(made, configuration, "image"))
    assert found["decided_by"] == "plan"
    assert [(by["name"], by["place"]["line"]) for by in found["wanted_by"]] == [("test/test", 3)]
    assert [step["key"] for step in found["steps"]] == ["image"]
    trivial, known = planned({"open": OPEN})
    facts = trivial.facts
    again = gather(facts.build, facts.settings, known.suites, changed("a.md"), Selection())
    place = why_json(explanation(make_plan(known.suites, again), known, "open"))["decision"]["place"]
    assert place == {"field": "filter.trivial", "file": "bkgen.yml", "line": None, "column": None}


def test_colours_change_no_word() -> None:
    made, configuration = planned(NEEDS)
    found = explanation(made, configuration, "base")
    coloured = coloured_why(found, made)
    assert "\x1b[1;32mRUN\x1b[0m" in coloured
    plain = "".join(line.rstrip() + "\n" for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines())
    assert plain == plain_why(found, made)


def test_a_terminal_sees_colours_and_a_pipe_does_not(cli: Cli, root: Path) -> None:
    assert "\x1b" not in why(cli, root, "open", "--changed", "src/core.py").out
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bkgen", "why", "open", "--changed", "src/core.py"]
    with subprocess.Popen(
        command, cwd=root, env=environ(root), stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        seen = b""
        while chunk := read(ours):
            seen += chunk
        assert process.wait() == 0
    os.close(ours)
    assert b"\x1b[1;32mRUN\x1b[0m, src/core.py changed" in seen


def read(handle: int) -> bytes:
    """What a terminal shows; nothing when its last writer is gone."""
    try:
        return os.read(handle, 65536)
    except OSError:
        return b""


def test_a_forks_pull_request_is_explained_by_what_the_base_says(cli: Cli) -> None:
    made = cli.pull_request(
        {"src/core.py": "core = 2\n", "k3_tests/alpha/pipeline.yml": "when: {forks: false}\n"}
    )
    environment = pull_request_environ(made, BUILDKITE_PULL_REQUEST_REPO="https://github.com/them/fork")
    result = cli.run(made.checkout.path, "why", "alpha", environ=environment)
    assert result.code == 0, result.err
    assert re.match(
        r"a fork's pull request: what is explained is said by the base commit [0-9a-f]{12}\n", result.err
    )
    assert result.out.startswith(
        "alpha: RUN, k3_tests/alpha/pipeline.yml lies in the suite's own directory\n"
    )
    assert "2 changed files: " in result.out
    assert "paths: src/**\n" in result.out


def test_for_every_step_of_this_repository_why_says_what_the_plan_says() -> None:
    configuration = load_configuration(WorkTree(REPOSITORY))
    settings: Settings = configuration.settings
    for labels in ((), ("run-ci-all",), ("run-ci-mp", "run-ci-long")):
        for files in (["bkgen/errors.py"], ["README.md"], ["k3_tests/smoke/run.sh"], [".buildkite/x"]):
            build = pull_request(labels=labels)
            facts = gather(build, settings, configuration.suites, changed(*files), Selection())
            made = make_plan(configuration.suites, facts)
            for one in made.suites:
                assert explanation(made, configuration, one.suite.name).decision == one.decision
                for step in one.steps:
                    found = explanation(made, configuration, step.name)
                    assert found.decision == step.decision
                    assert sum(rule.note == "decides" for rule in found.rules) == 1
                    assert plain_why(found, made).startswith(f"{step.name}: {step.decision.verdict}, ")
