"""One child process from start to end: shown live, bounded in time, stopped when bkgen is stopped."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import IO

from bkgen.errors import EnvironmentFailure

TAIL_BYTES = 64 * 1024
"""How much of a child's output is kept to tell why it failed."""

GRACE_SECONDS = 5.0
"""From the request to stop to SIGKILL. Buildkite itself gives a cancelled job ten seconds in all."""

_POLL_SECONDS = 0.1
_STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """Somebody stopped bkgen by a signal; whoever catches it ends the program with status 130."""

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(f"stopped by {signal_name(signum)}")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a child ended.

    `status` is its exit code, or minus the signal that ended it. `tail` is the end of what it said
    (both streams in the order they came, without a captured standard output). `timed_out` is true
    when bkgen ended it because its time was over.
    """

    status: int
    stdout: bytes
    tail: str
    timed_out: bool


def signal_name(signum: int) -> str:
    """`SIGTERM` for 15; `signal 70` where the platform has no name for it."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """While open, SIGTERM raises Interrupted in the main thread, so that files and children are cleared up.

    Without it SIGTERM ends Python at once and leaves the pipeline's temporary file behind.
    """

    def stop(signum: int, _frame: FrameType | None) -> None:
        raise Interrupted(signum)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    seconds: float,
    stdin: bytes = b"",
    capture_stdout: bool = False,
    live: bool = True,
    grace: float = GRACE_SECONDS,
) -> Finished:
    """Run a program without a shell until it ends, `seconds` are over, or bkgen is told to stop.

    What it prints goes to bkgen's standard error as it comes (`live`), since standard output carries
    the product only; with `capture_stdout` its standard output is returned instead. Empty `stdin` is
    no input. SIGINT and SIGTERM that reach bkgen meanwhile are passed on, the child is waited for
    (`grace` seconds, then it is killed), and Interrupted is raised. Raises OSError when the program
    cannot be started.
    """
    with _forwarded_signals() as stopping, _input_file(stdin) as source:
        child = subprocess.Popen(
            list(arguments),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if capture_stdout else subprocess.STDOUT,
            env=dict(environ),
        )
        stopping.attach(child)
        said, stdout = _Tail(live=live), bytearray()
        try:
            timed_out = _attend(child, said, stdout, stopping, seconds, grace)
        finally:
            _end(child)
    if stopping.received is not None:
        raise Interrupted(stopping.received)
    return Finished(child.returncode, bytes(stdout), said.text(), timed_out)


@dataclass(slots=True)
class _Stopping:
    """Remembers the signal that asked bkgen to stop, and passes it on to the child.

    The handler raises nothing: an exception between the child's birth and its being known here would
    leave it running with nobody to wait for it.
    """

    received: int | None = None
    _child: subprocess.Popen[bytes] | None = None

    def attach(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        if self.received is not None:
            child.send_signal(self.received)

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        self.received = signum
        if self._child is not None:
            self._child.send_signal(signum)


@contextlib.contextmanager
def _forwarded_signals() -> Iterator[_Stopping]:
    stopping = _Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    # A signal that is ignored (nohup) or handled outside Python stays as it is.
    previous = {signum: signal.getsignal(signum) for signum in _STOPPING_SIGNALS}
    ours = {signum: old for signum, old in previous.items() if old not in (signal.SIG_IGN, None)}
    for signum in ours:
        signal.signal(signum, stopping.handle)
    try:
        yield stopping
    finally:
        for signum, old in ours.items():
            signal.signal(signum, old)


@contextlib.contextmanager
def _input_file(content: bytes) -> Iterator[int | IO[bytes]]:
    # A file and not a pipe: an agent that does not read its input cannot block bkgen then.
    if not content:
        yield subprocess.DEVNULL
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile())
            file.write(content)
            file.seek(0)
        except OSError as error:
            raise no_room(error) from None
        yield file


def no_room(error: OSError) -> EnvironmentFailure:
    """The failure for a temporary file that could not be written."""
    return EnvironmentFailure(
        f"a temporary file could not be written: {error.strerror}",
        f"look at the disk of {os.environ.get('TMPDIR') or '/tmp'}, or set TMPDIR",  # noqa: S108
    )


@dataclass(slots=True)
class _Tail:
    """Shows output as it comes and keeps the end of it."""

    live: bool
    _kept: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        del self._kept[: max(0, len(self._kept) - TAIL_BYTES)]
        if self.live:
            # A log that nobody reads any more must not stop an upload.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.buffer.write(chunk)
                sys.stderr.flush()

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def _attend(
    child: subprocess.Popen[bytes],
    said: _Tail,
    stdout: bytearray,
    stopping: _Stopping,
    seconds: float,
    grace: float,
) -> bool:
    """Read the child's output until it ends; True when its time was over and it was asked to end."""
    deadline = time.monotonic() + seconds
    asked = timed_out = False
    with selectors.DefaultSelector() as selector:
        if child.stderr is not None:
            selector.register(child.stderr, selectors.EVENT_READ, said.add)
        if child.stdout is not None:
            sink = said.add if child.stderr is None else stdout.extend
            selector.register(child.stdout, selectors.EVENT_READ, sink)
        while True:
            if stopping.received is not None and not asked:
                asked, deadline = True, time.monotonic() + grace
            if time.monotonic() >= deadline:
                if asked:
                    return timed_out
                asked = timed_out = True
                deadline = time.monotonic() + grace
                child.terminate()
            if not selector.get_map():
                # Both streams are at their end, so the child is, too, or nearly.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_POLL_SECONDS)
                    return timed_out
            # The child's end is asked for first: what it wrote before is then in the pipe already.
            ended = child.poll() is not None
            if not _read_ready(selector) and ended:
                # Something the child started may hold the pipe open for ever; it is not waited for.
                return timed_out


def _read_ready(selector: selectors.BaseSelector) -> bool:
    """Pass on what has arrived within the polling time; False when nothing has."""
    ready = selector.select(_POLL_SECONDS) if selector.get_map() else []
    for key, _events in ready:
        chunk = os.read(key.fd, 65536)
        if chunk:
            key.data(chunk)
        else:
            selector.unregister(key.fileobj)
    return bool(ready)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
    child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
