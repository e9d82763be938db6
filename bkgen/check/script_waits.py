"""How long a script may wait, as far as that is written into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bkgen.check.shell import AndOr, Compound, Node, Pipeline, Script, Simple, Word, commands


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds that a script may spend waiting, written into it; `certain` where it always comes by."""

    seconds: float
    offset: int
    text: str
    certain: bool


_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[smhd]?)")
_DEFAULT = re.compile(r"\$\{\w+:?-([0-9]+)\}")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"[0-9]{1,9}")
_BRACES = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
_HEADER = re.compile(
    r"\(\(\s*(?P<name>\w+)\s*=\s*(?P<first>[0-9]{1,9})\s*;\s*(?P=name)\s*(?P<sign><=?)\s*(?P<last>[0-9]{1,9})\s*;"
    r"\s*(?:(?P=name)\s*\+\+|\+\+\s*(?P=name)|(?P=name)\s*\+=\s*1)\s*\)\)"
)


def waits(script: Script) -> Iterator[Wait]:
    """Every wait whose time is written out, but for what runs in the background.

    `wait_until_ready PID URL SECONDS LOG`, `timeout SECONDS …`, `sleep SECONDS`, and a loop over a written
    number of turns as a whole, which may end earlier.
    """
    yield from _of_body(script.body, certain=True)


def _of_body(body: tuple[AndOr, ...], *, certain: bool) -> Iterator[Wait]:
    for and_or in body:
        if and_or.background:
            continue
        for index, pipeline in enumerate(and_or.pipelines):
            here = certain and index == 0 and len(pipeline.nodes) == 1
            for node in pipeline.nodes:
                yield from _of_node(node, certain=here)


def _of_node(node: Node, *, certain: bool) -> Iterator[Wait]:
    if isinstance(node, Simple):
        for simple, inside in commands((AndOr((Pipeline((node,)),)),)):
            wait = _of_simple(simple)
            if wait is not None:
                yield replace(wait, certain=certain and not inside.child)
    elif node.kind == "loop":
        yield from _of_loop(node, certain=certain)
    else:
        yield from _of_body(node.body, certain=certain and node.kind == "group")


def _of_loop(node: Compound, *, certain: bool) -> Iterator[Wait]:
    """The turns of a counted loop as one wait, and what may be waited for besides."""
    turns = _turns(node)
    found = list(_of_body(node.body, certain=turns is not None))
    each = [wait for wait in found if wait.certain]
    if turns is not None and each:
        text = f"{turns} turns of {each[0].text}" + (", …" if len(each) > 1 else "")
        yield Wait(turns * sum(wait.seconds for wait in each), node.offset, text, certain)
    for wait in found:
        if not wait.certain:
            yield wait


def _turns(node: Compound) -> int | None:
    """How often a `for` over written words goes round; None where the text does not say."""
    if node.name != "for":
        return None
    words = node.branches[0].words
    header = _HEADER.fullmatch(words[0].text) if words else None
    if header:
        return max(0, int(header["last"]) - int(header["first"]) + (header["sign"] == "<="))
    counts = [_words(word) for word in words]
    known = [count for count in counts if count is not None]
    return sum(known) if words and len(known) == len(counts) else None


def _words(word: Word) -> int | None:
    """How many words one word becomes."""
    braces = _BRACES.fullmatch(word.text)
    if braces:
        return abs(int(braces[2]) - int(braces[1])) + 1
    if word.literal:
        return None if "{" in word.text else 1
    inner = word.inner[0].nodes if len(word.inner) == 1 else ()
    if len(inner) != 1 or not isinstance(inner[0], Simple) or not re.fullmatch(r"\$\(.*\)", word.text):
        return None
    command = inner[0].texts
    numbers = [_default(text) for text in command[1:]]
    if command[:1] != ["seq"] or not 1 <= len(numbers) <= 3 or not all(map(_NUMBER.fullmatch, numbers)):
        return None
    first, step = (int(numbers[0]) if len(numbers) > 1 else 1), (int(numbers[1]) if len(numbers) == 3 else 1)
    return max(0, (int(numbers[-1]) - first) // step + 1) if step else None


def _of_simple(simple: Simple) -> Wait | None:
    words = simple.texts
    if words[:1] == ["wait_until_ready"] and len(words) > 3:
        written = words[3]
    elif words[:1] == ["timeout"]:
        written = _limit(words[1:])
    elif words[:1] == ["sleep"] and len(words) == 2:
        written = words[1]
    else:
        return None
    found = _DURATION.fullmatch(_default(written))
    if not found:
        return None
    seconds = float(found["number"]) * _UNITS[found["unit"]]
    between = " " if words[0] == "sleep" else " … "
    return Wait(seconds, simple.offset, f"{words[0]}{between}{written}", certain=True)


def _default(written: str) -> str:
    """What stands behind `:-`, or the word itself."""
    found = _DEFAULT.fullmatch(written)
    return found[1] if found else written


def _limit(words: list[str]) -> str:
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in {"-k", "-s", "--kill-after", "--signal"} else 1
    return words[index] if index < len(words) else ""
