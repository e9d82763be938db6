"""The pages that are made from the program are up to date, and what they say of it is so."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from bkgen.check.catalogue import codes
from bkgen.schema import settings_schema, suite_schema

ROOT = Path(__file__).resolve().parent.parent
GENERATE = ROOT / "docs/generate.py"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = spec_from_file_location("docs_generate", GENERATE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_page_is_named_and_written_anew(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "REFERENCE", tmp_path)
    assert generate.main(["--check"]) == 1
    assert not list(tmp_path.iterdir())
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    capsys.readouterr()
    (tmp_path / "settings.md").write_text("old\n")
    assert generate.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert said == "docs/reference/settings.md: out of date\n  hint: ./dev docs writes them anew\n"
    assert generate.main(["--wrong"]) == 2


@pytest.mark.parametrize(
    ("page", "schema"), [("suite.md", suite_schema()), ("settings.md", settings_schema())]
)
def test_every_key_stands_in_its_table(page: str, schema: dict) -> None:
    text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    for body in (schema, *schema["$defs"].values()):
        for key, value in body["properties"].items():
            assert f"| `{key}` |" in text
            assert value["description"].replace("|", "\\|") in text


def test_every_code_has_its_section() -> None:
    text = (ROOT / "docs/reference/problems.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == [code.code for code in codes()]


def test_every_link_between_the_generated_pages_leads_somewhere(generate: ModuleType) -> None:
    for name, text in generate.pages().items():
        anchors = {
            heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        }
        for target in re.findall(r"\]\(([^)]+)\)", text):
            file, _, anchor = target.partition("#")
            if target.startswith("http"):
                continue
            if file:
                assert (ROOT / "docs/reference" / file).is_file(), (name, target)
            else:
                assert anchor in anchors, (name, target)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "whole number from 1 on"),
        ({"type": "integer", "minimum": 0, "maximum": 10}, "whole number from 0 to 10"),
        ({"type": "number", "exclusiveMinimum": 0}, "number above 0"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true or false"),
        ({"type": "array", "items": {"anyOf": [{"const": "*"}, {"type": "integer"}]}}, "list of (`*` or whole number)"),
        ({"type": "object", "additionalProperties": {"$ref": "#/$defs/Cache"}}, "map of [Cache](#cache)"),
        ({"enum": ["", "Memory"]}, "one of nothing, `Memory`"),
        ({"const": False}, "`false`"),
        ({}, "anything"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_types_are_said_in_words(generate: ModuleType, schema: dict, words: str) -> None:
    assert generate.takes(schema) == words


def test_the_examples_of_the_editor_page_name_what_there_is() -> None:
    text = (ROOT / "docs/how-to/editor.md").read_text(encoding="utf-8")
    assert "# yaml-language-server: $schema=../../.schemas/suite.json" in text
    for which in ("suite", "settings", "paths"):
        assert f"bkgen schema {which} >.schemas/{which}.json" in text
