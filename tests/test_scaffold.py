"""`bkgen docs` and `bkgen new`, end to end on real directories."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import checkrepo
from bkgen.check import check_repository
from bkrun import Cli, Result, suite, unit_pipeline
from gitrepo import Checkout, Content, Link, environ

REPOSITORY = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
SETTINGS = """\
version: 1
queue: gpu-queue
policy:
  labels: {mp: multiprocess, long: long ones}
  cadences:
    nightly: {schedule: true, minus: [long]}
profiles:
  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8, image: "example.com/ci:1"}
"""
ALPHA = """\
description: Tests the <first> thing | and more.
when: {paths: [src/**], labels: [mp], branches: [main, release/*]}
pod:
  gpus: 2
  cpu: {request: 4, limit: 8}
  memory: {request: 16Gi, limit: 64Gi}
  shm: 8Gi
  secrets: {HF_TOKEN: hf/token}
steps:
- {label: short, command: ./run.sh, expected_minutes: 10}
- {label: long, command: ./run.sh, expected_minutes: 40, soft_fail: true, when: {labels: [long]}}
"""
FILES: dict[str, Content] = {
    "bkgen.yml": SETTINGS,
    "src/core.py": "core = 1\n",
    **suite("alpha", ALPHA),
    **suite("beta", unit_pipeline("src/**")),
}
PAGE = "k3_tests/alpha/BK_WEB_SETUP.md"
UPLOAD = "k3_tests/buildkite-pipeline.yml"


def folder(path: Path, files: Mapping[str, Content] = FILES) -> Path:
    """A directory with these files, found by its bkgen.yml: neither command asks git."""
    path.mkdir()
    Checkout(path, environ(path.parent)).write(files)
    return path


def docs(cli: Cli, root: Path, *arguments: str) -> Result:
    return cli.run(root, "docs", *arguments, agent=False)


def new(cli: Cli, root: Path, *arguments: str) -> Result:
    return cli.run(root, "new", *arguments, agent=False)


def state(root: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of the last change of every file."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return folder(tmp_path / "repo")


@pytest.fixture
def written(cli: Cli, root: Path) -> Path:
    """The same with its pages."""
    assert docs(cli, root).code == 0
    return root


# -- docs ----------------------------------------------------------------------------------------------------


def test_the_pages_of_this_repository_are_up_to_date(cli: Cli) -> None:
    result = docs(cli, REPOSITORY, "--check")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_docs_writes_a_page_a_suite_and_the_upload_step_once(cli: Cli, root: Path) -> None:
    first = docs(cli, root)
    assert (first.code, first.out) == (0, "")
    assert first.err.splitlines() == [
        "k3_tests/alpha/BK_WEB_SETUP.md: written",
        "k3_tests/beta/BK_WEB_SETUP.md: written",
        "k3_tests/buildkite-pipeline.yml: written",
    ]
    before = state(root)
    assert docs(cli, root) == Result(0, "", "")
    assert state(root) == before
    assert docs(cli, root, "--check") == Result(0, "", "")


def test_a_repository_without_suites_gets_the_upload_step(cli: Cli, tmp_path: Path) -> None:
    root = folder(tmp_path / "bare", {"bkgen.yml": "tests_dir: ci/gpu\n"})
    assert docs(cli, root).err == "ci/gpu/buildkite-pipeline.yml: written\n"
    assert docs(cli, root, "--check") == Result(0, "", "")


def test_the_profile_of_the_upload_step_counts_as_used(tmp_path: Path) -> None:
    upload = "  tools: {image: 'example.com/bkgen:1'}\n"
    idle = checkrepo.checked(tmp_path / "idle", {"bkgen.yml": checkrepo.SETTINGS + upload}, git=False)
    assert [one.code for one in idle] == ["unused-profile"]
    named = {"bkgen.yml": checkrepo.SETTINGS + upload + "upload_profile: tools\n"}
    assert checkrepo.checked(tmp_path / "named", named, git=False) == ()


def test_named_suites_alone_get_their_page(cli: Cli, root: Path) -> None:
    assert docs(cli, root, "beta").err == "k3_tests/beta/BK_WEB_SETUP.md: written\n"
    assert not (root / PAGE).exists()


def test_check_prints_the_difference_and_writes_nothing(cli: Cli, written: Path) -> None:
    page = written / PAGE
    page.write_text(
        page.read_text().replace("| `alpha-short` | 1 | 2 | 10 | 13 |", "| `alpha-short` | 1 | 8 |")
    )
    (written / UPLOAD).unlink()
    before = state(written)
    result = docs(cli, written, "--check")
    assert result.code == 1
    assert state(written) == before
    assert result.out.startswith(f"--- a/{PAGE}\n+++ b/{PAGE}\n@@ ")
    assert "\n-| `alpha-short` | 1 | 8 |\n+| `alpha-short` | 1 | 2 | 10 | 13 |\n" in result.out
    assert f"\n--- /dev/null\n+++ b/{UPLOAD}\n@@ -0,0 " in result.out
    assert result.err.splitlines() == [
        f"{PAGE}: out of date",
        f"{UPLOAD}: missing",
        "  hint: `bkgen docs` mends it",
    ]


def test_what_check_prints_is_a_patch(cli: Cli, written: Path) -> None:
    page = written / PAGE
    wanted = page.read_bytes()
    page.write_bytes(wanted.replace(b"Shared memory up to | 8Gi", b"Shared memory up to | 1Gi").rstrip(b"\n"))
    patch = docs(cli, written, "--check").out
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=written, env=environ(written), check=True)
    assert page.read_bytes() == wanted.rstrip(b"\n")


def test_what_the_author_wrote_and_the_mode_are_kept(cli: Cli, written: Path) -> None:
    page = written / PAGE
    mine = b"# Mine\n\nAsk the \xff keepers.\n\n"
    old = page.read_bytes().replace(b"| 10 | 13 |", b"| 99 | 99 |")
    page.write_bytes(mine + old[old.index(b"<!-- bkgen:begin") :] + b"\nMy last word")
    page.chmod(0o640)
    assert docs(cli, written).err == f"{PAGE}: updated\n"
    text = page.read_bytes()
    assert text.startswith(mine + b"<!-- bkgen:begin about -->\n")
    assert text.endswith(b"<!-- bkgen:end status -->\n\nMy last word")
    assert b"| 10 | 13 |" in text
    assert b"99" not in text
    assert stat.S_IMODE(page.stat().st_mode) == 0o640


def test_broken_markers_of_all_pages_are_named_and_nothing_is_written(cli: Cli, root: Path) -> None:
    (root / PAGE).write_text("hello\n<!-- bkgen:begin about -->\n")
    (root / "k3_tests/beta/BK_WEB_SETUP.md").write_text("<!-- bkgen:end about -->\n")
    (root / UPLOAD).write_text("steps: [mine]\n")
    before = state(root)
    result = docs(cli, root)
    assert result.code == 1
    assert state(root) == before
    faults = [line for line in result.err.splitlines() if line.startswith("k3_tests")]
    assert faults == [
        f"{PAGE}:2:1: the part 'about' has no end [docs-marker]",
        "k3_tests/beta/BK_WEB_SETUP.md:1:1: no part 'about' is open here [docs-marker]",
        f"{UPLOAD}: this file is not one that bkgen wrote [docs-foreign]",
    ]


@pytest.mark.parametrize(
    ("files", "code"),
    [
        pytest.param({PAGE: Link("../../README.md"), "README.md": "mine\n"}, "docs-symlink", id="a symlink"),
        pytest.param({f"{PAGE}/mine.txt": "mine\n"}, "docs-write", id="a directory"),
    ],
)
def test_a_page_that_is_no_plain_file_is_left_alone(
    cli: Cli, tmp_path: Path, files: dict[str, Content], code: str
) -> None:
    root = folder(tmp_path / "odd", {**FILES, **files})
    before = state(root)
    result = docs(cli, root, "alpha")
    assert result.code == 1
    assert re.match(rf"{PAGE}: .* \[{code}\]\n  hint: ", result.err)
    assert state(root) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["alhpa"], "did you mean 'alpha'?", id="an unknown suite"),
        pytest.param(["alpha/alpha-short"], "name suites, without a step", id="a step"),
    ],
)
def test_names_that_have_no_page_are_a_usage_error(
    cli: Cli, root: Path, arguments: list[str], says: str
) -> None:
    result = docs(cli, root, *arguments)
    assert result.code == 2
    assert says in result.err


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from bkgen.cli.entry import run
sys.exit(run(sys.argv[2:]))
"""


def with_small_files(root: Path, limit: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """bkgen in a process that may write no file of more than `limit` bytes: a disk that fails in the middle."""
    return subprocess.run(
        [sys.executable, "-B", "-c", LIMITED, str(limit), *arguments],
        cwd=root, env=environ(root), capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_disk_that_fails_leaves_the_old_page_and_nothing_else(cli: Cli, written: Path) -> None:
    page = written / PAGE
    page.write_text(page.read_text().replace("| 10 | 13 |", "| 99 | 99 |"))
    before = state(written)
    done = with_small_files(written, 1000, "docs")
    assert done.returncode == 75
    assert done.stderr == f"bkgen: {PAGE}: File too large\n  hint: look at the disk, then run it again\n"
    assert state(written) == before


# -- new -----------------------------------------------------------------------------------------------------

HARNESS: dict[str, Content] = {
    "harness/setup-env.sh": "# shellcheck shell=bash\nset -Eeuo pipefail\necho prepared >&2\n"
}
BARE = "version: 1\nprofiles: {metal: {pod: false, queue: metal}}\n"
CPU = "version: 1\nprofiles: {cpu: {image: 'example.com/cpu:1'}}\n"
FULL = checkrepo.SETTINGS.replace(
    'image: "example.com/ci:1"}',
    'gpus_per_node: 4, image: "example.com/ci:1", cpu: 8, memory: 64Gi, shm: 4Gi}',
)


@pytest.mark.parametrize(
    ("arguments", "files", "spec", "said"),
    [
        pytest.param([], {}, "pod:\n  gpus: 1\n  cpu: {request: 4, limit: 8}\n  memory: {request: 32Gi, limit: 64Gi}\n  shm: 8Gi\n", "on 1 GPU.", id="one GPU by itself"),
        pytest.param(["--gpus", "2", "--labels", "run-ci-long"], HARNESS, "when:\n  labels: [long]\n", "on 2 GPUs.", id="two GPUs, a label, a harness"),
        pytest.param(["--gpus", "0"], HARNESS, "pod:\n  gpus: 0\n", "without a GPU.", id="no GPU, a harness"),
        pytest.param(["--gpus=4"], {"bkgen.yml": FULL}, "pod:\n  gpus: 4\nsteps:", "on 4 GPUs.", id="a profile that says the rest"),
        pytest.param([], {"bkgen.yml": BARE, "k3_tests/unit/pipeline.yml": None, "k3_tests/unit/run.sh": None}, "pod:\n  gpus: 1\nsteps:", "on 1 GPU.", id="a bare-metal queue"),
        pytest.param([], {"bkgen.yml": CPU, "k3_tests/unit/pipeline.yml": None, "k3_tests/unit/run.sh": None}, "pod:\n  gpus: 0\n", "without a GPU.", id="a profile without GPUs"),
        pytest.param(["--gpus", "0"], {"bkgen.yml": "tests_dir: ci/gpu\n", "k3_tests/unit/pipeline.yml": None, "k3_tests/unit/run.sh": None}, "$schema=../../../.schemas/suite.json", "without a GPU.", id="another directory of suites, which is made"),
    ],
)  # fmt: skip
def test_a_new_suite_passes_every_check(
    cli: Cli, tmp_path: Path, arguments: list[str], files: dict[str, Content], spec: str, said: str
) -> None:
    root = checkrepo.made(tmp_path / "repo", files).path
    result = new(cli, root, "demo", *arguments)
    assert result.code == 0, result.err
    (directory,) = (path.parent for path in root.rglob("demo/run.sh"))
    assert [path.name for path in sorted(directory.iterdir())] == [
        "BK_WEB_SETUP.md",
        "pipeline.yml",
        "run.sh",
    ]
    text = (directory / "pipeline.yml").read_text()
    assert spec in text
    assert f"description: One step {said}\n" in text
    report = check_repository(root, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert [str(one) for one in report.diagnostics] == []
    rendered = cli.run(root, "render", "demo", agent=False)
    assert (rendered.code, rendered.err) == (0, "")
    assert docs(cli, root, "--check", "demo").code == 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param("version: 1\n", True, id="no image anywhere"),
        pytest.param(CPU, False, id="an image in the profile"),
        pytest.param(BARE, False, id="no pod, so no image"),
    ],
)
def test_a_pod_without_an_image_is_told_which_one_it_gets(
    cli: Cli, tmp_path: Path, settings: str, *, told: bool
) -> None:
    files: dict[str, Content] = {"bkgen.yml": settings, "k3_tests/unit/pipeline.yml": None}
    root = checkrepo.made(tmp_path / "repo", {**files, "k3_tests/unit/run.sh": None}).path
    assert new(cli, root, "demo").code == 0
    assert ("the job gets the controller's own" in (root / "k3_tests/demo/pipeline.yml").read_text()) == told


@pytest.mark.parametrize(
    "files", [pytest.param({}, id="by itself"), pytest.param(HARNESS, id="with a harness")]
)
def test_the_script_is_strict_and_fails_until_there_is_a_test(
    cli: Cli, tmp_path: Path, files: dict[str, Content]
) -> None:
    root = checkrepo.made(tmp_path / "repo", files).path
    assert new(cli, root, "demo").code == 0
    script = root / "k3_tests/demo/run.sh"
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for tool in ([str(BIN / "shellcheck"), "-x"], [str(BIN / "shfmt"), "-i", "2", "-d"]):
        subprocess.run([*tool, "k3_tests/demo/run.sh"], cwd=root, env=plain, check=True)
    done = subprocess.run([script], cwd=tmp_path, env=plain, capture_output=True, text=True)
    said = "prepared\n" if files else ""
    assert (done.returncode, done.stderr) == (1, f"{said}k3_tests/demo/run.sh: there is no test yet\n")
    assert (root / "artifacts/demo").is_dir()
    asked = subprocess.run([script, "--help"], cwd=tmp_path, env=plain, capture_output=True, text=True)
    assert asked.returncode == 0
    assert "usage: k3_tests/demo/run.sh" in asked.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(["a b"], 2, "'a b' cannot be a suite's name\n  hint: use letters, digits", id="a name with a blank"),
        pytest.param([".hidden"], 2, "cannot be a suite's name", id="a name that begins with a dot"),
        pytest.param(["../up"], 2, "cannot be a suite's name", id="a name that leads elsewhere"),
        pytest.param(["x" * 61], 2, "sixty at most", id="a name that is too long"),
        pytest.param(["alpha"], 1, "k3_tests/alpha: this is here already [new-exists]", id="a suite that is there"),
        pytest.param(["file"], 1, "k3_tests/file: this is here already", id="a file that is there"),
        pytest.param(["void"], 1, "k3_tests/void: this is here already", id="an empty directory that is there"),
        pytest.param(["demo", "--labels", "mpp"], 2, "the label 'mpp' is declared nowhere in the settings\n  hint: did you mean 'mp'?", id="an unknown label"),
        pytest.param(["demo", "--gpus", "9"], 2, "a node of the profile 'h200' has 8 GPUs, not 9", id="more GPUs than a node has"),
        pytest.param(["demo", "--gpus", "many"], 2, "'many' is not a valid integer", id="GPUs in words"),
        pytest.param(["alpha.x"], 1, "the key 'alpha-x' is taken by k3_tests/alpha-x/pipeline.yml", id="a name whose key is taken"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_suite_is_refused_and_nothing_is_written(
    cli: Cli, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    root = folder(tmp_path / "repo", {**FILES, "k3_tests/file": "x", **suite("alpha-x", unit_pipeline())})
    (root / "k3_tests/void").mkdir()
    before = state(root)
    result = new(cli, root, *arguments)
    assert result.code == code, result.err
    assert says in result.err
    assert state(root) == before
    assert sorted(path.name for path in (root / "k3_tests").iterdir()) == [
        "alpha",
        "alpha-x",
        "beta",
        "file",
        "void",
    ]


def test_gpus_on_a_profile_without_any_are_refused(cli: Cli, tmp_path: Path) -> None:
    result = new(cli, folder(tmp_path / "repo", {"bkgen.yml": CPU}), "demo", "--gpus", "1")
    assert result.code == 2
    assert "the profile 'cpu' has no GPUs" in result.err


@pytest.mark.slow
def test_a_disk_that_fails_in_the_middle_leaves_no_suite(root: Path) -> None:
    before = state(root)
    done = with_small_files(root, 1000, "new", "demo")
    assert (done.returncode, "File too large" in done.stderr) == (75, True), done.stderr
    assert state(root) == before
    assert sorted(path.name for path in (root / "k3_tests").iterdir()) == ["alpha", "beta"]


def test_what_comes_next_is_said(cli: Cli, tmp_path: Path) -> None:
    table = "- {name: the core, changed: [src/core.py], labels: [mp], runs: [alpha, beta]}\n"
    root = folder(tmp_path / "repo", {**FILES, "k3_tests/paths.test.yml": table})
    said = new(cli, root, "demo").err
    assert "next: write the test in k3_tests/demo/run.sh" in said
    assert "k3_tests/paths.test.yml: `bkgen check` names the cases that run 'demo', too" in said
    assert "bkgen schema suite >.schemas/suite.json" in said
    report = checkrepo.report_of(root)
    tables = [
        one for one in report.diagnostics if one.position and one.position.file.endswith("paths.test.yml")
    ]
    assert [one.severity for one in tables] == ["error"]
    assert "demo" in tables[0].message
    (root / ".schemas").mkdir()
    (root / ".schemas/suite.json").write_text("{}")
    again = new(cli, root, "other", "--labels", "mp").err
    assert ".schemas" not in again
    assert "paths.test.yml" not in again


def test_the_modes_follow_the_umask(cli: Cli, root: Path) -> None:
    before = os.umask(0o027)
    try:
        assert new(cli, root, "demo").code == 0
    finally:
        os.umask(before)
    made = root / "k3_tests/demo"
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in [made, *made.iterdir()]}
    assert modes == {"demo": "0o750", "run.sh": "0o750", "pipeline.yml": "0o640", "BK_WEB_SETUP.md": "0o640"}
