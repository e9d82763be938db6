"""A test's status that nobody gets: saved for nothing, grouped with success, printed, or not asked for.

Each rule keeps still where something else in the script may yet know of the failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bkgen.check.fault import Fault
from bkgen.check.harmless import Effects
from bkgen.check.shell import AndOr, Branch, Compound, Node, Script, Simple, commands, functions
from bkgen.check.statements import Save, Statement, name_of, reads, saved, saves, statements, text_after
from bkgen.check.testlike import runs_test, wrapping_functions

_FAILURES = ("1", "2", "3", "4", "124", "125", "126", "127", "130", "134", "137", "139", "143")
"""Statuses that mean failure everywhere: pytest's, timeout's, the shell's. 5, 77 and the like may be fine."""
_SUBJECT = re.compile(r"\$\{?(\w+|\?)(?::?-[^}]*)?\}?")
_ASKS = re.compile(r"\$(?:\?|\{\?\})|PIPESTATUS")


@dataclass(frozen=True, slots=True)
class _Known:
    script: Script
    around: str
    effects: Effects
    found: list[Statement]
    wrapping: frozenset[str]

    def test_in(self, nodes: Iterable[Node], *, surely: bool = False) -> str:
        return runs_test(nodes, surely=surely, wrapping=self.wrapping)

    def is_read(self, name: str, after: Statement) -> bool:
        return reads(name, f"{text_after(self.script, after)}\n{self.around}")


def lost_statuses(script: Script, *, sourced: bool, around: str) -> Iterator[Fault]:
    """Statuses that are lost. `around` is text that shares the script's variables.

    A file that is only `sourced` shares them with whoever sources it, so that nothing is said of names.
    """
    found = list(statements(script))
    wrapping = wrapping_functions(functions(script.body))
    known = _Known(script, around, Effects(script, around), found, wrapping)
    saving = list(saves(found, wrapping))
    if not sourced:
        yield from _unread(known, saving)
    yield from _background(known)
    for statement in found:
        yield from _grouped(known, statement, saving)
        yield from _only_printed(known, statement)
        yield from _negated(known, statement)
        yield from _passed_over(known, statement)
        yield from _next_turn(known, statement)


def _unread(known: _Known, saving: list[Save]) -> Iterator[Fault]:
    sources = [one.offset for one, _ in commands(known.script.body) if one.texts[:1] in (["source"], ["."])]
    for save in saving:
        lost = save.test and save.caught and all(map(known.effects.only_shows, save.also))
        if not lost or max(sources, default=-1) > save.offset:
            continue
        if not known.is_read(save.name, save.statement):
            yield Fault(
                "script-status-unread",
                save.offset,
                f"the status of '{save.test}' is kept as '{save.name}', and nothing reads that afterwards",
                f'leave with it: exit "${save.name}"',
            )


def _grouped(known: _Known, statement: Statement, saving: list[Save]) -> Iterator[Fault]:
    for node in statement.and_or.pipelines[-1].nodes:
        if not isinstance(node, Compound) or node.kind != "case":
            continue
        name = _SUBJECT.sub(r"\1", node.name)
        test = _whose(known, statement, name, saving, node.offset)
        if not test:
            continue
        yield from _branches(known, statement, node, test, name)


def _branches(known: _Known, statement: Statement, node: Compound, test: str, name: str) -> Iterator[Fault]:
    left, well = ["0", *_FAILURES], False
    for branch in node.branches:
        if branch.kind != "case":
            continue
        taken = [one for one in left if any(fnmatchcase(one, word.text) for word in branch.words)]
        left = [one for one in left if one not in taken]
        leaves = _leaves_well(branch)
        well = well or ("0" in taken and leaves)
        failures = [one for one in taken if one != "0"]
        grouped = "0" in taken and _goes_on_well(known, statement, branch, name)
        if failures and ((leaves and well) or grouped):
            yield Fault(
                "script-failure-grouped",
                branch.words[0].offset,
                f"status {failures[0]} of '{test}' ends well here, like success",
                "name the statuses that are a success, and leave with every other one",
            )


def _whose(known: _Known, statement: Statement, name: str, saving: list[Save], offset: int) -> str:
    """The test whose status a case looks at."""
    if name != "?":
        last = [save for save in saving if save.name == name and save.offset < offset]
        return last[-1].test if last else ""
    operators = statement.and_or.operators
    if operators:
        return known.test_in(node for one in statement.and_or.pipelines[:-1] for node in one.nodes)
    before = [one.and_or for one in known.found if one.follow[:1] == (statement.and_or,)]
    return known.test_in(before[0].nodes) if before else ""


def _leaves_well(branch: Branch) -> bool:
    last = branch.body[-1].nodes[-1] if branch.body and not branch.body[-1].operators else None
    return isinstance(last, Simple) and last.texts in (["exit", "0"], ["return", "0"])


def _goes_on_well(known: _Known, statement: Statement, branch: Branch, name: str) -> bool:
    """The script goes on behind the case, and nothing can know there what the status was."""
    shows = all(known.effects.only_shows(node) for and_or in branch.body for node in and_or.nodes)
    if not shows or statement.within or _tests_again(statement):
        return False
    after = text_after(known.script, statement, itself=False)
    return name == "?" or not reads(name, f"{after}\n{known.around}")


def _tests_again(statement: Statement) -> bool:
    return any(runs_test(and_or.nodes) for and_or in statement.follow)


def _only_printed(known: _Known, statement: Statement) -> Iterator[Fault]:
    and_or = statement.and_or
    node = and_or.nodes[0]
    if len(and_or.nodes) > 1 or not isinstance(node, Compound) or node.kind != "if":
        return
    test, then, other = node.branches[0], node.branches[1], node.branches[2:]
    if len(other) > 1 or (other and other[0].kind != "else") or len(test.body) != 1:
        return
    pipeline = test.body[0].pipelines[0]
    name = known.test_in(pipeline.nodes, surely=True)
    if not name or test.body[0].operators or _tests_again(statement):
        return
    good, bad = (
        (other[0] if other else None, then) if pipeline.negated else (then, other[0] if other else None)
    )
    if bad is not None and not all(known.effects.only_shows(one) for part in bad.body for one in part.nodes):
        return
    if good is not None and not all(
        known.effects.leaves_nothing(one) for part in good.body for one in part.nodes
    ):
        return
    yield Fault(
        "script-failure-printed",
        node.offset,
        f"when '{name}' fails, this ends with status 0 and nothing keeps the failure",
        "put 'exit 1' into the branch of the failure, or run the test outside of the if",
    )


def _negated(known: _Known, statement: Statement) -> Iterator[Fault]:
    """`if ! TEST; then exit $?`: behind the `!` that is 0."""
    for node in statement.and_or.nodes:
        if not isinstance(node, Compound) or node.kind != "if":
            continue
        test, then = node.branches[0].body, node.branches[1].body
        if len(test) != 1 or test[0].operators or not test[0].pipelines[0].negated or not then:
            continue
        name, first = known.test_in(test[0].nodes), then[0].nodes[0]
        if not name or not isinstance(first, Simple) or then[0].operators:
            continue
        leaves = first.texts[:1] in (["exit"], ["return"]) and len(first.texts) == 2
        if saved(first, declared=True) is not None or (leaves and _ASKS.fullmatch(first.texts[1])):
            yield Fault(
                "script-status-negated",
                first.offset,
                f"this is 0, the status of '! {name}', and not that of the test",
                "write: if TEST; then :; else rc=$?; …; fi",
            )


def _passed_over(known: _Known, statement: Statement) -> Iterator[Fault]:
    """A test where errexit is off, and the next command does not ask how it ended."""
    and_or = statement.and_or
    if statement.errexit or and_or.operators or and_or.background or and_or.pipelines[0].negated:
        return
    test = next((n for n in and_or.nodes if isinstance(n, Simple) and known.test_in((n,), surely=True)), None)
    if test is None or (not statement.follow and statement.within != "do"):
        return
    if any(known.effects.output_is_read(node) for node in and_or.nodes):
        return
    if statement.follow:
        end = statement.follow[1].offset if len(statement.follow) > 1 else len(known.script.text)
        if _ASKS.search(known.script.text, statement.follow[0].offset, end):
            return
    yield Fault(
        "script-status-passed-over",
        test.offset,
        f"errexit is off here, and nobody asks how '{' '.join(test.texts[:3])}' ended",
        'keep the status in the next line and leave with it: rc=$?; …; exit "$rc"',
    )


def _next_turn(known: _Known, statement: Statement) -> Iterator[Fault]:
    """`TEST || continue` as the last that a turn of a loop does."""
    and_or = statement.and_or
    last = and_or.pipelines[-1].nodes[-1]
    if statement.within != "do" or statement.follow or and_or.operators[-1:] != ("||",):
        return
    test = known.test_in(node for one in and_or.pipelines[:-1] for node in one.nodes)
    if test and _goes_on(last) and not known.effects.notes_down(last):
        yield Fault(
            "script-status-ignored",
            last.offset,
            f"'{test}' may fail, and the loop goes on as if it had not",
            'note it and leave with it behind the loop: … || failed=1; …; exit "$failed"',
        )


def _goes_on(node: Simple | Compound) -> bool:
    if isinstance(node, Simple):
        return node.texts[:1] == ["continue"]
    return node.kind == "group" and bool(node.body) and _goes_on(node.body[-1].nodes[-1])


def _background(known: _Known) -> Iterator[Fault]:
    """`TEST &` where nobody waits for that process by its number, which alone gives its status."""
    text = f"{known.script.text}\n{known.around}"
    if _waits_by_number(known.script) or re.search(r"\bwait\s+[^\s;&|#]|\bjobs\b|\bfg\b", known.around):
        return
    names = [
        name_of(word)
        for one in known.found
        for node in one.and_or.nodes
        if (word := saved(node, declared=True)) is not None and "!" in word.text
    ]
    others = re.sub(r"\b[A-Za-z_]\w*=\$(?:!|\{!\})", "", text)
    if re.search(r"\$(?:!|\{!\})", others) or any(reads(name, text) for name in names):
        return
    for one in known.found:
        if one.and_or.background and not one.and_or.operators:
            yield from _unwaited(one.and_or, known)


def _unwaited(and_or: AndOr, known: _Known) -> Iterator[Fault]:
    test = known.test_in(and_or.nodes, surely=True)
    if not test or any(_asks(node) or known.effects.output_is_read(node) for node in and_or.nodes):
        return
    yield Fault(
        "script-background-unasked",
        and_or.offset,
        f"'{test}' runs in the background, and nobody asks how it ended: a bare wait says 0",
        'keep its number and wait for that: pid=$!; …; wait "$pid"',
    )


def _asks(node: Simple | Compound) -> bool:
    """A group that looks at the status itself."""
    if isinstance(node, Simple):
        return any(_ASKS.search(word.text) for word in node.words)
    return any(_asks(inner) or one.operators != () for one in node.body for inner in one.nodes)


def _waits_by_number(script: Script) -> bool:
    for simple, _ in commands(script.body):
        if simple.texts[:1] == ["wait"] and len(simple.texts) > 1:
            return True
        if simple.texts[:1] in (["jobs"], ["fg"]):
            return True
    return False
