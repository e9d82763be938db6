"""A small repository that `bkgen check --strict` has nothing to say about, to be changed by a test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bkgen.check import Report, check_repository
from bkgen.errors import Diagnostic
from gitrepo import Checkout, Content, Program, _home, environ, repository

SETTINGS = """\
version: 1
policy:
  labels: {long: over 30 minutes}
  cadences:
    nightly: {schedule: true, minus: [long]}
  scopes:
    all: {}
profiles:
  h200: {gpu_resource: nvidia.com/gpu, image: "example.com/ci:1"}
"""
PIPELINE = """\
description: Unit tests.
when:
  paths: [src/**]
pod: {gpus: 1, memory: 8Gi, shm: 1Gi}
steps:
  - label: Unit
    command: ./run.sh
    expected_minutes: 10
  - label: Long
    command: ./run.sh long
    when: {labels: [long]}
    expected_minutes: 40
"""
SCRIPT = "#!/usr/bin/env bash\nset -euo pipefail\npytest\n"
CLEAN: dict[str, Content] = {
    "README.md": "read me\n",
    "bkgen.yml": SETTINGS,
    "src/core.py": "core = 1\n",
    "k3_tests/unit/pipeline.yml": PIPELINE,
    "k3_tests/unit/run.sh": Program(SCRIPT),
}


@cache
def _clean() -> Checkout:
    made = repository(_home() / "check", files=CLEAN)
    made.pack()
    return made


def made(path: Path, files: Mapping[str, Content] | None = None, *, add: bool = True) -> Checkout:
    """The clean repository at `path` with `files` changed (None removes one), added to git's index."""
    shutil.copytree(_clean().path, path, symlinks=True)
    checkout = Checkout(path, environ(path.parent))
    checkout.write(files or {})
    if files and add:
        checkout.git("add", "--all")
    return checkout


def without_git(path: Path, files: Mapping[str, Content] | None = None) -> Path:
    """The same files in a folder that is no repository."""
    path.mkdir(parents=True)
    Checkout(path, environ(path.parent)).write({**CLEAN, **(files or {})})
    return path


def report_of(path: Path) -> Report:
    """What check says of the repository at `path`."""
    return check_repository(path, {"PATH": os.environ["PATH"], "HOME": str(path.parent)})


def checked(
    path: Path, files: Mapping[str, Content] | None = None, *, git: bool = True
) -> tuple[Diagnostic, ...]:
    """What check says of the clean repository with `files` changed.

    Without `git` it is quicker, and what check says of that itself is left out.
    """
    root = made(path, files).path if git else without_git(path, files)
    return tuple(one for one in report_of(root).diagnostics if git or one.code != "check-no-git")


def shown(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    """`severity code file:line:col` of each."""
    return [f"{one.severity} {one.code} {one.position}" for one in diagnostics]
