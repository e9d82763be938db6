"""A step's pod: `container-0` with its devices, memory and volumes, as the plugin's `podSpec`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bkgen.buildkite import BuiltPod
from bkgen.pods.merge import laid_over
from bkgen.pods.volumes import volumes_of
from bkgen.spec.pod import Amount, Pod, Toleration
from bkgen.spec.settings import Profile, Settings

CONTAINER = "container-0"
KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
NO_GPU = ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "CUDA_VISIBLE_DEVICES", "value": ""})
"""A CUDA image bakes "all devices visible" in; without these a CPU pod sees every GPU of its node."""


def build_pod(pod: Pod, settings: Settings) -> BuiltPod:
    """The plugin for `pod` under its profile; no plugin where the profile is a bare-metal queue.

    The profile must be declared (checked on loading).
    """
    profile = settings.profiles[pod.profile or settings.profile_name]
    agents = {"queue": profile.queue or settings.queue, **profile.agents}
    gpus = pod.gpus or 0
    env = {"BKGEN_GPUS": str(gpus)} if gpus else {}
    if pod.scratch is not None:
        env["BKGEN_SCRATCH"] = pod.scratch
    if not profile.pod:
        return BuiltPod(None, agents, env)
    spec = pod_spec(pod, profile, settings)
    return BuiltPod(_plugin(pod, spec), agents, env, *known_variables(spec))


def _plugin(pod: Pod, spec: dict[str, Any]) -> dict[str, Any]:
    plugin: dict[str, Any] = {"podSpec": spec}
    if pod.queue_name is not None:
        plugin["metadata"] = {"labels": {KUEUE_LABEL: pod.queue_name}}
    if pod.sidecars is not None:
        plugin["sidecars"] = pod.sidecars
    if pod.checkout is not None:
        plugin["checkout"] = pod.checkout
    if pod.active_deadline_minutes is not None:
        plugin["jobActiveDeadlineSeconds"] = pod.active_deadline_minutes * 60
    return plugin


def pod_spec(pod: Pod, profile: Profile, settings: Settings) -> dict[str, Any]:
    """The PodSpec: what `pod` says over what the profile says, then both raw `spec`s."""
    mounts, volumes = volumes_of(pod, profile, settings)
    container = _container(pod, profile, mounts)
    spec: dict[str, Any] = {}
    # Its image may be the step's, which nobody knows here, so a container without one hides the GPUs, too.
    if set(container) != {"name"}:
        spec["containers"] = [container]
    if volumes:
        spec["volumes"] = volumes
    spec.update(_placement(pod, profile))
    for raw in (profile.spec, pod.spec):
        if raw:
            spec = dict(laid_over(spec, raw))
    return dict(normalised(spec))


def _container(pod: Pod, profile: Profile, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": CONTAINER}
    image = pod.image or profile.image
    if image is not None:
        container["image"] = image
        default = profile.image_pull_policy if pod.image is None or pod.image == profile.image else None
        container["imagePullPolicy"] = pod.image_pull_policy or default or "IfNotPresent"
    env = _env(pod, profile)
    if env:
        container["env"] = env
    resources = _resources(pod, profile)
    if resources:
        container["resources"] = resources
    if profile.claim_template is not None and pod.gpus:
        container.setdefault("resources", {})["claims"] = [{"name": name} for name in _claims(pod.gpus)]
    if mounts:
        container["volumeMounts"] = mounts
    if pod.privileged:
        container["securityContext"] = {"privileged": True}
    return container


def _claims(gpus: int) -> list[str]:
    return ["gpu"] if gpus == 1 else [f"gpu-{index}" for index in range(gpus)]


def _env(pod: Pod, profile: Profile) -> list[dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    if not pod.gpus:
        values = {item["name"]: dict(item) for item in NO_GPU}
    for name, value in {**profile.env, **(pod.env or {})}.items():
        values[name] = {"name": name, "value": str(value)}
    for name, reference in (pod.secrets or {}).items():
        secret, _, key = reference.partition("/")
        values[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
    return list(values.values())


def _resources(pod: Pod, profile: Profile) -> dict[str, Any]:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name, amount in (("cpu", pod.cpu or profile.cpu), ("memory", pod.memory or profile.memory)):
        if isinstance(amount, Amount):
            if amount.request is not None:
                requests[name] = amount.request
            if amount.limit is not None:
                limits[name] = amount.limit
        elif amount is not None:
            requests[name] = limits[name] = amount
    if pod.gpus and profile.gpu_resource is not None and profile.claim_template is None:
        # A limit alone sets the equal request: Kubernetes copies it for extended resources.
        limits[profile.gpu_resource] = str(pod.gpus)
    return {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}


def _placement(pod: Pod, profile: Profile) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    selector = {**profile.node_selector, **(pod.node_selector or {})}
    if selector:
        spec["nodeSelector"] = selector
    tolerations = [*profile.tolerations, *(pod.tolerations or ())]
    if tolerations:
        spec["tolerations"] = [_toleration(toleration) for toleration in tolerations]
    names = {
        "runtimeClassName": pod.runtime_class or profile.runtime_class,
        "serviceAccountName": pod.service_account,
        "priorityClassName": pod.priority_class,
    }
    spec.update({name: value for name, value in names.items() if value is not None})
    if profile.claim_template is not None and pod.gpus:
        spec["resourceClaims"] = [
            {"name": name, "resourceClaimTemplateName": profile.claim_template} for name in _claims(pod.gpus)
        ]
    return spec


def _toleration(toleration: Toleration) -> dict[str, Any]:
    names = {"toleration_seconds": "tolerationSeconds"}
    return {
        names.get(name, name): value for name, value in toleration.model_dump().items() if value is not None
    }


def known_variables(spec: Mapping[str, Any]) -> tuple[frozenset[str], bool]:
    """The variables of the command containers that the kubelet knows, and whether there may be others."""
    names: set[str] = set()
    unknown = False
    for container in spec.get("containers") or ():
        if isinstance(container, Mapping):
            names.update(
                str(item.get("name")) for item in container.get("env") or () if isinstance(item, Mapping)
            )
            unknown = unknown or bool(container.get("envFrom"))
    return frozenset(names), unknown


_QUANTITY_MAPS = ("requests", "limits")


def normalised(spec: Any) -> Any:
    """The same pod with every quantity as text: a bare `1` and "1" are one amount to Kubernetes."""
    if isinstance(spec, dict):
        return {
            key: {name: _amount(value) for name, value in item.items()}
            if key in _QUANTITY_MAPS and isinstance(item, dict)
            else (_amount(item) if key == "sizeLimit" else normalised(item))
            for key, item in spec.items()
        }
    if isinstance(spec, list):
        return [normalised(item) for item in spec]
    return spec


def _amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return re.sub(r"\.0\Z", "", str(value))


def adopt_native(plugin: Mapping[str, Any]) -> BuiltPod:
    """A plugin that its author wrote out: the same meaning, quantities as text."""
    adopted = {
        key: normalised(value) if key in {"podSpec", "podSpecPatch"} else value
        for key, value in plugin.items()
    }
    spec = adopted.get("podSpec")
    known, unknown = known_variables(spec) if isinstance(spec, Mapping) else (frozenset[str](), False)
    return BuiltPod(adopted, {}, {}, known, unknown or "gitEnvFrom" in plugin)
