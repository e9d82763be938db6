"""Lists of patterns against one path, and against all changed files at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import merge

from bkgen.globs.syntax import WILD, Rule, read


@dataclass(frozen=True, init=False)
class Patterns:
    """One list of patterns. Two are equal when their texts are; a faulty pattern may match nothing."""

    patterns: tuple[str, ...]

    def __init__(self, patterns: Sequence[str]) -> None:
        object.__setattr__(self, "patterns", tuple(patterns))

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        return tuple(map(Rule, self.patterns))

    def match(self, path: str, *, is_link: bool = False) -> str | None:
        """The pattern, as written, on account of which `path` is in the list; None when it is not.

        `is_link` says that the path is a symlink or submodule.
        """
        return _decide(self._rules, _key(path, is_link))


class Paths:
    """Changed files, `(path, is_link)`, indexed so that a pattern that matches none costs next to nothing.

    The index only leaves out what cannot match; what is left is tested as `Patterns.match` tests it.
    """

    def __init__(self, files: Iterable[tuple[str, bool]]) -> None:
        given = list(files)
        self._paths = [path for path, _ in given]
        self._keys = [_key(path, is_link) for path, is_link in given]
        self._order = sorted(range(len(given)), key=self._keys.__getitem__)
        self._sorted = [self._keys[index] for index in self._order]
        self._names = sorted({*"/".join(self._paths).split("/")})
        self._backwards = sorted(name[::-1] for name in self._names)
        self._having_ends: dict[tuple[str, ...], Sequence[int]] = {}
        self._rules: dict[str, Rule] = {}
        self._matchless: set[str] = set()

    def first_match(self, patterns: Patterns) -> tuple[str, str] | None:
        """The first file, in the order given, that the list contains, and the pattern that says so."""
        return next(self._matching(patterns), None)

    def matching(self, patterns: Patterns) -> list[tuple[str, str]]:
        """Every file that the list contains, in the order given, each with the pattern that says so."""
        return list(self._matching(patterns))

    def matches_alone(self, pattern: str) -> bool:
        """Whether the pattern, `!` or not, matches any of the files when it stands alone."""
        found = self._found(pattern)
        return found is not None and next(found, None) is not None

    def _matching(self, patterns: Patterns) -> Iterator[tuple[str, str]]:
        wanted = (self._found(text) for text in patterns.patterns if not text.startswith("!"))
        streams = [found for found in wanted if found]
        rules = [self._rule(text) for text in patterns.patterns] if streams else []
        last = -1
        for index in merge(*streams):
            if index != last and (pattern := _decide(rules, self._keys[index])):
                yield self._paths[index], pattern
            last = index

    def _found(self, text: str) -> Iterator[int] | None:
        """The files that one pattern matches, in the order given; None when the index knows of none."""
        if text in self._matchless:
            return None
        rule = self._rule(text)
        candidates = self._candidates(rule)
        if not candidates:
            self._matchless.add(text)
            return None
        return self._tested(rule, candidates)

    def _tested(self, rule: Rule, candidates: Sequence[int]) -> Iterator[int]:
        found = False
        for index in candidates:
            if rule.matches(self._keys[index]):
                found = True
                yield index
        if not found:
            self._matchless.add(rule.text)

    def _rule(self, text: str) -> Rule:
        if text not in self._rules:
            self._rules[text] = Rule(text)
        return self._rules[text]

    def _candidates(self, rule: Rule) -> Sequence[int]:
        """The files that a pattern may match, in the order given: all that it does match, perhaps more."""
        low, high = _starting(self._sorted, rule.start)
        if low == high:
            return ()
        named = min(map(self._having, rule.segments()), key=len, default=None)
        if named is None or high - low < len(named):
            return sorted(self._order[low:high])
        return named

    def _having(self, segment: str) -> Sequence[int]:
        """The files with a name or directory that begins and ends as `segment` does."""
        literals = WILD.split(segment)
        ends = (literals[0], literals[-1]) if len(literals) > 1 else (segment,)
        if ends not in self._having_ends:
            self._having_ends[ends] = self._look_up(*ends)
        return self._having_ends[ends]

    def _look_up(self, head: str, tail: str | None = None) -> Sequence[int]:
        low, high = _starting(self._names, head)
        if tail is None:
            return self._by_name[head] if low < high and self._names[low] == head else ()
        first, last = _starting(self._backwards, tail[::-1])
        if min(high - low, last - first) * 8 > len(self._paths):
            return range(len(self._paths))  # joining so many would take longer than testing them
        if high - low < last - first:
            names = self._names[low:high]
        else:
            names = [name[::-1] for name in self._backwards[first:last]]
        return sorted({index for name in names for index in self._by_name[name]})

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = defaultdict(list)
        for index, path in enumerate(self._paths):
            for name in {*path.split("/")}:
                by_name[name].append(index)
        return by_name


def reaches_below(pattern: str, directory: str, *, floats: bool) -> bool:
    """Whether `pattern`, which takes nothing away, could match something below `directory`.

    `floats`: so could one that stands at any depth.
    """
    _, floating, rest = read(pattern)
    if floating:
        return floats
    wanted = rest.split("/")
    for index, name in enumerate(directory.split("/")):
        if index >= len(wanted) - 1 or wanted[index] == "**":
            return index < len(wanted) and wanted[index] == "**"
        if Patterns([f"/{wanted[index]}"]).match(name) is None:
            return False
    return True


def _key(path: str, is_link: bool) -> str:
    return f"/{path}/" if is_link else f"/{path}"


def _decide(rules: Sequence[Rule], key: str) -> str | None:
    for rule in reversed(rules):
        if rule.matches(key):
            return None if rule.takes_away else rule.text
    return None


def _starting(texts: Sequence[str], prefix: str) -> tuple[int, int]:
    """The slice of the sorted `texts` that begin with `prefix`."""
    low = bisect_left(texts, prefix)
    if low == len(texts) or not texts[low].startswith(prefix):
        return low, low
    return low, bisect_right(texts, prefix, low, key=lambda text: text[: len(prefix)])
