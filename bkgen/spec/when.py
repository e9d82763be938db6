"""`when`: which builds a file, a group or a step is for."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from bkgen.spec.types import Boolean, Name, Patterns, Spec, Text
from bkgen.spec.types import _listed as listed


def _admitting(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if patterns and all(pattern.startswith("!") for pattern in patterns):
        raise ValueError("a list with only '!' patterns admits no branch")
    return patterns


class When(Spec):
    """Which builds something is for."""

    paths: Patterns | None = None
    """.gitignore patterns; the last match wins. Absent: any change that is not trivial."""
    include_trivial: Boolean = False
    """Trivial files count, too (a suite that tests the docs)."""
    labels: Annotated[tuple[Text, ...], BeforeValidator(listed), Field(min_length=1)] = ()
    """Labels of which the pull request must carry one, or a scope or cadence must grant one."""
    branches: Annotated[tuple[Name, ...], BeforeValidator(listed), AfterValidator(_admitting)] = ()
    """Branch patterns whose pushes are admitted without a label."""
    cadence: Annotated[tuple[Text, ...], BeforeValidator(listed), Field(min_length=1)] = ("regular",)
    """Absent, or `regular` alone: every build. Otherwise only builds of the cadences in the list, in which
    `regular` stands for builds without a cadence."""
    forks: Boolean | None = None
    """`false`: never for a fork's pull request."""

    @property
    def only_cadences(self) -> frozenset[str] | None:
        """The cadences whose builds it is for; None: every build, as a full cadence runs what is regular."""
        named = frozenset(self.cadence)
        return None if named == {"regular"} else named
