"""Tokens to a tree, by recursive descent."""

from __future__ import annotations

from bkgen.check.shell.tree import AndOr, Compound, Node, Pipeline, Script, Simple, Word
from bkgen.check.shell.words import Lexer, Token

_REDIRECTIONS = frozenset({"&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">&", ">>", ">|", "<", ">"})
_CASE_ENDS = (";;", ";&", ";;&")
_DEEPEST = 60


def parse(text: str) -> Script:
    """The tree of `text`. Never raises; what is not understood makes the result incomplete."""
    parser = _Parser(text)
    try:
        body = parser.lists()
        while parser.peek().kind != "end":
            parser.confused()
            body += parser.lists()
    except RecursionError:
        return Script(text, (), complete=False)
    return Script(text, body, parser.lexer.complete)


class _Parser:
    def __init__(self, text: str) -> None:
        self.lexer = Lexer(text, self.substitution)
        self._next: Token | None = None
        self._depth = 0

    def peek(self) -> Token:
        if self._next is None:
            self._next = self.lexer.token()
        return self._next

    def take(self) -> Token:
        token = self.peek()
        self._next = None
        return token

    def confused(self) -> None:
        """Something stands here that should not: go past it."""
        self.lexer.complete = False
        self.take()

    def expect(self, *texts: str) -> None:
        if self.peek().says(*texts):
            self.take()
        else:
            self.lexer.complete = False

    def substitution(self) -> tuple[AndOr, ...]:
        """What stands between `$(` and its parenthesis, which is read."""
        body = self.lists(")")
        self.expect(")")
        return body

    def lists(self, *stops: str) -> tuple[AndOr, ...]:
        """All lists up to one of `stops`, which is left, or to something that cannot begin a command."""
        found: list[AndOr] = []
        self._depth += 1
        while self._depth < _DEEPEST:
            token = self.peek()
            if token.kind == "newline" or token.says(";", "&"):
                self.take()
            elif (
                token.kind == "end"
                or token.says(*stops)
                or token.says(")", *_CASE_ENDS, "|", "|&", "||", "&&")
            ):
                break
            else:
                found.append(self.and_or())
        self._depth -= 1
        return tuple(found)

    def and_or(self) -> AndOr:
        pipelines = [self.pipeline()]
        operators = []
        while self.peek().says("&&", "||") and self.peek().kind == "operator":
            operators.append(self.take().text)
            self.newlines()
            pipelines.append(self.pipeline())
        return AndOr(tuple(pipelines), tuple(operators))

    def pipeline(self) -> Pipeline:
        while self.peek().says("!", "time") and self.peek().kind == "word":
            self.take()
        nodes = [self.node()]
        while self.peek().kind == "operator" and self.peek().says("|", "|&"):
            self.take()
            self.newlines()
            nodes.append(self.node())
        return Pipeline(tuple(nodes))

    def newlines(self) -> None:
        while self.peek().kind == "newline":
            self.take()

    def node(self) -> Node:
        node = self.compound(self.peek().text)
        if node is None:
            return self.simple()
        inner = () if node.kind == "function" else self.redirections()
        return node if not inner else Compound(node.kind, (*node.body, *inner), node.offset, node.name)

    def compound(self, word: str) -> Compound | None:
        """The compound command that `word` begins, or None."""
        if word in {"while", "until"}:
            return self.while_()
        if word in {"for", "select"}:
            return self.for_()
        plain = {
            "(": self.parenthesis, "{": self.braces, "[[": self.condition, "if": self.if_, "case": self.case,
            "function": self.function,
        }  # fmt: skip
        return plain[word]() if word in plain else None

    def parenthesis(self) -> Compound:
        start = self.take().start
        if self.lexer.text.startswith("((", start):
            self.lexer.at = start + 2
            self.lexer.arithmetic()
            return Compound("arithmetic", (), start)
        body = self.lists(")")
        self.expect(")")
        return Compound("subshell", body, start)

    def braces(self) -> Compound:
        start = self.take().start
        body = self.lists("}")
        self.expect("}")
        return Compound("group", body, start)

    def condition(self) -> Compound:
        start = self.take().start
        return Compound("condition", self.lexer.condition(), start)

    def if_(self) -> Compound:
        start = self.take().start
        body = self.lists("then")
        self.expect("then")
        body += self.lists("elif", "else", "fi")
        while self.peek().says("elif", "else"):
            if self.take().text == "elif":
                body += self.lists("then")
                self.expect("then")
            body += self.lists("elif", "else", "fi")
        self.expect("fi")
        return Compound("if", body, start)

    def while_(self) -> Compound:
        start = self.take().start
        body = self.lists("do")
        return Compound("loop", body + self.loop_body(), start)

    def loop_body(self) -> tuple[AndOr, ...]:
        self.expect("do")
        body = self.lists("done")
        self.expect("done")
        return body

    def for_(self) -> Compound:
        start = self.take().start
        inner: list[AndOr] = []
        if self.peek().says("("):
            self.parenthesis()
        else:
            self.take()
            self.newlines()
            if self.peek().says("in"):
                self.take()
                while self.peek().word is not None:
                    inner += self._word(self.take()).inner
        while self.peek().kind == "newline" or self.peek().says(";"):
            self.take()
        return Compound("loop", (*inner, *self.loop_body()), start)

    def case(self) -> Compound:
        start = self.take().start
        inner = list(self._word(self.take()).inner)
        self.newlines()
        self.expect("in")
        self.newlines()
        while not self.peek().says("esac") and self.peek().kind != "end":
            while not self.peek().says(")") and self.peek().kind not in {"end", "newline"}:
                self.take()
            self.expect(")")
            inner += self.lists("esac", *_CASE_ENDS)
            if self.peek().says(*_CASE_ENDS):
                self.take()
            self.newlines()
        self.expect("esac")
        return Compound("case", tuple(inner), start)

    def function(self) -> Compound:
        start = self.take().start
        name = self.take().text
        if self.peek().says("("):
            self.take()
            self.expect(")")
        return self.defined(name, start)

    def defined(self, name: str, start: int) -> Compound:
        self.newlines()
        body = AndOr((Pipeline((self.node(),)),))
        return Compound("function", (body,), start, name)

    def simple(self) -> Node:
        start = self.peek().start
        words: list[Word] = []
        inner: list[AndOr] = []
        token = self.peek()
        while token.word is not None or (token.kind == "operator" and token.text in _REDIRECTIONS):
            if token.word is not None:
                words.append(token.word)
                self.take()
            else:
                inner += self.redirections()
            token = self.peek()
        if token.says("(") and len(words) == 1 and token.start > start:
            self.take()
            self.expect(")")
            return self.defined(words[0].text, start)
        if token.start == start:
            self.lexer.complete = False
            if token.kind != "end" and not token.says(")"):
                self.take()
        return Simple(tuple(words), start, tuple(inner))

    def redirections(self) -> tuple[AndOr, ...]:
        """Redirections, if any stand here; what their targets run."""
        inner: list[AndOr] = []
        while self.peek().kind == "operator" and self.peek().text in _REDIRECTIONS:
            operator = self.take().text
            target = self.peek()
            if target.word is None:
                self.lexer.complete = False
                break
            self.take()
            if operator in {"<<", "<<-"}:
                self.lexer.heredoc(target.word, indented=operator == "<<-")
            inner += target.word.inner
        return tuple(inner)

    def _word(self, token: Token) -> Word:
        if token.word is None:
            self.lexer.complete = False
            return Word("", True, token.start)
        return token.word
