"""What the command line says of itself, and how warnings are told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bkgen.cli.commands import bkgen
from bkrun import THREE, Cli, suite
from gitrepo import Link


@pytest.mark.parametrize("width", [80, 100])
def test_the_help_says_every_commands_whole_sentence(
    cli: Cli, tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = cli.run(tmp_path, "--help", agent=False)
    assert (result.code, result.err) == (0, "")
    assert "..." not in result.out.partition("Commands:")[2]
    assert max(map(len, result.out.splitlines())) <= width
    said = " ".join(result.out.split())
    for name, command in bkgen.commands.items():
        first = re.split(r"\.(?: |\n|$)", command.help or "")[0]
        assert f"{name} {' '.join(first.split())}." in said


def test_without_a_command_the_help_is_said_as_it_is(cli: Cli, tmp_path: Path) -> None:
    result = cli.run(tmp_path, agent=False)
    assert (result.code, result.out) == (2, "")
    assert result.err == cli.run(tmp_path, "--help", agent=False).out


@pytest.mark.parametrize("command", [["plan"], ["upload", "--dry-run"]], ids=["plan", "upload"])
def test_a_warning_is_called_one_once(cli: Cli, command: list[str]) -> None:
    native = (
        "steps:\n- command: ./run.sh\n  plugins:\n  - kubernetes:\n      podSpec:\n        containers:\n"
        "        - {image: 'example/ci:1'}\n"
    )
    made = cli.files({**THREE, **suite("native", native)})
    said = cli.run(made.path, *command, "--label", "run-ci-mpp").err.splitlines()
    assert "warning: the label 'run-ci-mpp' selects nothing; did you mean 'run-ci-mp'?" in said
    (pods,) = [line for line in said if "[pod-memory-limit]" in line]
    assert pods.startswith("k3_tests/native/pipeline.yml:7:")
    assert pods.count("warning") == 1


def test_a_base_that_is_no_commit_is_a_slip_on_a_laptop_and_a_doubt_in_buildkite(cli: Cli) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"})
    slip = cli.run(made.checkout.path, "plan", "--base", "nowhere")
    assert (slip.code, slip.out) == (2, "")
    assert "--base 'nowhere' names no commit here" in slip.err
    assert "hint: git branch --all" in slip.err
    plan = cli.run(made.checkout.path, "plan", "--base", "HEAD")
    assert plan.code == 0, plan.err
    job = cli.run(made.checkout.path, "plan", "--base", "nowhere", "--source", "webhook")
    assert job.code == 0, job.err
    assert "'nowhere' names no commit here" in job.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "--as-case", "--json"], "--as-case prints YAML"),
        (["upload", "--json"], "--json says how --dry-run prints"),
        (["render", "alpha", "--base", "nope"], "--base decides nothing here"),
        (["render", "alpha", "--changed", "src/core.py"], "--changed decides nothing here"),
        (["plan", "--changed", "src/"], "--changed 'src/' is a directory"),
        (["plan", "--changed", "src"], "for all that git knows below it: --changed $(git ls-files src)"),
        (["plan", "--changed", "gone/"], "--changed 'gone/' is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_flag_that_could_not_count_is_refused_with_a_hint(
    cli: Cli, arguments: list[str], said: str
) -> None:
    result = cli.run(cli.files(THREE).path, *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "\n  hint: " in result.err
    assert cli.agent.calls == []


def test_a_link_and_a_submodule_are_changed_files_though_they_look_like_directories(cli: Cli) -> None:
    made = cli.files({**THREE, "vendor/lib/x.c": "x\n", "link": Link("src")}).path
    (made / "vendor/lib/.git").write_text("gitdir: ../../.git/modules/lib\n")
    shown = cli.run(made, "plan", "--json", "--changed", "vendor/lib", "link")
    assert shown.code == 0, shown.err
    assert [file["path"] for file in shown.json()["changes"]["files"]] == ["vendor/lib", "link"]
    assert shown.json()["totals"]["suites"] == 1
