"""What a rule of the catalogue is, and how its examples become steps that can be verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bkgen.errors import Severity

About = Literal["container", "mount", "volume", "podSpec", "plugin", "step", "steps"]
"""What an example is written about: the smallest piece that shows the fault."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its code, what it is about, and two examples in YAML, one that fails and one that passes.

    `settings` are the fields of `PodRules` without which the rule keeps still; `interpolate` says that the
    examples come from a file with `interpolate: true`.
    """

    code: str
    severity: Severity
    title: str
    explanation: str
    about: About
    failing: str
    passing: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    interpolate: bool = False


def as_steps(about: About, example: Any) -> list[Any]:
    """The parsed `example` inside the smallest sound build that can hold it."""
    if about == "steps":
        return list(example)
    if about == "step":
        return [{"label": "Unit tests", "key": "unit", "command": "./run.sh"} | example]
    return as_steps("step", {"plugins": [{"kubernetes": _plugin(about, example)}]})


def _plugin(about: About, example: Any) -> dict[str, Any]:
    if about == "plugin":
        return dict(example) if "podSpec" in example or "podTemplate" in example else _pod({}) | example
    if about == "podSpec":
        return _pod(example)
    if about == "container":
        return _pod(_with_shm(example) if _asks_for_a_device(example) else _alone(example))
    volume = {"name": "models"} | (example if about == "volume" else {"emptyDir": {"sizeLimit": "1Gi"}})
    mount = {"name": "models", "mountPath": "/models"} | (example if about == "mount" else {})
    return _pod({"containers": [_container() | {"volumeMounts": [mount]}], "volumes": [volume]})


def _alone(example: Any) -> dict[str, Any]:
    return {"containers": [_container() | example]}


def _asks_for_a_device(example: Any) -> bool:
    return any("/" in name for amounts in (example.get("resources") or {}).values() for name in amounts)


def _with_shm(example: Any) -> dict[str, Any]:
    """Shared memory is no part of the example, but no pod with a GPU is sound without."""
    mount = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - a container's path
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    return {"containers": [_container() | {"volumeMounts": [mount]} | example], "volumes": [volume]}


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"podSpec": {"containers": [_container()], **spec}}


def _container() -> dict[str, Any]:
    return {
        "name": "container-0",
        "image": "ubuntu:24.04",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"memory": "64Gi"}},
    }
