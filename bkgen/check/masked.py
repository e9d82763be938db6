"""Statuses that bash itself hides: of `$(…)` behind export, of `<(…)`, and a counter that ends the script.

Source: the manual of bash, "Simple Command Expansion", "Process Substitution" and "Arithmetic Evaluation".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bkgen.check.fault import Fault
from bkgen.check.shell import AndOr, Compound, Node, Script, Simple, Word, and_ors, commands
from bkgen.check.statements import statements
from bkgen.check.testlike import runs_test

_DECLARING = frozenset({"export", "local", "readonly", "declare", "typeset"})
_SAFE = frozenset(
    {"echo", "printf", "pwd", "date", "dirname", "basename", ":", "true", "nproc", "id", "uname"}
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=(?!\()")  # an array's parts are arguments rather than a result
_COUNT = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*\+\+\s*")
_WAITS_FOR_IT = re.compile(r"\bwait\s+\"?\$(?:!|\{!\})")


def masked_statuses(script: Script, *, errexit: bool) -> Iterator[Fault]:
    """Statuses that are hidden; counters only where `errexit` makes them a failure."""
    for simple, _ in commands(script.body):
        yield from _declared(simple)
    if not _WAITS_FOR_IT.search(script.text):
        for and_or in and_ors(script.body):
            yield from _process(and_or)
    if errexit:
        yield from _counters(script)


def _declared(simple: Simple) -> Iterator[Fault]:
    words = simple.argv
    if not words or words[0].text not in _DECLARING:
        return
    for word in words[1:]:
        if _ASSIGNMENT.match(word.text) and _may_fail(word):
            name = re.split(r"\+?=", word.text)[0]
            lines = [f"{name}=$(…)", f"{words[0].text} {name}"]
            if words[0].text not in {"export", "readonly"}:
                lines.reverse()
            yield Fault(
                "script-status-masked",
                word.offset,
                f"the status of the command in '{name}' is lost: that of {words[0].text} replaces it",
                f"write two commands: {'; '.join(lines)}",
                "warning",
            )


def _may_fail(word: Word) -> bool:
    for and_or in word.inner:
        if and_or.process or "||" in and_or.operators:
            continue
        for node in and_or.nodes:
            if not isinstance(node, Simple) or (node.texts and node.texts[0] not in _SAFE):
                return True
    return False


def _process(and_or: AndOr) -> Iterator[Fault]:
    test = runs_test(and_or.nodes) if and_or.process else ""
    if test:
        yield Fault(
            "script-process-unasked",
            and_or.offset,
            f"'{test}' runs in a process substitution, whose status nobody gets",
            "write its output to a file first, and read that",
            "warning",
        )


def _counters(script: Script) -> Iterator[Fault]:
    for statement in statements(script):
        last = statement.and_or.pipelines[-1]
        name = "" if last.negated or not statement.errexit else _counter(last.nodes[-1])
        if name and not _begins_above_zero(name, script.text):
            yield Fault(
                "script-counter-ends",
                last.nodes[-1].offset,
                f"this ends the script when '{name}' is 0: its value is the old one, and 0 is status 1",
                f"assign: {name}=$(({name} + 1))",
                "warning",
            )


def _counter(node: Node) -> str:
    """The name in `((name++))` or `let name++`."""
    if isinstance(node, Compound):
        written = node.name if node.kind == "arithmetic" else ""
    else:
        written = node.texts[1] if node.texts[:1] == ["let"] and len(node.texts) == 2 else ""
    found = _COUNT.fullmatch(written)
    return found["name"] if found else ""


def _begins_above_zero(name: str, text: str) -> bool:
    values = re.findall(rf"(?<!\w){name}=(\S*)", text)
    return bool(values) and all(re.match(r"[\"']?[1-9]", value) for value in values)
