"""Any sound pod passes, and any key that is dropped or misspelt is found, as two independent judges see it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bkgen.verify import verify_pod
from verify_samples import models_accept, schema_accepts

# Sampled, not composed of letters: the shapes are what varies here, and each letter would cost a draw.
NAMES = st.sampled_from(["a", "gpu", "hf-cache", "x9", "team-cache-7", "models", "n0", "zz-9-z"])
VALUES = st.sampled_from(["", "/", "/health", "ready?all=1"])
AMOUNTS = st.sampled_from(["1", "500m", "2Gi", "1e3", "0.5", "128Mi"])


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


MATCH = st.fixed_dictionaries(
    {"key": NAMES, "operator": st.just("In"), "values": st.lists(NAMES, min_size=1, max_size=2)}
)
AFFINITY = st.fixed_dictionaries(
    {
        "nodeAffinity": st.fixed_dictionaries(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                    {
                        "nodeSelectorTerms": st.lists(
                            st.fixed_dictionaries({"matchExpressions": st.lists(MATCH)})
                        )
                    }
                )
            }
        )
    }
)
CONTAINERS = st.fixed_dictionaries(
    {
        "name": st.just("container-0"),
        "image": st.sampled_from(["ubuntu:24.04", "registry.example.com:5000/team/image:1"]),
        "resources": st.fixed_dictionaries({"limits": st.fixed_dictionaries({"memory": st.just("64Gi")})}),
    },
    optional={
        "imagePullPolicy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
        "env": st.lists(
            st.fixed_dictionaries({"name": NAMES.map(str.upper).map(lambda name: name.replace("-", "_"))})
            | st.fixed_dictionaries(
                {
                    "name": NAMES,
                    "valueFrom": st.fixed_dictionaries(
                        {"secretKeyRef": st.fixed_dictionaries({"name": NAMES, "key": NAMES})}
                    ),
                }
            ),
            max_size=3,
            unique_by=lambda entry: entry["name"],
        ),
        "securityContext": optional(
            privileged=st.booleans(),
            runAsUser=st.integers(0, 9999),
            capabilities=optional(add=st.lists(st.sampled_from(["SYS_PTRACE", "IPC_LOCK"]), unique=True)),
        ),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"containerPort": st.integers(1, 65535)}, optional={"protocol": st.just("TCP")}
            ),
            max_size=2,
        ),
        "startupProbe": st.fixed_dictionaries(
            {
                "httpGet": st.fixed_dictionaries(
                    {"port": st.integers(1, 65535) | NAMES}, optional={"path": VALUES}
                )
            }
        ),
        "workingDir": st.just("/models"),
        "tty": st.booleans(),
    },
)
VOLUMES = st.one_of(
    st.fixed_dictionaries({"emptyDir": optional(sizeLimit=AMOUNTS)}),
    st.fixed_dictionaries(
        {"hostPath": st.fixed_dictionaries({"path": st.just("/data/a"), "type": st.just("Directory")})}
    ),
    st.fixed_dictionaries({"persistentVolumeClaim": st.fixed_dictionaries({"claimName": NAMES})}),
    st.fixed_dictionaries(
        {
            "secret": st.fixed_dictionaries(
                {"secretName": NAMES},
                optional={
                    "items": st.lists(st.fixed_dictionaries({"key": NAMES, "path": NAMES}), max_size=2)
                },
            )
        }
    ),
)
EXTRAS = optional(
    affinity=AFFINITY,
    nodeSelector=st.dictionaries(NAMES, NAMES, max_size=2),
    tolerations=st.lists(st.fixed_dictionaries({"key": NAMES, "operator": st.just("Exists")}), max_size=2),
    serviceAccountName=NAMES,
    hostNetwork=st.booleans(),
    terminationGracePeriodSeconds=st.integers(0, 600),
    topologySpreadConstraints=st.lists(
        st.fixed_dictionaries(
            {
                "maxSkew": st.integers(1, 5),
                "topologyKey": NAMES,
                "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            }
        ),
        max_size=1,
    ),
)


@st.composite
def pod_specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = draw(EXTRAS)
    volumes = draw(st.lists(VOLUMES, max_size=3))
    container = draw(CONTAINERS)
    if volumes:
        spec["volumes"] = [{"name": f"v{index}", **volume} for index, volume in enumerate(volumes)]
        container["volumeMounts"] = [
            {"name": f"v{index}", "mountPath": f"/v/{index}"} for index in range(len(volumes))
        ]
    spec["containers"] = [container]
    return spec


def typed_maps(model: Any, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    """Every map of the spec whose keys the official models fix, with its model and its place."""
    import kubernetes.client.models as models

    yield model, value, path
    for attribute, written in model.openapi_types.items():
        key = model.attribute_map[attribute]
        inner = next(
            (word for word in written.replace("[", " ").replace("]", "").split() if "V1" in word), None
        )
        if inner is None or value.get(key) is None:
            continue
        items = enumerate(value[key]) if isinstance(value[key], list) else [(None, value[key])]
        for index, item in items:
            place = (*path, key) if index is None else (*path, key, index)
            yield from typed_maps(getattr(models, inner), item, place)


def required_keys(model: Any) -> list[str]:
    aliases = {one.serialization_alias or one.alias or name: one for name, one in model.model_fields.items()}
    return [key for key, one in aliases.items() if one.is_required()]


def misspelt(key: str, choice: random.Random) -> str:
    """The key with one typing error: a letter doubled, lost, swapped or in the other case."""
    place = choice.randrange(len(key))
    letter = key[place]
    wrong = {
        "doubled": key[:place] + letter + key[place:],
        "lost": key[:place] + key[place + 1 :],
        "case": key[:place] + letter.swapcase() + key[place + 1 :],
        "more": key + "s",
    }
    return choice.choice(sorted(set(wrong.values()) - {key, ""}))


QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@QUICK
@given(pod_specs())
def test_any_sound_pod_passes_and_both_judges_agree(spec: dict[str, Any]) -> None:
    assert verify_pod({"podSpec": spec}) == ()
    assert models_accept(spec)
    assert schema_accepts(spec)


@QUICK
@given(pod_specs(), st.integers(0, 2**32))
def test_any_key_that_is_misspelt_is_found_where_it_stands(spec: dict[str, Any], seed: int) -> None:
    import kubernetes.client.models as models

    choice = random.Random(seed)
    owner, path, key, known = choice.choice(
        [
            (value, path, key, model.attribute_map.values())
            for model, value, path in typed_maps(models.V1PodSpec, spec)
            for key in value
        ]
    )
    wrong = misspelt(key, choice)
    if wrong in known:
        return
    owner[wrong] = owner.pop(key)
    found = verify_pod({"podSpec": spec})
    assert ("pod-unknown-key", ("podSpec", *path, wrong)) in {(one.code, one.path) for one in found}
    assert not models_accept(spec)
    assert not schema_accepts(spec)


@QUICK
@given(pod_specs(), st.integers(0, 2**32))
def test_any_required_key_that_is_dropped_is_missed(spec: dict[str, Any], seed: int) -> None:
    import kubernetes.client.models as models

    required = [
        (value, path, key)
        for model, value, path in typed_maps(models.V1PodSpec, spec)
        for key in required_keys(model)
        # The controller names command containers itself, and makes one where there is none.
        if path and not (path[0] == "containers" and len(path) == 2)
    ]
    if not required:
        return
    owner, path, key = random.Random(seed).choice(required)
    del owner[key]
    found = verify_pod({"podSpec": spec})
    assert ("pod-required-missing", ("podSpec", *path)) in {(one.code, one.path) for one in found}
    assert not models_accept(spec)
    assert not schema_accepts(spec)
