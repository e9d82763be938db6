"""What the pages that are written by hand show can be pasted, and their links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bkgen.report.json_form import plan_json
from bkrun import RUN, Cli, suite
from decisions import plan
from decisions import suite as plain_suite
from gitrepo import Content

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
)
OPEN = "pod: {gpus: 1, memory: 8Gi, shm: 1Gi}\nsteps: [{command: ./run.sh, expected_minutes: 1}]\n"


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str = "yaml") -> list[str]:
    """What stands between ``` of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


def checked(cli: Cli, files: Mapping[str, Content]) -> Path:
    """The root of a repository in which `bkgen check --strict` finds nothing."""
    root = cli.files(files).path
    result = cli.run(root, "check", "--strict", agent=False)
    assert (result.code, result.out[:11]) == (0, "no problems"), result.out
    return root


def plugins(cli: Cli, root: Path) -> Any:
    (step,) = cli.run(root, "render", "unit", "--json", agent=False).json()["steps"]
    return step["plugins"], step["command"], step["timeout_in_minutes"]


# -- links ---------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_somewhere(name: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / name).parent / path if path else ROOT / name
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text(encoding="utf-8")), target


def test_every_page_of_a_task_stands_in_the_list_of_pages() -> None:
    listed = re.findall(r"\]\((how-to/[^)]+)\)", page("docs/README.md"))
    assert sorted(listed) == sorted(f"how-to/{path.name}" for path in (ROOT / "docs/how-to").glob("*.md"))


# -- examples ------------------------------------------------------------------------------------------------


def test_the_suite_of_the_readme_passes_every_check(cli: Cli) -> None:
    pipeline, settings = blocks("README.md")
    files = dict.fromkeys(["lmcache/a.py", "tests/test_a.py", "requirements/test.txt"], "x\n")
    root = checked(cli, {"bkgen.yml": settings, **files, **suite("unit", pipeline)})
    ((plugin,), command, minutes) = plugins(cli, root)
    assert (command, minutes) == ("k3_tests/unit/run.sh", 18)
    (container,) = plugin["kubernetes"]["podSpec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "200Gi", "nvidia.com/gpu": "1"}


def test_the_readme_and_the_page_for_editors_name_one_place_for_schemas() -> None:
    first = blocks("README.md")[0].splitlines()[0]
    assert first in page("docs/how-to/editor.md")
    assert first in page("templates/new/pipeline.yml.j2").replace("{{ up }}", "../..")


def test_an_existing_pipeline_and_its_short_form_make_the_same_pod(cli: Cli, tmp_path: Path) -> None:
    where, native, short, profiles = blocks("docs/how-to/existing-pipeline.md")
    directory = ".buildkite/k3_tests"
    script = {
        f"{directory}/unit/run.sh": RUN,
        f"{directory}/_common/upload.sh": RUN,
        f"{directory}/unit/buildkite-pipeline.yml": "steps: [{command: old}]\n",
    }
    before = checked(cli, {"bkgen.yml": where, f"{directory}/unit/pipeline.yml": native, **script})
    made = plugins(cli, before)
    (before / "bkgen.yml").write_text(where + profiles)
    (before / directory / "unit/pipeline.yml").write_text(short)
    assert cli.run(before, "check", "--strict", agent=False).code == 0
    assert plugins(cli, before) == made
    assert cli.run(before, "plan", "--changed", "README.md", agent=False).out.count("SKIP") == 1


def test_the_policy_of_the_page_on_labels_passes_every_check(cli: Cli) -> None:
    labels, asks, scopes, cadences, night, _, merged = blocks("docs/how-to/labels-and-cadences.md")
    body = "".join(text.removeprefix("policy:\n") for text in (labels, scopes, cadences))
    checked(
        cli,
        {
            "bkgen.yml": f"policy:\n{body}profiles: {{g: {{gpu_resource: nvidia.com/gpu, image: 'example/ci:1'}}}}\n",
            **suite("late", asks + OPEN),
            **suite("engine", asks.replace("[long]", "[engines]") + OPEN),
            **suite("night", night + OPEN),
            **suite("merged", merged + OPEN),
            **suite("open", OPEN),
        },
    )


# -- for programs --------------------------------------------------------------------------------------------


def test_the_page_on_json_names_every_key_there_is(cli: Cli) -> None:
    text = page("docs/how-to/json.md")
    shown = plan_json(plan([plain_suite("unit")]))
    named = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    assert {key for key, _ in named} == set(shown)
    words = set(re.findall(r"`(\w+)`", text))
    for part in ("build", "policy", "totals"):
        assert set(shown[part]) <= words, part
    assert set(shown["suites"][0]) | set(shown["suites"][0]["decision"]) <= words
    assert set(shown["suites"][0]["steps"][0]) <= words
    root = cli.files({"bkgen.yml": "verson: 1\n", **suite("unit", OPEN)}).path
    problems = json.loads(cli.run(root, "check", "--json", agent=False).out)
    assert set(problems) | set(problems["diagnostics"][0]) <= words
