"""setup-cluster.sh on a host of stand-ins."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster_host import HELM, K3S, K3S_SOURCE, Finished, Host, copy_host, digest, make_host, wait_for_file

SETUP = "setup-cluster.sh"
CHANGES = (
    "curl",
    "installer",
    "helm pull",
    "helm upgrade",
    "docker build",
    "docker save",
    "systemctl restart",
)


@dataclass(frozen=True)
class FirstRun:
    """A host on which setup-cluster.sh has run once, what it said and what it called."""

    host: Host
    finished: Finished
    calls: list[str]

    def calling(self, beginning: str) -> list[str]:
        return [call for call in self.calls if call.startswith(beginning)]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    host = make_host(tmp_path_factory.mktemp("first") / "host")
    pins = {
        "K3S_SHA256": digest((host.root / "web" / K3S / "k3s").read_bytes()),
        "HELM_SHA256": digest((host.root / "web" / HELM).read_bytes()),
        "NVIDIA_GPU_OPERATOR_SHA256": digest(b"chart gpu-operator\n"),
    }
    finished = host.run(SETUP, **pins)
    run = FirstRun(host, finished, host.calls())
    host.forget()
    return run


@pytest.fixture
def bare(tmp_path: Path) -> Host:
    return make_host(tmp_path / "host")


@pytest.fixture
def ready(first: FirstRun, tmp_path: Path) -> Host:
    """A host on which setup-cluster.sh has nothing left to do."""
    return copy_host(first.host, tmp_path / "host")


def test_the_first_run_sets_up_everything(first: FirstRun) -> None:
    host = first.host
    assert first.finished.status == 0, first.finished.all
    assert "8 nvidia.com/gpu; next: harness/smoke-test.sh" in first.finished.words
    assert first.calling("installer") == [
        f"installer true {host.bin} server --disable=traefik --write-kubeconfig-mode=0600"
    ]
    assert {"k3s", "helm", "kubectl"} <= {path.name for path in host.bin.iterdir()}
    assert [line.split()[0] for line in (host.state / "images").read_text().splitlines()] == [
        "docker.io/lmcache/ci-base:latest",
        "docker.io/library/bkgen:latest",
    ]
    assert "--build-arg GPU_ARCH_LIST=9.0 " in first.calling("docker build --label")[0]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in host.data.iterdir()}
    assert modes == {"huggingface": 0o775, "datasets": 0o775, "gds-scratch": 0o1777}
    marks = {path.name for path in (host.root / "marks").iterdir()}
    assert marks == {"k3s", "helm", "gpu-operator", "namespace@gpu-operator"} | {
        f"{kind}-{image}" for kind in ("image", "imported") for image in ("ci-base", "bkgen")
    }
    assert host.leftovers() == []


def test_nvidias_runtime_is_there_but_is_not_the_default(first: FirstRun) -> None:
    (operator,) = first.calling("helm upgrade --install gpu-operator ")
    assert "gpu-operator-v25.10.1.tgz" in operator
    assert "toolkit.env[1].name=CONTAINERD_SET_AS_DEFAULT --set-string toolkit.env[1].value=false" in operator
    assert first.calls.index("systemctl restart k3s") > first.calls.index(operator)


def test_every_download_is_over_tls_and_its_sum_is_printed_for_pinning(first: FirstRun) -> None:
    downloads = first.calling("curl")
    assert len(downloads) == 7
    assert all("--proto =https --proto-redir =https" in call for call in downloads)
    for address in (f"{K3S}/k3s", f"{K3S_SOURCE}/install.sh", HELM):
        assert digest((first.host.root / "web" / address).read_bytes()) in first.finished.words


def test_the_second_run_has_nothing_to_do(ready: Host) -> None:
    finished = ready.run(SETUP)
    assert finished.status == 0, finished.all
    assert finished.words.count("already done") == 6
    assert "warning" not in finished.words
    assert not ready.calls(*CHANGES)


def test_directories_keep_what_lies_in_them(ready: Host) -> None:
    model = ready.data / "huggingface" / "model"
    model.write_text("weights")
    model.chmod(0o640)
    (ready.data / "huggingface").chmod(0o700)
    assert ready.run(SETUP).status == 0
    assert stat.S_IMODE((ready.data / "huggingface").stat().st_mode) == 0o775
    assert stat.S_IMODE(model.stat().st_mode) == 0o640


def nothing(host: Host) -> None:
    """The step is not done yet on a bare host, or is prepared by others."""


def no_k3s(host: Host) -> None:
    (host.bin / "k3s").unlink()


def no_helm(host: Host) -> None:
    (host.bin / "helm").unlink()


def no_operator(host: Host) -> None:
    (host.state / "releases" / "gpu-operator-gpu-operator").unlink()
    (host.root / "containerd.toml").write_text("")


def no_images(host: Host) -> None:
    host.write("images", "")


# One command of each step here, the others among the slow tests.
STEPS = [
    ("K3s", no_k3s, r"^curl.*/k3s$"),
    ("K3s", no_k3s, r"^installer"),
    ("Helm", no_helm, r"^curl.*get.helm.sh"),
    ("GPUs (nvidia)", no_operator, r"^helm upgrade"),
    ("image lmcache/ci-base:latest", no_images, r"^docker save lmcache"),
    ("image bkgen:latest", no_images, r"^docker build.*bkgen.Dockerfile"),
]
MORE_STEPS = [
    ("K3s", no_k3s, r"^curl.*/sha256sum-amd64.txt"),
    ("K3s", no_k3s, r"^curl.*/install.sh$"),
    ("K3s", nothing, r"^systemctl is-active"),
    ("K3s", nothing, r"^kubectl wait.*node"),
    ("Helm", nothing, r"^helm version"),
    ("GPUs (nvidia)", no_operator, r"^helm pull gpu-operator"),
    ("GPUs (nvidia)", no_operator, r"rollout status daemonset"),
    ("GPUs (nvidia)", no_operator, r"^systemctl restart"),
    ("GPUs (nvidia)", nothing, r"^kubectl get nodes --output jsonpath"),
    ("image lmcache/ci-base:latest", no_images, r"^docker build.*ci-base"),
    ("image lmcache/ci-base:latest", no_images, r"^k3s ctr images import"),
]


@pytest.mark.parametrize(
    ("step", "undo", "failing"),
    [*STEPS, *(pytest.param(*step, marks=pytest.mark.slow) for step in MORE_STEPS)],
    ids=[f"{step}: {failing}" for step, _, failing in (*STEPS, *MORE_STEPS)],
)
def test_a_step_that_fails_is_named_and_ends_the_run(
    ready: Host, step: str, undo: Callable[[Host], None], failing: str
) -> None:
    undo(ready)
    ready.fail(failing)
    finished = ready.run(SETUP, NODE_TIMEOUT="0", GPU_TIMEOUT="0")
    assert finished.status == 75, finished.all
    assert f"{SETUP}: {step}: " in finished.words
    assert "hint:" in finished.words
    assert "this host is ready" not in finished.words
    assert ready.leftovers() == []


def test_a_run_that_failed_is_taken_up_where_it_stopped(bare: Host) -> None:
    bare.fail("^helm upgrade")
    assert bare.run(SETUP).status == 75
    bare.fail()
    bare.forget()
    again = bare.run(SETUP)
    assert again.status == 0, again.all
    assert again.words.count("already done") == 2
    assert not bare.calls("installer")
    assert all("index.yaml" in call for call in bare.calls("curl"))


def test_a_directory_that_cannot_be_made_fails_the_run(ready: Host) -> None:
    finished = ready.run(SETUP, DATA_OWNER="no-such-user:no-such-group")
    assert finished.status == 75
    assert "directories: `install -d -m …` ended with status 1" in finished.words


DAMAGED = [
    (f"{K3S}/k3s", "k3s has the SHA-256"),
    (f"{K3S_SOURCE}/install.sh", "install.sh has the SHA-256"),
    (HELM, "helm-v3.20.0-linux-amd64.tar.gz has the SHA-256"),
]


@pytest.mark.parametrize(("address", "said"), DAMAGED, ids=["K3s", "its installer", "Helm"])
def test_a_download_with_another_sum_is_thrown_away_and_never_run(
    bare: Host, address: str, said: str
) -> None:
    bare.serve(address, b"#!/bin/sh\ntouch owned\n")
    finished = bare.run(SETUP)
    assert finished.status == 1
    assert said in finished.words
    assert "the publisher's list says" in finished.words
    assert not bare.calls("docker")
    assert address == HELM or not bare.calls("installer")
    assert not (bare.bin / Path(address).name.split("-")[0]).exists()


PINS = [
    ("K3S_SHA256", no_k3s),
    ("K3S_INSTALLER_SHA256", no_k3s),
    ("HELM_SHA256", no_helm),
    ("NVIDIA_GPU_OPERATOR_SHA256", no_operator),
]


@pytest.mark.parametrize(("setting", "undo"), PINS, ids=[setting for setting, _ in PINS])
def test_a_sum_pinned_in_the_settings_must_match_too(
    ready: Host, setting: str, undo: Callable[[Host], None]
) -> None:
    undo(ready)
    finished = ready.run(SETUP, **{setting: "0" * 64})
    assert finished.status == 1
    assert f"but config.env says {'0' * 64}" in finished.words


def test_a_list_without_the_file_is_no_proof(bare: Host) -> None:
    bare.serve(f"{K3S}/sha256sum-amd64.txt", f"{'1' * 64}  k3s-arm64\n".encode())
    finished = bare.run(SETUP)
    assert finished.status == 1
    assert "the publisher's list has no SHA-256 for k3s" in finished.words


def test_rebuild_image_builds_both_images_once_more(ready: Host) -> None:
    finished = ready.run(SETUP, REBUILD_IMAGE="1")
    assert finished.status == 0, finished.all
    assert len(ready.calls("docker build")) == 2
    assert len(ready.calls("k3s ctr images import")) == 2


def test_an_image_for_other_gpus_is_built_again_without_being_asked(ready: Host) -> None:
    ready.write("compute-cap", "10.0\n9.0\n10.0\n")
    assert ready.run(SETUP).status == 0
    (build,) = ready.calls("docker build")
    assert "--build-arg GPU_ARCH_LIST=9.0;10.0 " in build


def test_a_changed_dockerfile_is_built_again_and_only_that_one(ready: Host) -> None:
    with (ready.harness / "bkgen.Dockerfile").open("a") as file:
        file.write("# changed\n")
    assert ready.run(SETUP).status == 0
    (build,) = ready.calls("docker build")
    assert "--tag bkgen:latest" in build


def test_an_image_that_docker_has_forgotten_but_containerd_has_is_done(ready: Host) -> None:
    for label in (ready.state / "labels").iterdir():
        label.unlink()
    ready.fail("^docker image inspect")
    assert ready.run(SETUP).status == 0
    assert not ready.calls("docker build")


def test_a_newer_k3s_is_never_replaced_by_an_older_one(ready: Host) -> None:
    ready.write("k3s-version", "v1.35.0+k3s1")
    finished = ready.run(SETUP)
    assert finished.status == 1
    assert "set K3S_VERSION=v1.35.0+k3s1" in finished.words
    assert not ready.calls("curl")


def test_a_k3s_that_was_there_before_is_not_marked_as_ours(bare: Host) -> None:
    (bare.bin / "k3s").symlink_to("../bin/stand-in")
    bare.write("k3s-version", "v1.33.6+k3s1")
    bare.fail("^installer")
    assert bare.run(SETUP).status == 75
    assert not (bare.root / "marks").exists()


def test_a_node_that_offers_fewer_gpus_than_the_host_has_is_not_ready(ready: Host) -> None:
    ready.write("gpus", "6\n")
    finished = ready.run(SETUP, GPU_TIMEOUT="0")
    assert finished.status == 75
    assert "the node offers 6 of 8 nvidia.com/gpu" in finished.words


LISTINGS = [
    ("Failed to initialize NVML: Driver/library version mismatch\n", "18", "ended with status 18"),
    ("No devices found.\n", "0", "lists something that is no GPU"),
    ("", "0", "lists no GPU"),
    (
        "GPU 0: NVIDIA H200 (UUID: GPU-0)\nUnable to determine the device handle for GPU1: Unknown Error\n",
        "0",
        "lists something that is no GPU",
    ),
]


@pytest.mark.parametrize(
    ("listing", "status", "said"), LISTINGS, ids=["mismatch", "none found", "empty", "one is lost"]
)
def test_a_host_whose_gpus_cannot_be_counted_is_not_set_up(
    bare: Host, listing: str, status: str, said: str
) -> None:
    bare.write("nvidia-list", listing)
    bare.write("nvidia-status", status)
    finished = bare.run(SETUP)
    assert finished.status == 1
    assert said in finished.words
    assert not bare.calls("curl")


@pytest.mark.parametrize("answer", ["[N/A]\n", "", "9.0\nERR!\n", "No devices were found\n"])
def test_an_architecture_that_cannot_be_read_is_not_guessed(bare: Host, answer: str) -> None:
    bare.write("compute-cap", answer)
    finished = bare.run(SETUP)
    assert finished.status == 1
    assert "no GPU architecture" in finished.words
    assert not bare.calls("curl")


def test_mig_slices_count_in_their_gpus_place(ready: Host) -> None:
    ready.write(
        "nvidia-list", "GPU 0: NVIDIA A100 (UUID: GPU-0)\n" + "  MIG 1g.10gb Device 0: (UUID: MIG)\n" * 7
    )
    ready.write("gpus", "7\n")
    finished = ready.run(SETUP)
    assert finished.status == 0, finished.all
    assert "ready: 7 nvidia.com/gpu" in finished.words


def test_amd_gpus_get_amds_device_plugin_and_image(ready: Host) -> None:
    finished = ready.run(SETUP, VENDOR="amd")
    assert finished.status == 0, finished.all
    assert "8 amd.com/gpu" in finished.words
    assert "amd-gpu-0.21.0.tgz" in ready.calls("helm upgrade")[0]
    (build,) = ready.calls("docker build")
    assert "BASE_IMAGE=rocm/dev-ubuntu-24.04:7.1.1-complete --build-arg GPU_ARCH_LIST=gfx942 " in build
    assert not ready.calls("nvidia-smi", "systemctl restart")


def test_intel_gpus_get_intels_device_plugin_and_image(ready: Host) -> None:
    ready.write("gpus", "2\n")
    finished = ready.run(SETUP, VENDOR="intel")
    assert finished.status == 0, finished.all
    (apply,) = ready.calls("kubectl apply")
    assert apply.endswith("/deployments/gpu_plugin?ref=v0.35.0")
    assert "BASE_IMAGE=intel/deep-learning-essentials:2025.3.2" in ready.calls("docker build")[0]
    ready.forget()
    assert ready.run(SETUP, VENDOR="intel").status == 0
    assert not ready.calls("kubectl apply", *CHANGES)


def test_the_vendor_is_found_by_its_tool(bare: Host) -> None:
    bare.remove_tool("nvidia-smi")
    assert "amd.com/gpu" in bare.run(SETUP, "--dry-run").output.replace("\\", "")


def test_no_vendors_tool_and_a_wrong_vendor_are_said(bare: Host) -> None:
    for tool in ("nvidia-smi", "amd-smi", "xpu-smi"):
        bare.remove_tool(tool)
    none, wrong = bare.run(SETUP), bare.run(SETUP, VENDOR="3dfx")
    assert (none.status, wrong.status) == (1, 1)
    assert "none of nvidia-smi, amd-smi and xpu-smi" in none.words
    assert "VENDOR is '3dfx'" in wrong.words


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
def test_a_signal_ends_the_run_and_its_command_at_once(ready: Host, number: int, status: int) -> None:
    no_images(ready)
    (ready.root / "hang").write_text("^docker build")
    process = ready.start(SETUP)
    hanging = wait_for_file(ready.root / "hanging", process)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == status
    with pytest.raises(ProcessLookupError):
        os.kill(int(hanging), 0)
    assert ready.leftovers() == []
