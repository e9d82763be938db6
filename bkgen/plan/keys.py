"""A key for every step: the author's own, or one made of the suite's name and the step's label.

Keys are what makes a retried upload safe and a failed step's retry possible, so they never depend on
what was selected: the same file gives the same keys in every build.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from bkgen.errors import Diagnostic, dotted
from bkgen.spec.references import Path
from bkgen.spec.steps import AnyStep, BlockStep, CommandStep, GroupStep, InputStep, TriggerStep, WaitStep
from bkgen.spec.suite import Suite

LONGEST = 100
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")
_LEGAL_KEY = r"[A-Za-z0-9_:-]{1,100}\Z"
_UUID = r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z"


class Keyed(NamedTuple):
    """A step or mirror with its key. `group` is the key of the group it stands in, the suite's included."""

    key: str
    path: Path
    step: AnyStep
    mirror: str | None = None
    group: str | None = None


def slug(text: str) -> str:
    """The letters, digits and dashes of a label, without emoji names, `%N` and matrix tokens."""
    plain = re.sub(r":[a-z0-9_+-]+:|%[nNtT]\b|\{\{.*?\}\}", " ", text)
    return _ILLEGAL.sub("-", plain).strip("-").lower()[:60].rstrip("-")


def is_group(suite: Suite) -> bool:
    """A suite of several steps is a group, unless it brings its own groups."""
    steps = suite.spec.steps or ()
    return len(steps) > 1 and not any(isinstance(step, GroupStep) for step in steps)


def suite_key(suite: Suite) -> str:
    """The key of the suite's group, or of its only step."""
    return _ILLEGAL.sub("-", suite.name).strip("-") or "suite"


def keyed_steps(suite: Suite) -> tuple[Keyed, ...]:
    """Every step of the suite in file order, groups before their steps, each followed by its mirrors."""
    prefix = suite_key(suite)
    whole = prefix if is_group(suite) else None
    steps = suite.spec.steps
    namer = _Namer(prefix)
    if steps is None:
        return (Keyed(prefix, (), CommandStep(command="./run.sh")),)
    if whole:
        namer.taken.add(whole)
    only = len(steps) == 1 and not isinstance(steps[0], GroupStep)
    found: list[Keyed] = []
    for index, step in enumerate(steps):
        path: Path = ("steps", index)
        key = step.own_key or (namer.take(prefix) if only else namer.name(step))
        found.append(Keyed(key, path, step, None, whole))
        if isinstance(step, GroupStep):
            for inner, leaf in enumerate(step.steps):
                leaf_path: Path = (*path, "steps", inner)
                leaf_key = leaf.own_key or namer.name(leaf)
                found.append(Keyed(leaf_key, leaf_path, leaf, None, key))
                found += _mirrors(leaf, leaf_key, leaf_path, key)
        else:
            found += _mirrors(step, key, path, whole)
    return tuple(found)


def _mirrors(step: AnyStep, key: str, path: Path, group: str | None) -> Iterator[Keyed]:
    if isinstance(step, CommandStep):
        for name, mirror in (step.mirrors or {}).items():
            yield Keyed(
                mirror.key or f"{key}-{_ILLEGAL.sub('-', name)}", (*path, "mirrors", name), step, name, group
            )


class _Namer:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.taken: set[str] = set()
        self._next: dict[str, int] = {}

    def name(self, step: AnyStep) -> str:
        part = slug(_shown_label(step)) or _kind(step)
        same = part == self.prefix.lower() or part.startswith(f"{self.prefix.lower()}-")
        return self.take(part if same else f"{self.prefix}-{part}")

    def take(self, wanted: str) -> str:
        key, number = wanted[:LONGEST], self._next.get(wanted, 2)
        while key in self.taken:
            key = f"{wanted[: LONGEST - 6]}-{number}"
            number += 1
        self._next[wanted] = number
        self.taken.add(key)
        return key


def _shown_label(step: AnyStep) -> str:
    label = step.label or step.name or ""
    if label:
        return label
    if isinstance(step, GroupStep):
        return step.group or ""
    if isinstance(step, BlockStep):
        return step.block or step.manual or ""
    if isinstance(step, InputStep):
        return step.input or ""
    if isinstance(step, TriggerStep):
        return step.trigger
    if isinstance(step, CommandStep):
        first = next(iter(step.commands_list), "")
        return re.sub(r"\.(sh|py)\b", "", first.removeprefix("./"))
    return ""


def _kind(step: AnyStep) -> str:
    return type(step).__name__.removesuffix("Step").lower()


def key_problems(suite: Suite, keyed: tuple[Keyed, ...]) -> Iterator[Diagnostic]:
    """Keys that Buildkite would refuse."""
    for item in keyed:
        field = "key" if item.mirror is not None or getattr(item.step, "key", None) else "identifier"
        place = suite.source.position((*item.path, field))
        name = dotted((*item.path, field))
        given = {getattr(item.step, one) for one in ("key", "identifier", "id")} - {None}
        if item.mirror is None and len(given) > 1:
            hint = "keep one; `id` and `identifier` are old names of `key`"
            yield Diagnostic("step-key", f"the step has {len(given)} keys", hint, place, name)
        if isinstance(item.step, WaitStep) and item.step.own_key is None:
            continue
        if not re.match(_LEGAL_KEY, item.key):
            yield Diagnostic(
                "step-key",
                f"'{item.key}' cannot be a key",
                "use letters, digits, '_', '-' and ':'",
                place,
                name,
            )
        elif re.match(_UUID, item.key):
            yield Diagnostic(
                "step-key", f"the key '{item.key}' looks like a UUID", "give it a name", place, name
            )
