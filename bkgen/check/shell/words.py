"""Characters to tokens: words with their quotes and expansions, operators, and heredocs skipped.

Source of the rules: the manual of bash, "Shell Syntax" and "Shell Expansions".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from bkgen.check.shell.tree import AndOr, Document, Word

_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|&>>|&>|\|&|<<<|<<-|<<|<>|<&|>&|>>|>\||[;&|()<>]")
_IGNORED = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_FILE_NUMBER = re.compile(r"(?:[0-9]+|\{[A-Za-z_]\w*\})(?=[<>])")
_ARRAY = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=\Z")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_META = frozenset(" \t\r\n;&|()<>")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is word, operator, newline or end; `text` is what stands in the script."""

    kind: str
    text: str
    start: int
    word: Word | None = None

    def says(self, *texts: str) -> bool:
        """It is one of these operators, or one of these words without quotes."""
        return self.kind != "newline" and self.text in texts


class Lexer:
    """Reads tokens from `at` on. `nested` parses what stands in `$(…)`, up to its parenthesis."""

    def __init__(self, text: str, nested: Callable[[], tuple[AndOr, ...]]) -> None:
        self.text = text
        self.at = 0
        self.complete = True
        self._nested = nested
        self.documents: dict[int, Document] = {}
        self._heredocs: list[tuple[Word, bool]] = []

    def token(self) -> Token:
        """The next token."""
        self._skip_ignored()
        start = self.at
        if start >= len(self.text):
            return Token("end", "", start)
        if self.text[start] == "\n":
            self.at += 1
            self._skip_heredocs()
            return Token("newline", "\n", start)
        number = _FILE_NUMBER.match(self.text, start)
        operator = _OPERATOR.match(self.text, number.end() if number else start)
        if operator and self.text[operator.start() : operator.start() + 2] not in {"<(", ">("}:
            self.at = operator.end()
            return Token("operator", operator[0], start)
        word = self.word()
        return Token("word", self.text[start : self.at], start, word)

    def heredoc(self, delimiter: Word, *, indented: bool) -> None:
        """A heredoc begins behind the end of this line."""
        self._heredocs.append((delimiter, indented))

    def _skip_ignored(self) -> None:
        while True:
            ignored = _IGNORED.match(self.text, self.at)
            if ignored:
                self.at = ignored.end()
            elif self.text.startswith("#", self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _skip_heredocs(self) -> None:
        waiting, self._heredocs = self._heredocs, []
        for delimiter, indented in waiting:
            start = self.at
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                before = self.at
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                self.at = end + 1 if end >= 0 else len(self.text)
                if (line.lstrip("\t") if indented else line).rstrip("\r") == delimiter.text:
                    self.documents[delimiter.offset] = Document(start, self.text[start:before])
                    break
            else:
                self.complete = False

    def word(self) -> Word:
        """The word that begins here."""
        start = self.at
        parts: list[str] = []
        inner: list[AndOr] = []
        literal = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _META:
                before = self.at
                if not self._goes_on(start, char, inner):
                    break
                parts.append(self.text[before : self.at])
                literal = False
            elif char == "\\":
                parts.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            elif char == "'":
                parts.append(self._single())
            elif char in '"$`':
                literal = self._expanded(parts, inner) and literal
            else:
                literal = literal and char not in "*?["
                parts.append(char)
                self.at += 1
        self.at = min(self.at, len(self.text))
        return Word("".join(parts), literal, start, tuple(inner))

    def _goes_on(self, start: int, char: str, inner: list[AndOr]) -> bool:
        """A parenthesis that belongs to the word: an array, a pattern such as `@(a|b)`, `<(…)`."""
        written = self.text[start : self.at]
        if char in "<>" and self.text.startswith("(", self.at + 1) and not written.isdigit():
            self.at += 2
            inner += (replace(and_or, process=True) for and_or in self._nested())
            return True
        if char != "(" or not written or not (_ARRAY.match(written) or written[-1] in "?*+@!"):
            return False
        self.at += 1
        self._balanced(inner)
        return True

    def _balanced(self, inner: list[AndOr]) -> None:
        """Everything up to the parenthesis that closes the one before, quotes and comments heeded."""
        depth = 1
        while depth and self.at < len(self.text):
            char = self.text[self.at]
            if char == "'":
                self._single()
            elif char in '"$`':
                self._expanded([], inner)
            elif char == "#" and self.text[self.at - 1] in " \t\n":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                depth += (char == "(") - (char == ")")
                self.at += 2 if char == "\\" else 1
        self.complete = self.complete and not depth

    def arithmetic(self) -> None:
        """Past `((…))`, whose second parenthesis stands here."""
        depth = 2
        while depth and self.at < len(self.text):
            char = self.text[self.at]
            if char in '"$`':
                self._expanded([], [])
                continue
            depth += (char == "(") - (char == ")")
            self.at += 1
        self.complete = self.complete and not depth

    def condition(self) -> tuple[AndOr, ...]:
        """Past `[[ … ]]`, of which `[[` is read; what its substitutions run."""
        inner: list[AndOr] = []
        while self.at < len(self.text):
            if self.text[self.at] in _META:
                self.at += 1
                continue
            start = self.at
            inner += self.word().inner
            if self.text[start : self.at] == "]]":
                return tuple(inner)
        self.complete = False
        return tuple(inner)

    def _single(self) -> str:
        start = self.at + 1
        end = self.text.find("'", start)
        if end < 0:
            self.complete = False
            end = len(self.text)
        self.at = end + 1
        return self.text[start:end]

    def _expanded(self, parts: list[str], inner: list[AndOr]) -> bool:
        """One quoted or expanded piece at `"`, `$` or a backtick; False when the shell changes it."""
        if self.text[self.at] == '"':
            return self._double(parts, inner)
        if self.text[self.at] == "`":
            self._to("`")
            parts.append("``")
            return False
        return self._dollar(parts, inner, quoted=False)

    def _double(self, parts: list[str], inner: list[AndOr]) -> bool:
        self.at += 1
        literal = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return literal
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                parts.append(
                    {"\n": ""}.get(following, following if following in '$`"\\' else char + following)
                )
                self.at += 2
            elif char == "$":
                literal = self._dollar(parts, inner, quoted=True) and literal
            elif char == "`":
                self._to("`")
                literal = False
            else:
                parts.append(char)
                self.at += 1
        self.complete = False
        return literal

    def _dollar(self, parts: list[str], inner: list[AndOr], *, quoted: bool) -> bool:
        start = self.at
        following = self.text[start + 1 : start + 2]
        if following == "'" and not quoted:
            self.at += 1
            self._to("'")
            parts.append(self.text[start + 2 : self.at - 1])
            return True
        if following == '"' and not quoted:
            self.at += 1
            return self._double(parts, inner)
        if self.text.startswith("((", start + 1):
            self.at += 3
            self.arithmetic()
        elif following == "(":
            self.at += 2
            inner += self._nested()
        elif following == "{":
            self.at += 2
            self._braces(inner, quoted=quoted)
        else:
            name = _NAME.match(self.text, start + 1)
            self.at = name.end() if name else start + 1
            parts.append(self.text[start : self.at])
            return name is None
        parts.append(self.text[start : self.at])
        return False

    def _braces(self, inner: list[AndOr], *, quoted: bool) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "}":
                self.at += 1
                return
            if char == "\\":
                self.at += 2
            elif char == "'" and not quoted:
                self._single()
            elif char == '"':
                self._double([], inner)
            elif char == "$":
                self._dollar([], inner, quoted=quoted)
            elif char == "`":
                self._to("`")
            else:
                self.at += 1
        self.complete = False

    def _to(self, closing: str) -> None:
        """Past the next `closing` after the character that stands here; a backslash protects one."""
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 2 if char == "\\" else 1
            if char == closing:
                return
        self.complete = False
