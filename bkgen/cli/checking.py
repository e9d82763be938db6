"""`bkgen check` and `bkgen schema`."""

from __future__ import annotations

import json
import os

import click

from bkgen.changes import printable
from bkgen.check import Report, check_repository
from bkgen.cli.facts import find_root, here
from bkgen.errors import Diagnostic


def run_check(*, strict: bool, as_json: bool) -> int:
    """Print every problem of the repository, grouped by file. 1 on errors; with `strict` on warnings, too."""
    report = check_repository(find_root(here()), os.environ)
    if as_json:
        click.echo(_json(report.as_json()))
    else:
        click.echo(shown_report(report), nl=False)
    return 1 if report.errors or (strict and report.warnings) else 0


def shown_report(report: Report) -> str:
    """The problems for people: a block for each file, and at the end how many and what was looked at."""
    blocks = ["\n".join(str(_printable(one)) for one in found) for found in report.by_file().values()]
    return "\n\n".join([*blocks, _summary(report)]) + "\n"


def _printable(diagnostic: Diagnostic) -> Diagnostic:
    """With nothing in it that a terminal would obey: names of files are not always what they should be."""
    place = diagnostic.position
    return diagnostic._replace(
        message=printable(diagnostic.message),
        hint=printable(diagnostic.hint),
        position=place._replace(file=printable(place.file)) if place else None,
    )


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A name that is not UTF-8 cannot be written as it is; JSON's own escapes can say it.
        return json.dumps(value, indent=2)
    return text


def _summary(report: Report) -> str:
    counts = [_counted(report.errors, "error"), _counted(report.warnings, "warning")]
    found = " and ".join(count for count in counts if count) or "no problems"
    silenced = f" ({_counted(report.silenced, 'warning')} silenced)" if report.silenced else ""
    files = len(report.by_file())
    where = f" in {_counted(files, 'file')}" if files else ""
    checked = report.checked
    parts = [
        _counted(checked.suites, "suite") or "no suites",
        _counted(checked.steps, "step"),
        _counted(checked.pods, "pod"),
        _counted(checked.scripts, "script"),
        _counted(checked.patterns, "pattern"),
        _counted(checked.cases, "path case"),
    ]
    looked_at = f"{found}{silenced}{where}; checked {', '.join(part for part in parts if part)}"
    if checked.suites or report.errors:
        return looked_at
    return f"{looked_at}\n  hint: `bkgen new NAME` makes one; tests_dir in bkgen.yml says where suites are"


def _counted(number: int, what: str) -> str:
    if not number:
        return ""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def run_schema(which: str | None) -> None:
    """Print the JSON Schema of one file, or an object with those of all."""
    from bkgen.schema import SCHEMAS

    schemas = {name: make() for name, make in SCHEMAS.items() if which in {None, name}}
    click.echo(json.dumps(schemas[which] if which else schemas, ensure_ascii=False, indent=2))
