"""Reads `bkgen.yml` and every suite; all mistakes of all files come out together."""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from bkgen.config.faults import diagnostics
from bkgen.config.trees import DIRECTORY, KINDS, SYMLINK, Tree, no_file
from bkgen.config.whereabouts import no_suites, tests_dir_problems
from bkgen.errors import Diagnostic, Position, UserError
from bkgen.scalars import described
from bkgen.spec.references import setting_problems, suite_problems
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite, SuiteSpec
from bkgen.yamlio import Document, load

SETTINGS_FILE = "bkgen.yml"
TESTS_DIRECTORY = "k3_tests"
"""Where suites are looked for while the settings cannot be read."""
M = TypeVar("M", bound=BaseModel)
_SUITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}\Z")
SUITE_NAME_RULE = "use letters, digits, '_', '.', '-', sixty at most"


class Configuration(NamedTuple):
    """What a repository says: its settings with their file, and its suites by name.

    `warnings` are what is doubtful in it; what is wrong never comes this far.
    """

    settings: Settings
    settings_source: Document
    suites: tuple[Suite, ...]
    warnings: tuple[Diagnostic, ...] = ()


class Reading(NamedTuple):
    """All that could be read, with every problem met on the way.

    `settings` is None where `bkgen.yml` is wrong; `unread` are the directories of suites that are.
    """

    settings: Settings | None
    settings_source: Document
    suites: tuple[Suite, ...]
    unread: tuple[str, ...]
    problems: tuple[Diagnostic, ...]


def is_suite_name(name: str) -> bool:
    """A directory of this name below `tests_dir` may be a suite."""
    return _SUITE_NAME.match(name) is not None


def load_configuration(tree: Tree) -> Configuration:
    """Everything below `tree`. UserError with all problems of settings and suites at once."""
    reading = read_configuration(tree)
    if reading.settings is None or any(problem.severity == "error" for problem in reading.problems):
        raise UserError(reading.problems)
    warnings = reading.problems
    if not reading.suites and not any(problem.code == "settings-no-suites" for problem in warnings):
        directory = reading.settings.tests_dir
        warnings = (*warnings, no_suites(f"there is no suite in {directory}", Position(directory)))
    return Configuration(reading.settings, reading.settings_source, reading.suites, warnings)


def read_configuration(tree: Tree) -> Reading:
    """As much of what lies below `tree` as can be read. Never raises for a mistake of the user's."""
    problems: list[Diagnostic] = []
    settings, source = _settings(tree, problems)
    suites, unread = _suites(tree, settings.tests_dir if settings else TESTS_DIRECTORY, problems)
    if settings:
        found = bool(suites or unread)
        problems += tests_dir_problems(tree, settings.tests_dir, source, found=found)
        problems += setting_problems(settings, source)
        for suite in suites:
            problems += suite_problems(suite, settings)
    return Reading(settings, source, suites, unread, tuple(problems))


def load_settings(tree: Tree) -> Settings:
    """The settings alone. UserError with their problems."""
    problems: list[Diagnostic] = []
    settings, _ = _settings(tree, problems)
    if settings is None:
        raise UserError(problems)
    return settings


def _settings(tree: Tree, problems: list[Diagnostic]) -> tuple[Settings | None, Document]:
    empty = Document(SETTINGS_FILE, "", {})
    try:
        data = tree.read(SETTINGS_FILE)
        if data is None:
            return Settings(), empty
        document = load(data, SETTINGS_FILE)
        value = {} if document.value is None else _without_extensions(document.value)
        return _validated(Settings, value, document), document
    except UserError as error:
        problems += error.diagnostics
        return None, empty


def _without_extensions(value: object) -> object:
    if isinstance(value, dict) and any(str(key).startswith("x-") for key in value):
        return {key: item for key, item in value.items() if not str(key).startswith("x-")}
    return value


def _validated(model: type[M], value: object, document: Document) -> M:
    if not isinstance(value, dict):
        raise UserError.single(
            "spec-value",
            f"the file must be a map of keys, not {described(value)}",
            "put 'steps:' above the list" if isinstance(value, list) else "start with 'key: value' lines",
            position=document.position(()),
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise UserError(diagnostics(error, document, model)) from None


def _suites(
    tree: Tree, tests_dir: str, problems: list[Diagnostic]
) -> tuple[tuple[Suite, ...], tuple[str, ...]]:
    suites = []
    unread = []
    try:
        found = _directory(tree, tests_dir)
    except UserError as error:
        problems += error.diagnostics
        return (), (tests_dir,)
    for name, mode in found.items():
        if name.startswith((".", "_")) or mode not in {DIRECTORY, SYMLINK}:
            continue
        directory = f"{tests_dir}/{name}"
        try:
            suite = _suite(tree, name, mode, directory)
        except UserError as error:
            problems += error.diagnostics
            unread.append(directory)
        else:
            if suite is not None:
                suites.append(suite)
    return tuple(suites), tuple(unread)


def _directory(tree: Tree, path: str) -> dict[str, str]:
    # What a link leads to lies elsewhere for git: a change there would never be a change of the suite.
    parent = ""
    for part in path.split("/"):
        place = f"{parent}/{part}" if parent else part
        mode = tree.entries(parent).get(part, DIRECTORY)
        if mode != DIRECTORY:
            raise UserError.single(
                "suite-symlink",
                f"the directory of the suites is {KINDS.get(mode, 'a file')}",
                "make it a directory, or mend tests_dir in bkgen.yml",
                position=Position(place),
            )
        parent = place
    return tree.entries(path)


def _suite(tree: Tree, name: str, mode: str, directory: str) -> Suite | None:
    if mode == SYMLINK:
        raise UserError.single(
            "suite-symlink",
            "a suite cannot be a symlink",
            "make it a directory",
            position=Position(directory),
        )
    entries = tree.entries(directory)
    if not entries:
        return None
    problems = list(_directory_problems(name, directory, entries))
    path = f"{directory}/pipeline.yml"
    if entries.get("pipeline.yml", DIRECTORY) in KINDS:
        raise UserError(problems)
    try:
        suite = _parsed(name, directory, load(tree.read(path) or b"", path))
    except UserError as error:
        raise UserError([*problems, *error.diagnostics]) from None
    if problems:
        raise UserError(problems)
    return suite


def _directory_problems(name: str, directory: str, entries: dict[str, str]) -> Iterable[Diagnostic]:
    if not is_suite_name(name):
        yield Diagnostic(
            "suite-name",
            f"'{name}' cannot be a suite's name",
            f"{SUITE_NAME_RULE}, or start it with '_' if it is not a suite",
            Position(directory),
        )
    for file in ("pipeline.yml", "run.sh"):
        if file not in entries:
            yield Diagnostic(
                "suite-incomplete",
                f"the suite has no {file}",
                f"add {file}, or start the directory's name with '_' if it is not a suite",
                Position(directory, 1, 1),
            )
        elif entries[file] in KINDS:
            yield from no_file(f"{directory}/{file}", entries[file]).diagnostics


def _parsed(name: str, directory: str, document: Document) -> Suite:
    value = document.value
    if value is None:
        raise UserError.single(
            "spec-empty",
            "the file is empty",
            "write at least 'description: …', or 'steps:' with one step",
            position=Position(document.file, 1, 1),
        )
    spec = _validated(SuiteSpec, _without_extensions(value), document)
    return Suite(name, directory, spec, document)
