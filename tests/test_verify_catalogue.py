"""The catalogue: every code that can come out is explained, and its two examples do what they say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import bkgen.verify
from bkgen.verify import Finding, PodRules, verify_steps
from bkgen.verify.catalogue import Rule, as_steps, checks_page, rules

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(bkgen.verify.__file__).parent
FAMILIES = ("pod", "plugin")


def findings(rule: Rule, example: str) -> list[Finding]:
    steps = as_steps(rule.about, yaml.safe_load(example))
    found = verify_steps(steps, PodRules(**rule.settings), interpolate=rule.interpolate)
    return [one for group in found.values() for one in group]


def emitted_codes() -> dict[str, set[str]]:
    """Severities by code, read from the calls in the source, not from the catalogue."""
    codes: dict[str, set[str]] = {}
    for file in sorted(PACKAGE.glob("*.py")):
        for severity, node in _codes_in(ast.parse(file.read_text(encoding="utf-8"))):
            for code in _spelt_out(node):
                codes.setdefault(code, set()).add(severity)
    return codes


def _codes_in(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id in {"error", "warning"}:
                yield node.func.id, node.args[0]
            elif node.func.id == "Fault":
                yield "error", node.args[0]
        if isinstance(node, ast.keyword) and node.arg == "code":
            yield "error", node.value
        if isinstance(node, ast.FunctionDef):
            defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for argument, default in defaults:
                if argument.arg == "code" and default is not None:
                    yield "error", default


def _spelt_out(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        ending = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        return [family + ending for family in FAMILIES]
    assert ast.unparse(node) in {"code", "fault.code"}, (
        f"a code that this test cannot read: {ast.unparse(node)}"
    )
    return []


def test_the_catalogue_holds_exactly_the_codes_that_can_be_emitted() -> None:
    assert {rule.code for rule in rules()} == emitted_codes().keys()


def test_a_code_has_one_severity_and_it_is_the_catalogue_s() -> None:
    assert {rule.code: {rule.severity} for rule in rules()} == emitted_codes()


def test_no_code_is_listed_twice_and_all_are_kebab_case() -> None:
    codes = [rule.code for rule in rules()]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", code) for code in codes)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_the_failing_example_fails_with_its_code_alone_and_the_passing_one_is_clean(rule: Rule) -> None:
    steps = as_steps(rule.about, yaml.safe_load(rule.failing))
    placed = verify_steps(steps, PodRules(**rule.settings), interpolate=rule.interpolate)
    found = [one for group in placed.values() for one in group]
    assert {(one.code, one.severity) for one in found} == {(rule.code, rule.severity)}
    assert all(one.message and one.hint for one in found)
    for index, group in placed.items():
        for one in group:
            leads_into(steps, index, one)
    assert findings(rule, rule.passing) == []


def leads_into(steps: list[Any], index: tuple[int, ...], finding: Finding) -> None:
    value: Any = steps if not index else steps[index[0]]
    for position in index[1:]:
        value = value["steps"][position]
    for part in finding.path[:-1]:
        value = value[part]
    # The last part may be what is missing, such as the resources of a container without any.
    assert not finding.path or isinstance(value, (dict, list))


def test_the_page_in_docs_is_what_the_catalogue_makes() -> None:
    page = ROOT / "docs" / "reference" / "checks.md"
    assert page.read_text(encoding="utf-8") == checks_page(), "run scripts/generate_checks_page.py --write"


def test_the_page_has_a_heading_for_every_code_that_its_table_links_to() -> None:
    page = checks_page()
    linked = re.findall(r"\]\(#([a-z-]+)\)", page)
    assert linked == re.findall(r"^### (.+)$", page, re.MULTILINE)
    assert linked
