"""One git call: an argument list, a clean environment, a bound on time, nothing left running."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from bkgen.changes import printable
from bkgen.errors import EnvironmentFailure

# What git needs to reach a remote and to find its configuration. Every other GIT_* variable can point it at
# another repository, index, object store or diff program, so none of them gets through.
_KEPT = (
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|ASKPASS|EXEC_PATH|ALLOW_PROTOCOL|PROTOCOL_FROM_USER"
    r"|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|(SSL|HTTP|PROXY)_.*"
    r"|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|PARAMETERS|KEY_[0-9]+|VALUE_[0-9]+))"
)
_SET = {
    "GIT_GRAFT_FILE": "",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "LANGUAGE": "C",
    "LC_ALL": "C",
}
# An empty core.fsmonitor means "none" to every version of git; `false` was once the name of a program.
_CONFIG = (
    *("-c", "core.fsmonitor="),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "fetch.writeCommitGraph=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
_ASIDE = r"(?i:warning|hint|remote|from)\b"
_SLICE_SECONDS = 1.0
_GRACE_SECONDS = 1.0


class GitFault(EnvironmentFailure):
    """Git could not answer. The text is one line for people, without credentials."""


class Answer(NamedTuple):
    """How git ended: its exit status, standard output as bytes, and one line out of its standard error."""

    status: int
    out: bytes
    complaint: str


class Runner(NamedTuple):
    """Runs git in one directory with one environment; `deadline` is on the clock of `time.monotonic`."""

    executable: str
    directory: Path
    environ: Mapping[str, str]
    deadline: float
    seconds: float

    def __repr__(self) -> str:
        # The environment may hold passwords, and a traceback or a test's report would show them.
        return f"Runner({self.executable!r}, {self.directory!r}, …)"

    @classmethod
    def create(cls, directory: Path, environ: Mapping[str, str], seconds: float) -> "Runner":
        """A runner for `directory`; raises EnvironmentFailure where git is not on the path of `environ`."""
        executable = shutil.which("git", path=environ.get("PATH", os.defpath))
        if executable is None:
            raise EnvironmentFailure("git is not on the path", "install git in the image that runs bkgen")
        clean = {name: value for name, value in environ.items() if _gets_through(name)} | _SET
        deadline = time.monotonic() + seconds
        return cls(
            executable=executable, directory=directory, environ=clean, deadline=deadline, seconds=seconds
        )

    def anew(self, directory: Path | None = None) -> "Runner":
        """The same runner with its whole time before it, in `directory` if one is given."""
        deadline = time.monotonic() + self.seconds
        return self._replace(directory=directory or self.directory, deadline=deadline)

    def with_variable(self, name: str, value: str) -> "Runner":
        """The same runner, whose git sees `name` as `value`."""
        return self._replace(environ={**self.environ, name: value})

    def run(self, *arguments: str, feed: bytes | None = None) -> Answer:
        """Runs `git ARGUMENTS` with `feed` as its standard input.

        Raises GitFault where git cannot be started or the time is up; git and whatever it started have
        then ended. Any exit status is an answer.
        """
        command = [self.executable, "-C", str(self.directory), *_CONFIG, *arguments]
        try:
            wrapper, process = _start(command, self.environ, feeds=feed is not None)
        except (OSError, ValueError) as error:
            raise GitFault(f"git could not be started: {printable(str(error))}") from None
        done = False
        try:
            out, err, done = self._collect(process, feed, arguments[0])
        finally:
            if not done:
                _end(process)
            del wrapper
        return Answer(process.returncode, out, complaint(err))

    def output(self, *arguments: str, feed: bytes | None = None) -> bytes:
        """Standard output of `git ARGUMENTS`; raises GitFault for any exit status but 0."""
        answer = self.run(*arguments, feed=feed)
        if answer.status != 0:
            why = answer.complaint or f"exit status {answer.status}"
            raise GitFault(f"git {arguments[0]} failed: {why}")
        return answer.out

    def _collect(
        self, process: subprocess.Popen[bytes], feed: bytes | None, name: str
    ) -> tuple[bytes, bytes, bool]:
        """Standard output, standard error, and whether both came to their end."""
        git_is_gone = False
        while True:
            left = self.deadline - time.monotonic()
            try:
                out, err = process.communicate(feed, timeout=max(0.0, min(left, _SLICE_SECONDS)))
            except subprocess.TimeoutExpired as late:
                # A connection that ssh keeps open for the next call inherits the pipe and never closes it.
                if git_is_gone:
                    return late.stdout or b"", late.stderr or b"", False
                git_is_gone = process.poll() is not None
                if left <= _SLICE_SECONDS and not git_is_gone:
                    raise GitFault(f"git {name} did not end within {self.seconds:g} seconds") from None
                feed = None
            else:
                return out, err, True


def _gets_through(name: str) -> bool:
    return not name.startswith("GIT_") or re.fullmatch(_KEPT, name) is not None


def _start(
    command: list[str], environ: Mapping[str, str], *, feeds: bool
) -> tuple[object, subprocess.Popen[bytes]]:
    # Imported here: it costs a tenth of a second and runs git once, and many commands never ask git.
    try:
        from git import Git
        from git.exc import GitCommandNotFound
    except ImportError as error:
        raise OSError(str(error)) from None
    # GitPython hands down the whole environment of this process and can only add to it.
    unwanted = sorted(os.environ.keys() - environ.keys())
    if unwanted:
        command = ["/usr/bin/env", *(word for name in unwanted for word in ("-u", name)), *command]
    try:
        # A session of its own: one signal ends git, ssh and helpers alike, and no password can be asked for.
        wrapper = Git().execute(
            command,
            istream=subprocess.PIPE if feeds else None,
            as_process=True,
            env=environ,
            start_new_session=True,
        )
    except GitCommandNotFound as error:
        raise OSError(f"{command[0]} was not found") from error
    return wrapper, cast("subprocess.Popen[bytes]", wrapper.proc)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends git and all it started. TERM first: git then takes away its lock files, which KILL would leave."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_GRACE_SECONDS)
    _signal(process, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def complaint(stderr: bytes) -> str:
    """The line of git's standard error that says why, without credentials, at most 300 characters."""
    lines = [line.strip() for line in stderr.decode("utf-8", "surrogateescape").splitlines()]
    # The cause comes first: ssh's own words stand above git's "could not read from remote repository".
    causes = [line for line in lines if line and not re.match(_ASIDE, line)]
    cause = re.sub(r"^(fatal|error): ", "", causes[0]) if causes else ""
    return re.sub(r"(?<=://)[^/@\s]+@", "", printable(cause))[:300]
