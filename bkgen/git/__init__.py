"""Git: what changed, and files as they are at a revision.

The only part of bkgen that runs git. It reads; the one thing it writes is the remote-tracking ref of a
pull request's base branch, and the objects that come with it.
"""

from bkgen.git.command import GitFault
from bkgen.git.repository import Repository

__all__ = ["GitFault", "Repository"]
