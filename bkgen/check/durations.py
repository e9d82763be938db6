"""Files of test durations that shards name: without one, pytest-split counts every test alike."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from bkgen.check.files import Disk
from bkgen.errors import Diagnostic, dotted
from bkgen.spec.references import walk
from bkgen.spec.steps import CommandStep
from bkgen.spec.suite import Suite


def duration_problems(suites: Iterable[Suite], disk: Disk) -> Iterator[Diagnostic]:
    """Each `shards.durations` whose file is not in the suite's directory, or on this disk alone."""
    for suite in suites:
        for path, step in walk(suite):
            if not isinstance(step, CommandStep) or step.shards is None or step.shards.durations is None:
                continue
            file = posixpath.normpath(f"{suite.directory}/{step.shards.durations}")
            if not disk.is_file(file):
                fault, hint = f"there is no {file}", "record one and add it to git, or drop durations"
            elif disk.is_ignored(file):
                fault, hint = f"git ignores {file}, so no build has it", "take it out of .gitignore"
            else:
                continue
            place = (*path, "shards", "durations")
            position = suite.source.position(place, of_key=False)
            yield Diagnostic("shards-durations-missing", fault, hint, position, dotted(place))
