"""The only caller of GitHub's API: which checks does a commit have, and are they green?

checks    pure: from GitHub's JSON to the standing of a named check
address   whom to ask, out of the environment
client    the edge: requests and pages
refusals  what an error of the API means
waiting   bounded polling until all are green
"""

from bkgen.github.checks import Check, Standing, standing
from bkgen.github.client import GitHub
from bkgen.github.refusals import GitHubUnavailable
from bkgen.github.waiting import Patience, wait

__all__ = ["Check", "GitHub", "GitHubUnavailable", "Patience", "Standing", "standing", "wait"]
