"""A directed graph of strings: what depends on what.

edges = {"test": ("image",), "image": ("base",), "base": ()}
closure(edges, ["test"])    ->  {"image": "test", "base": "image"}     who pulled it in
find_cycle(edges)           ->  None
depths(edges)               ->  {"base": 0, "image": 1, "test": 2}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Edges = Mapping[str, Sequence[str]]


def closure(edges: Edges, roots: Iterable[str]) -> dict[str, str]:
    """What the roots need and are not themselves, each with the node that first asked for it."""
    wanted: dict[str, str] = {}
    seen = dict.fromkeys(roots)
    queue = list(seen)
    for node in queue:
        for needed in edges.get(node, ()):
            if needed not in seen:
                seen[needed] = None
                wanted[needed] = node
                queue.append(needed)
    return wanted


def find_cycle(edges: Edges) -> list[str] | None:
    """A path that comes back to its first node, such as `[a, b, a]`, or None."""
    done: set[str] = set()
    for start in edges:
        if start in done:
            continue
        path: list[str] = [start]
        on_path = {start}
        stack = [iter(edges.get(start, ()))]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                node = path.pop()
                on_path.discard(node)
                done.add(node)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                on_path.add(following)
                stack.append(iter(edges.get(following, ())))
    return None


def depths(edges: Edges) -> dict[str, int]:
    """How long the longest chain of dependencies below each node is. The graph has no cycle."""
    known: dict[str, int] = {}
    for start in edges:
        stack = [start]
        while stack:
            node = stack[-1]
            missing = [needed for needed in edges.get(node, ()) if needed not in known]
            if node in known:
                stack.pop()
            elif missing:
                stack += missing
            else:
                known[node] = max((known[needed] + 1 for needed in edges.get(node, ())), default=0)
                stack.pop()
    return known
