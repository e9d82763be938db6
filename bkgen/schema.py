"""JSON Schema (2020-12) of what users write, for editors and other validators.

The types of `bkgen.spec` are the source; the descriptions are the docstrings below their fields, read from
the source text, because keeping them at run time would slow every start down. An editor reads YAML its own
way, so a place that takes text takes numbers and booleans here, too: bkgen keeps them as they are written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

import bkgen.spec
from bkgen.spec.cases import PathTable
from bkgen.spec.settings import Settings, _bodies
from bkgen.spec.steps import _mirrors, _shards
from bkgen.spec.suite import SuiteSpec
from bkgen.spec.types import Spec, _listed

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALAR = ["string", "number", "boolean"]
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_ADJUSTMENT = {
    "with": "The combination of elements that this is about.",
    "skip": "Leave the combination out, with a reason.",
    "soft_fail": "Its failure does not fail the build.",
    "env": "Merged over the step's environment.",
}
"""`Adjustment` has a key that is a word of Python's, so it has no class with docstrings."""
_KINDS = {
    "CommandStep": (
        "command",
        "commands",
        "script",
        "plugins",
        "pod",
        "shards",
        "expected_minutes",
        "mirrors",
    ),
    "WaitStep": ("wait", "waiter"),
    "BlockStep": ("block", "manual"),
    "InputStep": ("input",),
    "TriggerStep": ("trigger",),
}
"""The keys of which a step must have one to be of its kind; a group has `steps`, which is required."""
_WORDS = {
    "CommandStep": ("command", "commands", "script"),
    "WaitStep": ("wait", "waiter"),
    "BlockStep": ("block", "manual"),
    "InputStep": ("input",),
    "TriggerStep": ("trigger",),
}
"""The words for a kind in `type`, and in the old nested form `wait: {…}`."""

Schema = dict[str, Any]


def suite_schema() -> Schema:
    """The schema of a suite's `pipeline.yml`."""
    return _schema(SuiteSpec, "pipeline.yml of a bkgen suite", extensible=True)


def settings_schema() -> Schema:
    """The schema of `bkgen.yml`."""
    return _schema(Settings, "bkgen.yml", extensible=True)


def paths_schema() -> Schema:
    """The schema of `paths.test.yml`."""
    return _schema(PathTable, "paths.test.yml", extensible=False)


SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "suite": suite_schema,
    "settings": settings_schema,
    "paths": paths_schema,
}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, which also knows the short forms that are spelt out before validation."""

    def field_title_should_be_set(self, _schema: Any) -> bool:
        return False

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> Schema:
        made: Schema = super().function_before_schema(schema)
        function = schema["function"]["function"]
        if function is _listed and "items" in made:
            return {"anyOf": [made["items"], made]}
        if function is _shards:
            return {"anyOf": [{"type": "integer", "minimum": 1}, made]}
        if function in {_mirrors, _bodies}:
            return {
                **made,
                "additionalProperties": {"anyOf": [made["additionalProperties"], {"type": "null"}]},
            }
        return made


def _schema(model: type[BaseModel], title: str, *, extensible: bool) -> Schema:
    made = model.model_json_schema(schema_generator=_Generator)
    found = {name: _plain(body) for name, body in made.pop("$defs", {}).items()}
    root = _hoisted(_plain(made), found, model.__name__)
    found |= {name: _hoisted(body, found, name) for name, body in list(found.items())}
    definitions = {name: _described(name, body) for name, body in sorted(found.items())}
    _described(model.__name__, root)
    if "CommandStep" in definitions:
        command = definitions["CommandStep"]["properties"]
        command["script"] = {**command["command"], "description": "An old name for `command`."}
        _tell_apart(root["properties"]["steps"])
        # Absent steps are one; a key with nothing behind it is refused.
        steps = root["properties"]["steps"]
        steps["anyOf"] = [kind for kind in steps["anyOf"] if kind != {"type": "null"}]
        _tell_apart(definitions["GroupStep"]["properties"]["steps"])
    if extensible:
        root["patternProperties"] = {"^x-": {"description": "Yours: bkgen does not read it."}}
    return {"$schema": DIALECT, **root, "title": title, **({"$defs": definitions} if definitions else {})}


def _plain(node: Any, *, names: bool = False) -> Any:
    """`node` in the words of JSON Schema; `names` says that its keys are names of fields."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {}
    for key, value in node.items():
        if names:
            made[key] = _plain(value)
        elif key in _BOUNDS and isinstance(value, (int, float)):
            made[_BOUNDS[key]] = value
        elif key == "minLength" and node.get("type") == "array":
            made["minItems"] = value
        elif key == "minLength" and "anyOf" in node:
            made["anyOf"] = [
                {**form, "minItems": value} if form.get("type") == "array" else form for form in made["anyOf"]
            ]
        elif not (key == "default" and value is None):
            made[key] = _plain(value, names=key in {"properties", "$defs", "patternProperties"})
    if not names and made.get("type") == "string" and not {"enum", "const"} & made.keys():
        made["type"] = list(_SCALAR)
    return made


def _hoisted(node: Any, found: dict[str, Schema], own: str) -> Any:
    """`node` with every object that has a class of its own as a reference; the objects go into `found`."""
    if isinstance(node, list):
        return [_hoisted(item, found, own) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _hoisted(value, found, own) for key, value in node.items()}
    title = made.get("title")
    if made.get("type") == "object" and title in field_docs() and title != own:
        found.setdefault(title, made)
        return {"$ref": f"#/$defs/{title}"}
    return made


def _described(name: str, schema: Schema) -> Schema:
    """`schema` with what its fields' docstrings say."""
    texts = field_docs().get(name, {})
    if name == "Adjustment":
        texts = _ADJUSTMENT
        schema["description"] = "One combination of `matrix` that is added, skipped or changed."
    longest = _longest().get(name, {})
    for field, body in schema.get("properties", {}).items():
        limit = {"maxLength": longest[field]} if field in longest else {}
        schema["properties"][field] = {"description": texts[field], **body, **limit}
    return schema


@cache
def _longest() -> dict[str, dict[str, int]]:
    """How long texts may be, by class and key: the types' own schema of text hides it from pydantic."""
    found: dict[str, dict[str, int]] = {}
    waiting = list(Spec.__subclasses__())
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        for field, info in model.model_fields.items():
            for limit in info.metadata:
                if getattr(limit, "max_length", None) is not None:
                    found.setdefault(model.__name__, {})[info.alias or field] = limit.max_length
    return found


def _tell_apart(steps: Schema) -> None:
    """Which kind a step is, is told by its keys: without one of them it is none at all."""
    listed = next(form for form in (steps, *steps.get("anyOf", ())) if form.get("type") == "array")
    forms = listed["items"]["anyOf"]
    for form in list(forms):
        kind = form.get("$ref", "").removeprefix("#/$defs/")
        if kind in _KINDS:
            by_type = {"properties": {"type": {"enum": list(_WORDS[kind])}}, "required": ["type"]}
            form["anyOf"] = [*({"required": [key]} for key in _KINDS[kind]), by_type]
            forms += [_nested(word, kind) for word in _WORDS[kind]]


def _nested(word: str, kind: str) -> Schema:
    return {
        "type": "object",
        "properties": {word: {"$ref": f"#/$defs/{kind}", "type": "object"}},
        "required": [word],
        "additionalProperties": False,
    }


@cache
def field_docs() -> dict[str, dict[str, str]]:
    """The docstrings below the fields of every class in `bkgen.spec`, by class and by the key users write."""
    classes = {node.name: node for node in _classes()}
    return {name: dict(_inherited(name, classes)) for name in classes}


def _classes() -> Iterator[ast.ClassDef]:
    for file in sorted(Path(bkgen.spec.__path__[0]).glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield node


def _inherited(name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[tuple[str, str]]:
    for base in classes[name].bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _inherited(base.id, classes)
    body = classes[name].body
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            # A trailing underscore keeps a word of Python's apart: `if_` is written `if`.
            yield field.target.id.rstrip("_"), " ".join(str(text.value.value).split())
