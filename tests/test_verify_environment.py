"""Environment, dollars, secrets and forks beyond the two examples of each rule."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bkgen.verify import PodRules, verify_step
from bkgen.verify.sensitive import is_secret_name
from verify_samples import SHM_MOUNT, SHM_VOLUME, codes, container, gpu_pod, pod, step_codes, with_pod

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
    "a file that holds a token": ("HF_TOKEN_FILE", "/run/secrets/hf", None),
    "the place of a secret, under a name the agent lets pass": ("GOOGLE_CREDENTIALS", "/run/gcp.json", None),
    "the place of a secret, under a name the agent refuses": ("CI_SSH_KEY", "/run/id", "env-secret-literal"),
    "a pattern of files": ("FILE_PAT", "tests/**/*.py", None),
    "small letters": ("hf_token", "hf_0123456789", "env-secret-literal"),
    "a variable alone": ("HF_TOKEN", "$OTHER", "env-not-expanded"),
}


@pytest.mark.parametrize(("name", "value", "code"), SECRETS.values(), ids=SECRETS.keys())
def test_secrets_written_out(name: str, value: Any, code: str | None) -> None:
    assert step_codes(env={name: value}) == ({code} if code else set())
    in_trigger = {"trigger": "deploy", "build": {"env": {name: value}}}
    assert {one.code for one in verify_step(in_trigger)} <= {code}
    if isinstance(value, str):
        assert codes(pod(container(env=[{"name": name, "value": value}]))) == ({code} if code else set())


# fmt: off
SECRET_NAMES = [
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PAT", "GH_PAT",
    "hf_token", "HfToken", "apiKey", "APIKEY", "DEPLOY_KEY", "CREDENTIALS",
    "AZURE_CREDENTIAL", "SIGNING_KEY", "encryption_key", "SSH_KEY", "gpg-private-key", "AUTH_KEY",
    "DEPLOY_TOKEN_PROD", "TOKEN_2", "WANDB_API_KEY", "DB_CONNECTION_STRING", "STORAGE_ACCOUNT_KEY", "KEY_PASSPHRASE",
]
OTHER_NAMES = [
    "CACHE_KEY", "KEY", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "TOKEN_COUNT", "TOKENS",
    "KEYBOARD", "PATH", "PATTERN", "PWD", "TOKENIZER", "SSH_PUBLIC_KEY",
    "HF_TOKEN_PATH", "PASSWORD_FILE", "pad_token", "ms_per_token", "timeToFirstToken", "SECRETARY",
    "SECRET_NAME", "COMPAT", "PATH_PREFIX", "KEY_API", "MONKEY", "SORT_KEY",
    "2", "_",
]
# fmt: on


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_whose_last_words_say_so_is_a_secret_s(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_that_holds_such_a_word_otherwise_is_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "text",
    ["login $HF_TOKEN", "login ${HF_TOKEN}", "login ${gh_pat:-none}", "$API_KEY"],
)
def test_a_secret_in_a_text_is_found_once_where_the_upload_fills_it_in(text: str) -> None:
    found = verify_step({"command": text}, interpolate=True)
    assert [(one.code, one.path) for one in found] == [("env-secret-uploaded", ("command",))]
    assert verify_step({"command": text}) == ()
    assert verify_step({"command": text.replace("$", "$$")}, interpolate=True) == ()
    found = verify_step({"command": "./run.sh", "env": {"HF_TOKEN": "$HF_TOKEN"}}, interpolate=True)
    assert [(one.code, one.path) for one in found] == [("env-secret-uploaded", ("env", "HF_TOKEN"))]
    found = verify_step({"command": "./run.sh", "env": {"HF_TOKEN": "$OTHER"}}, interpolate=True)
    assert [(one.code, one.path) for one in found] == [("env-secret-uploaded", ("env", "HF_TOKEN"))]
    plugin = pod(container(args=[text], command=["echo"]))
    assert {one.code for one in verify_step({**with_pod(plugin)}, interpolate=True)} == {
        "env-secret-uploaded"
    }


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


# ---------------------------------------------------------------- GPUs that nobody asked for

VOID = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
ALL = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
CUDA: dict[str, Any] = {"name": "cuda", "image": "nvidia/cuda:12.8.0"}
SEEN: dict[str, tuple[dict[str, Any], str | None]] = {
    "a CUDA sidecar": ({**pod(), "sidecars": [CUDA]}, "pod-visible-devices"),
    "a CUDA sidecar that hides": ({**pod(), "sidecars": [{**CUDA, "env": VOID}]}, None),
    "a sidecar that shows": (
        {**pod(), "sidecars": [{"image": "redis:7.4", "env": ALL}]},
        "pod-visible-devices",
    ),
    "a CUDA init container": (pod(initContainers=[CUDA]), "pod-visible-devices"),
    "a CUDA init container that hides": (pod(initContainers=[{**CUDA, "env": VOID}]), None),
    "a test that shows": (pod(container(env=ALL)), "pod-visible-devices-set"),
    "a test that shows one": (
        pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}])),
        "pod-visible-devices-set",
    ),
    "a test that a field tells": (
        pod(
            container(
                image="nvidia/cuda:12.8.0",
                env=[
                    {
                        "name": "NVIDIA_VISIBLE_DEVICES",
                        "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}},
                    }
                ],
            )
        ),
        None,
    ),
    "hidden by the patch": (
        {
            **pod(container(image="nvidia/cuda:12.8.0")),
            "podSpecPatch": {"containers": [{"name": "container-0", "env": VOID}]},
        },
        None,
    ),
    "an image of the patch": (
        {
            **pod(),
            "podSpecPatch": {"containers": [{"name": "container-0", "image": "nvidia/cuda:12.8.0"}]},
        },
        "pod-visible-devices",
    ),
}


@pytest.mark.parametrize(("plugin", "code"), SEEN.values(), ids=SEEN.keys())
def test_who_sees_gpus_without_asking(plugin: dict[str, Any], code: str | None) -> None:
    assert codes(plugin) == ({code} if code else set())


def test_the_step_s_image_counts_where_the_pod_leaves_it_to_the_image() -> None:
    image = {"image": "nvidia/cuda:12.8.0"}
    bare = {key: value for key, value in container().items() if key not in {"image", "imagePullPolicy"}}
    assert step_codes(**with_pod(pod(bare), **image)) == {"pod-visible-devices"}
    assert step_codes(**with_pod({"podSpec": {}}, **image)) == {"pod-visible-devices"}
    assert step_codes(**with_pod(pod({**bare, "env": VOID}), **image)) == set()
    assert step_codes(**with_pod(pod(bare), image="ubuntu:24.04")) == set()
    assert step_codes(**with_pod({"podTemplate": "gpu"}, **image)) == set()
    amounts = {"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}}
    with_gpu = {**bare, "resources": amounts, "volumeMounts": [SHM_MOUNT]}
    assert step_codes(**with_pod(pod(with_gpu, volumes=[SHM_VOLUME]), **image)) == set()


# ---------------------------------------------------------------- forks


def test_what_a_fork_may_not_have_it_may_have_at_home_and_where_the_settings_say_so() -> None:
    plugin = copy.deepcopy(gpu_pod())
    box = plugin["podSpec"]["containers"][0]
    box["securityContext"] = {"privileged": True}
    box["volumeMounts"].append({"name": "sock", "mountPath": "/var/run/docker.sock"})
    plugin["podSpec"]["volumes"].append({"name": "sock", "hostPath": {"path": "/var/run/docker.sock"}})
    plugin["podSpec"]["hostIPC"] = True
    host = {"pod-fork-privileged", "pod-fork-docker-socket", "pod-fork-host"}
    secret = {"pod-fork-secret", "pod-fork-account"}
    local = {"local_images": ("lmcache/ci-base",)}
    assert codes(plugin) == set()
    assert codes(plugin, PodRules(fork=True, **local)) == host | secret
    assert codes(plugin, PodRules(fork=True, fork_privileged=True, **local)) == secret
    assert codes(plugin, PodRules(fork=True, fork_secrets=True, **local)) == host


def volume(**source: Any) -> dict[str, Any]:
    """A pod that mounts one volume of this source."""
    return pod(container(volumeMounts=[{"name": "s", "mountPath": "/s"}]), volumes=[{"name": "s", **source}])


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
    "a projected token": volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
    "a projected certificate": volume(
        projected={"sources": [{"podCertificate": {"keyType": "ED25519", "signerName": "a.example/b"}}]}
    ),
    "a login of iSCSI": volume(
        iscsi={"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "secretRef": {"name": "s"}}
    ),
    "a login of Ceph's file system": volume(cephfs={"monitors": ["a"], "secretRef": {"name": "s"}}),
    "a login of Ceph's devices": volume(rbd={"monitors": ["a"], "image": "i", "secretRef": {"name": "s"}}),
    "a login of ScaleIO": volume(
        scaleIO={"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}
    ),
    "a login of StorageOS": volume(storageos={"volumeName": "v", "secretRef": {"name": "s"}}),
    "a login of Cinder": volume(cinder={"volumeID": "v", "secretRef": {"name": "s"}}),
    "a login of a flex driver": volume(flexVolume={"driver": "a/b", "secretRef": {"name": "s"}}),
    "a login of Azure": volume(azureFile={"shareName": "s", "secretName": "s"}),
    "a login of a CSI driver": volume(csi={"driver": "a.example", "nodePublishSecretRef": {"name": "s"}}),
    "the CSI driver of a secrets store": volume(csi={"driver": "secrets-store.csi.k8s.io", "readOnly": True}),
    "a CSI driver that is filled in": volume(csi={"driver": "{{matrix}}"}),
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


def secure(**context: Any) -> dict[str, Any]:
    """A pod whose container has this security context."""
    return pod(container(securityContext=context))


FORK_HOST: dict[str, tuple[dict[str, Any], str]] = {
    "a capability in small letters": (secure(capabilities={"add": ["cap_sys_admin"]}), "pod-fork-privileged"),
    "a capability that is filled in": (secure(capabilities={"add": ["{{matrix}}"]}), "pod-fork-privileged"),
    "a bare /proc": (secure(procMount="Unmasked"), "pod-fork-privileged"),
    "an unconfined SELinux type": (secure(seLinuxOptions={"type": "spc_t"}), "pod-fork-privileged"),
    "a host process of the whole pod": (
        pod(securityContext={"windowsOptions": {"hostProcess": True}}),
        "pod-fork-privileged",
    ),
    "a privileged container of the patch": (
        {
            **pod(),
            "podSpecPatch": {
                "containers": [{"name": "container-0", "securityContext": {"privileged": True}}]
            },
        },
        "pod-fork-privileged",
    ),
    "the docker socket, written oddly": (
        volume(hostPath={"path": "/var//run/./docker.sock", "type": "Socket"}),
        "pod-fork-docker-socket",
    ),
    "the directory of the docker socket": (
        volume(hostPath={"path": "/var/run", "type": "Directory"}),
        "pod-fork-docker-socket",
    ),
}


@pytest.mark.parametrize(("plugin", "code"), FORK_HOST.values(), ids=FORK_HOST.keys())
def test_a_fork_gets_the_node_by_no_way(plugin: dict[str, Any], code: str) -> None:
    paths = ("/var/run/**",)
    assert code in codes(plugin, PodRules(fork=True, host_paths=paths))
    for rules in (
        PodRules(host_paths=paths),
        PodRules(fork=True, fork_privileged=True, host_paths=paths),
    ):
        assert not {one for one in codes(plugin, rules) if one.startswith("pod-fork")}


@pytest.mark.parametrize(
    "spec",
    [{"serviceAccountName": "ci-deploy"}, {"serviceAccount": "ci-deploy"}],
    ids=["the name", "the old name"],
)
def test_a_fork_runs_under_no_other_account(spec: dict[str, Any]) -> None:
    for plugin in (pod(**spec), {**pod(), "podSpecPatch": spec}):
        assert "pod-fork-account" in codes(plugin, PodRules(fork=True))
        assert codes(plugin, PodRules(fork=True, fork_secrets=True)) == codes(plugin)


@pytest.mark.parametrize("privileged", [False, True])
@pytest.mark.parametrize("secrets", [False, True])
def test_a_template_of_the_cluster_is_for_forks_that_may_have_everything(
    privileged: bool, secrets: bool
) -> None:
    rules = PodRules(fork=True, fork_privileged=privileged, fork_secrets=secrets)
    found = codes({"podTemplate": "gpu-base"}, rules)
    assert ("pod-fork-template" in found) == (not (privileged and secrets))


HARMLESS: dict[str, dict[str, Any]] = {
    "the account that every pod has": pod(serviceAccountName="default"),
    "secrets that pull images": pod(imagePullSecrets=[{"name": "registry"}]),
    "a ConfigMap": volume(configMap={"name": "c"}),
    "a claim": volume(persistentVolumeClaim={"claimName": "c"}),
    "a CSI driver": volume(csi={"driver": "nfs.csi.k8s.io"}),
    "iSCSI without a login": volume(
        iscsi={"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 0}
    ),
    "an SELinux type of containers": secure(seLinuxOptions={"type": "container_t"}),
    "a weak capability": secure(capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}),
}


@pytest.mark.parametrize("plugin", HARMLESS.values(), ids=HARMLESS.keys())
def test_a_fork_may_have_what_gives_nothing_away(plugin: dict[str, Any]) -> None:
    assert codes(plugin, PodRules(fork=True)) == set()


def test_a_new_pod_with_ephemeral_containers_is_refused_to_everybody() -> None:
    one = [{"name": "shell", "image": "busybox:1.37"}]
    for plugin in (pod(ephemeralContainers=one), {**pod(), "podSpecPatch": {"ephemeralContainers": one}}):
        assert codes(plugin) == {"pod-container-ephemeral"}
