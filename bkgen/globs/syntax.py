"""One pattern: taken apart for a look-up, and turned into a test for a path.

A path is tested by its key: `/path`, with a slash at the end when it is a symlink or submodule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count

# Regular expressions as text are compiled by `re` at their first use: few patterns need them, and
# compiling all of them would double what importing bkgen.globs costs.
_ITEM = r"(?:\[:[^\]]*:\]|(?:\\.|(?!\[:[^\]]*:\])[^\\])(?:-(?:\\.|[^\\\]]))?)"
TOKEN = (
    rf"(?s)\[(?P<negated>[!^]|(?![!^]))(?P<items>{_ITEM}(?:(?!\]){_ITEM})*)\]"
    r"|\\(?P<escaped>.)|[\[\s" + "\U000f0000-\U0010ffff]"
)
"""What pathspec must not see: brackets (it lets `[!a]` match a slash and knows no `[:alpha:]`), escapes,
blanks (it strips them), and the private characters that stand in their places."""
MEMBER = r"(?s)\[:(?P<name>[^\]]*):\]|\\?(?P<low>.)(?:-(?:\\(?P<escaped>.)|(?P<high>[^\\\]])))?"
"""One item of a bracket: a class, or a character, perhaps with the end of its range."""
CLASSES = {  # git's own: ASCII only, and without vertical tab and form feed among the spaces
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
BACKSLASH_AT_END = r"(?<!\\)(?:\\\\)*\\/?\Z"
WILD = re.compile("[*?\U000f0000-\U0010ffff]+")
"""What in a segment of `Rule.segments` may stand for something else."""
_SPECIAL = re.compile(r"[*?\[\\]")
_TO_HIDE = re.compile(r"[\[\\\s" + "\U000f0000-\U0010ffff]")
_HOLE = "[\U000f0000-\U0010ffff]"
_FIRST_HOLE = 0xF0000
_NEVER = "(?!)"
_DEEP = r"(\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)"
"""What pathspec makes of `**/` in front and of `/**/` in the middle."""
_STAR, _ANY = "\ud800", "\ud801"
"""Stand for `[^/]*` and `[^/]` while an expression is taken apart; no file holds halves of pairs."""
_NOWHERE = "\0"
"""What a pattern that names nothing is read as: no file has this name."""


def read(text: str) -> tuple[bool, bool, str]:
    """Does the pattern take away, may it stand at any depth, and what is left without the marks for that.

    The marks are `!`, `./`, the slash that anchors and `**/` in front; blanks that git drops go, too.
    """
    takes_away = text.startswith("!")
    rest = text[takes_away:]
    if rest.endswith(" "):
        bare = rest.rstrip(" ")
        escapes = len(bare) - len(bare.rstrip("\\"))
        rest = rest[: len(bare) + escapes % 2]
    floating = "/" not in rest[:-1] and rest != "./"
    while rest.startswith("./"):
        rest = rest[2:]
    if rest.startswith("/"):
        rest = rest[1:]
    while rest.startswith("**/") and rest != "**/":
        floating, rest = True, rest[3:]
    if text.startswith("#") or not rest or ("\\" in rest and re.search(BACKSLASH_AT_END, rest)):
        rest = _NOWHERE
    return takes_away, floating, rest


class Rule:
    """One pattern. Nothing is worked out before it is asked for; most patterns never meet a path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.takes_away, self.floating, self.rest = read(text)
        core = self.rest[:-3] if self.rest.endswith("/**") else self.rest.removesuffix("/")
        self.inside = len(core) < len(self.rest)  # only what is below a directory matches
        special = _SPECIAL.search(core)
        self._core, self._literal = core, special is None
        self.start = "/"
        """What the key of every matching path begins with."""
        if not self.floating:
            self.start += core[: special.start()] if special else self.rest.removesuffix("**")

    @cached_property
    def matches(self) -> Callable[[str], object]:
        """A function from the key of a path to something true when the pattern matches it."""
        plain = self._plain()
        if plain is None:
            return _compile(self.floating, self.rest).match
        prefix, needle = plain
        close, after = "" if self.inside else "/", len(prefix) - 1

        def plainly(key: str) -> bool:
            closed = key + close
            return closed.startswith(prefix) and closed.find(needle, after) >= 0

        return plainly

    def segments(self) -> list[str]:
        """Names that a matching path must have somewhere, with wildcards, beside those of its `start`."""
        if self._literal and not self.floating:
            return []
        # What `start` says already is left out: the index would be asked twice.
        simple, _ = _hide(self.rest[self.start.rfind("/") :])
        return [name for name in simple.split("/") if name.strip("*")]

    def _plain(self) -> tuple[str, str] | None:
        """How a matching key, closed with a slash, begins, and what comes after it.

        Says all there is to say of `src/**`, `setup.py`, `*.md`, `LICENSE*` and `tests/**/test_a.py`, so
        that these need no regular expression; None for other patterns.
        """
        core = self._core
        if self._literal:
            return ("/", f"/{core}/") if self.floating else (f"/{core}/", "")
        above, deep, name = core.rpartition("/**/")
        if self.floating == bool(deep) or _SPECIAL.search(above) or "/" in name:
            return None
        prefix = f"/{above}/" if deep else "/"
        tail, head = name.lstrip("*"), name.rstrip("*")
        if tail == head and not _SPECIAL.search(name):
            return prefix, f"/{name}/"
        if tail != name and not _SPECIAL.search(tail) and (tail or (self.floating and not self.inside)):
            return prefix, f"{tail}/"
        if head != name and not _SPECIAL.search(head) and head and not self.inside:
            return prefix, f"/{head}"
        return None


def _compile(floating: bool, rest: str) -> re.Pattern[str]:
    """A pattern as a regular expression for the key of a path."""
    # Not at the top: it takes longer than the rest of bkgen.globs, and most builds never come here.
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    simple, pieces = _hide(rest)
    simple = re.sub(r"(?<![^/])\*{3,}(?![^/])", "**", simple)
    if simple == "**/" or simple.endswith("/**/"):
        simple = simple[:-1] + "/*/"  # pathspec reads `a/**/` as `a/`, git as the directories below `a`
    regex = GitIgnoreSpecPattern.pattern_to_regex(("**/" if floating else "/") + simple)[0] or _NEVER
    regex = "/" + regex[1:] if regex.startswith("^") else "/.*" + regex
    if regex.endswith("|$)"):
        regex = regex[:-2] + r"\Z)"  # `$` would let `a` match a file whose name is `a` and a newline
    regex = _without_detours(regex)
    return re.compile(re.sub(_HOLE, lambda hole: pieces[ord(hole[0]) - _FIRST_HOLE], regex), re.DOTALL)


def _without_detours(regex: str) -> str:
    """The same expression, which tries again for its last `**` and its last `*` in a name only.

    Where the first of several wildcards has found what follows it, a later place would serve no better,
    and trying all of them in turn takes longer than anybody waits: a fork chooses the names of its files.
    """
    head, *blocks = re.split(_DEEP, regex)
    number = count()
    parts = [_names(head, number)]
    for deep, names in zip(blocks[::2], blocks[1::2], strict=True):
        parts.append(deep + _names(names, number))
    # Between two of them stand whole names, so what follows each but the last is a slash.
    first, last = (1, len(parts) - 1) if blocks else (0, 0)
    for index in range(first, last):
        lazily = parts[index].replace("+/)?", "+?/)??", 1) if index == 1 else parts[index]
        lazily = lazily.replace("(?:/.+)?", "(?:/.+?)??", 1)
        parts[index] = _once(lazily + "(?=/)", number)
    return "".join(parts)


def _names(regex: str, number: Iterator[int]) -> str:
    """Names between slashes, each with at most one `*` that is tried again."""
    names = []
    for name in regex.replace("[^/]+", _ANY + _STAR).replace("[^/]*", _STAR).replace("[^/]", _ANY).split("/"):
        first, *others = name.split(_STAR)
        found = [_once(f"[^/]*?{part}", number) for part in others[:-1] if part]
        names.append("".join([first, *found, *(f"[^/]*{part}" for part in others[-1:])]))
    return "/".join(names).replace(_ANY, "[^/]")


def _once(regex: str, number: Iterator[int]) -> str:
    """An expression that keeps what it has found. (Python before 3.11 has no other way to say it.)"""
    name = f"once{next(number)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _hide(rest: str) -> tuple[str, list[str]]:
    """`rest` with a private character in the place of each token, and their regular expressions."""
    pieces: list[str] = []
    if not _TO_HIDE.search(rest):
        return rest, pieces

    def hide(token: re.Match[str]) -> str:
        if token["escaped"] == "/":
            return "/"
        if token["items"]:
            pieces.append(_bracket(token["negated"], token["items"]))
        else:
            pieces.append(_NEVER if token[0] == "[" else re.escape(token["escaped"] or token[0]))
        return chr(_FIRST_HOLE + len(pieces) - 1)

    return re.sub(TOKEN, hide, rest), pieces


def _bracket(negated: str, items: str) -> str:
    members = ""
    for member in re.finditer(MEMBER, items):
        name, low, high = member["name"], member["low"], member["escaped"] or member["high"]
        if name is not None:
            if name not in CLASSES:
                return _NEVER
            members += CLASSES[name]
        else:
            members += re.escape(low)
            members += f"-{re.escape(high)}" if high and low <= high else ""
    return f"(?!/)[{'^' if negated else ''}{members}]"
