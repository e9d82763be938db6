"""The least that a program like bkgen has to do: its imports, its git calls, its parsing, its JSON.

Argument: how many bytes of JSON to dump.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click  # noqa: F401 - imported for what the import costs
import git
import yaml
from pydantic import BaseModel  # noqa: F401 - the package alone loads nothing


def main() -> None:
    """Do it once in the current directory."""
    run = git.Git(".").execute
    for arguments in (
        ["rev-parse", "--show-toplevel"],
        ["rev-parse", "--verify", "HEAD"],
        ["merge-base", "HEAD", "refs/remotes/origin/main"],
        ["diff", "--raw", "-z", "--no-renames", "refs/remotes/origin/main"],
    ):
        run(["git", *arguments])
    documents = [yaml.load(Path("bkgen.yml").read_bytes(), yaml.CSafeLoader)]
    suites = sorted(Path("k3_tests").glob("*/pipeline.yml"))
    documents += [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in suites]
    size = int(sys.argv[1])
    step = {
        "label": "suite 0 step 0",
        "command": ["one", "two"],
        "env": {"MODE": "fast"},
        "timeout_in_minutes": 10,
    }
    one = len(json.dumps(step, ensure_ascii=False))
    sys.stdout.write(json.dumps([step] * (size // one + 1), ensure_ascii=False))


main()
