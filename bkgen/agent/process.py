"""The `buildkite-agent` program as bkgen calls it: by argument list, never through a shell."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bkgen.agent.child import Finished, run
from bkgen.agent.outcome import call_failure, says_missing, upload_failure
from bkgen.errors import BkgenError, UserError

UPLOAD_SECONDS = 1800.0
"""The agent tries an upload 60 times, 5 seconds apart, and then asks as often whether it was applied."""

CALL_SECONDS = 300.0
"""The agent's own tries for meta-data take up to 233 seconds."""

ANNOTATION_BYTES = 900_000
"""Buildkite takes 1,048,576 after the agent has redacted secrets, which can make the text longer."""

_VERSION = re.compile(r"version v?(\d+)\.(\d+)\.(\d+)")

# What the surrounding job may have set for its own calls and what would change ours.
_NEVER_INHERITED = frozenset(
    {
        "BUILDKITE_PIPELINE_REPLACE",  # would drop every pending step of the build
        "BUILDKITE_PIPELINE_UPLOAD_DRY_RUN",  # would print, upload nothing and end well
        "BUILDKITE_PIPELINE_UPLOAD_DRY_RUN_FORMAT",
        "BUILDKITE_PIPELINE_NO_INTERPOLATION",  # said by flag, per upload
        "BUILDKITE_AGENT_PIPELINE_UPLOAD_ALLOW_SECRETS",
        "BUILDKITE_TRACE_CONTEXT",  # v3 writes it into the pipeline's env, which reaches every job
        "BKGEN_NIL",  # escaping for interpolated uploads relies on its being unset
        "BUILDKITE_METADATA_BUILD_ID",  # would read another build's meta-data
        "BUILDKITE_ANNOTATION_APPEND",
        "BUILDKITE_ANNOTATION_CONTEXT",
        "BUILDKITE_ANNOTATION_PRIORITY",
        "BUILDKITE_ANNOTATION_SCOPE",
        "BUILDKITE_ANNOTATION_STYLE",
        "BUILDKITE_STEP_GET_FORMAT",
    }
)


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent program and the environment it is called with.

    `timeout` in seconds replaces the limits of all calls; None leaves UPLOAD_SECONDS and CALL_SECONDS.
    """

    path: str
    environ: Mapping[str, str]
    timeout: float | None = None

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Agent | None:
        """The agent that `BUILDKITE_AGENT` names, else `buildkite-agent` on the path, else None.

        `BKGEN_AGENT_TIMEOUT` (seconds) bounds each call. Raises UserError when `BUILDKITE_AGENT`
        names no program, or the time is no positive number.
        """
        named = environ.get("BUILDKITE_AGENT", "").strip()
        path = shutil.which(named or "buildkite-agent", path=environ.get("PATH", ""))
        if path is None and named:
            raise UserError.single(
                "agent-not-found",
                f"BUILDKITE_AGENT names '{named}', which is no program that can be started",
                "give the path of buildkite-agent, or unset it to use the one on the PATH",
            )
        return cls(path, environ, _timeout(environ)) if path else None

    def version(self) -> tuple[int, int, int] | None:
        """Major, minor and patch, or None when the program does not tell."""
        try:
            finished = self._run(["--version"], CALL_SECONDS, capture_stdout=True, live=False)
        except BkgenError:
            return None
        found = _VERSION.search(finished.stdout.decode("utf-8", "replace"))
        return (int(found[1]), int(found[2]), int(found[3])) if found and finished.status == 0 else None

    def upload(self, document: Path, *, interpolate: bool) -> None:
        """Upload one pipeline file. The agent's `$VAR` interpolation is off unless asked for.

        Parse warnings and secrets are refused where the agent can refuse them. Raises UploadRefusedError
        or another UserError when the user must act, EnvironmentFailure when a retry may help,
        Interrupted when bkgen was told to stop.
        """
        flags = [] if interpolate else ["--no-interpolation"]
        finished = self._run(
            ["pipeline", "upload", *flags, str(document)],
            UPLOAD_SECONDS,
            environ={
                # Variables and not flags: an older agent ignores a variable that it does not know.
                "BUILDKITE_AGENT_PIPELINE_UPLOAD_REJECT_PARSE_WARNINGS": "true",
                "BUILDKITE_AGENT_PIPELINE_UPLOAD_REJECT_SECRETS": "true",
            },
        )
        if finished.status != 0 or finished.timed_out:
            raise upload_failure(finished, self.path, self._seconds(UPLOAD_SECONDS))

    def annotate(
        self, body: str, *, style: str, context: str = "bkgen", priority: int | None = None
    ) -> str | None:
        """Set the annotation `context` of this build; its body goes over standard input.

        A failure is no reason to fail the step: it comes back as a text to warn with, None is success.
        """
        flags = ["--style", style, "--context", context]
        if priority is not None:
            flags += ["--priority", str(priority)]
        try:
            self._checked("annotate", flags, stdin=capped(body))
        except BkgenError as failure:
            return f"the build was not annotated: {failure}"
        return None

    def meta_data_get(self, key: str) -> str | None:
        """The build's meta-data under `key`, None when there is none. Raises as `upload` does."""
        finished = self._checked("meta-data get", ["--default", "", key], capture_stdout=True)
        return finished.stdout.decode("utf-8", "replace") or None

    def meta_data_set(self, key: str, value: str) -> None:
        """Set the build's meta-data; key and value must not be blank. Raises as `upload` does."""
        self._checked("meta-data set", [key], stdin=value.encode())

    def has_step(self, key: str) -> bool:
        """Whether this build has a step with this key. Raises as `upload` does where that is not known."""
        command = "step get"
        finished = self._run(
            [*command.split(), "label", "--step", key], CALL_SECONDS, capture_stdout=True, live=False
        )
        if finished.status == 0 and not finished.timed_out:
            return True
        if says_missing(finished):
            return False
        raise call_failure(finished, command, self.path, self._seconds(CALL_SECONDS))

    def _checked(
        self, command: str, arguments: list[str], *, stdin: bytes = b"", capture_stdout: bool = False
    ) -> Finished:
        # The agent warns about every missing key; what a captured call says matters when it fails.
        finished = self._run(
            [*command.split(), *arguments],
            CALL_SECONDS,
            stdin=stdin,
            capture_stdout=capture_stdout,
            live=not capture_stdout,
        )
        if finished.status != 0 or finished.timed_out:
            raise call_failure(finished, command, self.path, self._seconds(CALL_SECONDS))
        return finished

    def _run(
        self,
        arguments: list[str],
        seconds: float,
        *,
        environ: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        capture_stdout: bool = False,
        live: bool = True,
    ) -> Finished:
        try:
            return run(
                [self.path, *arguments],
                {**_inherited(self.environ), **(environ or {})},
                seconds=self._seconds(seconds),
                stdin=stdin,
                capture_stdout=capture_stdout,
                live=live,
            )
        except OSError as error:
            raise UserError.single(
                "agent-not-started",
                f"{self.path} cannot be started: {error.strerror or error}",
                "install buildkite-agent, or name it with BUILDKITE_AGENT",
            ) from error

    def _seconds(self, default: float) -> float:
        return default if self.timeout is None else self.timeout


def capped(body: str) -> bytes:
    """An annotation's body in UTF-8, at most ANNOTATION_BYTES; what was cut is said in its first line."""
    encoded = body.encode("utf-8", "backslashreplace")
    if len(encoded) <= ANNOTATION_BYTES:
        return encoded
    # The note comes first, because a cut list or table at the end would swallow it.
    note = f"**Cut: this is the beginning of {len(encoded):,} bytes; the job's log has all of it.**\n\n"
    room = encoded[: ANNOTATION_BYTES - len(note.encode())]
    whole_lines = room[: room.rfind(b"\n") + 1] or room
    return note.encode() + whole_lines.decode("utf-8", "ignore").encode()


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in _NEVER_INHERITED}
    # At this level the agent says nothing about a refused upload, and nobody learns why it failed.
    if kept.get("BUILDKITE_AGENT_LOG_LEVEL", "").lower() == "fatal":
        del kept["BUILDKITE_AGENT_LOG_LEVEL"]
    return kept


def _timeout(environ: Mapping[str, str]) -> float | None:
    text = environ.get("BKGEN_AGENT_TIMEOUT", "").strip()
    if not text:
        return None
    if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) and float(text) > 0:
        return float(text)
    raise UserError.single(
        "agent-timeout",
        f"BKGEN_AGENT_TIMEOUT is '{text}'",
        "give a number of seconds, for example 1800",
    )
