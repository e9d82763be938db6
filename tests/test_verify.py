"""What the rules decide beyond their two examples: values, resources, volumes, patches, dollars."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from bkgen.verify import PodRules, verify_pod, verify_step
from bkgen.verify.values import image_parts, quantity
from bkgen.verify.volumes import is_allowed

from verify_samples import gpu_pod

LOCAL = PodRules(local_images=("lmcache/ci-base",))


def container(**fields: Any) -> dict[str, Any]:
    base = {
        "name": "container-0",
        "image": "ubuntu:24.04",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"memory": "64Gi"}},
    }
    return {**base, **fields}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"podSpec": {"containers": list(containers) or [container()], **spec}}


def codes(plugin: Any, rules: PodRules = LOCAL) -> set[str]:
    return {one.code for one in verify_pod(plugin, rules)}


def step_codes(rules: PodRules = LOCAL, *, interpolate: bool = False, **step: Any) -> set[str]:
    return {one.code for one in verify_step({"command": "./run.sh", **step}, rules, interpolate=interpolate)}


def with_pod(plugin: dict[str, Any], **step: Any) -> dict[str, Any]:
    return {"plugins": [{"kubernetes": plugin}], **step}


# ---------------------------------------------------------------- sound pods are left in peace


def test_the_guide_s_own_step_has_one_warning_for_its_missing_memory_limit_and_nothing_else() -> None:
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
    assert [one.code for one in verify_step(step)] == ["pod-memory-limit"]


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
    "a MIG slice": pod(container(resources={"limits": {"memory": "64Gi", "nvidia.com/mig-1g.10gb": 1}})),
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
    "a network device beside a GPU": pod(
        container(resources={"limits": {"memory": "64Gi", "nvidia.com/gpu": 1, "rdma/hca_shared": 1}})
    ),
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
    plugin = pod(container(resources={"limits": {"memory": "64Gi", **wanted}}))
    assert codes(plugin) == ({code} if code else set())


def test_an_equal_request_is_fine_and_a_differing_one_is_not() -> None:
    def asking(request: Any, limit: Any) -> set[str]:
        amounts = {
            "requests": {"nvidia.com/gpu": request},
            "limits": {"memory": "64Gi", "nvidia.com/gpu": limit},
        }
        return codes(pod(container(resources=amounts)))

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


# ---------------------------------------------------------------- containers and patches

RESERVED = {
    "agent": "podSpec",
    "checkout": "podSpec",
    "copy-agent": "podSpec",
    "imagecheck-0": "podSpec",
    "sidecar-0": "podSpec",
}


@pytest.mark.parametrize("name", RESERVED)
def test_the_controller_s_own_container_names_are_refused(name: str) -> None:
    assert "pod-container-reserved" in codes(pod(container(name=name)))
    init = [{"name": name, "image": "busybox:1.37"}]
    assert codes(pod(initContainers=init)) == {"pod-container-reserved"}


def test_a_sidecar_may_spell_out_the_name_it_gets_anyway_and_no_other_s() -> None:
    def sidecars(*names: str) -> dict[str, Any]:
        return {**pod(), "sidecars": [{"name": name, "image": "redis:7.4"} for name in names]}

    assert codes(sidecars("sidecar-0", "sidecar-1")) == set()
    assert codes(sidecars("sidecar-1")) == {"pod-container-reserved"}


VECTORS: dict[str, tuple[list[str], str | None, bool]] = {
    "a shell with -c": (["bash", "-c", "make test"], None, True),
    "a shell by its path": (["/bin/sh", "-ec", "make test"], None, True),
    "a program and its option": (["pytest", "-x"], None, True),
    "one command": (["make test"], None, False),
    "two commands": (["make build", "make test"], None, False),
    "a shell with the vector interposer": (["bash", "-c", "make test"], "vector", False),
    "a shell with the legacy interposer": (["bash", "-c", "make test"], "legacy", True),
}


@pytest.mark.parametrize(("command", "interposer", "is_split"), VECTORS.values(), ids=VECTORS.keys())
def test_a_container_command_that_the_interposer_takes_apart(
    command: list[str], interposer: str | None, is_split: bool
) -> None:
    plugin = pod(container(command=command))
    if interposer:
        plugin["commandParams"] = {"interposer": interposer}
    assert codes(plugin) == ({"pod-command-split"} if is_split else set())


def test_a_command_from_the_patch_swallows_the_step_s_too() -> None:
    patch = {"podSpecPatch": {"containers": [{"name": "container-0", "command": ["./serve.sh"]}]}}
    assert step_codes(**with_pod({**pod(), **patch})) == {"command-swallowed"}
    assert step_codes(**with_pod(patch)) == {"command-swallowed"}


def test_one_container_with_a_command_beside_one_without_runs_the_step_once() -> None:
    plugin = pod(container(command=["./serve.sh"]), container(name="container-1"))
    assert step_codes(**with_pod(plugin)) == {"pod-several-containers"}


TARGETS: dict[str, tuple[dict[str, Any], bool]] = {
    "container-0": ({"containers": [{"name": "container-0"}]}, True),
    "agent": ({"containers": [{"name": "agent"}]}, True),
    "checkout": ({"containers": [{"name": "checkout"}]}, True),
    "copy-agent among init containers": ({"initContainers": [{"name": "copy-agent"}]}, True),
    "an image check": ({"initContainers": [{"name": "imagecheck-3"}]}, True),
    "container-1, which is not there": ({"containers": [{"name": "container-1"}]}, False),
    "checkout among init containers": ({"initContainers": [{"name": "checkout"}]}, False),
}


@pytest.mark.parametrize(("patch", "is_there"), TARGETS.values(), ids=TARGETS.keys())
def test_a_patch_must_find_its_container(patch: dict[str, Any], is_there: bool) -> None:
    assert codes({**pod(), "podSpecPatch": patch}) == (set() if is_there else {"pod-patch-target"})


def test_a_patch_of_a_template_is_not_judged_by_names_nobody_knows() -> None:
    assert codes({"podTemplate": "gpu-base", "podSpecPatch": {"containers": [{"name": "tests"}]}}) == set()


POLICIES: dict[str, tuple[str, str | None, str | None]] = {
    "a version without a policy": ("python:3.12", None, None),
    "latest without a policy": ("python:latest", None, "pod-image-policy"),
    "no tag without a policy": ("python", None, "pod-image-policy"),
    "latest, always pulled": ("python:latest", "Always", None),
    "latest, pulled once": ("python:latest", "IfNotPresent", "pod-image-stale"),
    "latest, never pulled": ("python:latest", "Never", None),
    "a digest": (f"python@sha256:{'0' * 64}", None, None),
    "a local image, never pulled": ("lmcache/ci-base:latest", "Never", None),
    "a local image, pulled if absent": ("lmcache/ci-base:latest", "IfNotPresent", None),
    "a local image without a policy": ("lmcache/ci-base:latest", None, "pod-image-local"),
    "a local image, always pulled": ("lmcache/ci-base:1", "Always", "pod-image-local"),
}


@pytest.mark.parametrize(("image", "policy", "code"), POLICIES.values(), ids=POLICIES.keys())
def test_an_image_and_its_pull_policy(image: str, policy: str | None, code: str | None) -> None:
    assert codes(pod(container(image=image, imagePullPolicy=policy))) == ({code} if code else set())


# ---------------------------------------------------------------- labels, selectors, tolerations


@pytest.mark.parametrize(
    ("label", "value", "is_valid"),
    [
        ("team", "cache", True),
        ("example.com/team", "", True),
        ("team", "x" * 63, True),
        ("team", "x" * 64, False),
        ("team", "-cache", False),
        ("team", "a b", False),
        ("te am", "cache", False),
        ("/team", "cache", False),
        ("team/", "cache", False),
        ("team", "{{matrix}}", True),
    ],
)
def test_labels_are_what_kubernetes_takes(label: str, value: str, is_valid: bool) -> None:
    assert codes({**pod(), "metadata": {"labels": {label: value}}}) == (
        set() if is_valid else {"pod-label-invalid"}
    )


def test_an_annotation_may_hold_any_text_under_a_valid_name() -> None:
    assert codes({**pod(), "metadata": {"annotations": {"example.com/note": "two words, and more"}}}) == set()
    assert codes({**pod(), "metadata": {"annotations": {"two words": ""}}}) == {"pod-label-invalid"}


def test_node_selectors_come_from_the_declared_labels_and_kubernetes_own() -> None:
    rules = PodRules(node_labels=("disk", "gpu-model=h200"))
    assert codes(pod(nodeSelector={"kubernetes.io/arch": "amd64", "disk": "nvme"}), rules) == set()
    assert codes(pod(nodeSelector={"gpu-model": "h100"}), rules) == {"pod-node-selector"}
    assert codes(pod(nodeSelector={"anything": "goes"})) == set()


TOLERATIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "a key that exists": ({"key": "gpu", "operator": "Exists"}, True),
    "everything": ({"operator": "Exists"}, True),
    "a value, Equal understood": ({"key": "gpu", "value": "h200"}, True),
    "seconds with NoExecute": (
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
        True,
    ),
    "seconds without NoExecute": ({"key": "gpu", "operator": "Exists", "tolerationSeconds": 9}, False),
    "a value for Exists": ({"key": "gpu", "operator": "Exists", "value": "h200"}, False),
    "no key and no operator": ({"value": "h200"}, False),
    "an operator in small letters": ({"key": "gpu", "operator": "exists"}, False),
}


@pytest.mark.parametrize(("toleration", "is_valid"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_tolerations(toleration: dict[str, Any], is_valid: bool) -> None:
    assert codes(pod(tolerations=[toleration])) == (set() if is_valid else {"pod-toleration"})


# ---------------------------------------------------------------- environment and dollars

DOLLARS: dict[str, tuple[str, str | None]] = {
    "no dollar": ("plain", None),
    "a price": ("5$", None),
    "two dollars": ("a$$b", "pod-env-dollar"),
    "two dollars, escaped": ("a$$$$b", None),
    "a reference to a literal": ("$(MODE)", "pod-env-reference"),
    "a reference, escaped": ("$$(MODE)", None),
    "a reference to a field": ("$(NODE)", None),
    "a shell's call of something that is no variable": ("$(hostname)", None),
    "a shell's variable": ("$HOME/x", "env-not-expanded"),
    "a shell's variable in braces": ("${HOME}/x", "env-not-expanded"),
}


@pytest.mark.parametrize(("value", "code"), DOLLARS.values(), ids=DOLLARS.keys())
def test_dollars_in_the_environment_of_a_container(value: str, code: str | None) -> None:
    env = [
        {"name": "MODE", "value": "fast"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "OTHER", "value": value},
    ]
    assert codes(pod(container(env=env))) == ({code} if code else set())


def test_a_reference_counts_only_after_its_variable_is_set() -> None:
    env = [{"name": "OTHER", "value": "$(MODE)"}, {"name": "MODE", "value": "fast"}]
    assert codes(pod(container(env=env))) == set()


def test_the_step_s_command_is_left_alone_where_bkgen_has_escaped_it_for_the_kubelet() -> None:
    lines = "echo $$$$; kill $!; x=$$(MODE); y=$HOME; z=${HOME}"
    assert step_codes(command=lines) == set()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param("echo $$HOME", "dollars-doubled", id="a doubled variable"),
        pytest.param("echo $${HOME}", "dollars-doubled", id="a doubled expression"),
        pytest.param("echo $$$$HOME", "dollars-doubled", id="a doubled variable, escaped for the kubelet"),
        pytest.param("kill -0 $$", None, id="the shell's own number"),
        pytest.param("touch /run/$$.pid", None, id="the shell's own number in a name"),
    ],
)
def test_dollars_doubled_for_an_upload_that_never_comes(line: str, code: str | None) -> None:
    assert step_codes(command=["true", line]) == ({code} if code else set())
    assert step_codes(command=line, interpolate=True) == set()


UPLOADED: dict[str, tuple[str, str | None]] = {
    "a variable": ("$BRANCH", None),
    "a default": ("${BRANCH:-main}", None),
    "a default without colon": ("${BRANCH-main}", None),
    "a required variable": ("${BRANCH?not set}", None),
    "a substring": ("${BRANCH:0:7}", None),
    "a substring from the end": ("${BRANCH: -7}", None),
    "an escaped suffix form": ("$${FILE%.py}", None),
    "an escaped suffix form, with a backslash": ("\\${FILE%.py}", None),
    "a call": ("$(date)", None),
    "a number": ("$1 $? $@", None),
    "a suffix form": ("${FILE%.py}", "upload-expression"),
    "a replacement": ("${FILE/a/b}", "upload-expression"),
    "a length": ("${#FILE}", "upload-expression"),
    "an indirection": ("${!NAME}", "upload-expression"),
    "an assignment": ("${NAME:=x}", "upload-expression"),
    "an alternative": ("${NAME:+x}", "upload-expression"),
    "nothing": ("${}", "upload-expression"),
    "an open brace": ("${NAME", "upload-expression"),
    "a suffix form after an escaped dollar": ("$$${FILE%.py}", "upload-expression"),
    "the shard": ("$BUILDKITE_PARALLEL_JOB", "upload-shard-variable"),
    "the shard in braces": ("${BUILDKITE_PARALLEL_JOB_COUNT:-1}", "upload-shard-variable"),
    "the shard, escaped": ("$$BUILDKITE_PARALLEL_JOB", None),
    "the uploader's job": ("$BUILDKITE_JOB_ID", "upload-own-variable"),
    "the uploader's agent": ("$BUILDKITE_AGENT_NAME", "upload-own-variable"),
}


@pytest.mark.parametrize(("text", "code"), UPLOADED.values(), ids=UPLOADED.keys())
def test_what_the_upload_makes_of_a_text(text: str, code: str | None) -> None:
    expected = {code} if code else set()
    assert step_codes(command=f"echo {text} done", interpolate=True) == expected
    plugin = pod(container(args=[text], command=["echo"]))
    assert {one.code for one in verify_step({**with_pod(plugin)}, interpolate=True)} == expected


def test_values_that_the_upload_fills_in_are_not_judged_before() -> None:
    plugin = pod(
        container(image="registry.example.com/x:$TAG", resources={"limits": {"memory": "${MEMORY:-64Gi}"}})
    )
    assert step_codes(interpolate=True, **with_pod(plugin, key="unit-$TAG")) == set()
    assert step_codes(**with_pod(plugin)) == {"pod-image-malformed", "pod-quantity"}


SECRETS: dict[str, tuple[str, Any, str | None]] = {
    "a token": ("HF_TOKEN", "hf_0123456789", "env-secret-literal"),
    "a password that is a number": ("DB_PASSWORD", 123456, "env-secret-literal"),
    "an access key": ("AWS_SECRET_ACCESS_KEY", "x" * 40, "env-secret-literal"),
    "five bytes": ("HF_TOKEN", "x" * 5, None),
    "six bytes in three letters": ("HF_TOKEN", "äöü", "env-secret-literal"),
    "a name without its underscore": ("TOKEN", "hf_0123456789", None),
    "a name with more behind": ("HF_TOKEN_FILE", "/run/secrets/hf", None),
    "small letters": ("hf_token", "hf_0123456789", None),
    "a variable alone": ("HF_TOKEN", "$OTHER", "env-not-expanded"),
}


@pytest.mark.parametrize(("name", "value", "code"), SECRETS.values(), ids=SECRETS.keys())
def test_secrets_written_out(name: str, value: Any, code: str | None) -> None:
    assert step_codes(env={name: value}) == ({code} if code else set())
    in_trigger = {"trigger": "deploy", "build": {"env": {name: value}}}
    assert {one.code for one in verify_step(in_trigger)} <= {code}
    if isinstance(value, str):
        assert codes(pod(container(env=[{"name": name, "value": value}]))) == ({code} if code else set())


def test_a_secret_s_value_is_never_repeated() -> None:
    secret = "hf_0123456789"
    plugin = pod(container(env=[{"name": "HF_TOKEN", "value": secret}]))
    found = verify_step({"command": "x", "env": {"HF_TOKEN": secret}, **with_pod(plugin)})
    assert {one.code for one in found} == {"env-secret-literal"}
    assert len(found) == 2
    assert not any(secret in f"{one.message}{one.hint}{one.path}" for one in found)


def test_one_value_in_two_places_is_harmless_and_two_values_are_not() -> None:
    def both(step_value: str, **entry: Any) -> set[str]:
        return step_codes(
            **with_pod(pod(container(env=[{"name": "MODE", **entry}])), env={"MODE": step_value})
        )

    assert both("fast", value="fast") == set()
    assert both("fast", value="slow") == {"env-set-twice"}
    source = {"configMapKeyRef": {"name": "modes", "key": "mode"}}
    assert both("fast", valueFrom=source) == {"env-set-twice"}


# ---------------------------------------------------------------- forks


def test_what_a_fork_may_not_have_it_may_have_at_home_and_where_the_settings_say_so() -> None:
    plugin = copy.deepcopy(gpu_pod())
    box = plugin["podSpec"]["containers"][0]
    box["securityContext"] = {"privileged": True}
    box["volumeMounts"].append({"name": "sock", "mountPath": "/var/run/docker.sock"})
    plugin["podSpec"]["volumes"].append({"name": "sock", "hostPath": {"path": "/var/run/docker.sock"}})
    plugin["podSpec"]["hostIPC"] = True
    host = {"pod-fork-privileged", "pod-fork-docker-socket", "pod-fork-host"}
    local = {"local_images": ("lmcache/ci-base",)}
    assert codes(plugin) == set()
    assert codes(plugin, PodRules(fork=True, **local)) == host | {"pod-fork-secret"}
    assert codes(plugin, PodRules(fork=True, fork_privileged=True, **local)) == {"pod-fork-secret"}
    assert codes(plugin, PodRules(fork=True, fork_secrets=True, **local)) == host


FORK_SECRETS: dict[str, dict[str, Any]] = {
    "a variable": pod(
        container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])
    ),
    "all variables of a secret": pod(container(envFrom=[{"secretRef": {"name": "s"}}])),
    "a volume": pod(
        container(volumeMounts=[{"name": "s", "mountPath": "/s"}]),
        volumes=[{"name": "s", "secret": {"secretName": "s"}}],
    ),
    "a projected volume": pod(
        container(volumeMounts=[{"name": "s", "mountPath": "/s"}]),
        volumes=[{"name": "s", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
    ),
    "the checkout": {**pod(), "checkout": {"envFrom": [{"secretRef": {"name": "s"}}]}},
    "the checkout's credentials": {**pod(), "checkout": {"gitCredentialsSecret": {"secretName": "s"}}},
    "git's environment": {**pod(), "gitEnvFrom": [{"secretRef": {"name": "s"}}]},
    "a sidecar": {
        **pod(),
        "sidecars": [{"name": "db", "image": "redis:7.4", "envFrom": [{"secretRef": {"name": "s"}}]}],
    },
    "the patch": {
        **pod(),
        "podSpecPatch": {"containers": [{"name": "container-0", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    },
}


@pytest.mark.parametrize("plugin", FORK_SECRETS.values(), ids=FORK_SECRETS.keys())
def test_a_fork_reads_a_secret_by_no_way(plugin: dict[str, Any]) -> None:
    assert codes(plugin, PodRules(fork=True)) == {"pod-fork-secret"}
    assert codes(plugin) == set()
