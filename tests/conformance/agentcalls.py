"""One call of the real agent's dry run, and what the agent makes of a document by its published rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STRICT = {
    "BUILDKITE_AGENT_PIPELINE_UPLOAD_REJECT_PARSE_WARNINGS": "true",
    "BUILDKITE_AGENT_PIPELINE_UPLOAD_REJECT_SECRETS": "true",
}


def dry_run(
    program: Path,
    file: Path,
    *,
    interpolate: bool = False,
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """`pipeline upload --dry-run` of a file; it needs a token, although nothing is sent."""
    flags = [] if interpolate else ["--no-interpolation"]
    return subprocess.run(
        [str(program), "pipeline", "upload", "--dry-run", "--format", "json", *flags, str(file)],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(file.parent),
            "BUILDKITE_AGENT_ACCESS_TOKEN": "x",
            **(environ or {}),
        },
        cwd=file.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def read_back(
    program: Path, file: Path, document: bytes, *, interpolate: bool = False, **environ: str
) -> Any:
    """What the agent would upload for `document`; warnings and secrets are refused."""
    file.write_bytes(document)
    done = dry_run(program, file, interpolate=interpolate, environ={**STRICT, **environ})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_the_agent_writes(document: dict[str, Any]) -> dict[str, Any]:
    """`document` in the form into which the agent brings every pipeline, meaning unchanged.

    Commands become one text, plugin names get their full address, and what is text by definition
    becomes text. Nothing else may differ.
    """
    written = {**document, "steps": [_step(step) for step in document["steps"]]}
    if "env" in written:
        written["env"] = _texts(written["env"])
    return written


def _step(step: Any) -> Any:
    if not isinstance(step, dict):
        return step
    if "group" in step:
        return {**step, "steps": [_step(inner) for inner in step["steps"]]}
    if not {"command", "commands", "plugins"} & step.keys():
        return step
    written = {name: value for name, value in step.items() if name != "commands"}
    command = step.get("commands", step.get("command", []))
    written["command"] = "\n".join(command) if isinstance(command, list) else command
    if "env" in step:
        written["env"] = _texts(step["env"])
    if "plugins" in step:
        written["plugins"] = [_plugin(plugin) for plugin in step["plugins"]]
    if "matrix" in step:
        written["matrix"] = _matrix(step["matrix"])
    return written


def _plugin(plugin: Any) -> dict[str, Any]:
    named = {plugin: None} if isinstance(plugin, str) else plugin
    return {_full_source(name): config or None for name, config in named.items()}


def _full_source(name: str) -> str:
    if "/" in name or name.startswith("."):
        return name
    base, mark, version = name.partition("#")
    return f"github.com/buildkite-plugins/{base}-buildkite-plugin{mark}{version}"


def _matrix(matrix: Any) -> Any:
    if isinstance(matrix, list):
        return [_text(element) for element in matrix]
    setup = matrix["setup"]
    written = {**matrix, "setup": _matrix(setup) if isinstance(setup, list) else _lists(setup)}
    if "adjustments" in matrix:
        written["adjustments"] = [
            {**one, "with": _texts(one["with"]) if isinstance(one["with"], dict) else _text(one["with"])}
            for one in matrix["adjustments"]
        ]
    return written


def _lists(setup: dict[str, list[Any]]) -> dict[str, list[str]]:
    return {dimension: [_text(element) for element in elements] for dimension, elements in setup.items()}


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
