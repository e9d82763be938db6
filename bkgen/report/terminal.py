"""What a terminal gets beyond plain text: styles, and lines that end where it ends."""

from __future__ import annotations

import textwrap

_CODES = {"bold": "1", "dim": "2", "green": "32", "bold green": "1;32", "bold yellow": "1;33"}


def painted(text: str, style: str) -> str:
    """`text` in a style such as `bold green`; without one it stays as it is."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and style else text


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` characters; a word that is longer is cut, a path at no hyphen."""
    return textwrap.wrap(text, max(width, 1), break_on_hyphens=False) or [""]
