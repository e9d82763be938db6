"""smoke-test.sh, the pods it starts, and k3_tests/smoke/run.sh, which it sends into them."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_host import Host, make_cluster, nodes, wait_for_file

SMOKE = "smoke-test.sh"
RUN = Path(__file__).parent.parent.parent / "k3_tests" / "smoke" / "run.sh"


def pod(gpus: int, writable: Path, *, read_only: bool = False, shm: str | None = "1Mi") -> dict[str, Any]:
    """A Pod as `bkgen render --pods` prints it."""
    volumes: list[dict[str, Any]] = [{"name": "cache", "hostPath": {"path": str(writable)}}]
    mounts = [{"name": "cache", "mountPath": str(writable), "readOnly": read_only}]
    if shm:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shm}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    limits = {"memory": "8Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {
        "name": "container-0",
        "image": "lmcache/ci-base:latest",
        "command": ["/bin/sh", "-ec", "./run.sh"],
        "args": ["unused"],
        "resources": {"limits": limits},
        "volumeMounts": mounts,
    }
    spec = {"containers": [container], "volumes": volumes, "nodeSelector": {"gpu": "h200"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"smoke-{gpus}"}, "spec": spec}


def offer(host: Host, *pods: dict[str, Any]) -> None:
    host.write("pods.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}) + "\n")


@pytest.fixture
def server() -> Iterator[str]:
    """A host and port that accept connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "{}:{}".format(*listener.getsockname())


@pytest.fixture
def cluster(tmp_path: Path, server: str) -> Host:
    """A cluster whose pods see one GPU and can reach the server."""
    host = make_cluster(tmp_path / "host")
    host.write("nvidia-list", "GPU 0: NVIDIA H200 (UUID: GPU-0)\n")
    host.settings["SMOKE_HOSTS"] = server
    offer(host, pod(1, host.data))
    return host


def deleted(host: Host) -> list[str]:
    return host.calls("kubectl delete pods --namespace default --selector bkgen.smoke-run=")


# --- The pods -------------------------------------------------------------------------------------


def test_pods_that_get_what_they_asked_for_pass(cluster: Host, server: str) -> None:
    finished = cluster.run(SMOKE)
    assert finished.status == 0, finished.all
    assert cluster.calls("bkgen") == ["bkgen render --pods --json smoke"]
    rows = [line.split() for line in finished.output.splitlines()]
    assert rows[0] == ["POD", "CHECK", "VERDICT", "DETAIL"]
    checks = [" ".join(row[1:-1]).split(" ok")[0] for row in rows[1:]]
    assert checks == ["start", "gpus", "shm", f"writable {cluster.data}", f"reach {server}"]
    assert all(" ok " in f" {' '.join(row)} " for row in rows[1:])
    assert len({line.index("VERDICT") for line in finished.output.splitlines()[:1]}) == 1
    assert len(deleted(cluster)) == 1
    assert cluster.leftovers() == []


def test_a_pod_keeps_all_it_asks_for_but_sleeps_and_ends_by_itself(cluster: Host) -> None:
    offered = pod(1, cluster.data)
    assert cluster.run(SMOKE).status == 0
    (applied,) = json.loads((cluster.root / "applied.json").read_text())["items"]
    container, before = applied["spec"]["containers"][0], offered["spec"]["containers"][0]
    assert container["command"] == ["/bin/sh", "-c", "exec sleep 900"]
    assert "args" not in container
    for key in ("image", "resources", "volumeMounts"):
        assert container[key] == before[key]
    for key in ("volumes", "nodeSelector"):
        assert applied["spec"][key] == offered["spec"][key]
    assert applied["spec"]["activeDeadlineSeconds"] == 900
    assert applied["metadata"]["namespace"] == "default"
    assert applied["metadata"]["name"].startswith("bkgen-smoke-")


def test_a_pod_that_sees_another_number_of_gpus_fails(cluster: Host) -> None:
    offer(cluster, pod(0, cluster.data), pod(2, cluster.data))
    finished = cluster.run(SMOKE)
    assert finished.status == 1
    assert "1 visible, 0 asked for" in finished.output
    assert "1 visible, 2 asked for" in finished.output
    assert "a check failed" in finished.words
    assert len(deleted(cluster)) == 1


def test_a_read_only_cache_need_not_be_writable(cluster: Host) -> None:
    offer(cluster, pod(1, Path("/proc/nowhere"), read_only=True, shm=None))
    finished = cluster.run(SMOKE)
    assert finished.status == 0, finished.all
    assert "writable" not in finished.output


def test_a_pod_that_does_not_start_is_explained_and_removed(cluster: Host) -> None:
    cluster.write("pod-stuck", "")
    finished = cluster.run(SMOKE)
    assert finished.status == 75
    # The wait itself failed, and at once.
    assert "kubectl gave up waiting after 0 of 300 seconds" in finished.output
    assert cluster.calls("kubectl get events")
    assert not cluster.calls("kubectl exec")
    assert len(deleted(cluster)) == 1


PROFILES = """\
default_profile: h200
profiles:
  h200: {gpu_resource: nvidia.com/gpu}
  mi300: {gpu_resource: amd.com/gpu}
  xpu: {gpu_resource: deviceclass.resource.kubernetes.io/gpu.intel.com}
"""


def with_profiles(host: Host, *offered: dict[str, str]) -> None:
    (host.root / "repository" / "bkgen.yml").write_text(PROFILES)
    host.write("nodes.json", nodes(*offered))


def test_an_amd_host_tests_the_profile_that_has_amds_resource(cluster: Host) -> None:
    with_profiles(cluster, {"amd.com/gpu": "8"})
    cluster.remove_tool("nvidia-smi")
    cluster.write("amd-list", "GPU: 0\n")
    finished = cluster.run(SMOKE)
    assert finished.status == 0, finished.all
    assert yaml.safe_load((cluster.root / "rendered-with.yml").read_text())["default_profile"] == "mi300"
    assert "next: PROFILE=mi300 harness/install-agent-stack.sh" in finished.words
    assert cluster.leftovers() == []


def test_bkgen_itself_makes_pods_for_that_profile(cluster: Host) -> None:
    repository = RUN.parent.parent.parent
    shutil.copy(repository / "bkgen.yml", cluster.root / "repository" / "bkgen.yml")
    cluster.write("nodes.json", nodes({"amd.com/gpu": "8"}))
    bkgen = cluster.root / "real-bkgen"
    bkgen.write_text(f'#!/bin/sh\nPYTHONPATH={repository} exec {sys.executable} -m bkgen "$@"\n')
    bkgen.chmod(0o755)
    cluster.run(SMOKE, VENDOR="amd", BKGEN=str(bkgen))
    pods = json.loads((cluster.root / "applied.json").read_text())["items"]
    limits = [each["spec"]["containers"][0]["resources"]["limits"] for each in pods]
    assert [limit.get("amd.com/gpu") for limit in limits] == ["1", None]
    assert not any("nvidia.com/gpu" in limit for limit in limits)


REFUSED = [
    ({"VENDOR": "amd", "PROFILE": "h200"}, {}, "profiles.h200: is for nvidia.com/gpu, not for amd"),
    ({"VENDOR": "nvidia"}, {"amd.com/gpu": "8"}, "no node offers nvidia.com/gpu"),
    ({"VENDOR": "intel"}, {"gpu.intel.com/i915": "4"}, "write gpu_resource: gpu.intel.com/i915"),
    ({"VENDOR": "intel"}, {}, "the cluster has no device class gpu.intel.com"),
    ({"VENDOR": "3dfx"}, {}, "VENDOR is '3dfx'"),
]


@pytest.mark.parametrize(("settings", "offered", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_pods_that_could_never_start_are_not_started(
    cluster: Host, settings: dict[str, str], offered: dict[str, str], said: str
) -> None:
    with_profiles(cluster, offered)
    finished = cluster.run(SMOKE, **settings)
    assert finished.status == 1, finished.all
    assert said in finished.words
    assert not cluster.calls("kubectl apply")


def test_no_profile_for_the_vendor_is_said(cluster: Host) -> None:
    (cluster.root / "repository" / "bkgen.yml").write_text("profiles: {h: {gpu_resource: nvidia.com/gpu}}\n")
    finished = cluster.run(SMOKE, VENDOR="amd")
    assert finished.status == 1
    assert "no profile has a gpu_resource of amd; there is h (nvidia.com/gpu)" in finished.words


def test_the_profile_may_be_named_by_an_option(cluster: Host) -> None:
    with_profiles(cluster, {"nvidia.com/gpu": "8"})
    cluster.write("deviceclass-gpu.intel.com", "")
    for tool in ("nvidia-smi", "amd-smi", "xpu-smi"):
        cluster.remove_tool(tool)
    named = cluster.run(SMOKE, "--profile", "xpu")
    assert "made for the profile xpu" in named.words
    assert yaml.safe_load((cluster.root / "rendered-with.yml").read_text())["default_profile"] == "xpu"
    assert cluster.run(SMOKE, "--profile").status == 2


def test_a_wait_that_was_over_says_how_long_it_was(cluster: Host) -> None:
    cluster.write("pod-stuck", "")
    assert "not ready after 0 seconds" in cluster.run(SMOKE, SMOKE_TIMEOUT="0").output


FAILING = [
    ("^kubectl get nodes", 75, "choosing the profile: `kubectl get nodes …` ended with status 7", False),
    ("^bkgen render", 1, "making the pods: `env --chdir=", False),
    ("^kubectl apply", 75, "starting the pods: `kubectl apply --filename …`", True),
    ("^kubectl exec", 1, "a check failed", True),
]


@pytest.mark.parametrize(("failing", "status", "said", "started"), FAILING, ids=[row[0] for row in FAILING])
def test_a_command_that_fails_ends_the_test_and_pods_are_removed(
    cluster: Host, failing: str, status: int, said: str, started: bool
) -> None:
    cluster.fail(failing)
    finished = cluster.run(SMOKE)
    assert finished.status == status, finished.all
    assert said in finished.words
    assert len(deleted(cluster)) == (1 if started else 0)
    assert cluster.leftovers() == []


def test_a_check_that_comes_back_without_a_verdict_has_failed(cluster: Host) -> None:
    run = cluster.root / "repository" / "k3_tests" / "smoke" / "run.sh"
    run.write_text("exit 0\n")
    finished = cluster.run(SMOKE)
    assert finished.status == 1
    assert "run.sh ended with status 0 before its last verdict" in finished.output


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
def test_a_signal_removes_the_pods_at_once(cluster: Host, number: int, status: int) -> None:
    (cluster.root / "hang").write_text("^kubectl wait")
    process = cluster.start(SMOKE)
    wait_for_file(cluster.root / "hanging", process)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == status
    assert len(deleted(cluster)) == 1
    assert cluster.leftovers() == []


WRONG = [
    ("no JSON at all\n", "smoke_pods.py: "),
    ('{"kind": "List", "items": []}\n', "not a JSON List with at least one Pod"),
    ('{"kind": "List", "items": [{"kind": "Job"}]}\n', "item 0 of the List is not a Pod with a container"),
]


@pytest.mark.parametrize(("rendered", "said"), WRONG, ids=["no JSON", "no pod", "a job"])
def test_what_is_no_list_of_pods_is_not_applied(cluster: Host, rendered: str, said: str) -> None:
    cluster.write("pods.json", rendered)
    finished = cluster.run(SMOKE)
    assert finished.status == 1
    assert said in finished.words
    assert not cluster.calls("kubectl apply")


# --- run.sh ---------------------------------------------------------------------------------------


def run_checks(host: Host, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Runs run.sh as `kubectl exec` does: from standard input. Status, and verdict and detail by check."""
    finished = subprocess.run(
        ["bash", "-s", "--", *arguments],
        input=RUN.read_text(),
        env=host.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    rows = [line.split("\t") for line in finished.stdout.splitlines()]
    return finished.returncode, {name: (verdict, detail) for name, verdict, detail in rows}


GPUS = [
    ("GPU 0: H200 (UUID: 0)\n", "1", "ok"),
    ("GPU 0: H200 (UUID: 0)\nGPU 1: H200 (UUID: 1)\n", "1", "BAD"),
    ("GPU 0: A100 (UUID: 0)\n  MIG 1g.10gb Device 0: (UUID: M)\n", "1", "ok"),
    ("No devices found.\n", "0", "ok"),
    ("No devices found.\n", "1", "BAD"),
    ("Failed to initialize NVML: Unknown Error\n", "1", "BAD"),
    ("Failed to initialize NVML: Unknown Error\n", "0", "ok"),
    ("GPU 0: H200 (UUID: 0)\n", "0", "BAD"),
    ("", "1", "BAD"),
]


@pytest.mark.parametrize(("listing", "asked", "verdict"), GPUS)
def test_the_number_of_gpus_must_be_exactly_the_one_asked_for(
    cluster: Host, listing: str, asked: str, verdict: str
) -> None:
    cluster.write("nvidia-list", listing)
    status, checks = run_checks(cluster, "--gpus", asked)
    assert checks["gpus"][0] == verdict
    assert status == (0 if verdict == "ok" else 1)


def test_amd_gpus_are_counted_with_amds_tool(cluster: Host) -> None:
    cluster.remove_tool("nvidia-smi")
    assert run_checks(cluster, "--gpus", "8")[1]["gpus"] == ("ok", "8 visible, as asked for")


def test_too_little_shared_memory_no_cache_and_no_network_are_bad(cluster: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = "{}:{}".format(*listener.getsockname())
    arguments = ("--shm-mib", "99999999", "--writable", "/proc", "--reach", closed)
    status, checks = run_checks(cluster, *arguments)
    assert status == 1
    assert {verdict for verdict, _ in checks.values()} == {"BAD"}
    assert len(checks) == 3


@pytest.mark.parametrize("arguments", [("--gpus",), ("--gpus", "many"), ("--shm-mib", "4Gi"), ("--gpu", "1")])
def test_a_mistake_in_the_options_is_no_check_that_went_well(
    cluster: Host, arguments: tuple[str, ...]
) -> None:
    assert run_checks(cluster, *arguments) == (2, {})


def test_the_suite_checks_in_a_build_what_smoke_test_checks_in_a_bare_pod(tmp_path: Path) -> None:
    repository = RUN.parent.parent.parent
    suite = yaml.safe_load(RUN.with_name("pipeline.yml").read_text())
    rendered = subprocess.run(
        [sys.executable, "-m", "bkgen", "render", "--pods", "--json", "smoke"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    plan = tmp_path / "plan"
    prepare = [
        str(repository / "harness" / "smoke_pods.py"),
        "--run",
        "r",
        "--namespace",
        "n",
        "--seconds",
        "9",
    ]
    subprocess.run(
        [sys.executable, *prepare, "--plan", str(plan)],
        input=rendered.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    told = [line.split("\t")[2:] for line in plan.read_text().splitlines()]
    assert told == [step["command"].split()[1:] for step in suite["steps"]]
    assert [arguments[:2] for arguments in told] == [["--gpus", "1"], ["--gpus", "0"]]
