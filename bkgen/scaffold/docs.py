"""`bkgen docs`: the setup page of every suite, and the upload step's file, as they should be now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bkgen.build import Build
from bkgen.buildkite import EmittedStep
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import Configuration
from bkgen.decide.facts import Selection, gather
from bkgen.errors import Diagnostic, Position, UserError
from bkgen.generate.phases import build_pods
from bkgen.pipeline.emit import emit
from bkgen.plan.planned import PlannedSuite
from bkgen.plan.planning import make_plan
from bkgen.scaffold.files import Page, read_page
from bkgen.scaffold.sections import merged
from bkgen.scaffold.setup import FILE, asks_for_labels, setup_page
from bkgen.scaffold.upload_step import UPLOAD_FILE, profile_of, upload_pipeline
from bkgen.spec.settings import Settings
from bkgen.templates import render

_OWN = b"# Made by `bkgen docs`"
_WHOLE = ChangesNotAsked("a page shows everything")


def pages(root: Path, configuration: Configuration, names: frozenset[str] = frozenset()) -> list[Page]:
    """The pages of the named suites; without names those of all, and the upload step's file.

    UserError, with every place, for a page whose markers are broken, and for files that are somebody else's.
    """
    problems: list[Diagnostic] = []
    found = [_tried(root, path, fresh, problems) for path, fresh in _texts(configuration, names)]
    if problems:
        raise UserError(problems)
    return [page for page in found if page is not None]


def _tried(root: Path, path: str, fresh: str, problems: list[Diagnostic]) -> Page | None:
    try:
        return _page(root, path, fresh)
    except UserError as error:
        problems += error.diagnostics
        return None


def _texts(configuration: Configuration, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    settings = configuration.settings
    for name, text in setup_texts(configuration, names).items():
        yield f"{settings.tests_dir}/{name}/{FILE}", text
    if not names:
        yield f"{settings.tests_dir}/{UPLOAD_FILE}", upload_text(settings)


def setup_texts(configuration: Configuration, names: Iterable[str] = ()) -> dict[str, str]:
    """By suite, the page as it is for a suite that has none; of the named ones, or of all."""
    wanted = frozenset(names)
    every = frozenset(suite.name for suite in configuration.suites)
    settings = configuration.settings
    selection = Selection(every, forced=True)
    facts = gather(Build(), settings, configuration.suites, _WHOLE, selection)
    plan = make_plan(configuration.suites, facts)
    emitted: dict[str, list[EmittedStep]] = {}
    for item in emit(plan, build_pods(plan, settings), settings).items:
        emitted.setdefault(item.suite, []).extend(item.steps)
    chosen: list[PlannedSuite] = [one for one in plan.suites if not wanted or one.suite.name in wanted]
    ask = any(asks_for_labels(suite, settings) for suite in configuration.suites)
    return {
        one.suite.name: setup_page(one, emitted.get(one.suite.name, ()), settings, others_ask=ask)
        for one in sorted(chosen, key=lambda planned: planned.suite.name)
    }


def upload_text(settings: Settings) -> str:
    """The file of the upload step."""
    return render(
        "buildkite-pipeline.yml.j2",
        settings=settings,
        profile=profile_of(settings),
        default=settings.upload_profile is None,
        pipeline=upload_pipeline(settings),
    )


def _page(root: Path, path: str, fresh: str) -> Page:
    before = read_page(root, path)
    if before is None:
        return Page(path, None, fresh.encode())
    if not path.endswith(FILE):
        if not before.startswith(_OWN):
            raise UserError.single(
                "docs-foreign",
                "this file is not one that bkgen wrote",
                "move it away, or delete it; bkgen writes its own here",
                position=Position(path),
            )
        return Page(path, before, fresh.encode())
    # Bytes that are no UTF-8 are the author's, too.
    text = before.decode("utf-8", "surrogateescape")
    return Page(path, before, merged(text, fresh, path).encode("utf-8", "surrogateescape"))
