"""YAML for people that every reader takes for the same strings, whichever YAML version it follows."""

from __future__ import annotations

import re
from typing import Any

import yaml

try:
    from yaml import CSafeDumper as _Base
except ImportError:  # PyYAML built without libyaml
    from yaml import SafeDumper as _Base  # type: ignore[assignment]

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@+=,-]*(?: [A-Za-z0-9_./@+=,(-][A-Za-z0-9_./@+=,()-]*)*\Z")
_WORDS = re.compile(r"(?:true|false|yes|no|on|off|y|n|null|nan|inf|\.nan|\.inf|[0-9_.]+)\Z", re.IGNORECASE)
_LITERAL = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]*\Z")


class _Dumper(_Base):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    style: str | None = '"'
    if _PLAIN.match(text) and not _WORDS.match(text):
        style = None
    elif (
        "\n" in text
        and _LITERAL.match(text)
        and not re.search(r"(?:^|\n)[ \n]|[ \n]\Z| \n", text.removesuffix("\n"))
    ):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(str, _text)


def dump(document: Any) -> str:
    """`document` (JSON-like values) as block-style YAML, keys in their own order, no aliases."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))
