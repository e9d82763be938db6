"""bkgen check as a whole: everything at once, what it says of itself, and what suites silence."""

from __future__ import annotations

import ast
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import yaml

from bkgen.build import SOURCES
from bkgen.check.catalogue import codes, severities
from bkgen.cli.entry import run
from bkgen.spec.cases import Source
from checkrepo import CLEAN, PIPELINE, SCRIPT, SETTINGS, checked, made, report_of, shown, without_git
from gitrepo import Link, Program

ROOT = Path(__file__).resolve().parent.parent
SPEC = "k3_tests/unit/pipeline.yml"
RUN = "k3_tests/unit/run.sh"
OTHER = {
    "k3_tests/other/pipeline.yml": "when: {paths: [src/**]}\nsteps: [{label: O, key: other, command: ./run.sh}]\n",
    "k3_tests/other/run.sh": Program(SCRIPT),
}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Runs bkgen in a directory: the exit code, standard output and standard error."""
    for name in ("BUILDKITE", "BUILDKITE_BUILD_ID", "BKGEN_CADENCE", "BKGEN_ONLY"):
        monkeypatch.delenv(name, raising=False)

    def in_directory(directory: Path, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(directory)
        code = run(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return in_directory


# -- the command ---------------------------------------------------------------------------------------------


def test_a_clean_repository_ends_well_and_says_what_was_checked(tmp_path, command) -> None:
    code, out, err = command(made(tmp_path / "r").path, "check", "--strict")
    assert (code, err) == (0, "")
    assert out == "no problems; checked 1 suite, 2 steps, 1 pod, 1 script, 1 pattern\n"


def test_problems_are_grouped_by_file_with_a_count_at_the_end(tmp_path, command) -> None:
    files = {
        "bkgen.yml": SETTINGS + "scratch: {host_path: /data/x}\n",
        SPEC: PIPELINE.replace("src/**", "scr/**, src/**, tools/**"),
    }
    code, out, err = command(made(tmp_path / "r", files).path, "check")
    blocks = out.strip().split("\n\n")
    assert (code, err) == (1, "")
    assert len(blocks) == 3
    assert blocks[0].startswith("bkgen.yml:10:1: scratch: warning: ")
    assert [line for line in blocks[1].splitlines() if not line.startswith("  hint: ")] == [
        f"{SPEC}:3:11: when.paths[0]: 'scr/**' matches no file of the repository [pattern-matches-nothing]",
        f"{SPEC}:3:27: when.paths[2]: 'tools/**' matches no file of the repository [pattern-matches-nothing]",
    ]
    assert blocks[2].startswith("2 errors and 1 warning in 2 files; checked 1 suite, ")


def test_warnings_alone_fail_under_strict_only(tmp_path, command) -> None:
    path = made(tmp_path / "r", {"bkgen.yml": SETTINGS + "scratch: {host_path: /data/x}\n"}).path
    assert command(path, "check")[0] == 0
    assert command(path, "check", "--strict")[0] == 1


def test_json_holds_everything_for_programs(tmp_path, command) -> None:
    code, out, _ = command(
        made(tmp_path / "r", {RUN: Program("#!/bin/bash\nset -eu\n")}).path, "check", "--json"
    )
    answer = json.loads(out)
    assert code == 1
    assert (answer["errors"], answer["warnings"], answer["silenced"]) == (1, 0, 0)
    assert answer["checked"] == {"suites": 1, "steps": 2, "pods": 1, "scripts": 1, "patterns": 1, "cases": 0}
    (found,) = answer["diagnostics"]
    assert (found["code"], found["file"], found["line"], found["severity"]) == (
        "script-not-strict",
        RUN,
        1,
        "error",
    )
    assert found["hint"]


def test_check_works_from_a_folder_inside(tmp_path, command) -> None:
    path = made(tmp_path / "r", {RUN: SCRIPT}).path
    code, out, _ = command(path / "k3_tests/unit", "check")
    assert code == 1
    assert out.startswith(f"{RUN}:1:1: ")


def test_outside_git_everything_but_the_patterns_is_checked(tmp_path, command) -> None:
    files = {RUN: SCRIPT, SPEC: PIPELINE.replace("src/**", "scr/**")}
    code, out, _ = command(without_git(tmp_path / "r", files), "check")
    assert code == 1
    assert "warning: patterns were held against no files: " in out
    assert "[check-no-git]" in out
    assert "[script-not-executable]" in out
    assert "pattern-matches-nothing" not in out


def test_a_place_without_settings_and_suites_has_no_problem(tmp_path, command) -> None:
    nothing = dict.fromkeys(CLEAN)
    code, out, _ = command(made(tmp_path / "r", {**nothing, "a.py": ""}).path, "check", "--strict")
    assert code == 0
    assert out == (
        "no problems; checked no suites\n"
        "  hint: `bkgen new NAME` makes one; tests_dir in bkgen.yml says where suites are\n"
    )


# -- all at once ---------------------------------------------------------------------------------------------


def test_a_suite_that_does_not_load_hides_no_problem_of_the_others(tmp_path: Path) -> None:
    files = {
        SPEC: "steps: [\n",
        "k3_tests/other/pipeline.yml": "pod: {gpus: 1, memory: 8Gi}\nsteps: [{command: ./rnu.sh, expected_minute: 3}]\n",
        "k3_tests/other/run.sh": SCRIPT,
        "k3_tests/third/pipeline.yml": "pod: {profile: h100}\nsteps: [{command: ./run.sh}]\n",
        "k3_tests/third/run.sh": Program("#!/bin/bash\npytest || true\n"),
        "k3_tests/fourth/pipeline.yml": "pod: {gpus: 1, memory: {limit: 64 Gi}, shm: 1Gi}\nsteps: [{command: ./run.sh}]\n",
        "k3_tests/fourth/run.sh": Program(SCRIPT),
    }
    assert shown(checked(tmp_path / "r", files)) == [
        "error pod-quantity k3_tests/fourth/pipeline.yml:1:16",
        "error spec-unknown-key k3_tests/other/pipeline.yml:2:29",
        "error script-not-executable k3_tests/other/run.sh:1:1",
        "error spec-unknown-profile k3_tests/third/pipeline.yml:1:16",
        "error script-not-strict k3_tests/third/run.sh:1:1",
        "error script-status-ignored k3_tests/third/run.sh:2:11",
        "error yaml-syntax k3_tests/unit/pipeline.yml:2:1",
    ]


def test_a_label_renamed_in_its_last_suite_is_missed_under_its_old_name(tmp_path: Path) -> None:
    found = checked(tmp_path / "r", {SPEC: PIPELINE.replace("labels: [long]", "labels: [lnog]")})
    errors = {one.code: one for one in found if one.severity == "error"}
    assert "'long'" in errors["policy-label-selects-nothing"].message
    assert errors["spec-unknown-label"].hint == "did you mean 'long'?"
    assert "unreachable" not in errors


def test_what_an_unread_suite_may_use_is_not_called_unused(tmp_path: Path) -> None:
    files = {SPEC: "steps: [\n", "bkgen.yml": SETTINGS + "scratch: {host_path: /data/x}\n", **OTHER}
    assert shown(checked(tmp_path / "r", files)) == ["error yaml-syntax k3_tests/unit/pipeline.yml:2:1"]


def test_settings_that_cannot_be_read_leave_suites_and_scripts_to_be_checked(tmp_path: Path) -> None:
    files = {"bkgen.yml": "version: 2\n", RUN: SCRIPT, SPEC: PIPELINE.replace("label: Long", "lable: Long")}
    assert shown(checked(tmp_path / "r", files)) == [
        "warning check-skipped bkgen.yml",
        "error spec-value bkgen.yml:1:10",
        f"error spec-unknown-key {SPEC}:9:5",
        f"error script-not-executable {RUN}:1:1",
    ]


def test_settings_with_an_unknown_default_leave_the_plan_to_be_checked(tmp_path: Path) -> None:
    files = {"bkgen.yml": SETTINGS + "default_profile: h100\n", SPEC: PIPELINE + "    depends_on: nobody\n"}
    found = shown(checked(tmp_path / "r", files))
    assert found == [
        "error spec-unknown-profile bkgen.yml:10:18",
        f"error step-unknown-dependency {SPEC}:13:17",
    ]


def test_faults_of_the_plan_do_not_hide_each_other_nor_what_is_found_later(tmp_path: Path) -> None:
    files = {
        SPEC: PIPELINE.replace("label: Unit", "label: Unit\n    key: same").replace(
            "label: Long", "label: Long\n    key: same"
        ),
        "k3_tests/b/pipeline.yml": "when: {paths: [src/**]}\nsteps: [{key: b, command: ./run.sh, depends_on: nobody}]\n",
        "k3_tests/b/run.sh": Program(SCRIPT),
        # Depends on a suite that is left out: that is no fault of its own.
        "k3_tests/c/pipeline.yml": "when: {paths: [src/**]}\nsteps: [{key: c, command: ./run.sh, depends_on: [same, b]}]\n",
        "k3_tests/c/run.sh": Program(SCRIPT),
        "k3_tests/d/pipeline.yml": "when: {paths: [src/**]}\npod: {gpus: 1, memory: {limit: 64 Gi}, shm: 1Gi}\n",
        "k3_tests/d/run.sh": Program(SCRIPT),
    }
    assert shown(checked(tmp_path / "r", files)) == [
        "error step-unknown-dependency k3_tests/b/pipeline.yml:2:49",
        "error pod-quantity k3_tests/d/pipeline.yml:2:16",
        f"error step-key-twice {SPEC}:10:5",
    ]


def test_each_file_is_judged_by_its_own_word_on_dollars(tmp_path: Path) -> None:
    files = {
        SPEC: PIPELINE.replace("./run.sh long", "./run.sh $$X"),
        "k3_tests/other/pipeline.yml": "interpolate: true\nwhen: {paths: [src/**]}\nsteps: [{command: './run.sh $$X'}]\n",
        "k3_tests/other/run.sh": Program(SCRIPT),
    }
    assert shown(checked(tmp_path / "r", files)) == [f"warning dollars-doubled {SPEC}:10:5"]


def test_what_the_agent_could_not_be_kept_from_filling_in_is_an_error(tmp_path: Path) -> None:
    files = {
        SPEC: PIPELINE.replace(
            "expected_minutes: 10", 'expected_minutes: 10\n    cache: {paths: [a], name: "$X"}'
        ),
        "k3_tests/other/pipeline.yml": "interpolate: true\nwhen: {paths: [src/**]}\nsteps: [{command: ./run.sh}]\n",
        "k3_tests/other/run.sh": Program(SCRIPT),
    }
    assert [one.split()[1] for one in shown(checked(tmp_path / "r", files))] == ["interpolation-unsafe"]


# -- scripts and git -----------------------------------------------------------------------------------------


def test_git_decides_on_the_run_bit_of_a_tracked_file(tmp_path: Path) -> None:
    repo = made(tmp_path / "r")
    repo.git("update-index", "--chmod=-x", RUN)
    (found,) = report_of(repo.path).diagnostics
    assert (found.code, found.hint) == ("script-not-executable", f"git update-index --chmod=+x {RUN}")
    repo.git("update-index", "--chmod=+x", RUN)
    (repo.path / RUN).chmod(0o644)
    assert not report_of(repo.path).diagnostics


def test_the_disk_decides_on_the_run_bit_of_a_new_file(tmp_path: Path) -> None:
    repo = made(
        tmp_path / "r",
        {
            "k3_tests/other/run.sh": SCRIPT,
            "k3_tests/other/pipeline.yml": OTHER["k3_tests/other/pipeline.yml"],
        },
        add=False,
    )
    (found,) = report_of(repo.path).diagnostics
    assert (found.code, found.hint) == ("script-not-executable", "chmod +x k3_tests/other/run.sh")


def test_a_new_file_counts_for_patterns_before_it_is_added(tmp_path: Path) -> None:
    files = {"tools/a.py": "", SPEC: PIPELINE.replace("src/**", "src/**, tools/**")}
    assert not report_of(made(tmp_path / "r", files, add=False).path).diagnostics


def test_a_script_that_git_ignores_is_not_there(tmp_path: Path) -> None:
    files = {
        ".gitignore": "made.sh\n",
        "k3_tests/unit/made.sh": Program(SCRIPT),
        SPEC: PIPELINE.replace("./run.sh\n", "./made.sh\n"),
    }
    (found,) = checked(tmp_path / "r", files)
    assert found.code == "script-missing"
    assert "ignored by git" in found.message


@pytest.mark.parametrize(
    ("command", "files", "hint"),
    [
        ("./scripts/a.sh", {"scripts/a.sh": Program(SCRIPT)}, "repository's root write: scripts/a.sh"),
        ("./a.sh", {"a.sh": Program(SCRIPT)}, "repository's root write: bash a.sh"),
        (
            "bash scripts/a.sh",
            {"k3_tests/unit/scripts/a.sh": Program(SCRIPT)},
            "write ./scripts/a.sh in front",
        ),
        ("./rum.sh", {}, "did you mean 'run.sh'?"),
        ("cd k3_tests/unit && bash ./none.sh", {}, None),
        ("make && build/run_all", {}, None),
        ("./{{matrix}}.sh", {}, None),
        ("scripts/$NAME.sh", {}, None),
        ("python3 -m tool; python3 -c 'x/y.py'", {}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_script_is_told_where_the_file_may_be(
    tmp_path: Path, command: str, files: dict, hint: str | None
) -> None:
    changed = {SPEC: PIPELINE.replace("./run.sh\n", json.dumps(command) + "\n"), **files}
    found = [one for one in checked(tmp_path / "r", changed) if one.code == "script-missing"]
    assert [one.hint.endswith(hint or "") for one in found] == ([True] if hint else [])


def test_a_script_outside_the_suite_is_checked_when_a_command_names_it(tmp_path: Path) -> None:
    files = {
        "src/bench.sh": Program("#!/bin/bash\nset -eu\n"),
        "src/lib.sh": "f() { :; }\n",
        SPEC: PIPELINE.replace("./run.sh\n", "src/bench.sh\n"),
    }
    assert shown(checked(tmp_path / "r", files)) == ["error script-not-strict src/bench.sh:1:1"]


def test_a_library_beside_the_script_may_set_the_options(tmp_path: Path) -> None:
    files = {
        "k3_tests/unit/lib.sh": "set -euo pipefail\n",
        RUN: Program('#!/bin/bash\nsource "$(dirname "$0")/lib.sh"\npytest | tee log\n'),
    }
    assert not checked(tmp_path / "r", files)


def test_a_linked_script_is_followed(tmp_path: Path) -> None:
    files = {"k3_tests/unit/again.sh": Link("run.sh"), SPEC: PIPELINE.replace("./run.sh\n", "./again.sh\n")}
    assert not checked(tmp_path / "r", files)


def test_files_that_git_forgot_are_listed_five_at_most(tmp_path: Path) -> None:
    (found,) = checked(tmp_path / "r", {f"tools/{n}.py": "" for n in range(7)})
    assert found.message.endswith("any of 7 files runs no suite at all: "
                                  "tools/0.py, tools/1.py, tools/2.py, tools/3.py, tools/4.py and 2 more")  # fmt: skip


def test_no_file_is_forgotten_where_a_suite_has_no_paths(tmp_path: Path) -> None:
    files = {
        "tools/a.py": "",
        "k3_tests/all/pipeline.yml": "steps: [{command: ./run.sh}]\n",
        "k3_tests/all/run.sh": Program(SCRIPT),
    }
    assert not checked(tmp_path / "r", files)


def test_names_that_are_no_text_reach_the_terminal_as_text(tmp_path: Path, command) -> None:
    path = made(tmp_path / "r").path
    script = os.fsdecode(os.fsencode(path / "k3_tests/unit") + b"/a\xff\x1b[31m.sh")
    Path(script).write_text("#!/bin/bash\nset -eu\n")
    Path(script).chmod(0o755)
    code, out, _ = command(path, "check")
    assert code == 1
    assert out.startswith("k3_tests/unit/a\\xff\\x1b[31m.sh:1:1: ")
    code, out, _ = command(path, "check", "--json")
    assert json.loads(out)["diagnostics"][0]["file"] == "k3_tests/unit/a\udcff\x1b[31m.sh"


@pytest.mark.parametrize(
    "content", [b"\x00\xff\xfe", b"", b"\x7fELF", b"#!", b"#!/bin/bash\n'\xff", b"#!/usr/bin/env python3\n"]
)
def test_a_script_of_any_bytes_is_no_reason_to_crash(tmp_path: Path, content: bytes) -> None:
    repo = made(tmp_path / "r")
    (repo.path / RUN).write_bytes(content)
    (repo.path / "k3_tests/unit/x.py").write_bytes(b"import pytest\n" + content)
    assert all(one.code in severities() for one in report_of(repo.path).diagnostics)


# -- silence -------------------------------------------------------------------------------------------------


WAITS = {RUN: Program("#!/bin/bash\nset -euo pipefail\ntimeout 1000 pytest\n")}


def test_a_suite_silences_a_warning_by_its_code_with_a_reason(tmp_path: Path, command) -> None:
    path = made(tmp_path / "r", {**WAITS, SPEC: "silence: {script-inner-wait: slow disk}\n" + PIPELINE}).path
    code, out, _ = command(path, "check", "--strict")
    assert code == 0
    assert out.startswith("no problems (1 warning silenced); ")


def test_a_shared_script_is_silenced_only_by_all_who_start_it(tmp_path: Path) -> None:
    shared = {
        "src/wait.sh": WAITS[RUN],
        SPEC: "silence: {script-inner-wait: slow disk}\n" + PIPELINE.replace("./run.sh\n", "src/wait.sh\n"),
        "k3_tests/other/pipeline.yml": OTHER["k3_tests/other/pipeline.yml"].replace(
            "./run.sh", "src/wait.sh"
        ),
        "k3_tests/other/run.sh": Program(SCRIPT),
    }
    assert shown(checked(tmp_path / "r", shared)) == ["warning script-inner-wait src/wait.sh:3:1"]
    other = "silence: {script-inner-wait: slow disk}\n" + str(shared["k3_tests/other/pipeline.yml"])
    assert not checked(tmp_path / "s", {**shared, "k3_tests/other/pipeline.yml": other})


def test_a_warning_of_loading_comes_out_in_plan_and_render_unless_silenced(tmp_path: Path, command) -> None:
    near = PIPELINE.replace("expected_minutes: 10", "expected_minutes: 10\n    timeout_in_minutes: 11")
    path = made(tmp_path / "r", {SPEC: near}).path
    for arguments in (
        ("render", "unit"),
        ("plan", "--changed", "src/core.py"),
        ("upload", "--dry-run", "--changed", "src/core.py"),
    ):
        code, _, err = command(path, *arguments)
        assert code == 0
        assert "[time-near-timeout]" in err, arguments
    # The suite is skipped, so nobody needs to hear of it.
    assert "[time-near-timeout]" not in command(path, "plan", "--changed", "README.md")[2]
    (path / SPEC).write_text("silence: {time-near-timeout: a fixed machine}\n" + near)
    assert "[time-near-timeout]" not in command(path, "render", "unit")[2]
    assert command(path, "check", "--strict")[0] == 0


# -- cases -----------------------------------------------------------------------------------------------------


def test_a_case_out_of_plan_passes_when_it_is_pasted(tmp_path: Path, command) -> None:
    path = made(tmp_path / "r", OTHER).path
    table = ""
    for arguments in (
        ("--changed", "src/core.py", "README.md", "--label", "run-ci-long"),
        ("--changed", "README.md"),
        ("--changed", "src/core.py", "--source", "webhook", "--branch", "main", "--cadence", "nightly"),
        ("--source", "schedule", "--cadence", "nightly"),
        ("--changed", "k3_tests/unit/run.sh", "--label", "force-ci"),
    ):
        code, out, _ = command(path, "plan", *arguments, "--as-case")
        assert code == 0
        table += out
    assert [case["runs"] for case in yaml.safe_load(table)] == [
        ["other", "unit"],
        [],
        ["other", "unit"],
        ["other", "unit"],
        ["other", "unit"],
    ]
    (path / "k3_tests/paths.test.yml").write_text(table)
    code, out, _ = command(path, "check", "--strict")
    assert (code, out.split(", ")[-1]) == (0, "5 path cases\n")
    (path / "k3_tests/paths.test.yml").write_text(table.replace("- other\n", "- othre\n"))
    assert command(path, "check")[0] == 1


def test_a_case_cannot_speak_of_some_suites_only(tmp_path: Path, command) -> None:
    path = made(tmp_path / "r").path
    code, out, err = command(path, "plan", "unit", "--changed", "src/core.py", "--as-case")
    assert (code, out) == (2, "")
    assert "hint: name none with --as-case" in err


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("runs: [unit]\n", "1:1"),
        ("- changed: [a]\n", "1:3"),
        ("- runs: [unit]\n  chnaged: [a]\n", "2:3"),
        ("- {runs: [], source: cron}\n", "1:22"),
        ("- {runs: [], fork: yes}\n", "1:20"),
        ("- {runs: [], cadence: weekly, source: schedule}\n", "1:14"),
        ("- runs: []\n- runs: [\n", "3:1"),
    ],
)
def test_a_wrong_table_is_refused_at_its_place(tmp_path: Path, table: str, place: str) -> None:
    (found,) = checked(tmp_path / "r", {"k3_tests/paths.test.yml": table}, git=False)
    assert str(found.position) == f"k3_tests/paths.test.yml:{place}"
    assert found.severity == "error"


def test_a_case_knows_every_source_of_a_build() -> None:
    assert get_args(Source) == SOURCES


def test_an_empty_table_is_none(tmp_path: Path) -> None:
    assert not checked(tmp_path / "r", {"k3_tests/paths.test.yml": "# nothing yet\n"}, git=False)


def test_a_case_of_a_suite_that_cannot_be_read_waits_for_it(tmp_path: Path) -> None:
    files = {
        SPEC: "steps: [\n",
        "k3_tests/paths.test.yml": "- {changed: [src/core.py], runs: [unit, other]}\n",
        **OTHER,
    }
    assert shown(checked(tmp_path / "r", files)) == ["error yaml-syntax k3_tests/unit/pipeline.yml:2:1"]


# -- the catalogue -----------------------------------------------------------------------------------------------


CHECKED = ("build.py", "yamlio.py", "scalars.py", "spec", "config", "decide", "plan", "pipeline", "check")
BUILT = {f"spec-unknown-{what}" for what in ("label", "cadence", "cache", "profile", "retry")} | {
    "unused-profile", "unused-cache", "unused-retry",
}  # fmt: skip
"""Codes that the source makes up of parts, so that they stand nowhere in it whole."""


@cache
def texts_of_the_source() -> set[str]:
    """Every text that stands in the packages whose codes check can say, the catalogue left out."""
    found = set()
    for name in CHECKED:
        place = ROOT / "bkgen" / name
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if "catalogue" not in file.parts:
                tree = ast.parse(file.read_text(encoding="utf-8"))
                found |= {
                    n.value
                    for n in ast.walk(tree)
                    if isinstance(n, ast.Constant) and isinstance(n.value, str)
                }
    return found


def test_every_code_that_check_can_say_is_in_the_catalogue() -> None:
    known = {code.code for code in codes()}
    families = {code.split("-")[0] for code in known if "-" in code}
    shaped = {
        t
        for t in texts_of_the_source()
        if re.fullmatch(r"[a-z]+(-[a-z]+)+", t) and t.split("-")[0] in families
    }
    assert len(shaped) > 50
    assert shaped - known - {"depends-on-unknown"} == set()


def test_every_code_of_the_catalogue_can_be_said() -> None:
    assert {code.code for code in codes()} - texts_of_the_source() == BUILT


def test_codes_are_unique_and_explained() -> None:
    every = [code.code for code in codes()]
    assert len(set(every)) == len(every)
    for code in codes():
        assert code.title
        assert code.explanation.endswith((".", "`", ")")), code
    assert severities()["script-inner-wait"] == {"warning"}
    assert severities()["pod-quantity"] == {"error"}


# -- this repository -----------------------------------------------------------------------------------------------


def test_this_repository_passes_its_own_check(command) -> None:
    code, out, _ = command(ROOT, "check", "--strict")
    assert code == 0, out
