"""gpu-monitor.sh and setup-gpu-monitor.sh with stand-in tools, a stand-in /proc and a stand-in root."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.bash_tools import HARNESS, environment, run, stand_in, until
from harness.gpu_tools import Answer, amd, amd_processes, fake_process, nvidia, row, tool

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
SYSTEMD_UID = UID.replace("-", "_")
POD_V2 = f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice/cri-containerd-abc.scope\n"
SESSION = "0::/user.slice/user-1001.slice/session-4.scope\n"

CGROUPS = {
    "v2, systemd driver, burstable": (POD_V2, "pod", UID),
    "v2, systemd driver, guaranteed": (
        f"0::/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-abc.scope\n",
        "pod",
        UID,
    ),
    "v2, cgroupfs driver as K3s has it": (f"0::/kubepods/besteffort/pod{UID}/abc\n", "pod", UID),
    "v2, guaranteed, cgroupfs driver": (f"0::/kubepods/pod{UID}/abc\n", "pod", UID),
    "v2, inside kind": (
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-a.scope\n",
        "pod",
        UID,
    ),
    "v2, a static pod, whose UID is a hash": (
        "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/abc\n",
        "pod",
        "0123456789abcdef0123456789abcdef",
    ),
    "v1, a line for each controller": (
        (
            f"12:pids:/kubepods/burstable/pod{UID}/abc\n5:devices:/kubepods/burstable/pod{UID}/abc\n"
            "1:name=systemd:/kubepods/burstable/pod\n"
        ),
        "pod",
        UID,
    ),
    "v1 and v2 side by side": (f"5:devices:/kubepods/pod{UID}/abc\n0::/\n", "pod", UID),
    "v2, a login session": (SESSION, "host", "/user.slice/user-1001.slice/session-4.scope"),
    "v1, a service": (
        "3:cpu:/\n2:devices:/system.slice/old.service\n",
        "host",
        "/system.slice/old.service",
    ),
    "a container of Docker's, v2": (f"0::/system.slice/docker-{'ab' * 32}.scope\n", "container", "ab" * 6),
    "a container of Docker's, v1": (f"4:memory:/docker/{'cd' * 32}\n", "container", "cd" * 6),
    "a container of Podman's": (
        f"0::/machine.slice/libpod-{'ef' * 32}.scope/container\n",
        "container",
        "ef" * 6,
    ),
    "a name that only looks like Docker's": (
        "0::/system.slice/docker-abc.scope\n",
        "host",
        "/system.slice/docker-abc.scope",
    ),
    "a user's own scope that is called like Docker's": (
        f"0::/user.slice/docker-{'ab' * 32}.scope\n",
        "host",
        f"/user.slice/docker-{'ab' * 32}.scope",
    ),
    "the root group": ("0::/\n", "host", None),
    "a user's own group that is called kubepods": (
        f"0::/user.slice/user-1001.slice/kubepods/pod{UID}/x\n",
        "host",
        f"/user.slice/user-1001.slice/kubepods/pod{UID}/x",
    ),
    "kubepods without a pod": ("0::/kubepods.slice\n", "host", "/kubepods.slice"),
    "a name that only begins alike": (f"0::/kubepods-old/pod{UID}/x\n", "host", f"/kubepods-old/pod{UID}/x"),
    "no control groups that can be read": (None, "unknown", None),
}


def monitor(
    tmp_path: Path, *options: str | Path, **extra: str
) -> tuple[int, list[dict[str, object]], subprocess.CompletedProcess[str]]:
    """One look with JSON lines: the status, the lines, and the rest."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "proc").mkdir(exist_ok=True)
    env = environment(tmp_path, tmp_path / "bin", BKGEN_PROC=str(tmp_path / "proc"), **extra)
    done = run([HARNESS / "gpu-monitor.sh", "--once", "--json", *options], env, tmp_path)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done


def app(pid: int, gpu: int = 0, used: object = 70000) -> str:
    return f"{pid}, GPU-000{gpu}, {used}, python3\n"


@pytest.mark.parametrize(("cgroup", "kind", "detail"), CGROUPS.values(), ids=CGROUPS)
def test_a_process_is_told_by_its_control_groups(
    cgroup: str | None, kind: str, detail: str | None, tmp_path: Path
) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, 100), app(4242)))
    fake_process(tmp_path / "proc", 4242, "python3", 1001, 100000 - 90, cgroup)
    status, lines, _ = monitor(tmp_path)
    process, summary = lines
    assert process["event"] == "process"
    assert (process["class"], process["pid"], process["uid"], process["age_seconds"]) == (
        kind,
        4242,
        1001,
        90,
    )
    assert process.get("pod_uid", process.get("container", process.get("cgroup"))) == detail
    assert summary["event"] == "summary"
    key = {"pod": "in_pods", "container": "in_containers", "host": "outside", "unknown": "unclear"}[kind]
    assert {name: summary[name] for name in ("in_pods", "in_containers", "outside", "unclear")} == {
        "in_pods": 0, "in_containers": 0, "outside": 0, "unclear": 0, key: 1
    }  # fmt: skip
    fine = kind in ("pod", "container")
    assert status == (0 if fine else 78)
    assert process["level"] == summary["level"] == ("ok" if fine else "look")


def test_the_text_names_everything_a_person_needs(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, 100) + row(1), app(4242) + app(7, 1, 10)))
    fake_process(tmp_path / "proc", 4242, "python3", 1001, 100000 - 3 * 3600, SESSION)
    fake_process(tmp_path / "proc", 7, "python3", 0, 99999, POD_V2)
    env = environment(tmp_path, tmp_path / "bin", BKGEN_PROC=str(tmp_path / "proc"))
    done = run([HARNESS / "gpu-monitor.sh", "--once"], env, tmp_path)
    assert done.returncode == 78
    first, second, last = (line.split(" ", 1)[1] for line in done.stdout.splitlines())
    assert first == (
        "test-host look: GPU GPU-0000: pid 4242 (python3, uid 1001, for 3 h 0 min, 70000 MiB) is outside of every "
        "pod: /user.slice/user-1001.slice/session-4.scope"
    )
    assert second == f"test-host ok: GPU GPU-0001: pid 7 (python3, uid 0, for 1 s, 10 MiB) is in pod {UID}"
    assert last.startswith("test-host look: 2 GPUs; processes: 1 in pods, 0 in other containers, 1 outside,")


def test_a_process_that_ended_meanwhile_is_nobodys_trouble(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0), app(4242)))
    status, lines, _ = monitor(tmp_path)
    assert status == 0
    assert [line["event"] for line in lines] == ["summary"]


@pytest.mark.parametrize(
    ("free", "alive", "text"),
    [
        pytest.param(
            100, 0, "no process is seen on it, pid 4242 (python3), which is gone", id="nobody else is there"
        ),
        pytest.param(
            10,
            1,
            "the processes seen on it have 1000, pid 4242 (python3), which is gone",
            id="another one lives",
        ),
    ],
)
def test_memory_of_a_process_that_is_gone_needs_a_look(
    free: int, alive: int, text: str, tmp_path: Path
) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, free), app(4242) + app(7, 0, 1000) * alive))
    if alive:
        fake_process(tmp_path / "proc", 7, "python3", 0, 99999, POD_V2)
    status, lines, _ = monitor(tmp_path)
    assert status == 78
    assert text in str(lines[-2]["text"])
    assert lines[-1]["held"] == 1


def test_memory_of_a_process_that_ended_between_two_answers_is_asked_for_again(tmp_path: Path) -> None:
    text = f"""case "$*" in
*--query-gpu=*) if [ -e asked ]; then echo '{row(0).strip()}'; else echo '{row(0, 100).strip()}'; fi ;;
*--query-compute-apps=*) [ -e asked ] || echo '{app(4242).strip()}'; touch asked ;;
esac"""
    stand_in(tmp_path / "bin", "nvidia-smi", text)
    status, lines, _ = monitor(tmp_path)
    assert (status, [line["event"] for line in lines]) == (0, ["summary"])


@pytest.mark.parametrize(
    ("rows", "options", "text"),
    [
        ((6, "No devices were found\n"), [], "0 GPUs are seen, at least 1 should be"),
        ("No devices were found\n", ["--gpus", "2"], "0 GPUs are seen, 2 should be"),
        (row(0), ["--gpus", "2"], "1 GPUs are seen, 2 should be"),
        (row(0), ["--gpus", "0"], "1 GPUs are seen, 0 should be"),
        ("No devices were found\n", ["--gpus", "0"], None),
        (row(0), ["--gpus", "1"], None),
        (row(0), [], None),
    ],
)
def test_gpus_that_are_no_longer_seen_need_a_look(
    rows: Answer, options: list[str], text: str | None, tmp_path: Path
) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(rows))
    status, lines, _ = monitor(tmp_path, *options)
    assert status == (78 if text else 0)
    assert [line["text"] for line in lines[:-1]] == ([text] if text else [])


def test_a_process_with_an_octal_number_is_not_a_clean_host(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0), "0815, GPU-0000, 1, python3\n"))
    status, lines, _ = monitor(tmp_path)
    assert status == 75
    assert "a line that cannot be read: 0815, GPU-0000" in str(lines[0]["text"])


@pytest.mark.parametrize("text", ["exit 0", "exit 3", "echo; exit 0"])
def test_a_python_that_cannot_read_the_report_is_never_a_clean_host(text: str, tmp_path: Path) -> None:
    tool(tmp_path / "bin", "amd-smi", {"metric": json.dumps(amd((0, 1000, 1))), "process": "[]"})
    stand_in(tmp_path / "bin", "python3", text)
    status, lines, _ = monitor(tmp_path)
    assert status == 75
    assert "python3 could not read the report 'amd-devices'" in str(lines[0]["text"])


def test_memory_that_no_process_holds_needs_a_look(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, 30000) + row(1)))
    status, lines, _ = monitor(tmp_path)
    assert status == 78
    assert lines[0]["event"] == "gpu"
    assert "51559 of 81559 MiB are held, and no process is seen on it" in str(lines[0]["text"])
    assert lines[1]["held"] == 1


def test_a_gpu_that_cannot_be_read_needs_a_look(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0, "ERR!")))
    status, lines, _ = monitor(tmp_path)
    assert status == 78
    assert lines[0]["text"] == "GPU 0: free memory cannot be read: 'ERR!'"
    assert lines[1]["unreadable"] == 1


FAILURES: dict[str, tuple[Mapping[str, Answer], str]] = {
    "the list of GPUs fails": (
        nvidia((9, "NVIDIA-SMI has failed\n")),
        "ended with status 9: NVIDIA-SMI has failed",
    ),
    "the list of GPUs is empty": (nvidia(""), "printed nothing"),
    "the list of processes fails": (
        nvidia(row(0), (255, "Unknown Error\n")),
        "ended with status 255: Unknown Error",
    ),
    "the list of processes fails without a word": (nvidia(row(0), (1, "")), "ended with status 1: no output"),
    "the list of processes is an error text with status 0": (
        nvidia(row(0), "Failed to initialize NVML: Unknown Error\n"),
        "a line that cannot be read: Failed to initialize NVML: Unknown Error",
    ),
}


@pytest.mark.parametrize(("answers", "text"), FAILURES.values(), ids=FAILURES)
def test_a_query_that_fails_is_never_a_clean_host(
    answers: Mapping[str, Answer], text: str, tmp_path: Path
) -> None:
    tool(tmp_path / "bin", "nvidia-smi", answers)
    status, lines, _ = monitor(tmp_path)
    assert status == 75
    assert [line["level"] for line in lines] == ["failed"] * len(lines)
    assert text in str(lines[0]["text"])


def test_no_tool_at_all_is_a_failure(tmp_path: Path) -> None:
    status, lines, _ = monitor(tmp_path)
    assert (status, lines[0]["text"]) == (75, "no GPU tool is on the path")


def test_no_process_is_told_in_words_by_some_versions(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0), "No running processes found\n"))
    assert monitor(tmp_path)[0] == 0


def test_amd_processes_without_memory_do_not_count(tmp_path: Path) -> None:
    listed = [amd_processes(0, (77, 2**30), (78, 0)), amd_processes(1, (77, 0))]
    metric = json.dumps(amd((0, 196592, 2000), (1, 196592, 200)))
    tool(tmp_path / "bin", "amd-smi", {"metric": metric, "process": json.dumps(listed)})
    for pid in (77, 78):
        fake_process(tmp_path / "proc", pid, "python3", 0, 5, SESSION)
    status, lines, _ = monitor(tmp_path)
    assert status == 78
    assert [(line.get("pid"), line.get("used_mib")) for line in lines] == [(77, 1024), (None, None)]


def test_names_with_quotes_and_control_characters_stay_one_json_line(tmp_path: Path) -> None:
    apps = '4242, GPU-0000, 1, a "b" \\c\x1b[31m\té, d\n'
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0), apps))
    fake_process(tmp_path / "proc", 4242, "x", 1, 5, '0::/a "b"\\\x01\n')
    status, lines, _ = monitor(tmp_path)
    assert status == 78
    assert str(lines[0]["name"]).startswith('a "b" \\c [31m')
    assert lines[0]["cgroup"] == '/a "b"\\'


def test_it_kills_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stale:
        tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0), app(stale.pid)))
        env = environment(tmp_path, tmp_path / "bin")
        done = run([HARNESS / "gpu-monitor.sh", "--once"], env, tmp_path)
        assert done.returncode == 78
        assert f"pid {stale.pid} (python3, uid" in done.stdout
        assert stale.poll() is None
        stale.terminate()


# ---------------------------------------------------------------------------------------------------- log


def test_with_a_log_only_what_needs_a_look_is_printed(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0) + row(1, 10)))
    log = tmp_path / "gpu.log"
    for count in (1, 2):
        status, lines, done = monitor(tmp_path, "--log", log)
        assert (status, lines) == (78, [])
        assert len(done.stderr.splitlines()) == 2
        assert len(log.read_text().splitlines()) == 2 * count
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0)))
    status, _, done = monitor(tmp_path, "--log", log)
    assert (status, done.stderr) == (0, "")
    assert len(log.read_text().splitlines()) == 5


def test_the_log_is_rotated_by_its_size(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0)))
    log = tmp_path / "gpu.log"
    options = ("--log", log, "--max-bytes", "500", "--keep", "2")
    for number in range(5):
        log.write_text(f"{number} " + "x" * 600 + "\n")
        assert monitor(tmp_path, *options)[0] == 0
    assert sorted(path.name for path in tmp_path.glob("gpu.log*")) == ["gpu.log", "gpu.log.1", "gpu.log.2"]
    assert [(tmp_path / f"gpu.log.{n}").read_text()[0] for n in (1, 2)] == ["4", "3"]
    assert len(log.read_text().splitlines()) == 1
    assert monitor(tmp_path, *options)[0] == 0
    assert len(log.read_text().splitlines()) == 2
    log.write_text("y" * 600)
    assert monitor(tmp_path, "--log", log, "--max-bytes", "500", "--keep", "0")[0] == 0
    assert len(log.read_text().splitlines()) == 1


def test_a_log_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "nvidia-smi", nvidia(row(0)))
    status, _, done = monitor(tmp_path, "--log", tmp_path / "no/such/dir/log")
    assert status == 75
    assert "No such file" in done.stderr


def test_without_once_it_looks_again_until_it_is_stopped(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "nvidia-smi", "echo; exit 9")
    env = environment(tmp_path, tmp_path / "bin")
    arguments = [HARNESS / "gpu-monitor.sh", "--interval", "1", "--log", "gpu.log"]
    with subprocess.Popen(arguments, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        log = tmp_path / "gpu.log"
        until(lambda: log.exists() and len(log.read_text().splitlines()) >= 4, "a second look")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--log"], "--log needs a value"),
        (["--interval", "0"], "--interval takes seconds, not '0'"),
        (["--keep", "many"], "--keep takes 0 to 99, not 'many'"),
        (["--max-bytes", "1M"], "--max-bytes takes a number of bytes, not '1M'"),
        (["--gpus", "two"], "--gpus takes a whole number, not 'two'"),
        (["--gpus", ""], "--gpus needs a value"),
        (["--vendor", "x"], "--vendor is auto, nvidia, amd or intel, not 'x'"),
        (["kill"], "unknown argument 'kill'"),
    ],
)
def test_a_wrong_call_ends_with_2(options: list[str], message: str, tmp_path: Path) -> None:
    status, _, done = monitor(tmp_path, *options)
    assert status == 2
    assert message in done.stderr


# -------------------------------------------------------------------------------------------------- setup


class Host:
    """A stand-in root with a recording systemctl."""

    def __init__(self, tmp_path: Path, *, systemd: bool = True, cron: bool = True) -> None:
        self.tmp_path, self.root, self.calls = tmp_path, tmp_path / "root", tmp_path / "calls"
        self.calls.write_text("")
        (self.root / "etc").mkdir(parents=True)
        if systemd:
            (self.root / "run/systemd/system").mkdir(parents=True)
        if cron:
            (self.root / "etc/cron.d").mkdir()
        active = tmp_path / "active"
        stand_in(
            tmp_path / "bin",
            "systemctl",
            f"""case "$*" in
*is-active*) [ -e {active} ]; exit ;;
*'enable --now'*) touch {active} ;;
*'disable --now'*) rm -f {active} ;;
esac
echo "systemctl $*" >>{self.calls}""",
        )
        self.user(0)

    def user(self, number: int) -> None:
        stand_in(self.tmp_path / "bin", "id", f"echo {number}")

    def setup(self, *options: str) -> subprocess.CompletedProcess[str]:
        env = environment(self.tmp_path, self.tmp_path / "bin", BKGEN_ROOT=str(self.root))
        return run([HARNESS / "setup-gpu-monitor.sh", *options], env, self.tmp_path)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())

    def took(self) -> list[str]:
        calls = self.calls.read_text().splitlines()
        self.calls.write_text("")
        return calls


LIBRARY = [f"usr/local/lib/bkgen/{name}" for name in ("gpu-monitor.sh", "gpu-query.sh", "gpu_reports.py")]
UNITS = [f"etc/systemd/system/bkgen-gpu-monitor.{kind}" for kind in ("service", "timer")]
CRON = "etc/cron.d/bkgen-gpu-monitor"


def test_a_systemd_timer_is_set_up_once_and_removed_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    done = host.setup("--json")
    assert done.returncode == 0, done.stderr
    assert host.files() == [*UNITS, *LIBRARY]
    assert host.took() == ["systemctl daemon-reload", "systemctl enable --now bkgen-gpu-monitor.timer"]
    service, timer = ((host.root / unit).read_text() for unit in UNITS)
    command = "/usr/local/lib/bkgen/gpu-monitor.sh --once --json --log /var/log/bkgen-gpu-monitor.log"
    assert f"\nExecStart={command}\n" in service
    assert "\nOnCalendar=*:0/10\n" in timer
    assert (host.root / LIBRARY[0]).stat().st_mode & 0o777 == 0o755
    before = {name: (host.root / name).stat().st_mtime_ns for name in host.files()}

    again = host.setup("--json")
    assert again.returncode == 0
    assert "nothing to do: the timer is active" in again.stderr
    assert host.took() == []
    assert {name: (host.root / name).stat().st_mtime_ns for name in host.files()} == before

    (host.root / LIBRARY[1]).write_text("old")
    assert "write" in host.setup("--json").stderr
    assert (host.root / LIBRARY[1]).read_text() == (HARNESS / "gpu-query.sh").read_text()

    assert host.setup("--uninstall").returncode == 0
    assert host.files() == []
    assert host.took() == ["systemctl disable --now bkgen-gpu-monitor.timer", "systemctl daemon-reload"]
    assert "nothing is installed" in host.setup("--uninstall").stderr


def test_the_installed_copy_works(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.setup()
    tool(tmp_path / "bin", "amd-smi", {"metric": json.dumps(amd((0, 1000, 1))), "process": "[]"})
    env = environment(tmp_path, tmp_path / "bin")
    done = run([host.root / LIBRARY[0], "--once"], env, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 GPUs; processes: 0 in pods" in done.stdout


def test_cron_is_used_where_systemd_does_not_run(tmp_path: Path) -> None:
    host = Host(tmp_path, systemd=False)
    assert host.setup().returncode == 0
    assert host.files() == [CRON, *LIBRARY]
    assert host.took() == []
    text = (host.root / CRON).read_text()
    command = "/usr/local/lib/bkgen/gpu-monitor.sh --once --log /var/log/bkgen-gpu-monitor.log"
    assert text.endswith(f"\n*/10 * * * * root {command}\n")
    assert "nothing to do: cron runs it" in host.setup().stderr
    assert host.setup("--uninstall").returncode == 0
    assert host.files() == []


def test_changing_the_scheduler_leaves_one_of_them(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.setup()
    host.setup("--scheduler", "cron")
    assert host.files() == [CRON, *LIBRARY]
    host.setup()
    assert host.files() == [*UNITS, *LIBRARY]


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--scheduler", "cron"]])
def test_a_dry_run_needs_no_root_and_does_nothing(options: list[str], tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.user(1000)
    done = host.setup(*options)
    assert done.returncode == 0, done.stderr
    assert "+ write " in done.stderr
    assert done.stderr.endswith("nothing was done\n")
    assert (host.files(), host.took()) == ([], [])


def test_a_dry_run_of_the_removal_does_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.setup()
    host.took()
    host.user(1000)
    done = host.setup("--dry-run", "--uninstall")
    assert "+ systemctl disable --now bkgen-gpu-monitor.timer" in done.stderr
    assert (host.files(), host.took()) == ([*UNITS, *LIBRARY], [])


def test_vendor_and_number_of_gpus_are_handed_on(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.setup("--vendor", "amd", "--gpus", "8").returncode == 0
    command = "gpu-monitor.sh --once --log /var/log/bkgen-gpu-monitor.log --vendor amd --gpus 8\n"
    assert command in (host.root / UNITS[0]).read_text()
    assert host.setup("--scheduler", "cron", "--vendor", "intel").returncode == 0
    assert (host.root / CRON).read_text().endswith("bkgen-gpu-monitor.log --vendor intel\n")
    for options in (["--vendor", "x"], ["--vendor", ""], ["--gpus", "many"]):
        assert host.setup(*options).returncode == 2


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel"])
@pytest.mark.parametrize("script", ["gpu-health.sh", "gpu-monitor.sh"])
def test_a_dry_run_prints_what_would_be_asked_and_asks_nothing(
    script: str, vendor: str, tmp_path: Path
) -> None:
    name = {"nvidia": "nvidia-smi", "amd": "amd-smi", "intel": "xpu-smi"}[vendor]
    stand_in(tmp_path / "bin", name, f"touch {tmp_path}/asked; echo '{{}}'")
    env = environment(tmp_path, tmp_path / "bin")
    log = ["--log", str(tmp_path / "log")] if script == "gpu-monitor.sh" else []
    done = run([HARNESS / script, "--dry-run", *log], env, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "asked").exists()
    assert not (tmp_path / "log").exists()
    lines = done.stdout.splitlines()
    assert all(line.startswith((f"+ {name} ", "+ write ")) for line in lines)
    needed = {"nvidia": ["gpu=", "apps="], "amd": ["metric", "process"], "intel": ["discovery -j", " ps "]}
    assert all(any(part in line for line in lines) for part in needed[vendor])


def test_a_dry_run_names_the_commands_of_every_vendor_where_no_tool_is(tmp_path: Path) -> None:
    done = run([HARNESS / "gpu-health.sh", "--dry-run"], environment(tmp_path), tmp_path)
    assert {line.split()[1] for line in done.stdout.splitlines()} == {"nvidia-smi", "amd-smi", "xpu-smi"}


def test_without_root_it_refuses(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.user(1000)
    for options in ([], ["--uninstall"]):
        done = host.setup(*options)
        assert done.returncode == 1
        assert "needs root" in done.stderr
        assert "hint: sudo" in done.stderr
    assert (host.files(), host.took()) == ([], [])


def test_a_timer_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    host = Host(tmp_path)
    stand_in(tmp_path / "bin", "systemctl", '[[ "$*" != *is-active* ]]')
    done = host.setup()
    assert done.returncode == 1
    assert "it is not active" in done.stderr


def test_a_host_with_neither_scheduler_is_a_failure(tmp_path: Path) -> None:
    done = Host(tmp_path, systemd=False, cron=False).setup()
    assert done.returncode == 1
    assert "neither systemd runs here nor is there an /etc/cron.d" in done.stderr


@pytest.mark.parametrize(
    "script", ["gpu-health.sh", "gpu-monitor.sh", "setup-gpu-monitor.sh", "setup-env.sh"]
)
def test_every_script_has_help(script: str, tmp_path: Path) -> None:
    done = run([HARNESS / script, "--help"], environment(tmp_path), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert script in done.stdout
