"""Volumes in memory: their size, the limit they count against, and /dev/shm, which is small without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import Box, Pod
from bkgen.verify.resources import amount, has_gpu, has_memory_limit, limit_text, memory_limit
from bkgen.verify.values import as_map, as_text
from bkgen.verify.volumes import place_of, reaches

_SHM = "/dev/shm"  # noqa: S108 - the path every container has, not a temporary file of ours
Placed = tuple[Path, Mapping[str, Any]]


def _unlimited(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for path, volume in pod.volumes:
        if not _is_tmpfs(volume):
            continue
        size, hint = (
            as_map(volume["emptyDir"]).get("sizeLimit"),
            "give it a size below the memory limit: 16Gi",
        )
        if size is None:
            message = "a volume in memory without a size can take the node's memory"
            yield error("pod-shm-unlimited", (*path, "emptyDir"), message, hint)
        elif amount(pod, size) == 0:
            message = "the kubelet takes a size of 0 for no limit; the volume can take the node's memory"
            yield error("pod-shm-unlimited", (*path, "emptyDir", "sizeLimit"), message, hint)


def _is_tmpfs(volume: Mapping[str, Any]) -> bool:
    return as_map(volume.get("emptyDir")).get("medium") == "Memory"


def _mounts(pod: Pod, box: Box) -> Iterator[Placed]:
    """The mounts a container has in the end: its own, those of the patch, and the plugin's for all."""
    yield from box.mounts()
    for patch in pod.patches:
        if patch.name == box.name:
            yield from patch.mounts()
    yield from ((path, mount) for path, mount in pod.extra_mounts if reaches(path, box))


def _above_limit(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    volumes = {
        as_text(volume.get("name")): (path, volume) for path, volume in pod.volumes if _is_tmpfs(volume)
    }
    if volumes:
        for box in pod.boxes:
            yield from _fits(pod, box, volumes)


def _fits(pod: Pod, box: Box, volumes: Mapping[str, Placed]) -> Iterator[Finding]:
    limit = memory_limit(pod, box)
    if limit is None or not has_memory_limit(pod, box):
        return
    total, last, sizes = Fraction(0), None, list[str]()
    for name in dict.fromkeys(as_text(mount.get("name")) for _, mount in _mounts(pod, box)):
        if name in volumes:
            path, volume = volumes[name]
            written = as_map(volume["emptyDir"]).get("sizeLimit")
            size = amount(pod, written)
            total, last = total + (size or 0), (*path, "emptyDir", "sizeLimit")
            sizes += [f"{name} {written}"] if size else []
    if last is not None and total >= limit:
        message = (
            f"volumes in memory count against the memory limit of {box.name}, {limit_text(pod, box)}, "
            f"and fill all of it: {', '.join(sizes)}"
        )
        hint = "make them (`shm`, or an emptyDir's sizeLimit) smaller, or the memory limit larger"
        yield error("pod-shm-above-memory", last, message, hint)


def _shm(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    volumes = {as_text(volume.get("name")): volume for _, volume in pod.volumes}
    for box in pod.boxes:
        there = next((one for one in _mounts(pod, box) if place_of(one[1]) == _SHM), None)
        if there is not None:
            volume = volumes.get(as_text(there[1].get("name")), {})
            if _is_on_disk(volume):
                message = (
                    "an emptyDir on the node's disk is no shared memory: whatever is shared is written out"
                )
                hint = "use `shm: 16Gi`, or add medium: Memory and a sizeLimit to the emptyDir"
                yield warning("pod-shm-on-disk", there[0], message, hint)
        elif box.role == "command" and has_gpu(pod, box, rules) and not _has_the_hosts(pod):
            message = f"{box.name} has a GPU and 64 MiB of shared memory; NCCL and data loaders fail"
            hint = "add `shm: 16Gi`, or mount an emptyDir {medium: Memory, sizeLimit: 16Gi} at /dev/shm"
            yield warning("pod-shm-missing", (*box.path, "volumeMounts"), message, hint)


def _is_on_disk(volume: Mapping[str, Any]) -> bool:
    source = volume.get("emptyDir")
    return isinstance(source, dict) and not source.get("medium")


def _has_the_hosts(pod: Pod) -> bool:
    """In the node's IPC namespace a container has the node's /dev/shm."""
    return any(spec.get("hostIPC") is True for _, spec in pod.specs)


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (_unlimited, _above_limit, _shm)
