"""lib.sh: one test run split over several jobs, with the real pytest plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.bash_tools import HARNESS, bash, environment, run, write_script

SHARD = {"BUILDKITE_PARALLEL_JOB": "2", "BUILDKITE_PARALLEL_JOB_COUNT": "5"}
POISON = "--shard-args-failed-see-the-log\n"


PLUGINS = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "pytest_shard.pytest_shard,pytest_split.plugin",
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, **PLUGINS)


def third_of_five(by: str, **extra: str) -> dict[str, str]:
    return {"BKGEN_SHARDS_BY": by, **SHARD, **extra}


ARGUMENTS = {
    "nothing is set": ({}, ""),
    "the command reads Buildkite's own variables": (third_of_five("none"), ""),
    "one job runs all, pytest-shard": ({"BKGEN_SHARDS_BY": "pytest-shard"}, ""),
    "one job runs all, pytest-split": ({"BKGEN_SHARDS_BY": "pytest-split"}, ""),
    "pytest-shard counts from 0": (third_of_five("pytest-shard"), "--num-shards=5\n--shard-id=2\n"),
    "pytest-split counts from 1": (third_of_five("pytest-split"), "--splits=5\n--group=3\n"),
    "pytest-split with durations": (
        third_of_five("pytest-split", BKGEN_SHARDS_DURATIONS="a b.json"),
        "--splits=5\n--group=3\n--durations-path=a b.json\n",
    ),
}


@pytest.mark.parametrize(("extra", "arguments"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_shard_args(extra: dict[str, str], arguments: str, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_text("{}")
    done = bash("shard_args", env | extra, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, arguments, "")


MISTAKES = {
    "balanced is reserved": (third_of_five("balanced"), "is reserved"),
    "balanced is reserved for one job too": ({"BKGEN_SHARDS_BY": "balanced"}, "is reserved"),
    "a typo": (third_of_five("pytest_shard"), "known: none, pytest-shard, pytest-split"),
    "a job past the last": (third_of_five("pytest-shard", BUILDKITE_PARALLEL_JOB="5"), "'5' of"),
    "an empty job number": (third_of_five("pytest-shard", BUILDKITE_PARALLEL_JOB=""), "'' of"),
    "an octal trap": (third_of_five("pytest-split", BUILDKITE_PARALLEL_JOB="08"), "'08' of"),
    "no count": (third_of_five("pytest-split", BUILDKITE_PARALLEL_JOB_COUNT=""), "COUNT ''"),
    "no durations": (third_of_five("pytest-split", BKGEN_SHARDS_DURATIONS="gone.json"), "'gone.json'"),
}


@pytest.mark.parametrize(("extra", "message"), MISTAKES.values(), ids=MISTAKES)
def test_shard_args_never_let_a_mistake_run_all_tests_in_every_job(
    extra: dict[str, str], message: str, env: dict[str, str], tmp_path: Path
) -> None:
    done = bash("shard_args", env | extra, tmp_path)
    assert done.returncode == 1
    assert done.stdout.endswith(POISON)
    assert message in done.stderr


def write_tests(directory: Path) -> None:
    directory.mkdir()
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (directory / "test_a.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', ['x', 'a b', '[', 'é'])\ndef test_p(n): pass\n"
        "class TestC:\n    def test_one(self): pass\n    def test_two(self): pass\n"
    )
    (directory / "sub").mkdir()
    (directory / "sub/test_a.py").write_text("def test_one(): pass\ndef test_other(): pass\n")


RUN_SH = f"""#!/usr/bin/env bash
set -euo pipefail
source '{HARNESS}/setup-env.sh'
mapfile -t args < <(shard_args)
status=0
python3 -m pytest -p no:cacheprovider "${{args[@]}}" "$@" || status=$?
shard_status "$status" python3 -m pytest -p no:cacheprovider "$@"
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", ["pytest-split", "pytest-shard"])
def test_a_run_sh_with_two_shards_runs_each_test_once(by: str, env: dict[str, str], tmp_path: Path) -> None:
    write_tests(tmp_path / "t")
    script = write_script(tmp_path / "run.sh", RUN_SH)
    seen: list[str] = []
    for job in ("0", "1"):
        extra = {"BKGEN_SHARDS_BY": by, "BUILDKITE_PARALLEL_JOB": job, "BUILDKITE_PARALLEL_JOB_COUNT": "2"}
        done = run([script, "-v"], env | extra, tmp_path / "t")
        assert done.returncode == 0, done.stderr
        seen += [line.split(" PASSED")[0] for line in done.stdout.splitlines() if " PASSED" in line]
    assert len(seen) == len(set(seen)) == 8


# One process that has imported pytest forks for each shard: starting thirty interpreters would take longer
# than everything else here. Each child is a run of pytest with the arguments that shard_args printed.
FORKS = """
import gc, importlib, os, sys
import pytest, _pytest.config

OFF = ["--assert=plain"]
for plugin in "cacheprovider doctest junitxml unittest unraisableexception threadexception faulthandler".split():
    OFF += ["-p", "no:" + plugin]
for name in _pytest.config.default_plugins:
    importlib.import_module("_pytest." + name)

class Record:
    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            print("\\nRAN", report.nodeid, flush=True)

gc.freeze()
for line in sys.stdin.read().splitlines():
    name, *arguments = line.split()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        print("SHARD", name, flush=True)
        code = pytest.main(["-q", "-s", "--tb=no", *OFF, *arguments], plugins=[Record()])
        sys.stdout.flush()
        os._exit(int(code))
    print("STATUS", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_over_one_to_five_shards_each_test_runs_exactly_once(env: dict[str, str], tmp_path: Path) -> None:
    write_tests(tmp_path / "t")
    # A weight for one test only: the others are unknown to pytest-split.
    (tmp_path / "t/weights.json").write_text('{"sub/test_a.py::test_one": 5.0}')
    loops = """
for by in pytest-shard pytest-split; do
  for count in 1 2 3 4 5; do
    for ((job = 0; job < count; job++)); do
      export BKGEN_SHARDS_BY=$by BUILDKITE_PARALLEL_JOB=$job BUILDKITE_PARALLEL_JOB_COUNT=$count
      mapfile -t args < <(shard_args)
      echo "$by/$count" "${args[@]}"
    done
  done
done"""
    calls = bash(loops, env | {"BKGEN_SHARDS_DURATIONS": "weights.json"}, tmp_path / "t").stdout
    assert len(calls.splitlines()) == 30
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        input=calls,
        env=env,
        cwd=tmp_path / "t",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    runs: dict[str, list[str]] = {}
    name = ""
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "SHARD":
            name = rest
            runs.setdefault(name, [])
        elif word == "RAN":
            runs[name].append(rest)
        elif word == "STATUS":
            assert rest in {"0", "5"}, done.stdout
    assert len(runs) == 10, done.stdout + done.stderr
    expected = sorted(runs["pytest-shard/1"])
    assert len(expected) == len(set(expected)) == 8
    assert {key: sorted(tests) for key, tests in runs.items()} == dict.fromkeys(runs, expected)


STATUSES = {
    "success stays": ("0", "pytest-shard", "4", "collects 0", 0),
    "a failed test stays": ("1", "pytest-shard", "4", "collects 0", 1),
    "an interruption stays": ("2", "pytest-shard", "4", "collects 0", 2),
    "a crash stays": ("139", "pytest-shard", "4", "collects 0", 139),
    "an empty shard of a selection that is not empty passes": ("5", "pytest-shard", "4", "collects 0", 0),
    "an empty group passes as well": ("5", "pytest-split", "2", "collects 0", 0),
    "a selection that is empty everywhere fails": ("5", "pytest-shard", "4", "collects 5", 5),
    "a collection that breaks proves nothing": ("5", "pytest-shard", "4", "collects 2", 5),
    "a runner that is missing proves nothing": ("5", "pytest-shard", "4", "no-such-runner", 5),
    "without the command nothing is proved": ("5", "pytest-shard", "4", "", 5),
    "one shard of one may not be empty": ("5", "pytest-shard", "1", "collects 0", 5),
    "a job that is not sharded may not be empty": ("5", "pytest-shard", "", "collects 0", 5),
    "shards that lib.sh does not make are not its to forgive": ("5", "none", "4", "collects 0", 5),
    "a status that is no number is a wrong call": ("five", "none", "4", "", 2),
}


@pytest.mark.parametrize(("status", "by", "count", "command", "returned"), STATUSES.values(), ids=STATUSES)
def test_shard_status(
    status: str, by: str, count: str, command: str, returned: int, env: dict[str, str], tmp_path: Path
) -> None:
    extra = {"BKGEN_SHARDS_BY": by, "BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": count}
    collects = 'collects() { echo "$@" >asked; return "$1"; }\n'
    done = bash(f"{collects}shard_status {status} {command}", env | extra, tmp_path)
    assert done.returncode == returned, done.stderr
    if (tmp_path / "asked").exists():
        assert (tmp_path / "asked").read_text().endswith("--collect-only -q\n")


SELECTIONS = {
    "one test leaves the other shard empty": ("test_one and TestC", 0, "no tests fell into this shard"),
    "nothing at all": ("no_such_test", 5, "collecting the whole selection ends with status 5"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("selection", "status", "message"), SELECTIONS.values(), ids=SELECTIONS)
def test_with_real_pytest_only_a_planned_empty_shard_passes(
    selection: str, status: int, message: str, env: dict[str, str], tmp_path: Path
) -> None:
    write_tests(tmp_path / "t")
    script = write_script(tmp_path / "run.sh", RUN_SH)
    # With one test, pytest-split's second group is empty.
    extra = {
        "BKGEN_SHARDS_BY": "pytest-split",
        "BUILDKITE_PARALLEL_JOB": "1",
        "BUILDKITE_PARALLEL_JOB_COUNT": "2",
    }
    done = run([script, "-k", selection], env | extra, tmp_path / "t")
    assert done.returncode == status, done.stdout
    assert message in done.stderr


def test_a_mistake_in_the_shards_fails_the_run(env: dict[str, str], tmp_path: Path) -> None:
    write_tests(tmp_path / "t")
    script = write_script(tmp_path / "run.sh", RUN_SH)
    done = run([script], env | SHARD | {"BKGEN_SHARDS_BY": "balanced"}, tmp_path / "t")
    assert done.returncode == 4
    assert "unrecognized arguments: --shard-args-failed-see-the-log" in done.stderr
