"""The attributes of Buildkite's steps: which exist, and of what type they are.

Buildkite refuses a step with an attribute it does not know. Source: Buildkite's pipeline schema and docs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from bkgen.errors import did_you_mean
from bkgen.verify.finding import Finding, Path, error
from bkgen.verify.shape import described
from bkgen.verify.values import is_number, is_open

Kind = Literal["command", "group", "wait", "block", "input", "trigger"]

_EVERY = frozenset({"key", "id", "identifier", "depends_on", "if", "allow_dependency_failure", "type"})
_LABELLED = _EVERY | {"label", "name"}
KNOWN: Mapping[Kind, frozenset[str]] = {
    "command": _LABELLED
    | {"command", "commands", "env", "agents", "plugins", "artifact_paths", "branches", "cache", "checkout"}
    | {"cancel_on_build_failing", "concurrency", "concurrency_group", "concurrency_method", "if_changed"}
    | {"image", "matrix", "notify", "parallelism", "priority", "retry", "secrets", "signature", "skip"}
    | {"soft_fail", "timeout_in_minutes"},
    "group": _LABELLED | {"group", "steps", "notify", "skip", "if_changed"},
    "wait": _LABELLED | {"wait", "waiter", "continue_on_failure", "branches"},
    "block": _LABELLED
    | {"block", "manual", "prompt", "fields", "blocked_state", "allowed_teams", "branches"},
    "input": _LABELLED | {"input", "prompt", "fields", "blocked_state", "allowed_teams", "branches"},
    "trigger": _LABELLED | {"trigger", "build", "async", "skip", "soft_fail", "if_changed", "branches"},
}
_ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("group", "env"): "write it on each step of the group",
    ("group", "agents"): "write it on each step of the group",
    ("group", "timeout_in_minutes"): "write it on each step of the group",
    ("group", "concurrency"): "write it on each step of the group",
    ("trigger", "env"): "write it below build",
    ("trigger", "agents"): "the triggered pipeline chooses its agents",
    ("trigger", "retry"): "the triggered pipeline retries its own steps",
    ("wait", "if_changed"): "wait takes no if_changed",
}
_KINDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("command", ("command", "commands", "plugins")),
    ("wait", ("wait", "waiter")),
    ("block", ("block", "manual")),
    ("input", ("input",)),
    ("trigger", ("trigger",)),
    ("group", ("group",)),
)
_WORDS: Mapping[str, Kind] = {
    "script": "command", "command": "command", "commands": "command", "wait": "wait", "waiter": "wait",
    "block": "block", "manual": "block", "input": "input", "trigger": "trigger", "group": "group",
}  # fmt: skip


def kind_of(step: Mapping[str, Any] | str) -> Kind | None:
    """What kind of step it is, by the agent's own order of questions; None where nobody can tell."""
    if isinstance(step, str):
        kind = _WORDS.get(step)
        return kind if kind in {"wait", "block", "input"} else None
    if "type" in step:
        return _WORDS.get(str(step["type"]))
    for kind, marks in _KINDS:
        if not step.keys().isdisjoint(marks):
            return kind
    return None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _is_env(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, (str, bool)) or one is None or is_number(one) for one in value.values()
    )


def _is_agents(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(one, (str, bool)) or is_number(one) for one in value.values())
    return isinstance(value, list) and all(isinstance(one, str) and "=" in one for one in value)


def _is_depends_on(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, (str, int)) or _is_dependency(one) for one in value)
    return isinstance(value, str)


def _is_dependency(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("step"), str)
        and value.keys() <= {"step", "allow_failure"}
    )


def _is_soft_fail(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, dict) and one.keys() <= {"exit_status"} for one in value)
    return isinstance(value, bool)


class Question(NamedTuple):
    """What an attribute's value must be: of one of `types`, or else what `also` lets pass."""

    wanted: str
    types: tuple[type, ...]
    also: Callable[[object], bool] | None = None


_TEXT = Question("text", (str,))
_POSITIVE = Question("a whole number of 1 or more", (), _is_positive)
_BOOL = Question("true or false", (bool,))
_TEXTS = Question("text or a list of texts", (str,), _is_texts)
_LIST = Question("a list", (list,))
_MAP = Question("a map", (dict,))
_ANYTHING = Question("anything", (), lambda _: True)

TYPES: Mapping[str, Question] = {
    **dict.fromkeys(("key", "id", "identifier", "label", "name", "if", "image", "type", "prompt"), _TEXT),
    **dict.fromkeys(("group", "trigger", "concurrency_group"), _TEXT),
    **dict.fromkeys(("command", "commands", "artifact_paths", "branches"), _TEXTS),
    **dict.fromkeys(("parallelism", "concurrency", "timeout_in_minutes"), _POSITIVE),
    **dict.fromkeys(("allow_dependency_failure", "cancel_on_build_failing", "continue_on_failure"), _BOOL),
    "async": _BOOL,
    **dict.fromkeys(("fields", "notify", "steps"), _LIST),
    **dict.fromkeys(("build", "checkout"), _MAP),
    "priority": Question("a whole number", (), _is_whole),
    "env": Question("a map of names and single values", (), _is_env),
    "agents": Question("a map of tags, or a list of key=value", (), _is_agents),
    "depends_on": Question("a key, or a list of keys and {step, allow_failure}", (str,), _is_depends_on),
    "plugins": Question("a list of plugins", (list, dict)),
    "matrix": Question("a list, or a map with setup", (list, dict)),
    "retry": Question("a map with automatic and manual", (dict,)),
    "secrets": Question("a list of keys, or a map of names and keys", (list, dict)),
    "skip": Question("true, false or a reason", (bool, str)),
    "soft_fail": Question("true, false or a list of {exit_status}", (bool,), _is_soft_fail),
}
_HAS_DEFAULT_NULL = frozenset(
    {"depends_on", "label", "name", "if", "wait", "waiter", "group", "branches", "key"}
)


_CHECKS: Mapping[Kind, Mapping[str, Question]] = {
    kind: {key: TYPES.get(key, _ANYTHING) for key in known} for kind, known in KNOWN.items()
}


def attributes(step: Mapping[str, Any], kind: Kind, *, interpolate: bool) -> Iterator[Finding]:
    """Attributes that a step of this kind does not have, and values of the wrong type."""
    checks = _CHECKS[kind]
    for key, value in step.items():
        question = checks.get(key)
        if question is None:
            yield _unknown(key, kind)
        elif not (
            isinstance(value, question.types)
            or (question.also is not None and question.also(value))
            or (value is None and key in _HAS_DEFAULT_NULL)
            or is_open(value, interpolate=interpolate)
        ):
            message = f"{question.wanted} is wanted, not {described(value)}"
            yield error("step-wrong-type", (key,), message, f"see Buildkite's documentation of {key}")


def _unknown(key: object, kind: Kind) -> Finding:
    name = str(key)
    path: Path = (name,)
    hint = _ELSEWHERE.get((kind, name)) or did_you_mean(name, KNOWN[kind])
    return error("step-unknown-key", path, f"a {kind} step has no '{name}'; Buildkite refuses it", hint)
