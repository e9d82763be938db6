"""Patterns against the files there are: each matches one, each list leaves some, no file is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bkgen.check.files import Listing
from bkgen.errors import Diagnostic, Position, did_you_mean, dotted, nearest
from bkgen.globs import Paths, Patterns, faults
from bkgen.plan.keys import keyed_steps
from bkgen.plan.planning import subjects
from bkgen.spec.references import Path
from bkgen.spec.settings import FORCE_RUN, TRIVIAL, Settings
from bkgen.spec.suite import Located, Suite
from bkgen.spec.when import When

Chain = tuple[tuple[Path, When], ...]


@dataclass(frozen=True, slots=True)
class PatternList:
    """One list that somebody wrote: where, what for, and what else is said around it."""

    source: Located
    field: Path
    patterns: tuple[str, ...]
    purpose: str
    exempt: frozenset[str] = frozenset()
    include_trivial: bool = False


def chains(suite: Suite) -> tuple[Chain, ...]:
    """The `when`s from the file down to each of the suite's steps and mirrors."""
    return tuple(subject.chain for subject in subjects(suite, keyed_steps(suite)).values())


def lists_of(suites: Iterable[Suite], settings: Settings | None, source: Located) -> list[PatternList]:
    """Every list of patterns in the settings and the suites."""
    found = []
    if settings is not None:
        for field, patterns, default in (
            ("trivial", settings.filter.trivial, TRIVIAL),
            ("force_run", settings.filter.force_run, FORCE_RUN),
        ):
            if field in settings.filter.model_fields_set:
                found.append(PatternList(source, ("filter", field), patterns, field, frozenset(default)))
    for suite in suites:
        lists: dict[Path, PatternList] = {}
        for chain in chains(suite):
            trivial = any(when.include_trivial for _, when in chain)
            for path, when in chain:
                field_path: Path = (*path, "paths")
                if when.paths is not None and (trivial or field_path not in lists):
                    lists[field_path] = PatternList(
                        suite.source, field_path, when.paths, "when.paths", include_trivial=trivial
                    )
        found += lists.values()
    return found


def pattern_problems(
    lists: Iterable[PatternList], listing: Listing, settings: Settings
) -> Iterator[Diagnostic]:
    """Patterns that match no file, take away nothing, or leave nothing over."""
    trivial = _trivial(listing, settings)
    weighty = Paths((name, listing.is_link(name)) for name in listing.names if name not in trivial)
    for one in lists:
        if not faults(one.patterns):
            yield from _single(one, listing)
            yield from _whole(one, listing, weighty)


def _trivial(listing: Listing, settings: Settings) -> frozenset[str]:
    matched = listing.paths.matching(Patterns(settings.filter.trivial))
    return frozenset(path for path, _ in matched if not listing.is_link(path))


def _single(one: PatternList, listing: Listing) -> Iterator[Diagnostic]:
    for index, pattern in enumerate(one.patterns):
        if pattern in one.exempt:
            continue
        place = (*one.field, index)
        if not listing.paths.matches_alone(pattern):
            found = Diagnostic(
                "pattern-matches-nothing",
                f"'{pattern}' matches no file of the repository",
                _meant(pattern, listing),
                one.source.position(place),
                dotted(place),
            )
            # A misspelt trivial pattern costs a run too many, never one too few.
            yield found.as_warning() if one.purpose == "trivial" or pattern.startswith("!") else found
        elif pattern.startswith("!") and _takes_nothing(one.patterns, index, listing):
            yield Diagnostic(
                "pattern-takes-nothing",
                f"'{pattern}' takes nothing away: no pattern before it has any of its files",
                "remove it, or put it after what it takes away from",
                one.source.position(place),
                dotted(place),
                "warning",
            )


def _takes_nothing(patterns: tuple[str, ...], index: int, listing: Listing) -> bool:
    before = Patterns(patterns[:index])
    own = listing.paths.matching(Patterns([patterns[index][1:]]))
    return not any(before.match(path, is_link=listing.is_link(path)) for path, _ in own)


def _meant(pattern: str, listing: Listing) -> str:
    """The directory or file that is most likely meant."""
    head = pattern.lstrip("!").removeprefix("./").strip("/").split("/")[0]
    if "*" not in head and head not in listing.top and nearest(head, listing.top):
        return did_you_mean(head, listing.top)
    return "mend the pattern, or remove it; a new file counts as soon as it is there"


def _whole(one: PatternList, listing: Listing, weighty: Paths) -> Iterator[Diagnostic]:
    if one.purpose == "trivial" or not one.patterns:
        return
    wanted = Patterns(one.patterns)
    positive = [pattern for pattern in one.patterns if not pattern.startswith("!")]
    code = message = hint = ""
    if listing.paths.first_match(wanted) is None:
        if all(listing.paths.matches_alone(pattern) for pattern in positive):
            code = "pattern-list-empty"
            message = "the '!' patterns take away every file that the others have: the list can never match"
            hint = "narrow the '!' patterns, or put what is wanted after them"
    elif one.purpose == "when.paths" and not one.include_trivial and weighty.first_match(wanted) is None:
        code = "pattern-list-trivial"
        message = "every file that the list has is trivial, and trivial files select nothing here"
        hint = "add include_trivial: true, or carve the files out of filter.trivial with a '!' pattern"
    if code:
        yield Diagnostic(code, message, hint, one.source.position(one.field), dotted(one.field))


def forgotten_files(
    suites: Iterable[Suite], listing: Listing, settings: Settings, source: Located
) -> Iterator[Diagnostic]:
    """Files whose change selects nothing, where every suite names the paths it depends on."""
    every = [chain for suite in suites for chain in chains(suite)]
    if not every or any(all(when.paths is None for _, when in chain) for chain in every):
        return
    if settings.filter.unclaimed == "run":
        return
    claimed = {path for path, _ in listing.paths.matching(Patterns(settings.filter.force_run))}
    # The settings, and what lies among the suites in none of them, force everything by themselves.
    claimed |= {path for path in listing.tracked if path == source.file or _among(path, settings.tests_dir)}
    directories = tuple(f"{suite.directory}/" for suite in suites)
    claimed |= _trivial(listing, settings)
    left = [p for p in listing.tracked if p not in claimed and not p.startswith(directories)]
    dead = _unclaimed(left, listing, dict.fromkeys(tuple(w.paths for _, w in c if w.paths) for c in every))
    if dead:
        yield Diagnostic(
            "files-select-nothing",
            f"a change of {_counted(dead)} runs no suite at all: {_listed(dead)}",
            "name them in the when.paths of the suites that depend on them, or in filter.trivial "
            "or filter.force_run",
            Position(source.file),
            "when.paths",
            "warning",
        )


def _among(path: str, tests_dir: str) -> bool:
    name, below, _ = path.removeprefix(f"{tests_dir}/").partition("/")
    return path.startswith(f"{tests_dir}/") and (not below or name.startswith((".", "_")))


def hidden_suites(suites: Iterable[Suite], listing: Listing, settings: Settings) -> Iterator[Diagnostic]:
    """Directories that look like suites and lie where none is looked for: nothing would ever run them."""
    known = {suite.directory for suite in suites}
    tracked = set(listing.tracked)
    for path in listing.tracked:
        directory, slash, name = path.rpartition("/")
        parts = directory.split("/")
        if name != "pipeline.yml" or not slash or directory in known:
            continue
        if any(part.startswith((".", "_")) for part in parts) or f"{directory}/run.sh" not in tracked:
            continue
        inside = directory.startswith(f"{settings.tests_dir}/")
        if inside or f"{directory}/BK_WEB_SETUP.md" in tracked:
            yield Diagnostic(
                "suite-not-found",
                f"{directory} looks like a suite, and suites are the directories in {settings.tests_dir}",
                f"move it to {settings.tests_dir}/{parts[-1]}, or begin its name with '_' if it is none",
                Position(path),
                "",
                "warning",
            )


def _unclaimed(files: list[str], listing: Listing, lists: Iterable[tuple[tuple[str, ...], ...]]) -> list[str]:
    """The files that match none of `lists`, each of which asks for a match of all its parts."""
    left = Paths((path, listing.is_link(path)) for path in files)
    claimed: set[str] = set()
    for parts in lists:
        narrow, *others = (Patterns(part) for part in sorted(parts, key=len))
        for path, _ in left.matching(narrow):
            if all(other.match(path, is_link=listing.is_link(path)) for other in others):
                claimed.add(path)
        if len(claimed) * 4 > len(files):
            # Most files are claimed by the first few lists; the others need not look at them again.
            files = [path for path in files if path not in claimed]
            left = Paths((path, listing.is_link(path)) for path in files)
            claimed = set()
    return [path for path in files if path not in claimed]


def _counted(files: list[str]) -> str:
    return "one file" if len(files) == 1 else f"any of {len(files)} files"


def _listed(files: list[str]) -> str:
    shown = ", ".join(files[:5])
    return f"{shown} and {len(files) - 5} more" if len(files) > 5 else shown
