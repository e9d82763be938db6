"""What all suites' decisions share, worked out once a build."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bkgen.build import Build
from bkgen.changes import ChangedFile, Changes, ChangeSet
from bkgen.decide.policy import Policy, cadence_of, resolve_policy
from bkgen.decide.shared import forcing, suites_behind
from bkgen.globs import Paths, Patterns
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite

SHOWN = 20
"""File names that one decision lists; the rest is a number."""


class Selection(NamedTuple):
    """What was named: suites, or steps of them; `forced` runs the named whatever changed."""

    suites: frozenset[str] = frozenset()
    steps: Mapping[str, frozenset[str]] | None = None
    forced: bool = False

    @property
    def is_everything(self) -> bool:
        """Nothing was named."""
        return not self.suites


class Facts(NamedTuple):
    """A build, its policy and its changes, with the changed files sorted into kinds."""

    build: Build
    settings: Settings
    policy: Policy
    changes: Changes
    selection: Selection
    warnings: tuple[str, ...]
    files: tuple[ChangedFile, ...]
    by_path: Mapping[str, ChangedFile]
    links: tuple[ChangedFile, ...]
    listing: tuple[str, ...]
    trivial: frozenset[str]
    owners: Mapping[str, str]
    force_run: tuple[str, str | None] | None
    all_paths: Paths
    weighty_paths: Paths
    owned: Mapping[str, tuple[ChangedFile, ...]]
    unowned_weighty: bool
    suite_directories: Mapping[str, str]
    unclaimed: tuple[str, ...] = ()


def gather(
    build: Build, settings: Settings, suites: Iterable[Suite], changes: Changes, selection: Selection
) -> Facts:
    """The facts of one build. UserError for a cadence nobody declares."""
    cadence, warning = cadence_of(build, settings.policy)
    policy = resolve_policy(cadence, build.labels, settings.policy, [settings.filter.force_label])
    files = changes.files if isinstance(changes, ChangeSet) else ()
    all_paths = Paths((file.path, file.is_link) for file in files)
    named_trivially = {path for path, _ in all_paths.matching(Patterns(settings.filter.trivial))}
    trivial = frozenset(f.path for f in files if f.path in named_trivially and not f.is_special)
    weighty = [file for file in files if file.path not in trivial]
    directories = {suite.name: suite.directory for suite in suites}
    owners = _owners(files, settings.tests_dir, directories)
    owned: dict[str, list[ChangedFile]] = {}
    for file in files:
        if file.path in owners:
            owned.setdefault(owners[file.path], []).append(file)
        for name in suites_behind(file, directories):
            if owners.get(file.path) != name:
                owned.setdefault(name, []).append(file)
    return Facts(
        build=build,
        settings=settings,
        policy=policy,
        changes=changes,
        selection=selection,
        warnings=tuple(_warnings(policy, warning)),
        files=files,
        by_path={file.path: file for file in files},
        links=tuple(file for file in files if file.is_link),
        listing=listed([file.shown for file in files[: SHOWN + 1]], len(files)),
        trivial=trivial,
        owners=owners,
        force_run=forcing(files, all_paths, settings, trivial, owners),
        all_paths=all_paths,
        weighty_paths=Paths((file.path, file.is_link) for file in weighty),
        owned={name: tuple(found) for name, found in owned.items()},
        unowned_weighty=any(file.path not in owners for file in weighty),
        suite_directories=directories,
    )


def listed(names: Sequence[str], total: int) -> tuple[str, ...]:
    """The first names of a list, and how many there are more."""
    shown = tuple(names[:SHOWN])
    return (*shown, f"… and {total - len(shown)} more") if total > len(shown) else shown


def _owners(files: Iterable[ChangedFile], tests_dir: str, directories: Mapping[str, str]) -> dict[str, str]:
    # A deleted suite is still nobody else's business: any directory below tests_dir owns its files,
    # unless its name says that it is shared.
    prefix = f"{tests_dir.strip('/')}/"
    owners = {}
    for file in files:
        if file.path.startswith(prefix):
            name, slash, _ = file.path[len(prefix) :].partition("/")
            if (slash or name in directories) and not name.startswith((".", "_")):
                owners[file.path] = name
    return owners


def _warnings(policy: Policy, cadence_warning: str | None) -> Iterable[str]:
    if cadence_warning:
        yield cadence_warning
    for unknown in policy.unknown:
        yield unknown.message
