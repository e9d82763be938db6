"""Every rule of verification with its explanation and two examples, and the page made of them."""

from __future__ import annotations

import json

from bkgen.verify.catalogue import (
    containers,
    environment,
    pipeline,
    resources,
    scheduling,
    security,
    shape,
    step,
    volumes,
)
from bkgen.verify.catalogue.rule import About, Rule, as_steps

__all__ = ["About", "Rule", "as_steps", "checks_page", "rules", "subjects"]


def subjects() -> tuple[tuple[str, tuple[Rule, ...]], ...]:
    """The rules by subject, in the order of the page."""
    return (
        ("Keys, types and the plugin", shape.RULES),
        ("Containers, commands and images", containers.RULES),
        ("CPU, memory and devices", resources.RULES),
        ("Volumes and mounts", volumes.RULES),
        ("Scheduling and patches", scheduling.RULES),
        ("Environment, secrets and dollars", environment.RULES),
        ("Forks", security.RULES),
        ("Steps", step.RULES),
        ("The whole build", pipeline.RULES),
    )


def rules() -> tuple[Rule, ...]:
    """All rules."""
    return tuple(rule for _, group in subjects() for rule in group)


_INTRODUCTION = """\
# Checks

Everything that leaves bkgen passes these rules, compact pods and native ones alike. An error stops the
upload: the API server, the controller or Buildkite would refuse the step, or the test would not do what was
asked. A warning is a likely mistake; a suite can silence it by its code, with a reason.

This page is made from the rules themselves. Each example is run by the tests: the first one of a rule fails
with its code, the second passes. Examples are cut down to the piece they are about.
"""
_PIECES: dict[About, str] = {
    "container": "in a command container",
    "mount": "in a volumeMount",
    "volume": "in a volume that is mounted",
    "podSpec": "in podSpec",
    "plugin": "in the kubernetes plugin",
    "step": "in a command step",
    "steps": "as the steps of a build",
}
_SHOWN = 300


def checks_page() -> str:
    """The documentation page, Markdown."""
    parts = [_INTRODUCTION, _table()]
    for title, group in subjects():
        parts.append(f"## {title}\n")
        parts += [_section(rule) for rule in group]
    return "\n".join(parts)


def _table() -> str:
    rows = ["| code | severity | what |", "|---|---|---|"]
    rows += [f"| [`{rule.code}`](#{rule.code}) | {rule.severity} | {rule.title} |" for rule in rules()]
    return "\n".join(rows) + "\n"


def _section(rule: Rule) -> str:
    lines = [f"### {rule.code}", "", f"**{rule.severity}** · {rule.title}", "", rule.explanation, ""]
    if rule.settings:
        given = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in rule.settings.items())
        lines += [f"The examples are judged with {given}.", ""]
    if rule.interpolate:
        lines += ["In a file with `interpolate: true`.", ""]
    for word, example in (("Fails", rule.failing), ("Passes", rule.passing)):
        lines += [f"{word}, {_PIECES[rule.about]}:", "", "```yaml", _shortened(example), "```", ""]
    return "\n".join(lines)


def _shortened(example: str) -> str:
    # Some examples are about size, and nobody reads 120 KiB.
    return "\n".join(
        line if len(line) <= _SHOWN else f"{line[:40]}…{line[-20:]}" for line in example.splitlines()
    )
