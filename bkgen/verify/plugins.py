"""The plugins of a step: names the controller knows, one key a map, one kubernetes entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bkgen.plugin_names import KUBERNETES as NAME
from bkgen.plugin_names import is_kubernetes, is_near_kubernetes
from bkgen.verify.finding import Finding, Path, error
from bkgen.verify.values import as_list, is_open

__all__ = ["NAME", "entries", "others_size", "plugins"]


def entries(step: Mapping[str, Any]) -> list[tuple[Path, str, Any]]:
    """Each plugin's place, name and configuration, in whichever form it is written.

    The kubernetes plugin is called `NAME`, whichever of its names it has; its place keeps that one.
    """
    written = step.get("plugins")
    if isinstance(written, dict):
        return [(("plugins", str(name)), _known(str(name)), config) for name, config in written.items()]
    found: list[tuple[Path, str, Any]] = []
    for index, entry in enumerate(as_list(written)):
        if isinstance(entry, str):
            found.append((("plugins", index), _known(entry), None))
        elif isinstance(entry, dict):
            found += [
                (("plugins", index, str(name)), _known(str(name)), config) for name, config in entry.items()
            ]
    return found


def _known(name: str) -> str:
    return NAME if is_kubernetes(name) else name


def others_size(found: list[tuple[Path, str, Any]]) -> int:
    """Bytes of the plugins other than kubernetes, as the agent passes them on."""
    rest = [{name: config} for _, name, config in found if name != NAME]
    return (
        len(json.dumps(rest, ensure_ascii=False, default=repr).encode("utf-8", "surrogatepass"))
        if rest
        else 0
    )


def plugins(
    step: Mapping[str, Any], found: list[tuple[Path, str, Any]], *, interpolate: bool, fork: bool
) -> Iterator[Finding]:
    """Findings about the names and the form of a step's plugins."""
    for index, entry in enumerate(as_list(step.get("plugins"))):
        if isinstance(entry, dict) and len(entry) != 1:
            message = f"an entry of plugins has one name, not {len(entry)}"
            hint = "start each plugin with '- '; its settings are indented once more"
            yield error("plugin-map-keys", ("plugins", index), message, hint)
        elif not isinstance(entry, (str, dict)):
            message = "an entry of plugins is a name, or a map of one name"
            yield error("plugin-map-keys", ("plugins", index), message, "write - kubernetes: …")
    seen = False
    for path, name, _ in found:
        if name == NAME:
            if seen:
                message = "the step has two kubernetes plugins; one overlays the other"
                yield error("plugin-twice", path, message, "merge them into one")
            seen = True
        # The agent reads a name as a path, and the version is a part of that: a fork could write `#/../`.
        elif is_open(name if fork else name.partition("#")[0], interpolate=interpolate):
            message = f"'{name}' is filled in later, so nobody can tell whether a pod is made of it"
            yield error("plugin-name-open", path, message, "write the plugin's name out")
        elif "/" not in name and _resembles(name.partition("#")[0]):
            message = f"'{name}' is not the kubernetes plugin; no pod would be made of it"
            yield error("plugin-name-misspelt", path, message, "did you mean 'kubernetes'?")
        elif is_near_kubernetes(name):
            message = f"the controller knows no address and no version; '{name}' is cloned like any plugin"
            yield error("plugin-name-versioned", path, message, "write kubernetes")


def _resembles(name: str) -> bool:
    # Most names differ in their first letter, and comparing costs more than all else here.
    if name[:1] not in {"k", "K"}:
        return False
    from difflib import SequenceMatcher

    return name != NAME and SequenceMatcher(None, name.casefold(), NAME).ratio() >= 0.8
