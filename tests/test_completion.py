"""Shell completion, in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bkrun import THREE, Cli
from gitrepo import Checkout, environ

ASK = """
set -euo pipefail
eval "$(bkgen completion bash)"
complete -p bkgen >&2
ask() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _bkgen_completion bkgen
  echo "$* -> ${COMPREPLY[*]-}"
}
ask bkgen why al
ask bkgen why alpha/
"""


@pytest.mark.slow
def test_bash_completes_suites_and_their_steps(tmp_path: Path) -> None:
    Checkout(tmp_path, environ(tmp_path)).write(THREE)
    program = Path(sys.executable).parent
    assert shutil.which("bkgen", path=str(program)), "the console script is not installed"
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK],
        cwd=tmp_path,
        env={**environ(tmp_path), "PATH": f"{program}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "bkgen why al -> alpha",
        "bkgen why alpha/ -> alpha/alpha",
    ]
    assert "_bkgen_completion bkgen" in done.stderr


def test_changed_leaves_it_to_the_shell_to_complete_files(tmp_path: Path) -> None:
    asked = {
        "_BKGEN_COMPLETE": "bash_complete",
        "COMP_WORDS": "bkgen plan --changed src/co",
        "COMP_CWORD": "3",
    }
    program = Path(sys.executable).parent / "bkgen"
    done = subprocess.run(
        [program],
        cwd=tmp_path,
        env={**environ(tmp_path), **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "file,src/co\n"


@pytest.mark.parametrize(
    ("shell", "begins", "asks"),
    [("zsh", "#compdef bkgen", "_BKGEN_COMPLETE=zsh_complete"), ("fish", "function _bkgen", "fish_complete")],
)
def test_the_other_shells_have_their_scripts(
    cli: Cli, tmp_path: Path, shell: str, begins: str, asks: str
) -> None:
    result = cli.run(tmp_path, "completion", shell, agent=False)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(begins)
    assert asks in result.out


def test_a_shell_that_nobody_knows_is_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    result = cli.run(tmp_path, "completion", "tcsh", agent=False)
    assert result.code == 2
    assert "bash" in result.err
