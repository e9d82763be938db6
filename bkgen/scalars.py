"""What an unquoted YAML scalar means, decided by the place it stands in.

YAML 1.1 reads `on` as true, `012` as ten and `22:30:00` as a number; the agent's own reader has yet
other ideas. Here an unquoted scalar stays the text that was written (`Plain`) until a field says what
it wants. A text field takes the text; a number or boolean field takes only the one spelling that
every reader agrees on, and refuses the rest.
"""

from __future__ import annotations

import re
from typing import Any

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+\Z")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""The unquoted spellings of "nothing" on which YAML 1.1, 1.2 and the agent agree."""


class Plain(str):
    """An unquoted scalar: its text, as written."""

    __slots__ = ()


def as_integer(value: object) -> int:
    """The whole number that `value` is written as. ValueError with a reason for anything else."""
    if type(value) is Plain and _INTEGER.match(value):
        return int(value)
    if type(value) is int:
        return value
    if type(value) is Plain and re.fullmatch(r"[-+0-9][-+0-9_a-fA-FxXob:.]*", value):
        raise ValueError(f"'{value}' is not written as a plain decimal whole number")
    if isinstance(value, str) and type(value) is not Plain and _INTEGER.match(value):
        raise ValueError(f"a whole number is wanted, this is the text '{value}': take the quotes away")
    raise ValueError(f"a whole number is wanted, not {described(value)}")


def as_number(value: object) -> float:
    """The number that `value` is written as. ValueError with a reason for anything else."""
    if type(value) is Plain and (_INTEGER.match(value) or _FLOAT.match(value)):
        return float(value)
    if type(value) in {int, float}:
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"a number is wanted, not {described(value)}")


def as_boolean(value: object) -> bool:
    """`true` or `false`. ValueError with a reason for anything else, `on` and `yes` included."""
    if type(value) is Plain and value in _BOOLEANS:
        return _BOOLEANS[value]
    if type(value) is bool:
        return value
    if isinstance(value, str) and value.lower() in {"on", "off", "yes", "no", "y", "n"}:
        raise ValueError(
            f"write true or false: '{value}' is a boolean to some YAML readers and text to others"
        )
    raise ValueError(f"true or false is wanted, not {described(value)}")


def natural(value: Any) -> Any:
    """`value` for a place that bkgen does not know (another plugin's configuration): JSON values.

    Unquoted whole numbers, simple decimals that survive unchanged, and true/false become what they
    are; every other scalar is the text that was written.
    """
    kind = type(value)
    if kind is Plain:
        return _natural_scalar(value)
    if kind is dict:
        return {str(key): natural(item) for key, item in value.items()}
    if kind is list:
        return [natural(item) for item in value]
    return value


def _natural_scalar(text: str) -> str | int | float | bool:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.match(text):
        number = int(text)
        return number if str(number) == text else str(text)
    if _FLOAT.match(text):
        decimal = float(text)
        return decimal if repr(decimal) == text else str(text)
    return str(text)


def described(value: object) -> str:
    """What a value is, for a message: `the text 'on'`, `a list`, `nothing`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:37] + "…"
        return f"the text '{shown}'"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"the number {value}"
