"""profiles.py: which profile of bkgen.yml fits a host's GPUs. chart_digest.py: what an index says of a chart."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

HARNESS = Path(__file__).parent.parent.parent / "harness"
OWN = HARNESS.parent / "bkgen.yml"
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/gpu.intel.com"
SETTINGS = f"""\
default_profile: h200
profiles:
  h200: {{gpu_resource: nvidia.com/gpu, gpus_per_node: 8}}
  cpu: {{image: python}}
  mi300: {{gpu_resource: amd.com/gpu, gpus_per_node: 8}}
  bare: {{gpu_resource: amd.com/gpu, pod: false}}
  xpu: {{gpu_resource: {DEVICE_CLASS}, gpus_per_node: 4}}
"""


def load(script: str) -> Any:
    """A script as a module; its folder is no package, and profiles.py finds values.py there."""
    sys.path.insert(0, str(HARNESS))
    try:
        return importlib.import_module(script.removesuffix(".py"))
    finally:
        sys.path.remove(str(HARNESS))


class Finished(NamedTuple):
    """How a script ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def run(script: str, *arguments: str) -> Finished:
    output, words = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(words):
        try:
            status = load(script).main(list(arguments))
        except SystemExit as end:
            status = end.code
    return Finished(status, output.getvalue(), words.getvalue())


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "bkgen.yml"
    path.write_text(SETTINGS)
    return path


def nodes(folder: Path, *allocatable: dict[str, str]) -> str:
    path = folder / "nodes.json"
    path.write_text(json.dumps({"items": [{"status": {"allocatable": each}} for each in allocatable]}))
    return str(path)


FITTING = [
    ("nvidia", "", "h200\tnvidia.com/gpu\tdefault\n"),
    ("", "", "h200\tnvidia.com/gpu\tdefault\n"),
    ("amd", "", "mi300\tamd.com/gpu\t\n"),
    ("intel", "", f"xpu\t{DEVICE_CLASS}\t\n"),
    ("amd", "mi300", "mi300\tamd.com/gpu\t\n"),
    ("", "mi300", "mi300\tamd.com/gpu\t\n"),
]


@pytest.mark.parametrize(
    ("vendor", "name", "chosen"), FITTING, ids=[f"{v or 'any'} {n}" for v, n, _ in FITTING]
)
def test_the_profile_that_fits_the_vendor_is_chosen(
    settings: Path, vendor: str, name: str, chosen: str
) -> None:
    finished = run("profiles.py", "--settings", str(settings), "--vendor", vendor, "--profile", name)
    assert (finished.returncode, finished.stdout) == (0, chosen), finished.stderr


WRONG = [
    ("amd", "h200", ":3:3: profiles.h200: is for nvidia.com/gpu, not for amd", "PROFILE=mi300"),
    ("amd", "bare", ":6:3: profiles.bare: has no gpu_resource, or its steps are no pods", "PROFILE="),
    ("", "cpu", "profiles.cpu: has no gpu_resource", "PROFILE="),
    ("nvidia", "h100", "profiles: has no 'h100'", "declared: h200"),
]


@pytest.mark.parametrize(("vendor", "name", "said", "hint"), WRONG, ids=[row[2] for row in WRONG])
def test_a_profile_that_does_not_fit_is_refused(
    settings: Path, vendor: str, name: str, said: str, hint: str
) -> None:
    finished = run("profiles.py", "--settings", str(settings), "--vendor", vendor, "--profile", name)
    assert finished.returncode == 1
    problem, remedy = finished.stderr.splitlines()
    assert said in problem
    assert hint in remedy


def test_no_profile_of_that_vendor_and_several_are_refused(settings: Path, tmp_path: Path) -> None:
    settings.write_text("profiles: {h200: {gpu_resource: nvidia.com/gpu}}\n")
    none = run("profiles.py", "--settings", str(settings), "--vendor", "amd")
    assert none.returncode == 1
    assert "no profile has a gpu_resource of amd; there is h200 (nvidia.com/gpu)" in none.stderr
    settings.write_text(
        "profiles: {h: {gpu_resource: nvidia.com/gpu}, a: {gpu_resource: amd.com/gpu}, b: {gpu_resource: amd.com/gpu}}\n"
    )
    several = run("profiles.py", "--settings", str(settings), "--vendor", "amd")
    assert several.returncode == 1
    assert "several profiles are for amd: a, b" in several.stderr
    absent = run("profiles.py", "--settings", str(tmp_path / "absent.yml"), "--vendor", "amd")
    assert absent.returncode == 1
    assert "the built-in one (nvidia.com/gpu)" in absent.stderr


def test_without_settings_it_is_bkgens_own_profile_and_nothing_is_written(tmp_path: Path) -> None:
    output = tmp_path / "copy.yml"
    finished = run(
        "profiles.py", "--settings", str(tmp_path / "no.yml"), "--vendor", "nvidia", "--output", str(output)
    )
    assert finished.stdout == "\tnvidia.com/gpu\tdefault\n"
    assert not output.exists()


def test_the_copy_has_another_default_and_is_else_the_same(tmp_path: Path) -> None:
    output = tmp_path / "copy.yml"
    finished = run("profiles.py", "--settings", str(OWN), "--profile", "mi300", "--output", str(output))
    assert finished.returncode == 0, finished.stderr
    before, after = yaml.safe_load(OWN.read_text()), yaml.safe_load(output.read_text())
    assert after.pop("default_profile") == "mi300"
    del before["default_profile"]
    assert after == before


OFFERS = [
    ("nvidia", {"nvidia.com/gpu": "8"}, 0, ""),
    ("nvidia", {"nvidia.com/gpu": "0"}, 1, "no node offers nvidia.com/gpu"),
    ("nvidia", {"nvidia.com/mig-1g.10gb": "7"}, 1, "they offer nvidia.com/mig-1g.10gb"),
    ("amd", {"nvidia.com/gpu": "8"}, 1, "no node offers amd.com/gpu"),
    # No node lists what a device class gives out.
    ("intel", {}, 0, ""),
    ("intel", {"gpu.intel.com/i915": "4"}, 1, "the nodes offer gpu.intel.com/i915: they run a device plugin"),
]


@pytest.mark.parametrize(
    ("vendor", "offered", "status", "said"), OFFERS, ids=[f"{r[0]} {r[1]}" for r in OFFERS]
)
def test_a_profile_that_no_node_can_serve_is_refused(
    settings: Path, tmp_path: Path, vendor: str, offered: dict[str, str], status: int, said: str
) -> None:
    finished = run(
        "profiles.py",
        "--settings",
        str(settings),
        "--vendor",
        vendor,
        "--nodes",
        nodes(tmp_path, {}, offered),
    )
    assert (finished.returncode, said in finished.stderr) == (status, True), finished.stderr


def test_it_runs_on_its_own_as_the_scripts_start_it() -> None:
    command = [sys.executable, "-B", str(HARNESS / "profiles.py"), "--settings", str(OWN), "--vendor", "amd"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout == "mi300\tamd.com/gpu\t\n"


def test_wrong_usage_is_told_apart() -> None:
    assert run("profiles.py", "--settings", "x", "--vendor", "3dfx").returncode == 2
    assert run("chart_digest.py", "index.yaml").returncode == 2


# --- The index of a chart repository --------------------------------------------------------------

SUM = "0123456789abcdef" * 4


def digest(folder: Path, text: str, version: str = "v1.2.3") -> Finished:
    (folder / "index.yaml").write_text(text)
    return run("chart_digest.py", str(folder / "index.yaml"), "gpu-operator", version)


def entry(**fields: str) -> str:
    return yaml.safe_dump({"entries": {"gpu-operator": [{"version": "v1.2.2", "digest": "0" * 64}, fields]}})


FOUND = [
    (entry(version="v1.2.3", digest=SUM), "v1.2.3", SUM),
    (entry(version="1.2.3", digest=f"sha256:{SUM.upper()}"), "v1.2.3", SUM),
    (entry(version="v1.2.3", digest=SUM), "1.2.3", SUM),
    (entry(version="v1.2.3"), "v1.2.3", ""),
]


@pytest.mark.parametrize(("text", "version", "found"), FOUND, ids=["as written", "no v, prefix", "v", "none"])
def test_the_digest_of_that_version_is_printed(tmp_path: Path, text: str, version: str, found: str) -> None:
    finished = digest(tmp_path, text, version)
    assert (finished.returncode, finished.stdout) == (0, f"{found}\n"), finished.stderr


NOT_FOUND = [
    (entry(version="v1.2.4", digest=SUM), "has no gpu-operator v1.2.3"),
    ("entries: {other: []}\n", "has no chart 'gpu-operator'"),
    ("<html>\n", "has no chart 'gpu-operator'"),
    ("entries: {\n", "index.yaml: "),
    (entry(version="v1.2.3", digest="abc"), "which is no SHA-256"),
]


@pytest.mark.parametrize(("text", "said"), NOT_FOUND, ids=[row[1] for row in NOT_FOUND])
def test_an_index_without_that_version_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    finished = digest(tmp_path, text)
    assert finished.returncode == 1
    assert said in finished.stderr
    assert len(finished.stderr.splitlines()) == 2
