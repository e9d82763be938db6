"""The names of the policy: what a pull request or a schedule can ask for, each with one meaning."""

from collections.abc import Iterator

from bkgen.errors import Diagnostic, dotted
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Located

Path = tuple[str | int, ...]


def name_problems(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    """Labels, scopes and cadences that no build can ask for, or that one label asks for together."""
    yield from _one_schedule(settings, source)
    yield from _never_carried(settings, source)
    yield from _prefixed(settings, source)
    yield from _two_meanings(settings, source)
    if "regular" in settings.policy.cadences:
        yield Diagnostic(
            "spec-reserved-name",
            "'regular' is the name of builds without a cadence",
            "give the cadence another name",
            source.position(("policy", "cadences", "regular")),
            "policy.cadences.regular",
        )


def _never_carried(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    """Names that no build can ask for: labels come as one text, cut at commas, without blanks around them."""
    policy = settings.policy
    named: list[tuple[Path, str]] = [(("filter", "force_label"), settings.filter.force_label)]
    for kind, names in (("labels", policy.labels), ("cadences", policy.cadences), ("scopes", policy.scopes)):
        named += [(("policy", kind, name), name) for name in names]
    for name, cadence in policy.cadences.items():
        if cadence.label is not None:
            named.append((("policy", "cadences", name, "label"), cadence.label))
    # A blank at the prefix's end stands before the rest of the label.
    named.append((("policy", "label_prefix"), f"{policy.label_prefix}x"))
    for path, name in named:
        if not name or "," in name or name != name.strip():
            yield Diagnostic(
                "spec-name-never-carried",
                "no build can carry this name",
                "take a name without commas, and without blanks around it",
                source.position(path),
                dotted(path),
            )


def _prefixed(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    policy = settings.policy
    prefix = policy.label_prefix
    for kind, names in (("labels", policy.labels), ("scopes", policy.scopes)):
        for name in names if prefix else ():
            bare = name.removeprefix(prefix)
            if bare != name:
                yield Diagnostic(
                    "spec-name-prefixed",
                    f"'{name}' has the prefix, so a pull request could only ask for it as '{prefix}{name}'",
                    f"declare it without the prefix: {bare}" if bare else "take another name",
                    source.position(("policy", kind, name)),
                    dotted(("policy", kind, name)),
                )


def _two_meanings(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    """Pull request labels that ask for two things at once."""
    policy = settings.policy
    asked: list[tuple[str, str, Path]] = [
        *((name, "a label", ("policy", "labels", name)) for name in policy.labels),
        *((name, "a scope", ("policy", "scopes", name)) for name in policy.scopes),
        *(
            (cadence.label, f"the label of the cadence {name}", ("policy", "cadences", name, "label"))
            for name, cadence in policy.cadences.items()
            if cadence.label is not None
        ),
        (settings.filter.force_label, "the force_label", ("filter", "force_label")),
    ]
    meanings: dict[str, str] = {}
    for name, meaning, path in asked:
        bare = name.removeprefix(policy.label_prefix)
        if bare in meanings:
            yield Diagnostic(
                "spec-name-twice",
                f"'{name}' is {meanings[bare]} already, with or without the prefix",
                "take another name: on a pull request it would ask for both",
                source.position(path, of_key=path[-1] == name),
                dotted(path),
            )
        meanings.setdefault(bare, meaning)


def _one_schedule(settings: Settings, source: Located) -> Iterator[Diagnostic]:
    marked = [name for name, cadence in settings.policy.cadences.items() if cadence.schedule]
    for name in marked[1:]:
        yield Diagnostic(
            "spec-two-schedules",
            f"'{marked[0]}' is the schedule's cadence already",
            "mark one cadence with schedule: true; other schedules name theirs through BKGEN_CADENCE",
            source.position(("policy", "cadences", name, "schedule")),
            f"policy.cadences.{name}.schedule",
        )
