"""What the steps of a suite ask of Buildkite and of the cluster, read from what would be uploaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bkgen.pipeline.steps import tags_of
from bkgen.plugin_names import is_kubernetes
from bkgen.verify.values import as_list, as_map, quantity

_NAMES = {
    "runtimeClassName": "RuntimeClass", "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass", "resourceClaimTemplateName": "ResourceClaimTemplate",
    "claimName": "PersistentVolumeClaim", "kueue.x-k8s.io/queue-name": "LocalQueue",
}  # fmt: skip
"""Fields that name an object of the cluster, and its kind."""


@dataclass(frozen=True, slots=True)
class Need:
    """One line of the list: what is needed, and which (Markdown)."""

    what: str
    which: tuple[str, ...]


def needs(bodies: Iterable[Mapping[str, Any]]) -> tuple[Need, ...]:
    """The needs of these emitted command steps, each kind once, in a fixed order."""
    steps = list(bodies)
    pods = [plugin for step in steps for plugin in _plugins(step)]
    maps = [found for plugin in pods for found in _maps(plugin)]
    lists: tuple[tuple[str, Iterable[str]], ...] = (
        ("Agents", (_tags(step) for step in steps)),
        ("Devices in one pod", _largest(maps, "limits", lambda name: "/" in name)),
        ("CPU limit up to", _largest(maps, "limits", lambda name: name == "cpu", named=False)),
        ("Memory limit up to", _largest(maps, "limits", lambda name: name == "memory", named=False)),
        ("Shared memory up to", _shared_memory(pods)),
        ("Images", (_image(found) for found in maps if isinstance(found.get("image"), str))),
        ("Directories of the node", (path for plugin in pods for path in _host_paths(plugin))),
        *((kind, _values(maps, field)) for field, kind in _NAMES.items()),
        ("Kubernetes secrets", (text for found in maps for text in _secrets(found))),
        ("Buildkite secrets", (f"`{name}`" for step in steps for name in _buildkite_secrets(step))),
    )
    found = ((what, tuple(dict.fromkeys(filter(None, which)))) for what, which in lists)
    return tuple(Need(what, which) for what, which in found if which)


def _plugins(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for entry in as_list(step.get("plugins")):
        for name, config in as_map(entry).items():
            if is_kubernetes(str(name)):
                yield as_map(config)


def _maps(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from _maps(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _maps(inner)


def _tags(step: Mapping[str, Any]) -> str:
    tags = step.get("agents")
    return ", ".join(f"`{name}={value}`" for name, value in tags_of(tags).items()) if tags else ""


def _largest(
    maps: Iterable[Mapping[str, Any]], field: str, wanted: Callable[[str], bool], *, named: bool = True
) -> Iterator[str]:
    most: dict[str, Any] = {}
    for found in maps:
        for name, value in as_map(found.get(field)).items():
            if wanted(name) and (quantity(value) or 0) > (quantity(most.get(name)) or 0):
                most[name] = value
    for name, value in most.items():
        yield f"{value} × `{name}`" if named else str(value)


def _shared_memory(pods: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    sizes = []
    for plugin in pods:
        at = [m.get("name") for m in _maps(plugin) if m.get("mountPath") == "/dev/shm"]  # noqa: S108
        sizes += [as_map(m.get("emptyDir")).get("sizeLimit") for m in _maps(plugin) if m.get("name") in at]
    known = [size for size in sizes if quantity(size) is not None]
    if known:
        yield str(max(known, key=lambda size: quantity(size) or 0))


def _image(container: Mapping[str, Any]) -> str:
    note = " (imported on the node, never pulled)" if container.get("imagePullPolicy") == "Never" else ""
    return f"`{container['image']}`{note}"


def _host_paths(plugin: Mapping[str, Any]) -> Iterator[str]:
    mounts = {str(m.get("name")): m["mountPath"] for m in _maps(plugin) if "mountPath" in m}
    for volume in _maps(plugin):
        path = as_map(volume.get("hostPath")).get("path")
        if path:
            inside = mounts.get(str(volume.get("name")))
            yield f"`{path}`" + (f", seen as `{inside}`" if inside and inside != path else "")


def _values(maps: Iterable[Mapping[str, Any]], field: str) -> Iterator[str]:
    for found in maps:
        if isinstance(found.get(field), str):
            yield f"`{found[field]}`"


def _secrets(found: Mapping[str, Any]) -> Iterator[str]:
    reference = as_map(as_map(found.get("valueFrom")).get("secretKeyRef"))
    if reference:
        yield f"`{reference.get('name')}`, key `{reference.get('key')}`, seen as `{found.get('name')}`"
    whole = as_map(found.get("secretRef")).get("name")
    if whole:
        yield f"`{whole}`, every key a variable"
    if isinstance(found.get("secretName"), str):
        yield f"`{found['secretName']}`, seen as files"


def _buildkite_secrets(step: Mapping[str, Any]) -> Iterable[str]:
    secrets = step.get("secrets")
    return secrets.values() if isinstance(secrets, Mapping) else as_list(secrets)
