"""The fetch: bounded in time, ended with all its processes, and it touches one ref only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bkgen.git.command import complaint
from gitrepo import Checkout, PullRequest, paths, program, pull_request, reason


def test_password_in_a_remotes_url_stays_out_of_the_reason(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("remote", "set-url", "origin", "http://user:s3cret@127.0.0.1:1/x.git")
    why = reason(made.changes(repository="http://127.0.0.1:1/x.git"))
    assert why.startswith("git fetch failed: ")
    assert "127.0.0.1" in why
    assert "s3cret" not in why


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (b"", ""),
        (b"fatal: bad object 123\n", "bad object 123"),
        (b"error: one\nfatal: two\n", "one"),
        (b"Warning: host key added\nssh: no route to host\nfatal: Could not read\n", "ssh: no route to host"),
        (b"remote: counting\nhint: try\nwarning: old\nFrom https://x\nfatal: last\n", "last"),
        (b"fatal: unable to access 'https://user:s3cret@x/y'\n", "unable to access 'https://x/y'"),
        (b"fatal: 'ssh://token@x/y' and http://a:b@z\n", "'ssh://x/y' and http://z"),
        (b"fatal: \x1b[31mred\xff\n", "\\x1b[31mred\\xff"),
        (b"x" * 1000, "x" * 300),
    ],
)
def test_what_git_complains_of_is_told_in_one_clean_line(stderr: bytes, told: str) -> None:
    assert complaint(stderr) == told


def test_pull_request_of_a_full_clone_needs_four_short_git_calls_beside_the_fetch(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    calls = tmp_path / "calls"
    real = next(part for part in made.checkout.environ["PATH"].split(":") if (Path(part) / "git").exists())
    program(tmp_path / "bin/git", f'echo "$*" >>"{calls}"\nexec "{real}/git" "$@"')
    opened = made.checkout.open(PATH=f"{tmp_path}/bin:{made.checkout.environ['PATH']}")
    calls.unlink()
    assert paths(opened.changes(made.build(), default_branch="main")) == ["src/core.py"]
    lines = calls.read_text().splitlines()
    assert sum(" fetch " in line for line in lines) == 1
    assert len(lines) <= 5


def _ssh_pull_request(tmp_path: Path, script: str) -> tuple[PullRequest, dict[str, str]]:
    """A pull request whose base repository is reached by a stand-in for ssh that runs `script`."""
    made = pull_request(tmp_path)
    made.checkout.git("remote", "set-url", "origin", "ssh://git.example.invalid/base.git")
    ssh = program(tmp_path / "bin/ssh", script)
    return made, {"GIT_SSH_COMMAND": str(ssh)}


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody has waited for has ended, too.
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def _wait_for_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(map(_runs, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.01)


HANGING = """
echo $$ >>"{pids}"
sleep 300 &
echo $! >>"{pids}"
wait
"""


@pytest.mark.slow
@pytest.mark.parametrize("trap", ["", "trap '' TERM\n"], ids=["plainly", "and will not end when asked to"])
def test_remote_that_hangs_is_ended_with_all_its_processes(tmp_path: Path, trap: str) -> None:
    pids = tmp_path / "pids"
    made, ssh = _ssh_pull_request(tmp_path, trap + HANGING.format(pids=pids))
    opened = made.checkout.open(time_limit=0.7, **ssh)
    build = made.build(repository="ssh://git.example.invalid/base.git")
    began = time.monotonic()
    assert reason(opened.changes(build, default_branch="main")) == "git fetch did not end within 0.7 seconds"
    assert time.monotonic() - began < 10
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 2
    _wait_for_end(started)


def test_remote_that_accepts_and_never_answers_is_unknown_in_bounded_time(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"git://127.0.0.1:{server.getsockname()[1]}/base.git"
        made.checkout.git("remote", "set-url", "origin", url)
        opened = made.checkout.open(time_limit=0.5)
        changes = opened.changes(made.build(repository=url), default_branch="main")
    assert reason(changes) == "git fetch did not end within 0.5 seconds"


@pytest.mark.slow
def test_connection_that_ssh_keeps_open_does_not_hold_the_answer_back(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f'sleep 300 &\necho $! >"{pids}"\neval "${{*: -1}}"'
    made, ssh = _ssh_pull_request(tmp_path, script)
    url = f"ssh://git.example.invalid{made.upstream.path}"
    made.checkout.git("remote", "set-url", "origin", url)
    changes = made.checkout.open(**ssh).changes(made.build(repository=url), default_branch="main")
    assert paths(changes) == ["src/core.py"]
    _wait_for_end([int(pids.read_text())])


@pytest.mark.slow
def test_interrupt_ends_a_fetch_with_all_its_processes_and_leaves_no_lock(tmp_path: Path) -> None:
    # The server hangs where git holds the lock of the shallow history: a lock that stays fails the next job.
    pids, made = tmp_path / "pids", pull_request(tmp_path, depth=1)
    hook = program(tmp_path / "bin/hook", HANGING.format(pids=pids))
    config = tmp_path / "config"
    config.write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    code = """
import os, sys
from pathlib import Path
from bkgen.build import Build
from bkgen.git import Repository
build = Build(source="webhook", pull_request=7, base_branch="main")
Repository.open(Path(sys.argv[1]), environ=os.environ).changes(build, default_branch="main")
"""
    running = subprocess.Popen(
        [sys.executable, "-c", code, str(made.checkout.path)],
        env={**made.checkout.environ, "GIT_CONFIG_GLOBAL": str(config)},
        cwd=Path(__file__).parent.parent,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert running.poll() is None, running.stderr
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (made.checkout.path / ".git/shallow.lock").exists()
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=30)
    assert b"KeyboardInterrupt" in stderr
    _wait_for_end([int(line) for line in pids.read_text().split()])
    assert not (made.checkout.path / ".git/shallow.lock").exists()


@pytest.mark.parametrize("configured", ["environment", "core.sshCommand"])
def test_ssh_command_of_the_user_is_the_one_that_fetches(tmp_path: Path, configured: str) -> None:
    made, ssh = _ssh_pull_request(tmp_path, 'eval "${*: -1}"')
    url = f"ssh://git.example.invalid{made.upstream.path}"
    made.checkout.git("remote", "set-url", "origin", url)
    if configured == "core.sshCommand":
        made.checkout.configure(f'[core]\n\tsshCommand = "{ssh.pop("GIT_SSH_COMMAND")}"\n')
    changes = made.checkout.open(**ssh).changes(made.build(repository=url), default_branch="main")
    assert paths(changes) == ["src/core.py"]


def test_ssh_that_nobody_configured_is_told_not_to_ask(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    made, _ = _ssh_pull_request(tmp_path, f'echo "$*" >"{seen}"\necho "Permission denied" >&2\nexit 255')
    opened = made.checkout.open(PATH=f"{tmp_path}/bin:{made.checkout.environ['PATH']}")
    build = made.build(repository="ssh://git.example.invalid/base.git")
    assert reason(opened.changes(build, default_branch="main")) == "git fetch failed: Permission denied"
    assert "BatchMode=yes" in seen.read_text()


def test_fetch_follows_no_tags_and_no_configured_refspec_and_prunes_nothing(tmp_path: Path) -> None:
    made = pull_request(tmp_path)
    made.checkout.git("branch", "main", "HEAD")
    made.checkout.git("update-ref", "refs/remotes/origin/long-gone", "HEAD")
    made.upstream.git("tag", "--annotate", "--message", "one", "v1")
    made.upstream.commit({"src/later.py": "later"})
    made.checkout.configure(
        '[remote "origin"]\n\tfetch = +refs/heads/*:refs/heads/*\n\tprune = true\n\tpruneTags = true\n'
        "\ttagOpt = --tags\n[fetch]\n\tprune = true\n\tpruneTags = true\n\twriteCommitGraph = true\n"
    )
    before = _refs(made.checkout)
    assert paths(made.changes()) == ["src/core.py"]
    after = _refs(made.checkout)
    assert after.pop("refs/remotes/origin/main") == made.upstream.head
    before.pop("refs/remotes/origin/main")
    assert after == before
    assert not (made.checkout.path / ".git/FETCH_HEAD").exists()
    assert not list((made.checkout.path / ".git/objects/info").glob("commit-graph*"))


def _refs(checkout: Checkout) -> dict[str, str]:
    listed = checkout.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in listed)
