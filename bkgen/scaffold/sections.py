"""The generated parts of a page, between markers; everything else is the author's.

    <!-- bkgen:begin cluster -->
    | queue | `k8s` |
    <!-- bkgen:end cluster -->

A marker stands alone on its line. Parts may be moved about; one that is missing is put in where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bkgen.errors import Diagnostic, Position, UserError, did_you_mean

_MARKER = re.compile(r"<!-- bkgen:(begin|end) (\S+) -->\s*\Z")
_LIKE_A_MARKER = re.compile(r"\s*<!--\s*bkgen:")


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of a page; `name` is that of a generated part, None for the author's own."""

    name: str | None
    lines: tuple[str, ...]


def merged(text: str, fresh: str, file: str) -> str:
    """`text` with every generated part taken from `fresh`, in the line ends that `text` has.

    UserError, with every place, for markers that do not pair up, and for parts that `fresh` does not have.
    """
    end = "\r" if "\r\n" in text else ""
    new = [part for part in parts(fresh, file) if part.name is not None]
    named = {part.name: replace(part, lines=tuple(line + end for line in part.lines)) for part in new}
    order = tuple(str(name) for name in named)
    kept = [named.get(part.name, part) for part in parts(text, file, known=order)]
    for name in order:
        if all(part.name != name for part in kept):
            kept = _with(kept, named[name], order, Part(None, (end,)))
    return "\n".join(line for part in kept for line in part.lines)


def _with(kept: list[Part], part: Part, order: Sequence[str], blank: Part) -> list[Part]:
    """`part` behind its nearest predecessor, else before its nearest successor, else at the end."""
    place = order.index(part.name or "")
    at = {known.name: index for index, known in enumerate(kept) if known.name is not None}
    before = [at[name] for name in order[:place] if name in at]
    if before:
        return [*kept[: before[-1] + 1], blank, part, *kept[before[-1] + 1 :]]
    after = [at[name] for name in order[place + 1 :] if name in at]
    if after:
        return [*kept[: after[0]], part, blank, *kept[after[0] :]]
    own = [line for known in kept for line in known.lines]
    while own and not own[-1].strip():
        own.pop()
    return [Part(None, (*own, *blank.lines) if own else ()), part, Part(None, ("",))]


def parts(text: str, file: str, *, known: tuple[str, ...] | None = None) -> list[Part]:
    """The parts of a page in order. UserError for broken markers, and for names outside `known`."""
    problems: list[Diagnostic] = []
    found = list(_parted(text.split("\n"), file, known, problems))
    if problems:
        raise UserError(problems)
    return found


def _parted(
    lines: list[str], file: str, known: tuple[str, ...] | None, problems: list[Diagnostic]
) -> Iterator[Part]:
    seen: set[str] = set()
    start, name = 0, None
    for index, line in enumerate(lines):
        if not _LIKE_A_MARKER.match(line):
            continue
        marker = _MARKER.match(line)
        fault = _fault(marker, name, seen, known)
        if fault is not None:
            problems.append(Diagnostic("docs-marker", *fault, Position(file, index + 1, 1)))
        if marker is None:
            continue
        if marker[1] == "begin":
            if index > start and name is None:
                yield Part(None, tuple(lines[start:index]))
            start, name = index, marker[2]
            seen.add(marker[2])
        elif name is not None:
            yield Part(name, tuple(lines[start : index + 1]))
            start, name = index + 1, None
    if name is not None:
        hint = f"write '<!-- bkgen:end {name} -->' where the part ends, or remove this marker"
        place = Position(file, start + 1, 1)
        problems.append(Diagnostic("docs-marker", f"the part '{name}' has no end", hint, place))
    if start < len(lines):
        yield Part(None, tuple(lines[start:]))


def _fault(
    marker: re.Match[str] | None, name: str | None, seen: set[str], known: tuple[str, ...] | None
) -> tuple[str, str] | None:
    if marker is None:
        return (
            "this marker is not written as bkgen writes it",
            "write '<!-- bkgen:begin NAME -->' alone on a line",
        )
    word, found = marker.groups()
    if word == "end":
        if name == found:
            return None
        if name is None:
            return f"no part '{found}' is open here", "remove this marker"
        return f"the part that is open here is '{name}', not '{found}'", f"write '<!-- bkgen:end {name} -->'"
    if name is not None:
        return f"'{found}' begins inside the part '{name}'", f"end '{name}' before it"
    if found in seen:
        return f"the part '{found}' is here twice", "remove one of the two"
    if known is not None and found not in known:
        return f"bkgen writes no part '{found}'", did_you_mean(found, known, what="parts")
    return None
