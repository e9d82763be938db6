"""Traps that replace the status with which the script was about to end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bkgen.check.fault import Fault
from bkgen.check.shell import AndOr, Compound, Script, Simple, commands, functions, parse
from bkgen.check.statements import name_of, saved

_STATUS = re.compile(r"\$(?:\?|\{\?\})")
_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


def trap_faults(script: Script) -> Iterator[Fault]:
    """`exit 0`, and `exit $?` behind another command, in a trap or in a function that a trap calls."""
    known = functions(script.body)
    asked: set[str] = set()
    for simple, _ in commands(script.body):
        words = [word for word in simple.argv if word.text != "--"]
        if len(words) < 3 or words[0].text != "trap" or words[1].text.startswith("-"):
            continue
        handler = parse(words[1].text).body
        signals = " ".join(word.text for word in words[2:])
        for fault in _in_handler(handler, signals):
            yield Fault(fault.code, words[1].offset, fault.message, fault.hint)
        for found, _ in commands(handler):
            name = found.texts[0] if found.texts else ""
            if name in known and name not in asked:
                asked.add(name)
                yield from _in_handler(_inside(known[name]), signals)


def _inside(function: Compound) -> tuple[AndOr, ...]:
    node = function.body[0].nodes[0]
    return node.body if isinstance(node, Compound) and node.kind == "group" else function.body


def _in_handler(body: tuple[AndOr, ...], signals: str) -> Iterator[Fault]:
    for found, inside in commands(body):
        if found.texts == ["exit", "0"] and not inside.conditional and not inside.child:
            yield Fault(
                "script-trap-exit-zero",
                found.offset,
                f"the trap on {signals} ends with status 0, whatever happened before it",
                'keep the status first and leave with it: status=$?; …; exit "$status"',
            )
    late = _late(body)
    if late is not None:
        yield Fault(
            "script-trap-late-status",
            late.offset,
            f"the trap on {signals} ends with the status of its own command, which stands before this",
            'keep the status first and leave with it: status=$?; …; exit "$status"',
        )


def _late(body: tuple[AndOr, ...]) -> Simple | None:
    """The `exit` at the handler's own level that leaves with a `$?` which is no longer the script's."""
    late: set[str] = set()
    good: set[str] = set()
    for index, and_or in enumerate(body):
        node = and_or.nodes[0]
        if and_or.operators or len(and_or.nodes) > 1 or not isinstance(node, Simple):
            # What a condition keeps or leaves with is not followed.
            good |= {word.text.split("=")[0] for one, _ in commands((and_or,)) for word in one.words}
            continue
        for word in node.words:
            if "=" in word.text:
                kept = saved(node, declared=True)
                (late if kept is not None and index > 0 else good).add(name_of(word))
        if node.texts[:1] == ["exit"] and len(node.texts) == 2:
            name = _NAME.fullmatch(node.texts[1])
            if (index > 0 and _STATUS.fullmatch(node.texts[1])) or (name and name[1] in late - good):
                return node
    return None
