"""Speed and memory of bkgen as multiples of the floor, all measured in one run.

The floor is one process that imports yaml, pydantic, git and click, makes the same git calls, parses
the same files with libyaml, and dumps as much JSON as bkgen does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOOR = Path(__file__).with_name("floor.py")
PEAK = Path(__file__).with_name("peak.py")
ENVIRON = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("BUILDKITE", "BKGEN", "GIT_"))},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True)
class Case:
    """One row: a repository, the command, and the bar as a multiple of the floor."""

    name: str
    bar: float
    suites: int
    steps: int
    patterns: int
    changed: Sequence[str]
    command: Sequence[str] = ("upload", "--dry-run", "--json")


def source_files(count: int) -> list[str]:
    return [f"src/pkg{i % 97}/mod{i}.py" for i in range(count)]


CASES = (
    Case("skip decision (300 suites, docs-only change)", 1.5, 300, 1, 1, ["docs/a.md"]),
    Case("1 step", 1.5, 1, 1, 1, ["src/pkg0/mod0.py"]),
    Case("300 steps, one file changed, everything selected", 1.6, 30, 10, 1, ["src/pkg0/mod0.py"]),
    Case("3,000 steps, everything selected", 2.2, 300, 10, 1, ["src/pkg0/mod0.py"]),
    Case("1,000 suites × 10 patterns × 5,000 files, nothing matches", 3.0, 1000, 1, 10, source_files(5000)),
)
HALF = Case("1,500 steps, everything selected", 0.0, 150, 10, 1, ["src/pkg0/mod0.py"])
GROWTH_BAR = 2.2
MEMORY_BAR_MB = 150.0

POD = """\
pod:
  profile: h200
  gpus: {gpus}
  cpu: {{request: 8, limit: 16}}
  memory: {{request: 32Gi, limit: 64Gi}}
  shm: {shm}Gi
  caches: [huggingface]
"""
SETTINGS = """\
version: 1
profiles:
  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8, image: "lmcache/ci-base:v1", image_pull_policy: Never}
caches:
  huggingface: {host_path: /data/huggingface, mount_path: /root/.cache/huggingface}
retries:
  infra: [{exit_status: -1, limit: 2}]
default_retry: infra
limits: {jobs_per_upload: 500, jobs_per_build: 100000}
"""


def suite_text(case: Case, index: int) -> str:
    if case.patterns == 1:
        paths = ["src/**"]
    else:
        kinds = (
            "lib/pkg{n}/**",
            "!lib/pkg{n}/**/*.md",
            "*.cu{n}",
            "/setup{n}.py",
            "csrc/**/test_{n}.py",
            "**/conf{n}.py",
        )
        paths = [kinds[k % len(kinds)].format(n=index * case.patterns + k) for k in range(case.patterns)]
    lines = ["description: one of many", f"when: {{paths: {json.dumps(paths)}}}"]
    lines.append(POD.format(gpus=1 + index % 8, shm=4 + index % 5).rstrip())
    lines.append("steps:")
    for step in range(case.steps):
        lines += [
            f'  - label: "suite {index} step {step}"',
            "    command:",
            *(f"      - ./scripts/step.sh --part {part} --name case-{step}" for part in range(4)),
            f"    expected_minutes: {5 + step}",
            "    env: {MODE: fast, LEVEL: '3'}",
        ]
    return "\n".join(lines) + "\n"


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid", *arguments],
        cwd=directory, env=ENVIRON, check=True, capture_output=True,
    )  # fmt: skip


def make_repository(case: Case, directory: Path) -> None:
    directory.mkdir(parents=True)
    git(directory, "init", "-q", "-b", "main")
    (directory / "bkgen.yml").write_text(SETTINGS)
    for index in range(case.suites):
        suite = directory / "k3_tests" / f"suite{index:04}"
        suite.mkdir(parents=True)
        (suite / "pipeline.yml").write_text(suite_text(case, index))
        (suite / "run.sh").write_text("#!/usr/bin/env bash\nset -euo pipefail\ntrue\n")
        (suite / "run.sh").chmod(0o755)
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "base")
    git(directory, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(directory, "checkout", "-qb", "feature")
    for name in case.changed:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "change")


def seconds(command: Sequence[str], directory: Path) -> tuple[float, bytes]:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=directory, env=ENVIRON, capture_output=True, check=False)
    taken = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)} failed:\n{done.stderr.decode()[-2000:]}")
    return taken, done.stdout


def best(command: Sequence[str], directory: Path, runs: int) -> float:
    return min(seconds(command, directory)[0] for _ in range(runs))


def paired(case: Case, directory: Path, runs: int) -> tuple[float, float]:
    """The best of several, bkgen and floor by turns, so that a busy moment hits both."""
    bkgen = [sys.executable, "-m", "bkgen", *case.command]
    size = len(seconds(bkgen, directory)[1])
    floor = [sys.executable, str(FLOOR), str(size)]
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(runs):
        ours.append(seconds(bkgen, directory)[0])
        theirs.append(seconds(floor, directory)[0])
    return min(ours), min(theirs)


def peak_megabytes(directory: Path) -> float:
    command = [sys.executable, str(PEAK), "upload", "--dry-run", "--json"]
    done = subprocess.run(command, cwd=directory, env=ENVIRON, capture_output=True, check=True)
    return int(done.stderr.split()[-1]) / 1024


def row(name: str, value: str, bar: str, held: bool) -> str:
    return f"{name:<58} {value:>12} {bar:>8}  {'holds' if held else 'MISSED'}"


def measured(runs: int, only: str) -> list[tuple[str, bool]]:
    lines: list[tuple[str, bool]] = []

    def add(name: str, value: str, bar: str, held: bool) -> None:
        lines.append((row(name, value, bar, held), held))
        print(lines[-1][0], flush=True)

    with tempfile.TemporaryDirectory(prefix="bkgen-bench-") as name:
        where = Path(name)
        large = 0.0
        for index, case in enumerate(CASES):
            if only not in case.name:
                continue
            directory = where / f"case{index}"
            make_repository(case, directory)
            ours, floor = paired(case, directory, runs)
            large = ours if case.steps * case.suites == 3000 else large
            add(
                f"{case.name} ({ours * 1000:.0f} ms)",
                f"{ours / floor:.2f} × floor",
                f"{case.bar:g}",
                ours / floor <= case.bar,
            )
            if case.steps * case.suites == 3000:
                peak = peak_megabytes(directory)
                half = where / "half"
                make_repository(HALF, half)
                smaller = best([sys.executable, "-m", "bkgen", *HALF.command], half, runs)
                ratio = large / smaller
                add(
                    "time for 3,000 steps over time for 1,500",
                    f"{ratio:.2f}",
                    f"{GROWTH_BAR:g}",
                    ratio <= GROWTH_BAR,
                )
                add(
                    "peak memory at 3,000 steps",
                    f"{peak:.0f} MB",
                    f"{MEMORY_BAR_MB:g} MB",
                    peak <= MEMORY_BAR_MB,
                )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each, the best counts (5)")
    parser.add_argument("--only", default="", help="only the rows whose name holds this text")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is missed")
    arguments = parser.parse_args()
    print(f"{'case (bkgen, best run)':<58} {'measured':>12} {'bar':>8}")
    lines = measured(arguments.runs, arguments.only)
    missed = sum(not held for _, held in lines)
    print(f"{len(lines) - missed} of {len(lines)} bars hold")
    return 1 if arguments.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
