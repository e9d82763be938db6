"""What a script does with exit statuses. Each rule gives faults with offsets; nothing here reads a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bkgen.check.fault import Fault
from bkgen.check.harmless import QUIET, Effects
from bkgen.check.inline_python import inline_faults
from bkgen.check.lost import lost_statuses
from bkgen.check.masked import masked_statuses
from bkgen.check.shell import AndOr, Pipeline, Script, Simple, and_ors, commands, parse
from bkgen.check.testlike import always_passes, runs_test
from bkgen.check.traps import trap_faults

STRICT = frozenset({"errexit", "nounset", "pipefail"})
_LETTERS = {"e": "errexit", "u": "nounset"}
_STRICT_SCRIPT = "setup-env.sh"

Sourced = Callable[[str], str | None]
"""From the path that a script sources, as written, to the text of that file where it is known."""


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


def statuses(script: Script, strict: frozenset[str] | None, around: str = "") -> Iterator[Fault]:
    """Every place where a failure is lost. `strict` is None where whoever sources the script decides.

    `around` is the text of other commands that run in the same shell.
    """
    effects = Effects(script, around)
    for and_or in and_ors(script.body):
        if strict is not None and "pipefail" not in strict and "PIPESTATUS" not in script.text:
            for pipeline in and_or.pipelines:
                yield from _hidden(pipeline)
        yield from _ignored(and_or, effects)
    yield from trap_faults(script)
    yield from lost_statuses(script, sourced=strict is None, around=around)
    yield from inline_faults(script)
    yield from masked_statuses(script, errexit=strict is None or "errexit" in strict)


def _hidden(pipeline: Pipeline) -> Iterator[Fault]:
    if len(pipeline.nodes) < 2:
        return
    left = pipeline.nodes[:-1]
    tee = next((n for n in pipeline.nodes[1:] if isinstance(n, Simple) and n.texts[:1] == ["tee"]), None)
    quiet = all(isinstance(node, Simple) and node.texts[:1] and node.texts[0] in QUIET for node in left)
    test = runs_test(left)
    if test or (tee is not None and not quiet):
        what = f"the failure of '{test}'" if test else "a failure"
        yield Fault(
            "script-pipe-hides-status",
            (tee or pipeline.nodes[-1]).offset,
            f"{what} is lost in this pipe: its status is that of the last command",
            "put 'set -o pipefail' in front",
        )


def _ignored(and_or: AndOr, effects: Effects) -> Iterator[Fault]:
    if not and_or.operators or and_or.operators[-1] != "||":
        return
    last = and_or.pipelines[-1].nodes
    if len(last) != 1 or not always_passes(last[0]) or effects.notes_down(last[0]):
        return
    test = runs_test(node for pipeline in and_or.pipelines[:-1] for node in pipeline.nodes)
    if test:
        yield Fault(
            "script-status-ignored",
            last[0].offset,
            f"'{test}' may fail, and this makes the step pass all the same",
            "let it fail, or say soft_fail on the step, which is shown as such",
        )
