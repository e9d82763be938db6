"""What is wrong with a list of patterns, before any path is held against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bkgen.globs.syntax import BACKSLASH_AT_END, CLASSES, MEMBER, TOKEN, Body, read

_SPELLING = tuple(
    (re.compile(regex), message, hint)
    for regex, message, hint in (
        (r"^!?\s*\Z", "is empty", "remove it, or name a file or a directory"),
        (r"^#", "is a comment to git and matches nothing", r"a name that begins with '#' is written '\#…'"),
        (
            r"(?<!\\)(?:\\\\)*\s\Z",
            "ends with a blank, which git drops",
            r"remove the blank; one that belongs to the name is written '\ '",
        ),
        (
            r"^!?(?:[A-Za-z]:[\\/]|\\\\)",
            "is a path of one machine",
            "write the path from the root of the repository, with '/'",
        ),
        (
            BACKSLASH_AT_END.pattern,
            "ends with a backslash and matches nothing",
            r"remove it; a backslash that belongs to the name is written '\\'",
        ),
        (
            r"(?<!\\)(?:\\\\)*\\[0-9A-Za-z_.]",
            "has a backslash before an ordinary character, where git ignores it",
            "put '/' between directories; a dot stands for itself without a backslash",
        ),
        (r"^!?(?:\./)*/?\Z", "names nothing", "name a file or a directory; every file is '**'"),
        (
            r"(?<!\\)\{[^{}/]*,[^{}/]*\}",
            "has alternatives in braces, which git takes literally",
            r"write one pattern for each; a brace that belongs to the name is written '\{'",
        ),
        (
            r"[^!/*]\*{2,}/",
            "has '**' beside other characters: git's manual and git itself read that differently",
            "write '*', or put '**' between slashes",
        ),
    )
)
_COMPONENTS = {
    "..": ("has the component '..' and matches nothing", "write the path from the root of the repository"),
    ".": ("has the component '.' and matches nothing", "leave it out; only './' in front names the root"),
    "": ("has an empty component and matches nothing", "write one '/' between two names"),
}


@dataclass(frozen=True, slots=True)
class PatternFault:
    """A pattern that cannot mean what it says: its index in the list, what is wrong, what to do next."""

    index: int
    message: str
    hint: str


def faults(patterns: Sequence[str]) -> tuple[PatternFault, ...]:
    """Every pattern that is a mistake, in the order of the list, one fault for each.

    A pattern that works but does nothing (twice the same, `!` with nothing before it) is a mistake, too.
    An empty list has none: whether a list may be empty is for its owner to say.
    """
    found: list[PatternFault] = []
    seen: dict[Body, int] = {}
    wanted = [index for index, text in enumerate(patterns) if not text.startswith("!")]
    for index, text in enumerate(patterns):
        earlier = seen.setdefault(read(text), index)
        said = next(_mistakes(text), None)
        if said is None and earlier != index:
            said = (
                f"says the same as pattern {earlier + 1} of the list",
                "the last one decides: remove the other",
            )
        if said is None and wanted and index < wanted[0]:
            said = (
                "takes away from nothing: no pattern stands before it",
                "put it after what it takes away from",
            )
        if said:
            found.append(PatternFault(index, f"{_shown(text)} {said[0]}", said[1]))
    if patterns and not wanted:
        found.insert(
            0,
            PatternFault(
                0,
                "the list has only '!' patterns and contains no file",
                "put what they take away from in front; every file is '**'",
            ),
        )
    return tuple(found)


def _shown(text: str) -> str:
    """The pattern for a message of one line, with undecodable bytes escaped."""
    inside = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{inside}'"


def _mistakes(text: str) -> Iterator[tuple[str, str]]:
    for regex, message, hint in _SPELLING:
        if regex.search(text):
            yield message, hint
    components = TOKEN.sub("?", read(text).rest).split("/")
    for component, said in _COMPONENTS.items():
        if component in (components if component else components[:-1]):
            yield said
    for token in TOKEN.finditer(text):
        if token[0] == "[":
            yield (
                "has a '[' that is never closed, and matches nothing",
                r"close it; a literal one is written '\['",
            )
        elif token["items"]:
            yield from _bracket_mistakes(token)


def _bracket_mistakes(bracket: re.Match[str]) -> Iterator[tuple[str, str]]:
    if "/" in bracket["items"]:
        yield (
            f"has a slash in {_shown(bracket[0])}, which cannot match one",
            "write one pattern for each directory",
        )
    for member in MEMBER.finditer(bracket["items"]):
        high = member["escaped"] or member["high"]
        if member["name"] is not None and member["name"] not in CLASSES:
            known = ", ".join(CLASSES)
            yield f"has an unknown class {_shown(member[0])} and matches nothing", f"the classes are {known}"
        elif high and member["low"] > high:
            yield f"has a range that runs backwards, {_shown(member[0])}", f"write '{high}-{member['low']}'"
