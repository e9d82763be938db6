"""What a script does with exit statuses. Each rule gives faults with offsets; nothing here reads a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bkgen.check.shell import AndOr, Compound, Pipeline, Script, Simple, and_ors, commands, parse
from bkgen.check.testlike import always_passes, runs_test

STRICT = frozenset({"errexit", "nounset", "pipefail"})
_LETTERS = {"e": "errexit", "u": "nounset"}
_STRICT_SCRIPT = "setup-env.sh"
_QUIET = frozenset({"echo", "printf", ":", "cat", "log"})

Sourced = Callable[[str], str | None]
"""From the path that a script sources, as written, to the text of that file where it is known."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake at an offset of the script."""

    code: str
    offset: int
    message: str
    hint: str


def strictness(script: Script, sourced: Sourced, depth: int = 0) -> frozenset[str]:
    """The options among errexit, nounset and pipefail that the script turns on for itself.

    By `set`, by the flags of its first line, or by a file that it sources.
    """
    found = _of_shebang(script.text)
    for simple, inside in commands(script.body):
        if inside.function or inside.child:
            continue
        words = simple.texts
        if words[:1] == ["set"] or words[:1] == ["shopt"]:
            found |= _of_set(words[1:])
        elif words[:1] in (["source"], ["."]) and len(words) > 1:
            if words[1].endswith(_STRICT_SCRIPT):
                return STRICT
            text = sourced(words[1]) if depth < 3 else None
            if text is not None:
                found |= strictness(parse(text), sourced, depth + 1)
    return found


def _of_shebang(text: str) -> frozenset[str]:
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        return frozenset()
    return _of_set(first.split()[1:])


def _of_set(words: Iterable[str]) -> frozenset[str]:
    found = set()
    named = False
    for word in words:
        if word == "--":
            break
        if named:
            found.add(word)
        named = False
        if word.startswith("-"):
            found |= {_LETTERS[letter] for letter in word[1:] if letter in _LETTERS}
            named = word.endswith("o")
    return STRICT & found


def statuses(script: Script, strict: frozenset[str] | None) -> Iterator[Fault]:
    """Every place where a failure is lost. `strict` is None where whoever sources the script decides."""
    for and_or in and_ors(script.body):
        if strict is not None and "pipefail" not in strict and "PIPESTATUS" not in script.text:
            for pipeline in and_or.pipelines:
                yield from _hidden(pipeline)
        yield from _ignored(and_or)
    yield from _traps(script)


def _hidden(pipeline: Pipeline) -> Iterator[Fault]:
    if len(pipeline.nodes) < 2:
        return
    left = pipeline.nodes[:-1]
    tee = next((n for n in pipeline.nodes[1:] if isinstance(n, Simple) and n.texts[:1] == ["tee"]), None)
    quiet = all(isinstance(node, Simple) and node.texts[:1] and node.texts[0] in _QUIET for node in left)
    test = runs_test(left)
    if test or (tee is not None and not quiet):
        what = f"the failure of '{test}'" if test else "a failure"
        yield Fault(
            "script-pipe-hides-status",
            (tee or pipeline.nodes[-1]).offset,
            f"{what} is lost in this pipe: its status is that of the last command",
            "put 'set -o pipefail' in front",
        )


def _ignored(and_or: AndOr) -> Iterator[Fault]:
    if not and_or.operators or and_or.operators[-1] != "||":
        return
    last = and_or.pipelines[-1].nodes
    if len(last) != 1 or not always_passes(last[0]):
        return
    test = runs_test(node for pipeline in and_or.pipelines[:-1] for node in pipeline.nodes)
    if test:
        yield Fault(
            "script-status-ignored",
            last[0].offset,
            f"'{test}' may fail, and this makes the step pass all the same",
            "let it fail, or say soft_fail on the step, which is shown as such",
        )


def _traps(script: Script) -> Iterator[Fault]:
    functions = {node.name: node for node in _functions(script.body)}
    asked: set[str] = set()
    for simple, _ in commands(script.body):
        words = [word for word in simple.argv if word.text != "--"]
        if len(words) < 3 or words[0].text != "trap" or words[1].text.startswith("-"):
            continue
        handler = words[1]
        signals = " ".join(word.text for word in words[2:])
        for found, inside in commands(parse(handler.text).body):
            if _ends_well(found) and not inside.conditional:
                yield _trap_fault(handler.offset, signals)
            name = found.texts[0] if found.texts else ""
            if name in functions and name not in asked:
                asked.add(name)
                yield from _in_function(functions[name], signals)


def _in_function(function: Compound, signals: str) -> Iterator[Fault]:
    for found, inside in commands(function.body):
        if _ends_well(found) and not inside.conditional and not inside.child:
            yield _trap_fault(found.offset, signals)


def _trap_fault(offset: int, signals: str) -> Fault:
    return Fault(
        "script-trap-exit-zero",
        offset,
        f"the trap on {signals} ends with status 0, whatever happened before it",
        'keep the status first and leave with it: status=$?; …; exit "$status"',
    )


def _ends_well(simple: Simple) -> bool:
    return simple.texts == ["exit", "0"]


def _functions(body: Iterable[AndOr]) -> Iterator[Compound]:
    for and_or in body:
        for pipeline in and_or.pipelines:
            for node in pipeline.nodes:
                if isinstance(node, Compound):
                    if node.kind == "function":
                        yield node
                    yield from _functions(node.body)


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
