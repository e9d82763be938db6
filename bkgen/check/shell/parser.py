"""Tokens to a tree, by recursive descent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bkgen.check.shell.tree import AndOr, Branch, Compound, Node, Pipeline, Script, Simple, Word
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
    return Script(text, body, parser.lexer.complete, parser.lexer.documents)


@dataclass(slots=True)
class _Redirections:
    """What the targets run, the files that are written, and the words that end heredocs."""

    inner: list[AndOr] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)


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
                if found and token.says("&"):
                    found[-1] = replace(found[-1], background=True)
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
        negated = False
        while self.peek().says("!", "time") and self.peek().kind == "word":
            negated ^= self.take().text == "!"
        nodes = [self.node()]
        while self.peek().kind == "operator" and self.peek().says("|", "|&"):
            self.take()
            self.newlines()
            nodes.append(self.node())
        return Pipeline(tuple(nodes), negated)

    def newlines(self) -> None:
        while self.peek().kind == "newline":
            self.take()

    def node(self) -> Node:
        node = self.compound(self.peek().text)
        if node is None:
            return self.simple()
        if node.kind == "function":
            return node
        found = _Redirections()
        self.redirections(found)
        return replace(node, body=(*node.body, *found.inner)) if found.inner else node

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
            return Compound("arithmetic", (), start, self.lexer.text[start + 2 : self.lexer.at - 2])
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
        branches = [Branch("test", self.lists("then"))]
        self.expect("then")
        branches.append(Branch("then", self.lists("elif", "else", "fi")))
        while self.peek().says("elif", "else"):
            kind = "else"
            if self.take().text == "elif":
                kind = "then"
                branches.append(Branch("test", self.lists("then")))
                self.expect("then")
            branches.append(Branch(kind, self.lists("elif", "else", "fi")))
        self.expect("fi")
        return _of_branches("if", branches, start)

    def while_(self) -> Compound:
        word = self.take()
        test = Branch("test", self.lists("do"))
        return _of_branches("loop", [test, self.loop_body()], word.start, word.text)

    def loop_body(self) -> Branch:
        self.expect("do")
        body = self.lists("done")
        self.expect("done")
        return Branch("do", body)

    def for_(self) -> Compound:
        start = self.take().start
        inner: list[AndOr] = []
        words: list[Word] = []
        if self.peek().says("("):
            header = self.parenthesis()
            words.append(Word(f"(({header.name}))", False, header.offset))
        else:
            self.take()
            self.newlines()
            if self.peek().says("in"):
                self.take()
                while self.peek().word is not None:
                    words.append(self._word(self.take()))
                    inner += words[-1].inner
        while self.peek().kind == "newline" or self.peek().says(";"):
            self.take()
        through = Branch("in", tuple(inner), tuple(words))
        return _of_branches("loop", [through, self.loop_body()], start, "for")

    def case(self) -> Compound:
        start = self.take().start
        subject = self._word(self.take())
        branches = [Branch("in", subject.inner)]
        self.newlines()
        self.expect("in")
        self.newlines()
        while not self.peek().says("esac") and self.peek().kind != "end":
            patterns: list[Word] = []
            while not self.peek().says(")") and self.peek().kind not in {"end", "newline"}:
                token = self.take()
                patterns += () if token.word is None else (token.word,)
            self.expect(")")
            branches.append(Branch("case", self.lists("esac", *_CASE_ENDS), tuple(patterns)))
            if self.peek().says(*_CASE_ENDS):
                self.take()
            self.newlines()
        self.expect("esac")
        return _of_branches("case", branches, start, subject.text)

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
        found = _Redirections()
        token = self.peek()
        while token.word is not None or (token.kind == "operator" and token.text in _REDIRECTIONS):
            if token.word is not None:
                words.append(token.word)
                self.take()
            else:
                self.redirections(found)
            token = self.peek()
        if token.says("(") and len(words) == 1 and token.start > start:
            self.take()
            self.expect(")")
            return self.defined(words[0].text, start)
        if token.start == start:
            self.lexer.complete = False
            if token.kind != "end" and not token.says(")"):
                self.take()
        return Simple(tuple(words), start, tuple(found.inner), tuple(found.targets), tuple(found.documents))

    def redirections(self, found: _Redirections) -> None:
        """Reads the redirections that stand here, if any, into `found`."""
        while self.peek().kind == "operator" and self.peek().text in _REDIRECTIONS:
            operator = self.take().text
            target = self.peek()
            if target.word is None:
                self.lexer.complete = False
                break
            self.take()
            if operator in {"<<", "<<-"}:
                self.lexer.heredoc(target.word, indented=operator == "<<-")
                found.documents.append(target.word.offset)
            elif ">" in operator and operator != ">&":
                found.targets.append(target.word.text)
            found.inner += target.word.inner

    def _word(self, token: Token) -> Word:
        if token.word is None:
            self.lexer.complete = False
            return Word("", True, token.start)
        return token.word


def _of_branches(kind: str, branches: list[Branch], start: int, name: str = "") -> Compound:
    body = tuple(and_or for branch in branches for and_or in branch.body)
    return Compound(kind, body, start, name, tuple(branches))
