"""The parts of a parsed script, and walks over them. Offsets count characters from the script's beginning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

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
    """A simple command: its words, assignments in front included; what redirections expand is in `inner`.

    `targets` are the files that its output goes to; `documents` names its heredocs in the script's.
    """

    words: tuple[Word, ...]
    offset: int
    inner: tuple[AndOr, ...] = ()
    targets: tuple[str, ...] = ()
    documents: tuple[int, ...] = ()

    @property
    def assigned(self) -> tuple[Word, ...]:
        """The assignments in front."""
        return self.words[: len(self.words) - len(self.argv)]

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
class Branch:
    """A part of an if, a loop or a case.

    `kind` is test, then, else, do, case (with its patterns in `words`), or in (what `for` goes through).
    """

    kind: str
    body: tuple[AndOr, ...]
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Compound:
    """A command made of others: `{ }`, `( )`, if, a loop, case, or a function.

    `name` is a function's name, the word that begins a loop, the word of a case, the text of an arithmetic.
    `body` holds everything inside; `branches` the same by its parts.
    """

    kind: str
    body: tuple[AndOr, ...]
    offset: int
    name: str = ""
    branches: tuple[Branch, ...] = ()


Node = Simple | Compound


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by `|`; `negated` by a `!` in front."""

    nodes: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AndOr:
    """Pipelines joined by `&&` and `||`; `operators[i]` stands before `pipelines[i + 1]`.

    `background`: a `&` ends it. `process`: it stands in `<(…)`, whose status nobody gets.
    """

    pipelines: tuple[Pipeline, ...]
    operators: tuple[str, ...] = ()
    background: bool = False
    process: bool = False

    @property
    def offset(self) -> int:
        """Where it begins."""
        return self.pipelines[0].nodes[0].offset

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The commands of all its pipelines."""
        return tuple(node for pipeline in self.pipelines for node in pipeline.nodes)


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a heredoc, and where its first line begins."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script. `complete` is false where something in it was not understood.

    `documents` are its heredocs, by the offsets of the words that end them.
    """

    text: str
    body: tuple[AndOr, ...]
    complete: bool = True
    documents: Mapping[int, Document] = field(default_factory=dict)

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


def functions(body: Iterable[AndOr]) -> dict[str, Compound]:
    """The functions that are defined at any depth, by name."""
    found: dict[str, Compound] = {}
    for and_or in and_ors(body):
        for node in and_or.nodes:
            if isinstance(node, Compound) and node.kind == "function":
                found[node.name] = node
    return found


def _inner(node: Simple) -> Iterator[AndOr]:
    for word in node.words:
        yield from word.inner
    yield from node.inner
