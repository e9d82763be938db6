"""Waits inside a script that outlast the step around it: it is killed before it can say why.

Source: the step's `timeout_in_minutes`; Buildkite ends the job then, logs or no logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bkgen.check.commands import Named
from bkgen.check.files import Disk
from bkgen.check.script_waits import Wait, waits
from bkgen.check.shell import Script, parse
from bkgen.errors import Diagnostic, Position
from bkgen.pipeline.steps import timeout_of
from bkgen.plan.planned import Plan
from bkgen.spec.settings import Settings

_GRACE = 60
"""Seconds before the end in which a script says what hung and saves its logs; a tenth of a short step."""


def wait_problems(
    scripts: Mapping[str, Sequence[Named]], plan: Plan, settings: Settings, disk: Disk
) -> Iterator[Diagnostic]:
    """Waits in the scripts that `plan`'s steps start, against the shortest of these steps' timeouts."""
    limits = _timeouts(plan, settings)
    for path, named in scripts.items():
        steps = {(one.command.suite.name, one.command.step_path) for one in named}
        known = [limits[step] for step in steps if step in limits]
        text = disk.text(path)
        if not known or text is None:
            continue
        minutes, key = min(known)
        script = parse(text)
        yield from _too_long(path, script, list(waits(script)), minutes, key)


def _timeouts(plan: Plan, settings: Settings) -> dict[tuple[str, object], tuple[int, str]]:
    limits: dict[tuple[str, object], tuple[int, str]] = {}
    for suite in plan.suites:
        for step in suite.steps:
            minutes = timeout_of(step, settings)
            if minutes is not None:
                place = (suite.suite.name, step.path[:-2] if step.mirror is not None else step.path)
                limits[place] = min(limits.get(place, (minutes, step.key)), (minutes, step.key))
    return limits


def _too_long(path: str, script: Script, found: list[Wait], minutes: int, key: str) -> Iterator[Diagnostic]:
    limit = minutes * 60
    latest = limit - min(_GRACE, limit // 10)
    single = [wait for wait in found if wait.seconds >= latest]
    stopped = (
        f"and the step {key} is stopped after {limit} s, of which {limit - latest} s are for telling why"
    )
    for wait in single:
        yield _warning(path, script, wait, f"'{wait.text}' may take {wait.seconds:.0f} s, {stopped}")
    certain = [wait for wait in found if wait.certain]
    total = sum(wait.seconds for wait in certain)
    if not single and total >= latest:
        message = f"the {len(certain)} waits up to here may take {total:.0f} s together, {stopped}"
        yield _warning(path, script, certain[-1], message)


def _warning(path: str, script: Script, wait: Wait, message: str) -> Diagnostic:
    hint = "wait for less, so that the script itself can say what hangs, or raise the step's timeout"
    place = Position(path, *script.place(wait.offset))
    return Diagnostic("script-inner-wait", message, hint, place, severity="warning")
