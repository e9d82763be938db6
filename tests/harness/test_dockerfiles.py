"""The two Dockerfiles: linted, pinned, and copying nothing that is not there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
HARNESS = REPOSITORY / "harness"
DOCKERFILES = ("ci-base.Dockerfile", "bkgen.Dockerfile")


def instructions(name: str) -> list[tuple[str, str]]:
    """Instruction and argument of each one, continued lines joined, comments left out."""
    lines = [line for line in (HARNESS / name).read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(words[0], words[1].strip()) for words in found]


def project_list(key: str) -> list[str]:
    """The strings of the first list of that name in pyproject.toml."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    found = re.search(rf"^{key} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert found is not None, key
    return re.findall(r'"([^"]+)"', found[1])


def arguments_of(name: str, instruction: str) -> list[str]:
    return [argument for word, argument in instructions(name) if word == instruction]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_hadolint_finds_nothing(name: str) -> None:
    hadolint = shutil.which("hadolint", path=str(REPOSITORY / ".venv" / "bin")) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    finished = subprocess.run(
        [hadolint, "--no-color", str(HARNESS / name)], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stdout) == (0, "")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_every_image_is_pinned_to_a_version(name: str) -> None:
    defaults = dict(argument.split("=", 1) for argument in arguments_of(name, "ARG") if "=" in argument)
    stages = set()
    for start in arguments_of(name, "FROM"):
        image, *alias = start.split(" AS ")
        image = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], image)
        assert re.fullmatch(r"[a-z0-9./-]+:[0-9]+\.[0-9]+[.0-9]*[a-z0-9.-]*(@sha256:[0-9a-f]{64})?", image)
        stages.update(alias)
    for copy in arguments_of(name, "COPY"):
        for stage in re.findall(r"--from=(\S+)", copy):
            assert stage in stages


def sources(copy: str) -> list[str]:
    return [] if "--from=" in copy else copy.split()[:-1]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_everything_that_is_copied_is_there(name: str) -> None:
    for copy in arguments_of(name, "COPY"):
        for source in sources(copy):
            assert (REPOSITORY / source).exists(), source


def test_only_what_is_copied_is_sent_to_the_engine() -> None:
    rules = (HARNESS / "bkgen.Dockerfile.dockerignore").read_text().splitlines()
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {source for copy in arguments_of("bkgen.Dockerfile", "COPY") for source in sources(copy)}
    assert "*" in rules
    assert sent == copied


def test_the_wheel_finds_every_file_that_the_project_names() -> None:
    copied = {source for copy in arguments_of("bkgen.Dockerfile", "COPY") for source in sources(copy)}
    text = (REPOSITORY / "pyproject.toml").read_text()
    assert 'readme = "README.md"' in text
    assert 'templates = "bkgen/_templates"' in text
    assert {"README.md", "templates", *project_list("license-files"), *project_list("packages")} <= copied


def test_the_pinned_requirements_are_those_of_the_project() -> None:
    pins = dict(
        line.split("==")
        for line in (HARNESS / "bkgen-requirements.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    pinned = {normal(name): version for name, version in pins.items()}
    for requirement in project_list("dependencies"):
        found = re.fullmatch(r"([A-Za-z0-9-]+)>=([0-9.]+),<([0-9.]+)", requirement)
        assert found is not None, requirement
        name, lowest, below = found.groups()
        assert key(lowest) <= key(pinned[normal(name)]) < key(below), requirement


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def test_the_builder_is_the_one_that_the_project_asks_for() -> None:
    assert project_list("requires") == ["hatchling>=1.24,<2"]
    versions = [argument for argument in arguments_of("bkgen.Dockerfile", "ARG") if "HATCHLING" in argument]
    (version,) = [argument.split("=")[1] for argument in versions]
    assert (1, 24) <= key(version) < (2,)


def test_the_upload_step_is_not_root_and_starts_from_bytecode() -> None:
    assert arguments_of("bkgen.Dockerfile", "USER") == ["1000:1000"]
    text = (HARNESS / "bkgen.Dockerfile").read_text()
    assert text.count("python -m compileall") == 2
    assert "PYTHONDONTWRITEBYTECODE=1" in text


def test_the_image_of_the_tests_says_why_it_is_root_and_hides_gpus_nobody_asked_for() -> None:
    assert arguments_of("ci-base.Dockerfile", "USER") == []
    text = (HARNESS / "ci-base.Dockerfile").read_text()
    assert "# Root, on purpose." in text
    assert "NVIDIA_VISIBLE_DEVICES=void" in text
    for engine in ("vllm", "lmcache", "sglang"):
        assert engine not in text.lower()


def test_git_asks_the_mounted_credentials_and_never_writes_them(tmp_path: Path) -> None:
    (helper,) = re.findall(
        r'credential\.helper \\?\s+"(!f\(\).*)"', (HARNESS / "bkgen.Dockerfile").read_text()
    )
    credentials = tmp_path / ".git-credentials"
    credentials.write_text("https://x-access-token:secret@github.com\n")
    command = helper.replace("\\", "").replace("/run/secrets/git", str(tmp_path)).replace("'\"'", "'")
    git = ["git", "-c", "credential.helper=", "-c", f"credential.helper={command}", "credential"]
    wanted = "protocol=https\nhost=github.com\n"
    filled = subprocess.run([*git, "fill"], input=wanted, capture_output=True, text=True, check=True)
    assert "password=secret" in filled.stdout
    approve = subprocess.run(
        [*git, "approve"],
        input=filled.stdout.replace("secret", "other"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert approve.stderr == ""
    assert credentials.read_text() == "https://x-access-token:secret@github.com\n"
