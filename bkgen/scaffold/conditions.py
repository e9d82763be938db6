"""What admits a suite, as a conditional of Buildkite's: for pipelines that are to start no idle build.

Source of the syntax: Buildkite's documentation of conditionals. The condition may let a build pass that bkgen
then skips, and never holds one back that bkgen would run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from bkgen.decide.policy import REGULAR, widening_labels
from bkgen.spec.settings import PolicySettings
from bkgen.spec.when import When


def condition(when: When, policy: PolicySettings) -> str | None:
    """The condition under which a push or pull request is admitted by `when`; None where every one is."""
    if REGULAR in when.cadence and not when.labels:
        return None
    if REGULAR in when.cadence:
        labels = [*widening_labels(policy, when.labels), *_cadence_labels(when.labels, policy)]
        return _labels_or_branches(labels, when.branches, policy.label_prefix)
    asked = [body.label for name, body in policy.cadences.items() if name in when.cadence and body.label]
    return _any_of(asked, policy.label_prefix) if asked else "false"


def _cadence_labels(labels: Iterable[str], policy: PolicySettings) -> list[str]:
    wanted = set(labels)
    return [body.label for body in policy.cadences.values() if body.label and wanted - set(body.minus)]


def _labels_or_branches(labels: list[str], branches: Iterable[str], prefix: str) -> str:
    by_label = _any_of(labels, prefix)
    by_branch = _branches(branches)
    return f"{by_label} || {by_branch}" if by_branch else by_label


def _any_of(labels: Iterable[str], prefix: str) -> str:
    # A label counts without its prefix, too.
    forms = [form for label in labels for form in (label, label.removeprefix(prefix))]
    return " || ".join(f"build.pull_request.labels includes {_text(form)}" for form in dict.fromkeys(forms))


def _branches(patterns: Iterable[str]) -> str:
    found = ""
    for pattern in patterns:
        if not pattern.startswith("!"):
            found = f"{found} || {_branch(pattern)}" if found else _branch(pattern)
        elif found:
            found = f"(({found}) && !({_branch(pattern[1:])}))"
    return found


def _branch(pattern: str) -> str:
    if not re.search(r"[*?[]", pattern):
        return f"build.branch == {_text(pattern)}"
    return f"build.branch =~ /^{_expression(pattern)}$/"


def _expression(pattern: str) -> str:
    """The regular expression of a shell pattern; a bracket becomes any character, which is wide enough."""
    tokens = re.findall(r"\*|\?|\[!?\]?[^\]]*\]|.", pattern, re.DOTALL)
    wide = {"*": ".*", "?": "."}
    return "".join(
        wide.get(token) or ("." if len(token) > 1 else re.escape(token).replace("/", "\\/"))
        for token in tokens
    )


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
