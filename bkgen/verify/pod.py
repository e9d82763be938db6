"""One plugin map, read once: containers, volumes, resources and environment, each with its place.

Rules look at this view, so that a map of the wrong shape is reported by the shape check and trips nobody
else, and so that a patch counts where it is merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from bkgen.verify.finding import Path
from bkgen.verify.values import as_list, as_map, as_text, maps_in

Role = Literal["command", "init", "sidecar", "patch"]
Placed = tuple[Any, Path]
"""A value and where it was written."""

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


class Box(NamedTuple):
    """One container as written. `requests` and `limits` are what it has after the plugin's patch."""

    role: Role
    name: str
    path: Path
    raw: Mapping[str, Any]
    requests: Mapping[str, Placed]
    limits: Mapping[str, Placed]

    @property
    def image(self) -> str:
        """Its image, or the empty text."""
        return as_text(self.raw.get("image"))

    @property
    def has_command(self) -> bool:
        """It has a command of its own, so the controller does not give it the step's."""
        return bool(self.raw.get("command"))

    def env(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Its environment entries with their positions."""
        yield from maps_in(self.raw.get("env"))

    def mounts(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Its own volume mounts with their places."""
        for index, mount in maps_in(self.raw.get("volumeMounts")):
            yield (*self.path, "volumeMounts", index), mount

    @property
    def privileged(self) -> bool:
        """Its security context asks for all of the host."""
        return as_map(self.raw.get("securityContext")).get("privileged") is True


class Pod(NamedTuple):
    """The plugin's map as rules see it."""

    plugin: Mapping[str, Any]
    interpolate: bool
    boxes: tuple[Box, ...]
    patches: tuple[Box, ...]
    volumes: tuple[tuple[Path, Mapping[str, Any]], ...]
    extra_mounts: tuple[tuple[Path, Mapping[str, Any]], ...]

    @property
    def spec(self) -> Mapping[str, Any]:
        """The PodSpec, empty where there is none."""
        return as_map(self.plugin.get("podSpec"))

    @property
    def patch(self) -> Mapping[str, Any]:
        """The patch, empty where there is none."""
        return as_map(self.plugin.get("podSpecPatch"))

    @property
    def from_template(self) -> bool:
        """The pod's base is a template in the cluster, whose content is not known here."""
        return bool(self.plugin.get("podTemplate")) and not self.plugin.get("podSpec")

    @property
    def commands(self) -> tuple[Box, ...]:
        """The command containers."""
        return tuple(box for box in self.boxes if box.role == "command")

    @property
    def everything(self) -> tuple[Box, ...]:
        """All containers, the patch's among them."""
        return self.boxes + self.patches

    @property
    def labels(self) -> Mapping[str, Any]:
        """The labels that are put on Job and pod."""
        return as_map(as_map(self.plugin.get("metadata")).get("labels"))

    @property
    def specs(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """The PodSpec and the patch, each under its key of the plugin."""
        return (("podSpec", self.spec), ("podSpecPatch", self.patch))


def read_pod(plugin: object, *, interpolate: bool = False) -> Pod:
    """The view of a plugin's map; `plugin` may have any shape."""
    top = as_map(plugin)
    spec, patch = as_map(top.get("podSpec")), as_map(top.get("podSpecPatch"))
    patches = tuple(
        _box("patch", raw, ("podSpecPatch", key, index), as_text(raw.get("name")), {})
        for key in ("containers", "initContainers")
        for index, raw in maps_in(patch.get(key))
    )
    by_name = {box.name: box for box in patches}
    boxes = (
        *_boxes("command", spec.get("containers"), ("podSpec", "containers"), "container-", by_name),
        *_boxes("init", spec.get("initContainers"), ("podSpec", "initContainers"), "", by_name),
        *_boxes("sidecar", top.get("sidecars"), ("sidecars",), "sidecar-", by_name),
    )
    return Pod(top, interpolate, boxes, patches, tuple(_volumes(top)), tuple(_extra_mounts(top)))


def _boxes(role: Role, items: object, path: Path, prefix: str, patches: Mapping[str, Box]) -> Iterator[Box]:
    for index, raw in maps_in(items):
        name = as_text(raw.get("name")) or (f"{prefix}{index}" if prefix else "")
        yield _box(role, raw, (*path, index), name, patches)


def _box(role: Role, raw: Mapping[str, Any], path: Path, name: str, patches: Mapping[str, Box]) -> Box:
    amounts = {}
    for kind in ("requests", "limits"):
        written = as_map(as_map(raw.get("resources")).get(kind))
        amounts[kind] = {key: (value, (*path, "resources", kind, key)) for key, value in written.items()}
    patch = patches.get(name)
    if patch is not None:
        amounts["requests"] |= patch.requests
        amounts["limits"] |= patch.limits
    return Box(role, name, path, raw, amounts["requests"], amounts["limits"])


def _volumes(plugin: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for key in ("podSpec", "podSpecPatch"):
        for index, volume in maps_in(as_map(plugin.get(key)).get("volumes")):
            yield (key, "volumes", index), volume
    mirrors = as_map(as_map(plugin.get("checkout")).get("gitMirrors"))
    if isinstance(mirrors.get("volume"), dict):
        yield ("checkout", "gitMirrors", "volume"), mirrors["volume"]


def _extra_mounts(plugin: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for index, mount in maps_in(plugin.get("extraVolumeMounts")):
        yield ("extraVolumeMounts", index), mount
    for key in ("checkout", "commandParams", "sidecarParams"):
        for index, mount in maps_in(as_map(plugin.get(key)).get("extraVolumeMounts")):
            yield (key, "extraVolumeMounts", index), mount


def env_from_lists(pod: Pod) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every envFrom entry of containers and of the plugin's own parameters."""
    for box in pod.everything:
        for index, source in maps_in(box.raw.get("envFrom")):
            yield (*box.path, "envFrom", index), source
    for index, source in maps_in(pod.plugin.get("gitEnvFrom")):
        yield ("gitEnvFrom", index), source
    for key in ("checkout", "commandParams", "sidecarParams"):
        for index, source in maps_in(as_map(pod.plugin.get(key)).get("envFrom")):
            yield (key, "envFrom", index), source


def is_extended(resource: str) -> bool:
    """An extended resource: domain-qualified, and not one of Kubernetes' own."""
    if resource.startswith(DEVICE_CLASS_PREFIX):
        return True
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def volume_sources(volume: Mapping[str, Any]) -> list[str]:
    """The keys of a volume that name a source."""
    return [key for key, value in volume.items() if key != "name" and value is not None]


def texts(values: object) -> list[str]:
    """The texts of a list."""
    return [item for item in as_list(values) if isinstance(item, str)]
