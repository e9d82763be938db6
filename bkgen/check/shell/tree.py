"""The parts of a parsed script, and walks over them. Offsets count characters from the script's beginning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")


@dataclass(frozen=True, slots=True)
class Word:
    """One word without its quotes; expansions stand in `text` as they were written.

    `literal` says that the shell changes nothing in it. `inner` is what its `$(…)` and `<(…)` run.
    """

    text: str
    literal: bool
    offset: int
    inner: tuple[AndOr, ...] = ()


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command: its words, assignments in front included; what redirections expand is in `inner`."""

    words: tuple[Word, ...]
    offset: int
    inner: tuple[AndOr, ...] = ()

    @property
    def argv(self) -> tuple[Word, ...]:
        """The program and its arguments, without assignments in front."""
        for index, word in enumerate(self.words):
            if not _ASSIGNMENT.match(word.text):
                return self.words[index:]
        return ()

    @property
    def texts(self) -> list[str]:
        """`argv` as plain text."""
        return [word.text for word in self.argv]


@dataclass(frozen=True, slots=True)
class Compound:
    """A command made of others: `{ }`, `( )`, if, a loop, case, or a function with its `name`."""

    kind: str
    body: tuple[AndOr, ...]
    offset: int
    name: str = ""


Node = Simple | Compound


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by `|`."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    """Pipelines joined by `&&` and `||`; `operators[i]` stands before `pipelines[i + 1]`."""

    pipelines: tuple[Pipeline, ...]
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script. `complete` is false where something in it was not understood."""

    text: str
    body: tuple[AndOr, ...]
    complete: bool = True

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1."""
        line = self.text.count("\n", 0, offset)
        return line + 1, offset - (self.text.rfind("\n", 0, offset) + 1) + 1


@dataclass(frozen=True, slots=True)
class Inside:
    """What is around a command: its function, and whether it may not be reached, or runs in a child."""

    function: str = ""
    conditional: bool = False
    child: bool = False


def commands(body: Iterable[AndOr], inside: Inside | None = None) -> Iterator[tuple[Simple, Inside]]:
    """Every simple command, in the order of the text, those in `$(…)` included."""
    around = inside or Inside()
    for and_or in body:
        for index, pipeline in enumerate(and_or.pipelines):
            here = replace(
                around,
                conditional=around.conditional or index > 0,
                child=around.child or len(pipeline.nodes) > 1,
            )
            for node in pipeline.nodes:
                yield from _of_node(node, here)


def _of_node(node: Node, here: Inside) -> Iterator[tuple[Simple, Inside]]:
    if isinstance(node, Simple):
        yield node, here
        for word in node.words:
            yield from commands(word.inner, replace(here, child=True))
        yield from commands(node.inner, replace(here, child=True))
    elif node.kind == "function":
        yield from commands(node.body, Inside(function=node.name))
    else:
        conditional = here.conditional or node.kind in {"if", "loop", "case"}
        child = here.child or node.kind == "subshell"
        yield from commands(node.body, replace(here, conditional=conditional, child=child))


def and_ors(body: Iterable[AndOr]) -> Iterator[AndOr]:
    """Every list at any depth, the outer ones first."""
    for and_or in body:
        yield and_or
        for pipeline in and_or.pipelines:
            for node in pipeline.nodes:
                yield from and_ors(node.body if isinstance(node, Compound) else _inner(node))


def _inner(node: Simple) -> Iterator[AndOr]:
    for word in node.words:
        yield from word.inner
    yield from node.inner
