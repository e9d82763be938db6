"""`paths.test.yml`: every case put to the real decision, every surprise with the rule that decided it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from pydantic import ValidationError

from bkgen.build import Build
from bkgen.changes import ChangedFile, ChangeSet
from bkgen.check.files import Disk
from bkgen.config.faults import diagnostics
from bkgen.config.trees import Tree
from bkgen.decide.decision import Decision
from bkgen.decide.facts import Selection, gather
from bkgen.errors import Diagnostic, UserError, did_you_mean
from bkgen.plan.planned import Plan
from bkgen.plan.planning import make_plan
from bkgen.scalars import described
from bkgen.spec.cases import FILE, PathCase, PathTable
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite
from bkgen.yamlio import Document, load


def build_of(case: PathCase) -> Build:
    """The build that a case speaks of: as `bkgen plan` sees it, unless it names another source."""
    is_pull_request = case.fork or (case.source == "webhook" and bool(case.labels))
    return Build(
        source=case.source,
        branch=case.branch,
        labels=case.labels,
        cadence=case.cadence,
        is_fork=case.fork,
        pull_request=1 if is_pull_request else None,
    )


def changes_of(case: PathCase) -> ChangeSet:
    """The files that a case lists, as modified ones."""
    files = tuple(ChangedFile(path, "M") for path in dict.fromkeys(case.changed))
    return ChangeSet(files, FILE, FILE, f"the files of a case of {FILE}")


def read_table(tree: Tree, tests_dir: str) -> tuple[Document, tuple[PathCase, ...]] | None:
    """The table and its cases, or None where there is none. UserError with all its mistakes."""
    path = f"{tests_dir}/{FILE}"
    data = tree.read(path)
    if data is None:
        return None
    document = load(data, path)
    if document.value is None:
        return document, ()
    if not isinstance(document.value, list):
        raise UserError.single(
            "spec-value",
            f"the file must be a list of cases, not {described(document.value)}",
            "begin each case with '- changed: […]'",
            position=document.position(()),
        )
    try:
        return document, PathTable.model_validate(document.value).root
    except ValidationError as error:
        raise UserError(diagnostics(error, document, PathTable)) from None


def directory_problems(
    document: Document, cases: Sequence[PathCase], tree: Tree, disk: Disk
) -> Iterator[Diagnostic]:
    """Directories among the changed files: git names the files in them, so patterns would tell otherwise."""
    for index, case in enumerate(cases):
        for place, path in enumerate(case.changed):
            inside = disk.listing.below(path) if disk.listing else tree.entries(path)
            if inside:
                message = f"'{path}' is a directory, and what changes is a file"
                hint = "name a file in it; one that is not there yet will do"
                yield _fault(document, (index, "changed", place), case, "case-directory", message, hint)


def table_problems(
    document: Document,
    cases: Sequence[PathCase],
    suites: Sequence[Suite],
    unread: Sequence[str],
    settings: Settings,
) -> Iterator[Diagnostic]:
    """The cases whose outcome is another than they say."""
    unknown = {PurePosixPath(directory).name for directory in unread}
    for index, case in enumerate(cases):
        try:
            facts = gather(build_of(case), settings, suites, changes_of(case), Selection())
        except UserError as error:
            for fault in error.diagnostics:
                yield _fault(document, (index, "cadence"), case, fault.code, fault.message, fault.hint)
            continue
        for label in facts.policy.unknown:
            message = f"the label '{label.label}' selects nothing"
            hint = f"did you mean '{label.nearest}'?" if label.nearest else "declare it in policy.labels"
            yield _fault(document, (index, "labels"), case, "case-unknown-label", message, hint).as_warning()
        yield from _outcome(document, index, case, make_plan(suites, facts), unknown)


def _outcome(
    document: Document, index: int, case: PathCase, plan: Plan, unread: set[str]
) -> Iterator[Diagnostic]:
    decisions = {planned.suite.name: planned.decision for planned in plan.suites}
    running = {name for name, decision in decisions.items() if decision.runs}
    for place, name in enumerate(case.runs):
        if name in unread or name in running:
            continue
        where = (index, "runs", place)
        if name not in decisions:
            hint = did_you_mean(name, decisions, what="suites")
            yield _fault(document, where, case, "case-unknown-suite", f"no suite is called '{name}'", hint)
        else:
            message = f"'{name}' should run, but is skipped: {_why(plan, name, decisions[name])}"
            yield _fault(document, where, case, "case-missing-suite", message, decisions[name].remedy)
    for name in sorted(running - set(case.runs)):
        message = f"'{name}' runs, and the case does not list it: {_why(plan, name, decisions[name])}"
        hint = f"add '{name}' to runs, or: {decisions[name].remedy}"
        yield _fault(document, (index, "runs"), case, "case-extra-suite", message, hint)


def _why(plan: Plan, name: str, decision: Decision) -> str:
    suite = next(planned.suite for planned in plan.suites if planned.suite.name == name)
    place = ""
    if decision.evidence.field and decision.evidence.source == suite.source.file:
        place = f", {suite.source.position(decision.evidence.field)}"
    return f"{decision.reason} (rule {decision.rule}{place})"


def _fault(
    document: Document, path: tuple[str | int, ...], case: PathCase, code: str, message: str, hint: str
) -> Diagnostic:
    named = f"case '{case.name}'" if case.name else f"case {path[0] + 1}"  # type: ignore[operator]
    return Diagnostic(code, f"{named}: {message}", hint, document.position(path, of_key=len(path) < 3))
