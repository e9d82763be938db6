"""Dollars on their way to the shell: what the upload fills in, and what it chokes on.

Source: the grammar of Buildkite's interpolate library, version 0.1.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bkgen.verify.finding import Finding, Path, error, warning
from bkgen.verify.sensitive import is_secret_name, uploaded_secret

# A pair of dollars and an escaped dollar are consumed first, as the agent does.
_DOLLAR = r"\$\$|\\\$|\$\{(?P<inside>[^}]*\}?)|\$(?P<name>[^\W\d_]\w*)"
_GOOD = r"[^\W\d_]\w*(?:\}|:?-|\?|:\s*-?[0-9]+\s*(?::\s*-?[0-9]+\s*)?\})"
_NAME = r"[^\W\d_]\w*"
_DOUBLED = r"(?<!\$)(?:\$\$)+(?=[A-Za-z_{])"
_OF_SHARD = frozenset({"BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"})
_OF_UPLOADER = frozenset(
    {"HOME", "PATH", "PWD"}
    | {
        f"BUILDKITE_{name}"
        for name in ("JOB_ID", "STEP_ID", "STEP_KEY", "LABEL", "COMMAND", "RETRY_COUNT", "PLUGINS")
    }
)


def uploaded(text: str, path: Path) -> Iterator[Finding]:
    """Findings for one text of a file whose variables the upload fills in."""
    for found in re.finditer(_DOLLAR, text):
        inside = found["inside"]
        if inside is not None and not re.match(_GOOD, inside):
            message = f"the upload fails at '${{{inside}'"
            hint = "write $$ to leave it to the shell, or take interpolate: true out of the file"
            yield error("upload-expression", path, message, hint)
            continue
        name = found["name"] or (found_name[0] if inside and (found_name := re.match(_NAME, inside)) else "")
        if name in _OF_SHARD:
            message = f"${name} is filled in at upload, when there is no shard: it becomes empty"
            yield error("upload-shard-variable", path, message, f"write $${name}")
        elif name in _OF_UPLOADER or name.startswith("BUILDKITE_AGENT_"):
            message = f"${name} is filled in at upload, with the value of the upload step"
            yield warning("upload-own-variable", path, message, f"write $${name} for the value of the job")
        elif is_secret_name(name):
            yield uploaded_secret(name, path)


def doubled(text: str, path: Path) -> Iterator[Finding]:
    """The finding for `$$NAME` in a text that no upload touches."""
    if re.search(_DOUBLED, text):
        message = "no upload halves these dollars; the shell reads $$ as its own process number"
        hint = "write a single $, or say interpolate: true in the file"
        yield warning("dollars-doubled", path, message, hint)


def texts_in(value: object, path: Path) -> Iterator[tuple[str, Path]]:
    """Every text in a tree of maps and lists, keys included, with its place."""
    waiting: list[tuple[object, Path]] = [(value, path)]
    while waiting:
        item, place = waiting.pop()
        if isinstance(item, str):
            yield item, place
        elif isinstance(item, dict):
            for key, inner in item.items():
                if isinstance(key, str) and "$" in key:
                    yield key, (*place, key)
                waiting.append((inner, (*place, str(key))))
        elif isinstance(item, (list, tuple)):
            waiting.extend((inner, (*place, index)) for index, inner in enumerate(item))


def in_plugin(plugin: object, *, interpolate: bool) -> list[Finding]:
    """Findings for all texts of the plugin's map, where the upload fills in variables."""
    if not interpolate:
        return []
    return [one for text, path in texts_in(plugin, ()) if "$" in text for one in uploaded(text, path)]
