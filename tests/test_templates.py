"""bkgen's own templates: in the source tree, in the sandbox, and in the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from bkgen import templates
from bkgen.errors import BkgenError
from bkrun import SETTINGS
from gitrepo import Checkout, environ

REPOSITORY = Path(__file__).parent.parent
NEW = {
    "name": "demo",
    "directory": "k3_tests/demo",
    "up": "../..",
    "description": "One step.",
    "label": "demo",
    "labels": "",
    "pod": {},
    "gpus": 0,
    "harness": False,
    "image": True,
}


def test_every_file_of_the_folder_is_a_template_that_compiles() -> None:
    files = sorted(
        path.relative_to(templates.SOURCE).as_posix()
        for path in templates.SOURCE.rglob("*")
        if path.is_file()
    )
    assert files == templates.names()
    assert {"BK_WEB_SETUP.md.j2", "buildkite-pipeline.yml.j2", "new/run.sh.j2", "new/pipeline.yml.j2"} <= set(
        files
    )
    for name in files:
        templates._environment().get_template(name)


def test_a_value_is_never_read_as_a_template() -> None:
    text = templates.render("new/pipeline.yml.j2", **{**NEW, "description": "{{ 6 * 7 }} {% if %} {# x #}"})
    assert "description: {{ 6 * 7 }} {% if %} {# x #}\n" in text


def test_a_value_in_text_stands_as_it_is() -> None:
    assert 'a & <b> "c"' in templates.render("new/run.sh.j2", **{**NEW, "description": 'a & <b> "c"'})


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'up' is undefined"):
        templates.render(
            "new/pipeline.yml.j2", **{name: value for name, value in NEW.items() if name != "up"}
        )


def test_a_missing_template_says_that_the_installation_is_broken() -> None:
    with pytest.raises(BkgenError, match=r"lacks the template 'nothing.md.j2'\n  hint: install"):
        templates.render("nothing.md.j2")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{ ''.__class__.__mro__ }}", id="the inside of Python is out of reach"),
        pytest.param("{{ given.append(1) }}", id="a value cannot be changed"),
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(SecurityError):
        templates._environment().from_string(source).render(given=[])


@given(st.text())
@example("<!-- bkgen:end about -->\n| a | b |")
@example("a\r\nb\x0bc\u2028d")
def test_any_text_is_one_line_that_begins_no_html_and_ends_no_cell(text: str) -> None:
    said = templates.line(text)
    assert said.splitlines() in ([], [said])
    assert "<" not in said
    assert re.search(r"(?<!\\)\|", said) is None


@given(st.text(alphabet="`a |<\n"))
@example("``")
@example("")
def test_any_text_in_a_code_span_stays_inside(text: str) -> None:
    said = templates.code(text)
    fence = re.match("`+", said)
    assert fence is not None
    inside = said[len(fence[0]) : -len(fence[0])]
    assert said == f"{fence[0]}{inside}{fence[0]}"
    assert fence[0] not in re.findall("`+", inside)
    assert "\n" not in said
    assert inside.strip() == " ".join(text.split()).replace("|", "\\|")


# -- the wheel -----------------------------------------------------------------------------------------------


def built_wheel(folder: Path) -> Path:
    """The wheel, by the build backend that is installed, else by one that pip fetches; skips without both."""
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--disable-pip-version-check", "--wheel-dir"]
    offline = subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True).returncode == 0
    isolation = ["--no-build-isolation"] if offline else []
    done = subprocess.run(
        [*pip, str(folder), *isolation, str(REPOSITORY)], capture_output=True, text=True, timeout=300
    )
    if (
        done.returncode != 0
        and not offline
        and re.search("No matching distribution|ConnectionError", done.stderr)
    ):
        pytest.skip("hatchling is not installed and cannot be fetched, so no wheel can be built")
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_has_the_templates_and_makes_a_suite_with_them(tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path / "dist")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("bkgen/_templates/")}
    assert inside == {f"bkgen/_templates/{name}" for name in templates.names()}

    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    python = fresh / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*install, "--disable-pip-version-check", str(wheel)], check=True, capture_output=True)
    # Its dependencies are those of this environment; a .pth that a .pth leads to is not read, so that bkgen
    # itself is not the editable one.
    (site,) = fresh.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")

    repository = tmp_path / "repository"
    Checkout(repository, environ(tmp_path)).write({"bkgen.yml": SETTINGS})
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    where = subprocess.run(
        [python, "-I", "-c", "from bkgen import templates as t; print(t.INSTALLED, len(t.names()))"],
        capture_output=True, text=True, check=True, cwd=repository, env=plain,
    )  # fmt: skip
    assert where.stdout == f"{site}/bkgen/_templates {len(inside)}\n"
    made = subprocess.run(
        [fresh / "bin" / "bkgen", "new", "demo"], capture_output=True, text=True, cwd=repository, env=plain
    )
    assert made.returncode == 0, made.stderr
    assert sorted(path.name for path in (repository / "k3_tests/demo").iterdir()) == [
        "BK_WEB_SETUP.md",
        "pipeline.yml",
        "run.sh",
    ]
