#!/usr/bin/env python3
"""Writes docs/reference/checks.md: every check of bkgen with its explanation and examples.

.venv/bin/python scripts/generate_checks_page.py            print the page
.venv/bin/python scripts/generate_checks_page.py --write    put it in its place
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bkgen.verify.catalogue import checks_page

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "checks.md"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.name} instead of printing it")
    if parser.parse_args().write:
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        TARGET.write_text(checks_page(), encoding="utf-8")
    else:
        sys.stdout.write(checks_page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
