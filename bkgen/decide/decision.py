"""The answer for one suite or step, with everything needed to explain it."""

from typing import Literal, NamedTuple

Verdict = Literal["RUN", "SKIP"]

RULES: dict[str, str] = {
    "not-named": "others are named, on the command line or in BKGEN_ONLY",
    "named": "named for rendering",
    "not-admitted": "not admitted by labels, cadence or forks",
    "no-question": "schedule, tag, or started by hand: relevance is not asked",
    "force-label": "the force label is on the pull request",
    "changes-unknown": "what changed could not be found out",
    "changes-empty": "nothing changed at all",
    "force-run": "a changed file forces everything to run",
    "unclaimed": "no suite's paths match a changed file, and filter.unclaimed says that this runs",
    "own-directory": "a changed file lies in the suite's own directory",
    "only-trivial": "every changed file is trivial or belongs to another suite",
    "paths-match": "a changed file matches the paths",
    "paths-miss": "no changed file matches the paths",
    "default": "a changed file is not trivial, and nothing narrows the suite",
    "needed": "another step that runs depends on it",
    "dependency-refused": "it depends on something that may not run in this build",
}
"""Every rule by its code, in the order in which they are asked."""


class Evidence(NamedTuple):
    """What a decision rests on; empty where the rule needs none."""

    files: tuple[str, ...] = ()
    pattern: str | None = None
    labels: tuple[str, ...] = ()
    field: tuple[str | int, ...] = ()
    source: str = ""
    """Where `field` stands: the suite's file, `bkgen.yml`, or the build's environment."""

    def as_json(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "files": list(self.files),
            "pattern": self.pattern,
            "labels": list(self.labels),
            "field": list(self.field),
            "source": self.source,
        }


class Decision(NamedTuple):
    """RUN or SKIP; `rule` decided, `reason` says it in a sentence, `remedy` what would turn it round."""

    verdict: Verdict
    rule: str
    reason: str
    evidence: Evidence
    remedy: str

    @property
    def runs(self) -> bool:
        """The verdict is RUN."""
        return self.verdict == "RUN"

    def as_json(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "verdict": self.verdict,
            "rule": self.rule,
            "reason": self.reason,
            "evidence": self.evidence.as_json(),
            "remedy": self.remedy,
        }


class RuleOutcome(NamedTuple):
    """One rule, asked about one suite: what it said, or None where it did not apply."""

    rule: str
    title: str
    decision: Decision | None
    note: str
