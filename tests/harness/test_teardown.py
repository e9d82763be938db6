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


def test_what_was_there_before_stays_though_it_was_upgraded(tmp_path: Path) -> None:
    host = make_cluster(tmp_path / "host")
    (host.bin / "k3s").symlink_to("../bin/stand-in")
    for kind in ("namespace-buildkite", "namespace-gpu-operator"):
        host.write(kind, "")
    secrets = host.root / "secrets" / "buildkite"
    secrets.mkdir(parents=True)
    (secrets / "secret-buildkite-agent-token.yaml").write_text("of somebody else\n")
    releases = host.state / "releases"
    releases.mkdir()
    (releases / "buildkite-agent-stack-k8s").write_text("agent-stack-k8s-0.40.0")
    (releases / "gpu-operator-gpu-operator").write_text("gpu-operator-v24.1.0")
    assert host.run("setup-cluster.sh").status == 0
    assert host.run("install-agent-stack.sh", stdin="bkct_token\n").status == 0
    assert len(host.calls("helm upgrade")) == 2
    host.forget()
    finished = host.run(TEARDOWN, "--yes")
    assert finished.status == 0, finished.all
    assert not host.calls("helm uninstall", "kubectl delete")


def two_controllers(host: Host) -> None:
    """One in a namespace of its own, one in a namespace that was there before."""
    host.write("namespace-team", "")
    for settings in ({}, {"AGENT_STACK_NAMESPACE": "team", "AGENT_SECRET": "team-token"}):
        finished = host.run("install-agent-stack.sh", stdin="bkct_token\n", **settings)
        assert finished.status == 0, finished.all
    host.forget()


BOTH = [
    "helm uninstall agent-stack-k8s --namespace buildkite",
    "helm uninstall agent-stack-k8s --namespace team",
    "kubectl delete secret buildkite-agent-token --namespace buildkite",
    "kubectl delete secret team-token --namespace team",
]


@pytest.mark.parametrize("settings", [{}, {"AGENT_STACK_NAMESPACE": "team"}], ids=["as usual", "team named"])
def test_every_controller_goes_and_only_the_namespace_that_was_made(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    host = make_cluster(tmp_path / "host")
    (host.bin / "k3s").symlink_to("../bin/stand-in")
    two_controllers(host)
    finished = host.run(TEARDOWN, "--yes", **settings)
    assert finished.status == 0, finished.all
    removed = [call.split(" --ignore")[0] for call in host.calls(*REMOVALS)]
    assert removed == [*BOTH, "kubectl delete namespace buildkite"]
    assert (host.state / "namespace-team").exists()
    assert not (host.root / "marks").exists()
    assert "nothing to remove" in host.run(TEARDOWN, "--yes").words


def test_k3s_goes_last_after_every_controller(installed: Host) -> None:
    two_controllers(installed)
    finished = installed.run(TEARDOWN, "--yes", AGENT_STACK_NAMESPACE="team")
    assert finished.status == 0, finished.all
    calls = [call.split(" --ignore")[0] for call in installed.calls(*REMOVALS)]
    assert calls[:4] == BOTH
    assert "kubectl delete namespace team" not in calls
    assert calls.index("k3s-uninstall.sh") > calls.index("kubectl delete namespace buildkite")


def test_images_of_every_name_that_was_used_go(installed: Host) -> None:
    assert installed.run("setup-cluster.sh", CI_IMAGE="team/tests:2").status == 0
    installed.forget()
    assert installed.run(TEARDOWN, "--yes").status == 0
    assert installed.calls("docker image rm") == [
        "docker image rm lmcache/ci-base:latest",
        "docker image rm team/tests:2",
        "docker image rm bkgen:latest",
    ]


@pytest.mark.parametrize("ours", ["k3s", "only images", "no uninstaller"])
def test_a_dry_run_shows_whatever_a_real_run_does(installed: Host, ours: str) -> None:
    two_controllers(installed)
    if ours == "only images":
        (installed.root / "marks" / "k3s").unlink()
    elif ours == "no uninstaller":
        (installed.bin / "k3s-uninstall.sh").unlink()
    shown = installed.run(TEARDOWN, "--dry-run").output
    assert not installed.calls()
    real = installed.run(TEARDOWN, "--yes")
    assert real.status == 0, real.all
    done = [line for line in real.words.splitlines() if line.startswith("+ ")]
    assert len(done) >= 10
    assert [line for line in done if line not in shown.splitlines()] == []


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
