"""gpu-health.sh over recorded shapes of the tools' output. Each verdict is checked with its reasons, all of them,
and a healthy one with the numbers that were read, so that none is right by accident."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.bash_tools import HARNESS, environment, path_without, run, stand_in
from harness.gpu_cases import AMD_CASES, CASES, H100, INTEL_CASES, Case
from harness.gpu_tools import fake_process, nvidia, row, tool


def check(tmp_path: Path, *options: str, **extra: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "bin").mkdir(exist_ok=True)
    env = environment(tmp_path, tmp_path / "bin", BKGEN_PROC=str(tmp_path / "proc"), **extra)
    return run([HARNESS / "gpu-health.sh", *options], env, tmp_path)


def test_there_are_at_least_25_recorded_shapes() -> None:
    assert len(CASES) >= 25
    assert {case.tool for case in CASES.values()} == {"nvidia-smi", "amd-smi", "xpu-smi"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_verdict_and_its_reason(case: Case, tmp_path: Path) -> None:
    tool(tmp_path / "bin", case.tool, case.answers)
    options = ["--gpus", case.gpus] if case.gpus else []
    done = check(tmp_path, "--json", *options)
    found = json.loads(done.stdout)
    assert found["problems"] == case.problems
    assert [device["free_mib"] for device in found["devices"]] == case.free
    assert found["seen"] == len(case.free)
    assert found["verdict"] == ("sick" if case.problems else "healthy")
    assert done.returncode == (78 if case.problems else 0)
    for problem in found["problems"]:
        assert f"gpu-health: sick: test-host: {problem}\n" in done.stderr


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel"])
def test_a_missing_tool_is_sick_when_gpus_were_asked_for_and_fine_when_none_were(
    vendor: str, tmp_path: Path
) -> None:
    name = {"nvidia": "nvidia-smi", "amd": "amd-smi", "intel": "xpu-smi"}[vendor]
    done = check(tmp_path, "--gpus", "1", "--vendor", vendor)
    assert done.returncode == 78
    assert f"no {name} on the path" in done.stderr
    done = check(tmp_path, "--gpus", "1")
    assert done.returncode == 78
    assert "no nvidia-smi, amd-smi or xpu-smi on the path" in done.stderr
    assert check(tmp_path, "--gpus", "0", "--vendor", vendor).returncode == 0


def test_a_tool_is_asked_in_a_language_that_has_no_thousands_separator(tmp_path: Path) -> None:
    text = (
        'free=80.900; [ "$LC_ALL" != C ] || free=80900\necho "0, GPU-0, Disabled, 81559, $free, NVIDIA H100"'
    )
    stand_in(tmp_path / "bin", "nvidia-smi", text)
    assert check(tmp_path, "--gpus", "1", LC_ALL="de_DE.UTF-8").returncode == 0


def test_a_tool_that_hangs_is_sick(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "nvidia-smi", "exec sleep 60")
    done = check(tmp_path, "--gpus", "1", BKGEN_GPU_TOOL_SECONDS="1")
    assert done.returncode == 78
    assert "nvidia-smi did not answer within 1 s" in done.stderr


@pytest.mark.slow
def test_a_tool_that_even_timeout_cannot_end_is_sick(tmp_path: Path) -> None:
    """Inside the driver a process cannot be killed; here `timeout` is missing, which comes to the same."""
    stand_in(tmp_path / "bin", "nvidia-smi", "sleep 20 & wait")
    path = path_without(tmp_path / "path", "timeout")
    env = environment(tmp_path, BKGEN_GPU_TOOL_SECONDS="-2") | {"PATH": f"{tmp_path}/bin:{path}"}
    done = run([HARNESS / "gpu-health.sh", "--gpus", "1"], env, tmp_path)
    assert done.returncode == 78
    assert "did not answer" in done.stderr


def test_python_is_needed_for_json_and_its_absence_is_sick(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "amd-smi", AMD_CASES["the same under gpu_data"].answers)
    path = path_without(tmp_path / "path", "python3")
    env = environment(tmp_path) | {"PATH": f"{tmp_path}/bin:{path}"}
    done = run([HARNESS / "gpu-health.sh", "--gpus", "1"], env, tmp_path)
    assert done.returncode == 78
    assert "python3 is not on the path" in done.stderr


@pytest.mark.parametrize(
    "text", ["exit 0", "exit 3", "echo 'device	0	1000	999	x'", "echo; kill -9 $$"]
)
def test_a_python_that_cannot_read_the_report_is_sick(text: str, tmp_path: Path) -> None:
    for name, answers in (
        ("amd-smi", AMD_CASES["the same under gpu_data"]),
        ("xpu-smi", INTEL_CASES["a healthy Intel GPU"]),
    ):
        tool(tmp_path / "bin", name, answers.answers)
    stand_in(tmp_path / "bin", "python3", text)
    for vendor in ("amd", "intel"):
        for gpus in ("0", "1", "any"):
            done = check(tmp_path, "--vendor", vendor, "--gpus", gpus)
            assert done.returncode == 78, (vendor, gpus)
            assert f"python3 could not read the report '{vendor}-devices' to its end" in done.stderr


def test_any_number_of_gpus_can_be_asked_for_in_words(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0) + row(1)))
    assert check(tmp_path, "--gpus", "any").returncode == 0
    assert check(tmp_path, BKGEN_GPUS="any").returncode == 0
    assert check(tmp_path, "--gpus", "1", BKGEN_GPUS="any").returncode == 78


def test_the_message_names_gpu_process_user_age_and_host(tmp_path: Path) -> None:
    apps = "4242, GPU-0001, 70000, python3\n4243, GPU-0001, [N/A], /usr/bin/a, b\n9, GPU-0000, 1, other\n"
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0) + row(1, 10000), apps))
    fake_process(tmp_path / "proc", 4242, "python3", 1001, 100000 - 3 * 3600 - 12 * 60)
    fake_process(tmp_path / "proc", 4243, "odd) S (name", 0, 100000 - 90000)
    done = check(tmp_path, "--gpus", "2", BUILDKITE_K8S_NODE="gpu-7")
    assert done.returncode == 78
    assert done.stdout == ""
    assert done.stderr == (
        f"gpu-health: sick: test-host on node gpu-7: GPU 1 ({H100}, GPU-0001): 12 % of 81559 MiB is free, at least "
        "80 % is needed; held by pid 4242 (python3, uid 1001, for 3 h 12 min, 70000 MiB), "
        "pid 4243 (/usr/bin/a, b, uid 0, for 1 d 1 h, - MiB)\n"
    )


def test_it_kills_nothing_and_asks_only(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, 1), "4242, GPU-0000, 70000, python3\n"))
    for name in ("kill", "pkill", "killall", "fuser"):
        stand_in(tmp_path / "bin", name, f"touch {tmp_path}/killed")
    text = (HARNESS / "gpu-health.sh").read_text() + (HARNESS / "gpu-query.sh").read_text()
    assert check(tmp_path, "--gpus", "1").returncode == 78
    assert not (tmp_path / "killed").exists()
    assert not [line for line in text.splitlines() if line.lstrip().startswith(("kill ", "pkill", "fuser"))]


def test_the_settings_come_from_the_environment_and_options_win(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, 50, 100)))
    tool(tmp_path / "bin", "amd-smi", {})
    env = {"BKGEN_GPUS": "1", "BKGEN_GPU_VENDOR": "nvidia", "BKGEN_GPU_MIN_FREE": "50"}
    assert check(tmp_path, **env).returncode == 0
    assert check(tmp_path, "--min-free", "51", **env).returncode == 78
    assert check(tmp_path, "--gpus", "2", **env).returncode == 78
    assert "unexpected call" in check(tmp_path, "--vendor", "amd", **env).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "two"], "--gpus takes a whole number, not 'two'"),
        (["--gpus", "-1"], "--gpus takes a whole number, not '-1'"),
        (["--gpus", "01"], "--gpus takes a whole number, not '01'"),
        (["--gpus"], "--gpus needs a value"),
        (["--gpus", ""], "--gpus takes a whole number or 'any', not ''"),
        (["--min-free", "101"], "--min-free takes 0 to 100"),
        (["--vendor", "nvidea"], "--vendor is auto, nvidia, amd or intel, not 'nvidea'"),
        (["--kill"], "unknown argument '--kill'"),
        ([], "tools of several vendors are on the path"),
    ],
)
def test_a_wrong_call_ends_with_2(options: list[str], message: str, tmp_path: Path) -> None:
    for name in ("nvidia-smi", "amd-smi"):
        stand_in(tmp_path / "bin", name, "exit 1")
    done = check(tmp_path, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_help_documents_every_status(tmp_path: Path) -> None:
    done = check(tmp_path, "--help")
    assert done.returncode == 0
    assert all(f"\n  {status}  " in done.stdout for status in (" 0", " 2", "78"))
