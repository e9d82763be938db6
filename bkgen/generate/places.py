"""Where a fault of an emitted step stands in its author's file, and what the author calls it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bkgen.errors import Position
from bkgen.spec.suite import Located

Path = tuple["str | int", ...]

_POD_WORDS = {
    "image": "image", "imagePullPolicy": "image_pull_policy", "securityContext": "privileged",
    "nodeSelector": "node_selector", "tolerations": "tolerations", "runtimeClassName": "runtime_class",
    "serviceAccountName": "service_account", "priorityClassName": "priority_class", "sidecars": "sidecars",
    "checkout": "checkout", "metadata": "queue_name", "jobActiveDeadlineSeconds": "active_deadline_minutes",
    "env": "env",
}  # fmt: skip
"""Which word of `pod` an emitted field comes from."""
_VOLUME_WORDS = {"dshm": "shm", "scratch": "scratch", "docker-sock": "docker"}


def place_of(path: Path, base: Path, source: Located, body: Mapping[str, Any]) -> tuple[Position, str]:
    """Position and dotted field of what `path` names in `body`, a step that `base` of `source` became.

    A pod written in bkgen's words is named by those: `pod.shm`, not the volume that it turned into.
    """
    if path[:1] == ("plugins",) and not source.has((*base, *path[:3])):
        written, field = _in_pod(path, base, source, body)
    else:
        written, field = base, ".".join(map(str, path))
        for length in range(len(path), 0, -1):
            if source.has((*base, *path[:length])):
                written = (*base, *path[:length])
                break
    return source.position(written), field


def _in_pod(path: Path, base: Path, source: Located, body: Mapping[str, Any]) -> tuple[Path, str]:
    pods = [(*base[:length], "pod") for length in range(len(base), -1, -1)]
    pods = [pod for pod in pods if source.has(pod)]
    for words in _words(path, body):
        for pod in pods:
            if source.has((*pod, *words)):
                return (*pod, *words), ".".join(map(str, ("pod", *words)))
    return (pods[0], "pod") if pods else (base, ".".join(map(str, path)))


def _words(path: Path, body: Mapping[str, Any]) -> Iterator[Path]:
    """What a field of a pod may have been written as, the likeliest first."""
    parts = [part for part in path if isinstance(part, str)]
    if "resources" in parts:
        yield (next((name for name in ("cpu", "memory") if name in parts), "gpus"),)
    variable = _entry(path, body, ("env",))
    from_secret = "valueFrom" in variable
    if from_secret:
        yield ("secrets", str(variable.get("name")))
    for part in reversed(parts):
        # What `env` says are values, so a reference under this name comes from elsewhere.
        if part in _POD_WORDS and not (part == "env" and from_secret):
            yield (_POD_WORDS[part],)
    if "volumes" in parts or "volumeMounts" in parts:
        name = _entry(path, body, ("volumes", "volumeMounts")).get("name")
        if name in _VOLUME_WORDS:
            yield (_VOLUME_WORDS[name],)
        else:
            yield from (("mounts",), ("caches",))
    tail = path[path.index("podSpec") + 1 :] if "podSpec" in path else ()
    yield from (("spec", *tail[:length]) for length in range(len(tail), 0, -1))


def _entry(path: Path, body: Mapping[str, Any], lists: tuple[str, ...]) -> Mapping[str, Any]:
    """The entry of one of the `lists` that `path` leads into, empty where it leads into none."""
    value: Any = body
    for before, part in zip((None, *path), path, strict=False):
        try:
            value = value[part]
        except (LookupError, TypeError):
            break
        if before in lists:
            return value if isinstance(value, Mapping) else {}
    return {}
