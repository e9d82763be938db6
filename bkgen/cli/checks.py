"""`bkgen upload --wait-for-checks NAME`: GPU work waits for what is cheap."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bkgen.build import Build
from bkgen.cli.facts import here
from bkgen.errors import UsageError, UserError
from bkgen.github import GitHub, Patience, wait

_SEPARATOR = r",(?!\s|[^()]*\))"
"""Many a check's name holds a comma: in the brackets of a matrix job, or with a blank behind it."""


def wait_for_checks(
    build: Build, checks: tuple[str, ...], environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Returns when the named checks of the head commit are green on GitHub.

    `checks` as the flag takes them: one name each, or several with commas between them. UserError for a
    failed check, EnvironmentFailure when the time is up or GitHub cannot be reached.
    """
    names = list(dict.fromkeys(name.strip() for given in checks for name in re.split(_SEPARATOR, given)))
    if not all(names):
        raise UsageError("--wait-for-checks has an empty name", "name a check, as GitHub calls it")
    _refuse_own(names, environ)
    patience = Patience.from_environ(environ)
    github = GitHub.from_environ(environ, build.repository)
    commit = _head(build, environ)
    say(
        f"waiting for GitHub checks of {github.repository} at {commit[:12]}: {', '.join(names)} "
        f"(at most {patience.total / 60:g} min{'' if github.token else '; no GITHUB_TOKEN is set'})"
    )
    wait(lambda: github.checks(commit), names, patience, say)


def _refuse_own(names: list[str], environ: Mapping[str, str]) -> None:
    slug = environ.get("BUILDKITE_PIPELINE_SLUG", "").strip()
    for name in names:
        if slug and name in {f"buildkite/{slug}", f"buildkite/{slug}/pr"}:
            raise UserError.single(
                "checks-own",
                f"'{name}' is the status of this very build: it would wait for itself",
                "name a check that something else reports",
            )


def _head(build: Build, environ: Mapping[str, str]) -> str:
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", build.commit):
        return build.commit
    from bkgen.git import Repository

    head = Repository.open(here(), environ=environ).head()
    if head is None:
        raise UserError.single(
            "checks-commit", "there is no commit whose checks could be green", "commit and push first"
        )
    return head
