"""The cluster scripts obey a signal at once, whatever they are waiting for, and leave nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster_host import Host, copy_host, make_cluster, make_host, wait_for_file

INSTALL, SETUP, SMOKE = "install-agent-stack.sh", "setup-cluster.sh", "smoke-test.sh"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A cluster with a controller, a token file and a pod to test."""
    host = make_cluster(tmp_path_factory.mktemp("template") / "host")
    (host.root / "agent-token").write_text("bkct_token\n")
    assert host.run(INSTALL, "--agent-token-file", "agent-token").status == 0
    pod = {
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "container-0", "image": "i"}]},
    }
    host.write("pods.json", json.dumps({"kind": "List", "items": [pod]}) + "\n")
    (host.root / "repository" / "k3_tests" / "smoke" / "run.sh").write_text("printf 'gpus\\tok\\tfine\\n'\n")
    host.forget()
    return host


@pytest.fixture
def cluster(template: Host, tmp_path: Path) -> Iterator[Host]:
    host = copy_host(template, tmp_path / "host")
    yield host
    assert host.processes() == []


def hang(host: Host, pattern: str) -> None:
    (host.root / "hanging").unlink(missing_ok=True)
    (host.root / "hang").write_text(pattern)


def stop(
    host: Host, process: subprocess.Popen[str], number: int = signal.SIGTERM, timeout: float = 10
) -> str:
    """Sends the signal as soon as the stand-in hangs; everything the script said."""
    wait_for_file(host.root / "hanging", process)
    process.send_signal(number)
    # Ends only when nobody holds the pipes any more: neither the script nor what it has started.
    output, words = process.communicate(timeout=timeout)
    return output + words


def some_are_slow(patterns: list[str]) -> list[object]:
    return [pytest.param(p, marks=[pytest.mark.slow] if n % 3 else []) for n, p in enumerate(patterns)]


@pytest.mark.parametrize(
    "pattern",
    some_are_slow(
        [
            "^kubectl create secret",
            "^kubectl get nodes",
            "^kubectl get namespace",
            "^kubectl diff",
            "^helm list",
            "^helm history",
            "^kubectl get pods.*jsonpath",
            "^kubectl rollout status",
            "^kubectl logs",
        ]
    ),
)
def test_the_installation_ends_and_no_token_stays_behind(cluster: Host, pattern: str) -> None:
    hang(cluster, pattern)
    process = cluster.start(INSTALL, "--agent-token-file", "agent-token")
    said = stop(cluster, process)
    assert process.returncode == 143
    assert "bkct_token" not in said
    assert cluster.leftovers() == []


def test_the_installation_ends_while_it_collects_reasons(cluster: Host) -> None:
    cluster.write("controller-log", "no reason\n")
    hang(cluster, "get events")
    process = cluster.start(INSTALL, "--agent-token-file", "agent-token")
    stop(cluster, process)
    assert process.returncode == 143
    assert cluster.leftovers() == []


def test_the_installation_ends_while_nobody_sends_the_token(cluster: Host) -> None:
    process = subprocess.Popen(
        [str(cluster.harness / INSTALL)],
        env=cluster.environment(),
        cwd=cluster.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    # The values are generated last before the token is read.
    for line in process.stderr:
        if "values.py" in line:
            break
    wait_for_file(cluster.root / "calls", process)
    while not any("sed --unbuffered" in command for command in cluster.processes()):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 143
    assert cluster.leftovers() == []


@pytest.mark.parametrize(
    "pattern",
    some_are_slow(
        ["^docker save", "^k3s ctr images import", "^nvidia-smi -L", "^k3s ctr images ls", "^k3s --ver"]
    ),
)
def test_the_setup_ends_with_everything_it_has_started(tmp_path: Path, pattern: str) -> None:
    host = make_host(tmp_path / "host")
    hang(host, pattern)
    process = host.start(SETUP)
    stop(host, process)
    assert process.returncode == 143
    assert host.processes() == []
    assert host.leftovers() == []


@pytest.mark.slow
def test_a_command_that_does_not_listen_is_killed_in_the_end(cluster: Host) -> None:
    (cluster.root / "deaf").write_text("")
    hang(cluster, "^kubectl create secret")
    process = cluster.start(INSTALL, "--agent-token-file", "agent-token")
    stop(cluster, process, timeout=20)
    assert process.returncode == 143
    assert cluster.leftovers() == []


# --- The smoke test's pods ------------------------------------------------------------------------


def refuse_deletion(host: Host) -> None:
    host.fail("^kubectl delete pods")


def swallow_deletion(host: Host) -> None:
    hang(host, "^kubectl delete pods")


@pytest.mark.parametrize("trouble", [refuse_deletion, swallow_deletion], ids=["refused", "hanging"])
def test_pods_that_cannot_be_removed_are_named_and_are_no_success(
    cluster: Host, trouble: Callable[[Host], None]
) -> None:
    trouble(cluster)
    finished = cluster.run(SMOKE, CLEANUP_TIMEOUT="1")
    assert finished.status == 75, finished.all
    (line,) = [line for line in finished.words.splitlines() if "these pods could not be removed" in line]
    (applied,) = json.loads((cluster.root / "applied.json").read_text())["items"]
    assert line.endswith(f": {applied['metadata']['name']}")
    assert "hint: once the cluster answers: kubectl delete pods --namespace default" in finished.words
    assert cluster.leftovers() == []


def test_a_removal_that_hangs_ends_at_a_signal(cluster: Host) -> None:
    swallow_deletion(cluster)
    process = cluster.start(SMOKE)
    said = stop(cluster, process)
    assert process.returncode == 143
    assert "these pods could not be removed: bkgen-smoke-" in said
    assert cluster.leftovers() == []


def test_a_check_that_failed_stays_the_reason_though_pods_are_left(cluster: Host) -> None:
    (cluster.root / "repository" / "k3_tests" / "smoke" / "run.sh").write_text(
        "printf 'gpus\\tBAD\\tno\\n'; exit 1\n"
    )
    refuse_deletion(cluster)
    finished = cluster.run(SMOKE)
    assert finished.status == 1
    assert "these pods could not be removed" in finished.words
