"""The kubernetes plugin under every name that the agent expands to it, and under names that are near it."""

from __future__ import annotations

from typing import Any

import pytest

from bkgen.plugin_names import KUBERNETES, full_name, is_kubernetes, is_near_kubernetes
from bkgen.scaffold.needs import needs
from bkgen.verify import PodRules, verify_step
from bkgen.verify.plugins import entries
from bkrun import SETTINGS, Cli, pull_request_environ, suite
from verify_samples import command, container, gpu_pod, pod

FULL = "github.com/buildkite-plugins/kubernetes-buildkite-plugin"
NAMES = {
    "as people write it": "kubernetes",
    "in full": FULL,
    "with its owner": "buildkite-plugins/kubernetes",
    "with an empty version": "kubernetes#",
    "with a query": "kubernetes?ref=1",
    "with a letter as a code": "%6bubernetes",
    "with a slash as a code": "buildkite-plugins%2fkubernetes",
    "with a version that leads back": "docker#/../kubernetes-buildkite-plugin",
}
NOT_NAMES = {
    "a version": "kubernetes#v1",
    "a full name with a version": f"{FULL}#v1",
    "an address": f"https://{FULL}",
    "an address of git": f"https://{FULL}.git",
    "a full name of git": f"{FULL}.git",
    "a name that the agent would lengthen again": "kubernetes-buildkite-plugin",
    "another spelling of the owner": "Buildkite-Plugins/kubernetes",
}
FAULTY = pod(
    container(
        resources={"limits": {"memory": "lots", "nvidia.com/gpus": 1}}, securityContext={"privileged": True}
    )
)


def found(name: str, *, fork: bool = False, interpolate: bool = False) -> list[tuple[Any, ...]]:
    """What is said of the faulty pod under this name, places seen from the plugin's map."""
    step = command(plugins=[{name: FAULTY}])
    said = verify_step(step, PodRules(fork=fork), interpolate=interpolate)
    return [(one.code, one.path[3:], one.message) for one in said]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("fork", [False, True], ids=["at home", "for a fork"])
def test_a_faulty_pod_is_found_under_every_name(name: str, fork: bool) -> None:
    assert found(name, fork=fork) == found("kubernetes", fork=fork)
    codes = {code for code, _, _ in found(name, fork=fork)}
    assert {"pod-quantity", "pod-resource-misspelt"} <= codes
    assert ("pod-fork-privileged" in codes) == fork


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_the_map_form_knows_every_name(name: str) -> None:
    step = command(plugins={name: FAULTY})
    assert "pod-quantity" in {one.code for one in verify_step(step)}
    assert entries(step) == [(("plugins", name), KUBERNETES, FAULTY)]


@pytest.mark.parametrize("name", NOT_NAMES.values(), ids=NOT_NAMES.keys())
def test_a_name_that_makes_no_pod_is_an_error(name: str) -> None:
    assert not is_kubernetes(name)
    assert is_near_kubernetes(name)
    assert [code for code, _, _ in found(name)] == ["plugin-name-versioned"]


@pytest.mark.parametrize(
    "name", ["docker#v5", "./kubernetes", "git@github.com:org/kubernetes.git", "org/kubernetes#v1"]
)
def test_another_plugin_is_left_alone(name: str) -> None:
    assert found(name) == []
    assert not is_near_kubernetes(name)


@pytest.mark.parametrize(
    ("name", "at_home", "for_fork"),
    [
        ("${WHICH:-kubernetes}", True, True),
        ("{{matrix}}", True, True),
        ("docker#${VERSION}", False, True),
        ("docker#v5", False, False),
    ],
)
def test_a_name_that_is_filled_in_later_hides_no_pod(name: str, at_home: bool, for_fork: bool) -> None:
    for fork, expected in ((False, at_home), (True, for_fork)):
        codes = {code for code, _, _ in found(name, fork=fork, interpolate=True)}
        assert ("plugin-name-open" in codes) == expected


def test_a_name_with_a_dollar_is_final_where_no_upload_fills_it_in() -> None:
    assert found("docker#${VERSION}", fork=True) == []


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("docker#v5", "github.com/buildkite-plugins/docker-buildkite-plugin#v5"),
        ("org/tool#v1", "github.com/org/tool-buildkite-plugin#v1"),
        ("a/b/c", "a/b/c"),
        ("./local", "./local"),
        ("/opt/local", "/opt/local"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("kubernetes%zz", "kubernetes%zz"),
        ("docker?%zz", "github.com/buildkite-plugins/docker-buildkite-plugin"),
        ("", ""),
    ],
)
def test_a_name_is_expanded_as_the_agent_does(name: str, full: str) -> None:
    assert full_name(name) == full


def test_a_name_means_the_same_to_the_scaffold() -> None:
    said = [needs([command(plugins=[{name: gpu_pod()}])]) for name in ("kubernetes", FULL)]
    assert said[0]
    assert said[0] == said[1]


# ---------------------------------------------------------------- through the whole of bkgen

NATIVE = """\
{top}steps:
- key: it
  label: it
  command: ./run.sh
{more}  plugins:
  - {name}:
      podSpec:
        containers:
        - name: container-0
          image: example/ci:1
          imagePullPolicy: IfNotPresent
          env: [{{name: MODE, value: a}}]
          resources: {{limits: {{memory: 16Gi, nvidia.com/gpu: 1}}}}
          volumeMounts: [{{name: dshm, mountPath: /dev/shm}}]
{context}        volumes: [{{name: dshm, emptyDir: {{medium: Memory, sizeLimit: 1Gi}}}}]
"""
PRIVILEGED = "          securityContext: {privileged: true}\n"


def native(name: str, *, top: str = "", more: str = "", context: str = "") -> dict[str, Any]:
    """A repository with one suite whose step brings its plugin under `name`."""
    text = NATIVE.format(name=name, top=top, more=more, context=context)
    return {"bkgen.yml": SETTINGS, **suite("unit", text)}


def test_a_step_s_own_plugin_is_the_same_under_every_name(cli: Cli) -> None:
    outputs = []
    for name in ("kubernetes", FULL):
        files = native(name, top="pod: {gpus: 1, memory: 16Gi, shm: 1Gi}\n")
        root = cli.files(files, name=name.rpartition("/")[2]).path
        document = cli.run(root, "render", "unit").out
        assert document.count(name) == 1
        pods = cli.run(root, "render", "unit", "--pods").out
        assert "kind" in pods
        outputs.append((document.replace(name, "kubernetes"), pods, cli.run(root, "check").out))
    assert outputs[0] == outputs[1]


def test_a_pod_beside_a_plugin_is_a_clash_under_every_name(cli: Cli) -> None:
    root = cli.files(native(FULL, more="  pod: {gpus: 1}\n")).path
    assert "the step has a pod and a kubernetes plugin of its own" in cli.run(root, "check").out


@pytest.mark.parametrize("name", ["kubernetes", FULL, "buildkite-plugins/kubernetes"])
def test_a_fork_s_privileged_pod_is_refused_under_every_name(cli: Cli, name: str) -> None:
    made = cli.pull_request({"src/core.py": "core = 2\n"}, native(name, context=PRIVILEGED))
    environ = pull_request_environ(made, BUILDKITE_PULL_REQUEST_REPO="https://github.com/someone/x")
    result = cli.run(made.checkout.path, "upload", "--dry-run", environ=environ)
    assert result.code == 1
    assert "may not have a privileged container" in result.err
