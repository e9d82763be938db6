"""One JSON document that the agent's YAML parser reads back as exactly the same values.

Source of the rules: the agent parses JSON with a YAML parser (yaml.v3) and fills in `$VAR` by the
grammar of buildkite/interpolate. tests/conformance holds both functions to the real agent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bkgen.errors import BkgenError, UserError

KEY_BYTES = 1000
"""The longest object key as emitted, escapes counted. The parser dies of keys of 1,023 bytes and more."""

NIL_VARIABLE = "BKGEN_NIL"
"""Never set where an upload runs (the agent package sees to that); escaping a backslash relies on it."""

_REFUSED_RAW = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
_LONE_SURROGATE = "[\ud800-\udfff]"
_DOLLARS = r"(\\*)\$"
_LONGEST_ESCAPE = 6
_INTEGERS = range(-(2**63), 2**63)

# What some agents interpolate and others do not, so that no text with `$` means the same to all.
_UNSETTLED = frozenset({"secrets", "checkout", "cache", "signature"})

Path = tuple[str | int, ...]


def encode(document: Any) -> bytes:
    """`document` (dicts, lists, strings, numbers, booleans, None) as UTF-8 JSON.

    Raises UserError for what the agent could not read as written: half of a surrogate pair, a key of
    more than KEY_BYTES, an integer beyond 64 bits, a number that is not finite.
    """
    if not _is_plain(document):
        _refuse_unreadable(document, ())
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        return _in_escapes(text).encode()
    except UnicodeEncodeError:
        _refuse_unreadable(document, ())
        raise


def escape_interpolation(value: Any) -> Any:
    """`value` so that the agent's interpolation gives back what it was: each `$` escaped, keys included.

    A dict is taken for a pipeline or a step, anything else for the value of one of its attributes.
    `value` is not changed, and is the result itself where nothing is to be escaped.
    Raises UserError where no spelling is safe: a `$` in a key of a map that the agent keeps in no
    order (it may interpolate such an entry twice), or in an attribute that only some versions
    interpolate.
    """
    text = json.dumps(value, ensure_ascii=False)
    if "$" not in text and NIL_VARIABLE not in text:
        return value
    return _step(value, ()) if isinstance(value, Mapping) else _anywhere(value, (), ordered=True)


def _in_escapes(text: str) -> str:
    """JSON `text` with everything as an escape that the parser does not take raw."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return re.sub(_REFUSED_RAW, lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_plain(document: Any) -> bool:
    """Nothing in it needs a closer look, apart from surrogates, which the encoding finds at no cost."""
    # One flat loop: this stands in front of every upload, with some hundred thousand values in it.
    longest = KEY_BYTES // _LONGEST_ESCAPE
    seen: set[str] = set()
    # Steps share their pods, and one look at each is enough.
    met: set[int] = set()
    todo = [document]
    while todo:
        container = todo.pop()
        if id(container) in met:
            continue
        met.add(id(container))
        items: Iterable[Any]
        if type(container) is dict:
            for key in container:
                if key not in seen:
                    if type(key) is not str or len(key) > longest:
                        return False
                    seen.add(key)
            items = container.values()
        elif type(container) is list:
            items = container
        else:
            return False
        for item in items:
            kind = type(item)
            if kind is dict or kind is list:
                todo.append(item)
            elif not (kind is str or kind is bool or item is None or (kind is int and item in _INTEGERS)):
                return False
    return True


def _refuse_unreadable(value: Any, path: Path) -> None:
    kind = type(value)
    if kind is str:
        if re.search(_LONE_SURROGATE, value):
            raise _unreadable("half of a surrogate pair", path, "write text that is valid Unicode")
    elif kind is dict:
        for key, item in value.items():
            _refuse_unreadable_key(key, path)
            _refuse_unreadable(item, (*path, key))
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            _refuse_unreadable(item, (*path, index))
    elif kind is int:
        if value not in _INTEGERS:
            raise _unreadable(f"{value} has more than 64 bits", path, "put the number in quotes")
    elif kind is float:
        if not math.isfinite(value):
            raise _unreadable(f"{value} is no finite number", path, "put it in quotes")
    elif value is not None and kind is not bool:
        raise BkgenError(f"{_place(path)}: {kind.__name__} cannot be written as JSON")


def _refuse_unreadable_key(key: Any, path: Path) -> None:
    if type(key) is not str:
        raise BkgenError(f"{_place(path)}: {key!r} is a key and no string")
    if re.search(_LONE_SURROGATE, key):
        raise _unreadable("a key with half of a surrogate pair", path, "write text that is valid Unicode")
    # Most keys are short, and then nothing needs to be counted.
    if len(key) * _LONGEST_ESCAPE > KEY_BYTES:
        emitted = _in_escapes(json.dumps(key, ensure_ascii=False)).encode()
        if len(emitted) - len('""') > KEY_BYTES:
            raise _unreadable(
                f"a key of more than {KEY_BYTES:,} bytes ('{key[:20]}…')", path, "shorten the key"
            )


def _unreadable(what: str, path: Path, hint: str) -> UserError:
    return UserError.single(
        "encode-unreadable", f"{what}; the agent could not read it", hint, field=_place(path)
    )


def _place(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".").encode("utf-8", "backslashreplace").decode() or "document"


def _step(attributes: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """A step or a whole pipeline; the agent keeps the attributes of both in maps without order."""
    escaped: dict[str, Any] = {}
    for key, value in attributes.items():
        _refuse_dollar(key, (*path, key), _IN_KEY)
        escaped[key] = _attribute(key, value, (*path, key))
    return escaped


def _attribute(name: str, value: Any, path: Path) -> Any:
    if name in _UNSETTLED:
        _refuse_dollar(value, path, f"'$' in '{name}' means different things to different agents")
        return value
    if name == "steps" and isinstance(value, list):
        return [
            _step(step, (*path, index)) if isinstance(step, Mapping) else step
            for index, step in enumerate(value)
        ]
    if name == "matrix" and isinstance(value, Mapping):
        return _matrix(value, path)
    if name == "env" and isinstance(value, Mapping) and NIL_VARIABLE in value:
        raise UserError.single(
            "interpolation-unsafe",
            f"{NIL_VARIABLE} must not be set: escaping relies on it",
            "use another name",
            field=_place(path),
        )
    return _anywhere(value, path, ordered=name not in {"env", "plugins"})


def _matrix(matrix: Mapping[str, Any], path: Path) -> dict[str, Any]:
    escaped = _anywhere({**matrix, "adjustments": []}, path, ordered=False)
    if "adjustments" not in matrix:
        del escaped["adjustments"]
        return dict(escaped)
    # The agent leaves an adjustment's `skip` alone; everything beside it is interpolated.
    escaped["adjustments"] = [
        {
            **_anywhere(
                {key: item for key, item in adjustment.items() if key != "skip"}, path, ordered=False
            ),
            **{key: item for key, item in adjustment.items() if key == "skip"},
        }
        for adjustment in matrix["adjustments"]
    ]
    return dict(escaped)


def _anywhere(value: Any, path: Path, *, ordered: bool) -> Any:
    """A value at any depth; in maps without order (`ordered` false) a key with `$` is refused."""
    if isinstance(value, str):
        return re.sub(_DOLLARS, _escaped, value)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            if not ordered:
                _refuse_dollar(key, (*path, key), _IN_KEY)
            result[re.sub(_DOLLARS, _escaped, key)] = _anywhere(item, (*path, key), ordered=ordered)
        return result
    if isinstance(value, (list, tuple)):
        return [_anywhere(item, (*path, index), ordered=ordered) for index, item in enumerate(value)]
    return value


_IN_KEY = "'$' in a key here is filled in twice by chance"


def _refuse_dollar(value: Any, path: Path, reason: str) -> None:
    if "$" in (value if isinstance(value, str) else json.dumps(value)):
        raise UserError.single(
            "interpolation-unsafe",
            f"{reason}, and this upload is interpolated",
            "write it without '$', or drop 'interpolate: true' from the suites of this build",
            field=_place(path),
        )


def _escaped(match: re.Match[str]) -> str:
    backslashes = match[1]
    if len(backslashes) % 2:
        # A doubled dollar here would read as `\$` and a variable.
        return f"{backslashes[:-1]}${{{NIL_VARIABLE}:-\\}}$$"
    return f"{backslashes}$$"
