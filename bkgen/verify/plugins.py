"""The plugins of a step: names the controller knows, one key a map, one kubernetes entry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bkgen.verify.finding import Finding, Path, error
from bkgen.verify.values import as_list

NAME = "kubernetes"
_VERSIONED = r"(?:buildkite-plugins/)?kubernetes(?:-buildkite-plugin)?(?s:#.*)?"


def entries(step: Mapping[str, Any]) -> list[tuple[Path, str, Any]]:
    """Each plugin's place, name and configuration, in whichever form it is written."""
    written = step.get("plugins")
    if isinstance(written, dict):
        return [(("plugins", str(name)), str(name), config) for name, config in written.items()]
    found: list[tuple[Path, str, Any]] = []
    for index, entry in enumerate(as_list(written)):
        if isinstance(entry, str):
            found.append((("plugins", index), entry, None))
        elif isinstance(entry, dict):
            found += [(("plugins", index, str(name)), str(name), config) for name, config in entry.items()]
    return found


def others_size(found: list[tuple[Path, str, Any]]) -> int:
    """Bytes of the plugins other than kubernetes, as the agent passes them on."""
    rest = [{name: config} for _, name, config in found if name != NAME]
    return (
        len(json.dumps(rest, ensure_ascii=False, default=repr).encode("utf-8", "surrogatepass"))
        if rest
        else 0
    )


def plugins(step: Mapping[str, Any], found: list[tuple[Path, str, Any]]) -> Iterator[Finding]:
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
        elif re.fullmatch(_VERSIONED, name):
            message = f"the controller knows the bare name kubernetes; '{name}' is cloned like any plugin"
            yield error("plugin-name-versioned", path, message, "write kubernetes, without version or owner")
        elif "/" not in name and _resembles(name.partition("#")[0]):
            message = f"'{name}' is not the kubernetes plugin; no pod would be made of it"
            yield error("plugin-name-misspelt", path, message, "did you mean 'kubernetes'?")


def _resembles(name: str) -> bool:
    # Most names differ in their first letter, and comparing costs more than all else here.
    if name[:1] not in {"k", "K"}:
        return False
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name.casefold(), NAME).ratio() >= 0.8
