"""lib.sh: servers, ports, readiness, questions; and that a killed run.sh leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bash_tools import (
    HARNESS,
    MARKER,
    answers,
    bash,
    environment,
    marked,
    path_without,
    until,
    waits_for,
    write_script,
)

SLOW = pytest.mark.slow
SERVER = Path(__file__).with_name("server.py")
SERVE = f"'{sys.executable}' -S -E '{SERVER}'"


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with a marker that every process of the test inherits; none of them outlives it."""
    marker = uuid.uuid4().hex
    yield environment(tmp_path, **{MARKER: marker})
    for pid in list(marked(marker)):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def bins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories named after the program that is not in them: curl, setsid, nothing."""
    base = tmp_path_factory.mktemp("bins")
    for missing in ("curl", "setsid", "nothing"):
        path_without(base / missing, missing)
    return base


@pytest.fixture
def port(env: dict[str, str], tmp_path: Path) -> int:
    return int(bash("free_port", env, tmp_path).stdout)


def test_a_free_port_can_be_bound_and_differs_from_call_to_call(env: dict[str, str], tmp_path: Path) -> None:
    found = [int(line) for line in bash("for i in {1..20}; do free_port; done", env, tmp_path).stdout.split()]
    assert len(set(found)) > 15
    for number in found[:3]:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", number))


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_somebody_holds_is_not_free(
    family: socket.AddressFamily, host: str, env: dict[str, str], tmp_path: Path
) -> None:
    with socket.socket(family) as sock:
        try:
            sock.bind((host, 0))
        except OSError:
            pytest.skip("no IPv6 loopback here")
        sock.listen()
        taken = sock.getsockname()[1]
        done = bash(f"_bkgen_port_is_free {taken} && echo free || echo taken", env, tmp_path)
    assert done.stdout == "taken\n"
    assert bash(f"_bkgen_port_is_free {taken} && echo free", env, tmp_path).stdout == "free\n"


# ----------------------------------------------------------------------------- what a run.sh leaves behind

RUN_SH = f"""#!/usr/bin/env bash
set -euo pipefail
source '{HARNESS}/setup-env.sh'
group "Start two servers"
for port in "$1" "$2"; do
  start_server "logs/$port.log" {SERVE} "$port" --family
  wait_until_ready "$SERVER_PID" "http://127.0.0.1:$port/health" 30 "logs/$port.log"
done
group "Test"
touch ready
eval "$3"
"""


def start(tmp_path: Path, env: dict[str, str], ending: str) -> tuple[subprocess.Popen[str], list[int]]:
    found = bash("free_port; free_port", env, tmp_path).stdout.split()
    script = write_script(tmp_path / "run.sh", RUN_SH)
    process = subprocess.Popen(
        [script, *found, ending],
        cwd=tmp_path,
        env=env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, [int(number) for number in found]


def assert_nothing_is_left(env: dict[str, str], ports: list[int], tmp_path: Path) -> None:
    until(lambda: not list(marked(env[MARKER])), "all processes of run.sh are gone")
    assert [number for number in ports if answers(number)] == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        pytest.param("true", 0, id="tests that pass", marks=SLOW),
        pytest.param("exit 1", 1, id="a test that fails"),
        pytest.param("(exit 7) | tee out", 7, id="a command that fails before a pipe", marks=SLOW),
        pytest.param("sleep 300 & exit 0", 0, id="a job left in the background", marks=SLOW),
    ],
)
def test_a_run_that_ends_leaves_no_process_and_no_port(
    ending: str, status: int, env: dict[str, str], tmp_path: Path
) -> None:
    process, ports = start(tmp_path, env, ending)
    with process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert said.count("ready after") == 2
    assert_nothing_is_left(env, ports, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=SLOW)])
def test_a_killed_run_leaves_no_process_and_no_port(
    number: signal.Signals, env: dict[str, str], tmp_path: Path
) -> None:
    process, ports = start(tmp_path, env, "sleep 300")
    with process:
        until((tmp_path / "ready").exists, "the servers are ready")
        assert all(answers(port) for port in ports)
        until(lambda: waits_for(process.pid, "sleep"), "the test runs in front")
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == -number
    assert_nothing_is_left(env, ports, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=SLOW)])
def test_a_signal_to_the_whole_process_group_as_buildkite_sends_it_leaves_nothing(
    number: signal.Signals, env: dict[str, str], tmp_path: Path
) -> None:
    process, ports = start(tmp_path, env, "sleep 300")
    with process:
        until((tmp_path / "ready").exists, "the servers are ready")
        os.killpg(process.pid, number)
        process.communicate(timeout=30)
    assert process.returncode == -number
    assert_nothing_is_left(env, ports, tmp_path)


def test_even_a_run_that_got_kill_leaves_no_server_and_no_port(env: dict[str, str], tmp_path: Path) -> None:
    process, ports = start(tmp_path, env, "sleep 300")
    with process:
        until((tmp_path / "ready").exists, "the servers are ready")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    until(lambda: not list(marked(env[MARKER])), "the guards stop the servers")
    assert [port for port in ports if answers(port)] == []


def test_a_server_that_ignores_term_is_killed(env: dict[str, str], port: int, tmp_path: Path) -> None:
    text = f"""start_server s.log {SERVE} {port} --stubborn
wait_until_ready "$SERVER_PID" http://127.0.0.1:{port}/ 30 s.log
stop_group "$SERVER_PID" 1
stop_group "$SERVER_PID" 1
echo "$SERVER_PID" """
    done = bash(text, env, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "after TERM, now killed" in done.stderr
    assert_nothing_is_left(env, [port], tmp_path)


def test_a_server_gets_term_once(env: dict[str, str], tmp_path: Path) -> None:
    """Engines take the second TERM as an order to drop everything at once."""
    write_script(
        tmp_path / "server.sh",
        "trap 'echo term >>terms; sleep 0.5; exit' TERM\ntouch up\nwhile :; do sleep 0.05; done\n",
    )
    text = """start_server s.log bash server.sh
until [ -e up ]; do sleep 0.05; done
stop_group "$SERVER_PID"
"""
    done = bash(text, env, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "terms").read_text() == "term\n"


@pytest.mark.parametrize("pid", ["", "0", "1", "-5", "x", "$$"])
def test_stop_group_refuses_what_is_no_group_of_ours(pid: str, env: dict[str, str], tmp_path: Path) -> None:
    done = bash(f'status=0; stop_group "{pid}" || status=$?; echo "$status"', env, tmp_path)
    assert (done.returncode, done.stdout) == (0, "2\n")


@pytest.mark.slow
def test_servers_work_without_setsid_as_well(
    bins: Path, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    env["PATH"] = str(bins / "setsid")
    text = f"""start_server s.log {SERVE} {port} --family
wait_until_ready "$SERVER_PID" http://127.0.0.1:{port}/ 30 s.log
case $- in *m*) echo "job control is still on" ;; esac
"""
    done = bash(text, env, tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert_nothing_is_left(env, [port], tmp_path)


# ----------------------------------------------------------------------------------------------- readiness


def wait(port: int, options: str, seconds: int = 30) -> str:
    return f"""start_server logs/s.log {SERVE} {port} {options}
wait_until_ready "$SERVER_PID" http://127.0.0.1:{port}/health {seconds} logs/s.log
echo ready
"""


@pytest.mark.parametrize("missing", ["nothing", pytest.param("curl", marks=SLOW)])
def test_a_server_becomes_ready(
    missing: str, bins: Path, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    env["PATH"] = str(bins / missing)
    proxy = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    done = bash(wait(port, "--after 0.5"), env | proxy, tmp_path)
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr


@pytest.mark.parametrize("missing", ["nothing", pytest.param("curl", marks=SLOW)])
def test_a_server_that_never_gets_ready_fails_with_its_log_and_last_answer(
    missing: str, bins: Path, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    env["PATH"] = str(bins / missing)
    done = bash(wait(port, "--status 503", seconds=2), env, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not ready after 2 s" in done.stderr
    assert "last answer: status 503: state of the server: 503\n" in done.stderr
    assert "    server: starting\n" in done.stderr


@pytest.mark.slow
def test_a_server_that_does_not_listen_is_told_from_one_that_refuses(
    env: dict[str, str], port: int, tmp_path: Path
) -> None:
    done = bash(wait(port, "--after 60", seconds=1), env, tmp_path)
    assert done.returncode == 1
    assert "last answer: status 000: curl: (7)" in done.stderr


def test_a_dead_server_fails_at_once(env: dict[str, str], port: int, tmp_path: Path) -> None:
    text = f"""start_server s.log sh -c 'echo "no such model" >&2; exit 3'
wait_until_ready "$SERVER_PID" http://127.0.0.1:{port}/ 600 s.log"""
    done = bash(text, env, tmp_path)
    assert done.returncode == 1
    assert "is dead" in done.stderr
    assert "    no such model\n" in done.stderr


@pytest.mark.parametrize(("accepts", "status"), [("", 1), pytest.param("1", 0, marks=SLOW)])
def test_the_answer_of_an_old_server_is_not_taken_for_the_new_ones(
    accepts: str, status: int, env: dict[str, str], port: int, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-S", "-E", SERVER, str(port)], env=env) as old:
        try:
            until(lambda: answers(port), "the old server listens")
            text = f"""start_server s.log sleep 300
wait_until_ready "$SERVER_PID" http://localhost:{port}/ 600 s.log"""
            done = bash(text, env | {"BKGEN_READY_ANY_SOCKET": accepts}, tmp_path)
            assert done.returncode == status, done.stderr
            assert (f"port {port} is held by pid {old.pid} (python" in done.stderr) == (status == 1)
        finally:
            old.terminate()


# ----------------------------------------------------------------------------------------------- questions


def test_ask_sends_one_deterministic_question_of_any_length(
    env: dict[str, str], port: int, tmp_path: Path
) -> None:
    text = f"""start_server s.log {SERVE} {port}
url=http://127.0.0.1:{port}
wait_until_ready "$SERVER_PID" "$url" 30 s.log
ask "$url" tiny 'What is "é"?'
ask "$url/v1/" tiny "$(printf '%300000s' '')"
BKGEN_ASK_TOKENS=7 ask "$url/v1/completions" tiny hi
ask "$url" huge hi && echo never || echo "status $?"
ask "http://127.0.0.1:1" tiny hi && echo never || echo "status $?"
"""
    done = bash(text, env, tmp_path)
    assert done.stdout.splitlines() == [
        '0 0 64 12 What is "é"?',
        "0 0 64 300000 " + " " * 20,
        "0 0 7 2 hi",
        "status 1",
        "status 1",
    ]
    assert 'has no choices[0].text: {"error": "no such model"}' in done.stderr


@pytest.mark.slow
def test_ask_shows_what_a_server_that_refuses_said(env: dict[str, str], port: int, tmp_path: Path) -> None:
    text = f"""start_server s.log {SERVE} {port} --status 400
until _bkgen_get http://127.0.0.1:{port}/ || [[ $_bkgen_answer == *400* ]]; do sleep 0.05; done
ask http://127.0.0.1:{port} tiny hi"""
    done = bash(text, env, tmp_path)
    assert done.returncode == 1
    assert "/v1/completions: status 400:" in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "start_server",
        "start_server log",
        "wait_until_ready x http://h 1 l",
        "ask url model",
        "on_exit",
        "retry 1 1",
    ],
)
def test_a_wrong_call_ends_with_2_and_says_what_is_taken(
    call: str, env: dict[str, str], tmp_path: Path
) -> None:
    done = bash(call, env, tmp_path)
    assert done.returncode == 2
    assert call.split()[0] + ": " in done.stderr


@pytest.mark.slow
def test_the_stand_in_server_of_these_tests_has_a_child_and_a_daemon(
    env: dict[str, str], port: int, tmp_path: Path
) -> None:
    text = f"""start_server s.log {SERVE} {port} --family
wait_until_ready "$SERVER_PID" http://127.0.0.1:{port}/ 30 s.log
_bkgen_members "$SERVER_PID" "${{_bkgen_cookies[$SERVER_PID]}}" | wc -l
_bkgen_members "$SERVER_PID" '' | wc -l"""
    assert bash(text, env, tmp_path).stdout.split() == ["3", "2"]
