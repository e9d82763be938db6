"""k3_tests/unit/run.sh, with a handful of tests instead of bkgen's own: those contain these."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from suites.conftest import ROOT, Tree, executable

TESTS = """
import bkgen
def test_one(): pass
def test_two(): pass
def test_three(): pass
class TestBad:
    def test_four(self): assert bkgen.answer() == 41
"""
GOOD = "tests/test_small.py::test_one tests/test_small.py::test_two tests/test_small.py::test_three"


@pytest.fixture
def small(tree: Tree) -> Tree:
    """A repository with a package and four tests, one of which fails; python3 has pytest."""
    (tree.root / "bkgen").mkdir()
    (tree.root / "bkgen/__init__.py").write_text(
        '"""A package."""\n\n\ndef answer() -> int:\n    return 42\n'
    )
    (tree.root / "tests").mkdir()
    (tree.root / "tests/test_small.py").write_text(TESTS)
    (tree.root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tree.root.parent / "bin/python3").unlink()
    tree.environment["BKGEN_UNIT_JOBS"] = "0"
    return tree


def names(tree: Tree) -> list[str]:
    """The tests in the report."""
    report = ET.parse(tree.root / "artifacts/unit/junit.xml")
    return sorted(str(case.get("name")) for case in report.iter("testcase"))


def test_good_tests_pass_and_leave_report_and_coverage(small: Tree) -> None:
    result = small.run("unit/run.sh", BKGEN_UNIT_TESTS=GOOD)
    assert result.returncode == 0, result.stdout
    assert names(small) == ["test_one", "test_three", "test_two"]
    coverage = ET.parse(small.root / "artifacts/unit/coverage.xml").getroot()
    assert 0 < float(str(coverage.get("line-rate"))) < 1
    assert (small.root / "artifacts/unit/coverage/index.html").exists()


def test_a_test_that_fails_keeps_its_status(small: Tree) -> None:
    result = small.run("unit/run.sh", BKGEN_UNIT_TESTS="tests/test_small.py::TestBad")
    assert result.returncode == 1, result.stdout
    assert "assert 42 == 41" in result.stdout


def test_an_empty_selection_is_a_failure(small: Tree) -> None:
    result = small.run("unit/run.sh", "-k", "nothing_of_that_name", BKGEN_UNIT_TESTS="tests")
    assert result.returncode == 5, result.stdout


@pytest.mark.slow
def test_shards_run_every_test_once_between_them(small: Tree) -> None:
    ran: list[str] = []
    for job in ("0", "1"):
        result = small.run(
            "unit/run.sh",
            BKGEN_UNIT_TESTS=GOOD,
            BKGEN_SHARDS_BY="pytest-shard",
            BUILDKITE_PARALLEL_JOB=job,
            BUILDKITE_PARALLEL_JOB_COUNT="2",
        )
        assert result.returncode == 0, result.stdout
        ran += names(small)
    assert sorted(ran) == ["test_one", "test_three", "test_two"]


def test_it_never_starts_itself_without_a_selection(small: Tree) -> None:
    result = small.run("unit/run.sh", BKGEN_UNIT_RUNNING="1")
    assert result.returncode == 1
    assert "without BKGEN_UNIT_TESTS" in result.stdout


def virtual_environment(tree: Tree, status: int) -> Path:
    """A `.venv` whose python3 notes its arguments and ends with `status` when it is to run tests."""
    log = tree.state / "python3.txt"
    (tree.root / ".venv/bin").mkdir(parents=True)
    executable(
        tree.root / ".venv/bin/python3",
        f'#!/bin/sh\necho "python3 $*" >>{log}\ncase "$*" in "-m pytest"*) exit {status} ;; esac\n',
    )
    executable(tree.root.parent / "bin/uv", f'#!/bin/sh\necho "uv $*" >>{log}\n')
    del tree.environment["BKGEN_INSTALL"], tree.environment["BKGEN_PROBE"]
    return log


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_the_environment_of_dev_is_used_as_it_is(tree: Tree, status: int) -> None:
    log = virtual_environment(tree, status)
    (tree.root / ".venv/.bkgen-setup").touch()
    result = tree.run("unit/run.sh", "--maxfail", "1")
    assert result.returncode == status, result.stdout
    probe, tests = log.read_text().splitlines()
    assert probe == "python3 -c import bkgen, pytest"
    assert re.fullmatch(r"python3 -m pytest -n 2 --dist worksteal .*--maxfail 1 tests", tests)


def test_an_environment_that_is_not_ready_is_filled(tree: Tree) -> None:
    log = virtual_environment(tree, 0)
    result = tree.run("unit/run.sh")
    assert result.returncode == 0, result.stdout
    assert log.read_text().splitlines()[0].endswith("/.venv/bin/python3 --editable .[dev]")


def test_a_missing_environment_is_made(tree: Tree) -> None:
    made = 'mkdir -p "$3/bin" && printf "#!/bin/sh\\n" >"$3/bin/python3" && chmod +x "$3/bin/python3"'
    executable(tree.root.parent / "bin/python3", f'#!/bin/sh\n[ "$1 $2" = "-m venv" ] || exit 9\n{made}\n')
    executable(tree.root.parent / "bin/uv", "#!/bin/sh\n")
    del tree.environment["BKGEN_INSTALL"]
    result = tree.run("unit/run.sh")
    assert result.returncode == 0, result.stdout
    assert (tree.root / ".venv/bin/python3").exists()
