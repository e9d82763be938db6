"""A suite's BK_WEB_SETUP.md: how to set it up in Buildkite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bkgen.buildkite import EmittedStep
from bkgen.decide.rules import Subject
from bkgen.pipeline.steps import timeout_of
from bkgen.plan.planned import PlannedStep, PlannedSuite
from bkgen.scaffold.conditions import condition
from bkgen.scaffold.needs import needs
from bkgen.scaffold.runs import branch_patterns, cadence_labels, chosen_subjects, rows, used_labels
from bkgen.scaffold.upload_step import UPLOAD_FILE, upload_pipeline
from bkgen.spec.settings import Settings
from bkgen.spec.steps import CommandStep, TriggerStep
from bkgen.spec.suite import Suite
from bkgen.templates import render

FILE = "BK_WEB_SETUP.md"
TEMPLATE = "BK_WEB_SETUP.md.j2"


@dataclass(frozen=True, slots=True)
class Line:
    """One step in the page's table. Minutes are of one job."""

    key: str
    jobs: int
    gpus: int
    expected: float | None
    timeout: int | None
    may_fail: bool


def asks_for_labels(suite: Suite, settings: Settings) -> bool:
    """A label on the pull request can make a difference to the suite."""
    chosen = chosen_subjects(suite).values()
    return bool(used_labels(chosen, settings) or cadence_labels(chosen, settings))


def setup_page(
    planned: PlannedSuite, emitted: Iterable[EmittedStep], settings: Settings, *, others_ask: bool
) -> str:
    """The page as it is for a suite that has none yet, markers included.

    `planned` and `emitted` are the suite and its steps with everything selected; `others_ask` says that some
    suite of the repository asks for labels.
    """
    suite = planned.suite
    work = [step for step in planned.steps if step.is_work]
    chosen = chosen_subjects(suite)
    prefix = settings.policy.label_prefix
    labels = [prefix + label for label in used_labels(chosen.values(), settings)]
    runs = rows(suite, settings)
    return render(
        TEMPLATE,
        suite=suite,
        settings=settings,
        steps=[_line(step, settings) for step in work],
        jobs=sum(step.jobs for step in work),
        gpu_minutes=sum(step.gpu_minutes for step in work),
        unmeasured=sum(step.minutes is None and step.gpus > 0 for step in work),
        needs=needs(_in_order(work, emitted)),
        runs=runs,
        runs_by_itself=runs[0].admitted != "nothing",
        others_ask=others_ask,
        labels=[*labels, *cadence_labels(chosen.values(), settings)],
        push_branches=branch_patterns(chosen.values(), settings),
        forks=_for_forks(chosen, settings),
        paths=suite.spec.when.paths,
        buildkite_decides=[
            step.key for step in work if step.step.if_ or getattr(step.step, "branches", None)
        ],
        own_paths=_with_own_paths(chosen),
        condition=condition(suite.spec.when, settings.policy),
        pipeline=upload_pipeline(settings, suite.name),
        upload_file=f"{settings.tests_dir}/{UPLOAD_FILE}",
    )


def _line(step: PlannedStep, settings: Settings) -> Line:
    return Line(step.key, step.jobs, step.gpus, step.minutes, timeout_of(step, settings), _may_fail(step))


def _in_order(work: Iterable[PlannedStep], emitted: Iterable[EmittedStep]) -> list[Mapping[str, Any]]:
    # What is emitted is sorted by cost; a page follows the file.
    bodies = {step.key: step.body for step in emitted}
    return [bodies[step.key] for step in work if step.key in bodies]


def _may_fail(step: PlannedStep) -> bool:
    mirror = step.mirror_spec
    if mirror is not None and "soft_fail" in mirror.model_fields_set:
        return bool(mirror.soft_fail)
    return isinstance(step.step, (CommandStep, TriggerStep)) and bool(step.step.soft_fail)


def _for_forks(chosen: Mapping[str, Subject], settings: Settings) -> bool:
    """Some step may run for a fork's pull request."""
    words = ([when.forks for _, when in subject.chain] for subject in chosen.values())
    return any(all(settings.forks.run if word is None else word for word in chain) for chain in words)


def _with_own_paths(chosen: Mapping[str, Subject]) -> list[str]:
    return [key for key, subject in chosen.items() if any(when.paths for _, when in subject.chain[1:])]
