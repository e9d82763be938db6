"""Path patterns as .gitignore has them, and many lists of them against one list of changed files.

A list is read from its end: the last pattern that matches decides, and `!` takes away. Anchoring, `*`,
`**` and brackets are git's (gitignore(5)). Five things differ on purpose:

- each pattern is judged on the full path alone: what lies below a directory that a pattern took away can
  be brought back, and what lies below one that it matched can be taken away;
- a leading `./` names the root: `./docs/**` is `/docs/**` (in git it matches nothing);
- a path is text: `?` and a bracket stand for one character, where git's stand for one byte;
- `a**/b` is `a*/b`, as git's manual has it (git itself takes that `**` for any directories);
- a symlink or submodule counts as a directory of its name, so that `vendor/lib/**` matches a submodule
  that changed at `vendor/lib`.

Paths are relative to the root, with `/`, as git prints them; bytes that are not UTF-8 are surrogate
escapes. Letter case always counts.
"""

from bkgen.globs.faults import PatternFault, faults
from bkgen.globs.matching import Paths, Patterns, reaches_below

__all__ = ["Paths", "PatternFault", "Patterns", "faults", "reaches_below"]
