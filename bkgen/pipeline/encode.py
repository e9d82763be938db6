"""One JSON document that the agent's YAML parser reads back as exactly the same strings.

Source: what the agent's parser (yaml.v3) does with JSON, and the grammar of its interpolation.
"""

from __future__ import annotations

import json
import re
from typing import Any

from bkgen.errors import UserError

KEY_BYTES = 1000
"""The parser refuses object keys of 1,023 bytes and more."""

_REFUSED_RAW = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_DOLLARS = re.compile(r"(\\*)\$")


def encode(document: Any) -> bytes:
    """`document` as UTF-8 JSON. UserError for a lone surrogate or a key that the parser cannot read."""
    _refuse_unreadable(document, ())
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _REFUSED_RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode("utf-8")


def _refuse_unreadable(value: Any, path: tuple[str | int, ...]) -> None:
    if isinstance(value, str):
        if _LONE_SURROGATE.search(value):
            raise _unreadable("a character that is half of a surrogate pair", path)
    elif isinstance(value, dict):
        for key, item in value.items():
            if len(key) > KEY_BYTES // 4 and len(key.encode("utf-8", "surrogatepass")) > KEY_BYTES:
                raise _unreadable(f"a key of more than {KEY_BYTES} bytes", (*path, key[:20] + "…"))
            if _LONE_SURROGATE.search(key):
                raise _unreadable("a key with half of a surrogate pair", path)
            _refuse_unreadable(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_unreadable(item, (*path, index))


def _unreadable(what: str, path: tuple[str | int, ...]) -> UserError:
    place = ".".join(map(str, path))
    return UserError.single("encode-unreadable", f"{place}: {what}", "the agent could not read it; write it otherwise")


def escape_interpolation(document: Any) -> Any:
    """`document` that comes out of the agent's interpolation as it went in, map keys included."""
    if isinstance(document, str):
        return _DOLLARS.sub(_escaped, document)
    if isinstance(document, dict):
        return {escape_interpolation(key): escape_interpolation(value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [escape_interpolation(item) for item in document]
    return document


def _escaped(match: re.Match[str]) -> str:
    # After an odd run of backslashes a doubled dollar would read as `\$` and a variable.
    backslashes = match[1]
    if len(backslashes) % 2:
        return backslashes[:-1] + "${BKGEN_NIL:-\\}$$"
    return backslashes + "$$"
