"""The facts that Buildkite tells about this run, read once at the command line's edge.

Source of the rules: Buildkite's documented job environment (`BUILDKITE_*`).
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from bkgen.errors import UserError

Source = Literal["webhook", "api", "ui", "trigger_job", "schedule", "local"]
SOURCES: tuple[Source, ...] = ("webhook", "api", "ui", "trigger_job", "schedule", "local")
"""`local` is bkgen's own word for a run outside Buildkite."""

_TRUE = frozenset({"true", "1", "yes", "on"})


class Build(NamedTuple):
    """One build. Absent facts are None or empty; nothing in here is the text `false`."""

    source: Source = "local"
    branch: str = ""
    commit: str = "HEAD"
    tag: str | None = None
    pull_request: int | None = None
    base_branch: str | None = None
    default_branch: str | None = None
    labels: tuple[str, ...] = ()
    is_draft: bool = False
    is_fork: bool = False
    repository: str | None = None
    pull_request_repository: str | None = None
    merge_queue_base_commit: str | None = None
    merge_queue_base_branch: str | None = None
    retry_count: int = 0
    build_id: str | None = None
    job_id: str | None = None
    step_key: str | None = None
    cadence: str | None = None
    only: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Not inside Buildkite."""
        return self.source == "local"

    @property
    def is_merge_queue(self) -> bool:
        """A build for a merge queue's group."""
        return self.merge_queue_base_commit is not None or self.branch.startswith("gh-readonly-queue/")

    @property
    def is_scheduled(self) -> bool:
        """Started by a schedule of Buildkite's."""
        return self.source == "schedule"

    @property
    def is_push(self) -> bool:
        """A push to a branch: not for a pull request, a tag or a merge queue, not started by a person."""
        return (
            self.source == "webhook"
            and self.pull_request is None
            and self.tag is None
            and not self.is_merge_queue
        )

    @property
    def is_by_hand(self) -> bool:
        """Started by a person, the API or another pipeline, outside a pull request and a merge queue."""
        return (
            self.source in {"ui", "api", "trigger_job"}
            and self.pull_request is None
            and not self.is_merge_queue
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Build":
        """The build described by `BUILDKITE_*`, or a local one where `BUILDKITE` is not set.

        Raises UserError for a `BUILDKITE_SOURCE` or `BUILDKITE_PULL_REQUEST` that nobody knows.
        """
        if not environ.get("BUILDKITE") and not environ.get("BUILDKITE_BUILD_ID"):
            return cls(cadence=_text(environ, "BKGEN_CADENCE"), only=_tokens(environ.get("BKGEN_ONLY", "")))
        repository = _text(environ, "BUILDKITE_REPO")
        pr_repository = _text(environ, "BUILDKITE_PULL_REQUEST_REPO")
        pull_request = _pull_request(environ.get("BUILDKITE_PULL_REQUEST", "").strip())
        branch = environ.get("BUILDKITE_BRANCH", "")
        return cls(
            source=_source(environ.get("BUILDKITE_SOURCE", "").strip() or "webhook"),
            branch=branch,
            commit=_text(environ, "BUILDKITE_COMMIT") or "HEAD",
            tag=_text(environ, "BUILDKITE_TAG"),
            pull_request=pull_request,
            base_branch=_text(environ, "BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
            default_branch=_text(environ, "BUILDKITE_PIPELINE_DEFAULT_BRANCH"),
            labels=_tokens(environ.get("BUILDKITE_PULL_REQUEST_LABELS", "")),
            is_draft=environ.get("BUILDKITE_PULL_REQUEST_DRAFT", "").lower() in _TRUE,
            is_fork=_is_fork(branch, repository, pr_repository if pull_request is not None else None),
            repository=repository,
            pull_request_repository=pr_repository,
            merge_queue_base_commit=_text(environ, "BUILDKITE_MERGE_QUEUE_BASE_COMMIT"),
            merge_queue_base_branch=_text(environ, "BUILDKITE_MERGE_QUEUE_BASE_BRANCH"),
            retry_count=_number(environ.get("BUILDKITE_RETRY_COUNT", "0")) or 0,
            build_id=_text(environ, "BUILDKITE_BUILD_ID"),
            job_id=_text(environ, "BUILDKITE_JOB_ID"),
            step_key=_text(environ, "BUILDKITE_STEP_KEY"),
            cadence=_text(environ, "BKGEN_CADENCE"),
            only=_tokens(environ.get("BKGEN_ONLY", "")),
        )


def _text(environ: Mapping[str, str], name: str) -> str | None:
    value = environ.get(name, "").strip()
    return value or None


def _tokens(text: str) -> tuple[str, ...]:
    trimmed = (token.strip() for token in text.split(","))
    return tuple(dict.fromkeys(token for token in trimmed if token))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _pull_request(text: str) -> int | None:
    number = _number(text)
    if number is None and text not in {"", "false"}:
        # To take it for none would compare one commit only, and trust what may be a fork.
        raise UserError.single(
            "build-pull-request",
            f"BUILDKITE_PULL_REQUEST is '{text}', which is no number",
            "it is a pull request's number, or false",
        )
    return number


def _source(text: str) -> Source:
    for source in SOURCES:
        if text == source:
            return source
    raise UserError.single(
        "build-source",
        f"BUILDKITE_SOURCE is '{text}', which no rule knows",
        f"it is one of {', '.join(SOURCES)}",
    )


def normalise_repository(url: str) -> str:
    """`host/owner/name` in small letters, whichever form of URL git or Buildkite uses for it."""
    text = url.strip().removesuffix("/").removesuffix(".git")
    scp = re.fullmatch(r"(?:[^@/]+@)?([^:/]+):(?!//)(.+)", text)
    if scp:
        text = f"{scp[1]}/{scp[2]}"
    else:
        text = re.sub(r"^[a-z+]+://(?:[^@/]+@)?", "", text, flags=re.IGNORECASE)
        text = re.sub(r"^([^/:]+):[0-9]+/", r"\1/", text)
    return text.strip("/").casefold()


def _is_fork(branch: str, repository: str | None, pr_repository: str | None) -> bool:
    # Buildkite names a fork's branch `owner:branch`; a colon is not legal in a branch of one's own.
    if ":" in branch:
        return True
    if repository is None or pr_repository is None:
        return False
    return normalise_repository(repository) != normalise_repository(pr_repository)
