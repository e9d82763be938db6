"""Who depends on whom: keys that must be unique, names that must exist, ways that must not lead back."""

from collections.abc import Iterable, Mapping, Sequence

from bkgen.errors import Diagnostic, UserError, did_you_mean, dotted
from bkgen.graph import find_cycle
from bkgen.plan.keys import Keyed, is_group, key_problems, suite_key
from bkgen.spec.references import Path
from bkgen.spec.steps import CommandStep
from bkgen.spec.suite import Suite

Owners = Mapping[str, tuple[Suite, Keyed | None]]
"""Whose key it is; None for the key of a suite's own group."""
MOST_HINTS = 50
"""Missing keys for which the nearest known one is looked for."""
Edges = Mapping[str, tuple[str, ...]]
"""What each key depends on; `members_of(edges, group)` are the keys in a group."""


def owners_of(
    suites: Iterable[Suite], drafts: Mapping[str, tuple[Keyed, ...]]
) -> dict[str, tuple[Suite, Keyed | None]]:
    """Whose every key is. UserError: illegal keys, and keys of two owners."""
    owners: dict[str, tuple[Suite, Keyed | None]] = {}
    problems: list[Diagnostic] = []
    for suite in suites:
        keyed = drafts[suite.name]
        if any(item.step.own_key or item.mirror for item in keyed):
            problems += key_problems(suite, keyed)
        whole: list[Keyed | None] = [None] if is_group(suite) else []
        for item in [*whole, *keyed]:
            key = suite_key(suite) if item is None else item.key
            if key in owners:
                problems.append(_clash(key, suite, item, *owners[key]))
            else:
                owners[key] = (suite, item)
    if problems:
        raise UserError(problems)
    return owners


def _clash(key: str, suite: Suite, item: Keyed | None, other: Suite, other_item: Keyed | None) -> Diagnostic:
    step = item or other_item
    if suite is other and step is not None and (item is None or other_item is None):
        return Diagnostic(
            "step-key-twice",
            f"the key '{key}' is that of the group which the suite's steps make",
            f"give the step another key, such as '{key}-tests'",
            suite.source.position((*step.path, "key")),
            "key",
        )
    first = other.source.position(other_item.path if other_item else ())
    return Diagnostic(
        "step-key-twice",
        f"the key '{key}' is taken by {first}",
        "give one of the two steps a `key` of its own, or rename a suite",
        suite.source.position(item.path if item else ()),
        "key",
    )


def _members(group: str) -> str:
    return f"{group}\0members"


def members_of(edges: Edges, group: str) -> tuple[str, ...]:
    """The keys of the steps in `group`; none for a step."""
    return edges.get(_members(group), ())


def _depends_on(item: Keyed) -> tuple[Path, object]:
    if item.mirror is not None and isinstance(item.step, CommandStep) and item.step.mirrors is not None:
        mirror = item.step.mirrors[item.mirror]
        if "depends_on" in mirror.model_fields_set:
            return (*item.path, "depends_on"), mirror.depends_on
        return (*item.path[:-2], "depends_on"), item.step.depends_on
    return (*item.path, "depends_on"), item.step.depends_on


def dependency_keys(depends_on: object) -> list[str]:
    """The keys in any of Buildkite's forms of `depends_on`."""
    if depends_on is None:
        return []
    if isinstance(depends_on, str):
        return [depends_on]
    return [d if isinstance(d, str) else d.get("step", "") for d in depends_on]  # type: ignore[attr-defined]


def edges_of(
    suites: Sequence[Suite], drafts: Mapping[str, tuple[Keyed, ...]], owners: Owners
) -> dict[str, tuple[str, ...]]:
    """What every key depends on, its group's dependencies included. UserError: unknown keys, a cycle."""
    edges: dict[str, tuple[str, ...]] = {}
    problems: list[Diagnostic] = []
    # One missing key is often missed by many steps, and looking for the nearest is slow.
    hints: dict[str, str] = {}
    for suite in suites:
        by_group: dict[str, list[str]] = {}
        whole = suite_key(suite)
        for item in drafts[suite.name]:
            path, depends_on = _depends_on(item)
            needs = dependency_keys(depends_on)
            for index, key in enumerate(needs):
                if key not in owners:
                    if key not in hints:
                        hints[key] = did_you_mean(key, owners) if len(hints) < MOST_HINTS else ""
                    problems.append(_dangling(suite, (*path, index), key, hints[key]))
            if item.group is not None:
                by_group.setdefault(item.group, []).append(item.key)
                # A group's own dependencies hold for everything in it.
                needs += [key for key in edges.get(item.group, ()) if item.group != whole]
            edges[item.key] = tuple(dict.fromkeys(needs))
        for group, members in by_group.items():
            edges[_members(group)] = tuple(members)
    if problems:
        raise UserError(problems)
    _refuse_cycles(edges, owners)
    return edges


def _dangling(suite: Suite, path: Path, key: str, hint: str) -> Diagnostic:
    return Diagnostic(
        "step-unknown-dependency",
        f"no step has the key '{key}'",
        hint,
        suite.source.position(path, of_key=False),
        dotted(path),
    )


def _refuse_cycles(edges: Edges, owners: Owners) -> None:
    if not any(edges[key] for key in edges if "\0" not in key):
        return
    # Depending on a group is depending on everything in it.
    flat = {
        key: tuple(m for need in needs for m in (need, *members_of(edges, need)) if m != key)
        for key, needs in edges.items()
        if "\0" not in key
    }
    own = next((key for key, needs in edges.items() if key in needs), None)
    cycle = [own, own] if own else find_cycle(flat)
    if cycle is None:
        return
    named = ", ".join(dict.fromkeys(owners[key][0].source.file for key in cycle))
    start, first = owners[cycle[0]]
    path = first.path if first else ()
    raise UserError.single(
        "step-cycle",
        f"these steps wait for each other: {' → '.join(cycle)} ({named})",
        "remove one of the depends_on",
        position=start.source.position((*path, "depends_on")),
        field="depends_on",
    )
