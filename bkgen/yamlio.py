"""Strict YAML: every mistake that a lenient reader would swallow is an error with line and column.

One pass composes nodes with libyaml and turns them into dicts, lists and `Plain` text. Positions are
not kept; the rare reader of a position composes the text once more and walks to it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bkgen.errors import Diagnostic, Position, UserError
from bkgen.scalars import NULLS, Plain, described

if TYPE_CHECKING:
    _Parser: Any
else:
    try:
        from yaml.cyaml import CParser as _Parser
    except ImportError:  # PyYAML built without libyaml: slower, the same values
        _Parser = None

MAX_NODES = 2_000_000
"""Values a document may unfold to. A billion-laughs document names its anchor instead of eating memory."""
MAX_DEPTH = 100
"""Levels a document may nest; real pipelines stay under fifteen."""

# One class for all would take a hundred times as long to compile; UTF-8 has no surrogates.
_CONTROL = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]|\ufffe|\uffff"
_PLAIN = "?"
_STR = "tag:yaml.org,2002:str"
_CORE = {
    "tag:yaml.org,2002:str", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool",
    "tag:yaml.org,2002:null", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", _PLAIN,
}  # fmt: skip
Path = Sequence[str | int]


class _Untyped:
    """A resolver that only tells unquoted scalars from the rest; the fields decide what they mean."""

    def resolve(self, kind: type[Node], _value: Any, implicit: Any) -> str:
        if kind is ScalarNode:
            return _PLAIN if implicit[0] else _STR
        return "tag:yaml.org,2002:seq" if kind is SequenceNode else "tag:yaml.org,2002:map"

    def descend_resolver(self, *_where: Any) -> None:
        """Paths do not matter to this resolver."""

    def ascend_resolver(self) -> None:
        """Paths do not matter to this resolver."""


if TYPE_CHECKING:

    class _Composer(_Untyped):
        def __init__(self, stream: str) -> None: ...
        def check_node(self) -> bool: ...
        def get_node(self) -> Node: ...

elif _Parser is not None:

    class _Composer(_Untyped, _Parser):
        def __init__(self, stream):
            _Parser.__init__(self, stream)

else:

    class _Composer(
        _Untyped, yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer
    ):
        def __init__(self, stream):
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)


class Document(NamedTuple):
    """A parsed file: its repository-relative name, its text, and its value (None when it holds nothing)."""

    file: str
    text: str
    value: Any

    def position(self, path: Path, *, of_key: bool = True) -> Position:
        """Where `path` (keys and indexes) stands; the nearest enclosing place if it does not exist.

        `of_key` points at a map's key rather than at its value.
        """
        node = _composed(self.text, self.file)
        mark = node.start_mark if node else None
        for part in path:
            found = _child(node, part) if node else None
            if found is None:
                break
            key_node, node = found
            mark = (key_node if of_key and key_node else node).start_mark
        if mark is None:
            return Position(self.file, 1, 1)
        return Position(self.file, mark.line + 1, mark.column + 1)

    def has(self, path: Path) -> bool:
        """Whether `path` (keys and indexes) stands in the file, be it by a merge key or an alias."""
        value: Any = self.value
        for part in path:
            if not isinstance(value, dict | list):
                return False
            try:
                value = value[part]  # type: ignore[index]
            except (LookupError, TypeError):
                return False
        return True


@lru_cache(maxsize=4)
def _composed(text: str, file: str) -> Node | None:
    # A file with a hundred faults is asked for a hundred places.
    return _compose(text, file)


def load(data: bytes, file: str) -> Document:
    """The one document in `data`. UserError with every duplicate key, odd tag and odd key in it at once."""
    text = _decoded(data, file)
    node = _compose(text, file)
    if node is None:
        return Document(file, text, None)
    reader = _Reader(file)
    # Only an alias can lead back or repeat a value, and there is none without an anchor.
    if "&" in text:
        reader.measure(node)
    value = reader.value(node, 0)
    if reader.problems:
        raise UserError(reader.problems)
    return Document(file, text, value)


def _decoded(data: bytes, file: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = data.rfind(b"\n", 0, error.start) + 1
        place = Position(file, data.count(b"\n", 0, error.start) + 1, error.start - start + 1)
        raise UserError.single(
            "yaml-encoding",
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            "save the file as UTF-8",
            position=place,
        ) from None
    bad = re.search(_CONTROL, text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        place = Position(file, line, bad.start() - (text.rfind("\n", 0, bad.start()) + 1) + 1)
        raise UserError.single(
            "yaml-encoding",
            f"control character U+{ord(bad[0]):04X}",
            'write it as an escape in double quotes, such as "\\e" or "\\u0007"',
            position=place,
        )
    return text


def _compose(text: str, file: str) -> Node | None:
    try:
        composer = _Composer(text)
        if not composer.check_node():
            return None
        node = composer.get_node()
        if composer.check_node():
            second = composer.get_node()
            raise UserError.single(
                "yaml-documents",
                "a second document starts here",
                "one file holds one document: remove the '---'",
                position=Position(file, second.start_mark.line + 1, second.start_mark.column + 1),
            )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file)
        context = f" ({error.context})" if error.context else ""
        raise UserError.single(
            "yaml-syntax",
            f"{error.problem or error.context}{context}",
            _syntax_hint(text, error),
            position=place,
        ) from None
    except yaml.reader.ReaderError as error:
        raise UserError.single(
            "yaml-encoding", str(error.reason), "save the file as UTF-8", position=Position(file)
        ) from None
    return node


def _syntax_hint(text: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    line = text.split("\n")[mark.line] if mark and mark.line < text.count("\n") + 1 else ""
    problem = error.problem or ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "tab" in problem or "'\\t'" in problem:
        return "indent with blanks, not with tabs"
    context = error.context or ""
    opened = f"in line {error.context_mark.line + 1}" if error.context_mark else "above"
    if "quoted scalar" in context:
        return f"close the quotation mark that opens {opened}"
    if "flow sequence" in context:
        return f"close the '[' that opens {opened}, or put a ',' between its items"
    if "flow mapping" in context:
        return f"close the '{{' that opens {opened}, or put a ',' between its items"
    if "scanning an alias" in context:
        return "quote text that starts with '*', such as \"*.py\""
    if "scanning a tag" in context:
        return "quote text that starts with '!', such as \"!docs/**\""
    if "duplicate anchor" in context:
        return "give the second anchor (&name) another name"
    if "nesting depth" in problem:
        return "flatten the document"
    if "alias" in problem:
        return "an alias (*name) needs its anchor (&name) earlier in the same file"
    if "mapping values" in problem:
        return "quote text that holds ': ' or ends in ':'"
    if "cannot start any token" in problem:
        return "quote text that starts with this character"
    return "compare the indentation of this line with the ones above it"


def _child(node: Node, part: str | int) -> tuple[Node | None, Node] | None:
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    if isinstance(node, MappingNode):
        merged: list[Node] = []
        for key, value in node.value:
            if key.tag == _PLAIN and key.value == "<<":
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif key.value == part:
                return key, value
        for source in merged:
            found = _child(source, part)
            if found:
                return found
    return None


class _Reader:
    """Turns nodes into values, gathering problems on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Diagnostic] = []
        self._values: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}

    def problem(self, node: Node, code: str, message: str, hint: str) -> None:
        place = Position(self.file, node.start_mark.line + 1, node.start_mark.column + 1)
        self.problems.append(Diagnostic(code, message, hint, place))

    def measure(self, root: Node) -> None:
        """UserError for a document that contains itself, nests too deeply or unfolds to too much."""
        self._size(root, 0)

    def _size(self, node: Node, depth: int) -> int:
        if isinstance(node, ScalarNode):
            return 1
        known = self._sizes.get(id(node))
        if known == -1:
            raise self._refused(
                node, "yaml-recursion", "this anchor contains itself", "write the part out once"
            )
        if known is not None:
            return known
        if depth > MAX_DEPTH:
            raise self._too_deep(node)
        self._sizes[id(node)] = -1
        total = 1
        for item in node.value:
            if type(item) is tuple:
                total += self._size(item[0], depth + 1) + self._size(item[1], depth + 1)
            else:
                total += self._size(item, depth + 1)
        if total > MAX_NODES:
            message = f"the aliases in here unfold to more than {MAX_NODES:,} values"
            raise self._refused(node, "yaml-aliases", message, "write the values out, or use fewer aliases")
        self._sizes[id(node)] = total
        return total

    def _too_deep(self, node: Node) -> UserError:
        return self._refused(node, "yaml-depth", f"more than {MAX_DEPTH} levels", "flatten the document")

    def _refused(self, node: Node, code: str, message: str, hint: str) -> UserError:
        self.problem(node, code, message, hint)
        return UserError(self.problems)

    def value(self, node: Node, depth: int) -> Any:
        if type(node) is ScalarNode:
            return self._scalar(node)
        # An aliased node is one value, so that equal pods stay one object and are verified once.
        known = self._values.get(id(node))
        if known is None:
            if depth > MAX_DEPTH:
                raise self._too_deep(node)
            if node.tag not in _CORE:
                self._odd_tag(node)
            known = (
                self._mapping(node, depth)
                if type(node) is MappingNode
                else [self.value(n, depth + 1) for n in node.value]
            )
            self._values[id(node)] = known
        return known

    def _scalar(self, node: ScalarNode) -> Any:
        tag = node.tag
        if tag == _PLAIN:
            return None if node.value in NULLS else Plain(node.value)
        if tag == _STR:
            if "\0" in node.value:
                self.problem(node, "yaml-encoding", "a NUL character", "no program takes one; remove it")
            return node.value
        if tag not in _CORE:
            self._odd_tag(node)
        return None if node.value in NULLS else Plain(node.value)

    def _odd_tag(self, node: Node) -> None:
        self.problem(
            node,
            "yaml-tag",
            f"the tag '{node.tag}' is not known",
            "quote text that starts with '!'; values take no tags here",
        )

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merges: list[Node] = []
        for key_node, value_node in node.value:
            if type(key_node) is not ScalarNode:
                self.problem(key_node, "yaml-key", "a key is text, not a list or map", "quote the key")
                continue
            key = key_node.value
            if key_node.tag == _PLAIN and key == "<<":
                merges += value_node.value if type(value_node) is SequenceNode else [value_node]
                continue
            if key_node.tag == _PLAIN and key in NULLS:
                self.problem(
                    key_node, "yaml-key", "a key is missing before the ':'", "write the key, or quote it"
                )
                continue
            if key in result:
                self.problem(
                    key_node, "yaml-duplicate-key", f"the key '{key}' is here twice", "remove one of the two"
                )
                continue
            result[key] = self.value(value_node, depth + 1)
        for source in merges:
            self._merge(source, result, depth)
        return result

    def _merge(self, source: Node, result: dict[str, Any], depth: int) -> None:
        if not isinstance(source, MappingNode):
            value = self.value(source, depth)
            self.problem(
                source,
                "yaml-merge",
                f"'<<' takes a map, not {described(value)}",
                "point it at a map: '<<: *name'",
            )
            return
        for key, value in self.value(source, depth + 1).items():
            result.setdefault(key, value)
