"""The lists of a script whose status matters, and what becomes of a status that is saved under a name.

Source of the rules: the manual of bash, "The Set Builtin" (errexit) and "Special Parameters" (`$?`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bkgen.check.shell import AndOr, Compound, Node, Script, Simple, Word, and_ors
from bkgen.check.testlike import runs_test

_SAVES = re.compile(r"(?P<name>[A-Za-z_]\w*)=\$(?:\?|\{\?\}|!|\{!\})")
_DECLARING = frozenset({"local", "declare", "typeset", "readonly", "export"})
_OPAQUE = re.compile(r"\(\(|\[|\blet\b|\bexport\b|\beval\b|\bdeclare\b|\btypeset\b|\btest\b|\blocal -n\b")


@dataclass(frozen=True, slots=True)
class Statement:
    """A list that is no test of an if or a loop, with those that `follow` it in the same place.

    `within` is what its place is: function, do, then, else, case, group, subshell, or empty for the script
    itself. `errexit` says that no `set +e` holds there; `top` is the list of the script itself that the
    statement is a part of.
    """

    and_or: AndOr
    follow: tuple[AndOr, ...]
    within: str
    errexit: bool
    top: int


def statements(script: Script) -> Iterator[Statement]:
    """Every statement, the outer ones first."""
    yield from _statements(script.body, "", True, None)


def _statements(body: tuple[AndOr, ...], within: str, errexit: bool, top: int | None) -> Iterator[Statement]:
    for index, and_or in enumerate(body):
        here = index if top is None else top
        errexit = _set(and_or, errexit)
        yield Statement(and_or, body[index + 1 :], within, errexit, here)
        for node in and_or.nodes:
            if not isinstance(node, Compound):
                continue
            for branch in node.branches:
                if branch.kind in {"then", "else", "case", "do"}:
                    yield from _statements(branch.body, branch.kind, errexit, here)
            if not node.branches:
                on = errexit or node.kind == "function"
                yield from _statements(node.body, node.kind, on, here)


def _set(and_or: AndOr, errexit: bool) -> bool:
    """What errexit is after a list, if that is a plain `set`."""
    first = and_or.nodes[0]
    if not isinstance(first, Simple) or first.texts[:1] != ["set"] or and_or.operators:
        return errexit
    words = first.texts[1:]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--":
            break
        if word[:1] in {"-", "+"} and (
            "e" in word[1:] or (word[1:].endswith("o") and following == "errexit")
        ):
            errexit = word[0] == "-"
    return errexit


def saved(node: Node, *, declared: bool = False) -> Word | None:
    """The word of a command that only saves `$?` or `$!`: `name=$?`; `local name=$?` where `declared`."""
    if not isinstance(node, Simple):
        return None
    words = node.words
    if declared and words and words[0].text in _DECLARING:
        words = words[1:]
    if len(words) != 1 or not _SAVES.fullmatch(words[0].text):
        return None
    return words[0]


def name_of(word: Word) -> str:
    """The name in `name=$?`."""
    return word.text.split("=")[0]


@dataclass(frozen=True, slots=True)
class Save:
    """A status put under a name. `test` is whose it is, empty for that of another command.

    `caught` says that errexit does not end the script before the name is set. `also` is what else is done
    where the status is saved.
    """

    name: str
    offset: int
    test: str
    statement: Statement
    caught: bool
    also: tuple[Node, ...] = ()


def saves(found: list[Statement], wrapping: frozenset[str]) -> Iterator[Save]:
    """Every `… || name=$?`, every `if …; else name=$?`, and every `name=$?` behind another statement."""
    before: dict[int, AndOr] = {}
    seen: set[int] = set()
    for statement in found:
        if statement.follow:
            before[statement.follow[0].offset] = statement.and_or
        and_or = statement.and_or
        body, nodes = _saving(and_or)
        caught = bool(nodes)
        if not nodes and not and_or.operators and and_or.offset in before:
            nodes, caught = before[and_or.offset].nodes, not statement.errexit
        first = body[0].nodes[0] if body else None
        word = saved(first, declared=True) if first is not None else None
        if word is not None and "!" not in word.text and word.offset not in seen:
            seen.add(word.offset)
            also = tuple(node for one in body for node in one.nodes if node is not first)
            yield Save(
                name_of(word), word.offset, runs_test(nodes, wrapping=wrapping), statement, caught, also
            )


def _saving(and_or: AndOr) -> tuple[tuple[AndOr, ...], tuple[Node, ...]]:
    """What is run when something failed, and what that was; the latter empty where errexit would end it."""
    last = and_or.pipelines[-1].nodes[0]
    if and_or.operators[-1:] == ("||",):
        failed = tuple(node for pipeline in and_or.pipelines[:-1] for node in pipeline.nodes)
        group = isinstance(last, Compound) and last.kind == "group"
        return (
            last.body if isinstance(last, Compound) and group else (AndOr(and_or.pipelines[-1:]),)
        ), failed
    kinds = [branch.kind for branch in last.branches] if isinstance(last, Compound) else []
    if isinstance(last, Compound) and kinds == ["test", "then", "else"] and not and_or.operators:
        test = last.branches[0].body
        if len(test) == 1 and not test[0].pipelines[-1].negated:
            return last.branches[2].body, test[0].nodes
    return (and_or,), ()


def reads(name: str, text: str) -> bool:
    """Something in `text` may read the shell's variable `name`: as `$name`, or bare where that counts."""
    if re.search(rf"\$\{{?[#!]?{name}(?!\w)", text):
        return True
    bare = re.compile(rf"(?<![\w$-]){name}(?![\w=]|\+=)")
    return any(bare.search(line) and _OPAQUE.search(line) for line in text.splitlines())


def text_after(script: Script, statement: Statement, *, itself: bool = True) -> str:
    """What may be run after a statement begins, or after it ended: all behind it, functions, and traps.

    For a statement in a function or a loop that is the whole script, which may come round again.
    """
    top = script.body[statement.top]
    node = top.nodes[0]
    if statement.within and isinstance(node, Compound) and node.kind in {"function", "loop"}:
        return script.text
    begin = top.offset
    if not itself:
        begin = statement.follow[0].offset if statement.follow else len(script.text)
    texts = [script.text[begin:]]
    for index, earlier in enumerate(script.body[: statement.top]):
        if any(_comes_later(and_or) for and_or in and_ors((earlier,))):
            texts.append(script.text[earlier.offset : script.body[index + 1].offset])
    return "\n".join(texts)


def _comes_later(and_or: AndOr) -> bool:
    for node in and_or.nodes:
        if isinstance(node, Compound) and node.kind == "function":
            return True
        if isinstance(node, Simple) and (node.texts[:1] == ["trap"] or and_or.background):
            return True
    return False
