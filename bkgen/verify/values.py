"""Text and numbers as Kubernetes reads them: quantities, names, images, texts that are filled in later."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

# As text, a regular expression is compiled when it is first asked: no build needs all of them.
_QUANTITY = r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,2})"
_SCALE = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
MATRIX_TOKEN = re.compile(r"\{\{\s*matrix(?:\.([A-Za-z0-9_]+))?\s*\}\}")
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_LABEL_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_ENV_NAME = r"[-._A-Za-z][-._A-Za-z0-9]*"
_IMAGE = (
    r"(?a)(?P<name>(?:(?:localhost(?::[0-9]+)?|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?|[A-Za-z0-9-]+:[0-9]+"
    r"|\[[0-9A-Fa-f:]+\](?::[0-9]+)?)/)?"
    r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}))?"
)


def as_map(value: object) -> Mapping[str, Any]:
    """`value` if it is a map, else an empty one: its wrong type is reported by the shape check alone."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()


def maps_in(value: object) -> list[tuple[int, Mapping[str, Any]]]:
    """The maps of a list, each with its position."""
    return [(index, item) for index, item in enumerate(as_list(value)) if isinstance(item, dict)]


def as_text(value: object) -> str:
    """`value` if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def is_number(value: object) -> bool:
    """An integer or a float; a boolean is neither."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_open(value: object, *, interpolate: bool) -> bool:
    """Text that is not final yet: a matrix token, or a variable that the upload fills in."""
    if not isinstance(value, str):
        return False
    return (interpolate and "$" in value) or ("{{" in value and MATRIX_TOKEN.search(value) is not None)


def quantity(value: object) -> Fraction | None:
    """The number a Kubernetes quantity stands for, or None where it is none.

    The grammar is the API server's: sign, decimal number, then one suffix or an exponent, no blanks.
    """
    if is_number(value):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        value = repr(value)
    return _read_quantity(value) if isinstance(value, str) else None


@lru_cache(maxsize=1024)
def _read_quantity(text: str) -> Fraction | None:
    # A build has a hundred pods and a dozen amounts, and fractions are slow to make.
    found = re.fullmatch(_QUANTITY, text)
    if found is None:
        return None
    sign, digits, suffix = found.groups()
    number = Fraction(digits.rstrip(".") if digits.endswith(".") else digits)
    # `1E` is one exa, `1E3` a thousand.
    scale = _SCALE.get(suffix)
    if scale is None:
        scale = Fraction(10) ** int(suffix[1:])
    return number * scale * (-1 if sign == "-" else 1)


def is_dns_label(text: str) -> bool:
    """RFC 1123 label: at most 63 small letters, digits and inner hyphens."""
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def is_dns_subdomain(text: str) -> bool:
    """RFC 1123 subdomain: labels joined by dots, at most 253 characters."""
    return len(text) <= 253 and re.fullmatch(_SUBDOMAIN, text) is not None


def is_label_value(text: str) -> bool:
    """A label's value: empty, or at most 63 letters, digits, `-`, `_`, `.`, alphanumeric at both ends."""
    return len(text) <= 63 and re.fullmatch(_LABEL_VALUE, text) is not None


def is_qualified_name(text: str) -> bool:
    """A label's or resource's name: a label-value-like name, after an optional DNS prefix and `/`."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (not slash or is_dns_subdomain(prefix))


def is_env_name(text: str) -> bool:
    """A container's environment variable name that every supported API server takes."""
    return (text.isidentifier() and text.isascii()) or re.fullmatch(_ENV_NAME, text) is not None


def image_parts(reference: str) -> tuple[str, str, str] | None:
    """Name, tag and digest of an image reference (absent parts empty), or None where it is malformed."""
    found = re.fullmatch(_IMAGE, reference)
    if found is None or len(found["name"]) > 255:
        return None
    return found["name"], found["tag"] or "", found["digest"] or ""


NAME_CHECKS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "label": (is_dns_label, "small letters, digits and inner hyphens, at most 63"),
    "subdomain": (is_dns_subdomain, "small letters, digits, hyphens and dots, at most 253"),
    "env": (is_env_name, "letters, digits, '_', '-' and '.', no digit first"),
}
