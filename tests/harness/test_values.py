"""values.py and values.yaml: what is handed to the chart, held against its documented keys."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

HARNESS = Path(__file__).parent.parent.parent / "harness"


def load() -> Any:
    """values.py as a module; its folder is no package."""
    spec = importlib.util.spec_from_file_location("harness_values", HARNESS / "values.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = load()

# Every key that the chart's documentation names, written down a second time and on purpose: the generator
# has a list of its own, and a key that slipped into that one would stop the controller. A nested mapping
# holds the documented keys below a key; None stands for anything Kubernetes itself describes.
ENV_AND_MOUNTS: dict[str, Any] = {"envFrom": None, "extraVolumeMounts": None}
DOCUMENTED: dict[str, Any] = {
    "agentToken": None,
    "agentStackSecret": None,
    "config": {
        "queue": None,
        "tags": None,
        "max-in-flight": None,
        "additional-redacted-vars": None,
        "allow-pod-spec-patch-unsafe-command-modification": None,
        "debug": None,
        "default-termination-grace-period-seconds": None,
        "empty-job-grace-period": None,
        "enable-queue-pause": None,
        "image": None,
        "image-check-container-cpu-limit": None,
        "image-check-container-memory-limit": None,
        "job-cancel-checker-poll-interval": None,
        "job-creation-concurrency": None,
        "job-prefix": None,
        "k8s-client-rate-limiter-burst": None,
        "k8s-client-rate-limiter-qps": None,
        "pagination-depth-limit": None,
        "pagination-page-size": None,
        "poll-interval": None,
        "profiler-address": None,
        "prohibit-kubernetes-plugin": None,
        "prometheus-port": None,
        "query-reset-interval": None,
        "work-queue-limit": None,
        "pod-pending-timeout": None,
        "image-pull-backoff-grace-period": None,
        "default-image-pull-policy": None,
        "default-image-check-pull-policy": None,
        "skip-image-check-containers": None,
        "job-ttl": None,
        "job-active-deadline-seconds": None,
        "workspace-volume": None,
        "resource-classes": None,
        "default-resource-class-name": None,
        "default-checkout-params": {
            **ENV_AND_MOUNTS,
            "skip": None,
            "checkoutFlags": None,
            "cleanFlags": None,
            "cloneFlags": None,
            "fetchFlags": None,
            "noSubmodules": None,
            "submoduleCloneConfig": None,
            "gitMirrors": None,
            "gitCredentialsSecret": {
                "secretName": None,
                "items": None,
                "defaultMode": None,
                "optional": None,
            },
        },
        "default-command-params": {**ENV_AND_MOUNTS, "interposer": None},
        "default-sidecar-params": ENV_AND_MOUNTS,
        "default-metadata": {"labels": None, "annotations": None},
        "pod-spec-patch": None,
        "agent-config": None,
    },
}
GO_DURATION = re.compile(r"([0-9]+(h|m|s|ms))+")


def undocumented(values: dict[str, Any], documented: dict[str, Any], above: str = "") -> Iterator[str]:
    """The paths of all keys that the documentation does not name."""
    for key, value in values.items():
        if key not in documented:
            yield f"{above}{key}"
        elif documented[key] is not None and isinstance(value, dict):
            yield from undocumented(value, documented[key], f"{above}{key}.")


class Finished(NamedTuple):
    """How the generator ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


class Generator:
    """values.py with a settings file and a base of a test's own."""

    def __init__(self, folder: Path) -> None:
        self.settings = folder / "bkgen.yml"
        self.base = folder / "values.yaml"
        self.nodes = folder / "nodes.json"
        self.settings.write_text(
            "queue: k8s\nprofiles:\n  h200: {gpu_resource: nvidia.com/gpu, gpus_per_node: 8}\n"
            "default_profile: h200\n"
        )
        self.base.write_text((HARNESS / "values.yaml").read_text())

    def run(self, *arguments: str) -> Finished:
        output, words = io.StringIO(), io.StringIO()
        files = ["--settings", str(self.settings), "--base", str(self.base)]
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(words):
            try:
                status = MODULE.main([*files, *arguments])
            except SystemExit as end:
                status = end.code
        return Finished(status, output.getvalue(), words.getvalue())

    def values(self, *arguments: str) -> dict[str, Any]:
        finished = self.run(*arguments)
        assert finished.returncode == 0, finished.stderr
        values = yaml.safe_load(finished.stdout)
        assert isinstance(values, dict)
        return values


@pytest.fixture
def generator(tmp_path: Path) -> Generator:
    return Generator(tmp_path)


# --- Keys -----------------------------------------------------------------------------------------


def test_every_generated_key_is_documented(generator: Generator) -> None:
    everything = ("--git-secret", "g", "--clone-flags=-v", "--fetch-flags=-v", "--tag", "os=linux")
    for arguments in ((), everything):
        values = generator.values(*arguments)
        assert list(undocumented(values, DOCUMENTED)) == []
        assert "agentToken" not in values


def test_the_test_itself_finds_an_undocumented_key(generator: Generator) -> None:
    values = generator.values("--git-secret", "g")
    values["config"]["default-checkout-params"]["gitCredentialsSecret"]["name"] = "x"
    values["config"]["max-inflight"] = 1
    values["graphqlToken"] = ""
    assert list(undocumented(values, DOCUMENTED)) == [
        "config.default-checkout-params.gitCredentialsSecret.name",
        "config.max-inflight",
        "graphqlToken",
    ]


def test_values_yaml_is_what_is_generated_with_the_default_settings(generator: Generator) -> None:
    written = yaml.safe_load((HARNESS / "values.yaml").read_text())
    assert generator.values("--git-secret", "buildkite-git-credentials") == written


def test_values_yaml_explains_every_key() -> None:
    lines = (HARNESS / "values.yaml").read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r" *[A-Za-z-]+:", line)]
    assert len(keys) == 13
    for number in keys:
        explained = lines[number - 1].lstrip().startswith("#")
        # `config:` has its heading in the file's own, secretName in that of the key above it.
        assert explained or lines[number].strip() in ("config:", "secretName: buildkite-git-credentials")


WRONG_KEYS = [
    ("config:\n  max-inflight: 3\n", "values.yaml:2:3: config.max-inflight", "did you mean 'max-in-flight'?"),
    ("config:\n  maxInFlight: 3\n", "config.maxInFlight", "hint:"),
    ("config:\n  org: acme\n", "config.org", "known there: additional-redacted-vars, agent-config"),
    ("config:\n  cluster-uuid: x\n", "config.cluster-uuid", "hint:"),
    (
        "config:\n  default-checkout-params:\n    fetch-flags: -v\n",
        "values.yaml:3:5: config.default-checkout-params.fetch-flags",
        "did you mean 'fetchFlags'?",
    ),
    ("agentToken: bkct_secret\n", "values.yaml:1:1: agentToken", "puts it into a secret"),
    ("graphqlToken: x\n", "values.yaml:1:1: graphqlToken", "hint:"),
    ("fullnameOverride: blue\n", "values.yaml:1:1: fullnameOverride", "a namespace of its own"),
    ("nameOverride: blue\n", "values.yaml:1:1: nameOverride", "would wait for one that does not exist"),
]


@pytest.mark.parametrize(("base", "said", "hint"), WRONG_KEYS, ids=[row[1] for row in WRONG_KEYS])
def test_a_key_that_would_stop_the_controller_is_an_error(
    generator: Generator, base: str, said: str, hint: str
) -> None:
    generator.base.write_text(base)
    finished = generator.run()
    assert finished.returncode == 1
    assert said in finished.stderr
    assert hint in finished.stderr
    assert "bkct_secret" not in finished.stderr
    assert "Traceback" not in finished.stderr
    assert not finished.stdout


def test_keys_that_a_keeper_adds_stay(generator: Generator) -> None:
    generator.base.write_text(
        "nodeSelector: {role: ci}\nconfig:\n  job-ttl: 1h\n  default-checkout-params: {noSubmodules: true}\n"
    )
    values = generator.values()
    assert values["nodeSelector"] == {"role": "ci"}
    assert values["config"]["job-ttl"] == "1h"
    assert values["config"]["default-checkout-params"] == {"noSubmodules": True}


def test_every_key_of_the_controllers_settings_is_let_through(generator: Generator) -> None:
    keys = {key: f"of {key}" for key in DOCUMENTED["config"] if not key.startswith("default-")}
    keys["default-termination-grace-period-seconds"] = "90"
    generator.base.write_text(yaml.safe_dump({"config": keys}))
    config = generator.values()["config"]
    assert keys.keys() <= config.keys()
    for key in ("prometheus-port", "prohibit-kubernetes-plugin"):
        assert config[key] == f"of {key}"


# --- Values ---------------------------------------------------------------------------------------


def test_gpus_are_counted_on_the_nodes(generator: Generator) -> None:
    nodes = [
        {"status": {"allocatable": offered}}
        for offered in ({"nvidia.com/gpu": "6"}, {}, {"amd.com/gpu": "8"})
    ]
    generator.nodes.write_text(json.dumps({"items": nodes}))
    assert generator.values("--nodes", str(generator.nodes))["config"]["max-in-flight"] == 8
    assert generator.values("--extra-jobs", "0")["config"]["max-in-flight"] == 8


def test_the_deadline_covers_the_longest_job_and_its_wait(generator: Generator) -> None:
    config = generator.values("--pending-minutes", "90", "--job-minutes", "480")["config"]
    assert config["pod-pending-timeout"] == "90m"
    assert config["job-active-deadline-seconds"] == (480 + 90) * 60
    for key in ("pod-pending-timeout", "image-pull-backoff-grace-period", "job-ttl"):
        assert GO_DURATION.fullmatch(config[key])


def test_a_profile_may_have_a_queue_of_its_own(generator: Generator) -> None:
    generator.settings.write_text(
        "profiles: {mi300: {gpu_resource: amd.com/gpu, gpus_per_node: 4, queue: amd}}\n"
    )
    config = generator.values("--profile", "mi300", "--tag", "os=linux")["config"]
    assert (config["queue"], config["tags"], config["max-in-flight"]) == ("amd", ["queue=amd", "os=linux"], 6)


def test_a_repository_without_settings_works(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    for name in ("values.py", "values.yaml"):
        (tmp_path / "harness" / name).write_text((HARNESS / name).read_text())
    nodes = tmp_path / "nodes.json"
    nodes.write_text('{"items": [{"status": {"allocatable": {"nvidia.com/gpu": "2"}}}]}')
    command = [sys.executable, str(tmp_path / "harness" / "values.py"), "--nodes", str(nodes)]
    values = yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (values["config"]["queue"], values["config"]["max-in-flight"]) == ("k8s", 4)


def test_the_settings_of_this_repository_give_values_for_each_of_its_pod_profiles(
    generator: Generator,
) -> None:
    generator.settings = HARNESS.parent / "bkgen.yml"
    profiles = yaml.safe_load(generator.settings.read_text())["profiles"]
    with_gpus = [name for name, profile in profiles.items() if profile.get("gpus_per_node")]
    assert with_gpus
    for name in with_gpus:
        assert list(undocumented(generator.values("--profile", name), DOCUMENTED)) == []


WRONG_SETTINGS = [
    (
        "profiles: {h200: {}}\ndefault_profile: h20\n",
        "bkgen.yml:1:1: profiles: has no 'h20'",
        "declared: h200",
    ),
    (
        "profiles: {musa: {pod: false}}\ndefault_profile: musa\n",
        "bkgen.yml:1:19: profiles.musa.pod: is false",
        "",
    ),
    (
        "profiles: {h: {gpus_per_node: eight}}\ndefault_profile: h\n",
        "profiles.h.gpus_per_node: is 'eight'",
        "it must be a int",
    ),
    ("profiles: {h: {gpus_per_node: true}}\ndefault_profile: h\n", "profiles.h.gpus_per_node: is True", ""),
    ("profiles: {h: {}}\ndefault_profile: h\n", "no nvidia.com/gpu is offered", "set gpus_per_node"),
    ("queue: [a]\n", "bkgen.yml:1:1: queue: is ['a']", "it must be a str"),
    ("- a list\n", "bkgen.yml: is no mapping", "bkgen check"),
    ("queue: {\n", "bkgen.yml:2:1: is no YAML", "bkgen check"),
]


@pytest.mark.parametrize(("text", "said", "hint"), WRONG_SETTINGS, ids=[row[1] for row in WRONG_SETTINGS])
def test_a_mistake_in_the_settings_is_one_line_with_its_place(
    generator: Generator, text: str, said: str, hint: str
) -> None:
    generator.settings.write_text(text)
    finished = generator.run()
    assert finished.returncode == 1
    assert said in finished.stderr
    assert f"hint: {hint}"[:6] in finished.stderr
    assert hint in finished.stderr
    assert "Traceback" not in finished.stderr


NO_NODES = [
    ("{\n  oops", "nodes.json:2:3: is no JSON"),
    ("", "nodes.json:1:1: is no JSON"),
    ("[]", "nodes.json: is no list of nodes"),
    ('{"items": [{}]}', "nodes.json: items.0: is no node with a status"),
    ('{"items": [{"status": {"allocatable": {"nvidia.com/gpu": "1k"}}}]}', "offer '1k' of nvidia.com/gpu"),
    (None, "nodes.json: cannot be read"),
]


@pytest.mark.parametrize(("text", "said"), NO_NODES, ids=[row[1] for row in NO_NODES])
def test_what_are_no_nodes_is_one_line_and_a_hint(generator: Generator, text: str | None, said: str) -> None:
    if text is not None:
        generator.nodes.write_text(text)
    finished = generator.run("--nodes", str(generator.nodes))
    assert finished.returncode == 1
    problem, hint = finished.stderr.splitlines()
    assert said in problem
    assert hint.startswith("  hint: ")


def test_a_file_that_cannot_be_written_is_said(generator: Generator) -> None:
    finished = generator.run("--output", str(generator.settings / "values.yaml"))
    assert finished.returncode == 1
    assert "cannot be written" in finished.stderr


def test_a_device_class_counts_as_the_settings_say_for_no_node_lists_it(generator: Generator) -> None:
    generator.settings.write_text(
        "profiles: {xpu: {gpu_resource: deviceclass.resource.kubernetes.io/gpu.intel.com, gpus_per_node: 4}}\n"
    )
    generator.nodes.write_text('{"items": [{"status": {"allocatable": {}}}, {"status": {}}]}')
    assert generator.values("--nodes", str(generator.nodes))["config"]["max-in-flight"] == 2 * 4 + 2


def test_without_a_default_the_first_profile_is_meant_as_in_bkgen(generator: Generator) -> None:
    generator.settings.write_text(
        "profiles: {b: {gpus_per_node: 3, gpu_resource: amd.com/gpu}, a: {gpus_per_node: 1}}\n"
    )
    assert generator.values()["config"]["max-in-flight"] == 3 + 2


def test_a_missing_file_and_a_wrong_option_are_told_apart(generator: Generator) -> None:
    generator.settings.unlink()
    missing, wrong = generator.run(), generator.run("--extra-jobs", "-1")
    assert (missing.returncode, wrong.returncode) == (1, 2)
    assert "cannot be read" in missing.stderr


@pytest.mark.parametrize("tag", ["linux", "=x", "a=", "queue=other", "a b=c"])
def test_what_is_no_tag_is_refused(generator: Generator, tag: str) -> None:
    finished = generator.run(f"--tag={tag}")
    assert finished.returncode == 1
    assert "is no tag" in finished.stderr


def test_the_same_input_gives_the_same_bytes(generator: Generator) -> None:
    assert generator.run().stdout == generator.run().stdout


# --- Round trip -----------------------------------------------------------------------------------

names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)


@settings(max_examples=25, deadline=None)
@given(
    queue=names,
    resource=st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]),
    gpus=st.integers(1, 64),
    jobs=st.integers(0, 99),
)
def test_what_the_settings_say_comes_out_again(queue: str, resource: str, gpus: int, jobs: int) -> None:
    document = MODULE.Document(HARNESS / "values.yaml")
    wanted = MODULE.Document(HARNESS / "absent.yml", optional=True)
    wanted.content = {
        "queue": "other",
        "profiles": {"p": {"queue": queue, "gpu_resource": resource, "gpus_per_node": gpus}},
        "default_profile": "p",
    }
    arguments = MODULE.read_arguments(["--extra-jobs", str(jobs)])
    values = yaml.safe_load(yaml.safe_dump(MODULE.generate(document, wanted, None, arguments)))
    assert values["config"]["queue"] == queue
    assert values["config"]["tags"] == [f"queue={queue}"]
    assert values["config"]["max-in-flight"] == gpus + jobs
    assert list(undocumented(values, DOCUMENTED)) == []
