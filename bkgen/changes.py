"""What changed, as values: a list that is known, or a reason why it is not.

`UnknownChanges` is a type of its own and never an empty list: a failed git call that reads as
"nothing changed" is how systems like this one have skipped the tests of real changes.
"""

from typing import Literal, NamedTuple

Status = Literal["A", "M", "D", "T"]
"""Git's status letters for a comparison without rename detection: added, modified, deleted, type changed."""

REGULAR_MODES = frozenset({"100644", "100755", "000000"})
SUBMODULE = "160000"


def printable(text: str) -> str:
    """`text` for a log: one line, nothing that a terminal would obey, undecodable bytes as `\\xNN`."""
    if text.isprintable():
        return text
    plain = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)


class ChangedFile(NamedTuple):
    """One path that differs from the base.

    `path` is relative to the repository's root, with `/`; bytes that are not UTF-8 are kept as
    surrogate escapes. Modes are git's six octal digits, `000000` where the side does not exist.
    """

    path: str
    status: Status
    old_mode: str = "100644"
    new_mode: str = "100644"

    @property
    def is_special(self) -> bool:
        """A symlink, a submodule, a type change or a mode change: never trivial, whatever its name."""
        return (
            self.old_mode not in REGULAR_MODES
            or self.new_mode not in REGULAR_MODES
            or self.status == "T"
            or (self.status == "M" and self.old_mode != self.new_mode)
        )

    @property
    def is_link(self) -> bool:
        """A symlink or submodule on either side: a rule for the directory of that name matches it, too."""
        return not {self.old_mode, self.new_mode} <= REGULAR_MODES

    @property
    def shown(self) -> str:
        """The path for a log: one line, nothing that a terminal would obey, undecodable bytes as `\\xNN`."""
        return printable(self.path)


class ChangeSet(NamedTuple):
    """The files that differ between `base` and `head` (commit ids; `head` may be `working tree`).

    `description` says in words what was compared with what, for the log and the annotation.
    """

    files: tuple[ChangedFile, ...]
    base: str
    head: str
    description: str


class UnknownChanges(NamedTuple):
    """What changed could not be found out; everything runs, and `reason` says why."""

    reason: str


class ChangesNotAsked(NamedTuple):
    """A schedule, a tag or a build by hand: it runs whatever changed, so git is not asked."""

    reason: str


Changes = ChangeSet | UnknownChanges | ChangesNotAsked
