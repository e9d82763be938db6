#!/usr/bin/env python3
"""Writes the pages of docs/reference that are made from the program itself.

usage: docs/generate.py [--check]

With --check nothing is written: it says which pages are out of date, and ends with 1 if there are any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from policy_table import policy_page

from bkgen.check.catalogue import groups
from bkgen.cli.commands import bkgen
from bkgen.cli.entry import BUG, INTERRUPTED
from bkgen.errors import EnvironmentFailure, UsageError, UserError
from bkgen.schema import paths_schema, settings_schema, suite_schema
from bkgen.verify.catalogue import checks_page

REFERENCE = Path(__file__).resolve().parent / "reference"
NOTE = "<!-- Made by docs/generate.py from the program; change it there, then run ./dev docs. -->\n"
Schema = Mapping[str, Any]

SUITE_INTRODUCTION = """\
# pipeline.yml

A suite's `pipeline.yml` is a Buildkite pipeline with a few words more: `when`, `pod`, `shards`,
`expected_minutes` and `mirrors`. Every attribute of Buildkite keeps its name, its type and its place.

Keys that begin with `x-` are yours, at the top of the file: a place for anchors. An unknown key anywhere else
is an error. Text may be written without quotes, and stays as it is written: `1.10`, `on` and `012` are no
numbers and no booleans where text is asked for. `bkgen schema suite` prints all this for an
[editor](../how-to/editor.md).
"""
SETTINGS_INTRODUCTION = """\
# bkgen.yml

The settings of a repository stand in `bkgen.yml` at its root. Every key has a default, and the file may be
absent. Keys that begin with `x-` are yours, at the top of the file. `bkgen schema settings` prints all this
for an [editor](../how-to/editor.md).
"""
PATHS_INTRODUCTION = """\
# paths.test.yml

A list of cases in the directory of the suites: a change, and the suites that it runs. `bkgen check` puts each
case to the real decision and reports every suite that is missing and every one too many, with the rule that
decided. `bkgen plan --changed FILE… --label LABEL --as-case` prints one to paste.

```yaml
- name: documentation alone runs nothing
  changed: [docs/index.md]
  runs: []
- name: the core runs the unit tests
  changed: [src/core.py]
  labels: [run-ci-long]
  runs: [unit]
```
"""
PROBLEMS_INTRODUCTION = """\
# Problems

What `bkgen check` says of files, scripts, patterns, labels and path tables, and what loading and planning say
in every command. What is said of the steps and pods that come out is on the page [checks](checks.md).

An error ends the command with 1. A warning does so under `--strict` only, and a suite can silence it by its
code, with a reason:

```yaml
silence:
  script-inner-wait: the engine always answers within a minute; the long wait is for a cold cache
```
"""
EXIT_CODES = f"""\
# Exit codes

Every command of bkgen ends with one of these. A traceback is never the answer to a mistake in a file.

| code | meaning | what to do |
|--:|---|---|
| 0 | All is well. For `upload` that includes a build in which nothing had to run. | nothing |
| {UserError.exit_code} | Something must be mended; each problem has its place and a hint. | mend it |
| {UsageError.exit_code} | The command line is wrong, or names no suite or step. | `--help` |
| {BUG} | A bug in bkgen; the traceback is for the report. | report it |
| {EnvironmentFailure.exit_code} | Git, the agent, the network or the cluster failed. | retry |
| {INTERRUPTED} | Interrupted, by Ctrl-C or by a job that was cancelled. | nothing |

`check` ends with {UserError.exit_code} on errors, and with `--strict` on warnings, too.
An upload step may retry on {EnvironmentFailure.exit_code} alone: nothing else changes by itself.
"""


def pages() -> dict[str, str]:
    """Every generated page by its file's name."""
    return {
        "suite.md": NOTE + SUITE_INTRODUCTION + schema_page(suite_schema(), "The file"),
        "settings.md": NOTE + SETTINGS_INTRODUCTION + schema_page(settings_schema(), "The file"),
        "paths.md": NOTE + PATHS_INTRODUCTION + schema_page(paths_schema(), "The file"),
        "commands.md": NOTE + commands_page(),
        "policy.md": NOTE + policy_page(),
        "problems.md": NOTE + PROBLEMS_INTRODUCTION + problems_page(),
        "checks.md": checks_page(),
        "exit-codes.md": NOTE + EXIT_CODES,
    }


# -- schemas -------------------------------------------------------------------------------------------------


def schema_page(schema: Schema, title: str) -> str:
    """A table of keys for the root and for each definition, in the order in which they are met."""
    parts = []
    if "properties" in schema:
        parts.append(f"\n## {title}\n\n{_table(schema)}")
    for name in _in_order(schema):
        body = schema["$defs"][name]
        parts.append(f"\n## {name}\n\n{body.get('description', '')}\n\n{_table(body)}")
    return "".join(parts)


def _in_order(schema: Schema) -> list[str]:
    found: list[str] = []
    waiting = [_references({key: value for key, value in schema.items() if key != "$defs"})]
    while waiting:
        for name in waiting.pop(0):
            if name not in found:
                found.append(name)
                waiting.append(_references(schema["$defs"][name]))
    return found


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else []
        return own + [name for value in node.values() for name in _references(value)]
    return [name for item in node for name in _references(item)] if isinstance(node, list) else []


def _table(schema: Schema) -> str:
    required = schema.get("required", ())
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key, body in schema["properties"].items():
        default = "required" if key in required else _default(body)
        rows.append(f"| `{key}` | {_cell(takes(body))} | {_cell(default)} | {_cell(body['description'])} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(body: Schema) -> str:
    value = body.get("default")
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def takes(body: Schema) -> str:
    """What a place takes, in words."""
    return " or ".join(dict.fromkeys(_forms(body))) or "anything"


def _forms(body: Schema) -> Iterator[str]:
    if "$ref" in body:
        name = body["$ref"].rsplit("/", 1)[1]
        yield f"[{name}](#{name.lower()})"
    elif "enum" in body:
        yield "one of " + ", ".join(f"`{value}`" if value else "nothing" for value in body["enum"])
    elif "const" in body:
        yield f"`{str(body['const']).lower() if isinstance(body['const'], bool) else body['const']}`"
    elif "anyOf" in body or "oneOf" in body:
        for form in body.get("anyOf") or body["oneOf"]:
            yield from _forms(form)
    else:
        yield from _plain_forms(body)


def _plain_forms(body: Schema) -> Iterator[str]:
    kind = body.get("type")
    if isinstance(kind, list):
        yield "text" if "string" in kind else "anything"
    elif kind == "array":
        items = list(dict.fromkeys(_forms(body.get("items", {}))))
        inner = " or ".join(items) or "anything"
        yield f"list of ({inner})" if len(items) > 1 else f"list of {inner}"
    elif kind == "object":
        if "properties" in body:
            return  # a step's old nested form, `wait: {…}`: understood, and not worth a place in the table
        values = body.get("additionalProperties")
        inner = " or ".join(dict.fromkeys(_forms(values))) if isinstance(values, dict) else ""
        yield f"map of {inner or 'anything'}"
    elif kind in {"integer", "number"}:
        yield _number(kind, body)
    elif kind == "boolean":
        yield "true or false"


def _number(kind: str, body: Schema) -> str:
    name = "whole number" if kind == "integer" else "number"
    low, high = body.get("minimum"), body.get("maximum")
    if low is not None and high is not None:
        return f"{name} from {low} to {high}"
    if low is not None:
        return f"{name} from {low} on"
    return f"{name} above {body['exclusiveMinimum']}" if "exclusiveMinimum" in body else name


# -- commands ------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options, from the command line itself."""
    parts = ["# Commands\n", f"\n{bkgen.help}\n"]
    parts.append(
        "\nStandard output carries the product only; what is said to a person goes to standard error.\n"
    )
    with click.Context(bkgen, info_name="bkgen") as parent:
        for name in bkgen.list_commands(parent):
            command = bkgen.get_command(parent, name)
            if command is not None and not command.hidden:
                parts += _command(
                    command, f"bkgen {name}", click.Context(command, info_name=name, parent=parent)
                )
    return "".join(parts)


def _command(command: click.Command, name: str, context: click.Context) -> Iterator[str]:
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"\n## {name}\n\n```\n{usage}\n```\n\n{_paragraphs(command.help or '')}\n"
    options = [
        one for one in command.get_params(context) if isinstance(one, click.Option) and one.name != "help"
    ]
    if options:
        yield "\n| option | meaning |\n|---|---|\n"
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            yield f"| `{_cell(record[0])}` | {_cell(record[1])} |\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from _command(
                    found, f"{name} {inner}", click.Context(found, info_name=inner, parent=context)
                )


def _paragraphs(text: str) -> str:
    lines = [line.strip() for line in text.replace("\b", "").strip().splitlines()]
    blocks = ["\n".join(block) for filled, block in groupby(lines, key=bool) if filled]
    return "\n\n".join(blocks)


# -- problems ------------------------------------------------------------------------------------------------


def problems_page() -> str:
    """A table of each subject, then the codes one by one."""
    parts = []
    for title, codes in groups():
        parts.append(f"\n## {title}\n")
        parts += [
            f"\n### {code.code}\n\n**{code.severity}** · {code.title}\n\n{code.explanation}\n"
            for code in codes
        ]
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check compare them."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(__doc__ or "")
        return 0 if arguments in (["-h"], ["--help"]) else 2
    stale = []
    for name, text in pages().items():
        page = REFERENCE / name
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not arguments:
            REFERENCE.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    for name in stale:
        sys.stderr.write(f"docs/reference/{name}: {'out of date' if arguments else 'written'}\n")
    if stale and arguments:
        sys.stderr.write("  hint: ./dev docs writes them anew\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
