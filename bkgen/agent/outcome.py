"""What a failed `buildkite-agent` call means: the user's to fix, or worth another try.

The agent ends with 1 for nearly every failure, so its last words decide. Their forms were read in
the source of agents 3.104.0 and 3.138.1 and are held to the real programs by tests/conformance.
"""

from __future__ import annotations

import re
import signal

from bkgen.agent.child import Finished, signal_name
from bkgen.errors import BkgenError, Diagnostic, EnvironmentFailure, UserError

OLDEST_SUPPORTED = (3, 104, 0)
"""The oldest agent that tests/conformance proves."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LOG_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]{3,4})?\s+[A-Z]+\s+|^buildkite-agent: ")
_UNKNOWN_FLAG = re.compile(r"flag provided but not defined: (-\S+)")
_UNKNOWN_COMMAND = re.compile(r'unknown subcommand "([^"]*)"')
_DUPLICATE_KEY = re.compile(r'key "([^"\n]{1,200})" has already been used', re.IGNORECASE)
_STATUS = re.compile(r"\b(?:POST|GET|PUT|DELETE) \S+: (\d{3})\b")
_SERVER_WORDS = re.compile(
    r"(?:: \d{3} [A-Z][A-Za-z ]*: |pipeline upload rejected: )(.+)\Z", re.IGNORECASE | re.DOTALL
)
_REJECTED = re.compile(r"pipeline upload rejected:", re.IGNORECASE)
_PENDING = re.compile(r"pipeline upload not yet applied:", re.IGNORECASE)
_OUTSIDE_A_JOB = re.compile(r"missing (?:job parameter|agent-access-token|job\b)", re.IGNORECASE)
_REFUSED_BY_AGENT = re.compile(
    r"refusing upload because|contains values interpolated from the following secret"
    r"|pipeline (?:parsing|interpolation) of \S+ failed|pipeline file \S+ is empty",
    re.IGNORECASE,
)
_SHELL_SIGNAL_BASE = 128


class UploadRefusedError(UserError):
    """The pipeline itself was refused, by the agent or by Buildkite; a second try would be refused, too.

    `reason` is what was said; `duplicate_keys` are the step keys that the build has already.
    """

    def __init__(self, reason: str, hint: str, duplicate_keys: tuple[str, ...] = ()) -> None:
        self.reason = reason
        self.hint = hint
        self.duplicate_keys = duplicate_keys
        super().__init__([Diagnostic("upload-refused", f"the upload was refused: {reason}", hint)])


def upload_failure(finished: Finished, path: str, seconds: float) -> BkgenError:
    """The error for a `pipeline upload` that did not end with 0."""
    words = last_words(finished.tail)
    status = _final_status(words)
    if finished.timed_out or finished.status < 0:
        return call_failure(finished, "pipeline upload", path, seconds)
    if _REJECTED.search(words) or (status is not None and 400 <= status < 500 and status != 429):
        keys = tuple(dict.fromkeys(_DUPLICATE_KEY.findall(finished.tail)))
        server = _SERVER_WORDS.search(words)
        return UploadRefusedError(
            server[1] if server else words, "correct what Buildkite names here, and push again", keys
        )
    if _REFUSED_BY_AGENT.search(words):
        return UploadRefusedError(words, "see the agent's words above; nothing of this batch was sent")
    return call_failure(finished, "pipeline upload", path, seconds)


def call_failure(finished: Finished, command: str, path: str, seconds: float) -> BkgenError:
    """The error for any agent call that did not end with 0."""
    words = last_words(finished.tail)
    said = f"; its last words: {words}" if words else ""
    if finished.timed_out:
        return EnvironmentFailure(
            f"{path} {command}: not done after {seconds:g} seconds, so it was stopped{said}",
            "retry this step; BKGEN_AGENT_TIMEOUT=SECONDS allows more time",
        )
    signum = _killed_by(finished.status)
    if signum is not None:
        return EnvironmentFailure(
            f"{path} {command}: killed by {signal_name(signum)}{said}",
            "retry this step; SIGKILL often means that the machine or the pod ran out of memory",
        )
    too_old = _UNKNOWN_FLAG.search(finished.tail) or _UNKNOWN_COMMAND.search(finished.tail)
    if too_old:
        return UserError.single(
            "agent-too-old",
            f"{path} does not know '{too_old[1]}', which bkgen needs for '{command}'",
            f"use buildkite-agent {'.'.join(map(str, OLDEST_SUPPORTED))} or newer",
        )
    if _OUTSIDE_A_JOB.search(words):
        return UserError.single(
            "not-in-a-job",
            f"{path} {command}: {words}",
            "this works inside a Buildkite job only; `bkgen upload --dry-run` prints instead",
        )
    if _PENDING.search(words):
        return EnvironmentFailure(
            f"{path} {command}: Buildkite took the pipeline but has not applied it yet{said}",
            "look at the build before you retry: the steps may still appear",
        )
    return EnvironmentFailure(
        f"{path} {command}: ended with status {finished.status}{said}", "retry this step"
    )


def says_missing(finished: Finished) -> bool:
    """The server answered that there is nothing of this name."""
    return not finished.timed_out and _final_status(last_words(finished.tail)) in {400, 404}


def last_words(tail: str) -> str:
    """The last thing the agent said, with what belongs to it: no colours, time stamps or log levels."""
    lines = [line.rstrip() for line in _ANSI.sub("", tail).splitlines() if line.strip()]
    start = len(lines) - 1
    # A refusal may span lines; it begins at the last line that has a prefix of the agent's log.
    while start > 0 and not _LOG_PREFIX.match(lines[start]) and len(lines) - start < 12:
        start -= 1
    if not lines:
        return ""
    first = _LOG_PREFIX.sub("", lines[start]).removeprefix("fatal: ")
    return "\n".join([first, *lines[start + 1 :]]).strip()


def _final_status(words: str) -> int | None:
    found: list[str] = _STATUS.findall(words)
    return int(found[-1]) if found else None


def _killed_by(status: int) -> int | None:
    if status < 0:
        return -status
    signum = status - _SHELL_SIGNAL_BASE
    # A wrapper script reports a killed agent as 128 plus the signal.
    return signum if signum in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV} else None
