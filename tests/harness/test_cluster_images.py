"""setup-cluster.sh: an image is known by what was imported, a chart by its digest, a directory by its path."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_host import AMD_INDEX, NVIDIA_INDEX, Host, copy_host, digest, index, make_host

SETUP = "setup-cluster.sh"
CI_BASE, BKGEN = "docker.io/lmcache/ci-base:latest", "docker.io/library/bkgen:latest"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Host:
    host = make_host(tmp_path_factory.mktemp("template") / "host")
    finished = host.run(SETUP)
    assert finished.status == 0, finished.all
    host.forget()
    return host


@pytest.fixture
def ready(template: Host, tmp_path: Path) -> Host:
    """A host on which setup-cluster.sh has nothing left to do."""
    return copy_host(template, tmp_path / "host")


def imported(host: Host) -> dict[str, str]:
    """Name and digest of each image in containerd."""
    lines = (host.state / "images").read_text().splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


# --- Images ---------------------------------------------------------------------------------------


def change_dockerfile(host: Host) -> dict[str, str]:
    append(host.harness / "ci-base.Dockerfile", "# changed\n")
    return {}


def ask_for_a_rebuild(host: Host) -> dict[str, str]:
    return {"REBUILD_IMAGE": "1"}


@pytest.mark.parametrize("cause", [change_dockerfile, ask_for_a_rebuild], ids=["changed", "REBUILD_IMAGE"])
@pytest.mark.parametrize("failing", ["^k3s ctr images import", "^docker build"])
def test_what_was_built_and_never_imported_is_built_again(
    ready: Host, cause: Callable[[Host], dict[str, str]], failing: str
) -> None:
    before = imported(ready)
    settings = cause(ready)
    ready.fail(failing)
    assert ready.run(SETUP, **settings).status == 75
    assert imported(ready) == before
    ready.fail()
    ready.forget()
    again = ready.run(SETUP)
    assert again.status == 0, again.all
    (build,) = ready.calls("docker build")
    assert "--tag lmcache/ci-base:latest" in build
    assert imported(ready)[CI_BASE] != before[CI_BASE]
    assert imported(ready)[BKGEN] == before[BKGEN]
    assert "ci-base:latest: already done" in ready.run(SETUP).words


@pytest.mark.parametrize("settings", [{}, {"GPU_ARCH_LIST": "10.0"}], ids=["Dockerfile", "GPUs"])
def test_changed_inputs_are_seen_though_docker_has_forgotten_the_image(
    ready: Host, settings: dict[str, str]
) -> None:
    before = imported(ready)
    for label in (ready.state / "labels").iterdir():
        label.unlink()
    ready.fail("^docker image inspect")
    if not settings:
        change_dockerfile(ready)
    assert ready.run(SETUP, **settings).status == 0
    assert len(ready.calls("docker build")) == 1
    assert imported(ready)[CI_BASE] != before[CI_BASE]


def test_an_image_that_is_there_needs_no_docker_at_all(ready: Host) -> None:
    ready.fail("^docker")
    finished = ready.run(SETUP)
    assert finished.status == 0, finished.all
    assert not ready.calls("docker")


def test_an_image_that_somebody_else_has_put_in_its_place_is_built_again(ready: Host) -> None:
    before = imported(ready)
    ready.write("images", f"{CI_BASE} sha256:{'0' * 64}\n{BKGEN} {before[BKGEN]}\n")
    assert ready.run(SETUP).status == 0
    assert len(ready.calls("docker build")) == 1
    assert imported(ready)[CI_BASE] != f"sha256:{'0' * 64}"


COPIED = [
    "harness/bkgen-requirements.txt",
    "harness/bkgen.Dockerfile.dockerignore",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "pyproject.toml",
    "bkgen/__init__.py",
    "bkgen/new.py",
]


@pytest.mark.parametrize("name", COPIED)
def test_whatever_the_upload_image_copies_rebuilds_it_and_it_alone(ready: Host, name: str) -> None:
    append(ready.root / "repository" / name, "# changed\n")
    finished = ready.run(SETUP)
    assert finished.status == 0, finished.all
    (build,) = ready.calls("docker build")
    assert "--tag bkgen:latest" in build


def test_a_renamed_file_and_no_bytecode_rebuild_the_upload_image(ready: Host) -> None:
    package = ready.root / "repository" / "bkgen"
    (package / "__pycache__").mkdir()
    append(package / "__pycache__" / "x.pyc", "bytecode")
    assert ready.run(SETUP).status == 0
    assert not ready.calls("docker build")
    (package / "__init__.py").rename(package / "__main__.py")
    assert ready.run(SETUP).status == 0
    assert len(ready.calls("docker build")) == 1


def test_a_name_without_a_tag_means_latest_as_for_docker(ready: Host) -> None:
    finished = ready.run(SETUP, CI_IMAGE="team/tests")
    assert finished.status == 0, finished.all
    assert "docker.io/team/tests:latest" in imported(ready)
    ready.forget()
    assert ready.run(SETUP, CI_IMAGE="team/tests").status == 0
    assert not ready.calls("docker build")


def test_an_import_that_leaves_nothing_is_no_success(ready: Host) -> None:
    ready.write("images", "")
    ready.write("import-nothing", "")
    finished = ready.run(SETUP)
    assert finished.status == 75
    assert "the import went well, but containerd has no docker.io/lmcache/ci-base:latest" in finished.words


# --- Charts ---------------------------------------------------------------------------------------


def no_operator(host: Host) -> None:
    (host.state / "releases" / "gpu-operator-gpu-operator").unlink()


def test_a_chart_with_another_digest_than_the_index_names_is_thrown_away(ready: Host) -> None:
    no_operator(ready)
    ready.serve(NVIDIA_INDEX, index("gpu-operator", "v25.10.1", "a" * 64))
    finished = ready.run(SETUP)
    assert finished.status == 1
    assert f"but the repository's index says {'a' * 64}; the file was thrown away" in finished.words
    assert not ready.calls("helm upgrade")


def test_amds_chart_is_compared_too(ready: Host) -> None:
    ready.serve(AMD_INDEX, index("amd-gpu", "0.21.0", "a" * 64))
    assert "but the repository's index says" in ready.run(SETUP, VENDOR="amd").words


def test_an_index_that_does_not_list_the_version_stops_the_setup(ready: Host) -> None:
    no_operator(ready)
    ready.serve(NVIDIA_INDEX, index("gpu-operator", "v25.10.2", "a" * 64))
    finished = ready.run(SETUP)
    assert finished.status == 1
    assert "does not list gpu-operator v25.10.1" in finished.words
    assert not ready.calls("helm upgrade")


def test_an_index_without_a_digest_is_said_and_the_pin_still_holds(ready: Host) -> None:
    no_operator(ready)
    ready.serve(NVIDIA_INDEX, index("gpu-operator", "v25.10.1", ""))
    wrong = ready.run(SETUP, NVIDIA_GPU_OPERATOR_SHA256="b" * 64)
    assert wrong.status == 1
    assert "names no digest for gpu-operator v25.10.1; only a sum in config.env" in wrong.words
    assert not ready.calls("helm upgrade")
    right = ready.run(SETUP, NVIDIA_GPU_OPERATOR_SHA256=digest(b"chart gpu-operator\n"))
    assert right.status == 0, right.all


@pytest.mark.parametrize(
    ("status", "way_out"),
    [
        ("pending-install", "helm uninstall gpu-operator --namespace gpu-operator"),
        ("pending-upgrade", "helm rollback gpu-operator --namespace gpu-operator"),
    ],
)
def test_a_release_that_was_begun_and_never_ended_is_named_with_the_way_out(
    ready: Host, status: str, way_out: str
) -> None:
    ready.write("release-status", status)
    finished = ready.run(SETUP)
    assert finished.status == 1
    assert "was begun and never ended" in finished.words
    assert way_out in finished.words
    assert not ready.calls("helm upgrade")


# --- Directories ----------------------------------------------------------------------------------

PATHS = [
    ({"DATA_DIR": "@ROOT@/my data"}, "my data', with a blank in it"),
    ({"SCRATCH_DIR": "@ROOT@/my scratch"}, "my scratch', with a blank in it"),
    ({"DATA_DIR": "data"}, "DATA_DIR has 'data', which is no absolute path"),
    ({"CACHE_DIRS": "@ROOT@/huggingface datasets"}, "CACHE_DIRS has 'datasets', which is no absolute path"),
    ({"CACHE_DIRS": " "}, "CACHE_DIRS is empty"),
    ({"DATA_OWNER": "root"}, "DATA_OWNER is 'root'"),
    ({"DATA_OWNER": "root:"}, "DATA_OWNER is 'root:'"),
]


@pytest.mark.parametrize(("settings", "said"), PATHS, ids=[said for _, said in PATHS])
def test_a_directory_that_cannot_be_meant_is_refused_before_anything_is_done(
    ready: Host, settings: dict[str, str], said: str
) -> None:
    before = sorted(ready.root.rglob("*"))
    # Below the test's own directory: a script that took them would make them.
    below = {name: value.replace("@ROOT@", str(ready.root)) for name, value in settings.items()}
    finished = ready.run(SETUP, **below)
    assert finished.status == 1
    assert said in finished.words
    assert not ready.calls()
    assert [path for path in sorted(ready.root.rglob("*")) if path.name != "calls"] == before


def test_an_owner_may_be_given_in_numbers(ready: Host) -> None:
    owner = (ready.data / "datasets").stat()
    (ready.data / "datasets").chmod(0o700)
    finished = ready.run(SETUP, DATA_OWNER=f"{owner.st_uid}:{owner.st_gid}")
    assert finished.status == 0, finished.all
    assert stat.S_IMODE((ready.data / "datasets").stat().st_mode) == 0o775
    assert "directories: already done" in ready.run(SETUP, DATA_OWNER=f"{owner.st_uid}:{owner.st_gid}").words


# --- What the suites ask for ----------------------------------------------------------------------

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/gpu.intel.com"


def test_intels_plugin_and_a_profile_for_its_resource_driver_are_told_apart(ready: Host) -> None:
    ready.write("gpus", "2\n")
    ready.write("nodes.json", '{"items": [{"status": {"allocatable": {"gpu.intel.com/i915": "2"}}}]}')
    settings = ready.root / "repository" / "bkgen.yml"
    settings.write_text(f"profiles: {{xpu: {{gpu_resource: {DEVICE_CLASS}}}}}\n")
    finished = ready.run(SETUP, VENDOR="intel")
    assert finished.status == 0, finished.all
    assert f"is {DEVICE_CLASS}, but the nodes offer gpu.intel.com/i915" in finished.words
    assert "warning: smoke-test.sh will refuse this, too" in finished.words
    settings.write_text("profiles: {xpu: {gpu_resource: gpu.intel.com/i915}}\n")
    assert "warning" not in ready.run(SETUP, VENDOR="intel").words


def test_with_a_device_class_there_is_no_plugin_to_install(ready: Host) -> None:
    none = ready.run(SETUP, VENDOR="intel", GPU_RESOURCE=DEVICE_CLASS)
    assert none.status == 1
    assert "the cluster has no device class gpu.intel.com" in none.words
    assert "DRAExtendedResource" in none.words
    ready.write("deviceclass-gpu.intel.com", "")
    found = ready.run(SETUP, VENDOR="intel", GPU_RESOURCE=DEVICE_CLASS)
    assert found.status == 0, found.all
    assert not ready.calls("kubectl apply")
