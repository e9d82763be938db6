"""Waits until named checks are green: bounded, backing off, telling how it stands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bkgen.errors import Diagnostic, EnvironmentFailure, UserError
from bkgen.github.checks import Check, Standing, standing
from bkgen.github.refusals import GitHubUnavailable

TOTAL_SECONDS = 1800.0
INTERVAL_SECONDS = 10.0
LONGEST_INTERVAL_SECONDS = 60.0
GROWTH = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, how often to ask, and how many failures in a row to bear. Times in seconds."""

    total: float = TOTAL_SECONDS
    interval: float = INTERVAL_SECONDS
    longest_interval: float = LONGEST_INTERVAL_SECONDS
    failures: int = 8

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Patience:
        """`BKGEN_CHECKS_TIMEOUT` (minutes) and `BKGEN_CHECKS_INTERVAL` (seconds). UserError for odd ones."""
        minutes = _number(environ, "BKGEN_CHECKS_TIMEOUT", "minutes", "30")
        interval = _number(environ, "BKGEN_CHECKS_INTERVAL", "seconds", "10")
        return cls(
            total=TOTAL_SECONDS if minutes is None else minutes * 60,
            interval=interval or INTERVAL_SECONDS,
            longest_interval=max(LONGEST_INTERVAL_SECONDS, interval or 0.0),
        )


def _number(environ: Mapping[str, str], name: str, unit: str, example: str) -> float | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text):
        return float(text)
    raise UserError.single(
        "checks-time", f"{name} is '{text}'", f"give a number of {unit}, for example {example}"
    )


def wait(
    ask: Callable[[], Iterable[Check]],
    names: Sequence[str],
    patience: Patience,
    say: Callable[[str], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Returns when every check of `names` is green.

    Raises UserError as soon as one has failed, and EnvironmentFailure when the time is up or `ask` (which
    raises GitHubUnavailable for what may pass) fails too often.
    """
    deadline = clock() + patience.total
    pause, failures, told = patience.interval, 0, ""
    while True:
        asked_to_wait = 0.0
        standings: list[Standing] = []
        try:
            checks = list(ask())
        except GitHubUnavailable as fault:
            failures += fault.retry_after is None
            asked_to_wait = fault.retry_after or 0.0
            if failures >= patience.failures or clock() + asked_to_wait >= deadline:
                raise
            say(f"{str(fault).splitlines()[0]}; asked again in {max(pause, asked_to_wait):.0f} s")
        else:
            failures = 0
            standings = [standing(name, checks) for name in names]
            _refuse_failed(standings)
            now = "; ".join(map(str, standings))
            if now != told:
                say(f"checks: {now}")
            told = now
            if all(one.state == "green" for one in standings):
                return
        left = deadline - clock()
        if left <= 0:
            raise _out_of_time(standings, patience)
        sleep(min(max(pause, asked_to_wait), left))
        pause = min(pause * GROWTH, patience.longest_interval)


def _refuse_failed(standings: Iterable[Standing]) -> None:
    failed = [one for one in standings if one.state == "failed"]
    if failed:
        raise UserError(
            Diagnostic(
                "check-failed",
                f"the GitHub check '{one.name}' has failed ({one.said}), so nothing was uploaded",
                f"see {one.link}" if one.link else "see the checks of the commit on GitHub",
            )
            for one in failed
        )


def _out_of_time(standings: Iterable[Standing], patience: Patience) -> EnvironmentFailure:
    open_ones = [one for one in standings if one.state != "green"]
    minutes = f"{patience.total / 60:g} min"
    absent = any(one.state == "absent" for one in open_ones)
    return EnvironmentFailure(
        f"these GitHub checks are not green after {minutes}: {'; '.join(map(str, open_ones))}",
        "a check that never came may not run for this kind of build, or has another name"
        if absent
        else "retry this step when they have ended, or allow more with BKGEN_CHECKS_TIMEOUT (minutes)",
    )
