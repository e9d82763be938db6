"""The volumes of a pod: /dev/shm, caches, scratch, the docker socket, and what the author mounts besides."""

from __future__ import annotations

import re
from typing import Any

from bkgen.spec.pod import Mount, Pod
from bkgen.spec.settings import Cache, Profile, Settings

DOCKER_SOCKET = "/var/run/docker.sock"
SHM_VOLUME = "dshm"

Pair = tuple[dict[str, Any], dict[str, Any]]
"""A volumeMount and its volume."""


def volumes_of(
    pod: Pod, profile: Profile, settings: Settings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The container's volumeMounts and the pod's volumes, in the order of the language's table."""
    pairs: list[Pair] = []
    shm = pod.shm or profile.shm
    if shm is not None:
        # /dev/shm is 64 MiB by default; NCCL and data loaders die once they need more.
        volume = {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": str(shm)}}
        pairs.append(({"name": SHM_VOLUME, "mountPath": "/dev/shm"}, volume))  # noqa: S108
    pairs += [_cache(name, settings.caches[name]) for name in pod.caches or ()]
    if pod.scratch is not None and settings.scratch is not None:
        # Mounted whole: a subPath bind hides the file system's type from GPUDirect Storage.
        host = _host_path(settings.scratch.host_path, settings.scratch.type)
        pairs.append(({"name": "scratch", "mountPath": pod.scratch}, {"name": "scratch", "hostPath": host}))
    if pod.docker:
        host = _host_path(DOCKER_SOCKET, "Socket")
        pairs.append(
            ({"name": "docker-sock", "mountPath": DOCKER_SOCKET}, {"name": "docker-sock", "hostPath": host})
        )
    pairs += [_mount(mount) for mount in pod.mounts or ()]
    volumes: dict[str, dict[str, Any]] = {}
    for _, volume in pairs:
        volumes.setdefault(_identity(volume), volume)
    return [mount for mount, _ in pairs], list(volumes.values())


def _identity(volume: dict[str, Any]) -> str:
    # One source mounted at two paths is one volume; two sources of one name stay two, for verify to refuse.
    return f"{volume['name']}={sorted(volume.items(), key=lambda item: item[0])}"


def _cache(name: str, cache: Cache) -> Pair:
    volume_name = volume_name_of(name)
    mount: dict[str, Any] = {"name": volume_name, "mountPath": cache.mount_path}
    if cache.read_only:
        mount["readOnly"] = True
    if cache.claim is not None:
        claim: dict[str, Any] = {"claimName": cache.claim}
        if cache.read_only:
            claim["readOnly"] = True
        return mount, {"name": volume_name, "persistentVolumeClaim": claim}
    return mount, {"name": volume_name, "hostPath": _host_path(str(cache.host_path), cache.type)}


def volume_name_of(name: str) -> str:
    """A cache's name as a DNS label."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:63]


def _mount(mount: Mount) -> Pair:
    entry: dict[str, Any] = {"name": mount.name, "mountPath": mount.mount_path}
    if mount.read_only:
        entry["readOnly"] = True
    if mount.sub_path is not None:
        entry["subPath"] = mount.sub_path
    return entry, {"name": mount.name, **_source(mount)}


def _source(mount: Mount) -> dict[str, Any]:
    if mount.host_path is not None:
        return {"hostPath": _host_path(mount.host_path, mount.type)}
    if mount.claim is not None:
        return {"persistentVolumeClaim": {"claimName": mount.claim}}
    if mount.secret is not None:
        return {"secret": {"secretName": mount.secret}}
    if mount.config_map is not None:
        return {"configMap": {"name": mount.config_map}}
    empty: dict[str, Any] = {}
    if mount.empty_dir is not None:
        if mount.empty_dir.medium:
            empty["medium"] = mount.empty_dir.medium
        if mount.empty_dir.size_limit is not None:
            empty["sizeLimit"] = str(mount.empty_dir.size_limit)
    return {"emptyDir": empty}


def _host_path(path: str, kind: str | None) -> dict[str, str]:
    return {"path": path, "type": "DirectoryOrCreate" if kind is None else kind}
