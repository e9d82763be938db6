"""Sound pods that the verification tests share, and the two independent judges they are held against."""

from __future__ import annotations

import copy
import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
import referencing
from jsonschema.protocols import Validator

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import load_configuration
from bkgen.decide.facts import Selection
from bkgen.errors import Diagnostic, UserError
from bkgen.generate.phases import generate
from bkgen.verify import PodRules, verify_pod, verify_step
from decisions import Files

PINNED = "1.34.0"
"""The Kubernetes version whose published schema is the second judge."""


LOCAL = PodRules(local_images=("lmcache/ci-base",))
"""Settings in which the sample's image is one that is imported on the nodes."""


def container(**fields: Any) -> dict[str, Any]:
    """A sound command container with some fields of its own."""
    base = {
        "name": "container-0",
        "image": "ubuntu:24.04",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"memory": "64Gi"}},
    }
    return {**base, **fields}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The plugin's map for these containers, or for a sound one."""
    return {"podSpec": {"containers": list(containers) or [container()], **spec}}


SHM_MOUNT = {"name": "dshm", "mountPath": "/dev/shm"}
SHM_VOLUME = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}


def device_pod(**limits: Any) -> dict[str, Any]:
    """A sound pod whose container has shared memory and these limits."""
    box = container(resources={"limits": {"memory": "64Gi", **limits}}, volumeMounts=[SHM_MOUNT])
    return pod(box, volumes=[SHM_VOLUME])


def with_pod(plugin: dict[str, Any], **step: Any) -> dict[str, Any]:
    """A step's attributes, the plugin among them."""
    return {"plugins": [{"kubernetes": plugin}], **step}


def codes(plugin: Any, rules: PodRules = LOCAL) -> set[str]:
    """The codes of all findings about a plugin's map."""
    return {one.code for one in verify_pod(plugin, rules)}


def step_codes(rules: PodRules = LOCAL, *, interpolate: bool = False, **step: Any) -> set[str]:
    """The codes of all findings about a command step."""
    return {one.code for one in verify_step({"command": "./run.sh", **step}, rules, interpolate=interpolate)}


def command(key: str | None = None, **attributes: Any) -> dict[str, Any]:
    """A sound command step."""
    return {"command": "./run.sh", **({"key": key} if key else {}), **attributes}


def gpu_pod() -> dict[str, Any]:
    """The pod of a unit suite: one GPU, a local image, caches, /dev/shm, a secret, a tolerated taint."""
    return {
        "podSpec": {
            "containers": [
                {
                    "name": "container-0",
                    "image": "lmcache/ci-base:latest",
                    "imagePullPolicy": "Never",
                    "env": [
                        {"name": "HF_HUB_OFFLINE", "value": "1"},
                        {
                            "name": "HF_TOKEN",
                            "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token"}},
                        },
                        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                        {"name": "URL", "value": "http://$(NODE):8000"},
                    ],
                    "resources": {
                        "requests": {"cpu": "32", "memory": "96Gi"},
                        "limits": {"cpu": "64", "memory": "200Gi", "nvidia.com/gpu": "1"},
                    },
                    "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}},
                    "volumeMounts": [
                        {"name": "dshm", "mountPath": "/dev/shm"},
                        {"name": "hf-cache", "mountPath": "/root/.cache/huggingface"},
                        {"name": "udev", "mountPath": "/run/udev", "readOnly": True},
                    ],
                }
            ],
            "initContainers": [
                {
                    "name": "warm-up",
                    "image": "busybox:1.37",
                    "command": ["true"],
                    "resources": {"limits": {"cpu": "1"}},
                }
            ],
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "runtimeClassName": "nvidia",
            "serviceAccountName": "ci-runner",
            "volumes": [
                {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
                {"name": "hf-cache", "hostPath": {"path": "/data/huggingface", "type": "DirectoryOrCreate"}},
                {"name": "udev", "hostPath": {"path": "/run/udev", "type": "Directory"}},
            ],
        },
        "sidecars": [{"name": "redis", "image": "redis:7.4", "resources": {"limits": {"memory": "1Gi"}}}],
        "metadata": {"labels": {"team": "cache"}},
        "checkout": {"cloneFlags": "--depth=1", "noSubmodules": True},
        "jobActiveDeadlineSeconds": 7200,
    }


def said_of(text: str, settings: str) -> tuple[Diagnostic, ...]:
    """Everything said about the suite `unit` of this text, in a repository with these settings."""
    files = {"bkgen.yml": settings, "k3_tests/unit/pipeline.yml": text, "k3_tests/unit/run.sh": ""}
    named = Selection(frozenset({"unit"}), None, True)
    try:
        return generate(
            load_configuration(Files(files)), Build(), ChangesNotAsked("a test"), named
        ).diagnostics
    except UserError as error:
        return error.diagnostics


def spec_of(plugin: dict[str, Any]) -> dict[str, Any]:
    """The PodSpec as the API server would see it: the plugin's sidecars are init containers."""
    spec: dict[str, Any] = copy.deepcopy(plugin["podSpec"])
    sidecars = [{**one, "restartPolicy": "Always"} for one in plugin.get("sidecars", [])]
    if sidecars:
        spec["initContainers"] = [*spec.get("initContainers", []), *sidecars]
    return spec


def models_accept(spec: dict[str, Any]) -> bool:
    """The official client's models take the PodSpec."""
    from kubernetes.client import models
    from pydantic import ValidationError

    try:
        models.V1PodSpec.model_validate(spec)
    except ValidationError:
        return False
    return True


@cache
def _validator() -> Validator:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{PINNED}-local-strict"
    registry: Any = referencing.Registry()
    schema = json.loads((folder / "podspec-v1.json").read_text(encoding="utf-8"))
    for name in ("podspec-v1.json", "_definitions.json"):
        contents = json.loads((folder / name).read_text(encoding="utf-8"))
        registry = referencing.Resource.from_contents(contents) @ registry
    return jsonschema.Draft202012Validator(schema, registry=registry)


def schema_accepts(spec: dict[str, Any]) -> bool:
    """The published JSON Schema of the pinned version, in its strict form, takes the PodSpec."""
    return bool(_validator().is_valid(spec))
