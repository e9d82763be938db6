"""Which names of a plugin mean the `kubernetes` plugin: the one place that knows them."""

import posixpath
import re
from functools import lru_cache
from urllib.parse import unquote

KUBERNETES = "kubernetes"
"""The plugin's name as people write it."""

_FULL = "github.com/buildkite-plugins/kubernetes-buildkite-plugin"
_VERSIONED = (
    r"(?is)(?:https?://)?(?:github\.com/)?(?:buildkite-plugins/)?"
    r"kubernetes(?:-buildkite-plugin)?(?:\.git)?/?(?:#.*)?"
)


def full_name(name: str) -> str:
    """The name that the agent uploads for `name`; one that it does not expand comes back as it is.

    Source: Buildkite's agent 3.138.1, which reads a name as a URL: with one or two parts it is a repository
    of GitHub, a query is dropped, `%6b` is a `k`, and what is left is joined as a path.
    """
    before, _, fragment = name.partition("#")
    place = before.partition("?")[0]
    is_place = name.startswith(("/", ".", "\\")) or ":" in place.partition("/")[0]
    broken = re.search(r"[\x00-\x1f\x7f]", name) or re.search(r"%(?![0-9A-Fa-f]{2})", f"{place}#{fragment}")
    if not name or is_place or broken:
        return name
    parts = unquote(place).removeprefix("/").split("/")
    if len(parts) > 2:
        return name
    owner = parts[0] if len(parts) == 2 else "buildkite-plugins"
    version = f"#{unquote(fragment)}" if fragment else ""
    return posixpath.normpath("/".join(("github.com", owner, f"{parts[-1]}-buildkite-plugin{version}")))


@lru_cache(maxsize=256)
def is_kubernetes(name: str) -> bool:
    """The controller makes a pod of the plugin `name`: the agent expands it to the one name it knows."""
    return name == KUBERNETES or full_name(name) == _FULL


@lru_cache(maxsize=256)
def is_near_kubernetes(name: str) -> bool:
    """Its author meant the `kubernetes` plugin, but a version or an address makes it one like any other."""
    return not is_kubernetes(name) and re.fullmatch(_VERSIONED, name) is not None
