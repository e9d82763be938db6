"""Text from the Jinja templates that come with bkgen: setup pages, the upload step's file, new suites.

Templates are bkgen's own, never a checkout's, and what a value says is never read as a template. Two filters
make any text safe in Markdown: `line` (a line of text) and `code` (a code span), both also in a table's cell.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import FileSystemLoader, StrictUndefined, TemplateNotFound, select_autoescape
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bkgen.errors import BkgenError

INSTALLED = Path(__file__).with_name("_templates")
"""Where a wheel puts them (see pyproject.toml)."""
SOURCE = Path(__file__).parent.parent / "templates"
"""Where they are in the source tree."""


def render(name: str, /, **values: object) -> str:
    """The template `name` (a path below templates/) filled in; a value that is missing is an error.

    Values in `*.html.j2` are escaped for HTML; in every other template they stand as they are.
    """
    try:
        template = _environment().get_template(name)
    except TemplateNotFound:
        raise BkgenError(
            f"this installation of bkgen lacks the template '{name}'\n  hint: install it from its wheel again"
        ) from None
    return template.render(values)


def names() -> list[str]:
    """Every template's name, in order."""
    return _environment().list_templates(extensions=["j2"])


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(INSTALLED if INSTALLED.is_dir() else SOURCE),
        undefined=StrictUndefined,
        autoescape=select_autoescape(("html.j2",), default=False, default_for_string=False),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(line=line, code=code)
    return environment


def line(text: str) -> str:
    """`text` on one line, with nothing in it that begins HTML or ends a table's cell."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def code(text: str) -> str:
    """`text` as a code span on one line."""
    plain = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", plain)), default=0) + 1)
    return f"{fence} {plain} {fence}" if "`" in plain or not plain else f"{fence}{plain}{fence}"
