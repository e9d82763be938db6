"""install-agent-stack.sh: what it installs, and that nobody can see a token while it does."""

from __future__ import annotations

import base64
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_host import Host, copy_host, make_cluster, nodes

INSTALL = "install-agent-stack.sh"
AGENT_TOKEN = "bkct_4Zr8wQ0AgentTokenOfATest"
GIT_TOKEN = "ghp_7kP2xGitTokenOfATest"
CHANGES = (
    "helm upgrade",
    "helm pull",
    "kubectl apply",
    "kubectl create namespace",
    "kubectl rollout restart",
)


def prepare(host: Host) -> Host:
    """Two token files, as an editor leaves them: with a newline at the end."""
    (host.root / "agent-token").write_text(f"{AGENT_TOKEN}\n")
    (host.root / "git-token").write_text(f"{GIT_TOKEN}\r\n")
    return host


FILES = ("--agent-token-file", "agent-token", "--git-token-file", "git-token")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Host:
    host = prepare(make_cluster(tmp_path_factory.mktemp("template") / "host"))
    finished = host.run(INSTALL, *FILES)
    assert finished.status == 0, finished.all
    return host


@pytest.fixture
def fresh(tmp_path: Path) -> Host:
    return prepare(make_cluster(tmp_path / "host"))


@pytest.fixture
def installed(template: Host, tmp_path: Path) -> Host:
    host = copy_host(template, tmp_path / "host")
    host.forget()
    return host


def secret_of(host: Host, name: str) -> tuple[str, str]:
    """Key and content of a secret that was applied."""
    text = (host.root / "secrets" / "buildkite" / f"secret-{name}.yaml").read_text()
    ((key, value),) = yaml.safe_load(text)["data"].items()
    return key, base64.b64decode(value).decode()


# --- What it installs -----------------------------------------------------------------------------


def test_the_first_run_installs_everything_in_order(template: Host) -> None:
    changes = [call.split(" --")[0] for call in template.calls(*CHANGES)]
    assert changes == [
        "kubectl create namespace buildkite",
        "kubectl apply",
        "kubectl apply",
        "helm pull oci://ghcr.io/buildkite/helm/agent-stack-k8s",
        "helm upgrade",
    ]
    assert template.calls("kubectl rollout status deployment/agent-stack-k8s")
    (upgrade,) = template.calls("helm upgrade")
    assert "agent-stack-k8s-0.47.0.tgz --namespace buildkite --values " in upgrade
    assert "--set" not in upgrade


def test_secrets_hold_the_tokens_and_no_newline(template: Host) -> None:
    assert secret_of(template, "buildkite-agent-token") == ("BUILDKITE_AGENT_TOKEN", AGENT_TOKEN)
    assert secret_of(template, "buildkite-git-credentials") == (
        ".git-credentials",
        f"https://x-access-token:{GIT_TOKEN}@github.com\n",
    )
    # Client-side apply would keep a second copy in an annotation that `kubectl describe` shows.
    assert all("--server-side" in call for call in template.calls("kubectl apply"))


def test_values_come_from_the_settings_and_the_clusters_gpus(template: Host) -> None:
    values = yaml.safe_load((template.root / "values.yaml").read_text())
    assert values["agentStackSecret"] == "buildkite-agent-token"
    config = values["config"]
    assert config["queue"] == "k8s"
    assert config["max-in-flight"] == 8 + 2
    assert config["pod-pending-timeout"] == "180m"
    assert config["job-active-deadline-seconds"] == (360 + 180) * 60
    checkout = config["default-checkout-params"]
    assert checkout == {"gitCredentialsSecret": {"secretName": "buildkite-git-credentials"}}


def test_the_second_run_has_nothing_to_do(installed: Host) -> None:
    finished = installed.run(INSTALL, *FILES)
    assert finished.status == 0, finished.all
    assert finished.words.count("already done") == 3
    assert not installed.calls(*CHANGES)
    assert "jobs of the queue k8s run here" in finished.words


def test_a_new_token_restarts_the_controller_and_nothing_else(installed: Host) -> None:
    (installed.root / "agent-token").write_text("bkct_another\n")
    finished = installed.run(INSTALL, *FILES)
    assert finished.status == 0, finished.all
    assert installed.calls("kubectl rollout restart deployment/agent-stack-k8s")
    assert not installed.calls("helm upgrade")
    assert secret_of(installed, "buildkite-agent-token")[1] == "bkct_another"


ROTATION = ["^kubectl rollout restart", "^helm upgrade", r"^kubectl apply.*git-credentials"]


@pytest.mark.parametrize("failing", ROTATION)
def test_a_rotation_that_was_cut_short_is_finished_by_the_next_run(installed: Host, failing: str) -> None:
    (installed.root / "agent-token").write_text("bkct_another\n")
    (installed.root / "git-token").write_text("ghp_another\n")
    installed.write("nodes.json", nodes({"nvidia.com/gpu": "4"}))
    installed.fail(failing)
    assert installed.run(INSTALL, *FILES).status == 75
    installed.fail()
    installed.forget()
    again = installed.run(INSTALL, *FILES)
    assert again.status == 0, again.all
    assert len(installed.calls("kubectl rollout restart")) == 1
    installed.forget()
    assert installed.run(INSTALL, *FILES).status == 0
    assert not installed.calls(*CHANGES)


def test_kubectl_diff_leaves_its_files_where_they_are_removed(installed: Host) -> None:
    installed.write("diff-directories", "")
    assert installed.run(INSTALL, *FILES).status == 0
    directories = (installed.state / "diff-directories").read_text().split()
    assert directories
    assert all(Path(name).parent == installed.root / "tmp" for name in directories)
    assert not any(Path(name).exists() for name in directories)


def test_kubectl_diff_needs_diff(installed: Host) -> None:
    installed.remove_tool("diff")
    finished = installed.run(INSTALL, *FILES)
    assert finished.status == 1
    assert "not found on the path: diff" in finished.words


PENDING = [
    ("pending-install", "helm uninstall agent-stack-k8s --namespace buildkite"),
    ("pending-upgrade", "helm rollback agent-stack-k8s --namespace buildkite"),
    ("pending-rollback", "helm rollback agent-stack-k8s --namespace buildkite"),
]


@pytest.mark.parametrize(("status", "way_out"), PENDING)
def test_a_release_that_was_begun_and_never_ended_is_named_with_the_way_out(
    installed: Host, status: str, way_out: str
) -> None:
    installed.write("release-status", status)
    finished = installed.run(INSTALL, *FILES)
    assert finished.status == 1
    assert "was begun and never ended" in finished.words
    assert f"if no other helm is at work: {way_out}, then start this again" in finished.words
    assert not installed.calls("helm upgrade")


def test_another_number_of_gpus_upgrades_the_chart(installed: Host) -> None:
    installed.write("nodes.json", nodes({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "4"}, {}))
    assert installed.run(INSTALL, *FILES).status == 0
    assert len(installed.calls("helm upgrade")) == 1
    values = yaml.safe_load((installed.root / "values.yaml").read_text())
    assert values["config"]["max-in-flight"] == 14


def test_the_profile_decides_queue_and_resource(fresh: Host) -> None:
    (fresh.root / "repository" / "bkgen.yml").write_text(
        "profiles: {mi300: {gpu_resource: amd.com/gpu, queue: amd-k8s}}\n"
    )
    fresh.write("nodes.json", nodes({"amd.com/gpu": "4", "nvidia.com/gpu": "8"}))
    finished = fresh.run(
        INSTALL, "--agent-token-file", "agent-token", PROFILE="mi300", AGENT_TAGS="arch=mi300"
    )
    assert finished.status == 0, finished.all
    config = yaml.safe_load((fresh.root / "values.yaml").read_text())["config"]
    assert (config["queue"], config["tags"]) == ("amd-k8s", ["queue=amd-k8s", "arch=mi300"])
    assert config["max-in-flight"] == 6
    # No git token, no credentials for the checkout.
    assert "default-checkout-params" not in config
    assert len(fresh.calls("kubectl apply")) == 1


def test_a_cluster_without_gpus_is_refused_before_anything_is_written(fresh: Host) -> None:
    fresh.write("nodes.json", nodes({}))
    finished = fresh.run(INSTALL, *FILES)
    assert finished.status == 1
    assert "no nvidia.com/gpu is offered" in finished.words
    assert not fresh.calls(*CHANGES)


# --- What can fail --------------------------------------------------------------------------------


def some_are_slow(rows: list[tuple[str, str]], step: int) -> list[Any]:
    """Each row as a case; every `step`-th one runs among the quick tests, the others among the slow ones."""
    return [
        pytest.param(*row, id=row[0].strip("^"), marks=[pytest.mark.slow] if number % step else [])
        for number, row in enumerate(rows)
    ]


FAILING = [
    (r"^kubectl get nodes", "the cluster does not answer"),
    (r"^kubectl create namespace", "namespace buildkite: `kubectl create namespace …` ended with status 7"),
    (r"^kubectl create secret", "kubectl cannot write the secret buildkite-agent-token"),
    (r"^kubectl apply", "secrets: `kubectl apply --server-side …` ended with status 7"),
    (r"^helm pull", "chart agent-stack-k8s 0.47.0: `helm pull oci://ghcr.io"),
    (r"^helm upgrade", "chart agent-stack-k8s 0.47.0: `helm upgrade --install …` ended with status 7"),
    (r"^helm history", "every command succeeded, but the check afterwards still fails"),
    (r"^kubectl rollout status", "waiting for the controller: `kubectl rollout status` gave up after "),
]


@pytest.mark.parametrize(("failing", "said"), some_are_slow(FAILING, 2))
def test_a_step_that_fails_is_named_and_ends_the_run(fresh: Host, failing: str, said: str) -> None:
    fresh.write("controller-log", "")
    (fresh.state / "controller-log").unlink()
    fresh.fail(failing)
    finished = fresh.run(INSTALL, *FILES)
    assert finished.status == 75, finished.all
    assert said in finished.words
    assert "hint:" in finished.words
    assert "the controller is ready" not in finished.words
    assert fresh.leftovers() == []


LOGS = [
    ('failed to parse config file: json: unknown field "max-inflight"', "a setting it does not know"),
    ("failed to register stack: 401 Unauthorized", "Buildkite refuses the token"),
    ('queue "k8s" does not exist', "create the queue in Buildkite"),
    ("agent-stack-k8s-5d   0/1   ImagePullBackOff", "cannot fetch the controller's image"),
    ('Error: secret "buildkite-agent-token" not found', "is missing or lacks BUILDKITE_AGENT_TOKEN"),
    ("0/1 nodes are available: 1 Insufficient memory", "no node has room for it"),
    ("panic: something new", "the controller's log stands above"),
]


@pytest.mark.parametrize(("log", "hint"), some_are_slow(LOGS, 2))
def test_a_controller_that_is_not_ready_is_explained(installed: Host, log: str, hint: str) -> None:
    installed.write("controller-log", f"started with {AGENT_TOKEN} and {AGENT_TOKEN}\n{log}\n")
    finished = installed.run(INSTALL, *FILES, CONTROLLER_TIMEOUT="1")
    assert finished.status == 75
    assert f"  | {log}" in finished.words
    assert hint in finished.words
    assert "  | started with [token] and [token]" in finished.words
    assert AGENT_TOKEN not in finished.all


def test_a_wait_that_was_over_says_how_long_it_was(installed: Host) -> None:
    installed.write("controller-log", "starting\n")
    finished = installed.run(INSTALL, *FILES, CONTROLLER_TIMEOUT="0")
    assert "waiting for the controller: it is not ready after 0 seconds" in finished.words


RUNS = "agent-stack-k8s-5d||0||"
CRASHES = [
    (
        [RUNS, "agent-stack-k8s-5d||1|CrashLoopBackOff|"],
        "its pod agent-stack-k8s-5d does not run: CrashLoopBackOff",
    ),
    ([RUNS, "agent-stack-k8s-5d||0||Error"], "its pod agent-stack-k8s-5d has ended: Error"),
    ([RUNS, "agent-stack-k8s-5d||1||"], "its container stopped and was started again while it was watched"),
    (["agent-stack-k8s-5d||3||", "agent-stack-k8s-5d||4||"], "its container stopped and was started again"),
    (["agent-stack-k8s-4c|2026-01-01T00:00:00Z|0||Error"], "it has no pod"),
]


@pytest.mark.parametrize(("looks", "said"), CRASHES, ids=[looks[-1] for looks, _ in CRASHES])
def test_a_controller_that_rolls_out_and_then_crashes_is_not_ready(
    installed: Host, looks: list[str], said: str
) -> None:
    installed.write("pods", "".join(f"{look}\n" for look in looks))
    installed.write("running-log", 'failed to parse config file: json: unknown field "max-inflight"\n')
    # The log is of a container that ended before; while one runs, its own log is what counts.
    installed.fail(r"^kubectl logs.*--since")
    finished = installed.run(INSTALL, *FILES, CONTROLLER_WATCH_SECONDS="5")
    assert finished.status == 75, finished.all
    assert f"watching the controller: {said}" in finished.words
    assert "a setting it does not know" in finished.words
    assert "the controller is ready" not in finished.words


REFUSALS = [
    ("POST https://agent.buildkite.com/v3/stacks: 401 Unauthorized", "Buildkite refuses the token"),
    ("level=error msg=register status=401", "Buildkite refuses the token"),
    ('queue "k8s" does not exist', "create the queue in Buildkite"),
]


@pytest.mark.parametrize(("log", "hint"), some_are_slow(REFUSALS, 2))
def test_a_controller_that_runs_and_is_refused_is_not_ready(installed: Host, log: str, hint: str) -> None:
    installed.write("running-log", f"{log} for {AGENT_TOKEN}\n")
    finished = installed.run(INSTALL, *FILES)
    assert finished.status == 75
    assert "watching the controller: it runs, but is refused" in finished.words
    assert hint in finished.words
    assert AGENT_TOKEN not in finished.all


def test_an_old_restart_a_replaced_pod_and_a_harmless_log_do_not_matter(installed: Host) -> None:
    old, new = "agent-stack-k8s-4c|2026-01-01T00:00:00Z|0||Error", "agent-stack-k8s-5d||3||"
    installed.write("pods-at-once", f"{old}\n{new}\n")
    installed.write("running-log", "took=401ms msg=monitoring queue=k8s\n")
    finished = installed.run(INSTALL, *FILES, CONTROLLER_WATCH_SECONDS="1")
    assert finished.status == 0, finished.all
    assert len(installed.calls("kubectl get pods")) >= 2


TOKENS = [
    ("", "the agent token is empty"),
    ("\n\n", "the agent token is empty"),
    ("one\ntwo\n", "more than one line"),
    ("-----BEGIN KEY-----\n", "characters that no token has"),
    ("bkct_ä\n", "characters that no token has"),
    (None, "cannot be read from"),
]


@pytest.mark.parametrize(
    ("content", "said"), TOKENS, ids=["empty", "blank", "two lines", "a key", "a letter", "no file"]
)
def test_a_file_that_holds_no_token_is_refused(fresh: Host, content: str | None, said: str) -> None:
    if content is None:
        (fresh.root / "agent-token").unlink()
    else:
        (fresh.root / "agent-token").write_text(content)
    finished = fresh.run(INSTALL, "--agent-token-file", "agent-token")
    assert finished.status == 1
    assert said in finished.words
    assert not fresh.calls(*CHANGES)
    assert fresh.leftovers() == []


# --- Tokens ---------------------------------------------------------------------------------------

BOTH = (("--git-token-file", "-"), f"{AGENT_TOKEN}\n{GIT_TOKEN}\n")
ONE_OF_EACH = (("--git-token-file", "git-token"), AGENT_TOKEN)
TRACED = ("bash", "-x")
WAYS = [
    pytest.param(FILES, "", (), id="files"),
    pytest.param(*BOTH, TRACED, id="both on standard input, traced"),
    pytest.param(FILES, "", TRACED, id="files, traced", marks=pytest.mark.slow),
    pytest.param(*BOTH, (), id="both on standard input", marks=pytest.mark.slow),
    pytest.param(*ONE_OF_EACH, (), id="one of each", marks=pytest.mark.slow),
    pytest.param(*ONE_OF_EACH, TRACED, id="one of each, traced", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("arguments", "stdin", "before"), WAYS)
def test_no_token_is_seen_in_processes_traces_or_logs(
    fresh: Host, arguments: tuple[str, ...], stdin: str, before: tuple[str, ...]
) -> None:
    (fresh.root / "watch").write_text("")
    finished = fresh.run(INSTALL, *arguments, before=before, stdin=stdin)
    assert finished.status == 0, finished.all
    assert secret_of(fresh, "buildkite-agent-token")[1] == AGENT_TOKEN
    assert GIT_TOKEN in secret_of(fresh, "buildkite-git-credentials")[1]
    seen = (fresh.root / "seen").read_text()
    # The watchers did look: at the script, at its environment and at the list of processes.
    assert f"{INSTALL}" in seen
    assert "STANDIN_ROOT=" in seen
    assert "kubectl create secret generic" in seen
    assert before == () or "+ read_token" in finished.words
    for token in (AGENT_TOKEN, GIT_TOKEN):
        for form in (token, base64.b64encode(token.encode()).decode().rstrip("=")):
            assert form not in seen
            assert form not in finished.all
            assert form not in "\n".join(fresh.calls())
            assert form not in (fresh.root / "values.yaml").read_text()
    assert fresh.leftovers() == []


def test_no_token_is_in_the_shells_history(fresh: Host) -> None:
    history = fresh.root / "history"
    script = fresh.harness / INSTALL
    subprocess.run(
        ["bash", "--norc", "-i"],
        input=f"{script} {' '.join(FILES)}\nexit 0\n",
        env={**fresh.environment(), "HISTFILE": str(history)},
        cwd=fresh.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        start_new_session=True,
    )
    kept = history.read_text()
    assert f"{INSTALL} --agent-token-file agent-token" in kept
    assert AGENT_TOKEN not in kept
    assert GIT_TOKEN not in kept
    assert secret_of(fresh, "buildkite-agent-token")[1] == AGENT_TOKEN


def test_a_token_typed_at_a_terminal_is_not_shown(fresh: Host) -> None:
    main, other = pty.openpty()
    process = subprocess.Popen(
        [str(fresh.harness / INSTALL)],
        env=fresh.environment(),
        cwd=fresh.root,
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    shown = b""
    try:
        shown = read_until(main, b"(not shown): ")
        # The prompt comes before the terminal is silenced; what is typed in between would be shown.
        wait_for_silence(main)
        os.write(main, f"{AGENT_TOKEN}\n".encode())
        shown += read_until(main, b"run here")
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)
    assert AGENT_TOKEN.encode() not in shown
    assert secret_of(fresh, "buildkite-agent-token")[1] == AGENT_TOKEN


def read_until(descriptor: int, text: bytes) -> bytes:
    """What the terminal shows, up to and including `text`."""
    shown = b""
    while text not in shown:
        shown += os.read(descriptor, 4096)
    return shown


def wait_for_silence(descriptor: int) -> None:
    import termios

    end = time.monotonic() + 10
    while termios.tcgetattr(descriptor)[3] & termios.ECHO:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_token_as_argument_is_refused_and_not_repeated(fresh: Host) -> None:
    finished = fresh.run(INSTALL, AGENT_TOKEN, GIT_TOKEN)
    assert finished.status == 2
    assert "revoke one that was typed as an argument" in finished.words
    assert not re.search(f"{AGENT_TOKEN}|{GIT_TOKEN}", finished.all)
    assert not fresh.calls()


def test_the_python_that_reads_the_settings_must_know_yaml(fresh: Host) -> None:
    python = fresh.bin / "bare-python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    finished = fresh.run(INSTALL, *FILES, PYTHON=str(python))
    assert finished.status == 1
    assert "this Python has no PyYAML" in finished.words
    assert not fresh.calls(*CHANGES)
