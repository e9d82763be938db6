"""Runs the scripts of harness/ the way a job does: real bash, real processes, stand-ins on the path."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

HARNESS = Path(__file__).resolve().parents[2] / "harness"
STRICT = f"set -Eeuo pipefail\nsource {shlex.quote(str(HARNESS / 'lib.sh'))}\n"
MARKER = "BKGEN_TEST_MARKER"


def environment(tmp_path: Path, *bins: Path, **extra: str) -> dict[str, str]:
    """An environment without Buildkite, GPU tools or the user's settings; `bins` come first on the path."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir(exist_ok=True)
    path = [*map(str, bins), str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "HOSTNAME": "test-host",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        **extra,
    }


def run(
    arguments: list[str | Path], env: Mapping[str, str], cwd: Path, *, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """One program to its end; never longer than a minute."""
    return subprocess.run(
        [str(a) for a in arguments],
        env=env,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def bash(text: str, env: Mapping[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script in strict mode with lib.sh sourced."""
    return run(["bash", write_script(cwd / "script.sh", STRICT + text), *arguments], env, cwd)


def write_script(path: Path, text: str) -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def stand_in(directory: Path, name: str, text: str) -> Path:
    """An executable of that name; with the path of its directory first on PATH it replaces the real one."""
    return write_script(directory / name, f"#!/bin/bash\n{text}\n")


NEEDED = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "curl",
    "cut",
    "date",
    "diff",
    "dirname",
    "env",
    "getconf",
    "grep",
    "head",
    "id",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "ps",
    "python3",
    "readlink",
    "rm",
    "sed",
    "setsid",
    "sh",
    "sleep",
    "sort",
    "tail",
    "tee",
    "timeout",
    "touch",
    "tr",
    "uname",
    "wc",
]
"""What the scripts of harness/ need besides git, and no more."""


def path_without(directory: Path, *names: str) -> Path:
    """A directory to be the whole path: the programs that the scripts need, except for some."""
    directory.mkdir()
    for name in NEEDED:
        program = sys.executable if name == "python3" else shutil.which(name, path="/usr/bin:/bin")
        if name not in names and program:
            (directory / name).symlink_to(program)
    return directory


def marked(marker: str) -> Iterator[int]:
    """The live processes that carry the marker in their environment."""
    wanted = f"{MARKER}={marker}".encode()
    return (
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _has(entry, wanted)
    )


def _has(process: Path, wanted: bytes) -> bool:
    try:
        state = (process / "stat").read_text().rpartition(") ")[2][0]
        return state not in "ZX" and wanted in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def waits_for(pid: int, name: str) -> bool:
    """Whether a shell sleeps while a child of that name runs in front. A signal that comes between its fork and
    its wait is noticed by bash only when the child has ended; a test that means the wait has to wait for it."""
    states = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                before, _, after = (entry / "stat").read_text().rpartition(") ")
            except OSError:
                continue
            state, parent = after.split()[:2]
            states[int(entry.name)] = (before.partition(" (")[2], state, int(parent))
    child = any(comm == name and parent == pid for comm, _, parent in states.values())
    return child and pid in states and states[pid][1] == "S"


def until(true: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Waits for a condition; fails the test with `what` when it does not come."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"never happened within {seconds} s: {what}")
        time.sleep(0.02)


def answers(port: int) -> bool:
    """Whether somebody listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
