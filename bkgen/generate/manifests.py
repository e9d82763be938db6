"""The pods of a pipeline as manifests, for `kubectl apply` and a server-side dry run.

What the controller adds (agent, checkout, workspace) is left out; the step's command and environment
are put in, so that the pod can be started by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bkgen.buildkite import EmittedStep, Pipeline
from bkgen.errors import UserError
from bkgen.pods.merge import laid_over
from bkgen.verify.plugins import NAME, entries

STEP_LABEL = "bkgen.step"
SUITE_LABEL = "bkgen.suite"


def pod_list(pipeline: Pipeline) -> dict[str, Any]:
    """A `v1` List with one Pod for each step that has a `kubernetes` plugin.

    UserError where a step has no image of its own, or no step has a pod.
    """
    pods = [pod for item in pipeline.items for step in item.steps for pod in _pod(step)]
    _tell_apart(pods)
    if not pods:
        raise UserError.single(
            "render-no-pods", "no selected step has a pod", "name a suite whose steps have `pod`"
        )
    return {"apiVersion": "v1", "kind": "List", "items": pods}


def _tell_apart(pods: Iterable[dict[str, Any]]) -> None:
    # Keys know capitals and underscores, and are longer; of two pods with one name kubectl keeps the last.
    taken: set[str] = set()
    for pod in pods:
        metadata = pod["metadata"]
        name, number = metadata["name"], 2
        while metadata["name"] in taken:
            metadata["name"] = f"{name[:56].rstrip('-')}-{number}"
            number += 1
        taken.add(metadata["name"])


def _pod(step: EmittedStep) -> Iterator[dict[str, Any]]:
    for _, name, plugin in entries(step.body):
        if name == NAME and isinstance(plugin, Mapping):
            metadata = plugin.get("metadata") or {}
            labels = {
                **(metadata.get("labels") or {}),
                SUITE_LABEL: _label(step.suite),
                STEP_LABEL: _label(step.key),
            }
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**metadata, "name": pod_name(step.key), "labels": labels},
                "spec": _spec(step, plugin),
            }


def _spec(step: EmittedStep, plugin: Mapping[str, Any]) -> dict[str, Any]:
    spec = laid_over(plugin.get("podSpec") or {}, plugin.get("podSpecPatch") or {})
    containers = spec.get("containers") or [{"name": "container-0"}]
    if not all(container.get("image") for container in containers):
        raise UserError.single(
            "render-no-image",
            f"{step.key} has no image: the controller would put its own",
            "give it `pod.image`, or a profile with an image",
        )
    # The controller turns sidecars into init containers that go on running.
    sidecars = [
        {"name": f"sidecar-{number}", **sidecar, "restartPolicy": "Always"}
        for number, sidecar in enumerate(plugin.get("sidecars") or ())
    ]
    init = {"initContainers": [*(spec.get("initContainers") or ()), *sidecars]} if sidecars else {}
    return {"restartPolicy": "Never", **spec, **init, "containers": [_container(step, c) for c in containers]}


def _container(step: EmittedStep, container: Mapping[str, Any]) -> dict[str, Any]:
    command = step.body.get("command") or []
    lines = [command] if isinstance(command, str) else list(command)
    # The job's environment beats the container's, as it does under the agent.
    own = {item["name"]: item for item in container.get("env") or ()}
    own |= {name: {"name": name, "value": value} for name, value in (step.body.get("env") or {}).items()}
    started = {**container, **({"env": list(own.values())} if own else {})}
    if "command" not in started and lines:
        started["command"] = ["/bin/sh", "-ec", "\n".join(lines)]
    return started


def pod_name(key: str) -> str:
    """A step's key as a DNS label."""
    return re.sub(r"[^a-z0-9-]+", "-", key.lower()).strip("-")[:63].rstrip("-") or "step"


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")
