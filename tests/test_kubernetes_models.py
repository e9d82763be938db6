"""Every pod of this repository, held against models and schemas that bkgen did not make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # the official client takes seconds to load, and there are two of them

ROOT = Path(__file__).parents[1]
PREVIOUS = ROOT / ".cache/kubernetes-previous"
PINNED = "1.34"
JUDGE = """
import json, sys
from kubernetes.client import ApiClient
from kubernetes import __version__
class Answer:
    def __init__(self, value): self.data = json.dumps(value)
client = ApiClient()
for pod in json.load(sys.stdin):
    if hasattr(client, "deserialize"):
        try:
            read = client.deserialize(Answer(pod), "V1Pod")
        except TypeError:
            read = client.deserialize(json.dumps(pod), "V1Pod", "application/json")
    back = client.sanitize_for_serialization(read)
    assert back["spec"] == pod["spec"], (pod["metadata"]["name"], back["spec"], pod["spec"])
print(__version__)
"""


@pytest.fixture(scope="module")
def pods() -> list[dict[str, Any]]:
    """The manifests of all suites that have pods."""
    found: list[dict[str, Any]] = []
    for path in sorted((ROOT / "k3_tests").glob("*/pipeline.yml")):
        done = subprocess.run(
            [sys.executable, "-m", "bkgen", "render", "--pods", "--json", path.parent.name],
            cwd=ROOT,
            env={k: v for k, v in os.environ.items() if not k.startswith("BUILDKITE")},
            capture_output=True,
        )
        assert done.returncode in {0, 1}, done.stderr
        if done.returncode == 0:
            found += json.loads(done.stdout)["items"]
        else:
            assert b"no selected step has a pod" in done.stderr, done.stderr
    return found


def judged(pods: list[dict[str, Any]], environ: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JUDGE],
        input=json.dumps(pods).encode(),
        env=environ,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_the_suites_have_pods(pods: list[dict[str, Any]]) -> None:
    assert len(pods) >= 20


def test_the_current_client_reads_every_pod_without_losing_a_field(pods: list[dict[str, Any]]) -> None:
    assert judged(pods, dict(os.environ)).startswith("37.")


@pytest.mark.skipif(not (PREVIOUS / ".complete").exists(), reason="./dev oracles fetches the previous client")
def test_the_previous_client_reads_every_pod_without_losing_a_field(pods: list[dict[str, Any]]) -> None:
    assert judged(pods, {**os.environ, "PYTHONPATH": str(PREVIOUS)}).startswith("36.")


def test_a_pinned_schema_takes_every_pod(pods: list[dict[str, Any]]) -> None:
    import kubernetes_validate

    for pod in pods:
        kubernetes_validate.validate(pod, PINNED, strict=True)


def test_the_judges_see_a_misspelt_field(pods: list[dict[str, Any]]) -> None:
    import kubernetes_validate

    wrong = json.loads(json.dumps(pods[0]))
    wrong["spec"]["containers"][0]["resource"] = {}
    with pytest.raises(AssertionError):
        judged([wrong], dict(os.environ))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, PINNED, strict=True)
