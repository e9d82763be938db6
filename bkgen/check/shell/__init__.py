"""A shell script as a tree: enough of bash's grammar to tell a command from a string, a comment or a heredoc.

Nothing is run. What cannot be understood is left out, so a rule on top of this keeps still rather than guess.
"""

from bkgen.check.shell.parser import parse
from bkgen.check.shell.tree import (
    AndOr,
    Branch,
    Compound,
    Document,
    Inside,
    Node,
    Pipeline,
    Script,
    Simple,
    Word,
    and_ors,
    commands,
    functions,
)

__all__ = [
    "AndOr",
    "Branch",
    "Compound",
    "Document",
    "Inside",
    "Node",
    "Pipeline",
    "Script",
    "Simple",
    "Word",
    "and_ors",
    "commands",
    "functions",
    "parse",
]
