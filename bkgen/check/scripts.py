"""Scripts of the suites: there, startable, strict, and honest about their exit status."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bkgen.check.commands import SUFFIXES, Command, Named, commands_of, named_scripts
from bkgen.check.fault import Fault
from bkgen.check.files import Disk
from bkgen.check.script_rules import STRICT, Sourced, statuses, strictness
from bkgen.check.shell import parse
from bkgen.errors import Diagnostic, Position, did_you_mean, dotted
from bkgen.pipeline.commands import in_directory
from bkgen.spec.suite import Suite

_BASH = re.compile(r"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(?:\S*/)?(bash)\b")
_ANY_SHELL = re.compile(r"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(?:\S*/)?(?:ba|da|k|z|a)?sh\b")

# A pod's command runs under /bin/sh, which in Debian's images is dash: it may not know pipefail.
_PIPE_HINT = "move it into run.sh, which sets pipefail, or write: bash -c 'set -eo pipefail; …'"


def scripts_of(suites: Sequence[Suite], unread: Iterable[str], disk: Disk) -> dict[str, list[Named]]:
    """Every shell script to be looked at, by path, with the commands that name it.

    `unread` are directories of suites whose files could not be read: their scripts can.
    """
    scripts: dict[str, list[Named]] = {}
    for directory in (*(suite.directory for suite in suites), *unread):
        for path in disk.below(directory, (".sh", ".bash")):
            scripts.setdefault(path, [])
    for suite in suites:
        for named in named_scripts(suite):
            scripts.setdefault(named.path, []).append(named)
    return scripts


def script_problems(
    scripts: Mapping[str, list[Named]], suites: Sequence[Suite], unread: Iterable[str], disk: Disk
) -> Iterator[Diagnostic]:
    """What is wrong with the scripts, and with the commands that name them."""
    entries = {f"{directory}/run.sh" for directory in (*(suite.directory for suite in suites), *unread)}
    for path, named in scripts.items():
        if not disk.is_file(path) or disk.is_ignored(path):
            for one in named:
                yield _missing(one, disk)
            continue
        text = disk.text(path) or ""
        if not (text.startswith("#!") or path.endswith(SUFFIXES)):
            continue
        started = path in entries or any(one.executed for one in named)
        yield from _start(path, text, started=started, disk=disk)
        if not path.endswith(".py"):
            yield from _statuses(path, text, started=started, disk=disk)
    for suite in suites:
        for command in commands_of(suite):
            yield from _command_statuses(command)


def _missing(named: Named, disk: Disk) -> Diagnostic:
    command = named.command
    position = command.suite.source.position(command.field, of_key=False)
    field = dotted(command.field)
    if disk.is_file(named.path):
        hint = "take it out of .gitignore, or make it in the command before it is started"
        message = f"'{named.written}' is ignored by git, so no other machine has it"
        return Diagnostic("script-missing", message, hint, position, field)
    message = f"'{named.written}' does not exist: there is no {named.path}"
    return Diagnostic("script-missing", message, _missing_hint(named, disk), position, field)


def _missing_hint(named: Named, disk: Disk) -> str:
    directory = named.command.suite.directory
    within = named.path.removeprefix(f"{directory}/")
    if within != named.path and disk.is_file(within):
        there = (
            within if "/" in within else f"bash {within}" if within.endswith(".sh") else f'"$PWD/{within}"'
        )
        return f"`./` is the suite's own directory; for the file at the repository's root write: {there}"
    if within == named.path and disk.is_file(f"{directory}/{named.path}"):
        return (
            f"commands start at the repository's root; for the suite's own file write ./{named.path} in front"
        )
    known = {path.removeprefix(f"{directory}/") for path in disk.below(directory, SUFFIXES)}
    return did_you_mean(within, known, what="the suite's scripts")


def _start(path: str, text: str, *, started: bool, disk: Disk) -> Iterator[Diagnostic]:
    """Can the kernel start the file?"""
    first = text.split("\n", 1)[0]
    place = Position(path, 1, 1)
    runnable, shebang = disk.is_executable(path), first.startswith("#!")
    if started and not runnable:
        hint = f"chmod +x {path}"
        if disk.listing is not None and path in disk.listing.tracked:
            hint = f"git update-index --chmod=+x {path}"
        yield Diagnostic(
            "script-not-executable", "the run bit is not set, so the step cannot start it", hint, place
        )
    elif shebang and not runnable:
        hint = f"chmod +x {path}, or take the first line out of a file that is only sourced"
        yield Diagnostic("script-run-bit", "the file has a #! line and no run bit", hint, place).as_warning()
    if (started or runnable) and not shebang:
        message = "the first line does not say which program runs the script"
        yield Diagnostic("script-no-shebang", message, "begin it with '#!/usr/bin/env bash'", place)
    if shebang and first.endswith("\r"):
        message = "the lines end in CR LF, so the kernel looks for a program called 'bash\\r'"
        hint = f"save it with LF, and say '{posixpath.basename(path)} eol=lf' in .gitattributes"
        yield Diagnostic("script-line-ends", message, hint, place)


def _statuses(path: str, text: str, *, started: bool, disk: Disk) -> Iterator[Diagnostic]:
    """Does a failure inside come out as the script's status?"""
    first = text.split("\n", 1)[0]
    shebang = first.startswith("#!")
    if shebang and not _ANY_SHELL.match(first):
        return
    script = parse(text)
    whole = started or shebang or disk.is_executable(path)
    strict = strictness(script, _sourcing(path, disk)) if whole else None
    is_bash = not shebang or _BASH.match(first) is not None
    if strict is not None:
        yield from _not_strict(path, strict, is_bash=is_bash)
    for fault in statuses(script, strict):
        if fault.code == "script-pipe-hides-status" and not is_bash:
            fault = replace(
                fault, hint=f"{fault.hint}, and begin with '#!/usr/bin/env bash': sh may not know it"
            )
        yield _at(path, script.place(fault.offset), fault)


def _not_strict(path: str, strict: frozenset[str], *, is_bash: bool) -> Iterator[Diagnostic]:
    place = Position(path, 1, 1)
    missing = sorted(STRICT - strict)
    hint = "write 'set -euo pipefail' below the first lines, or source harness/setup-env.sh"
    if not is_bash:
        hint += ", and begin with '#!/usr/bin/env bash'"
    if missing == ["nounset"]:
        message = "nounset is not set: a misspelt variable is empty and nobody notices"
        yield Diagnostic("script-unset-variables", message, hint, place).as_warning()
    elif missing:
        verb = "is" if len(missing) == 1 else "are"
        message = f"{' and '.join(missing)} {verb} not set: a failure is passed over"
        yield Diagnostic("script-not-strict", message, hint, place)


def _sourcing(path: str, disk: Disk) -> Sourced:
    folder = posixpath.dirname(path)

    def sourced(written: str) -> str | None:
        # "$(dirname "$0")/lib.sh" and "$here/lib.sh": what is before the last expansion is some folder.
        tail = re.split(r"[)}]/|\$\w+/", written)[-1].lstrip("./")
        for candidate in (
            posixpath.normpath(f"{folder}/{tail}"),
            tail,
            f"harness/{posixpath.basename(tail)}",
        ):
            if candidate.endswith(".sh") and disk.is_file(candidate):
                return disk.text(candidate)
        return None

    return sourced


def _at(path: str, place: tuple[int, int], fault: Fault) -> Diagnostic:
    return Diagnostic(fault.code, fault.message, fault.hint, Position(path, *place), severity=fault.severity)


def _command_statuses(command: Command) -> Iterator[Diagnostic]:
    """The agent runs commands with bash -e, a pod with sh -ec: both without pipefail."""
    before = "\n".join(command.step.commands_list[: _index(command)])
    script = parse(in_directory(command.text, command.suite.directory))
    strict = strictness(script, lambda _: None) | strictness(parse(before), lambda _: None)
    others = [text for text in command.step.commands_list if text != command.text]
    for fault in statuses(script, strict | {"errexit"}, "\n".join(others)):
        position = command.suite.source.position(command.field, of_key=False)
        hint = _PIPE_HINT if fault.code == "script-pipe-hides-status" else fault.hint
        yield Diagnostic(fault.code, fault.message, hint, position, dotted(command.field), fault.severity)


def _index(command: Command) -> int:
    last = command.field[-1] if command.field else 0
    return last if isinstance(last, int) else 0
