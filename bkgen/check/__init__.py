"""Everything that can be said of a repository before a build: all problems at once, each with its place.

Settings and suites, the pods and steps they become, their scripts, their patterns against the files there
are, the reach of every label, and the path tables. Nothing is run and nothing is asked but git.
"""

from bkgen.check.checking import Checked, Report, check_repository

__all__ = ["Checked", "Report", "check_repository"]
