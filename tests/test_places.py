"""A fault of a pod is named as its author named the field, and stands on the author's line."""

from __future__ import annotations

import pytest

from bkrun import SETTINGS, Cli, suite

MI300 = '  mi300: {gpu_resource: amd.com/gpu, image: "example/amd:1", queue: amd}\n'
FILE = "k3_tests/unit/pipeline.yml"


def said(cli: Cli, pipeline: str) -> list[str]:
    """The lines of `check` that name faults of this suite, without their hints."""
    root = cli.files({"bkgen.yml": SETTINGS + MI300, **suite("unit", pipeline)}).path
    return [line for line in cli.run(root, "check").out.splitlines() if line.startswith(FILE)]


FILLED = (
    "volumes in memory count against the memory limit of container-0, 16Gi, and fill all of it: dshm 32Gi"
)


@pytest.mark.parametrize(
    ("pipeline", "place"),
    [
        (
            "pod: {gpus: 1, memory: {request: 8Gi, limit: 16Gi}, shm: 32Gi}\nsteps:\n- {command: a, key: k}\n",
            "1:53: k: pod.shm",
        ),
        (
            (
                "pod: {gpus: 1, memory: {request: 8Gi, limit: 16Gi}}\nsteps:\n"
                "- {command: a, key: k, pod: {shm: 32Gi}}\n"
            ),
            "3:30: k: pod.shm",
        ),
        (
            (
                "pod: {gpus: 1, shm: 32Gi}\nsteps:\n- command: a\n  key: k\n"
                "  pod: {memory: {request: 8Gi, limit: 16Gi}}\n"
            ),
            "1:16: k: pod.shm",
        ),
        (
            (
                "pod: {gpus: 1, memory: {request: 8Gi, limit: 16Gi}, shm: 32Gi}\nsteps:\n"
                "- {command: a, key: k, mirrors: {mi300: {}}}\n- {command: b, key: l}\n"
            ),
            "1:53: k and 2 more steps: pod.shm",
        ),
    ],
    ids=["of the file", "of the step", "of the file under a step's", "of three steps"],
)
def test_shm_that_fills_the_memory(cli: Cli, pipeline: str, place: str) -> None:
    assert said(cli, pipeline) == [f"{FILE}:{place}: {FILLED} [pod-shm-above-memory]"]


@pytest.mark.parametrize(
    ("pod", "field", "code"),
    [
        ("gpus: 9, memory: {request: 8Gi, limit: 16Gi}, shm: 1Gi", "pod.gpus", "pod-gpus-above-node"),
        ('env: {A: "1", B: "$(A)"}', "pod.env", "pod-env-reference"),
        (
            "mounts: [{name: data, mount_path: /workspace, host_path: /data/x}]",
            "pod.mounts",
            "pod-mount-workspace",
        ),
        (
            "spec: {containers: [{name: container-0, ports: [{containerPort: 0}]}]}",
            "pod.spec.containers.0.ports.0.containerPort",
            "pod-number-range",
        ),
    ],
)
def test_a_field_of_a_pod(cli: Cli, pod: str, field: str, code: str) -> None:
    found = said(cli, f"pod: {{{pod}}}\nsteps:\n- {{command: a, key: k}}\n")
    assert [line for line in found if line.endswith(f"[{code}]") and f": k: {field}: " in line], found


REFERENCE = "{name: T, valueFrom: {secretKeyRef: {name: a_b, key: k}}}"
SECRET_AT = [
    ('env: {A: "1"}, secrets: {T: "a_b/key"}', "1:32: k: pod.secrets.T"),
    ('secrets: {OK: "a/key", T: "a_b/key"}, env: {A: "1"}', "1:30: k: pod.secrets.T"),
    (
        f'env: {{A: "1"}}, spec: {{containers: [{{name: container-0, env: [{REFERENCE}]}}]}}',
        ": k: pod.spec.containers.0.env",
    ),
]


@pytest.mark.parametrize(
    ("pod", "place"), SECRET_AT, ids=["beside an env", "beside another secret", "in the raw spec"]
)
def test_a_fault_of_a_secret_stands_where_the_secret_is_named(cli: Cli, pod: str, place: str) -> None:
    found = said(cli, f"pod: {{{pod}}}\nsteps:\n- {{command: a, key: k}}\n")
    faults = [line for line in found if line.endswith("[pod-name-invalid]")]
    assert len(faults) == 1, found
    assert place in faults[0]


def test_a_deadline_is_named_by_the_word_for_a_pod_too(cli: Cli) -> None:
    pipeline = "pod: {active_deadline_minutes: 10}\nsteps:\n- {command: a, key: k, timeout_in_minutes: 30}\n"
    root = cli.files({"bkgen.yml": SETTINGS, **suite("unit", pipeline)}).path
    told = cli.run(root, "check").out
    assert "[timeout-past-deadline]" in told
    assert "hint: give it 30 minutes or more: active_deadline_minutes in pod" in told


def test_a_native_pod_keeps_the_path_its_author_wrote(cli: Cli) -> None:
    volume = "{name: m, emptyDir: {medium: Memory}}"
    pod = f"{{podSpec: {{containers: [{{image: 'a/b:1'}}], volumes: [{volume}]}}}}"
    found = said(cli, f"steps:\n- {{command: a, key: k, plugins: [{{kubernetes: {pod}}}]}}\n")
    field = "plugins.0.kubernetes.podSpec.volumes.0.emptyDir"
    assert [line for line in found if f": k: {field}: " in line and line.endswith("[pod-shm-unlimited]")], (
        found
    )
