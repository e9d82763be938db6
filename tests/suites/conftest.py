"""A copy of the suites in which their scripts run for real, with stand-in engines on the PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("vllm", "lmcache", "sglang", "lm_eval", "buildkite-agent")
# Without its site-packages Python starts in half the time, and the scripts start it often.
BASE_PYTHON = str(Path(sys.base_exec_prefix) / "bin" / "python3")
# Variables of the machine that would change what the scripts do.
FOREIGN = ("BKGEN_", "BUILDKITE", "PYTEST_", "LMCACHE_", "MUSA_", "HIP_", "CUDA_", "NVIDIA_", "COV_")


@dataclass(frozen=True)
class Tree:
    """A repository that holds the harness and the suites, and a PATH of stand-ins."""

    root: Path
    state: Path
    environment: dict[str, str]

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """`k3_tests/…` in the background, in a session of its own, on the suite's kind of hardware."""
        vendor = {"amd": "amd", "musa": "none", "unit": "none", "xpu": "none"}.get(
            command[0].split("/")[0], "nvidia"
        )
        path = f"{self.root.parent / vendor}:{self.environment['PATH']}"
        return subprocess.Popen(
            [str(self.root / "k3_tests" / command[0]), *command[1:]],
            cwd=self.root,
            env={**self.environment, "PATH": path, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`k3_tests/…` to its end; what it says is in `stdout`."""
        process = self.start(*command, **variables)
        try:
            output, _ = process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def calls(self) -> list[list[str]]:
        """The command lines the stand-ins were given, in order."""
        file = self.state / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def alive(self) -> list[int]:
        """The servers that are still there."""
        pids = [int(file.name) for file in (self.state / "pids").glob("*")]
        return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and not is_zombie(pid)]


def is_zombie(pid: int) -> bool:
    """Ended, and not yet collected by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except OSError:
        return True


def executable(file: Path, text: str) -> None:
    """A program of its own."""
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    """The suites in a directory of the test's own; no server outlives the test."""
    root, bin_, state = tmp_path / "repository", tmp_path / "bin", tmp_path / "state"
    for folder in (bin_, state, tmp_path / "nvidia", tmp_path / "amd"):
        folder.mkdir()
    for name in ("harness", "k3_tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    # Every question costs a start of Python, twice; two are as good as five here.
    questions = root / "k3_tests/correctness/questions.txt"
    questions.write_text("".join(questions.read_text(encoding="utf-8").splitlines(keepends=True)[:2]))
    for program in PROGRAMS:
        standin = Path(__file__).with_name("standin.py")
        executable(bin_ / program, f'#!/bin/sh\nexec {BASE_PYTHON} -S -E {standin} {program} "$@"\n')
    executable(tmp_path / "nvidia" / "nvidia-smi", NVIDIA_SMI)
    executable(tmp_path / "amd" / "amd-smi", AMD_SMI)
    executable(bin_ / "python3", f'#!/bin/sh\nexec {BASE_PYTHON} -S "$@"\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    environment |= {
        "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "STANDIN_STATE": str(state),
        "BKGEN_INSTALL": "",
        "BKGEN_PROBE": "",
        "BKGEN_READY_SECONDS": "60",
        "BKGEN_CACHE_READY_SECONDS": "60",
        "BKGEN_SETTLE_SECONDS": "20",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    made = Tree(root, state, environment)
    yield made
    left = made.alive()
    for pid in left:
        os.kill(pid, 9)
    assert left == [], "a server outlived its script"


NVIDIA_SMI = """#!/bin/sh
case $1 in
--query-gpu=*)
  for gpu in $(seq 0 "$((${STANDIN_GPUS:-1} - 1))"); do
    echo "$gpu, GPU-$gpu, [N/A], 81920, 81900, Stand-in"
  done
  ;;
--query-compute-apps=*) ;;
*) exit 2 ;;
esac
"""
AMD_SMI = """#!/bin/sh
[ "$1" = metric ] || exit 2
size='{"value": 65536, "unit": "MB"}' none='{"value": 12, "unit": "MB"}'
[ "${STANDIN_FAULT:-}" = no-gpu ] && echo '[]' && exit
printf '[{"gpu": 0, "mem_usage": {"total_vram": %s, "used_vram": %s}}]\\n' "$size" "$none"
"""
