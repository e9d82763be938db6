"""The shape of the code, and of what a user installs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bkgen.config.load import load_configuration
from bkgen.pods.build import build_pod
from bkgen.spec.pod import Pod
from decisions import Files

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "bkgen").rglob("*.py"))


def test_values_flow_one_way() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_is_small_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module begins with what it is for"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is too long"
        assert not (isinstance(node, ast.ExceptHandler) and node.type is None), "a bare except"


def test_no_module_is_called_by_a_word_that_says_nothing() -> None:
    assert not {path.stem for path in SOURCES} & {"utils", "helpers", "common", "base", "manager", "misc"}


def test_every_profile_of_the_hardware_page_gives_a_pod() -> None:
    page = (ROOT / "docs/how-to/hardware.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    settings = load_configuration(Files({"bkgen.yml": blocks[0]})).settings
    assert len(settings.profiles) >= 14
    for name, profile in settings.profiles.items():
        made = build_pod(Pod.model_validate({"profile": name, "gpus": 1}), settings)
        assert (made.plugin is None) == (not profile.pod)
        if profile.gpu_resource:
            limits = made.plugin["podSpec"]["containers"][0]["resources"]["limits"]
            assert limits[profile.gpu_resource] == "1"
    assert yaml.safe_load(blocks[1])["steps"]


@pytest.mark.slow
def test_the_branches_of_the_deciding_half_are_all_tested(tmp_path: Path) -> None:
    data = tmp_path / "coverage"
    tests = [
        "test_decide",
        "test_plan",
        "test_policy",
        "test_policy_builds",
        "test_time",
        "test_pipeline",
        "test_forks",
    ]
    packages = ["bkgen.decide", "bkgen.plan", "bkgen.graph"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov-branch", "--cov-report=term-missing",
         *(f"--cov={package}" for package in packages), "--cov-fail-under=100", *(f"tests/{name}.py" for name in tests)],
        cwd=ROOT, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "COVERAGE_FILE": str(data), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
