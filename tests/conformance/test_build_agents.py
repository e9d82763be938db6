"""build-agents.sh in a copy of its own with a stand-in for Go: what it builds, keeps and says."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TOOLS = [
    "bash",
    "cat",
    "chmod",
    "cksum",
    "dirname",
    "env",
    "head",
    "mkdir",
    "mktemp",
    "mv",
    "rm",
    "sed",
    "sort",
]
GO = """#!/bin/bash
if [ "$1" = env ]; then echo "go${FAKE_GO_VERSION:-1.99.0}"; exit; fi
echo "$@" >>"$FAKE_GO_LOG"
[ -z "${FAKE_GO_FAILS:-}" ] || { echo "no such module" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
printf '#!/bin/bash\\necho built\\n' >"$2"
chmod 755 "$2"
"""


@dataclass(frozen=True)
class Workshop:
    """The script, its pins and a path with few programs."""

    root: Path
    programs: Path
    log: Path

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(self.root / "tests/conformance/build-agents.sh"), *arguments],
            env={"PATH": str(self.programs), "FAKE_GO_LOG": str(self.log), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def calls(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def left(self) -> list[str]:
        return sorted(path.name for path in (self.root / ".cache/agents").glob("*"))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    shop = Workshop(tmp_path / "repository", tmp_path / "programs", tmp_path / "go.log")
    target = shop.root / "tests/conformance"
    target.mkdir(parents=True)
    shutil.copy(HERE / "build-agents.sh", target)
    for name, version in (("old", "3.1.2"), ("new", "3.20.0")):
        pin = target / "agents" / name
        pin.mkdir(parents=True)
        (pin / "go.mod").write_text(
            f"module m\n\ngo 1.24.3\n\nrequire github.com/buildkite/agent/v3 v{version}\n"
        )
        (pin / "go.sum").write_text("sums\n")
    shop.programs.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (shop.programs / tool).symlink_to(found)
    return shop


def install_go(shop: Workshop) -> None:
    file = shop.programs / "go"
    file.write_text(GO)
    file.chmod(0o755)


def test_each_pinned_version_is_built_once(workshop: Workshop) -> None:
    install_go(workshop)
    for _ in range(2):
        done = workshop.run()
        assert (done.returncode, done.stdout) == (0, "")
    assert workshop.calls() == 2
    assert workshop.left() == ["3.1.2", "3.20.0"]
    listed = dict(line.split() for line in workshop.run("--print").stdout.splitlines())
    assert sorted(listed) == workshop.left()
    for path in listed.values():
        assert subprocess.run([path], capture_output=True, check=True).stdout == b"built\n"


def test_a_changed_pin_is_built_anew(workshop: Workshop) -> None:
    install_go(workshop)
    workshop.run()
    (workshop.root / "tests/conformance/agents/old/go.sum").write_text("other sums\n")
    assert workshop.run().returncode == 0
    assert workshop.calls() == 3


def test_what_is_built_needs_no_go_any_more(workshop: Workshop) -> None:
    install_go(workshop)
    workshop.run()
    (workshop.programs / "go").unlink()
    assert workshop.run().returncode == 0


def test_without_go_the_message_says_which_go_or_which_variable_helps(workshop: Workshop) -> None:
    failed = workshop.run()
    assert failed.returncode == 1
    assert "Go is not installed" in failed.stderr
    assert "install Go 1.24.3 or newer" in failed.stderr
    assert "BUILDKITE_AGENT=" in failed.stderr


@pytest.mark.parametrize(("version", "status"), [("1.24.2", 1), ("1.9.9", 1), ("1.24.3", 0), ("1.24.10", 0)])
def test_a_go_that_is_too_old_is_told_before_anything_is_fetched(
    workshop: Workshop, version: str, status: int
) -> None:
    install_go(workshop)
    done = workshop.run(FAKE_GO_VERSION=version)
    assert done.returncode == status
    assert ("needs 1.24.3 or newer" in done.stderr) == (status == 1)
    assert (workshop.calls() == 0) == (status == 1)


def test_a_build_that_fails_leaves_nothing_that_looks_finished(workshop: Workshop) -> None:
    install_go(workshop)
    failed = workshop.run(FAKE_GO_FAILS="1")
    assert failed.returncode == 1
    assert "could not be built" in failed.stderr
    assert workshop.left() == []
    assert list((workshop.root / ".cache/agents").iterdir()) == []


def test_help_is_help_and_an_unknown_argument_is_a_usage_error(workshop: Workshop) -> None:
    assert "usage:" in workshop.run("--help").stdout
    assert workshop.run("--everything").returncode == 2


def test_a_build_that_is_stopped_ends_go_and_leaves_nothing(workshop: Workshop) -> None:
    waiting = workshop.programs / "go"
    waiting.write_text(
        f'#!/bin/bash\n[ "$1" != env ] || {{ echo go1.99.0; exit; }}\necho $$ >{workshop.log}\nexec sleep 60\n'
    )
    waiting.chmod(0o755)
    (workshop.programs / "sleep").symlink_to(str(shutil.which("sleep")))
    with workshop.start() as process:
        deadline = time.monotonic() + 30
        while not workshop.calls():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 143
    assert not Path(f"/proc/{workshop.log.read_text().strip()}").exists()
    assert list((workshop.root / ".cache/agents").iterdir()) == []
