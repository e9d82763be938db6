"""In which builds a suite's steps run, asked of the real decision: the table of a page is never a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.decide.facts import Selection, gather
from bkgen.decide.rules import Subject, decide
from bkgen.plan.keys import keyed_steps
from bkgen.plan.planning import subjects
from bkgen.spec.settings import Settings
from bkgen.spec.steps import CommandStep, TriggerStep
from bkgen.spec.suite import Suite

_WHOLE = ChangesNotAsked("the table asks who is admitted, not what changed")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of build (Markdown), and which of the suite's steps it admits."""

    build: str
    admitted: str


def rows(suite: Suite, settings: Settings) -> tuple[Row, ...]:
    """Builds of every kind that can make a difference to `suite`."""
    chosen = chosen_subjects(suite)
    found = []
    for name, build in _builds(list(chosen.values()), settings):
        facts = gather(build, settings, (suite,), _WHOLE, Selection())
        admitted = [key for key, subject in chosen.items() if decide(subject, facts).runs]
        found.append(Row(name, said(admitted, list(chosen))))
    return tuple(found)


def chosen_subjects(suite: Suite) -> dict[str, Subject]:
    """The subjects of all that runs for its own sake, by key."""
    keyed = keyed_steps(suite)
    asked = subjects(suite, keyed)
    return {item.key: asked[item.key] for item in keyed if isinstance(item.step, (CommandStep, TriggerStep))}


def said(admitted: Sequence[str], every: Sequence[str]) -> str:
    """`admitted` of `every`, in words: by the shorter of the two lists."""
    if not admitted:
        return "nothing"
    if len(admitted) == len(every):
        return "everything"
    left = [key for key in every if key not in set(admitted)]
    count = f"{len(admitted)} of {len(every)} steps"
    return f"{count}, not {_named(left)}" if len(left) < len(admitted) else f"{count}: {_named(admitted)}"


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - 6} more" if len(keys) > 7 else ""
    return ", ".join(f"`{key}`" for key in (keys if not more else keys[:6])) + more


def used_labels(subjects: Iterable[Subject], settings: Settings) -> list[str]:
    """The labels that some level asks for, in the settings' order."""
    asked = {label for subject in subjects for _, when in subject.chain for label in when.labels}
    return [label for label in settings.policy.labels if label in asked]


def cadence_labels(subjects: Iterable[Subject], settings: Settings) -> list[str]:
    """The labels by which a pull request asks for a cadence that makes a difference here."""
    chains = [when for subject in subjects for _, when in subject.chain]
    if not any(when.labels or when.only_cadences is not None for when in chains):
        return []
    return [body.label for body in settings.policy.cadences.values() if body.label is not None]


def _builds(subjects: Sequence[Subject], settings: Settings) -> Iterator[tuple[str, Build]]:
    policy = settings.policy
    labels = used_labels(subjects, settings)
    yield "a pull request without a label", _pull_request()
    for label in labels:
        yield (
            f"a pull request with `{policy.label_prefix}{label}`",
            _pull_request(policy.label_prefix + label),
        )
    if len(labels) > 1:
        every = [policy.label_prefix + label for label in labels]
        yield f"a pull request with {' and '.join(f'`{label}`' for label in every)}", _pull_request(*every)
    for scope in policy.scopes if labels else ():
        yield (
            f"a pull request with `{policy.label_prefix}{scope}`",
            _pull_request(policy.label_prefix + scope),
        )
    for label in cadence_labels(subjects, settings):
        yield f"a pull request with `{label}`", _pull_request(label)
    yield (
        "a fork's pull request without a label",
        Build(source="webhook", pull_request=1, branch="them:change", is_fork=True),
    )
    for pattern in branch_patterns(subjects, settings):
        yield f"a push to `{pattern}`", Build(source="webhook", branch=_example(pattern))
    yield from _cadences(settings)
    yield "a tag, or a build by hand", Build(source="ui", branch=settings.default_branch)


def _cadences(settings: Settings) -> Iterator[tuple[str, Build]]:
    cadences = settings.policy.cadences
    if not any(body.schedule for body in cadences.values()):
        yield "a schedule", Build(source="schedule", branch=settings.default_branch)
    for name, body in cadences.items():
        extra = ", or none" if body.schedule else ""
        yield (
            f"a schedule with `BKGEN_CADENCE={name}`{extra}",
            Build(source="schedule", branch=settings.default_branch, cadence=name),
        )


def branch_patterns(subjects: Iterable[Subject], settings: Settings) -> list[str]:
    """The branches whose pushes can make a difference: the default one, and those that a level names."""
    named = [pattern for subject in subjects for _, when in subject.chain for pattern in when.branches]
    return list(dict.fromkeys([settings.default_branch, *(p for p in named if not p.startswith("!"))]))


def _example(pattern: str) -> str:
    return pattern.replace("*", "x").replace("?", "x")


def _pull_request(*labels: str) -> Build:
    return Build(source="webhook", pull_request=1, branch="change", labels=labels)
