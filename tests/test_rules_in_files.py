"""Each rule, met in a suite's own file, names that file with line and column; its passing twin loads."""

from __future__ import annotations

import json

import pytest
import yaml

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import load_configuration
from bkgen.decide.facts import Selection
from bkgen.errors import Diagnostic, UserError
from bkgen.generate.phases import generate
from bkgen.verify.catalogue import Rule, as_steps, rules
from decisions import Files

FILE = "k3_tests/unit/pipeline.yml"
# A suite of several steps is a group, so a wait of one suite never stands outside a group.
ELSEWHERE = {"wait-conditional"}
FROM_SETTINGS = [
    rule for rule in rules() if not set(rule.settings) - {"host_paths", "fork"} and rule.code not in ELSEWHERE
]


def met(rule: Rule, example: str) -> list[Diagnostic]:
    """Everything that is said of a suite made of `example`, whoever says it: reader, plan or verification."""
    steps = as_steps(rule.about, yaml.safe_load(example))
    text = json.dumps({"interpolate": rule.interpolate, "steps": steps}, indent=2)
    files = {FILE: text, "k3_tests/unit/run.sh": "", "bkgen.yml": json.dumps(_settings(rule))}
    build = Build(is_fork=bool(rule.settings.get("fork")), pull_request=7, source="webhook")
    named = Selection(frozenset({"unit"}), None, True)
    try:
        configuration = load_configuration(Files(files))
        made = generate(configuration, build, ChangesNotAsked("a test"), named)
    except UserError as error:
        return list(error.diagnostics)
    return list(made.diagnostics)


def _settings(rule: Rule) -> dict[str, object]:
    paths = rule.settings.get("host_paths")
    return {"host_paths": list(paths)} if paths is not None else {}


@pytest.mark.parametrize("rule", FROM_SETTINGS, ids=lambda rule: rule.code)
def test_a_wrong_file_is_named_with_line_and_column(rule: Rule) -> None:
    found = met(rule, rule.failing)
    assert found, "nobody said a word"
    for diagnostic in found:
        assert diagnostic.message
        assert diagnostic.hint
        assert diagnostic.position is not None
        assert diagnostic.position.file == FILE
        assert diagnostic.position.line >= 1
        assert diagnostic.position.column >= 1
    # The reader refuses some of these before verification sees them; then its own code is there.
    earlier = {d.code for d in found if d.code.startswith(("spec-", "yaml-", "step-", "time-", "pipeline-"))}
    assert rule.code in {d.code for d in found} or earlier, [str(d) for d in found]


@pytest.mark.parametrize("rule", FROM_SETTINGS, ids=lambda rule: rule.code)
def test_the_right_file_is_not_blamed_for_it(rule: Rule) -> None:
    assert rule.code not in {diagnostic.code for diagnostic in met(rule, rule.passing)}


def test_most_rules_can_be_met_in_a_file() -> None:
    assert len(FROM_SETTINGS) >= 100
