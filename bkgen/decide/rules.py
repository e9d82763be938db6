"""The rules of relevance, in order. The first that applies decides.

A subject is a suite with a chain of `when`s: the file's, then the group's, then the step's. Each rule
answers with a Decision, or with None where it does not apply; the last always applies.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from bkgen.changes import ChangesNotAsked, UnknownChanges, printable
from bkgen.decide.decision import RULES, Decision, Evidence, RuleOutcome
from bkgen.decide.facts import SHOWN, Facts, listed
from bkgen.decide.policy import widening_labels
from bkgen.decide.shared import SETTINGS, inside_link
from bkgen.globs import Paths, Patterns
from bkgen.spec.when import When


class Subject(NamedTuple):
    """What is decided: the suite's name, its file, and the chain of `when`s with their places in it."""

    suite: str
    source: str
    chain: tuple[tuple[tuple[str | int, ...], When], ...]

    @property
    def include_trivial(self) -> bool:
        """Some level claims the trivial files."""
        return any(when.include_trivial for _, when in self.chain)


Rule = Callable[[Subject, Facts], Decision | None]


def decide(subject: Subject, facts: Facts) -> Decision:
    """The decision of the first rule that applies."""
    for _, rule in ORDER:
        decision = rule(subject, facts)
        if decision is not None:
            return decision
    raise AssertionError("the last rule always applies")


def explain(subject: Subject, facts: Facts) -> tuple[RuleOutcome, ...]:
    """What every rule says, in order; those after the deciding one were not asked."""
    outcomes: list[RuleOutcome] = []
    decided = False
    for codes, rule in ORDER:
        title = " / ".join(RULES[code] for code in codes)
        decision = None if decided else rule(subject, facts)
        note = "not asked" if decided else ("decides" if decision else "does not apply")
        outcomes.append(RuleOutcome(codes[0] if decision is None else decision.rule, title, decision, note))
        decided = decided or decision is not None
    return tuple(outcomes)


def _named(subject: Subject, facts: Facts) -> Decision | None:
    selection = facts.selection
    if selection.is_everything:
        return None
    if subject.suite not in selection.suites:
        names = ", ".join(sorted(selection.suites))
        return Decision(
            "SKIP",
            "not-named",
            f"only {names} was asked for",
            Evidence(source="the command line or BKGEN_ONLY"),
            f"name '{subject.suite}' as well, or name nothing",
        )
    if selection.forced:
        return Decision(
            "RUN",
            "named",
            "it was named, so it is shown whatever changed",
            Evidence(source="the command line"),
            "name another suite; `bkgen plan` shows what a build would decide",
        )
    return None


def _not_admitted(subject: Subject, facts: Facts) -> Decision | None:
    for path, when in subject.chain:
        refusal = _refused(subject, facts, path, when)
        if refusal is not None:
            return refusal
    return None


def _refused(subject: Subject, facts: Facts, path: tuple[str | int, ...], when: When) -> Decision | None:
    build, policy, settings = facts.build, facts.policy, facts.settings
    if build.is_fork and (when.forks is False or (when.forks is None and not settings.forks.run)):
        return Decision(
            "SKIP",
            "not-admitted",
            "it is not for the pull requests of forks",
            Evidence(field=(*path, "forks"), source=subject.source if when.forks is False else SETTINGS),
            "push the branch to the repository itself, or say `forks: true` in its `when`",
        )
    if when.only_cadences is not None and policy.cadence not in when.only_cadences:
        names = " or ".join(when.cadence)
        return Decision(
            "SKIP",
            "not-admitted",
            f"it is for {names} builds, and this is a {policy.cadence} one",
            Evidence(field=(*path, "cadence"), source=subject.source),
            _cadence_remedy(subject, facts, when.cadence),
        )
    if when.labels and not policy.labels & set(when.labels) and not _pushed_to(when.branches, facts):
        labels = ", ".join(widening_labels(settings.policy, when.labels))
        return Decision(
            "SKIP",
            "not-admitted",
            f"it needs the label {' or '.join(when.labels)}: {policy.reason}",
            Evidence(labels=when.labels, field=(*path, "labels"), source=subject.source),
            f"put one of these labels on the pull request: {labels}{_forced_as_well(subject, facts)}",
        )
    return None


def _forced_as_well(subject: Subject, facts: Facts) -> str:
    """What has to be there besides a label that admits: relevance is asked next."""
    then = next(decision for _, rule in ORDER[2:] if (decision := rule(subject, facts)) is not None)
    return "" if then.runs else f"; and {facts.settings.filter.force_label} as well, because {then.reason}"


def _cadence_remedy(subject: Subject, facts: Facts, cadences: tuple[str, ...]) -> str:
    declared = facts.settings.policy.cadences
    labels = [declared[name].label for name in cadences if name in declared and declared[name].label]
    by_label = f", or put the label {' or '.join(map(str, labels))} on the pull request" if labels else ""
    if by_label:
        by_label += _forced_as_well(subject, facts)
    return f"start a build with BKGEN_CADENCE={cadences[0]}{by_label}"


def _pushed_to(branches: tuple[str, ...], facts: Facts) -> bool:
    if not facts.build.is_push:
        return False
    matched = False
    for pattern in branches:
        if pattern.startswith("!"):
            matched = matched and not fnmatchcase(facts.build.branch, pattern[1:])
        else:
            matched = matched or fnmatchcase(facts.build.branch, pattern)
    return matched


def _no_question(_subject: Subject, facts: Facts) -> Decision | None:
    build = facts.build
    if build.is_scheduled:
        reason = f"a schedule started this {facts.policy.cadence} build"
    elif build.tag is not None:
        reason = f"this build is for the tag {printable(build.tag)}"
    elif build.is_by_hand:
        reason = "somebody, the API or another pipeline started this build"
    elif isinstance(facts.changes, ChangesNotAsked):
        reason = facts.changes.reason
    else:
        return None
    return Decision(
        "RUN",
        "no-question",
        reason,
        Evidence(source="the build's environment"),
        "it is asked only for pull requests, merge queues and pushes",
    )


def _force_label(_subject: Subject, facts: Facts) -> Decision | None:
    label = facts.settings.filter.force_label
    if label not in facts.build.labels:
        return None
    return Decision(
        "RUN",
        "force-label",
        f"the pull request carries the label {label}",
        Evidence(labels=(label,), source="the build's environment"),
        f"take the label {label} off the pull request",
    )


def _changes_unknown(_subject: Subject, facts: Facts) -> Decision | None:
    if not isinstance(facts.changes, UnknownChanges):
        return None
    return Decision(
        "RUN",
        "changes-unknown",
        f"what changed is not known: {facts.changes.reason}",
        Evidence(source="git"),
        "mend what git reports; until then everything that is admitted runs",
    )


def _changes_empty(_subject: Subject, facts: Facts) -> Decision | None:
    if facts.files:
        return None
    return Decision(
        "RUN",
        "changes-empty",
        "no file differs from the base, which proves nothing",
        Evidence(source="git"),
        "change a file; with a list to look at, the paths decide",
    )


def _force_run(_subject: Subject, facts: Facts) -> Decision | None:
    if facts.force_run is None:
        return None
    path, pattern = facts.force_run
    shown = _shown(facts, [path])
    if pattern is None:
        return Decision(
            "RUN",
            "force-run",
            f"{shown[0]} is there for all suites",
            Evidence(shown, source="git"),
            "leave the settings and what the suites share alone in this change",
        )
    return Decision(
        "RUN",
        "force-run",
        f"{shown[0]} matches force_run",
        Evidence(shown, pattern, field=("filter", "force_run"), source=SETTINGS),
        "leave the files that match force_run alone in this change",
    )


def _unclaimed(_subject: Subject, facts: Facts) -> Decision | None:
    if not facts.unclaimed or facts.settings.filter.unclaimed != "run":
        return None
    shown = _shown(facts, facts.unclaimed)
    return Decision(
        "RUN",
        "unclaimed",
        f"{shown[0]} matches no suite's paths, so nobody knows what it concerns",
        Evidence(shown, field=("filter", "unclaimed"), source=SETTINGS),
        "add the file to the paths of the suites that test it, or to filter.trivial",
    )


def _own_directory(subject: Subject, facts: Facts) -> Decision | None:
    found = [
        file.path
        for file in facts.owned.get(subject.suite, ())
        if subject.include_trivial or file.path not in facts.trivial
    ]
    if not found:
        return None
    return Decision(
        "RUN",
        "own-directory",
        f"{_shown(facts, found)[0]} lies in the suite's own directory",
        Evidence(_shown(facts, found), source="git"),
        "leave the suite's directory alone in this change",
    )


def _only_trivial(subject: Subject, facts: Facts) -> Decision | None:
    if subject.include_trivial:
        if any(facts.owners.get(file.path, subject.suite) == subject.suite for file in facts.files):
            return None
    elif facts.unowned_weighty:
        return None
    if _claims(subject, facts):
        return None
    kinds = []
    if facts.trivial and not subject.include_trivial:
        kinds.append("trivial")
    if any(file.path in facts.owners for file in facts.files):
        kinds.append("in another suite's directory")
    return Decision(
        "SKIP",
        "only-trivial",
        f"every changed file is {' or '.join(kinds)}",
        Evidence(facts.listing, field=("filter", "trivial"), source=SETTINGS),
        f"put the label {facts.settings.filter.force_label} on the pull request, "
        "or claim the files with when.paths or when.include_trivial",
    )


def _claims(subject: Subject, facts: Facts) -> bool:
    # A suite that names another suite's files in its own paths asked for them; skipping it because
    # they belong to somebody else would be a wrong skip.
    paths = [when.paths for _, when in subject.chain if when.paths is not None]
    files = facts.all_paths if subject.include_trivial else facts.weighty_paths
    return bool(paths) and all(_first_match(files, patterns, facts) for patterns in paths)


def _first_match(files: Paths, patterns: tuple[str, ...], facts: Facts) -> tuple[str, str] | None:
    return files.first_match(Patterns(patterns)) or inside_link(patterns, facts.links)


def _paths(subject: Subject, facts: Facts) -> Decision | None:
    files = facts.all_paths if subject.include_trivial else facts.weighty_paths
    matched: tuple[tuple[str | int, ...], str, str] | None = None
    for path, when in subject.chain:
        if when.paths is None:
            continue
        found = _first_match(files, when.paths, facts)
        if found is None:
            return Decision(
                "SKIP",
                "paths-miss",
                f"none of the {len(facts.files)} changed files matches its paths"
                if len(facts.files) != 1
                else "the changed file does not match its paths",
                Evidence(facts.listing, field=(*path, "paths"), source=subject.source),
                f"put the label {facts.settings.filter.force_label} on the pull request, "
                "or widen when.paths if these files matter to it",
            )
        matched = ((*path, "paths", when.paths.index(found[1])), *found)
    if matched is None:
        return None
    field, file, pattern = matched
    return Decision(
        "RUN",
        "paths-match",
        f"{_shown(facts, [file])[0]} matches {pattern}",
        Evidence(_shown(facts, [file]), pattern, field=field, source=subject.source),
        f"leave the files that match {pattern} alone in this change",
    )


def _default(subject: Subject, facts: Facts) -> Decision:
    weighty = [f.path for f in facts.files if subject.include_trivial or f.path not in facts.trivial]
    mine = [path for path in weighty if facts.owners.get(path, subject.suite) == subject.suite]
    return Decision(
        "RUN",
        "default",
        f"{_shown(facts, mine)[0]} changed, and the suite has no paths to narrow it",
        Evidence(_shown(facts, mine), source="git"),
        "give the suite when.paths, if it does not depend on this file",
    )


def _shown(facts: Facts, paths: Sequence[str]) -> tuple[str, ...]:
    return listed([facts.by_path[path].shown for path in paths[:SHOWN]], len(paths))


ORDER: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("not-named", "named"), _named),
    (("not-admitted",), _not_admitted),
    (("no-question",), _no_question),
    (("force-label",), _force_label),
    (("changes-unknown",), _changes_unknown),
    (("changes-empty",), _changes_empty),
    (("force-run",), _force_run),
    (("unclaimed",), _unclaimed),
    (("own-directory",), _own_directory),
    (("only-trivial",), _only_trivial),
    (("paths-match", "paths-miss"), _paths),
    (("default",), _default),
)
