"""No test meets the developer's environment, git configuration or Buildkite job."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from bkrun import Cli

# How long one example takes says more about the machine than about the code.
settings.register_profile("bkgen", deadline=None)
settings.load_profile("bkgen")

FOREIGN = ("BUILDKITE", "BKGEN", "GIT_", "FAKE_")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command line, run in this process with the stand-in agent on the path."""
    return Cli(tmp_path, monkeypatch, capfd)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes the goldens anew; the difference is then read like code."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.json anew")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """On CI everything was installed, so a test that is skipped there is a test that is missing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("BKGEN_TESTS_SKIP_NOTHING") or reporter is None:
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(skipped)} tests were skipped, and nothing may be skipped here:", red=True)
        for report in skipped:
            reporter.write_line(f"  {report.nodeid}: {report.longrepr}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """What collecting leaves stays to the end; walking through it again and again took a sixth of the time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of shell scripts start some ten processes each, so they stand beside the quick ones."""
    shell = {Path(__file__).with_name("harness"), Path(__file__).with_name("suites")}
    for item in items:
        if shell & set(item.path.parents):
            item.add_marker(pytest.mark.slow)
