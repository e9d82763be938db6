"""setup-env.sh as every run.sh sources it: GPU health, installation and probe, with stand-ins on the path."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from harness.bash_tools import HARNESS, environment, path_without, run, stand_in, write_script
from harness.gpu_tools import Answer, nvidia, row, tool

NOTHING_SET = "echo tested"


class Job:
    """A run.sh and the stand-ins that record how they are called."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path, self.bin, self.calls = tmp_path, tmp_path / "bin", tmp_path / "calls"
        self.bin.mkdir()

    def installer(self, name: str = "uv", text: str = "") -> None:
        if name == "python3":  # `python3 -m pip` is recorded, everything else is the real one
            text = f'[ "$2" = pip ] || exec {self.real_python()} "$@"\n{text}'
        stand_in(self.bin, name, f'{text}\nprintf "%s " "{name}" "$@" >>{self.calls}; echo >>{self.calls}')

    @staticmethod
    def real_python() -> str:
        return subprocess.run(["which", "python3"], capture_output=True, text=True, check=True).stdout.strip()

    def run(self, body: str = NOTHING_SET, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        script = write_script(
            self.tmp_path / "run.sh",
            f"#!/usr/bin/env bash\nset -euo pipefail\nsource '{HARNESS}/setup-env.sh'\n{body}\n",
        )
        defaults = {"BKGEN_INSTALL_DELAY": "0"}
        return run(
            [script, *arguments], environment(self.tmp_path, self.bin) | defaults | extra, self.tmp_path
        )

    def called(self) -> list[str]:
        return [line.strip() for line in self.calls.read_text().splitlines()] if self.calls.exists() else []


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_on_a_laptop_with_nothing_set_it_does_nothing_and_is_quick(job: Job) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = job.run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tested\n", "")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5
    assert list((job.tmp_path / "tmp").iterdir()) == []


def test_the_functions_and_strict_mode_are_there_afterwards(job: Job) -> None:
    done = job.run(
        'set -o | grep -E "errexit|nounset|pipefail|errtrace"; declare -F start_server; echo "$@"', "a", "b c"
    )
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["on"] * 4 + ["start_server", "c"]


# -------------------------------------------------------------------------------------------- GPU health


@pytest.mark.parametrize(
    ("gpus", "rows", "status", "stderr"),
    [
        pytest.param("1", row(0), 0, "healthy", id="the GPU is there"),
        pytest.param("2", row(0), 78, "1 GPUs are seen, 2 asked for", id="one of two is missing"),
        pytest.param("1", row(0, 100), 78, "0 % of 81559 MiB is free", id="somebody holds it"),
        pytest.param("1", "", 78, "nvidia-smi printed nothing", id="the tool is broken"),
        pytest.param("one", row(0), 2, "takes a whole number", id="a number that is none"),
        pytest.param("0", row(0, 100), 0, "", id="0 outside of a pod means no look at all"),
        pytest.param("any", row(0) + row(1), 0, "2 GPUs", id="any number that is free"),
        pytest.param("any", row(0, 100), 78, "0 % of 81559 MiB is free", id="any number, one of them held"),
        pytest.param(None, row(0), 0, "healthy", id="unset: what is seen is free"),
        pytest.param(
            None, row(0, 100), 78, "hint: BKGEN_GPUS=0 for a run that needs no GPU", id="unset: it is not"
        ),
    ],
)
def test_gpus_are_looked_at_before_anything_is_installed(
    gpus: str | None, rows: str, status: int, stderr: str, job: Job
) -> None:
    tool(job.bin, "nvidia-smi", nvidia(rows))
    job.installer()
    done = job.run(BKGEN_INSTALL="pytest", **({} if gpus is None else {"BKGEN_GPUS": gpus}))
    assert done.returncode == status, done.stderr
    assert (done.stdout == "tested\n") == bool(job.called()) == (status == 0)
    assert stderr in done.stderr
    assert ("--- GPU health\n" in done.stderr) == (gpus != "0")


@pytest.mark.parametrize(
    ("gpus", "device", "rows", "status"),
    [
        pytest.param("0", "nvidia0", row(0), 78, id="a pod that asked for none and sees one is sick"),
        pytest.param("0", "nvidia0", (9, "no driver"), 78, id="a device whose tool does not answer is sick"),
        pytest.param("0", "dri/renderD128", row(0), 78, id="a device of another kind is looked at as well"),
        pytest.param("0", "nvidiactl", (9, "no driver"), 0, id="without a device the tool is not asked"),
        pytest.param("0", "nvidia0", "No devices were found\n", 0, id="the tool sees none"),
        pytest.param("0", "nvidia0", None, 0, id="a CPU node has no tool"),
        pytest.param("any", "nvidia0", row(0), 0, id="any: it may see some"),
        pytest.param(None, "nvidia0", row(0), 0, id="unset: it may see some"),
    ],
)
def test_a_pod_that_asked_for_no_gpu(
    gpus: str | None, device: str, rows: Answer | None, status: int, job: Job
) -> None:
    if rows is not None:
        tool(job.bin, "nvidia-smi", nvidia(rows))
    (job.tmp_path / "dev/dri").mkdir(parents=True)
    (job.tmp_path / "dev" / device).touch()
    extra = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "BKGEN_DEV": str(job.tmp_path / "dev")}
    done = job.run(**extra, **({} if gpus is None else {"BKGEN_GPUS": gpus}))
    assert done.returncode == status, done.stderr
    assert ("hint: this pod asked for no GPU; BKGEN_GPUS=any" in done.stderr) == (status == 78)


def test_gpus_that_were_asked_for_fail_closed_without_a_tool(job: Job) -> None:
    done = job.run(BKGEN_GPUS="1")
    assert (done.returncode, done.stdout) == (78, "")
    assert "no nvidia-smi, amd-smi or xpu-smi on the path" in done.stderr


def test_a_script_started_later_does_not_take_the_suites_own_server_for_a_stranger(job: Job) -> None:
    tool(job.bin, "nvidia-smi", nvidia(row(0)))
    job.installer()
    inner = write_script(
        job.tmp_path / "inner.sh", f"#!/usr/bin/env bash\nsource '{HARNESS}/setup-env.sh'\necho inner\n"
    )
    busy = f"printf '#!/bin/bash\\necho busy; exit 1' >{job.bin}/nvidia-smi; rm {job.bin}/uv\n{inner}"
    done = job.run(busy, BKGEN_GPUS="1", BKGEN_INSTALL="pytest", BKGEN_PROBE="echo probed")
    assert (done.returncode, done.stdout) == (0, "inner\n"), done.stderr
    assert len(job.called()) == 1
    assert done.stderr.count("\nprobed\n") == 1


# ------------------------------------------------------------------------------------------ installation


def test_files_packages_and_pins_are_installed_by_uv_in_one_call(job: Job) -> None:
    for name in ("requirements.txt", "pins.txt"):
        (job.tmp_path / name).write_text("")
    job.installer()
    install = "requirements.txt .[dev] lm-eval[api]==0.4 *"
    done = job.run(BKGEN_INSTALL=install, BKGEN_CONSTRAINTS="pins.txt")
    assert done.returncode == 0, done.stderr
    (call,) = job.called()
    assert call.startswith("uv pip install --python /")
    assert call.endswith("/python3 -r requirements.txt .[dev] lm-eval[api]==0.4 * -c pins.txt")
    assert f"--- Install {install}\n" in done.stderr


def test_pip_installs_where_there_is_no_uv(job: Job, tmp_path: Path) -> None:
    job.installer("python3")
    path = path_without(tmp_path / "path", "uv")
    done = job.run(BKGEN_INSTALL="pytest", PATH=f"{job.bin}:{path}")
    assert done.returncode == 0, done.stderr
    assert job.called() == ["python3 -m pip install --disable-pip-version-check --no-input pytest"]


def test_an_installation_is_tried_again_and_its_status_is_kept(job: Job) -> None:
    job.installer(text=f"echo x >>{job.tmp_path}/tries; [ $(wc -l <{job.tmp_path}/tries) -ge 3 ] || exit 2")
    assert job.run(BKGEN_INSTALL="pytest").returncode == 0
    assert len(job.called()) == 1
    job.installer(text=f"echo x >>{job.tmp_path}/more; exit 9")
    done = job.run(BKGEN_INSTALL="pytest", BKGEN_INSTALL_TRIES="2")
    assert (done.returncode, done.stdout) == (9, "")
    assert "error: uv could not install pytest (status 9)" in done.stderr
    assert "try 1 of 2 of 'uv' ended with status 9" in done.stderr
    assert (job.tmp_path / "more").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"BKGEN_INSTALL": "gone.txt"}, "BKGEN_INSTALL: there is no file 'gone.txt'"),
        (
            {"BKGEN_INSTALL": "pytest", "BKGEN_CONSTRAINTS": "gone"},
            "BKGEN_CONSTRAINTS: there is no file 'gone'",
        ),
    ],
)
def test_a_file_that_is_missing_is_named(extra: dict[str, str], message: str, job: Job) -> None:
    job.installer()
    done = job.run(**extra)
    assert (done.returncode, job.called()) == (1, [])
    assert message in done.stderr


def test_the_constraints_of_the_suite_are_used_else_those_of_all_suites(job: Job) -> None:
    job.installer()
    shared, own = job.tmp_path / "constraints.txt", job.tmp_path / "suite/constraints.txt"
    shared.write_text("pytest<99\n")
    suite = write_script(
        job.tmp_path / "suite/run.sh", f"#!/usr/bin/env bash\nsource '{HARNESS}/setup-env.sh'\necho tested\n"
    )

    def called(**extra: str) -> str:
        job.calls.unlink(missing_ok=True)
        env = environment(job.tmp_path, job.bin, BKGEN_INSTALL="pytest", **extra)
        done = run([suite], env, job.tmp_path)
        assert (done.returncode, done.stdout) == (0, "tested\n"), done.stderr
        return job.called()[0].partition(" pytest")[2]

    assert called() == f" -c {shared}"
    own.write_text("pytest<98\n")
    assert called() == f" -c {own}"
    assert called(BKGEN_CONSTRAINTS=str(shared)) == f" -c {shared}"
    assert called(BKGEN_CONSTRAINTS="") == ""


def test_a_script_started_later_does_not_install_again_for_its_own_directory(job: Job) -> None:
    job.installer()
    (job.tmp_path / "constraints.txt").write_text("")
    inner = write_script(job.tmp_path / "a/b/inner.sh", f"source '{HARNESS}/setup-env.sh'\necho inner\n")
    done = job.run(f"bash '{inner}'", BKGEN_INSTALL="pytest")
    assert (done.returncode, done.stdout) == (0, "inner\n"), done.stderr
    assert len(job.called()) == 1


# ------------------------------------------------------------------------------------------------ secrets

INDEX = "--extra-index-url https://ci:{secret}@host/simple vllm tokenizers==0.2 tiktoken>=0.9"
SHOWN = "--extra-index-url https://***@host/simple vllm tokenizers==0.2 tiktoken>=0.9"


@pytest.mark.parametrize("status", [0, 4])
def test_the_password_of_an_index_is_nowhere_in_the_log(status: int, job: Job) -> None:
    secret = "s3cr3t-P4ss"
    job.installer(
        text=f'echo "looking in $*"; echo "error: https://u:{secret}@h/x" >&2; [ {status} = 0 ] || exit {status}'
    )
    done = job.run(BKGEN_INSTALL=INDEX.format(secret=secret), BKGEN_INSTALL_TRIES="2")
    assert done.returncode == status
    assert secret not in done.stdout + done.stderr
    assert f"--- Install {SHOWN}\n" in done.stderr
    assert "error: https://***@h/x\n" in done.stderr
    if status == 0:
        assert secret in job.called()[0]
    else:
        assert f"error: uv could not install {SHOWN} (status 4)" in done.stderr


@pytest.mark.parametrize(
    ("probe", "shown"),
    [
        ("echo -H 'Authorization: Bearer SECRET' http://x/y", "echo -H 'Authorization: ***' http://x/y"),
        ('echo --header "X-Auth-Token:SECRET"', 'echo --header "X-Auth-Token: ***"'),
        ("echo -H 'Foo: SECRET'", "echo -H 'Foo: ***'"),
        ("HF_TOKEN=SECRET env true", "HF_TOKEN=*** env true"),
        ("echo --api-key SECRET --port 1", "echo --api-key *** --port 1"),
        ("echo --password=SECRET", "echo --password=***"),
        ("echo -u me:SECRET", "echo -u ***"),
        ("echo 'https://h/x?access_token=SECRET&n=1'", "echo 'https://h/x?access_token=***&n=1'"),
        ("echo git+https://SECRET@host/x.git", "echo git+https://***@host/x.git"),
        ("echo python3 -u run.py --tokenizer x", "echo python3 -u run.py --tokenizer x"),
    ],
)
def test_a_secret_of_the_probe_is_nowhere_in_the_log(probe: str, shown: str, job: Job) -> None:
    for ending in ("", " ; exit 3"):
        done = job.run(BKGEN_PROBE=probe + ending)
        assert done.returncode == (3 if ending else 0)
        assert "SECRET" not in done.stdout + done.stderr
        assert f"--- Probe: {shown}{ending}\n" in done.stderr


def test_a_daemon_that_the_probe_starts_does_not_hold_the_job_up(job: Job) -> None:
    done = job.run(BKGEN_PROBE="sleep 50 & echo started")
    assert (done.returncode, done.stdout) == (0, "tested\n")
    assert "\nstarted\n" in done.stderr


# -------------------------------------------------------------------------------------------- base branch


@pytest.mark.parametrize(
    ("value", "status", "merges"),
    [(None, 0, False), ("0", 0, False), ("", 0, False), ("1", 1, True), ("yes", 1, False)],
)
def test_the_base_branch_is_merged_on_demand_and_before_anything_else(
    value: str | None, status: int, merges: bool, job: Job
) -> None:
    """The name of the base is refused, which shows that it was merge_base_branch that looked at it."""
    job.installer()
    extra = {} if value is None else {"BKGEN_MERGE_BASE": value}
    pull = {"BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "-x"}
    done = job.run(BKGEN_INSTALL="pytest", **pull, **extra)
    assert done.returncode == status
    assert ("is not the name of a branch: '-x'" in done.stderr) == merges
    assert bool(job.called()) == (status == 0)
    assert ("BKGEN_MERGE_BASE is 1 or 0, not 'yes'" in done.stderr) == (value == "yes")


def test_the_base_is_merged_once_for_all_scripts_of_a_job(job: Job) -> None:
    inner = write_script(job.tmp_path / "inner.sh", f"source '{HARNESS}/setup-env.sh'\necho inner\n")
    done = job.run(f"bash '{inner}'", BKGEN_MERGE_BASE="1")
    assert (done.returncode, done.stdout) == (0, "inner\n")
    assert done.stderr.count("not a pull request") == 1


# ------------------------------------------------------------------------------------------------- probe


@pytest.mark.parametrize(
    ("probe", "status", "message"),
    [
        pytest.param("echo 'engine 1.2'", 0, "engine 1.2", id="it starts"),
        pytest.param(
            "bash -c 'exit 3'", 3, "the probe failed: bash -c 'exit 3' (status 3)", id="its status is kept"
        ),
        pytest.param(
            "no-such-engine --version", 127, "the probe failed: no-such-engine", id="it is not there"
        ),
        pytest.param("false | cat", 1, "the probe failed", id="a failure before a pipe"),
        pytest.param("sleep 60", 124, "the probe failed: sleep 60 (status 124)", id="it hangs"),
    ],
)
def test_the_probe(probe: str, status: int, message: str, job: Job) -> None:
    done = job.run(BKGEN_PROBE=probe, BKGEN_PROBE_SECONDS="1" if "sleep" in probe else "30")
    assert (done.returncode, done.stdout) == (status, "tested\n" if status == 0 else "")
    assert message in done.stderr
    assert f"--- Probe: {probe}\n" in done.stderr


def test_the_phases_come_in_order_each_with_its_time(job: Job) -> None:
    tool(job.bin, "nvidia-smi", nvidia(row(0)))
    job.installer()
    done = job.run(BKGEN_GPUS="1", BKGEN_INSTALL="pytest", BKGEN_PROBE="true")
    lines = [line for line in done.stderr.splitlines() if line.startswith("--- ") or line.endswith(" s")]
    assert [line.rpartition(": ")[0] or line for line in lines] == [
        "--- GPU health", "GPU health", "--- Install pytest", "Install pytest", "--- Probe", "Probe: true",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        pytest.param("true\nfalse", 1, "run.sh:5: status 1: false", id="a command"),
        pytest.param(
            "broken() {\n  (exit 7)\n}\nbroken", 7, "run.sh:5: status 7: ( exit 7 )", id="inside a function"
        ),
        pytest.param("ls /no/such | cat >/dev/null", 2, "run.sh:4: status 2", id="before a pipe"),
        pytest.param("x=$(exit 9)", 9, "run.sh:4: status 9: x=$(exit 9)", id="in a substitution"),
    ],
)
def test_a_failing_command_is_named_with_file_and_line(body: str, status: int, where: str, job: Job) -> None:
    done = job.run(body + "\necho never")
    assert (done.returncode, done.stdout) == (status, "")
    assert where in done.stderr


def test_a_failure_that_is_dealt_with_is_not_named(job: Job) -> None:
    done = job.run("false || true\nif false; then :; fi\n! true\necho on")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_a_secret_in_a_variable_does_not_get_into_the_error(job: Job) -> None:
    done = job.run('grep -q "$TOKEN" /dev/null', TOKEN="hf_secret")
    assert 'status 1: grep -q "$TOKEN" /dev/null' in done.stderr
    assert "hf_secret" not in done.stderr


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_status_of_the_run_is_kept(status: int, job: Job) -> None:
    assert job.run(f"on_exit false\nexit {status}").returncode == status


def test_a_dry_run_prints_each_command_and_runs_none(job: Job) -> None:
    tool(job.bin, "nvidia-smi", {})
    job.installer()
    env = environment(
        job.tmp_path, job.bin, BKGEN_GPUS="2", BKGEN_INSTALL="pytest", BKGEN_PROBE="touch probed"
    )
    done = run([HARNESS / "setup-env.sh", "--dry-run"], env, job.tmp_path)
    assert done.returncode == 0
    commands = [line for line in done.stderr.splitlines() if line.startswith("+ ")]
    assert commands[0] == f"+ {HARNESS}/gpu-health.sh"
    assert commands[1].startswith("+ uv pip install --python ")
    assert commands[2].endswith("bash -euo pipefail -c touch probed")
    assert not (job.tmp_path / "probed").exists()
    assert job.called() == []


def test_run_instead_of_sourced_it_says_so(job: Job) -> None:
    done = run([HARNESS / "setup-env.sh"], environment(job.tmp_path), job.tmp_path)
    assert done.returncode == 2
    assert "to be sourced" in done.stderr
