"""Can every suite and step still be selected, and does every label, scope and cadence select something?

Nothing is worked out twice: a set of builds that together ask for everything goes through the real decision.

    a pull request that asks for every declared label
    a pull request with each scope's label
    a schedule of each cadence, which carries no label
    a pull request that asks for a cadence by its label, with every label
    a push to each branch that a suite names

Source of the rules: `bkgen.decide.policy`. A build by hand decides as a schedule does, so it adds nothing. A
cadence that is named by hand on a pull request's build could join both, but nobody's routine rests on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.decide.facts import Selection, gather
from bkgen.decide.policy import REGULAR
from bkgen.decide.rules import Subject, decide
from bkgen.errors import Diagnostic, dotted
from bkgen.plan.keys import Keyed, keyed_steps
from bkgen.plan.planning import subjects
from bkgen.spec.references import Path
from bkgen.spec.settings import PolicySettings, Settings
from bkgen.spec.steps import CommandStep, TriggerStep
from bkgen.spec.suite import Located, Suite

_WHOLE = ChangesNotAsked("every file counts")


@dataclass(frozen=True, slots=True)
class Work:
    """A command or trigger of a suite with its chain of `when`s."""

    suite: Suite
    path: Path
    key: str
    subject: Subject


def work_of(suites: Iterable[Suite]) -> list[Work]:
    """Everything that runs for its own sake, mirrors included."""
    found = []
    for suite in suites:
        keyed = keyed_steps(suite)
        asked = subjects(suite, keyed)
        found += [Work(suite, item.path, item.key, asked[item.key]) for item in keyed if _is_work(item)]
    return found


def _is_work(item: Keyed) -> bool:
    return isinstance(item.step, (CommandStep, TriggerStep))


def reach_problems(
    suites: Sequence[Suite], settings: Settings, source: Located, *, complete: bool
) -> Iterator[Diagnostic]:
    """Unreachable suites and steps, and names of the policy that select nothing.

    `complete` says that every suite could be read; a label may be used by one that could not.
    """
    works = work_of(suites)
    reached = _reached(works, suites, settings)
    yield from _unreachable(works, reached, settings.policy)
    yield from _idle_branches(suites)
    yield from _idle_cadences(works)
    if complete and works:
        yield from _labels(works, reached, settings, source)
        yield from _scopes(works, suites, settings, source)
        yield from _cadences(works, suites, settings, source)


def _selected(build: Build, works: Sequence[Work], suites: Sequence[Suite], settings: Settings) -> set[str]:
    facts = gather(build, settings, suites, _WHOLE, Selection())
    return {_name(work) for work in works if decide(work.subject, facts).runs}


def _name(work: Work) -> str:
    return f"{work.suite.name}/{work.key}"


def _pull_request(*labels: str) -> Build:
    return Build(source="webhook", pull_request=1, branch="change", labels=labels)


def _builds(suites: Sequence[Suite], policy: PolicySettings) -> Iterator[Build]:
    every = [policy.label_prefix + label for label in policy.labels]
    yield _pull_request(*every)
    for name, cadence in policy.cadences.items():
        yield Build(source="schedule", cadence=name)
        if cadence.label is not None:
            yield _pull_request(*every, cadence.label)
    for branch in _branches(suites):
        yield Build(source="webhook", branch=branch)


def _branches(suites: Sequence[Suite]) -> list[str]:
    patterns = [
        pattern for work in work_of(suites) for _, when in work.subject.chain for pattern in when.branches
    ]
    return sorted({pattern.replace("*", "x").replace("?", "x") for pattern in patterns if pattern[0] != "!"})


def _reached(works: Sequence[Work], suites: Sequence[Suite], settings: Settings) -> set[str]:
    reached: set[str] = set()
    left = list(works)
    for build in _builds(suites, settings.policy):
        reached |= _selected(build, left, suites, settings)
        left = [work for work in left if _name(work) not in reached]
        if not left:
            break
    return reached


def _unreachable(works: Sequence[Work], reached: set[str], policy: PolicySettings) -> Iterator[Diagnostic]:
    alive = {work.suite.name for work in works if _name(work) in reached}
    said: set[str] = set()
    for work in works:
        if _name(work) in reached or work.suite.name in said or _names_nobody(work.subject, policy):
            continue
        what = f"the step '{work.key}'"
        if work.suite.name not in alive:
            what = f"the suite '{work.suite.name}'"
            said.add(work.suite.name)
        reason, hint, path = _reason(work.subject, policy)
        yield Diagnostic(
            "unreachable",
            f"no cadence, scope, label or branch can select {what}: {reason}",
            hint,
            work.suite.source.position(path),
            dotted(path),
        )


def _names_nobody(subject: Subject, policy: PolicySettings) -> bool:
    """A level asks for undeclared names only, which loading has said already."""
    cadences = {REGULAR, *policy.cadences}
    return any(
        cadences.isdisjoint(when.cadence) or (when.labels and policy.labels.keys().isdisjoint(when.labels))
        for _, when in subject.chain
    )


def _reason(subject: Subject, policy: PolicySettings) -> tuple[str, str, Path]:
    limited = [(path, when.only_cadences) for path, when in subject.chain if when.only_cadences is not None]
    shared = frozenset.intersection(*(names for _, names in limited)) if limited else frozenset()
    path = (*(limited[-1][0] if limited else subject.chain[-1][0]), "cadence")
    if limited and not shared:
        said = " and ".join(" or ".join(sorted(names)) for _, names in limited)
        return f"it is for {said} builds, and no build is both", "let the cadences overlap", path
    asked = [label for _, when in subject.chain for label in when.labels]
    names = ", ".join(sorted(shared))
    minus = sorted({label for name in shared for label in policy.cadences[name].minus if label in asked})
    hint = (
        f"take {' or '.join(minus) or 'its labels'} out of `minus` of {names}, give {names} a `label` "
        "with which a pull request asks for it, or drop the step's cadence"
    )
    return (
        f"it is only for {names} builds, and these leave out {' and '.join(minus) or 'its labels'}",
        hint,
        path,
    )


def _idle_branches(suites: Sequence[Suite]) -> Iterator[Diagnostic]:
    seen: set[tuple[str, Path]] = set()
    for work in work_of(suites):
        for path, when in work.subject.chain:
            if when.branches and not when.labels and (work.suite.name, path) not in seen:
                seen.add((work.suite.name, path))
                yield Diagnostic(
                    "branches-without-labels",
                    "branches admits pushes that carry no label, and no label is asked for here",
                    "remove it, or add labels; Buildkite's own `branches` keeps a step to some branches",
                    work.suite.source.position((*path, "branches")),
                    dotted((*path, "branches")),
                    "warning",
                )


def _idle_cadences(works: Sequence[Work]) -> Iterator[Diagnostic]:
    """Cadences in a list whose builds a level above keeps out: the step never runs in them."""
    seen: set[tuple[str, Path]] = set()
    for work in works:
        left: frozenset[str] | None = None
        for path, when in work.subject.chain:
            named = frozenset(when.cadence) if "cadence" in when.model_fields_set else frozenset()
            idle = named - left if left is not None else frozenset()
            # Where nothing is left, the step is unreachable, which is said already.
            if idle and (idle < named or named == {REGULAR}) and (work.suite.name, path) not in seen:
                seen.add((work.suite.name, path))
                yield _idle_cadence(work.suite, (*path, "cadence"), sorted(idle), sorted(left or ()))
            if when.only_cadences is not None:
                left = when.only_cadences if left is None else left & when.only_cadences


def _idle_cadence(suite: Suite, place: Path, idle: list[str], above: list[str]) -> Diagnostic:
    return Diagnostic(
        "cadence-without-effect",
        f"it never runs in a {' or '.join(idle)} build: what it stands in is for {' or '.join(above)} builds",
        f"take {' and '.join(idle)} out, or add it to the cadence above",
        suite.source.position(place),
        dotted(place),
        "warning",
    )


def _labels(
    works: Sequence[Work], reached: set[str], settings: Settings, source: Located
) -> Iterator[Diagnostic]:
    carried = {
        label
        for work in works
        if _name(work) in reached
        for _, when in work.subject.chain
        for label in when.labels
    }
    for label in settings.policy.labels:
        if label not in carried:
            yield Diagnostic(
                "policy-label-selects-nothing",
                f"the label '{label}' selects nothing: no suite or step that can run carries it",
                f"write 'when: {{labels: [{label}]}}' in a suite, or remove the label from bkgen.yml",
                source.position(("policy", "labels", label)),
                f"policy.labels.{label}",
            )


def _scopes(
    works: Sequence[Work], suites: Sequence[Suite], settings: Settings, source: Located
) -> Iterator[Diagnostic]:
    policy = settings.policy
    if "scopes" not in policy.model_fields_set:
        return
    without = _selected(_pull_request(), works, suites, settings)
    for name, scope in policy.scopes.items():
        if not _selected(_pull_request(policy.label_prefix + name), works, suites, settings) - without:
            hint = (
                f"take labels out of its minus ({', '.join(scope.minus)})" if scope.minus else "label a suite"
            )
            yield Diagnostic(
                "policy-scope-selects-nothing",
                f"the scope '{name}' selects nothing that a pull request without it would not run",
                f"{hint}, or remove the scope",
                source.position(("policy", "scopes", name)),
                f"policy.scopes.{name}",
            )


def _cadences(
    works: Sequence[Work], suites: Sequence[Suite], settings: Settings, source: Located
) -> Iterator[Diagnostic]:
    for name in settings.policy.cadences:
        if not _selected(Build(source="schedule", cadence=name), works, suites, settings):
            yield Diagnostic(
                "unused-cadence",
                f"a {name} build runs nothing at all",
                f"name {name} in the cadence of a suite, take labels out of its minus, or remove it",
                source.position(("policy", "cadences", name)),
                f"policy.cadences.{name}",
                "warning",
            )
