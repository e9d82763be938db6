"""Every code of check: a repository in which it comes out, at its place, and one in which it does not."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bkgen.check.catalogue import codes, finding
from bkgen.errors import Diagnostic
from checkrepo import CLEAN, PIPELINE, SCRIPT, SETTINGS, checked
from gitrepo import Content, Program

RUN = "k3_tests/unit/run.sh"
SPEC = "k3_tests/unit/pipeline.yml"
TABLE = "k3_tests/paths.test.yml"
HEAD = "#!/usr/bin/env bash\nset -euo pipefail\n"


@dataclass(frozen=True)
class Case:
    """Files that bring a code out in `file` where `token` stands, and files that do not."""

    code: str
    file: str
    token: str
    wrong: dict[str, Content]
    right: dict[str, Content]
    says: str = ""
    severity: str = "error"
    git: bool = False
    also: frozenset[str] = field(default_factory=frozenset)


def script(body: str) -> dict[str, Content]:
    return {RUN: Program(HEAD + body)}


def spec(*lines: str, steps: str = "") -> dict[str, Content]:
    """The clean pipeline.yml with its when or pod replaced by `lines`."""
    head = PIPELINE.split("steps:")[0]
    tail = steps or "steps:" + PIPELINE.split("steps:")[1]
    for line in lines:
        key = line.split(":")[0]
        head = "\n".join(old for old in head.splitlines() if not old.startswith(f"{key}:"))
        head = head.replace("\n  paths: [src/**]", "") if key == "when" else head
        head = f"{head}\n{line}\n"
    return {SPEC: head + tail}


def config(old: str, new: str) -> dict[str, Content]:
    assert old in SETTINGS
    return {"bkgen.yml": SETTINGS.replace(old, new)}


SHARDED = PIPELINE.replace(
    "    expected_minutes: 10\n",
    "    expected_minutes: 10\n    shards: {count: 2, by: pytest-split, durations: tests.json}\n",
)
SCRIPTS = {
    "a script that is not there": Case(
        "script-missing", SPEC, "./rnu.sh",
        {SPEC: PIPELINE.replace("./run.sh\n", "./rnu.sh\n")}, {}, "there is no k3_tests/unit/rnu.sh",
    ),
    "a script without the run bit": Case(
        "script-not-executable", RUN, "", {RUN: SCRIPT}, {RUN: Program(SCRIPT)}, "run bit",
    ),
    "a started file besides run.sh without the run bit": Case(
        "script-not-executable", "k3_tests/unit/scripts/a.py", "",
        {SPEC: PIPELINE.replace("./run.sh\n", "./scripts/a.py\n"), "k3_tests/unit/scripts/a.py": "#!/usr/bin/env python3\n"},
        {SPEC: PIPELINE.replace("./run.sh\n", "python3 k3_tests/unit/scripts/a.py\n"), "k3_tests/unit/scripts/a.py": "x = 1\n"},
    ),
    "a file of durations that is not there": Case(
        "shards-durations-missing", SPEC, "tests.json", {SPEC: SHARDED}, {SPEC: SHARDED, "k3_tests/unit/tests.json": "{}\n"},
        "there is no k3_tests/unit/tests.json",
    ),
    "a file of durations that git ignores": Case(
        "shards-durations-missing", SPEC, "tests.json",
        {SPEC: SHARDED, "k3_tests/unit/tests.json": "{}\n", ".gitignore": "tests.json\n"},
        {SPEC: SHARDED, "k3_tests/unit/tests.json": "{}\n"}, "git ignores k3_tests/unit/tests.json", git=True,
    ),
    "a #! line in a file that nobody can start": Case(
        "script-run-bit", "k3_tests/unit/lib.sh", "",
        {"k3_tests/unit/lib.sh": HEAD}, {"k3_tests/unit/lib.sh": "# shellcheck shell=bash\n"}, severity="warning",
    ),
    "a script without #!": Case(
        "script-no-shebang", RUN, "", {RUN: Program("set -euo pipefail\npytest\n")}, {},
    ),
    "a script with CR LF": Case(
        "script-line-ends", RUN, "", {RUN: Program(SCRIPT.replace("\n", "\r\n"))}, {}, "CR LF",
    ),
    "a script that passes over failures": Case(
        "script-not-strict", RUN, "",
        {RUN: Program("#!/bin/bash\nset -eu\npytest\n")}, {RUN: Program("#!/bin/bash -eu\nset -o pipefail\npytest\n")},
        "pipefail is not set",
    ),
    "a script of sh, which has no pipefail": Case(
        "script-not-strict", RUN, "", {RUN: Program("#!/bin/sh\nset -eu\npytest\n")}, {}, "pipefail",
    ),
    "a script that passes over misspelt variables": Case(
        "script-unset-variables", RUN, "",
        {RUN: Program("#!/bin/bash\nset -eo pipefail\npytest\n")}, {}, severity="warning",
    ),
    "a pipe without pipefail": Case(
        "script-pipe-hides-status", RUN, "tee log",
        {RUN: Program("#!/bin/bash\nset -eu\npytest | tee log\n")}, script("pytest | tee log\n"),
        also=frozenset({"script-not-strict"}),
    ),
    "a pipe in a step's command": Case(
        "script-pipe-hides-status", SPEC, "./run.sh | tee",
        {SPEC: PIPELINE.replace("./run.sh\n", "./run.sh | tee log\n")},
        {SPEC: PIPELINE.replace("./run.sh\n", "[set -o pipefail, ./run.sh | tee log]\n")},
    ),
    "a test that cannot fail": Case(
        "script-status-ignored", RUN, "true", script("\npytest || true\n"), script("\npytest\n"), "'pytest' may fail",
    ),
    "a test in a step's command that cannot fail": Case(
        "script-status-ignored", SPEC, "./run.sh || true", {SPEC: PIPELINE.replace("./run.sh\n", "./run.sh || true\n")}, {},
    ),
    "a trap that exits 0": Case(
        "script-trap-exit-zero", RUN, "'exit 0'", script("x=1\ntrap  'exit 0' EXIT\npytest\n"),
        script("trap 's=$?; exit $s' EXIT\npytest\n"),
    ),
    "a trap that cleans up before it asks": Case(
        "script-trap-late-status", RUN, "'rm -rf x; exit", script("trap 'rm -rf x; exit $?' EXIT\npytest\n"),
        script("trap 'status=$?; rm -rf x; exit \"$status\"' EXIT\npytest\n"), "its own command",
    ),
    "a function of a trap that cleans up before it asks": Case(
        "script-trap-late-status", RUN, "exit $?", script("end() {\n  rm -rf x\n  exit $?\n}\ntrap end EXIT\npytest\n"),
        script('end() {\n  local status=$?\n  rm -rf x\n  exit "$status"\n}\ntrap end EXIT\npytest\n'),
    ),
    "two names for one status": Case(
        "script-status-unread", RUN, "rc=$?", script("status=0\npytest || rc=$?\nexit $status\n"),
        script("status=0\npytest || status=$?\nexit $status\n"), "kept as 'rc'",
    ),
    "two names for one status in a step's commands": Case(
        "script-status-unread", SPEC, "./run.sh || rc=$?",
        {SPEC: PIPELINE.replace("./run.sh\n", "[./run.sh || rc=$?, exit $status]\n")},
        {SPEC: PIPELINE.replace("./run.sh\n", "[./run.sh || rc=$?, exit $rc]\n")},
    ),
    "a failure in one branch with success": Case(
        "script-failure-grouped", RUN, "0|1|5)", script("rc=0\npytest || rc=$?\ncase $rc in 0|1|5) exit 0 ;; *) exit $rc ;; esac\n"),
        script("rc=0\npytest || rc=$?\ncase $rc in 0|5) exit 0 ;; *) exit $rc ;; esac\n"), "status 1 of 'pytest'",
    ),
    "a failure that is only printed": Case(
        "script-failure-printed", RUN, "if pytest", script("if pytest; then echo fine; else echo failed; fi\n"),
        script("if pytest; then echo fine; else echo failed; exit 1; fi\n"), "'pytest' fails",
    ),
    "a test where errexit is off": Case(
        "script-status-passed-over", RUN, "pytest", script("set +e\npytest\necho done\n"),
        script("set +e\npytest\nrc=$?\nset -e\necho done\nexit $rc\n"), "how 'pytest' ended",
    ),
    "the status of a negation": Case(
        "script-status-negated", RUN, "exit $?", script("if ! pytest; then\n  exit $?\nfi\n"),
        script("if pytest; then :; else\n  exit $?\nfi\n"), "the status of '! pytest'",
    ),
    "a test in the background": Case(
        "script-background-unasked", RUN, "pytest &", script("pytest &\nwait\n"),
        script('pytest &\npid=$!\nwait "$pid"\n'), "a bare wait says 0",
    ),
    "a loop that goes on": Case(
        "script-status-ignored", RUN, "continue", script('for t in a b; do\n  pytest "$t" || continue\ndone\n'),
        script('failed=0\nfor t in a b; do\n  pytest "$t" || failed=1\ndone\nexit "$failed"\n'), "the loop goes on",
    ),
    "a status behind export": Case(
        "script-status-masked", RUN, 'X="$(make-it)"', script('export X="$(make-it)"\npytest\n'),
        script('X="$(make-it)"\nexport X\npytest\n'), "that of export", "warning",
    ),
    "a test in a process substitution": Case(
        "script-process-unasked", RUN, "pytest", script("while read -r line; do echo \"$line\"; done < <(pytest -q)\n"),
        script("mapfile -t names < <(pytest --collect-only -q)\npytest \"${names[@]}\"\n"), "nobody gets", "warning",
    ),
    "a counter that ends the script": Case(
        "script-counter-ends", RUN, "((n++))", script("n=0\n((n++))\npytest\n"),
        script("n=0\nn=$((n + 1))\npytest\n"), "when 'n' is 0", "warning",
    ),
    "a wait above the step's timeout": Case(
        "script-inner-wait", RUN, "timeout 1000", script("timeout 1000 pytest\n"), script("timeout 700 pytest\n"),
        "stopped after 780 s", "warning",
    ),
    "waits that are too long together": Case(
        "script-inner-wait", RUN, "wait_until_ready 2",
        script('wait_until_ready 1 u 600 l\nwait_until_ready 2 u 600 l\n'),
        script('wait_until_ready 1 u 600 l\nif false; then wait_until_ready 2 u 600 l; fi\n'), "1200 s together", "warning",
    ),
    "two waits that take all of the step's time": Case(
        "script-inner-wait", RUN, "wait_until_ready 2",
        {SPEC: PIPELINE.replace("    expected_minutes: 10\n", "    timeout_in_minutes: 20\n"),
         RUN: Program(HEAD + "wait_until_ready 1 u 600 l\nwait_until_ready 2 u 600 l\n")},
        {SPEC: PIPELINE.replace("    expected_minutes: 10\n", "    timeout_in_minutes: 20\n"),
         RUN: Program(HEAD + "wait_until_ready 1 u 560 l\nwait_until_ready 2 u 560 l\n")},
        "1200 s together, and the step unit-2 is stopped after 1200 s", "warning",
    ),
    "a loop that waits too long": Case(
        "script-inner-wait", RUN, "for i", script("for i in $(seq 240); do sleep 10; done\n"),
        script("for i in $(seq 60); do sleep 10; done\n"), "240 turns of sleep 10", "warning",
    ),
    "pytest.main without its status": Case(
        "python-pytest-main", "k3_tests/unit/main.py", "pytest.main",
        {"k3_tests/unit/main.py": "import pytest\npytest.main(['-x'])\n"},
        {"k3_tests/unit/main.py": "import sys, pytest\nsys.exit(pytest.main(['-x']))\n"},
    ),
    "pytest.main in a script's own Python": Case(
        "python-pytest-main", RUN, "'import pytest; pytest.main", script("python3 -c 'import pytest; pytest.main()'\n"),
        script("python3 -c 'import sys, pytest; sys.exit(pytest.main())'\n"),
    ),
    "pytest.main in a heredoc": Case(
        "python-pytest-main", RUN, "pytest.main", script("python - <<'EOF'\nimport pytest\n\npytest.main(['-x'])\nEOF\n"),
        script("python - <<'EOF'\nimport pytest\n\nraise SystemExit(pytest.main(['-x']))\nEOF\n"),
    ),
    "pytest.main in a step's command": Case(
        "python-pytest-main", SPEC, "python -c", {SPEC: PIPELINE.replace("./run.sh\n", "python -c 'import pytest as p; p.main()'\n")}, {},
    ),
    "pytest.main in a file that a script starts": Case(
        "python-pytest-main", "src/all.py", "main()",
        script('python3 "$PWD/src/all.py"\n') | {"src/all.py": "from pytest import main\nmain()\n"},
        script("python3 src/all.py\n") | {"src/all.py": "from pytest import main\nraise SystemExit(main())\n"},
    ),
    "pytest.main in some test file": Case(
        "python-pytest-main", "src/test_core.py", "pytest.main",
        {"src/test_core.py": "import pytest\nif __name__ == '__main__':\n    pytest.main([__file__])\n"},
        {"src/core_test.py": "import pytest\ndef test_plugin():\n    pytest.main(['x'])\n", "src/other.py": "import pytest\npytest.main()\n"},
        severity="warning", git=True,
    ),
    "a test file that is no Python": Case(
        "python-unreadable", "src/core_test.py", ":", {"src/core_test.py": "import pytest\npytest.main()\nif (:\n"},
        {"src/core_test.py": "import pytest\nif (:\n"}, severity="warning", git=True,
    ),
    "a Python file that is none": Case(
        "python-unreadable", "k3_tests/unit/main.py", ":",
        {"k3_tests/unit/main.py": "import pytest\nif (:\n"}, {"k3_tests/unit/main.py": "import pytest\n"}, severity="warning",
    ),
}  # fmt: skip
PATTERNS = {
    "a pattern without files": Case(
        "pattern-matches-nothing", SPEC, "scr/**", spec("when:\n  paths:\n  - scr/**\n  - src/**"),
        spec("when: {paths: [src/**, README.md], include_trivial: true}"), git=True,
    ),
    "a forced pattern without files": Case(
        "pattern-matches-nothing", "bkgen.yml", "/tools/**",
        config("profiles:\n", "filter: {force_run: [/bkgen.yml, /tools/**]}\nprofiles:\n"),
        config("profiles:\n", "filter: {force_run: [/bkgen.yml, /.buildkite/**, /src/**]}\nprofiles:\n"),
        "'/tools/**'", git=True,
    ),
    "a trivial pattern without files": Case(
        "pattern-matches-nothing", "bkgen.yml", "'*.rst'",
        config("profiles:\n", "filter: {trivial: ['*.md', '*.rst']}\nprofiles:\n"),
        config("profiles:\n", "filter: {trivial: ['*.md', /docs/**, LICENSE*]}\nprofiles:\n"), severity="warning", git=True,
    ),
    "an exception that takes nothing away": Case(
        "pattern-takes-nothing", SPEC, "'!README.md'", spec("when: {paths: [src/**, '!README.md']}"),
        spec("when: {paths: [src/**, '!src/b.py']}") | {"src/b.py": "", "src/c.py": ""}, severity="warning", git=True,
        also=frozenset({"files-select-nothing"}),
    ),
    "a list whose exceptions take everything away": Case(
        "pattern-list-empty", SPEC, "paths", spec("when: {paths: [src/core.py, '!src/**']}"),
        spec("when: {paths: [src/**, '!src/b.py']}") | {"src/b.py": ""},
        git=True, also=frozenset({"files-select-nothing"}),
    ),
    "a list of trivial files": Case(
        "pattern-list-trivial", SPEC, "paths", spec("when: {paths: [README.md]}"),
        spec("when: {paths: [README.md], include_trivial: true}"), git=True, also=frozenset({"files-select-nothing"}),
    ),
    "a file that no suite names": Case(
        "files-select-nothing", "bkgen.yml", "", {"tools/a.py": "", "tools/b.py": ""},
        {"docs/a.rst": "", "tools/a.py": "", **spec("when: {paths: [src/**, tools/**]}")}, "any of 2 files", "warning", git=True,
    ),
    "a suite in a suite": Case(
        "suite-not-found", "k3_tests/unit/inner/pipeline.yml", "",
        {"k3_tests/unit/inner/pipeline.yml": PIPELINE, "k3_tests/unit/inner/run.sh": ""},
        {"k3_tests/unit/_inner/pipeline.yml": PIPELINE, "k3_tests/unit/_inner/run.sh": "", "k3_tests/unit/x/pipeline.yml": ""},
        "k3_tests/unit/inner looks like a suite", "warning", git=True,
    ),
    "a suite elsewhere": Case(
        "suite-not-found", "other/z/pipeline.yml", "",
        {"other/z/pipeline.yml": PIPELINE, "other/z/run.sh": "", "other/z/BK_WEB_SETUP.md": ""},
        {"other/z/pipeline.yml": PIPELINE, "other/z/run.sh": ""}, "other/z looks like a suite, and suites are the directories in k3_tests", "warning", git=True,
        also=frozenset({"files-select-nothing"}),
    ),
}  # fmt: skip
LONG = "  labels: {long: over 30 minutes}\n"
UNLABELLED: dict[str, Content] = {
    "bkgen.yml": SETTINGS.replace(LONG, "")
    .replace(", minus: [long]", "")
    .replace("  scopes:\n    all: {}\n", "")
}
POLICY = {
    "a step whose cadences exclude each other": Case(
        "unreachable", SPEC, "cadence: weekly",
        spec("when: {cadence: nightly, paths: [src/**]}", steps=(
            "steps:\n- label: A\n  command: ./run.sh\n- label: B\n  command: ./run.sh\n  when: {cadence: weekly, labels: [long]}\n"
            "- {label: C, command: ./run.sh, when: {cadence: [nightly, weekly]}}\n"))
        | config("  scopes:", "    weekly: {}\n  scopes:"),
        spec("when: {cadence: [nightly, weekly], paths: [src/**]}", steps=(
            "steps:\n- label: A\n  command: ./run.sh\n- label: B\n  command: ./run.sh\n  when: {cadence: weekly, labels: [long]}\n"))
        | config("  scopes:\n    all: {}\n", "    weekly: {}\n"),
        "no build is both",
        also=frozenset({"policy-label-selects-nothing", "policy-scope-selects-nothing", "unused-cadence", "cadence-without-effect"}),
    ),
    "a suite of a cadence that leaves its label out": Case(
        "unreachable", SPEC, "cadence: nightly",
        spec("when: {cadence: nightly, labels: [long], paths: [src/**]}", steps="steps: [{label: A, command: ./run.sh}]\n"),
        spec("when: {cadence: nightly, labels: [long], paths: [src/**]}", steps="steps: [{label: A, command: ./run.sh}]\n")
        | {"bkgen.yml": SETTINGS.replace("minus: [long]", "minus: [long], label: run-ci-nightly").replace("  scopes:\n    all: {}\n", "")},
        "the suite 'unit'", also=frozenset({"policy-label-selects-nothing", "policy-scope-selects-nothing", "unused-cadence"}),
    ),
    "a label declared with the prefix": Case(
        "spec-name-prefixed", "bkgen.yml", "run-ci-long",
        config(LONG, "  labels: {run-ci-long: over 30 minutes}\n"), config(LONG, "  labels: {long: run-ci-long}\n"),
        "could only ask for it as 'run-ci-run-ci-long'",
        also=frozenset({"check-skipped", "spec-unknown-label", "policy-label-selects-nothing", "policy-scope-selects-nothing"}),
    ),
    "a scope declared with the prefix": Case(
        "spec-name-prefixed", "bkgen.yml", "run-ci-all", config("    all: {}\n", "    run-ci-all: {}\n"), {},
    ),
    "the bare prefix as a label": Case(
        "spec-name-prefixed", "bkgen.yml", "run-ci-", config(LONG, "  labels: {long: x, run-ci-: y}\n"), {},
        also=frozenset({"policy-label-selects-nothing"}),
    ),
    "a scope with a label's name": Case(
        "spec-name-twice", "bkgen.yml", "long", config("    all: {}\n", "    all: {}\n    long: {}\n"),
        config("    all: {}\n", "    all: {}\n    longer: {}\n"), "'long' is a label already",
    ),
    "a cadence that a label asks for, too": Case(
        "spec-name-twice", "bkgen.yml", "run-ci-long",
        config("minus: [long]", "minus: [long], label: run-ci-long"), config("minus: [long]", "minus: [long], label: nightly"),
        "'run-ci-long' is a label already",
    ),
    "two cadences with one label": Case(
        "spec-name-twice", "bkgen.yml", "night", config("minus: [long]}", "label: run-ci-night}\n    weekly: {label: night}"), {},
        "'night' is the label of the cadence nightly already",
    ),
    "a force label with a scope's name": Case(
        "spec-name-twice", "bkgen.yml", "run-ci-all", {"bkgen.yml": SETTINGS + "filter: {force_label: run-ci-all}\n"},
        {"bkgen.yml": SETTINGS + "filter: {force_label: run-ci-force}\n"}, "'run-ci-all' is a scope already",
    ),
    "an empty list of labels": Case(
        "spec-value", SPEC, "[]", spec("when: {labels: [], paths: [src/**]}"), spec("when: {labels: [long], paths: [src/**]}"),
        "the list is empty", also=frozenset({"policy-label-selects-nothing", "policy-scope-selects-nothing", "check-skipped"}),
    ),
    "a scope where no suite has a label": Case(
        "policy-scope-selects-nothing", "bkgen.yml", "all",
        {"bkgen.yml": SETTINGS.replace(LONG, "").replace(", minus: [long]", ""), SPEC: PIPELINE.replace("    when: {labels: [long]}\n", "")},
        {}, "the scope 'all'",
    ),
    "a regular step of a nightly file": Case(
        "cadence-without-effect", SPEC, "cadence: regular",
        spec("when: {cadence: nightly, paths: [src/**]}", steps="steps:\n- label: A\n  command: ./run.sh\n  when: {cadence: regular}\n") | UNLABELLED,
        spec("when: {cadence: nightly, paths: [src/**]}", steps="steps:\n- label: A\n  command: ./run.sh\n  when: {cadence: nightly}\n") | UNLABELLED,
        "it never runs in a regular build: what it stands in is for nightly builds", severity="warning",
    ),
    "one cadence of two that the file keeps out": Case(
        "cadence-without-effect", SPEC, "cadence: [regular, nightly]",
        spec("when: {cadence: nightly, paths: [src/**]}", steps="steps:\n- label: A\n  command: ./run.sh\n  when: {cadence: [regular, nightly]}\n") | UNLABELLED,
        {}, severity="warning",
    ),
    "a label that no suite carries": Case(
        "policy-label-selects-nothing", "bkgen.yml", "short", config(LONG, "  labels: {long: over 30 minutes, short: none}\n"),
        {}, "the label 'short' selects nothing",
    ),
    "a label whose last suite was renamed away": Case(
        "policy-label-selects-nothing", "bkgen.yml", "long", {SPEC: None, RUN: None, "k3_tests/_unit/pipeline.yml": PIPELINE,
        "k3_tests/b/pipeline.yml": "when: {paths: [src/**]}\nsteps: [{label: B, command: ./run.sh}]\n", "k3_tests/b/run.sh": Program(SCRIPT)},
        {}, "'long'", also=frozenset({"policy-scope-selects-nothing"}),
    ),
    "a scope that adds nothing": Case(
        "policy-scope-selects-nothing", "bkgen.yml", "some", config("    all: {}\n", "    all: {}\n    some: {minus: [long]}\n"),
        config("    all: {}\n", "    all: {}\n    some: {}\n"), "the scope 'some'",
    ),
    "branches where no label is asked for": Case(
        "branches-without-labels", SPEC, "branches", spec("when: {branches: [main], paths: [src/**]}"),
        spec("when: {branches: [main], labels: [long], paths: [src/**]}"), severity="warning",
    ),
    "a cadence in which nothing runs": Case(
        "unused-cadence", "bkgen.yml", "weekly",
        config("    nightly: {schedule: true, minus: [long]}\n", "    nightly: {schedule: true}\n    weekly: {}\n")
        | spec("when: {cadence: nightly, paths: [src/**]}"),
        config("    nightly: {schedule: true, minus: [long]}\n", "    nightly: {schedule: true}\n    weekly: {}\n"),
        severity="warning", also=frozenset({"policy-scope-selects-nothing"}),
    ),
    "a profile that nothing uses": Case(
        "unused-profile", "bkgen.yml", "mi300", {"bkgen.yml": SETTINGS + "  mi300: {gpu_resource: amd.com/gpu}\n"},
        {"bkgen.yml": SETTINGS + "  mi300: {gpu_resource: amd.com/gpu, image: 'example.com/ci:1'}\n",
         SPEC: PIPELINE.replace("    expected_minutes: 10\n", "    expected_minutes: 10\n    mirrors: {mi300: }\n")}, severity="warning",
    ),
    "a cache that no pod mounts": Case(
        "unused-cache", "bkgen.yml", "hf", {"bkgen.yml": SETTINGS + "caches: {hf: {host_path: /data/hf, mount_path: /hf}}\n"},
        {"bkgen.yml": SETTINGS + "caches: {hf: {host_path: /data/hf, mount_path: /hf}}\n",
         SPEC: PIPELINE.replace("gpus: 1,", "gpus: 1, caches: [hf],")}, severity="warning",
    ),
    "a retry preset that no step names": Case(
        "unused-retry", "bkgen.yml", "infra", {"bkgen.yml": SETTINGS + "retries: {infra: [{signal_reason: stack_error, limit: 1}]}\n"},
        {"bkgen.yml": SETTINGS + "retries: {infra: [{signal_reason: stack_error, limit: 1}]}\ndefault_retry: infra\n"}, severity="warning",
    ),
    "a scratch path that no pod mounts": Case(
        "unused-scratch", "bkgen.yml", "scratch", {"bkgen.yml": SETTINGS + "scratch: {host_path: /data/scratch}\n"},
        {"bkgen.yml": SETTINGS + "scratch: {host_path: /data/scratch}\n", SPEC: PIPELINE.replace("gpus: 1,", "gpus: 1, scratch: /scratch,")},
        severity="warning",
    ),
}  # fmt: skip
TABLES = {
    "a suite that should run and does not": Case(
        "case-missing-suite", TABLE, "unit", {TABLE: "- changed: [README.md]\n  runs: [unit]\n"},
        {TABLE: "- changed: [src/core.py]\n  runs: [unit]\n"}, "rule only-trivial",
    ),
    "a suite that runs and should not": Case(
        "case-extra-suite", TABLE, "runs", {TABLE: "- name: all\n  changed: [src/core.py]\n  runs: []\n"},
        {TABLE: "- changed: []\n  source: schedule\n  runs: [unit]\n"},
        "case 'all': 'unit' runs, and the case does not list it: src/core.py matches src/** "
        "(rule paths-match, k3_tests/unit/pipeline.yml:3:11)",
    ),
    "a directory among the changed files": Case(
        "case-directory", TABLE, "./src", {TABLE: "- changed: [README.md, ./src]\n  runs: [unit]\n"},
        {TABLE: "- changed: [./src/core.py, src//new/core.py]\n  runs: [unit]\n"}, "'src' is a directory",
        git=True, also=frozenset({"case-missing-suite"}),
    ),
    "a directory among the changed files, outside git": Case(
        "case-directory", TABLE, "src", {TABLE: "- changed: [src]\n  runs: []\n"}, {}, also=frozenset({"case-extra-suite"}),
    ),
    "a changed file from the root of the disk": Case(
        "spec-value", TABLE, "/src/core.py", {TABLE: "- changed: [/src/core.py]\n  runs: [unit]\n"},
        {TABLE: "- changed: [./src/core.py]\n  runs: [unit]\n"}, "not at the repository's",
    ),
    "a changed file outside the repository": Case(
        "spec-value", TABLE, "src/../../x", {TABLE: "- changed: [src/../../x]\n  runs: []\n"}, {}, "is no file of the repository",
    ),
    "a suite that is none": Case(
        "case-unknown-suite", TABLE, "unti", {TABLE: "- changed: [README.md]\n  runs: [unti]\n"},
        {TABLE: "- changed: [README.md]\n  runs: []\n"}, "case 1: no suite is called 'unti'",
    ),
    "a label that selects nothing": Case(
        "case-unknown-label", TABLE, "labels", {TABLE: "- changed: [README.md]\n  labels: [run-ci-lnog]\n  runs: []\n"},
        {TABLE: "- changed: [README.md]\n  labels: [run-ci-long, other]\n  runs: []\n"}, severity="warning",
    ),
}  # fmt: skip
LONG_WAIT = script("timeout 1000 pytest\n")
SILENCE = {
    "a silence of no code": Case(
        "silence-unknown", SPEC, "script-inner-wiat", spec("silence: {script-inner-wiat: because}"),
        spec("silence: {script-inner-wait: a cold start takes long}") | LONG_WAIT, "script-inner-wiat",
    ),
    "a silence of an error": Case("silence-error", SPEC, "script-missing", spec("silence: {script-missing: because}"), {}),
    "a silence without a reason": Case(
        "silence-without-reason", SPEC, "script-inner-wait", spec("silence: {script-inner-wait: ''}") | LONG_WAIT, {},
    ),
    "a silence of nothing": Case(
        "silence-idle", SPEC, "script-inner-wait", spec("silence: {script-inner-wait: because}"),
        spec("silence: {script-inner-wait: because}") | LONG_WAIT, severity="warning", git=True,
    ),
    "a part that could not be looked at": Case(
        "check-skipped", "bkgen.yml", "", config("version: 1", "version: 2"), {}, severity="warning",
        also=frozenset({"spec-value"}),
    ),
}  # fmt: skip
CASES = {**SCRIPTS, **PATTERNS, **POLICY, **TABLES, **SILENCE}


def described(found: tuple[Diagnostic, ...]) -> str:
    return "\n".join(map(str, found))


def _text_at(root: Path, diagnostic: Diagnostic) -> str:
    """What stands in the file at the place of a diagnostic; its first line where it is about the whole file."""
    place = diagnostic.position
    assert place is not None
    lines = (root / place.file).read_text(encoding="utf-8").split("\n")
    return lines[place.line - 1][place.column - 1 :] if place.line else lines[0]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_code_comes_out_at_its_place(case: Case, tmp_path: Path) -> None:
    found = checked(tmp_path / "wrong", case.wrong, git=case.git)
    mine = [one for one in found if one.code == case.code]
    assert mine, described(found)
    assert mine[0].position is not None
    assert mine[0].position.file == case.file
    assert _text_at(tmp_path / "wrong", mine[0]).startswith(case.token), described(found)
    assert mine[0].severity == case.severity
    assert mine[0].hint
    assert case.says in mine[0].message
    assert {one.code for one in found} - {case.code} <= case.also, described(found)


RIGHT = {name: case for name, case in CASES.items() if case.right}


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_the_right_one_passes(case: Case, tmp_path: Path) -> None:
    found = checked(tmp_path / "right", case.right, git=case.git)
    assert not [one for one in found if one.code == case.code], described(found)


LOSING = {
    name: case
    for name, case in CASES.items()
    if case.file == RUN and case.severity == "error" and case.token and case.code != "python-pytest-main"
}


@pytest.mark.parametrize("case", LOSING.values(), ids=LOSING)
def test_bash_agrees_that_a_failure_is_lost_and_that_the_right_one_keeps_it(
    case: Case, tmp_path: Path
) -> None:
    """Every pytest on PATH fails; what each script then ends with is bash's own word."""
    program = tmp_path / "bin" / "pytest"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    ended = []
    for files in (case.wrong, case.right):
        written = files[RUN]
        assert isinstance(written, Program)
        done = subprocess.run(
            ["bash", "-c", written.text], cwd=tmp_path, capture_output=True, check=False, timeout=30,
            env={"PATH": f"{program.parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        ended.append(done.returncode == 0)
    assert ended == [True, False]


def test_the_clean_repository_has_no_problem_with_git_or_without(tmp_path: Path) -> None:
    assert not checked(tmp_path / "git")
    assert not checked(tmp_path / "plain", git=False)
    assert CLEAN


def test_every_code_of_check_has_its_case() -> None:
    """check-no-git is tried in test_check.py, where no git is the point."""
    groups = (finding.SCRIPTS, finding.PATTERNS, finding.POLICY, finding.TABLES, finding.SILENCE)
    known = {code.code for group in groups for code in group}
    tried = {case.code for case in CASES.values()}
    assert known - {"check-no-git"} <= tried
    assert tried <= {code.code for code in codes()}
