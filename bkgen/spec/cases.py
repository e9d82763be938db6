"""A path table: changes, and the suites that they should run. `check` puts each case to the real decision."""

import posixpath
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, RootModel

from bkgen.spec.types import Boolean, Spec, Text
from bkgen.spec.types import _listed as listed

FILE = "paths.test.yml"
"""Its name, in the directory of the suites."""

Source = Literal["webhook", "api", "ui", "trigger_job", "schedule", "local"]
"""What starts a build: the same words as `bkgen.build.SOURCES`."""

_Names = Annotated[tuple[Text, ...], BeforeValidator(listed)]


def _file(path: str) -> str:
    """`path` as git writes it. ValueError for what can be no changed file of the repository."""
    if path.startswith("/"):
        raise ValueError(f"'{path}' starts at the root of the disk, not at the repository's")
    below = posixpath.normpath(path)
    if not path or path.endswith("/") or below in {".", ".."} or below.startswith("../"):
        raise ValueError(f"'{path}' is no file of the repository")
    return below


_Files = Annotated[tuple[Annotated[Text, AfterValidator(_file)], ...], BeforeValidator(listed)]


class PathCase(Spec):
    """One change and what it should run; everything else should be skipped."""

    name: Text = ""
    """What the case shows, for the report."""
    changed: _Files = ()
    """The files that changed, relative to the repository's root."""
    labels: _Names = ()
    """The pull request's labels, prefix included."""
    cadence: Text | None = None
    """The cadence, as BKGEN_CADENCE names it."""
    source: Source = "local"
    """What started the build; absent, it decides as a pull request does."""
    branch: Text = ""
    """The branch that is built; with `source: webhook` a push to it."""
    fork: Boolean = False
    """The pull request is a fork's."""
    runs: _Names
    """The suites that run, in any order; an empty list for none."""


class PathTable(RootModel[tuple[PathCase, ...]]):
    """`paths.test.yml`: a list of cases."""
