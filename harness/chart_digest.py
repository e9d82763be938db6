"""Finds the SHA-256 that a Helm repository's index names for one version of a chart.

    chart_digest.py INDEX NAME VERSION

INDEX is a copy of the repository's index.yaml. Prints the digest in lower case, or an empty line where the
index lists the version without one. A leading "v" of a version does not matter, as for Helm.

Exit status: 0, 1 when the index cannot be read or does not list that version, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

try:
    import yaml
except ModuleNotFoundError:
    sys.exit(
        "chart_digest.py: this Python has no PyYAML\n  hint: install python3-yaml, or PYTHON=/path/to/python3"
    )

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class IndexFault(Exception):
    """The index is none, or lacks what is looked for; the text says which."""


def digest_of(index: object, name: str, version: str) -> str:
    """The digest of that version, "" where it has none; raises `IndexFault` for one that is not listed."""
    entries = index.get("entries") if isinstance(index, dict) else None
    charts = entries.get(name) if isinstance(entries, dict) else None
    if not isinstance(charts, list):
        raise IndexFault(f"has no chart '{name}'")
    for chart in charts:
        if isinstance(chart, dict) and str(chart.get("version")).removeprefix("v") == version.removeprefix(
            "v"
        ):
            digest = str(chart.get("digest") or "").lower().removeprefix("sha256:")
            if digest and not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise IndexFault(f"has '{digest}' for {name} {version}, which is no SHA-256")
            return digest
    raise IndexFault(f"has no {name} {version}")


def main(arguments: list[str] | None = None) -> int:
    """Reads, finds, prints; see the module's text for the exit status."""
    parser = argparse.ArgumentParser(description="Prints the SHA-256 of a chart from its repository's index.")
    parser.add_argument("index", type=Path, help="a copy of the repository's index.yaml")
    parser.add_argument("name")
    parser.add_argument("version")
    args = parser.parse_args(arguments)
    try:
        index = yaml.load(args.index.read_bytes(), Loader=LOADER)  # noqa: S506 - a safe loader
        sys.stdout.write(f"{digest_of(index, args.name, args.version)}\n")
    except (OSError, ValueError, yaml.YAMLError, IndexFault) as error:
        words = " ".join(str(error).split())
        sys.stderr.write(
            f"chart_digest.py: {args.index}: {words}\n  hint: is it the repository's index.yaml?\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
