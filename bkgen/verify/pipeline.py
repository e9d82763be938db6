"""All steps of a build together: keys, dependencies, cycles and the number of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bkgen.errors import did_you_mean
from bkgen.verify.attributes import kind_of
from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.step import key_of
from bkgen.verify.values import as_list
from bkgen.verify.width import job_count

IndexPath = tuple[int, ...]
"""Where a step stands: its position, then its position inside its group."""

_MEMBER: Path = ("steps",)
_BARRIERS = frozenset({"wait", "block", "input"})


class _Edge(NamedTuple):
    """One step waits for another; `owner` is the step in whose text it stands, at `path` (none: implied)."""

    target: IndexPath
    owner: IndexPath
    path: Path


class _Graph:
    """Steps as nodes: what each waits for, and by which line."""

    def __init__(self) -> None:
        self.names: dict[IndexPath, str] = {}
        self.by_key: dict[str, IndexPath] = {}
        self.edges: dict[IndexPath, list[_Edge]] = {}
        self.wanted: list[tuple[IndexPath, Path, str]] = []


def dependencies(step: object) -> Iterator[tuple[Path, str]]:
    """The keys a step depends on, each with its place."""
    written = step.get("depends_on") if isinstance(step, dict) else None
    if isinstance(written, str):
        yield ("depends_on",), written
    for index, one in enumerate(as_list(written)):
        if isinstance(one, dict):
            if isinstance(one.get("step"), str):
                yield ("depends_on", index, "step"), one["step"]
        elif isinstance(one, (str, int)) and not isinstance(one, bool):
            yield ("depends_on", index), str(one)


def across_steps(steps: Sequence[Any], rules: PodRules) -> Iterator[tuple[IndexPath, Finding]]:
    """Findings that no step has alone, each with the place of the step it belongs to (none: `()`)."""
    graph = _Graph()
    yield from _read(graph, steps, (), None)
    yield from _connect(graph, rules)
    yield from _cycles(graph)
    yield from _counts(steps, rules)
    yield from _waits(steps)


def _read(
    graph: _Graph, steps: Sequence[Any], above: IndexPath, barrier: IndexPath | None
) -> Iterator[tuple[IndexPath, Finding]]:
    """Enters the steps of one level; `barrier` is what a step without depends_on waits for."""
    since: list[IndexPath] = []
    for index, step in enumerate(steps):
        node = (*above, index)
        key = key_of(step)
        graph.names[node] = key or "a step without key"
        graph.edges[node] = []
        if key is not None:
            if key in graph.by_key:
                message = f"the key '{key}' is used twice in this build"
                yield node, error("key-duplicate", ("key",), message, "give one of the steps another key")
            else:
                graph.by_key[key] = node
        explicit = isinstance(step, dict) and "depends_on" in step
        graph.wanted += [(node, path, name) for path, name in dependencies(step)]
        kind = kind_of(step) if isinstance(step, (str, dict)) else None
        if kind in _BARRIERS and not explicit:
            graph.edges[node] += [_Edge(other, node, ()) for other in since]
        if barrier is not None and not explicit:
            graph.edges[node].append(_Edge(barrier, node, ()))
        if above:
            graph.edges[above].append(_Edge(node, above, _MEMBER))
        if kind == "group":
            yield from _read(graph, as_list(step.get("steps")), node, None)
        if kind in _BARRIERS:
            barrier, since = node, []
        else:
            since.append(node)


def _connect(graph: _Graph, rules: PodRules) -> Iterator[tuple[IndexPath, Finding]]:
    # One missing key is often missed by many steps, and looking for the nearest is slow.
    hints: dict[str, str] = {}
    for node, path, name in graph.wanted:
        target = graph.by_key.get(name)
        if target is not None:
            graph.edges[node].append(_Edge(target, node, path))
        elif name not in rules.known_keys:
            message = f"no step of this build has the key '{name}'; the step would never run"
            if name not in hints:
                hints[name] = did_you_mean(name, graph.by_key)
            yield node, error("depends-on-unknown", path, message, hints[name])
    waited: dict[IndexPath, list[_Edge]] = {}
    for node, edges in list(graph.edges.items()):
        # A group's steps start when what the group waits for has ended.
        if len(node) == 2:
            group = node[:1]
            if group not in waited:
                waited[group] = [edge for edge in graph.edges[group] if edge.path != _MEMBER]
            edges += waited[group]


def _cycles(graph: _Graph) -> Iterator[tuple[IndexPath, Finding]]:
    """One finding for each cycle that a walk in reading order closes."""
    done: set[IndexPath] = set()
    for start in graph.edges:
        if start in done:
            continue
        trail: dict[IndexPath, _Edge | None] = {start: None}
        stack = [(start, iter(graph.edges[start]))]
        while stack:
            node, edges = stack[-1]
            edge = next(edges, None)
            if edge is None:
                stack.pop()
                done.add(node)
                trail.pop(node)
            elif edge.target in trail:
                yield _cycle(graph, trail, edge)
            elif edge.target not in done:
                trail[edge.target] = edge
                stack.append((edge.target, iter(graph.edges[edge.target])))


def _cycle(graph: _Graph, trail: dict[IndexPath, _Edge | None], last: _Edge) -> tuple[IndexPath, Finding]:
    """`trail` holds the way so far, each step with the edge that led to it; `last` leads back into it."""
    nodes = list(trail)
    ring = nodes[nodes.index(last.target) :]
    inner = [edge for node in ring[1:] if (edge := trail[node]) is not None]
    # A person can take out what is written, not what a wait or a group implies.
    written = [edge for edge in (last, *reversed(inner)) if edge.path[:1] == ("depends_on",)]
    chain = " → ".join(graph.names[one] for one in (*ring, last.target))
    message = f"these steps wait for each other: {chain}"
    edge = written[0]
    return edge.owner, error("depends-on-cycle", edge.path, message, "take one of the dependencies out")


def _waits(steps: Sequence[Any]) -> Iterator[tuple[IndexPath, Finding]]:
    """A wait without a condition can be said with depends_on; one with a condition stands for the build."""
    for index, step in enumerate(steps):
        if isinstance(step, dict) and kind_of(step) == "wait" and (step.get("if") or step.get("branches")):
            message = "a wait with a condition holds back every suite of the build, not its own alone"
            hint = "put it into a group, or say with depends_on what waits for what"
            yield (index,), warning("wait-conditional", (), message, hint)


def _counts(steps: Sequence[Any], rules: PodRules) -> Iterator[tuple[IndexPath, Finding]]:
    total = 0
    for index, step in enumerate(steps):
        jobs = job_count(step)
        total += jobs
        if jobs > rules.jobs_per_upload:
            message = f"{jobs} jobs in one piece; Buildkite takes {rules.jobs_per_upload} in one upload"
            yield (
                (index,),
                error("too-many-jobs-in-upload", (), message, "split it into several groups or steps"),
            )
    if total > rules.jobs_per_build:
        message = f"{total} jobs; Buildkite takes {rules.jobs_per_build} in one build, retries included"
        yield (), error("too-many-jobs", (), message, "select fewer suites, or ask for fewer shards")
