"""How long a script may wait, as far as that is written into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bkgen.check.shell import Script, commands


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds that a script may spend waiting, written into it; `certain` where it always comes by."""

    seconds: int
    offset: int
    text: str
    certain: bool


_DURATION = re.compile(r"(?P<number>[0-9]+)(?P<unit>[smhd]?)")
_DEFAULT = re.compile(r"\$\{\w+:?-([0-9]+)\}")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def waits(script: Script) -> Iterator[Wait]:
    """Every `wait_until_ready PID URL SECONDS LOG` and `timeout SECONDS …` whose time is written out."""
    for simple, inside in commands(script.body):
        words = simple.texts
        if words[:1] == ["wait_until_ready"] and len(words) > 3:
            written = words[3]
        elif words[:1] == ["timeout"]:
            written = _limit(words[1:])
        else:
            continue
        default = _DEFAULT.fullmatch(written)
        found = _DURATION.fullmatch(default[1] if default else written)
        if found:
            seconds = int(found["number"]) * _UNITS[found["unit"]]
            certain = not (inside.function or inside.conditional or inside.child)
            yield Wait(seconds, simple.offset, f"{words[0]} … {written}", certain)


def _limit(words: list[str]) -> str:
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in {"-k", "-s", "--kill-after", "--signal"} else 1
    return words[index] if index < len(words) else ""
