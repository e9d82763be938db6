"""Containers, patches, labels, selectors and tolerations beyond the two examples of each rule."""

from __future__ import annotations

from typing import Any

import pytest

from bkgen.verify import PodRules
from verify_samples import codes, container, pod, step_codes, with_pod

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
    rules = PodRules(node_labels={"disk": (), "gpu-model": ("h200",)})
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
