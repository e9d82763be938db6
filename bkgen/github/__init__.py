"""The only caller of GitHub's API: which checks does a commit have, and are they green?

checks   pure: from GitHub's JSON to the standing of a named check
client   the edge: requests, pages, rate limits
waiting  bounded polling until all are green
"""

from bkgen.github.checks import Check, Standing, standing
from bkgen.github.client import GitHub, GitHubUnavailable
from bkgen.github.waiting import Patience, wait

__all__ = ["Check", "GitHub", "GitHubUnavailable", "Patience", "Standing", "standing", "wait"]
