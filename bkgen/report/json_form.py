"""The plan for programs."""

from __future__ import annotations

from typing import Any

from bkgen.changes import ChangeSet, ChangesNotAsked, UnknownChanges
from bkgen.errors import Diagnostic
from bkgen.plan.planned import Plan, PlannedStep, PlannedSuite
from bkgen.report.figures import figures


def plan_json(plan: Plan, diagnostics: tuple[Diagnostic, ...] = ()) -> dict[str, Any]:
    """Everything that was decided, with rule, reason, evidence and remedy for each suite and step."""
    facts, total = plan.facts, figures(plan)
    return {
        "build": {
            "source": facts.build.source,
            "branch": facts.build.branch,
            "pull_request": facts.build.pull_request,
            "labels": list(facts.build.labels),
            "is_fork": facts.build.is_fork,
        },
        "policy": {
            "cadence": facts.policy.cadence,
            "labels": sorted(facts.policy.labels),
            "requested": sorted(facts.policy.requested),
            "scope": facts.policy.scope,
            "reason": facts.policy.reason,
        },
        "changes": _changes(plan),
        "unknown_labels": [{"label": u.label, "nearest": u.nearest} for u in facts.policy.unknown],
        "warnings": [*facts.warnings, *(str(d) for d in diagnostics if d.severity == "warning")],
        "suites": [_suite(planned) for planned in plan.suites],
        "totals": {
            "suites": total.suites,
            "skipped": total.skipped,
            "steps": total.steps,
            "jobs": total.jobs,
            "gpu_minutes": total.gpu_minutes,
            "gpu_minutes_saved": total.gpu_minutes_saved,
            "longest_path_minutes": total.longest_path_minutes,
        },
    }


def _changes(plan: Plan) -> dict[str, Any]:
    changes = plan.facts.changes
    if isinstance(changes, ChangeSet):
        return {
            "known": True,
            "base": changes.base,
            "head": changes.head,
            "description": changes.description,
            "files": [
                {"path": file.shown, "status": file.status, "trivial": file.path in plan.facts.trivial}
                for file in changes.files
            ],
        }
    kind: UnknownChanges | ChangesNotAsked = changes
    return {"known": False, "asked": isinstance(kind, UnknownChanges), "reason": kind.reason}


def _suite(planned: PlannedSuite) -> dict[str, Any]:
    return {
        "suite": planned.suite.name,
        "key": planned.key,
        "decision": planned.decision.as_json(),
        "steps": [_step(step) for step in planned.steps],
    }


def _step(step: PlannedStep) -> dict[str, Any]:
    return {
        "key": step.key,
        "kind": type(step.step).__name__.removesuffix("Step").lower(),
        "mirror": step.mirror,
        "decision": step.decision.as_json(),
        "depends_on": list(step.needs),
        "jobs": step.jobs,
        "gpus": step.gpus,
        "expected_minutes": step.minutes,
    }
