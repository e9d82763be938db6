"""What is wrong with a list of patterns, before any path is held against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bkgen.globs.syntax import BACKSLASH_AT_END, CLASSES, MEMBER, TOKEN, read

_LETTERS = r"[\w.@+~?-]*"
_JOINT = r"(?:\*(?!\*)|\[!?(?:0-9|a-z|A-Z|\w)+\])"
_NAME = rf"(?:\*\*(?=/|\Z)|(?!/|\Z|\.\.?(?:/|\Z)){_LETTERS}(?:{_JOINT}{_LETTERS})*)"
_SOUND = rf"!?/?{_NAME}(?:/{_NAME})*/?"
"""Nearly every pattern: no mistake of spelling can be in it."""
_SPELLING = (
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
        BACKSLASH_AT_END,
        "ends with a backslash and matches nothing",
        r"remove it; a backslash that belongs to the name is written '\\'",
    ),
    (
        r"(?<!\\)(?:\\\\)*\\[0-9A-Za-z_./]",
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
    A list of `!` patterns only is one fault of the whole list, at index 0. An empty list has none: whether
    a list may be empty is for its owner to say.
    """
    return () if _are_plainly_sound(patterns) else tuple(_each_fault(patterns))


def _each_fault(patterns: Sequence[str]) -> Iterator[PatternFault]:
    seen: dict[tuple[bool, bool, str], int] = {}
    first_wanted = next((index for index, text in enumerate(patterns) if not text.startswith("!")), None)
    if patterns and first_wanted is None:
        message = "the list has only '!' patterns and contains no file"
        yield PatternFault(0, message, "put what they take away from in front; every file is '**'")
    for index, text in enumerate(patterns):
        earlier = seen.setdefault(read(text), index)
        said = next(_mistakes(text), None)
        if said is None and earlier != index:
            said = (
                f"says the same as pattern {earlier + 1} of the list",
                "the last one decides: remove the other",
            )
        if said is None and index < (first_wanted or 0):
            said = (
                "takes away from nothing: no pattern stands before it",
                "put it after what it takes away from",
            )
        if said:
            yield PatternFault(index, f"{_shown(text)} {said[0]}", said[1])


def _are_plainly_sound(patterns: Sequence[str]) -> bool:
    """Whether one look at each pattern tells that no fault can be in the list; it is so for nearly all."""
    names = {text.lstrip("!./*") for text in patterns}  # equal for two patterns that say the same
    return (
        len(names) == len(patterns)
        and not any(text.startswith("!") for text in patterns[:1])
        and all(re.fullmatch(_SOUND, text) for text in patterns)
    )


def _shown(text: str) -> str:
    """The pattern for a message of one line, with undecodable bytes escaped."""
    inside = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{inside}'"


def _mistakes(text: str) -> Iterator[tuple[str, str]]:
    for regex, message, hint in _SPELLING:
        if re.search(regex, text):
            yield message, hint
    components = re.sub(TOKEN, "?", read(text)[2]).split("/")
    for component, said in _COMPONENTS.items():
        if component in (components if component else components[:-1]):
            yield said
    for token in re.finditer(TOKEN, text):
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
    for member in re.finditer(MEMBER, bracket["items"]):
        high = member["escaped"] or member["high"]
        if member["name"] is not None and member["name"] not in CLASSES:
            known = ", ".join(CLASSES)
            yield f"has an unknown class {_shown(member[0])} and matches nothing", f"the classes are {known}"
        elif high and member["low"] > high:
            yield f"has a range that runs backwards, {_shown(member[0])}", f"write '{high}-{member['low']}'"
