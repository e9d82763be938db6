"""The shape check, against the official models and a published schema, and the table it reads."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from bkgen.verify import PodRules, verify_pod
from bkgen.verify.shape import check_shape, shapes
from verify_samples import PINNED, gpu_pod, models_accept, schema_accepts, spec_of

ROOT = Path(__file__).resolve().parent.parent
RULES = PodRules(local_images=("lmcache/ci-base",))


def generator() -> Any:
    spec = importlib.util.spec_from_file_location(
        "generate_pod_table", ROOT / "scripts/generate_pod_table.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published(version: str) -> dict[str, Any]:
    """The definitions of the published schema, an independent description of the same types."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    text = (folder / "_definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    return definitions


# ---------------------------------------------------------------- the table


def test_the_table_is_what_the_generator_makes_of_the_installed_client() -> None:
    written = (ROOT / "bkgen/verify/_podspec.py").read_text(encoding="utf-8")
    assert written == generator().render(), "run scripts/generate_pod_table.py --write"


def test_the_generator_prints_the_module_when_it_is_not_told_to_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate_pod_table.py"])
    assert generator().main() == 0
    assert capsys.readouterr().out == (ROOT / "bkgen/verify/_podspec.py").read_text(encoding="utf-8")


def test_the_table_agrees_with_the_published_schema_of_the_same_release() -> None:
    definitions = published("1.37.0")
    prefix = "io.k8s.api.core.v1."
    compared = 0
    for name, shape in shapes().items():
        definition = definitions.get(prefix + name)
        if definition is None or shape.family == "plugin":
            continue
        compared += 1
        assert set(shape.fields) == set(definition.get("properties", {})), name
        assert set(shape.required) == set(definition.get("required", [])), name
        for key, one in shape.fields.items():
            text = json.dumps(
                definition["properties"][key].get("additionalProperties", definition["properties"][key])
            )
            assert (one.kind == "quantity") == ("resource.Quantity" in text), f"{name}.{key}"
            assert (one.kind == "port") == ("IntOrString" in text), f"{name}.{key}"
    assert compared > 90


def test_the_table_loads_in_less_than_eight_milliseconds() -> None:
    times = []
    for _ in range(5):
        started = time.process_time()
        shapes.__wrapped__()
        times.append(time.process_time() - started)
    assert min(times) < 0.008


@pytest.mark.parametrize(
    ("statement", "is_loaded"),
    [
        pytest.param(
            "verify_steps([{'command': 'x'}, 'wait'])", False, id="steps without pods leave the table alone"
        ),
        pytest.param("verify_pod({'podSpec': {}})", True, id="the first pod loads the table"),
    ],
)
def test_when_the_table_is_loaded(statement: str, is_loaded: bool) -> None:
    code = (
        f"import sys; from bkgen.verify import *; {statement}; print('bkgen.verify._podspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == str(is_loaded)


def test_verification_imports_nothing_but_the_standard_library_errors_and_names() -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import bkgen.verify, bkgen.verify.catalogue\n"
        "bkgen.verify.verify_pod({'podSpec': {'container': []}})\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - {'bkgen'}\n"
        "own = {n for n in sys.modules if n.startswith('bkgen.') and not n.startswith('bkgen.verify')}\n"
        "print(sorted(new - sys.stdlib_module_names), sorted(own))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[] ['bkgen.errors', 'bkgen.plugin_names']"


# ---------------------------------------------------------------- good and bad pods


def test_a_sound_pod_passes_here_and_before_both_judges() -> None:
    assert verify_pod(gpu_pod(), RULES) == ()
    assert models_accept(spec_of(gpu_pod()))
    assert schema_accepts(spec_of(gpu_pod()))


Edit = tuple[tuple[str | int, ...], Any]
REMOVED = object()
CONTAINER: tuple[str | int, ...] = ("podSpec", "containers", 0)


def edited(plugin: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(plugin)
    owner = changed
    for part in path[:-1]:
        owner = owner[part]
    if value is REMOVED:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return dict(changed)


# What the judges can see: code expected here, and both of them refuse.
JUDGED: dict[str, tuple[str, tuple[str | int, ...], Any]] = {
    "an unknown key of the pod": ("pod-unknown-key", ("podSpec", "nodeSelectors"), {}),
    "an unknown key of a container": ("pod-unknown-key", (*CONTAINER, "volumeMount"), []),
    "a key in the wrong case": ("pod-unknown-key", (*CONTAINER, "imagepullpolicy"), "Never"),
    "an unknown key six levels down": (
        "pod-unknown-key",
        (*CONTAINER, "env", 1, "valueFrom", "secretKeyRef", "keys"),
        "x",
    ),
    "an unknown volume source": ("pod-unknown-key", ("podSpec", "volumes", 0, "emptydir"), {}),
    "a mount without its path": (
        "pod-required-missing",
        (*CONTAINER, "volumeMounts", 0, "mountPath"),
        REMOVED,
    ),
    "a volume without a name": ("pod-required-missing", ("podSpec", "volumes", 0, "name"), REMOVED),
    "a hostPath without a path": (
        "pod-required-missing",
        ("podSpec", "volumes", 1, "hostPath", "path"),
        REMOVED,
    ),
    "a secret reference without a key": (
        "pod-required-missing",
        (*CONTAINER, "env", 1, "valueFrom", "secretKeyRef", "key"),
        REMOVED,
    ),
    "an env value that is a number": ("pod-wrong-type", (*CONTAINER, "env", 0, "value"), 1),
    "an env value that is a boolean": ("pod-wrong-type", (*CONTAINER, "env", 0, "value"), True),
    "a command that is text": ("pod-wrong-type", (*CONTAINER, "command"), "./run.sh"),
    "containers that are a map": ("pod-wrong-type", ("podSpec", "containers"), {"name": "a"}),
    "a container that is text": ("pod-wrong-type", CONTAINER, "ubuntu"),
    "readOnly in quotes": ("pod-wrong-type", (*CONTAINER, "volumeMounts", 2, "readOnly"), "true"),
    "a deadline in quotes": ("pod-wrong-type", ("podSpec", "activeDeadlineSeconds"), "60"),
    "a deadline with a fraction": ("pod-wrong-type", ("podSpec", "activeDeadlineSeconds"), 60.5),
    "a boolean where a number is due": ("pod-wrong-type", ("podSpec", "terminationGracePeriodSeconds"), True),
    "a node selector with a number": ("pod-wrong-type", ("podSpec", "nodeSelector", "gpus"), 8),
    "limits that are a list": ("pod-wrong-type", (*CONTAINER, "resources", "limits"), ["cpu"]),
    "a quantity that is a boolean": ("pod-wrong-type", (*CONTAINER, "resources", "limits", "cpu"), True),
    "a size that is a map": (
        "pod-wrong-type",
        ("podSpec", "volumes", 0, "emptyDir", "sizeLimit"),
        {"limit": "1Gi"},
    ),
}


@pytest.mark.parametrize(("code", "path", "value"), JUDGED.values(), ids=JUDGED.keys())
def test_what_both_judges_refuse_is_found_at_its_place(
    code: str, path: tuple[str | int, ...], value: Any
) -> None:
    bad = edited(gpu_pod(), path, value)
    place = path[:-1] if value is REMOVED else path
    assert (code, place) in {(one.code, one.path) for one in verify_pod(bad, RULES)}
    assert not models_accept(spec_of(bad))
    assert not schema_accepts(spec_of(bad))


# What the judges get wrong, or cannot see.
FINE: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "a quantity without quotes": ((*CONTAINER, "resources", "limits", "nvidia.com/gpu"), 1),
    "a fraction of a cpu as a number": ((*CONTAINER, "resources", "requests", "cpu"), 0.5),
    "a container without a name": ((*CONTAINER, "name"), REMOVED),
    "a null where a list could be": (("podSpec", "imagePullSecrets"), None),
    "an empty text for no account": (("podSpec", "serviceAccountName"), ""),
    "a matrix token for a quantity": (
        (*CONTAINER, "resources", "limits", "nvidia.com/gpu"),
        "{{matrix.gpus}}",
    ),
    "a matrix token for an image": ((*CONTAINER, "image"), "{{ matrix.image }}"),
    "a named port in a probe": ((*CONTAINER, "readinessProbe"), {"httpGet": {"port": "http"}}),
}


@pytest.mark.parametrize(("path", "value"), FINE.values(), ids=FINE.keys())
def test_what_the_controller_takes_is_not_reported(path: tuple[str | int, ...], value: Any) -> None:
    assert check_shape(edited(gpu_pod(), path, value)) == []


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param({}, id="an empty plugin"),
        pytest.param({"podSpec": {}}, id="a pod without containers"),
        pytest.param({"podSpec": None}, id="a pod that is nothing"),
        pytest.param({"podTemplate": "gpu-base"}, id="a pod from a template"),
    ],
)
def test_a_pod_without_containers_is_legal_here(plugin: dict[str, Any]) -> None:
    assert verify_pod(plugin) == ()


BROKEN = [
    None,
    True,
    7,
    "text",
    [],
    [1, None],
    {"podSpec": 3},
    {"podSpec": {"containers": [None, 5, {"env": "x"}]}},
]


@pytest.mark.parametrize("plugin", BROKEN, ids=map(repr, BROKEN))
def test_any_value_is_reported_and_never_trips_the_check(plugin: Any) -> None:
    found = verify_pod(plugin)
    assert all(one.code.endswith("-wrong-type") for one in found if one.severity == "error")
    assert bool(found) == (plugin is not None)


KINDS: dict[str, tuple[str, tuple[str | int, ...], Any, str]] = {
    "the pull policy in small letters": ("pod-enum", (*CONTAINER, "imagePullPolicy"), "never", "Never"),
    "a DNS policy": ("pod-enum", ("podSpec", "dnsPolicy"), "clusterFirst", "ClusterFirst"),
    "a restart policy": ("pod-enum", ("podSpec", "restartPolicy"), "OnFail", "OnFailure"),
    "a hostPath's type": (
        "pod-host-path-type",
        ("podSpec", "volumes", 1, "hostPath", "type"),
        "Directoryorcreate",
        "DirectoryOrCreate",
    ),
    "a medium": ("pod-empty-dir-medium", ("podSpec", "volumes", 0, "emptyDir", "medium"), "memory", "Memory"),
    "an effect": ("pod-toleration", ("podSpec", "tolerations", 0, "effect"), "NoSchedul", "NoSchedule"),
    "a key of a container": ("pod-unknown-key", (*CONTAINER, "imagePulPolicy"), "Never", "imagePullPolicy"),
    "a key of the plugin": ("plugin-unknown-key", ("podspec",), {}, "podSpec"),
    "a key of the checkout": ("plugin-unknown-key", ("checkout", "cloneflags"), "-v", "cloneFlags"),
}


@pytest.mark.parametrize(("code", "path", "value", "meant"), KINDS.values(), ids=KINDS.keys())
def test_a_typing_error_is_answered_with_what_was_meant(
    code: str, path: tuple[str | int, ...], value: Any, meant: str
) -> None:
    (found,) = check_shape(edited(gpu_pod(), path, value))
    assert (found.code, found.path) == (code, path)
    assert f"'{meant}'" in found.hint


def test_a_key_of_the_pod_on_the_plugin_is_sent_below_podspec() -> None:
    (found,) = check_shape({"tolerations": []})
    assert (found.code, found.hint) == ("plugin-unknown-key", "put it below podSpec")


@pytest.mark.parametrize(
    "key", ["jobTTL", "resourceClass", "commandOverride", "priority", "namespace", "serviceAccount"]
)
def test_a_key_that_belongs_elsewhere_says_where(key: str) -> None:
    (found,) = check_shape({key: "x"})
    assert found.code == "plugin-not-a-key"
    assert "did you mean" not in found.hint


def test_the_patch_is_checked_like_the_pod() -> None:
    patch = {"containers": [{"name": "container-0", "resource": {}}], "hostNetwork": "yes"}
    assert {(one.code, one.path[-1]) for one in check_shape({"podSpecPatch": patch})} == {
        ("pod-unknown-key", "resource"),
        ("pod-wrong-type", "hostNetwork"),
    }


def test_a_patch_needs_the_name_it_merges_by() -> None:
    (found,) = check_shape({"podSpecPatch": {"containers": [{"tty": True}]}})
    assert (found.code, found.path) == ("pod-required-missing", ("podSpecPatch", "containers", 0))


def test_the_pinned_version_is_one_that_the_second_judge_has() -> None:
    assert "io.k8s.api.core.v1.PodSpec" in published(PINNED)
