"""Pods beyond the two examples of each rule: sound ones, values, resources and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from bkgen.verify import PodRules, verify_pod, verify_step
from bkgen.verify.values import image_parts, quantity
from bkgen.verify.volumes import is_allowed
from verify_samples import (
    LOCAL,
    SHM_MOUNT,
    SHM_VOLUME,
    codes,
    container,
    device_pod,
    gpu_pod,
    pod,
    step_codes,
    with_pod,
)

# ---------------------------------------------------------------- sound pods are left in peace


def test_the_guide_s_own_step_lacks_a_memory_limit_and_shared_memory_and_nothing_else() -> None:
    step = {
        "label": ":test_tube: My Test",
        "command": "k3_tests/my-test/run.sh",
        "timeout_in_minutes": 30,
        "agents": {"queue": "k8s"},
        "plugins": [
            {
                "kubernetes": {
                    "podSpec": {
                        "containers": [
                            {
                                "name": "container-0",
                                "image": "lmcache/ci-base:latest",
                                "imagePullPolicy": "Never",
                                "resources": {"limits": {"nvidia.com/gpu": 1}},
                                "volumeMounts": [
                                    {"name": "hf-cache", "mountPath": "/root/.cache/huggingface"}
                                ],
                            }
                        ],
                        "volumes": [
                            {
                                "name": "hf-cache",
                                "hostPath": {"path": "/data/huggingface", "type": "DirectoryOrCreate"},
                            }
                        ],
                    }
                }
            }
        ],
    }
    assert [one.code for one in verify_step(step)] == ["pod-memory-limit", "pod-shm-missing"]


SOUND: dict[str, dict[str, Any]] = {
    "one GPU with everything": gpu_pod(),
    "a whole node": pod(
        container(
            resources={"limits": {"memory": "512Gi", "nvidia.com/gpu": "8"}},
            volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}],
        ),
        volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}],
    ),
    "docker in a privileged pod": pod(
        container(
            securityContext={"privileged": True},
            volumeMounts=[{"name": "docker-sock", "mountPath": "/var/run/docker.sock"}],
        ),
        volumes=[{"name": "docker-sock", "hostPath": {"path": "/var/run/docker.sock"}}],
    ),
    "a MIG slice": device_pod(**{"nvidia.com/mig-1g.10gb": 1}),
    "a device class": pod(
        container(
            resources={"limits": {"memory": "64Gi", "deviceclass.resource.kubernetes.io/gpu.intel.com": "1"}}
        )
    ),
    "a claim of dynamic resources": pod(
        container(resources={"limits": {"memory": "64Gi"}, "claims": [{"name": "gpu"}]}),
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    ),
    "a CPU pod on a CUDA image": pod(
        container(image="nvidia/cuda:12.8.0", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])
    ),
    "memory limited for the pod as a whole": pod(
        container(resources={}), resources={"limits": {"memory": "64Gi", "cpu": "8"}}
    ),
    "a mount of the controller's own workspace": pod(
        container(volumeMounts=[{"name": "workspace", "mountPath": "/workspace"}])
    ),
    "a network device beside a GPU": device_pod(**{"nvidia.com/gpu": 1, "rdma/hca_shared": 1}),
    "a GPU and the node's own shared memory": pod(
        container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}}), hostIPC=True
    ),
    "a GPU and shared memory that the patch adds": {
        **pod(container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}})),
        "podSpecPatch": {
            "containers": [{"name": "container-0", "volumeMounts": [SHM_MOUNT]}],
            "volumes": [SHM_VOLUME],
        },
    },
    "a GPU and shared memory for all containers": {
        **pod(container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}}), volumes=[SHM_VOLUME]),
        "extraVolumeMounts": [SHM_MOUNT],
    },
}


@pytest.mark.parametrize("plugin", SOUND.values(), ids=SOUND.keys())
def test_a_sound_pod_has_no_finding(plugin: dict[str, Any]) -> None:
    assert verify_pod(plugin, LOCAL) == ()


# ---------------------------------------------------------------- values

QUANTITIES: list[tuple[Any, float | None]] = [
    ("1", 1),
    ("0", 0),
    ("1.5", 1.5),
    (".5", 0.5),
    ("1.", 1),
    ("+2", 2),
    ("-1", -1),
    ("500m", 0.5),
    ("1k", 1000),
    ("1Ki", 1024),
    ("2Gi", 2 * 1024**3),
    ("1E", 10**18),
    ("1e3", 1000),
    ("1E3", 1000),
    ("1e-3", 0.001),
    (8, 8),
    (0.5, 0.5),
    ("", None),
    ("1 Gi", None),
    (" 1", None),
    ("1K", None),
    ("1KiB", None),
    ("1GB", None),
    ("1gi", None),
    ("Gi", None),
    ("1e", None),
    ("1e999", None),
    ("0x10", None),
    ("1_000", None),
    ("१", None),
    ("NaN", None),
    (float("inf"), None),
    (True, None),
    (None, None),
]


@pytest.mark.parametrize(("written", "number"), QUANTITIES, ids=[repr(written) for written, _ in QUANTITIES])
def test_a_quantity_is_read_as_the_api_server_reads_it(written: Any, number: float | None) -> None:
    found = quantity(written)
    assert (None if found is None else float(found)) == number


IMAGES: list[tuple[str, tuple[str, str] | None]] = [
    ("ubuntu", ("ubuntu", "")),
    ("ubuntu:24.04", ("ubuntu", "24.04")),
    ("lmcache/ci-base:latest", ("lmcache/ci-base", "latest")),
    ("localhost:5000/x", ("localhost:5000/x", "")),
    ("Registry.example.com/x:1", ("Registry.example.com/x", "1")),
    ("ghcr.io/a/b__c-d.e:V1", ("ghcr.io/a/b__c-d.e", "V1")),
    (f"ubuntu@sha256:{'a' * 64}", ("ubuntu", "")),
    ("LMCache/ci-base", None),
    ("ubuntu:", None),
    ("ubuntu:a:b", None),
    ("ub untu", None),
    ("$IMAGE", None),
    ("ubuntu@sha256:short", None),
    ("/ubuntu", None),
    ("", None),
]


@pytest.mark.parametrize(("written", "parts"), IMAGES, ids=[repr(written) for written, _ in IMAGES])
def test_an_image_reference_is_taken_apart_or_refused(written: str, parts: tuple[str, str] | None) -> None:
    found = image_parts(written)
    assert (found and found[:2]) == parts


ALLOWED = [
    ("/data/huggingface", ("/data/**",), True),
    ("/data", ("/data/**",), True),
    ("/data/", ("/data",), True),
    ("/data/x", ("/data",), False),
    ("/database", ("/data/**",), False),
    ("/data/a/b/c", ("/data/**",), True),
    ("/data/a", ("/data/*",), True),
    ("/data/a/b", ("/data/*",), False),
    ("/mnt/nvme3/x", ("/mnt/nvme*/**",), True),
    ("/data//x", ("/data/**",), True),
    ("/", ("/data/**",), False),
    ("/", ("/**",), True),
    ("/etc", (), False),
]


@pytest.mark.parametrize(
    ("path", "patterns", "expected"), ALLOWED, ids=[f"{p} in {q}" for p, q, _ in ALLOWED]
)
def test_a_host_path_is_held_against_the_allow_list(
    path: str, patterns: tuple[str, ...], expected: bool
) -> None:
    assert is_allowed(path, patterns) == expected


# ---------------------------------------------------------------- resources


DEVICES: dict[str, tuple[dict[str, Any], str | None]] = {
    "nvidia.com/gpu": ({"nvidia.com/gpu": "1"}, None),
    "zero GPUs": ({"nvidia.com/gpu": 0}, None),
    "a whole number with a suffix": ({"example.com/tokens": "1k"}, "pod-resource-unknown"),
    "half a GPU": ({"nvidia.com/gpu": 0.5}, "pod-device-fraction"),
    "500m of a GPU": ({"nvidia.com/gpu": "500m"}, "pod-device-fraction"),
    "a negative GPU": ({"nvidia.com/gpu": -1}, "pod-quantity"),
    "GPUs in words": ({"nvidia.com/gpu": "many"}, "pod-quantity"),
    "a plural": ({"nvidia.com/gpus": 1}, "pod-resource-misspelt"),
    "a misspelt vendor": ({"nvdia.com/gpu": 1}, "pod-resource-misspelt"),
    "a vendor in the wrong case": ({"huawei.com/ascend910": 1}, "pod-resource-misspelt"),
    "a renamed resource of a vendor": ({"nvidia.com/gpu-h100": 1}, "pod-resource-unknown"),
    "another device of a vendor": ({"nvidia.com/hostdev": 1}, "pod-resource-unknown"),
    "a MIG profile without its dot": ({"nvidia.com/mig-1g10gb": 1}, "pod-resource-misspelt"),
    "no vendor": ({"gpu": 1}, "pod-resource-name"),
    "a blank in the name": ({"nvidia.com/g pu": 1}, "pod-resource-name"),
    "a device of nobody": ({"vendor.example.org/widget": 1}, "pod-resource-unknown"),
    "another chip of Intel's": ({"fpga.intel.com/arria10": 1}, "pod-resource-unknown"),
}


@pytest.mark.parametrize(("wanted", "code"), DEVICES.values(), ids=DEVICES.keys())
def test_the_name_and_number_of_a_device(wanted: dict[str, Any], code: str | None) -> None:
    assert codes(device_pod(**wanted)) == ({code} if code else set())


def test_an_equal_request_is_fine_and_a_differing_one_is_not() -> None:
    def asking(request: Any, limit: Any) -> set[str]:
        amounts = {
            "requests": {"nvidia.com/gpu": request},
            "limits": {"memory": "64Gi", "nvidia.com/gpu": limit},
        }
        return codes(pod(container(resources=amounts, volumeMounts=[SHM_MOUNT]), volumes=[SHM_VOLUME]))

    assert asking("1", 1) == set()
    assert asking(2, 1) == {"pod-device-request"}


def test_the_devices_of_all_containers_count_together_and_init_containers_by_themselves() -> None:
    rules = PodRules(gpus_per_node={"nvidia.com/gpu": 4})
    three = container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": "3"}}, command=["./a.sh"])
    plugin = pod(three, {**three, "name": "container-1"})
    assert "pod-gpus-above-node" in codes(plugin, rules)
    plugin = pod(three, initContainers=[{**three, "name": "warm-up"}])
    assert "pod-gpus-above-node" not in codes(plugin, rules)


def test_a_patch_counts_where_it_is_merged() -> None:
    plugin = pod(container(resources={}))
    assert codes(plugin) == {"pod-memory-limit"}
    amounts: dict[str, Any] = {"limits": {"memory": "64Gi"}}
    plugin["podSpecPatch"] = {"containers": [{"name": "container-0", "resources": amounts}]}
    assert codes(plugin) == set()
    amounts["requests"] = {"memory": "96Gi"}
    (found,) = verify_pod(plugin)
    assert found.code == "pod-request-above-limit"
    assert found.path == ("podSpecPatch", "containers", 0, "resources", "requests", "memory")


def test_a_resource_class_of_the_controller_stands_in_for_a_memory_limit() -> None:
    plugin = pod(container(resources={}))
    assert step_codes(**with_pod(plugin)) == {"pod-memory-limit"}
    assert step_codes(**with_pod(plugin, agents={"queue": "k8s", "resource_class": "large"})) == set()


# ---------------------------------------------------------------- volumes


def shm(size: Any, limit: Any, **level: Any) -> set[str]:
    amounts = {"limits": {"memory": limit}} if limit else {}
    box = container(resources=amounts, volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}])
    source = {"medium": "Memory"} | ({"sizeLimit": size} if size else {})
    return codes(pod(box, volumes=[{"name": "dshm", "emptyDir": source}], **level))


def test_shared_memory_is_held_against_the_memory_limit_wherever_that_is_written() -> None:
    assert shm("16Gi", "64Gi") == set()
    assert shm("64Gi", "64Gi") == {"pod-shm-above-memory"}
    assert shm("128Gi", "64Gi") == {"pod-shm-above-memory"}
    assert shm("16Gi", None) == {"pod-memory-limit"}
    assert shm(None, "64Gi") == {"pod-shm-unlimited"}
    assert shm("16Gi", None, resources={"limits": {"memory": "8Gi"}}) == {"pod-shm-above-memory"}


@pytest.mark.parametrize("size", ["0", 0, "0Gi", "0.0"])
def test_a_size_of_nothing_is_no_size(size: Any) -> None:
    source = {"medium": "Memory", "sizeLimit": size}
    plugin = pod(container(volumeMounts=[SHM_MOUNT]), volumes=[{"name": "dshm", "emptyDir": source}])
    (found,) = verify_pod(plugin)
    assert (found.code, found.path) == (
        "pod-shm-unlimited",
        ("podSpec", "volumes", 0, "emptyDir", "sizeLimit"),
    )


SHM_SOURCES: dict[str, tuple[dict[str, Any], str | None]] = {
    "memory": ({"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}, None),
    "disk": ({"emptyDir": {"sizeLimit": "8Gi"}}, "pod-shm-on-disk"),
    "disk, by an empty medium": ({"emptyDir": {"medium": ""}}, "pod-shm-on-disk"),
    "huge pages": ({"emptyDir": {"medium": "HugePages"}}, None),
    "a claim": ({"persistentVolumeClaim": {"claimName": "shm"}}, None),
}


@pytest.mark.parametrize("gpus", [0, 1], ids=["no GPU", "a GPU"])
@pytest.mark.parametrize(("source", "code"), SHM_SOURCES.values(), ids=SHM_SOURCES.keys())
def test_what_is_mounted_at_dev_shm(source: dict[str, Any], code: str | None, gpus: int) -> None:
    limits = {"memory": "64Gi"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    box = container(resources={"limits": limits}, volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm/"}])
    assert codes(pod(box, volumes=[{"name": "dshm", **source}])) == ({code} if code else set())


def test_one_gpu_is_enough_to_need_shared_memory_be_it_a_resource_or_a_claim() -> None:
    assert codes(pod(container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}}))) == {
        "pod-shm-missing"
    }
    claimed = SOUND["a claim of dynamic resources"]
    assert codes(claimed, PodRules(gpu_claims=("one-gpu",))) == {"pod-shm-missing"}
    assert codes(claimed, PodRules(gpu_claims=("one-network-card",))) == set()


def test_shared_memory_for_the_sidecars_alone_does_not_help_the_test() -> None:
    box = container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}})
    plugin = pod(box, volumes=[SHM_VOLUME])
    assert codes({**plugin, "sidecarParams": {"extraVolumeMounts": [SHM_MOUNT]}}) == {"pod-shm-missing"}
    assert codes({**plugin, "commandParams": {"extraVolumeMounts": [SHM_MOUNT]}}) == set()


def test_two_volumes_in_memory_count_together() -> None:
    mounts = [{"name": "a", "mountPath": "/dev/shm"}, {"name": "b", "mountPath": "/ram"}]
    volumes = [{"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "40Gi"}} for name in "ab"]
    assert codes(pod(container(volumeMounts=mounts), volumes=volumes)) == {"pod-shm-above-memory"}
    assert codes(pod(container(volumeMounts=mounts[:1]), volumes=volumes[:1])) == set()


EXTRA = [{"name": "models", "mountPath": "/models"}]
MODELS = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}


@pytest.mark.parametrize("key", ["extraVolumeMounts", "checkout", "commandParams", "sidecarParams"])
def test_mounts_of_the_plugin_s_own_keys_use_volumes_and_need_them(key: str) -> None:
    extra = {key: EXTRA} if key == "extraVolumeMounts" else {key: {"extraVolumeMounts": EXTRA}}
    assert codes({**pod(volumes=[MODELS]), **extra}) == set()
    assert codes({**pod(), **extra}) == {"pod-mount-without-volume"}


def test_an_extra_mount_hides_behind_a_container_s_own_of_the_same_path() -> None:
    own = container(volumeMounts=[{"name": "scratch", "mountPath": "/models/"}])
    plugin = pod(own, volumes=[MODELS, {"name": "scratch", "emptyDir": {}}])
    assert codes({**plugin, "extraVolumeMounts": EXTRA}) == {"pod-mount-path-duplicate"}
    assert codes({**plugin, "sidecarParams": {"extraVolumeMounts": EXTRA}}) == set()


def test_a_volume_of_the_git_mirrors_counts_as_a_volume() -> None:
    mirrors = {"checkout": {"gitMirrors": {"volume": {"name": "mirrors", "hostPath": {"path": "/etc"}}}}}
    assert codes({**pod(), **mirrors}) == {"pod-host-path-not-allowed"}


def test_the_volumes_of_a_template_are_not_known_here() -> None:
    assert codes({"podTemplate": "gpu-base", "extraVolumeMounts": EXTRA}) == set()


HOST_PATHS = {
    "/var/run/docker.sock": None,
    "/run/docker.sock": None,
    "/data/models": None,
    "/run/udev": None,
    "data/models": "pod-host-path",
    "/data/../etc/passwd": "pod-host-path",
    "/": "pod-host-path-not-allowed",
    "/database": "pod-host-path-not-allowed",
    "{{matrix.path}}": "pod-host-path",
}


@pytest.mark.parametrize(("path", "code"), HOST_PATHS.items(), ids=HOST_PATHS.keys())
def test_a_host_path_must_be_plain_and_allowed(path: str, code: str | None) -> None:
    box = container(volumeMounts=[{"name": "host", "mountPath": "/host"}])
    volume = {"name": "host", "hostPath": {"path": path, "type": "Directory"}}
    assert codes(pod(box, volumes=[volume])) == ({code} if code else set())
