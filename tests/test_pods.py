"""`pod` and profile become the kubernetes plugin: every key, every kind of hardware, the guide's own file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import load_configuration
from bkgen.decide.facts import Selection
from bkgen.generate.phases import generate
from bkgen.pods.build import NO_GPU, build_pod
from bkgen.pods.merge import laid_over
from bkgen.spec.pod import Pod
from decisions import Files, settings
from verify_samples import said_of as said_of_files

GIVEN = settings(
    profiles={
        "h200": {"gpu_resource": "nvidia.com/gpu", "image": "example/ci:1", "image_pull_policy": "Never"},
        "mig": {"gpu_resource": "nvidia.com/mig-1g.10gb", "image": "example/ci:1"},
        "mi300": {"gpu_resource": "amd.com/gpu", "queue": "amd-k8s", "image": "example/rocm:1"},
        "xpu": {"gpu_resource": "deviceclass.resource.kubernetes.io/gpu.intel.com", "image": "example/xpu:1"},
        "gaudi": {"gpu_resource": "habana.ai/gaudi", "image": "example/g:1", "runtime_class": "habana"},
        "dra": {"claim_template": "one-gpu", "image": "example/ci:1"},
        "musa": {"pod": False, "queue": "MooreThreads", "agents": {"gpu": "s4000"}},
        "tainted": {
            "gpu_resource": "nvidia.com/gpu", "image": "example/ci:1", "node_selector": {"gpu": "h200"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "env": {"NCCL_DEBUG": "WARN"}, "shm": "8Gi", "memory": "64Gi", "cpu": {"request": "4"},
            "spec": {"terminationGracePeriodSeconds": 30},
        },
        "bare": {},
    },
    caches={
        "huggingface": {"host_path": "/data/huggingface", "mount_path": "/root/.cache/huggingface"},
        "models_nfs": {"claim": "models", "mount_path": "/models", "read_only": True},
        "sets": {"host_path": "/data/sets", "mount_path": "/sets", "type": "Directory", "read_only": True},
    },
    scratch={"host_path": "/data/gds-scratch"},
)  # fmt: skip


def built(profile: str = "h200", **pod: Any):
    return build_pod(Pod.model_validate({"profile": profile, **pod}), GIVEN)


def spec(profile: str = "h200", **pod: Any) -> dict[str, Any]:
    plugin = built(profile, **pod).plugin
    assert plugin is not None
    return plugin["podSpec"]


def container(profile: str = "h200", **pod: Any) -> dict[str, Any]:
    return spec(profile, **pod)["containers"][0]


def test_the_image_policy_of_a_profile_holds_for_its_own_image_only() -> None:
    assert container()["imagePullPolicy"] == "Never"
    assert container(image="example/other:1")["imagePullPolicy"] == "IfNotPresent"
    assert container(image="example/other:1", image_pull_policy="Always")["imagePullPolicy"] == "Always"


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("h200", "nvidia.com/gpu"), ("mig", "nvidia.com/mig-1g.10gb"), ("mi300", "amd.com/gpu"),
        ("xpu", "deviceclass.resource.kubernetes.io/gpu.intel.com"), ("gaudi", "habana.ai/gaudi"),
    ],
)  # fmt: skip
def test_gpus_are_a_limit_of_the_profiles_resource_as_text(profile: str, resource: str) -> None:
    assert container(profile, gpus=2)["resources"]["limits"] == {resource: "2"}
    assert built(profile, gpus=2).env == {"BKGEN_GPUS": "2"}


@pytest.mark.parametrize("gpus", [{}, {"gpus": 0}], ids=["absent", "0"])
def test_a_pod_without_gpus_sees_none(gpus: dict[str, int]) -> None:
    made = container(**gpus)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in made["env"]
    assert {"name": "CUDA_VISIBLE_DEVICES", "value": ""} in made["env"]
    assert "resources" not in made


def test_a_gpu_pod_hides_nothing() -> None:
    assert "env" not in container(gpus=1)


def test_claims_take_the_place_of_a_resource() -> None:
    made = spec("dra", gpus=2)
    assert made["resourceClaims"] == [
        {"name": "gpu-0", "resourceClaimTemplateName": "one-gpu"}, {"name": "gpu-1", "resourceClaimTemplateName": "one-gpu"},
    ]  # fmt: skip
    assert made["containers"][0]["resources"] == {"claims": [{"name": "gpu-0"}, {"name": "gpu-1"}]}


def test_a_bare_metal_profile_gives_no_plugin() -> None:
    made = built("musa", gpus=2)
    assert made.plugin is None
    assert made.agents == {"queue": "MooreThreads", "gpu": "s4000"}


def test_queue_and_placement_come_from_profile_and_pod() -> None:
    assert built("mi300").agents == {"queue": "amd-k8s"}
    made = spec("tainted", gpus=1, node_selector={"zone": "a"}, priority_class="high", service_account="ci")
    assert made["nodeSelector"] == {"gpu": "h200", "zone": "a"}
    assert made["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert (made["priorityClassName"], made["serviceAccountName"]) == ("high", "ci")
    assert made["terminationGracePeriodSeconds"] == 30
    assert spec("gaudi", gpus=1)["runtimeClassName"] == "habana"


def test_a_profiles_defaults_lie_under_the_pod() -> None:
    made = container("tainted", gpus=1)
    assert made["resources"] == {
        "requests": {"cpu": "4", "memory": "64Gi"}, "limits": {"memory": "64Gi", "nvidia.com/gpu": "1"},
    }  # fmt: skip
    assert {"name": "NCCL_DEBUG", "value": "WARN"} in made["env"]
    assert {"name": "dshm", "mountPath": "/dev/shm"} in made["volumeMounts"]
    assert container("tainted", gpus=1, env={"NCCL_DEBUG": "INFO"})["env"] == [
        {"name": "NCCL_DEBUG", "value": "INFO"}
    ]


def test_one_quantity_is_request_and_limit_and_two_are_two() -> None:
    assert container(cpu="4", memory={"request": "8Gi", "limit": "16Gi"})["resources"] == {
        "requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "4", "memory": "16Gi"},
    }  # fmt: skip


def test_every_kind_of_volume() -> None:
    mounts = [
        {"name": "a", "mount_path": "/a", "host_path": "/data/a", "read_only": True},
        {"name": "b", "mount_path": "/b", "claim": "c"},
        {"name": "c", "mount_path": "/c", "secret": "s"},
        {"name": "d", "mount_path": "/d", "config_map": "m", "sub_path": "x"},
        {"name": "e", "mount_path": "/e", "empty_dir": {"medium": "Memory", "size_limit": "1Gi"}},
        {"name": "udev", "mount_path": "/run/udev", "host_path": "/run/udev", "type": "Directory"},
    ]
    made = spec(
        shm="1Gi",
        caches=["huggingface", "models_nfs", "sets"],
        scratch="/scratch",
        docker=True,
        mounts=mounts,
    )
    volumes = {volume["name"]: volume for volume in made["volumes"]}
    assert volumes["dshm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert volumes["huggingface"]["hostPath"] == {"path": "/data/huggingface", "type": "DirectoryOrCreate"}
    assert volumes["models-nfs"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert volumes["sets"]["hostPath"]["type"] == "Directory"
    assert volumes["scratch"]["hostPath"] == {"path": "/data/gds-scratch", "type": "DirectoryOrCreate"}
    assert volumes["docker-sock"]["hostPath"]["type"] == "Socket"
    assert volumes["a"]["hostPath"]["path"] == "/data/a"
    assert volumes["b"]["persistentVolumeClaim"] == {"claimName": "c"}
    assert volumes["c"]["secret"] == {"secretName": "s"}
    assert volumes["d"]["configMap"] == {"name": "m"}
    assert volumes["e"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert volumes["udev"]["hostPath"] == {"path": "/run/udev", "type": "Directory"}
    by_path = {mount["mountPath"]: mount for mount in made["containers"][0]["volumeMounts"]}
    assert by_path["/scratch"] == {"name": "scratch", "mountPath": "/scratch"}, "whole, without subPath"
    assert by_path["/models"]["readOnly"] is True
    assert by_path["/d"]["subPath"] == "x"
    assert set(volumes) == {mount["name"] for mount in by_path.values()}


def test_one_volume_may_be_mounted_at_two_paths() -> None:
    mounts = [{"name": "m", "mount_path": path, "claim": "c"} for path in ("/a", "/b")]
    made = spec(mounts=mounts)
    assert len(made["volumes"]) == 1
    assert len(made["containers"][0]["volumeMounts"]) == 2


def test_secrets_are_references_and_never_values() -> None:
    assert container(gpus=1, secrets={"HF_TOKEN": "hf/token"})["env"] == [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
    ]


def test_the_plugins_own_keys() -> None:
    plugin = built(
        queue_name="gpu-queue", sidecars=[{"image": "x"}], checkout={"skip": True}, active_deadline_minutes=2
    ).plugin
    assert plugin is not None
    assert plugin["metadata"] == {"labels": {"kueue.x-k8s.io/queue-name": "gpu-queue"}}
    assert plugin["sidecars"] == [{"image": "x"}]
    assert plugin["checkout"] == {"skip": True}
    assert plugin["jobActiveDeadlineSeconds"] == 120


def test_privileged_and_raw_spec() -> None:
    made = spec(
        privileged=True,
        gpus=1,
        spec={"hostNetwork": True, "containers": [{"name": "container-0", "tty": True}]},
    )
    assert made["hostNetwork"] is True
    assert made["containers"][0]["securityContext"] == {"privileged": True}
    assert made["containers"][0]["tty"] is True
    assert made["containers"][0]["image"] == "example/ci:1"


def test_a_cpu_pod_without_an_image_hides_the_gpus_too_for_its_image_may_be_the_step_s() -> None:
    hidden = [{"name": "container-0", "env": list(NO_GPU)}]
    assert spec("bare") == {"containers": hidden}
    assert spec("bare", gpus=0) == {"containers": hidden}
    # The profile has no resource to ask by, and nothing else goes into the container.
    assert spec("bare", gpus=1) == {}


@pytest.mark.parametrize(
    ("under", "over", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": 1}, {"a": None}, {}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}, {"name": "B"}]},
         {"env": [{"name": "A", "value": "2"}, {"name": "B"}]}),
        ({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}, {"volumeMounts": [{"name": "v", "mountPath": "/b"}]},
         {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"a": [1]}, {"a": {}}, {"a": {}}),
    ],
    ids=["maps deeply", "null takes away", "named things by name", "mounts by path", "other lists replaced", "scalars", "kinds"],
)  # fmt: skip
def test_a_raw_spec_merges_as_kubernetes_merges(under, over, merged) -> None:
    assert laid_over(under, over) == merged


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_laying_nothing_over_changes_nothing(value: Any) -> None:
    assert laid_over(value, {}) == (value if isinstance(value, dict) else {})


GUIDE_SETTINGS = """\
profiles:
  local: {gpu_resource: nvidia.com/gpu, image: "lmcache/ci-base:latest", image_pull_policy: Never}
caches:
  hf-cache: {host_path: /data/huggingface, mount_path: /root/.cache/huggingface}
"""
GUIDE_COMPACT = """\
pod: {gpus: 1, caches: [hf-cache]}
steps:
  - label: ":test_tube: My Test"
    command: ./run.sh
    timeout_in_minutes: 30
"""
GUIDE_NATIVE = """\
steps:
  - label: ":test_tube: My Test"
    command: k3_tests/guide/run.sh
    timeout_in_minutes: 30
    agents: { queue: k8s }
    plugins:
      - kubernetes:
          podSpec:
            containers:
              - name: container-0
                image: lmcache/ci-base:latest
                imagePullPolicy: Never
                resources:
                  limits:
                    nvidia.com/gpu: 1
                volumeMounts:
                  - { name: hf-cache, mountPath: /root/.cache/huggingface }
            volumes:
              - { name: hf-cache, hostPath: { path: /data/huggingface, type: DirectoryOrCreate } }
"""


def rendered(files: dict[str, str]) -> dict[str, Any]:
    configuration = load_configuration(Files(files))
    named = Selection(frozenset(suite.name for suite in configuration.suites), None, True)
    return generate(configuration, Build(), ChangesNotAsked("a test"), named).pipeline.document()


def test_the_guides_pipeline_in_compact_form_is_the_same_pod_in_eight_lines_or_fewer() -> None:
    assert len(GUIDE_COMPACT.splitlines()) <= 8
    both = {}
    for name, text in (("compact", GUIDE_COMPACT), ("native", GUIDE_NATIVE)):
        files = {
            "bkgen.yml": GUIDE_SETTINGS,
            "k3_tests/guide/pipeline.yml": text,
            "k3_tests/guide/run.sh": "",
        }
        (both[name],) = rendered(files)["steps"]
    compact, native = both["compact"], both["native"]
    assert compact["plugins"] == native["plugins"]
    for same in ("label", "command", "timeout_in_minutes", "agents", "key"):
        assert compact[same] == native[same]


def said_of(text: str, settings_text: str = GUIDE_SETTINGS) -> list[tuple[str, str]]:
    """Codes and fields of everything said about a suite of a repository like the guide's."""
    return [(one.code, one.field) for one in said_of_files(text, settings_text)]


CPU_ON_GPU_IMAGE = """\
steps:
  - command: ./run.sh
    plugins:
      - kubernetes:
          podSpec:
            containers:
              - image: IMAGE
                imagePullPolicy: Never
                resources: {limits: {memory: 8Gi}}
"""


@pytest.mark.parametrize(
    ("resource", "image", "said"),
    [
        pytest.param("nvidia.com/gpu", "lmcache/ci-base:latest", True, id="NVIDIA's, its own image"),
        pytest.param("nvidia.com/gpu", "lmcache/ci-base:cpu", False, id="NVIDIA's, another tag"),
        pytest.param("example.com/gpu", "lmcache/ci-base:latest", True, id="a resource that may be NVIDIA's"),
        pytest.param("amd.com/gpu", "lmcache/ci-base:latest", False, id="AMD's"),
    ],
)
def test_a_native_cpu_pod_on_the_image_of_a_gpu_profile_sees_the_gpus(
    resource: str, image: str, said: bool
) -> None:
    found = said_of(
        CPU_ON_GPU_IMAGE.replace("IMAGE", image), GUIDE_SETTINGS.replace("nvidia.com/gpu", resource)
    )
    assert [code for code, _ in found] == (["pod-visible-devices"] if said else [])


def test_no_gpus_and_all_of_them_visible_is_an_error_at_the_variable() -> None:
    text = "pod: {gpus: 0, memory: 8Gi, env: {NVIDIA_VISIBLE_DEVICES: all}}\n"
    assert said_of(text) == [("pod-visible-devices-set", "unit: pod.env")]


def test_a_cuda_image_of_the_step_on_a_cpu_pod_without_an_image_sees_nothing() -> None:
    text = "steps: [{command: ./run.sh, image: 'nvidia/cuda:12.8.0-base', pod: {memory: 8Gi}}]\n"
    assert said_of(text, "profiles: {cpu: {}}\n") == []


def test_shared_memory_of_size_0_is_named_by_the_author_s_word() -> None:
    text = "pod: {gpus: 1, memory: 8Gi, shm: 0}\n"
    assert said_of(text) == [("pod-shm-unlimited", "unit: pod.shm")]


TWO_PROFILES = """\
profiles:
  h200: {gpu_resource: nvidia.com/gpu, image: "example/ci:1"}
  mi300: {gpu_resource: amd.com/gpu, image: "example/ci:2"}
"""


@pytest.mark.parametrize(
    ("pod", "mirror", "is_twice"),
    [
        pytest.param("gpus: 1", "h200: {}", True, id="on the profile that every pod has"),
        pytest.param(
            "gpus: 1, profile: mi300", "mi300: {soft_fail: true}", True, id="on the profile it names"
        ),
        pytest.param("gpus: 1", "mi300: {}", False, id="on another profile"),
        pytest.param("gpus: 1", "h200: {pod: {gpus: 2}}", False, id="on its own, with another pod"),
        pytest.param("gpus: 1", "h200: {env: {MODE: b}}", False, id="on its own, with another environment"),
    ],
)
def test_a_mirror_is_no_second_run_of_the_same(pod: str, mirror: str, is_twice: bool) -> None:
    step = f"{{key: a, command: ./run.sh, mirrors: {{{mirror}}}}}"
    text = f"pod: {{{pod}, memory: 8Gi, shm: 1Gi}}\nsteps: [{step}]\n"
    name = mirror.partition(":")[0]
    found = [one for one in said_of(text, TWO_PROFILES) if one[0] == "spec-clash"]
    assert found == ([("spec-clash", f"steps[0].mirrors.{name}")] if is_twice else [])
