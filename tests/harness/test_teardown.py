"""teardown.sh: removes what was installed, keeps the data, and asks first."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_host import Host, copy_host, make_cluster, make_host

TEARDOWN = "teardown.sh"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that was set up from nothing and connected to a queue, with a model on its disk."""
    host = make_host(tmp_path_factory.mktemp("template") / "host")
    assert host.run("setup-cluster.sh").status == 0
    host.write("nodes.json", '{"items": [{"status": {"allocatable": {"nvidia.com/gpu": "8"}}}]}')
    finished = host.run("install-agent-stack.sh", stdin="bkct_token\n")
    assert finished.status == 0, finished.all
    (host.data / "huggingface" / "model").write_text("weights")
    host.forget()
    return host


@pytest.fixture
def installed(template: Host, tmp_path: Path) -> Host:
    return copy_host(template, tmp_path / "host")


REMOVALS = ("helm uninstall", "kubectl delete", "k3s-", "docker image rm")


def test_everything_that_was_installed_goes_and_the_data_stays(installed: Host) -> None:
    finished = installed.run(TEARDOWN, "--yes")
    assert finished.status == 0, finished.all
    assert [call.split(" --")[0] for call in installed.calls(*REMOVALS)] == [
        "helm uninstall agent-stack-k8s",
        "kubectl delete secret buildkite-agent-token",
        "helm uninstall gpu-operator",
        "kubectl delete namespace buildkite",
        "kubectl delete namespace gpu-operator",
        "k3s-killall.sh",
        "k3s-uninstall.sh",
        "docker image rm lmcache/ci-base:latest",
        "docker image rm bkgen:latest",
    ]
    assert list(installed.bin.iterdir()) == []
    assert not (installed.root / "marks").exists()
    assert (installed.data / "huggingface" / "model").read_text() == "weights"
    assert f"kept: {installed.data}" in finished.words


def test_a_second_time_there_is_nothing_to_remove(installed: Host) -> None:
    installed.run(TEARDOWN, "--yes")
    installed.forget()
    finished = installed.run(TEARDOWN)
    assert finished.status == 0
    assert "nothing to remove" in finished.words
    assert not installed.calls()


@pytest.mark.parametrize("answer", ["no\n", "y\n", "\n", ""])
def test_anything_but_yes_removes_nothing(installed: Host, answer: str) -> None:
    finished = installed.run(TEARDOWN, stdin=answer)
    assert finished.status == 1
    assert "nothing was removed" in finished.words
    assert "this removes from gpu-host: agent-stack" in finished.words
    assert not installed.calls(*REMOVALS)


def test_yes_removes(installed: Host) -> None:
    assert installed.run(TEARDOWN, stdin="yes\n").status == 0
    assert installed.calls("k3s-uninstall.sh")


def test_where_nobody_can_answer_it_asks_for_the_option(installed: Host) -> None:
    finished = installed.run(TEARDOWN, before=("sh", "-c", 'exec "$@" </dev/null', "sh"))
    assert finished.status == 1
    assert "say --yes" in finished.words
    assert not installed.calls(*REMOVALS)


def test_a_cluster_that_was_there_before_is_left_alone(tmp_path: Path) -> None:
    host = make_cluster(tmp_path / "host")
    host.write("namespace-buildkite", "")
    (host.bin / "k3s").symlink_to("../bin/stand-in")
    assert host.run("install-agent-stack.sh", stdin="bkct_token\n").status == 0
    host.forget()
    assert host.run(TEARDOWN, "--yes").status == 0
    assert [call.split(" --")[0] for call in host.calls(*REMOVALS)] == [
        "helm uninstall agent-stack-k8s",
        "kubectl delete secret buildkite-agent-token",
    ]
    assert {"k3s", "helm", "kubectl"} <= {path.name for path in host.bin.iterdir()}


def test_images_go_from_a_k3s_that_stays(installed: Host) -> None:
    (installed.root / "marks" / "k3s").unlink()
    assert installed.run(TEARDOWN, "--yes").status == 0
    assert installed.calls("k3s ctr images rm") == [
        "k3s ctr images rm docker.io/lmcache/ci-base:latest",
        "k3s ctr images rm docker.io/library/bkgen:latest",
    ]
    assert (installed.state / "images").read_text() == ""


def test_a_broken_cluster_of_ours_goes_all_the_same(installed: Host) -> None:
    installed.fail("^kubectl get nodes")
    finished = installed.run(TEARDOWN, "--yes")
    assert finished.status == 0, finished.all
    assert "the cluster does not answer; its parts go with K3s" in finished.words
    assert not installed.calls("helm uninstall")
    assert installed.calls("k3s-uninstall.sh")


def test_a_broken_cluster_that_is_not_ours_stops_the_removal(installed: Host) -> None:
    (installed.root / "marks" / "k3s").unlink()
    installed.fail("^kubectl get nodes")
    finished = installed.run(TEARDOWN, "--yes")
    assert finished.status == 75
    assert (installed.root / "marks" / "agent-stack@buildkite").exists()


def test_a_volume_that_is_still_mounted_is_not_handed_to_the_uninstaller(installed: Host) -> None:
    pods = "/var/lib/kubelet/pods/1/volume-subpaths/cache"
    (installed.root / "mounts").write_text(f"36 35 98:0 /data/huggingface {pods} rw - ext4 /dev/sda rw\n")
    finished = installed.run(TEARDOWN, "--yes")
    assert finished.status == 75
    assert f"still mounted: {pods}" in finished.words
    assert installed.calls("k3s-killall.sh")
    assert not installed.calls("k3s-uninstall.sh")


def test_a_setup_that_stopped_before_k3s_could_remove_itself_is_cleaned_up(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    host.fail("^installer")
    assert host.run("setup-cluster.sh").status == 75
    assert (host.bin / "k3s").exists()
    finished = host.run(TEARDOWN, "--yes")
    assert finished.status == 0, finished.all
    assert list(host.bin.iterdir()) == []


@pytest.mark.parametrize(
    ("failing", "step"),
    [
        ("^helm uninstall agent-stack", "Buildkite controller in buildkite"),
        ("^k3s-uninstall.sh", "K3s"),
        pytest.param("^kubectl delete namespace", "namespace buildkite", marks=pytest.mark.slow),
        pytest.param("^docker image rm", "image lmcache/ci-base:latest", marks=pytest.mark.slow),
    ],
)
def test_a_removal_that_fails_is_named_and_can_be_taken_up_again(
    installed: Host, failing: str, step: str
) -> None:
    installed.fail(failing)
    finished = installed.run(TEARDOWN, "--yes")
    assert finished.status == 75
    assert f"{TEARDOWN}: {step}: `" in finished.words
    installed.fail()
    again = installed.run(TEARDOWN, "--yes")
    assert again.status == 0, again.all
    assert not (installed.root / "marks").exists()


@pytest.mark.parametrize("tool", ["kubectl", "helm", "docker"])
def test_a_missing_tool_is_named(installed: Host, tool: str) -> None:
    installed.remove_tool(tool)
    finished = installed.run(TEARDOWN, "--yes")
    assert finished.status == 1
    assert f"not found on the path: {tool}" in finished.words
