"""What the four cluster scripts have in common: help, usage, root, tools, dry run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_host import Host, make_host

SCRIPTS = ("setup-cluster.sh", "smoke-test.sh", "install-agent-stack.sh", "teardown.sh")
SETUP = "setup-cluster.sh"


@pytest.fixture
def bare(tmp_path: Path) -> Host:
    return make_host(tmp_path / "host")


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_goes_to_standard_output(bare: Host, script: str) -> None:
    finished = bare.run(script, "--help")
    assert finished.status == 0
    assert finished.output.startswith(f"usage: sudo harness/{script}")
    assert "--dry-run" in finished.output
    assert not finished.words


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_unknown_argument_is_wrong_usage_and_is_not_repeated(bare: Host, script: str) -> None:
    finished = bare.run(script, "bkua_0123456789")
    assert finished.status == 2
    assert "bkua_0123456789" not in finished.all
    assert "hint:" in finished.words
    assert not bare.calls()


@pytest.mark.parametrize("script", SCRIPTS)
def test_who_is_not_root_is_told_so(bare: Host, script: str) -> None:
    bare.write("uid", "1000\n")
    finished = bare.run(script, stdin="x\n")
    assert finished.status == 1
    assert "must run as root" in finished.words
    assert not bare.calls()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_dry_run_prints_commands_and_runs_none(bare: Host, script: str) -> None:
    bare.write("uid", "1000\n")
    before = sorted(bare.root.rglob("*"))
    # None of the tools is there, and nobody is root: the list can be read on any machine.
    finished = bare.run(script, "--dry-run", PATH=str(bare.core), VENDOR="nvidia", PYTHON="no-python")
    assert finished.status == 0, finished.all
    assert not bare.calls()
    assert [path for path in sorted(bare.root.rglob("*")) if path.name != "calls"] == before
    commands = [line for line in finished.output.splitlines() if line.startswith("+ ")]
    wanted = {
        "setup-cluster.sh": ("curl", "docker build", "helm upgrade --install", "install -d"),
        "smoke-test.sh": ("env", "kubectl apply", "kubectl exec", "kubectl delete pods"),
        "install-agent-stack.sh": (
            "kubectl create secret",
            "helm upgrade --install",
            "kubectl rollout status",
        ),
        "teardown.sh": ("helm uninstall", f"{bare.bin}/k3s-uninstall.sh", "docker image rm"),
    }
    for command in wanted[script]:
        assert any(line.startswith(f"+ {command}") for line in commands), command


TOOLS = [
    (SETUP, "curl docker systemctl nvidia-smi tar sha256sum"),
    ("smoke-test.sh", "kubectl bkgen"),
    ("install-agent-stack.sh", "kubectl helm awk"),
]


@pytest.mark.parametrize(
    ("script", "tool"), [(script, tool) for script, tools in TOOLS for tool in tools.split()]
)
def test_a_missing_tool_is_named_before_anything_is_done(bare: Host, script: str, tool: str) -> None:
    for other in ("kubectl", "helm", "bkgen"):
        (bare.bin / other).symlink_to("../bin/stand-in")
    bare.remove_tool(tool)
    finished = bare.run(script, stdin="token\n", VENDOR="nvidia")
    assert finished.status == 1
    assert "not found on the path: " in finished.words
    assert tool in finished.words
    assert "hint:" in finished.words
    assert not bare.calls()
