"""lib.sh: what sourcing does, messages, retries, the end of a script, scratch directories, artifacts."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from harness.bash_tools import (
    HARNESS,
    STRICT,
    bash,
    environment,
    run,
    stand_in,
    until,
    waits_for,
    write_script,
)

CONTRACT = {
    "ask", "die", "free_port", "group", "log", "merge_base_branch", "on_exit", "require_command",
    "require_gpus", "retry", "scratch_directory", "shard_args", "shard_status", "start_server",
    "stop_group", "upload_artifacts", "wait_until_ready",
}  # fmt: skip


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def public_functions(env: dict[str, str], cwd: Path) -> set[str]:
    done = run(["bash", "-c", f"source '{HARNESS}/lib.sh'; compgen -A function"], env, cwd)
    return {name for name in done.stdout.split() if not name.startswith("_")}


def test_the_public_functions_are_exactly_those_that_suites_rely_on(
    env: dict[str, str], tmp_path: Path
) -> None:
    assert public_functions(env, tmp_path) == CONTRACT


def test_every_function_is_on_the_reference_page_and_every_name_there_exists(
    env: dict[str, str], tmp_path: Path
) -> None:
    page = (HARNESS.parent / "docs/reference/harness-lib.md").read_text()
    assert set(re.findall(r"^### `(\w+)", page, re.MULTILINE)) == public_functions(env, tmp_path)


def test_every_function_has_its_usage_line_in_the_comment_above_it(
    env: dict[str, str], tmp_path: Path
) -> None:
    text = "\n".join(path.read_text() for path in (HARNESS / "lib.sh", *(HARNESS / "lib").glob("*.sh")))
    for name in public_functions(env, tmp_path):
        comment = re.search(rf"((?:^#.*\n)+){name}\(\) \{{", text, re.MULTILINE)
        assert comment, name
        assert re.match(rf"# {name}\b", comment[1]), comment[1]


def test_sourcing_defines_functions_and_changes_nothing_else(env: dict[str, str], tmp_path: Path) -> None:
    script = f"""
state() {{
  compgen -v | grep -v '^BASH_\\|^PIPESTATUS$\\|^_$\\|^before$'
  shopt; set +o; trap; jobs; umask; pwd; ls -A "$TMPDIR"
}}
before=$(state)
source '{HARNESS}/lib.sh'
[ "$before" = "$(state)" ] && echo same
"""
    assert run(["bash", "-c", script], env, tmp_path).stdout == "same\n"


def test_messages_go_to_standard_error_and_die_ends_with_1(env: dict[str, str], tmp_path: Path) -> None:
    done = bash("log one two\ngroup ':gear: Install'\ndie 'it broke'\nlog never", env, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "one two\n--- :gear: Install\nerror: it broke\n"


def test_a_group_tells_how_long_the_one_before_it_took(env: dict[str, str], tmp_path: Path) -> None:
    done = bash("group first\nSECONDS=12\ngroup second\nSECONDS=19\ngroup third", env, tmp_path)
    assert done.stderr == "--- first\nfirst: 12 s\n--- second\nsecond: 7 s\n--- third\n"


def test_require_command_names_everything_that_is_missing(env: dict[str, str], tmp_path: Path) -> None:
    done = bash("require_command bash no-such-a cat no-such-b\nlog never", env, tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: not on the path: no-such-a no-such-b\n")


@pytest.mark.parametrize(
    ("call", "status", "tries"),
    [
        pytest.param("retry 3 0 flaky 1", 0, 1, id="the first try succeeds and is the only one"),
        pytest.param("retry 3 0 flaky 3", 0, 3, id="the last try succeeds"),
        pytest.param("retry 2 0 flaky 9", 42, 2, id="all tries fail and the last status is kept"),
        pytest.param("retry 0 0 flaky 1", 2, 0, id="no try at all is a wrong call"),
        pytest.param("retry 2 soon flaky 1", 2, 0, id="a delay that is no number is a wrong call"),
    ],
)
def test_retry(call: str, status: int, tries: int, env: dict[str, str], tmp_path: Path) -> None:
    flaky = 'n=0\nflaky() { n=$((n + 1)); echo "$n" >tries; [ "$n" -ge "$1" ] || return 42; }\n'
    done = bash(flaky + call, env, tmp_path)
    assert done.returncode == status
    written = tmp_path / "tries"
    assert (int(written.read_text()) if written.exists() else 0) == tries


# ------------------------------------------------------------------------------------------------ the end

ENDINGS = [
    pytest.param("true", 0, id="success stays 0"),
    pytest.param("exit 1", 1, id="a failed test stays 1"),
    pytest.param("exit 7", 7, id="an odd status stays 7"),
    pytest.param("(exit 5)", 5, id="errexit keeps the status of what failed"),
    pytest.param("false | cat", 1, id="a failing command before a pipe fails"),
    pytest.param("(exit 78) | tee log | cat >/dev/null", 78, id="a status passes through a pipe to tee"),
    pytest.param("die broken", 1, id="die is 1"),
    pytest.param('echo "$unset_variable"', 1, id="an unset variable is a failure"),
    pytest.param("kill -TERM $$; sleep 60", -signal.SIGTERM, id="TERM stays TERM"),
    pytest.param("kill -HUP $$; sleep 60", -signal.SIGHUP, id="HUP stays HUP"),
    pytest.param("kill -INT $$", -signal.SIGINT, id="INT stays INT"),
]


@pytest.mark.parametrize(("ending", "status"), ENDINGS)
def test_cleanups_run_in_reverse_and_the_status_is_kept(
    ending: str, status: int, env: dict[str, str], tmp_path: Path
) -> None:
    text = f"on_exit echo first\non_exit printf '%s|%s\\n' 'a b' \"c'd\"\non_exit sh -c 'exit 3'\n{ending}\n"
    done = bash(text, env, tmp_path)
    assert done.returncode == status
    assert done.stdout == "a b|c'd\nfirst\n"
    assert "cleanup 'sh' failed with status 3" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_cleanup_that_exits_does_not_skip_the_others(env: dict[str, str], tmp_path: Path) -> None:
    done = bash(
        "leave() { exit 9; }\non_exit echo kept\non_exit leave\non_exit die no\nexit 4", env, tmp_path
    )
    assert (done.returncode, done.stdout) == (4, "kept\n")


def test_an_exit_trap_that_was_there_before_still_runs(env: dict[str, str], tmp_path: Path) -> None:
    done = bash("trap 'echo \"old $PWD\"' EXIT\non_exit echo new\nexit 3", env, tmp_path)
    assert (done.returncode, done.stdout) == (3, f"new\nold {tmp_path}\n")


def test_a_subshell_has_its_own_stack(env: dict[str, str], tmp_path: Path) -> None:
    done = bash("on_exit echo outer\n(on_exit echo inner; echo body)\necho after", env, tmp_path)
    assert (done.returncode, done.stdout) == (0, "body\ninner\nafter\nouter\n")


def test_term_does_not_wait_for_the_command_in_front_and_takes_it_along(
    env: dict[str, str], tmp_path: Path
) -> None:
    text = """on_exit touch cleaned
bash -c 'sleep 300 & echo $! >inner; wait' &
echo $! >back
touch up
sleep 300
"""
    script = write_script(tmp_path / "run.sh", STRICT + text)
    with subprocess.Popen(["bash", script], cwd=tmp_path, env=env) as process:
        until((tmp_path / "inner").exists, "the script starts")
        until((tmp_path / "up").exists, "the script starts")
        until(lambda: waits_for(process.pid, "sleep"), "a command runs in front")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    assert (tmp_path / "cleaned").exists()
    for name in ("inner", "back"):
        pid = int((tmp_path / name).read_text())
        assert not Path(f"/proc/{pid}/exe").exists(), name


def test_the_last_lines_still_reach_a_log_that_tee_writes(env: dict[str, str], tmp_path: Path) -> None:
    text = "exec > >(tee all.log) 2>&1\non_exit echo last words\necho body\nexit 6"
    done = bash(text, env, tmp_path)
    assert done.returncode == 6
    until(lambda: (tmp_path / "all.log").read_text() == "body\nlast words\n", "tee writes the last line")


# ---------------------------------------------------------------------------------------------- scratch


@pytest.mark.parametrize(("ending", "status"), [ENDINGS[0], ENDINGS[2], ENDINGS[8]])
def test_a_scratch_directory_is_the_jobs_own_and_is_gone_at_the_end(
    ending: str, status: int, env: dict[str, str], tmp_path: Path
) -> None:
    scratch = tmp_path / "big disk"
    scratch.mkdir()
    text = f"""on_exit true
a=$(scratch_directory); b=$(scratch_directory); scratch_directory >direct
touch "$a/file" "$b/file"; printf '%s\\n' "$a" "$b" "$(cat direct)"
{ending}
"""
    done = bash(text, env | {"BKGEN_SCRATCH": str(scratch), "BUILDKITE_JOB_ID": "01-ab/.."}, tmp_path)
    paths = done.stdout.split("\n")[:3]
    assert done.returncode == status
    assert len(set(paths)) == 3
    assert all(path.startswith(f"{scratch}/bkgen-01-ab-") for path in paths)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        pytest.param({}, "call 'on_exit true' in the script", id="nobody would remove it"),
        pytest.param({"BKGEN_SCRATCH": "/no/such"}, "/no/such is not a directory", id="no base directory"),
    ],
)
def test_a_scratch_directory_that_cannot_be_kept_clean_is_not_made(
    extra: dict[str, str], message: str, env: dict[str, str], tmp_path: Path
) -> None:
    done = bash("d=$(scratch_directory)\necho never", env | extra, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


# ------------------------------------------------------------------------------------- artifacts and GPUs


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        pytest.param('printf "%s\\n" "$@" >calls', "", id="an agent that uploads"),
        pytest.param(
            'printf "%s\\n" "$@" >calls; exit 9', "not uploaded (status 9)", id="an agent that fails"
        ),
    ],
)
def test_artifacts_go_up_in_one_call_and_never_fail_the_job(agent: str, message: str, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "buildkite-agent", agent)
    env = environment(tmp_path, tmp_path / "bin")
    done = bash("upload_artifacts 'out/*.xml' 'logs/**/*'\nupload_artifacts\necho on", env, tmp_path)
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert (tmp_path / "calls").read_text() == "artifact\nupload\nout/*.xml;logs/**/*\n"
    assert message in done.stderr


def test_without_an_agent_artifacts_are_named_in_the_log(env: dict[str, str], tmp_path: Path) -> None:
    done = bash("upload_artifacts 'out/*.xml' b\necho on", env, tmp_path)
    assert (done.stdout, done.stderr) == ("on\n", "no buildkite-agent here: not uploaded: out/*.xml;b\n")


@pytest.mark.parametrize(("wanted", "status"), [("0", 0), ("1", 0), ("2", 0), ("3", 78), ("many", 2)])
def test_require_gpus_counts_what_is_seen(wanted: str, status: int, tmp_path: Path) -> None:
    rows = "0, GPU-a, Disabled, 80000, 10, NVIDIA H100\\n1, GPU-b, Disabled, 80000, 10, NVIDIA H100\\n"
    stand_in(tmp_path / "bin", "nvidia-smi", f"printf '{rows}'")
    done = bash(f"require_gpus {wanted}\necho on", environment(tmp_path, tmp_path / "bin"), tmp_path)
    assert (done.returncode, done.stdout) == (status, "on\n" if status == 0 else "")
    if status == 78:
        assert done.stderr == "error: 2 GPUs are seen, 3 are needed\n"


def test_require_gpus_fails_closed_when_the_tool_is_broken(tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "nvidia-smi", "echo 'Failed to initialize NVML: Unknown Error'; exit 255")
    done = bash("require_gpus 1", environment(tmp_path, tmp_path / "bin"), tmp_path)
    assert (done.returncode, done.stderr) == (78, "error: 0 GPUs are seen, 1 are needed\n")
