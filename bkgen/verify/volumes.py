"""Volumes and mounts: each mount has a volume, each volume one source, and the host gives what it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from bkgen.errors import did_you_mean
from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import Box, Pod, volume_sources
from bkgen.verify.values import as_text, is_open, maps_in

DOCKER_SOCKETS = frozenset({"/var/run/docker.sock", "/run/docker.sock"})
_OF_CONTROLLER = ("workspace", "git-credentials", "git-credentials-ro")


def _is_reserved(name: str) -> bool:
    return name == "workspace" or name.startswith("git-credentials")


def _all_mounts(pod: Pod) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for box in pod.everything:
        yield from box.mounts()
    yield from pod.extra_mounts


def _uses(pod: Pod) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Mounts, and raw devices, which name a volume in the same way."""
    yield from _all_mounts(pod)
    for box in pod.everything:
        for index, device in maps_in(box.raw.get("volumeDevices")):
            yield (*box.path, "volumeDevices", index), device


def _reserved(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for path, volume in pod.volumes:
        if path[0] != "podSpecPatch" and _is_reserved(as_text(volume.get("name"))):
            message = f"the controller adds a volume '{volume['name']}' of its own"
            yield error("pod-volume-reserved", (*path, "name"), message, "choose another name")


def _unique(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    seen: dict[tuple[object, str], Path] = {}
    for path, volume in pod.volumes:
        owner = "podSpecPatch" if path[0] == "podSpecPatch" else "podSpec"
        name = as_text(volume.get("name"))
        if name and (owner, name) in seen:
            message = f"two volumes are called '{name}'"
            yield error("pod-volume-duplicate", (*path, "name"), message, "give one of them another name")
        seen.setdefault((owner, name), path)


def _mount_has_volume(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    if pod.from_template:
        return
    names = {as_text(volume.get("name")) for _, volume in pod.volumes}
    for path, mount in _uses(pod):
        name = as_text(mount.get("name"))
        if name and name not in names and name not in _OF_CONTROLLER:
            message = f"it mounts '{name}', but the pod has no such volume"
            hint = did_you_mean(name, names, what="the volumes are") if names else f"add '{name}' to volumes"
            yield error("pod-mount-without-volume", path, message, hint)


def _volume_is_mounted(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    if pod.from_template or not pod.boxes:
        return
    used = {as_text(use.get("name")) for _, use in _uses(pod)}
    for path, volume in pod.volumes:
        name = as_text(volume.get("name"))
        if path[0] == "podSpec" and name and name not in used and not _is_reserved(name):
            message = f"nothing mounts the volume '{name}'"
            yield warning("pod-volume-unused", path, message, "mount it, or take it out")


def _mount_paths(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.boxes:
        seen: dict[str, str] = {}
        for path, mount in box.mounts():
            if place_of(mount) in seen:
                yield _twice(path, mount, box)
            elif place_of(mount):
                seen[place_of(mount)] = as_text(mount.get("name"))
        for path, mount in pod.extra_mounts:
            if reaches(path, box) and seen.get(place_of(mount), mount.get("name")) != mount.get("name"):
                yield _twice(path, mount, box)
    for path, mount in _all_mounts(pod):
        yield from _judge_place(pod, path, mount)


def _twice(path: Path, mount: Mapping[str, Any], box: Box) -> Finding:
    message = f"'{place_of(mount)}' is mounted twice in {box.name}; the first one wins, without a word"
    return error("pod-mount-path-duplicate", (*path, "mountPath"), message, "keep one of the two")


def reaches(path: Path, box: Box) -> bool:
    """The extra mount at `path` of the plugin becomes one of the container's."""
    reached = {
        "extraVolumeMounts": ("command", "sidecar"),
        "commandParams": ("command",),
        "sidecarParams": ("sidecar",),
    }
    return box.role in reached.get(str(path[0]), ())


def place_of(mount: Mapping[str, Any]) -> str:
    """Where a mount is seen, without a slash at its end."""
    text = as_text(mount.get("mountPath"))
    return text.rstrip("/") or text


def _judge_place(pod: Pod, path: Path, mount: Mapping[str, Any]) -> Iterator[Finding]:
    text = as_text(mount.get("mountPath"))
    if not isinstance(mount.get("mountPath"), str) or is_open(text, interpolate=pod.interpolate):
        return
    if not text.startswith("/") or ":" in text:
        message = f"'{text}' is no absolute path without a colon"
        yield error("pod-mount-path", (*path, "mountPath"), message, "write the path from the root: /models")
    elif place_of(mount) == "/workspace" and mount.get("name") != "workspace":
        message = "the controller mounts the checkout at /workspace; this mount hides it"
        yield error("pod-mount-workspace", (*path, "mountPath"), message, "mount it elsewhere")


def _sub_path(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    images = {as_text(volume.get("name")) for _, volume in pod.volumes if volume.get("image") is not None}
    for path, mount in _all_mounts(pod):
        text = as_text(mount.get("subPath"))
        if not text and not mount.get("subPathExpr"):
            continue
        if text and mount.get("subPathExpr"):
            message, hint = "subPath and subPathExpr exclude each other", "keep one of the two"
        elif as_text(mount.get("name")) in images:
            message, hint = "an image volume takes no subPath", "mount the whole image"
        elif text.startswith("/") or ".." in text.split("/"):
            message, hint = f"'{text}' leaves the volume", "write a path relative to the volume, without '..'"
        else:
            continue
        yield error("pod-sub-path", (*path, "subPath" if text else "subPathExpr"), message, hint)


def _sources(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    base = {as_text(volume.get("name")) for path, volume in pod.volumes if path[0] == "podSpec"}
    for path, volume in pod.volumes:
        found = volume_sources(volume)
        patches = path[0] == "podSpecPatch" and as_text(volume.get("name")) in base
        if len(found) > 1:
            message = f"a volume has one source, not {len(found)} ({', '.join(found)})"
            yield error("pod-volume-source", path, message, "keep one of them")
        elif not found and not patches:
            message = f"the volume '{as_text(volume.get('name'))}' has no source"
            yield error(
                "pod-volume-source", path, message, "add hostPath, emptyDir, persistentVolumeClaim or another"
            )


def is_allowed(path: str, patterns: tuple[str, ...]) -> bool:
    """The path is one of the patterns (`*` within a name), or `/path` itself or below it for `/path/**`."""
    names = _names(path)
    for pattern in patterns:
        wanted = _names(pattern)
        deep = wanted[-1:] == ["**"]
        wanted = wanted[:-1] if deep else wanted
        head = names[: len(wanted)] if deep else names
        if len(head) == len(wanted) and all(map(fnmatchcase, head, wanted)):
            return True
    return False


def _names(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _host_paths(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for path, volume in pod.volumes:
        source = volume.get("hostPath")
        if not isinstance(source, dict) or not isinstance(source.get("path"), str):
            continue
        place, text = (*path, "hostPath", "path"), source["path"]
        if is_open(text, interpolate=pod.interpolate):
            message = f"'{text}' is filled in later, so nobody can hold it against the allow-list"
            yield error("pod-host-path", place, message, "write the path out")
        elif not text.startswith("/") or ".." in text.split("/"):
            message = f"'{text}' is no absolute path without '..'"
            yield error("pod-host-path", place, message, "write the node's path from the root")
        elif _is_docker_socket(text):
            if rules.fork and not rules.fork_privileged:
                yield _socket_of_fork(place)
        elif not is_allowed(text, rules.host_paths):
            message = f"'{text}' is not in the settings' host_paths"
            hint = f"allowed are {', '.join(rules.host_paths) or 'none'}; ask the keeper of the CI to add it"
            yield error("pod-host-path-not-allowed", place, message, hint)
        elif rules.fork and not rules.fork_privileged and _holds_docker_socket(text):
            yield _socket_of_fork(place)
        else:
            yield from _typed(path, source)


def _is_docker_socket(path: str) -> bool:
    return f"/{'/'.join(_names(path))}" in DOCKER_SOCKETS


def _holds_docker_socket(path: str) -> bool:
    names = _names(path)
    return any(_names(socket)[: len(names)] == names for socket in DOCKER_SOCKETS)


def _socket_of_fork(place: Path) -> Finding:
    message = "a fork's pull request may not have the docker socket: it is root on the node"
    return error("pod-fork-docker-socket", place, message, "leave it out for forks (when: {forks: false})")


def _typed(path: Path, source: Mapping[str, Any]) -> Iterator[Finding]:
    if not source.get("type"):
        message = f"nothing checks that '{source['path']}' is what it should be on the node"
        hint = "add type: Directory where it must exist, DirectoryOrCreate where it may be made"
        yield warning("pod-host-path-untyped", (*path, "hostPath"), message, hint)


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (
    _reserved,
    _unique,
    _mount_has_volume,
    _volume_is_mounted,
    _mount_paths,
    _sub_path,
    _sources,
    _host_paths,
)
