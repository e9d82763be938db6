"""Laying a raw PodSpec over a generated one, the way Kubernetes merges a patch.

Maps merge deeply; lists of named things merge by name (mounts by path, ports by number); every other
list, and every scalar, is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS = {
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
}


def laid_over(under: Any, over: Any, name: str = "") -> Any:
    """`over` merged into `under`; neither is changed. A null in `over` takes the key away."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        merged = dict(under)
        for key, value in over.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = laid_over(merged[key], value, key) if key in merged else value
        return merged
    if isinstance(under, list) and isinstance(over, list):
        by = _KEYS.get(name, "name")
        if under and over and all(_is_named(item, by) for item in (*under, *over)):
            return _by_key(under, over, by)
    return over


def _is_named(item: Any, by: str) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(by), (str, int))


def _by_key(under: list[Any], over: list[Any], by: str) -> list[Any]:
    merged = {item[by]: item for item in under}
    for item in over:
        merged[item[by]] = laid_over(merged[item[by]], item) if item[by] in merged else item
    return list(merged.values())
