"""Changed files that matter and that no suite's paths match: nothing tests them, and nobody would notice."""

from collections.abc import Iterable, Sequence

from bkgen.changes import ChangedFile, ChangeSet
from bkgen.decide.facts import Facts
from bkgen.decide.rules import Subject
from bkgen.decide.shared import inside_link, suites_behind
from bkgen.globs import Patterns

_NAMED = 3


def with_unclaimed(facts: Facts, subjects: Iterable[Subject]) -> Facts:
    """`facts` with the files that none of `subjects` claims, and a warning that names the first of them."""
    found = _unclaimed(facts, subjects)
    if not found:
        return facts
    names = ", ".join(facts.by_path[path].shown for path in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    runs = facts.settings.filter.unclaimed == "run"
    warning = (
        f"no suite's paths match {names}{more}: {'everything runs' if runs else 'nothing tests that'}; "
        "add what is tested to when.paths, and what needs no test to filter.trivial"
    )
    return facts._replace(unclaimed=found, warnings=(*facts.warnings, warning))


def _unclaimed(facts: Facts, subjects: Iterable[Subject]) -> tuple[str, ...]:
    asked = isinstance(facts.changes, ChangeSet) and facts.selection.is_everything
    if not asked or facts.force_run or facts.settings.filter.force_label in facts.build.labels:
        return ()
    left = {
        file.path: file
        for file in facts.files
        if file.path not in facts.trivial
        and file.path not in facts.owners
        and not suites_behind(file, facts.suite_directories)
    }
    links = [file for file in left.values() if file.is_link]
    seen = set()
    for subject in subjects:
        lists = tuple(when.paths for _, when in subject.chain if when.paths is not None)
        if not lists or not left:
            return ()
        if lists not in seen:
            seen.add(lists)
            for path in set.intersection(*(_matched(patterns, facts, links) for patterns in lists)):
                left.pop(path, None)
    return tuple(left) if seen else ()


def _matched(patterns: tuple[str, ...], facts: Facts, links: Sequence[ChangedFile]) -> set[str]:
    matched = {path for path, _ in facts.weighty_paths.matching(Patterns(patterns))}
    return matched | {link.path for link in links if inside_link(patterns, [link])}
