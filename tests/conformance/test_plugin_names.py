"""The names of plugins, as the real agents expand them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bkgen.plugin_names import full_name
from conformance.agentcalls import dry_run

pytestmark = pytest.mark.conformance

PIECES = [
    "kubernetes",
    "buildkite-plugins",
    "github.com",
    "-buildkite-plugin",
    "/",
    "/",
    "//",
    "#",
    "?",
    ".",
    "..",
    ":",
    "%6b",
    "%2f",
    "%zz",
    "v1",
    "x",
    "\\",
    "https://",
    ".git",
    "é",
]


def test_every_name_is_expanded_as_the_agent_does(program: Path, tmp_path: Path) -> None:
    choice = random.Random(7)
    made = {"".join(choice.choices([*PIECES, " "], k=choice.randint(1, 6))) for _ in range(1500)}
    names = sorted(made)
    file = tmp_path / "pipeline.json"
    steps = [{"command": "x", "plugins": [{name: {"a": 1}} for name in names]}]
    file.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    done = dry_run(program, file)
    assert done.returncode == 0, done.stderr
    expanded = [name for plugin in json.loads(done.stdout)["steps"][0]["plugins"] for name in plugin]
    assert dict(zip(names, expanded, strict=True)) == {name: full_name(name) for name in names}
