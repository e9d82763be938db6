"""All checks of one repository, in order, with nothing held back by what an earlier one found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bkgen.check.commands import Named
from bkgen.check.durations import duration_problems
from bkgen.check.emitted import Emitted, emit_everything
from bkgen.check.files import Disk, Listing, list_files
from bkgen.check.inner_waits import wait_problems
from bkgen.check.names import unused_names
from bkgen.check.patterns import PatternList, forgotten_files, hidden_suites, lists_of, pattern_problems
from bkgen.check.python_files import python_problems
from bkgen.check.reach import reach_problems
from bkgen.check.scripts import script_problems, scripts_of
from bkgen.check.silence import Ownership, kept, silence_problems
from bkgen.check.tables import directory_problems, read_table, table_problems
from bkgen.config.load import SETTINGS_FILE, Reading, read_configuration
from bkgen.config.trees import WorkTree
from bkgen.errors import Diagnostic, Position, UserError, in_reading_order
from bkgen.spec.cases import FILE
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite


@dataclass(frozen=True, slots=True)
class Checked:
    """How much was looked at."""

    suites: int
    steps: int
    pods: int
    scripts: int
    patterns: int
    cases: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, in reading order, and how much was looked at."""

    diagnostics: tuple[Diagnostic, ...]
    silenced: int
    checked: Checked

    @property
    def errors(self) -> int:
        """How many errors."""
        return sum(one.severity == "error" for one in self.diagnostics)

    @property
    def warnings(self) -> int:
        """How many warnings that nobody silenced."""
        return len(self.diagnostics) - self.errors

    def by_file(self) -> dict[str, list[Diagnostic]]:
        """The diagnostics of each file, files in order."""
        files: dict[str, list[Diagnostic]] = {}
        for one in self.diagnostics:
            files.setdefault(one.position.file if one.position else "", []).append(one)
        return files

    def as_json(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "errors": self.errors,
            "warnings": self.warnings,
            "silenced": self.silenced,
            "checked": asdict(self.checked),
            "diagnostics": [one.as_json() for one in self.diagnostics],
        }


def check_repository(root: Path, environ: Mapping[str, str]) -> Report:
    """Every problem of the repository at `root`; git is asked in `environ`."""
    tree = WorkTree(root)
    reading = read_configuration(tree)
    listed = list_files(root, environ)
    disk = Disk(root, listed if isinstance(listed, Listing) else None)
    scripts = scripts_of(reading.suites, reading.unread, disk)
    found = list(reading.problems)
    found += script_problems(scripts, reading.suites, reading.unread, disk)
    directories = (*(suite.directory for suite in reading.suites), *reading.unread)
    found += python_problems(directories, scripts, disk)
    found += duration_problems(reading.suites, disk)
    settings = reading.settings
    lists = lists_of(reading.suites, settings, reading.settings_source)
    found += _patterns(reading, listed, lists)
    emitted, cases = None, 0
    if settings is None:
        found.append(_skipped("pods, policy and path tables", SETTINGS_FILE))
    else:
        emitted = _emitted(reading, settings)
        found += emitted.problems
        found += _with_plan(reading, settings, emitted, scripts, disk)
        table, cases = _table(tree, disk, reading, settings, emitted)
        found += table
    diagnostics, silenced = _after_silence(found, reading, scripts, emitted, disk)
    checked = Checked(
        len(reading.suites),
        emitted.steps if emitted else 0,
        emitted.pods if emitted else 0,
        len(scripts),
        sum(len(one.patterns) for one in lists),
        cases,
    )
    return Report(diagnostics, silenced, checked)


def _faulty(reading: Reading) -> set[str]:
    return {one.position.file for one in reading.problems if one.severity == "error" and one.position}


def _emitted(reading: Reading, settings: Settings) -> Emitted:
    faulty = _faulty(reading)
    files = faulty & {suite.source.file for suite in reading.suites}
    buildable = SETTINGS_FILE not in faulty
    return emit_everything(reading.suites, settings, reading.settings_source, files, buildable=buildable)


def _patterns(reading: Reading, listed: Listing | str, lists: list[PatternList]) -> Iterator[Diagnostic]:
    if isinstance(listed, str):
        hint = "run check in a git checkout; everything else was looked at"
        yield Diagnostic(
            "check-no-git", f"patterns were held against no files: {listed}", hint, severity="warning"
        )
        return
    settings = reading.settings or Settings()
    yield from pattern_problems(lists, listed, settings)
    if reading.settings is not None and not reading.unread:
        yield from forgotten_files(reading.suites, listed, settings, reading.settings_source)
        yield from hidden_suites(reading.suites, listed, settings)


def _with_plan(
    reading: Reading, settings: Settings, emitted: Emitted, scripts: Mapping[str, list[Named]], disk: Disk
) -> Iterator[Diagnostic]:
    complete = not reading.unread
    yield from reach_problems(reading.suites, settings, reading.settings_source, complete=complete)
    if emitted.plan is None:
        return
    yield from wait_problems(scripts, emitted.plan, settings, disk)
    if complete and emitted.whole:
        yield from unused_names(emitted.plan, settings, reading.settings_source)


def _table(
    tree: WorkTree, disk: Disk, reading: Reading, settings: Settings, emitted: Emitted
) -> tuple[list[Diagnostic], int]:
    path = f"{settings.tests_dir}/{FILE}"
    try:
        table = read_table(tree, settings.tests_dir)
    except UserError as error:
        return list(error.diagnostics), 0
    if table is None:
        return [], 0
    document, cases = table
    directories = list(directory_problems(document, cases, tree, disk))
    if reading.suites and (
        emitted.plan is None or not _all_planned(emitted, reading.suites, _faulty(reading))
    ):
        return [*directories, _skipped("the cases of this table", path)], 0
    found = table_problems(document, cases, reading.suites, reading.unread, settings)
    return [*directories, *found], len(cases)


def _all_planned(emitted: Emitted, suites: Iterable[Suite], faulty: set[str]) -> bool:
    planned = {one.suite.name for one in emitted.plan.suites} if emitted.plan else set()
    return all(suite.name in planned or suite.source.file in faulty for suite in suites)


def _skipped(what: str, file: str) -> Diagnostic:
    return Diagnostic(
        "check-skipped",
        f"{what} could not be checked",
        "mend the errors that check reports first",
        Position(file),
        severity="warning",
    )


def _after_silence(
    found: list[Diagnostic],
    reading: Reading,
    scripts: Mapping[str, list[Named]],
    emitted: Emitted | None,
    disk: Disk,
) -> tuple[tuple[Diagnostic, ...], int]:
    suites = {suite.name: suite for suite in reading.suites}
    shared = {
        path: frozenset(one.command.suite.name for one in named) for path, named in scripts.items() if named
    }
    ownership = Ownership(suites, shared)
    ordered = in_reading_order(found)
    pairs = list(kept(ordered, ownership))
    examined = {item.suite for item in emitted.pipeline.items} if emitted else set()
    unexamined = frozenset(suites) - examined if disk.listing else frozenset(suites)
    silences = silence_problems(suites.values(), ordered, ownership, unexamined)
    left = in_reading_order([*(one for one, silent in pairs if not silent), *silences])
    return left, sum(silent for _, silent in pairs)
