"""Environment: who overwrites whom, who rewrites dollars, and what must never be written out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import Box, Pod, texts
from bkgen.verify.sensitive import is_secret_name, secret_finding
from bkgen.verify.values import as_map, as_text, is_open

# Source: the agent's bootstrap in a pod keeps these from the container and overwrites all others.
_PROTECTED = frozenset(
    f"BUILDKITE_{name}"
    for name in ("BOOTSTRAP_PHASES", "COMMAND", "CONTAINER_ID", "JOB_CONTEXT_DIR", "SOCKETS_PATH")
)
_CHOSEN = frozenset({"BUILDKITE_SHELL", "BUILDKITE_HOOKS_SHELL"})
_REFERENCE = r"(?<!\$)(?:(\$\$)(?![$(])|\$\(([-._A-Za-z][-._A-Za-z0-9]*)\))"
_SHELL_REFERENCE = r"(?<!\$)\$(?:[A-Za-z_]|\{[A-Za-z_])"


def unexpanded(name: str, value: str, path: Path) -> Iterator[Finding]:
    """The finding for `$NAME` in an environment value, which nobody expands without interpolation."""
    if re.search(_SHELL_REFERENCE, value):
        message = f"{name} keeps its dollar: no shell and no upload expands the value of a variable"
        hint = "set it in the command (export …), or say interpolate: true in the file"
        yield warning("env-not-expanded", path, message, hint)


def _values(pod: Pod) -> Iterator[tuple[Box, Path, str, Mapping[str, object]]]:
    for box in pod.everything:
        for index, entry in box.env():
            yield box, (*box.path, "env", index), as_text(entry.get("name")), entry


def _secrets(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for _, path, name, entry in _values(pod):
        if is_secret_name(name) and isinstance(entry.get("value"), str):
            yield from secret_finding(name, entry["value"], (*path, "value"), interpolate=pod.interpolate)


def _duplicates(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.everything:
        seen: set[str] = set()
        for index, entry in box.env():
            name = as_text(entry.get("name"))
            if name in seen:
                message = f"{name} is set twice in {box.name}; the last one wins"
                yield error("pod-env-duplicate", (*box.path, "env", index), message, "keep one of the two")
            seen.add(name)


def _sources(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for _, path, name, entry in _values(pod):
        source = as_map(entry.get("valueFrom"))
        kinds = [key for key, value in source.items() if value is not None]
        if source and entry.get("value"):
            message, hint = f"{name} has both value and valueFrom", "keep one of the two"
        elif isinstance(entry.get("valueFrom"), dict) and len(kinds) != 1:
            message, hint = f"valueFrom of {name} names {len(kinds)} sources", "name exactly one source"
        else:
            continue
        yield error("pod-env-source", path, message, hint)


def _of_buildkite(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for _, path, name, _entry in _values(pod):
        if name in _PROTECTED:
            message = f"{name} belongs to the controller; setting it breaks the job"
            yield error("pod-env-reserved", (*path, "name"), message, "take it out")
        elif name.startswith("BUILDKITE_") and name not in _CHOSEN:
            message = f"{name} is overwritten by the job's own"
            yield warning(
                "pod-env-buildkite", (*path, "name"), message, "set it in the step's env, or take it out"
            )


def _dollars(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.everything:
        known: dict[str, bool] = {}
        for index, entry in box.env():
            value, path = entry.get("value"), (*box.path, "env", index, "value")
            name = as_text(entry.get("name"))
            if isinstance(value, str) and "$" in value and not is_open(value, interpolate=pod.interpolate):
                yield from _rewritten(name, value, path, known)
                yield from unexpanded(name, value, path)
            known[name] = "valueFrom" in entry
        for key in ("command", "args"):
            for index, word in enumerate(texts(box.raw.get(key))):
                if "$" in word and not is_open(word, interpolate=pod.interpolate):
                    yield from _rewritten(key, word, (*box.path, key, index), known)


def _rewritten(name: str, value: str, path: Path, known: Mapping[str, bool]) -> Iterator[Finding]:
    """`known` says of each variable set so far whether it comes from a field: `$(NAME)` is made for those."""
    for found in re.finditer(_REFERENCE, value):
        if found[1]:
            message = f"the kubelet turns $$ in {name} into a single $"
            yield warning("pod-env-dollar", path, message, "write $$$$ where two are wanted")
            return
        if found[2] in known and not known[found[2]]:
            message = f"the kubelet puts the value of {found[2]} in place of $({found[2]}) in {name}"
            hint = f"write the value out; for the text itself write $$({found[2]})"
            yield warning("pod-env-reference", path, message, hint)
            return


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (
    _secrets,
    _duplicates,
    _sources,
    _of_buildkite,
    _dollars,
)
