"""What GitHub says of a commit, as values: check runs and commit statuses under one name.

Source of the rules: GitHub's REST API. A check run is green when it ended with `success`, `neutral` or
`skipped`, the three that a protected branch takes; a commit status when it is `success`. A conclusion that
nobody knows yet is not green.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bkgen.changes import printable
from bkgen.errors import EnvironmentFailure, nearest

State = Literal["green", "pending", "failed", "absent"]

_GREEN = frozenset({"success", "neutral", "skipped"})
_STATUS: dict[str, State] = {"success": "green", "pending": "pending"}
_LONGEST_LINK = 500


@dataclass(frozen=True, slots=True)
class Check:
    """One check run or commit status. `said` is GitHub's own word; `source` tells who reported it.

    A higher `order` is newer, among checks of one source and name.
    """

    name: str
    source: str
    state: State
    said: str
    link: str
    order: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a named check stands. `meant` is a name that exists and is near, where this one does not."""

    name: str
    state: State
    said: str = ""
    link: str = ""
    meant: str | None = None

    def __str__(self) -> str:
        if self.state == "absent":
            hint = f" (did you mean '{printable(self.meant)}'?)" if self.meant else ""
            return f"{self.name}: not there yet{hint}"
        return f"{self.name}: {self.state}" + (f" ({self.said})" if self.state != "green" else "")


def check_runs(items: Iterable[Any]) -> list[Check]:
    """The checks of GitHub's list of check runs. EnvironmentFailure for what is no such list."""
    return [_check_run(item) for item in items]


def statuses(items: Iterable[Any]) -> list[Check]:
    """The checks of GitHub's list of commit statuses. EnvironmentFailure for what is no such list."""
    return [_status(item) for item in items]


def _check_run(item: Any) -> Check:
    status, conclusion = _text(item, "status"), _text(item, "conclusion", optional=True)
    app = item.get("app")
    state: State = "green" if conclusion in _GREEN else "failed"
    if status != "completed":
        state = "pending"
    return Check(
        name=_text(item, "name"),
        source=f"check run of {_text(app, 'slug', optional=True) if isinstance(app, Mapping) else ''}",
        state=state,
        said=(conclusion or "no conclusion") if status == "completed" else status,
        link=_link(item, "html_url") or _link(item, "details_url"),
        order=_number(item, "id"),
    )


def _status(item: Any) -> Check:
    said = _text(item, "state")
    name = _text(item, "context")
    state = _STATUS.get(said, "failed")
    return Check(name, "commit status", state, said, _link(item, "target_url"), _number(item, "id"))


def _text(item: Any, key: str, *, optional: bool = False) -> str:
    value = item.get(key) if isinstance(item, Mapping) else None
    if isinstance(value, str):
        return value
    if optional and value is None:
        return ""
    raise EnvironmentFailure(
        f"GitHub's answer is no list of checks: '{key}' is missing", "is GITHUB_API_URL right?"
    )


def _link(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return printable(value[:_LONGEST_LINK]) if isinstance(value, str) else ""


def _number(item: Mapping[str, Any], key: str) -> int:
    value = item.get(key)
    return value if isinstance(value, int) else 0


def standing(name: str, checks: Iterable[Check]) -> Standing:
    """How the check `name` stands: failed if one source says so, else pending, else green.

    Of several runs with one name from one source the newest counts: a check is run again under its name.
    """
    known = list(checks)
    newest: dict[str, Check] = {}
    for check in known:
        if check.name == name and (check.source not in newest or newest[check.source].order < check.order):
            newest[check.source] = check
    for state in ("failed", "pending", "green"):
        for check in newest.values():
            if check.state == state:
                return Standing(name, state, printable(check.said), check.link)
    return Standing(name, "absent", meant=_meant(name, {check.name for check in known}))


def _meant(name: str, known: set[str]) -> str | None:
    # The page of a pull request shows "Workflow / job (event)" for a check whose name is "job".
    job = re.sub(r" \([a-z_]+\)\Z", "", name.rsplit(" / ", 1)[-1]).strip()
    return job if job in known else nearest(name, known)
