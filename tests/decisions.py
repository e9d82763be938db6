"""Builders for pure decisions: no git, no files, no agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bkgen.build import Build
from bkgen.changes import ChangedFile, Changes, ChangeSet, ChangesNotAsked, UnknownChanges
from bkgen.config.load import load_configuration
from bkgen.decide.facts import Selection, gather
from bkgen.plan.planned import Plan
from bkgen.plan.planning import make_plan
from bkgen.spec.settings import Settings
from bkgen.spec.suite import Suite, SuiteSpec
from bkgen.yamlio import Document


class Files:
    """A tree of files in memory."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self.files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def entries(self, directory: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in self.files:
            if path.startswith(f"{directory}/"):
                name, slash, _ = path[len(directory) + 1 :].partition("/")
                found[name] = "040000" if slash else "100755"
        return dict(sorted(found.items()))


def settings(**values: Any) -> Settings:
    return Settings.model_validate(values)


def suite(name: str = "unit", **values: Any) -> Suite:
    """A suite of one plain step, unless `steps` says otherwise; None for a file without the key."""
    spec = {"steps": [{"command": "./run.sh", "label": "it"}], **values}
    if spec["steps"] is None:
        del spec["steps"]
    directory = f"k3_tests/{name}"
    return Suite(
        name, directory, SuiteSpec.model_validate(spec), Document(f"{directory}/pipeline.yml", "", spec)
    )


def loaded(files: Mapping[str, str]) -> tuple[Suite, ...]:
    """Suites of text: `{"unit": "steps: …"}`."""
    tree = {f"k3_tests/{name}/pipeline.yml": text for name, text in files.items()}
    tree |= {f"k3_tests/{name}/run.sh": "" for name in files}
    return load_configuration(Files(tree)).suites


def changed(*paths: str | ChangedFile) -> ChangeSet:
    files = tuple(path if isinstance(path, ChangedFile) else ChangedFile(path, "M") for path in paths)
    return ChangeSet(files, "base", "head", "base and head")


def pull_request(**facts: Any) -> Build:
    known = {"source": "webhook", "branch": "feature", "pull_request": 7, "base_branch": "main"}
    return Build(**{**known, **facts})


def plan(
    suites: Iterable[Suite],
    changes: Changes | Sequence[str] = ("src/core.py",),
    *,
    build: Build | None = None,
    given: Settings | None = None,
    selection: Selection | None = None,
) -> Plan:
    listed = tuple(suites)
    found = (
        changes if isinstance(changes, (ChangeSet, UnknownChanges, ChangesNotAsked)) else changed(*changes)
    )
    facts = gather(build or pull_request(), given or Settings(), listed, found, selection or Selection())
    return make_plan(listed, facts)


def verdicts(made: Plan) -> dict[str, str]:
    """`{"unit": "RUN paths-match"}`."""
    return {p.suite.name: f"{p.decision.verdict} {p.decision.rule}" for p in made.suites}


def step_verdicts(made: Plan) -> dict[str, str]:
    return {s.key: f"{s.decision.verdict} {s.decision.rule}" for p in made.suites for s in p.steps}
