"""Admission: which labels count in this build. One pure function from cadence and labels to a policy.

    1. everything            if a scope that subtracts nothing (`all`) is on the pull request
    2. all minus `minus`     else in a declared cadence
    3. all minus `minus`     else with a narrower scope on the pull request, the strongest one
    4. nothing               else
    5. and whatever the pull request asks for by label, so that a request beats every subtraction

A subtraction is not a veto: a step with another effective label still runs.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bkgen.build import Build
from bkgen.changes import printable
from bkgen.errors import UserError, did_you_mean, nearest
from bkgen.spec.settings import PolicySettings, Scope

REGULAR = "regular"


class UnknownLabel(NamedTuple):
    """A label that has the prefix but that nothing declares, and the one it may have meant."""

    label: str
    nearest: str | None

    @property
    def message(self) -> str:
        """The warning, in one sentence."""
        hint = f"; did you mean '{self.nearest}'?" if self.nearest else ""
        return f"the label '{printable(self.label)}' selects nothing{hint}"


class Policy(NamedTuple):
    """What this build admits."""

    cadence: str
    labels: frozenset[str]
    requested: frozenset[str]
    scope: str | None
    unknown: tuple[UnknownLabel, ...]
    reason: str


def resolve_policy(
    cadence: str, labels: Iterable[str], settings: PolicySettings, also_known: Iterable[str] = ()
) -> Policy:
    """The effective labels of a build of `cadence` whose pull request carries `labels` (exact tokens).

    `also_known` are labels that mean something outside the policy; they are not reported as unknown.
    """
    names = {_stripped(label, settings.label_prefix): label for label in labels}
    declared = frozenset(settings.labels)
    requested = declared & names.keys()
    scope = next((name for name in settings.scopes if name in names), None)
    widest = next((name for name, body in settings.scopes.items() if name in names and not body.minus), None)
    if widest is not None:
        granted, reason = declared, f"the scope label '{names[widest]}' admits everything"
        scope = widest
    elif cadence != REGULAR:
        granted, reason = _minus(declared, settings.cadences[cadence].minus, f"a {cadence} build")
    elif scope is not None:
        granted, reason = _minus(declared, settings.scopes[scope].minus, f"the scope label '{names[scope]}'")
    else:
        granted, reason = frozenset(), "a regular build admits what asks for no label"
    if requested:
        reason += f", and the pull request asks for {', '.join(sorted(requested))}"
    unknown = tuple(_unknown(names, settings, also_known))
    return Policy(cadence, granted | requested, requested, scope, unknown, reason)


def _minus(declared: frozenset[str], minus: tuple[str, ...], who: str) -> tuple[frozenset[str], str]:
    if not minus:
        return declared, f"{who} admits every label"
    return declared - set(minus), f"{who} admits every label but {', '.join(sorted(minus))}"


def _stripped(label: str, prefix: str) -> str:
    return label[len(prefix) :] if prefix and label.startswith(prefix) else label


def _unknown(
    names: Mapping[str, str], settings: PolicySettings, also_known: Iterable[str]
) -> Iterable[UnknownLabel]:
    prefix = settings.label_prefix
    asked = {_stripped(c.label, prefix) for c in settings.cadences.values() if c.label}
    # These count as they are written only, so the prefix is part of them.
    further = {_stripped(label, prefix) for label in also_known if label.startswith(prefix)}
    known = {*settings.labels, *settings.scopes, *asked, *further}
    # Another spelling of a label that means something: without this it would be taken for anybody's label.
    spelt = {_folded(prefix + name): prefix + name for name in known if prefix}
    spelt |= {_folded(label): label for label in also_known}
    for name, label in names.items():
        if prefix and name != label and name not in known:
            close = nearest(name, known)
            yield UnknownLabel(label, prefix + close if close else spelt.get(_folded(label)))
        elif name == label and spelt.get(_folded(label), label) != label:
            yield UnknownLabel(label, spelt[_folded(label)])


def _folded(label: str) -> str:
    return label.casefold().replace("_", "-")


def cadence_of(build: Build, settings: PolicySettings) -> tuple[str, str | None]:
    """The cadence of `build`, and a warning where one was named in vain.

    A schedule names it by `BKGEN_CADENCE`, else it is the one marked `schedule: true`. A person may
    name one by hand, a pull request by a label that the settings declare. What a webhook started
    never inherits it: the variable is often set for the whole pipeline. Nor does a pull request's build
    that somebody rebuilds: it must decide as it did at first. UserError: unknown name.
    """
    if build.cadence is not None and build.cadence not in {REGULAR, *settings.cadences}:
        raise UserError.single(
            "build-cadence",
            f"BKGEN_CADENCE is '{build.cadence}', which the settings do not declare",
            did_you_mean(build.cadence, {REGULAR, *settings.cadences}, what="declared"),
        )
    if build.source == "webhook" or (build.source == "ui" and build.pull_request is not None):
        asked = _asked_by_label(build.labels, settings)
        if build.cadence not in {None, REGULAR} and asked is None:
            return (
                REGULAR,
                f"BKGEN_CADENCE={build.cadence} is ignored: a push or pull request started this build",
            )
        return asked or REGULAR, None
    if build.cadence is not None:
        return build.cadence, None
    if build.is_scheduled:
        return _of_schedule(settings)
    return _asked_by_label(build.labels, settings) or REGULAR, None


def _of_schedule(settings: PolicySettings) -> tuple[str, str | None]:
    marked = next((name for name, body in settings.cadences.items() if body.schedule), None)
    if marked is None and settings.cadences:
        return REGULAR, (
            "a schedule started this build, but BKGEN_CADENCE names no cadence and none is marked "
            f"`schedule: true`, so it is a regular one; declared: {', '.join(sorted(settings.cadences))}"
        )
    return marked or REGULAR, None


def _asked_by_label(labels: Iterable[str], settings: PolicySettings) -> str | None:
    names = {_stripped(label, settings.label_prefix) for label in labels}
    for name, cadence in settings.cadences.items():
        if cadence.label is not None and _stripped(cadence.label, settings.label_prefix) in names:
            return name
    return None


def widening_labels(settings: PolicySettings, labels: Iterable[str]) -> list[str]:
    """The pull request labels that would admit something asking for one of `labels`."""
    wanted = tuple(labels)
    direct = [settings.label_prefix + label for label in wanted]
    scopes = [
        settings.label_prefix + name
        for name, body in settings.scopes.items()
        if set(wanted) - set(body.minus if isinstance(body, Scope) else ())
    ]
    return direct + scopes
