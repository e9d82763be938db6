"""Rules that live by the settings: each with a repository that breaks it, one that keeps it, and one that is silent."""

from __future__ import annotations

import pytest

from bkgen.verify.slip import slip_of
from verify_samples import said_of

IMAGE = "image: 'example/ci:1'"
SETTINGS = f"""\
profiles:
  h200: {{gpu_resource: nvidia.com/gpu, {IMAGE}, node_selector: {{gpu-model: h200}}}}
  mi300: {{gpu_resource: amd.com/gpu, {IMAGE}, queue: amd-k8s, agents: {{gpu: mi300}}}}
  musa: {{pod: false, queue: MooreThreads, agents: {{gpu: s4000}}}}
"""
PIPELINE = """\
steps:
  - command: ./run.sh
    agents: {AGENTS}
    parallelism: JOBS
    timeout_in_minutes: 30
    pod: {gpus: GPUS, memory: 64Gi, shm: 8Gi, node_selector: {SELECTOR}}
"""


def said(
    settings: str = SETTINGS, *, agents: str = "", selector: str = "", gpus: int = 1, jobs: int = 1
) -> list[tuple[str, str]]:
    """Code and severity of everything said about a step with one pod."""
    text = PIPELINE.replace("AGENTS", agents).replace("SELECTOR", selector)
    text = text.replace("GPUS", str(gpus)).replace("JOBS", str(jobs))
    return [(one.code, one.severity) for one in said_of(text, settings)]


CLOSE = [("pod-node-selector-close", "warning")]
UNKNOWN = [("pod-node-selector", "error")]
LABELS = "node_labels: {gpu-model: [h200, mi300], zone: a, disk: []}\n"


@pytest.mark.parametrize(
    ("selector", "by_profiles", "by_labels"),
    [
        pytest.param("gpu-modle: h200", CLOSE, UNKNOWN, id="a typing error"),
        pytest.param("kubernets.io/arch: amd64", CLOSE, UNKNOWN, id="a typing error in Kubernetes' own"),
        pytest.param("gpu-model: h20", [], UNKNOWN, id="a value that no node has"),
        pytest.param("gpu-model: mi300", [], [], id="a value of the list"),
        pytest.param("rack: '7'", [], UNKNOWN, id="a label of nobody's"),
        pytest.param("zone: a", [], [], id="the one value"),
        pytest.param("zone: b", [], UNKNOWN, id="not the one value"),
        pytest.param("disk: anything", [], [], id="any value"),
        pytest.param("kubernetes.io/arch: amd64", [], [], id="Kubernetes' own"),
        pytest.param("node-role.kubernetes.io/gpu: ''", [], [], id="a role"),
    ],
)
def test_node_selectors(
    selector: str, by_profiles: list[tuple[str, str]], by_labels: list[tuple[str, str]]
) -> None:
    assert said(selector=selector) == by_profiles
    assert said(SETTINGS + LABELS, selector=selector) == by_labels


WAITS = [("jobs-wait-too-long", "warning")]
EIGHT = SETTINGS.replace("gpu_resource: nvidia.com/gpu,", "gpu_resource: nvidia.com/gpu, gpus: 8,")
MORE = EIGHT + f"  l40s: {{gpu_resource: nvidia.com/gpu, gpus: 4, {IMAGE}}}\n"
SOME = EIGHT + f"  l40s: {{gpu_resource: nvidia.com/gpu, {IMAGE}}}\n"


@pytest.mark.parametrize(
    ("settings", "jobs", "expected"),
    [
        pytest.param(SETTINGS, 100, [], id="nobody says how many GPUs there are"),
        pytest.param(EIGHT, 8, [], id="as many jobs as GPUs"),
        pytest.param(EIGHT, 9, WAITS, id="one job more than GPUs"),
        pytest.param(MORE, 12, [], id="GPUs of two profiles with one resource"),
        pytest.param(MORE, 13, WAITS, id="one job more than those"),
        pytest.param(SOME, 100, [], id="one of the profiles does not say it"),
        pytest.param(
            EIGHT + "limits: {pod_pending_minutes: 30}\n", 9, [], id="a controller that waits longer"
        ),
    ],
)
def test_jobs_that_wait_for_gpus(settings: str, jobs: int, expected: list[tuple[str, str]]) -> None:
    assert said(settings, jobs=jobs) == expected


NODES = SETTINGS.replace("gpu_resource: nvidia.com/gpu,", "gpu_resource: nvidia.com/gpu, gpus_per_node: 32,")
LARGER = NODES + f"  l40s: {{gpu_resource: nvidia.com/gpu, gpus_per_node: 4, {IMAGE}}}\n"


@pytest.mark.parametrize(
    ("settings", "gpus", "expected"),
    [
        pytest.param(SETTINGS, 16, [], id="sixteen"),
        pytest.param(SETTINGS, 64, [("pod-gpus-many", "warning")], id="sixty-four"),
        pytest.param(NODES, 32, [], id="as many as a node has"),
        pytest.param(NODES, 33, [("pod-gpus-above-node", "error")], id="more than a node has"),
        pytest.param(LARGER, 32, [], id="as many as the larger of two kinds of node"),
        pytest.param(
            SETTINGS.replace("nvidia.com/gpu,", "nvidia.com/mig-1g.10gb,"), 56, [], id="slices of GPUs"
        ),
    ],
)
def test_gpus_of_one_pod(settings: str, gpus: int, expected: list[tuple[str, str]]) -> None:
    assert said(settings, gpus=gpus) == expected


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        pytest.param("queue: k8ss", [("queue-close", "warning")], id="a letter too many"),
        pytest.param("queue: amd-kk8s", [("queue-close", "warning")], id="almost a profile's"),
        pytest.param("queue: morethreads", [], id="two errors are none"),
        pytest.param("queue: moorethreads", [("queue-close", "warning")], id="small letters"),
        pytest.param("queue: k8s", [], id="the settings' queue"),
        pytest.param("queue: amd-k8s", [], id="a profile's queue"),
        pytest.param("queue: release", [], id="a queue of their own"),
        pytest.param("queue: amd-k8s, gpu: mi300", [], id="a profile's tag"),
        pytest.param("queue: amd-k8s, gpu: mi350", [("tag-unknown", "warning")], id="a tag of no profile"),
        pytest.param("queue: amd-k8s, os: linux", [("tag-unknown", "warning")], id="another tag"),
        pytest.param("os: linux", [], id="a queue whose profiles name no tags"),
        pytest.param("queue: MooreThreads, os: linux", [], id="a queue of machines"),
    ],
)
def test_queues_and_tags(agents: str, expected: list[tuple[str, str]]) -> None:
    assert said(agents=agents) == expected


@pytest.mark.parametrize(
    ("written", "meant", "is_slip"),
    [
        ("k8ss", "k8s", True),
        ("ks8", "k8s", True),
        ("K8S", "k8s", True),
        ("gpu_model", "gpu-model", True),
        ("gpu-modle", "gpu-model", True),
        ("gpu-modal", "gpu-model", True),
        ("kubernets.io/os", "kubernetes.io/os", True),
        ("kubernetes.io/hostnam", "kubernetes.io/hostname", True),
        ("k8s", "k8s", False),
        ("k3s", "k8s", False),
        ("k8s-2", "k8s", False),
        ("k8s2", "k8s", False),
        ("pool-a", "pool-b", False),
        ("builder-cpu", "builder-gpu", False),
        ("queue-east", "queue-west", False),
        ("h100", "h200", False),
        ("l40s", "l40", False),
        ("mi300x", "mi300", False),
        ("amd-k8s", "k8s", False),
        ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", False),
        ("a", "b", False),
        ("", "a", False),
        ("{{matrix.queue}}", "k8s", False),
    ],
)
def test_a_typing_error_is_told_from_another_name(written: str, meant: str, is_slip: bool) -> None:
    assert slip_of(written, ("something-else", meant)) == (meant if is_slip else None)
