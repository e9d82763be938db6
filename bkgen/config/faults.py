"""What pydantic found wrong, said in the words of the file its author wrote."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from bkgen.errors import Diagnostic, did_you_mean, dotted, nearest
from bkgen.scalars import described
from bkgen.spec.steps import (
    BlockStep,
    CommandStep,
    GroupStep,
    InputStep,
    TriggerStep,
    WaitStep,
    step_kind,
)
from bkgen.yamlio import Document

_FORMS = "bkgen's docs/reference lists what may stand here; `bkgen schema` prints it for an editor"
_VALUE_HINTS = (
    ("step has no type", "write 'command: ./run.sh', or remove the step"),
    ("a step is a map", "write '- command: ./run.sh', or '- wait'"),
    ("cannot hold a group", "move the inner steps out of it"),
    ("quote a command", "put quotation marks around the whole command"),
    ("quotes", "numbers and booleans are written without quotes: 4, true, false"),
    ("write true or false", "numbers and booleans are written without quotes: 4, true, false"),
    ("true or false is wanted", "write true or false"),
    ("whole GPUs", "write a whole number; for a part, name a profile whose gpu_resource is that part"),
    ("whole number", "write a decimal number without sign, point, leading zero or underscore, such as 12"),
    ("a number is wanted", "write a number alone, such as 14 or 2.5"),
    ("`pod` is a map", "write 'pod: {}' for the default pod, 'pod: false' for none"),
    ("host_path or a claim", "keep one of the two"),
    ("root of the disk", "write it without the leading '/', such as src/core.py"),
    ("no file of the repository", "write the file's path from the repository's root, such as src/core.py"),
    ("no step is below it", "write '- command: ./run.sh' below it, or remove the key: then ./run.sh runs"),
    ("no directory below", "write a path from the repository's root, such as k3_tests"),
)
"""What to do next, by a part of what is wrong; the first that is in it counts."""

_STEPS: dict[str, type[BaseModel]] = {
    "command": CommandStep,
    "wait": WaitStep,
    "block": BlockStep,
    "input": InputStep,
    "trigger": TriggerStep,
    "group": GroupStep,
}
_SHAPES = {
    "map": "a map",
    "list": "a list",
    "text": "text",
    "other": "a scalar",
    "star": "'*'",
    "number": "a number",
}


def diagnostics(error: ValidationError, document: Document, model: type[BaseModel]) -> Iterator[Diagnostic]:
    """One diagnostic for each fault in `error`, with its place in `document`."""
    schema: dict[str, Any] | None = None
    for fault in error.errors(include_url=False):
        path = _path(fault["loc"], document.value)
        if fault["type"] == "extra_forbidden":
            schema = schema or model.model_json_schema()
            known = known_keys(schema, path[:-1])
            name = str(fault["loc"][-1])
            yield Diagnostic(
                "spec-unknown-key",
                "unknown key",
                _other_kind(name, path, document.value) if name in known else _unknown_hint(name, known),
                document.position(path),
                dotted(path),
            )
            continue
        message, hint = _said(fault)
        position = document.position(path, of_key=fault["type"] == "missing")
        yield Diagnostic("spec-value", message, hint, position, dotted(path))


# Where a pod is said in words, these are the words for what a PodSpec calls otherwise.
_OF_A_PODSPEC = {
    "resources": "write gpus, cpu and memory",
    "requests": "write cpu: {request: …}, memory: {request: …}",
    "limits": "write gpus, cpu: {limit: …}, memory: {limit: …}",
    "volumes": "write caches, mounts or shm",
    "volumeMounts": "write caches, mounts or shm",
    "securityContext": "write privileged, or put it under spec",
    "containers": "put it under spec",
    "initContainers": "put it under spec",
    "podSpec": "put what is in it under spec",
}


def _other_kind(name: str, path: Sequence[str | int], value: Any) -> str:
    """The hint for a key that is known in this place, but to another kind of what may stand here."""
    for part in path[:-1]:
        value = value[part]
    kinds = [kind for kind, model in _STEPS.items() if name in _keys(model)]
    if len(path) < 3 or path[-3] != "steps" or not kinds:
        return "it belongs to another form of what may stand here; remove it"
    belongs = f"'{name}' belongs to a {' or '.join(kinds)} step"
    return f"{belongs}, and this is a {step_kind(value)} step; remove it"


def _keys(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _unknown_hint(name: str, known: Iterable[str]) -> str:
    names = sorted(set(known))
    if "gpus" in names and name in _OF_A_PODSPEC:
        return _OF_A_PODSPEC[name]
    if nearest(name, names) is None and name.startswith("x-"):
        return "x- keys are for the top of a file"
    return did_you_mean(name, names)


def _path(loc: tuple[int | str, ...], value: Any) -> list[str | int]:
    # Between the keys, pydantic's location also names the union members it tried; the document does not.
    path: list[str | int] = []
    for part in loc:
        in_map = isinstance(value, Mapping) and part in value
        if in_map or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            path.append(part)
            value = value[part]
    return path


def _said(fault: Mapping[str, Any]) -> tuple[str, str]:
    kind, given, context = fault["type"], fault["input"], fault.get("ctx", {})
    if kind == "missing":
        name = str(fault["loc"][-1])
        return f"the key '{name}' is missing", f"add '{name}: …'"
    if kind in {"value_error", "assertion_error"}:
        return str(context["error"]), _value_hint(str(context["error"]))
    if kind == "literal_error" and " or " not in context["expected"]:
        only = context["expected"]
        return f"this bkgen knows only {only}, not {described(given)}", f"write {only}"
    if kind == "literal_error":
        return f"{described(given)} is not one of {context['expected']}", _literal_hint(
            given, context["expected"]
        )
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        wanted = [_SHAPES.get(tag.strip(" '"), tag) for tag in context.get("expected_tags", "").split(",")]
        return (
            f"{' or '.join(dict.fromkeys(wanted))} is wanted, not {described(given)}",
            _FORMS,
        )
    wanted_by_type = {
        "string_type": "text", "dict_type": "a map", "model_type": "a map", "model_attributes_type": "a map",
        "list_type": "a list", "tuple_type": "a list", "bool_type": "true or false",
        "int_type": "a whole number",
        "none_required": "nothing",
    }  # fmt: skip
    if kind in wanted_by_type:
        return f"{wanted_by_type[kind]} is wanted, not {described(given)}", _type_hint(kind, given)
    bounds = {
        "greater_than_equal": ("at least", "ge"),
        "less_than_equal": ("at most", "le"),
        "greater_than": ("more than", "gt"),
    }
    if kind in bounds:
        words, name = bounds[kind]
        bound = context[name]
        return (
            f"{given} is out of range: it must be {words} {bound:,.12g}",
            f"write a number that is {words} {bound:,.12g}",
        )
    if kind == "string_too_long":
        return f"longer than {context['max_length']} characters", "shorten it"
    if kind == "string_too_short":
        return "the text is empty", "write something, or remove the key"
    if kind == "too_short":
        what = "map" if isinstance(given, dict) else "list"
        return f"the {what} is empty", "write at least one item, or remove the key"
    return str(fault["msg"]), _FORMS


def _value_hint(message: str) -> str:
    return next((hint for part, hint in _VALUE_HINTS if part in message), _FORMS)


def _literal_hint(given: object, expected: str) -> str:
    names = [name.strip(" '") for name in expected.replace(" or ", ", ").split(",")]
    return did_you_mean(str(given), names)


def _type_hint(kind: str, given: object) -> str:
    if kind == "string_type" and given is None:
        return "write a text after the ':', or remove the key"
    if kind == "string_type" and isinstance(given, (dict, list)):
        return "quote text that holds ': ' or starts with '[' or '{'"
    if kind in {"list_type", "tuple_type"}:
        return "start each item on a line of its own with '- '"
    return "indent 'key: value' lines below it"


def known_keys(schema: Mapping[str, Any], path: Iterable[str | int]) -> set[str]:
    """The keys a JSON Schema knows at `path`, over all alternatives."""
    definitions = schema.get("$defs", {})

    def opened(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if "$ref" in node:
            yield from opened(definitions[node["$ref"].rsplit("/", 1)[1]])
            return
        yield node
        for union in ("anyOf", "oneOf", "allOf"):
            for member in node.get(union, ()):
                yield from opened(member)

    def below(node: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
        for member in opened(node):
            found: Any = None
            if isinstance(part, int):
                found = member.get("items")
            elif part in member.get("properties", {}):
                found = member["properties"][part]
            else:
                found = member.get("additionalProperties")
            if isinstance(found, Mapping):
                yield found

    nodes: list[Mapping[str, Any]] = [schema]
    for part in path:
        nodes = [found for node in nodes for found in below(node, part)]
    return {key for node in nodes for member in opened(node) for key in member.get("properties", {})}
