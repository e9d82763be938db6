"""Commands that only show something: after them nobody can know any more that a test failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bkgen.check.shell import Compound, Node, Script, Simple, commands, functions

QUIET = frozenset({"echo", "printf", ":", "cat", "log"})
"""Commands that say something and do not fail."""
_SHOWING = QUIET | {
    "true", "tail", "head", "ls", "date", "sleep", "df", "free", "ps", "nvidia-smi", "rocm-smi",
    "dmesg", "env",
}  # fmt: skip
_LEAVING = frozenset({"exit", "return"})
_DECLARING = frozenset({"local", "declare", "typeset", "readonly", "export"})
_SETTING = frozenset(
    {"read", "mapfile", "readarray", "let", "eval", "source", ".", "touch", "mv", "trap", "set"}
)


class Effects:
    """What the commands of one script leave behind."""

    def __init__(self, script: Script, around: str = "") -> None:
        self._text = f"{script.text}\n{around}"
        self._functions: Mapping[str, Compound] = functions(script.body)

    def only_shows(self, node: Node, depth: int = 0) -> bool:
        """Nothing in it can fail on purpose, leave with a failure, or note one down."""
        return all(self._shows(simple, depth) for simple in _simple(node)) and not _has_arithmetic(node)

    def leaves_nothing(self, node: Node, depth: int = 0) -> bool:
        """It notes nothing down, by variable or file, and goes nowhere; it may run anything."""
        if _has_arithmetic(node):
            return False
        for simple in _simple(node):
            name = simple.texts[0] if simple.texts else ""
            if self._notes(simple) or name in _LEAVING | _DECLARING | _SETTING | {"break", "continue"}:
                return False
            if name in self._functions and (
                depth > 3 or not self.leaves_nothing(self._functions[name], depth + 1)
            ):
                return False
        return True

    def notes_down(self, node: Node) -> bool:
        """It keeps in a variable or a file that something went wrong, or may leave with a failure."""
        if _has_arithmetic(node):
            return True
        return any(
            self._notes(simple)
            or simple.texts[:1] == ["touch"]
            or (bool(simple.texts) and simple.texts[0] in _LEAVING and simple.texts[1:] != ["0"])
            for simple in _simple(node)
        )

    def output_is_read(self, node: Node) -> bool:
        """Its output goes to a file, by redirection or tee, that is spoken of somewhere else, too."""
        files = [
            file
            for simple in _simple(node)
            for file in (*simple.targets, *(simple.texts[1:] if simple.texts[:1] == ["tee"] else ()))
        ]
        return self._spoken_of(files)

    def _shows(self, simple: Simple, depth: int) -> bool:
        if self._notes(simple):
            return False
        words = simple.texts
        if not words:
            return True
        if words[0] in _LEAVING:
            return words[1:] == ["0"]
        if words[0] in self._functions:
            return depth < 3 and self.only_shows(self._functions[words[0]], depth + 1)
        return words[0].rsplit("/", 1)[-1] in _SHOWING

    def _notes(self, simple: Simple) -> bool:
        """An assignment, or output to a file that is spoken of somewhere else, too."""
        if simple.assigned and not simple.argv:
            return True
        return self._spoken_of(simple.targets)

    def _spoken_of(self, files: Iterable[str]) -> bool:
        return any(
            self._text.count(file) > 1 for file in files if file and not file.startswith(("/dev/", "-"))
        )


def _simple(node: Node) -> list[Simple]:
    if isinstance(node, Simple):
        return [node]
    return [simple for simple, _ in commands(node.body)]


def _has_arithmetic(node: Node) -> bool:
    if isinstance(node, Simple):
        return False
    if node.kind == "arithmetic":
        return True
    return any(_has_arithmetic(inner) for and_or in node.body for inner in and_or.nodes)
