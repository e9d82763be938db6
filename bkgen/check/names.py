"""What `bkgen.yml` declares and nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from bkgen.errors import Diagnostic
from bkgen.plan.planned import Plan, PlannedStep
from bkgen.spec.pod import Pod
from bkgen.spec.settings import Settings
from bkgen.spec.steps import CommandStep
from bkgen.spec.suite import Located

_KINDS = (
    ("profiles", "profile", "pod.profile or mirrors"),
    ("caches", "cache", "pod.caches"),
    ("retries", "retry preset", "retry or default_retry"),
)


def unused_names(plan: Plan, settings: Settings, source: Located) -> Iterator[Diagnostic]:
    """Profiles, caches, retry presets and the scratch path that no step of any suite uses."""
    steps = [step for suite in plan.suites for step in suite.steps if isinstance(step.step, CommandStep)]
    used: dict[str, set[str | None]] = {
        "profiles": {
            settings.profile_name,
            settings.upload_profile,
            *(name for step in steps for name in _profiles(step, settings)),
        },
        "caches": {name for step in steps for name in _pod(step).caches or ()},
        "retries": {settings.default_retry, *(_retry(step) for step in steps)},
    }
    for field, what, where in _KINDS:
        if field not in settings.model_fields_set:
            continue
        for name in getattr(settings, field):
            if name not in used[field]:
                yield Diagnostic(
                    f"unused-{what.split()[0]}",
                    f"no step uses the {what} '{name}'",
                    f"name it in {where} of a suite, or remove it",
                    source.position((field, name)),
                    f"{field}.{name}",
                    "warning",
                )
    if settings.scratch is not None and not any(_pod(step).scratch for step in steps):
        yield Diagnostic(
            "unused-scratch",
            "no pod mounts the scratch path",
            "say 'scratch: /scratch' in the pod of a suite, or remove it",
            source.position(("scratch",)),
            "scratch",
            "warning",
        )


def _pod(step: PlannedStep) -> Pod:
    return step.pod if isinstance(step.pod, Pod) else Pod()


def _profiles(step: PlannedStep, settings: Settings) -> Iterator[str]:
    if step.mirror is not None:
        yield step.mirror
    elif isinstance(step.pod, Pod):
        yield step.pod.profile or settings.profile_name


def _retry(step: PlannedStep) -> str | None:
    retry = step.step.retry if isinstance(step.step, CommandStep) else None
    return retry if isinstance(retry, str) else None
