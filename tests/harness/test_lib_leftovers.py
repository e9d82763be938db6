"""lib.sh: what a script leaves behind that start_server knows nothing of, and signals that come at a bad moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bash_tools import (
    HARNESS,
    MARKER,
    STRICT,
    answers,
    bash,
    environment,
    marked,
    until,
    waits_for,
    write_script,
)

SERVE = f"'{sys.executable}' -S -E '{Path(__file__).with_name('server.py')}'"

LAUNCHERS = {
    "a server in a session of its own, whose parent waits for it": (
        f"'{sys.executable}' -S -E -c 'import os, sys\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    os.setsid()\n    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
        f"os.waitpid(pid, 0)' -S -E '{Path(__file__).with_name('server.py')}' \"$1\""
    ),
    "a server in the script's group, whose parent has ended": f"bash -c '{{ {SERVE.replace(chr(39), chr(34))} $1 & }}' x \"$1\"; sleep 300",
    "a server in the session of a daemon that has ended": (
        f'setsid -f {SERVE} "$1" >/dev/null 2>&1; sleep 300'
    ),
    "a server that runs in front": f'{SERVE} "$1"',
    "a server below timeout, which makes a group of its own": f'timeout 300 {SERVE} "$1"',
}


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with a marker that every process of the test inherits; none of them outlives it."""
    marker = uuid.uuid4().hex
    yield environment(tmp_path, **{MARKER: marker})
    for pid in list(marked(marker)):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def port(env: dict[str, str], tmp_path: Path) -> int:
    return int(bash("free_port", env, tmp_path).stdout)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS)
def test_a_signal_to_the_script_alone_ends_whatever_it_has_started(
    launcher: str, number: signal.Signals, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    script = write_script(
        tmp_path / "run.sh",
        f"#!/usr/bin/env bash\nset -euo pipefail\nsource '{HARNESS}/setup-env.sh'\n{launcher}\n",
    )
    with subprocess.Popen(
        [script, str(port)], cwd=tmp_path, env=env, start_new_session=True, stderr=subprocess.DEVNULL
    ) as process:
        until(lambda: answers(port), "the server listens")
        process.send_signal(number)
        assert process.wait(20) == -number
    until(lambda: not list(marked(env[MARKER])), "all processes are gone")
    assert not answers(port)


def test_a_normal_end_ends_what_is_left_in_other_sessions_and_keeps_its_status(
    env: dict[str, str], port: int, tmp_path: Path
) -> None:
    text = f"""on_exit true
setsid -f {SERVE} {port} >/dev/null 2>&1
until ! _bkgen_port_is_free {port}; do sleep 0.05; done
exit 7"""
    assert bash(text, env, tmp_path).returncode == 7
    until(lambda: not list(marked(env[MARKER])), "all processes are gone")
    assert not answers(port)


def test_what_a_neighbour_started_is_left_alone(env: dict[str, str], tmp_path: Path) -> None:
    """Another script in the same process group, and the one that started this one."""
    inner = write_script(tmp_path / "inner.sh", STRICT + "on_exit true\nsleep 300 &\nexit 0\n")
    text = f"""on_exit true
bash -c 'sleep 300 & echo $! >own'
bash '{inner}'
kill -0 "$(cat own)"
echo alive"""
    done = bash(text, env, tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    until(lambda: not list(marked(env[MARKER])), "all processes are gone")


def test_term_is_not_lost_when_it_comes_while_a_command_in_front_is_started(
    env: dict[str, str], tmp_path: Path
) -> None:
    """Bash then ran the EXIT trap, and waited in it for the command. One try in five hit that moment."""
    script = write_script(tmp_path / "run.sh", STRICT + "on_exit true\n: >up\nsleep 300\n")
    for step in range(30):
        (tmp_path / "up").unlink(missing_ok=True)
        with subprocess.Popen(["bash", script], cwd=tmp_path, env=env) as process:
            while not (tmp_path / "up").exists():
                time.sleep(0.0002)
            time.sleep(step % 15 * 0.0003)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == -signal.SIGTERM
    until(lambda: not list(marked(env[MARKER])), "all processes are gone")


def test_term_while_a_server_is_started_leaves_no_server(env: dict[str, str], tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "run.sh", STRICT + "on_exit true\n: >up\nstart_server s.log sleep 300\nsleep 300\n"
    )
    for step in range(15):
        (tmp_path / "up").unlink(missing_ok=True)
        with subprocess.Popen(["bash", script], cwd=tmp_path, env=env) as process:
            while not (tmp_path / "up").exists():
                time.sleep(0.0002)
            time.sleep(step * 0.001)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == -signal.SIGTERM
    until(lambda: not list(marked(env[MARKER])), "all processes are gone", seconds=3)


def test_a_script_that_ends_at_once_leaves_no_guard(env: dict[str, str], tmp_path: Path) -> None:
    assert bash("on_exit true", env, tmp_path).returncode == 0
    until(lambda: not list(marked(env[MARKER])), "the guard is gone", seconds=3)


def test_starting_a_server_does_not_switch_job_control(env: dict[str, str], tmp_path: Path) -> None:
    """Toggling it in the middle was one way to lose a signal."""
    text = """exec 2>trace
set -x
start_server s.log sleep 300
set +x
set -m
start_server t.log sleep 300
case $- in *m*) echo on ;; esac"""
    done = bash(text, env, tmp_path)
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert "set -m" not in (tmp_path / "trace").read_text().partition("set +x")[0]
    until(lambda: not list(marked(env[MARKER])), "all processes are gone")


def test_a_program_that_overwrote_its_environment_is_found_through_its_parent(
    env: dict[str, str], tmp_path: Path
) -> None:
    text = """on_exit true
setsid -f bash -c 'env -i setsid sleep 300 & echo $! >up; wait' >/dev/null 2>&1
until [ -s up ] && [ "$(cat "/proc/$(cat up)/comm")" = sleep ]; do sleep 0.05; done
"""
    assert bash(text, env, tmp_path).returncode == 0
    pid = (tmp_path / "up").read_text().strip()
    until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the process is gone", seconds=3)


def test_a_command_in_front_is_still_ended_before_its_cleanup(env: dict[str, str], tmp_path: Path) -> None:
    text = """on_exit sh -c 'kill -0 "$(cat inner)" 2>/dev/null && echo "still there" || echo "gone before"'
bash -c 'echo $$ >inner; exec sleep 300'"""
    script = write_script(tmp_path / "run.sh", STRICT + text)
    with subprocess.Popen(
        ["bash", script], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        until(lambda: waits_for(process.pid, "sleep"), "a command runs in front")
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)
    assert said == "gone before\n"
