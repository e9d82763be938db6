"""Prepares the smoke test's pods.

Reads the pods of a suite on standard input, as `bkgen render --pods --json` prints them (one List of Pods),
and writes the same list for `kubectl apply`. Everything a pod asks for stays as
it is: image, resources, volumes, placement. Three things change, because no agent fills the pod here:

- the container only sleeps; smoke-test.sh sends it the checks, for the repository is not in the pod;
- name, namespace and a label of this run are set, so that the pods are found again and removed;
- the pod ends by itself in the end, should nobody be left to remove it.

One line a pod goes to the file given by `--plan`: the name, the container, and the arguments with which
run.sh learns what the pod asked for, tab-separated.

Exit status: 0, or 1 when standard input is not what it should be.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

RUN_LABEL = "bkgen.smoke-run"
UNITS = {
    "Ki": 1 / 1024,
    "Mi": 1,
    "Gi": 1024,
    "Ti": 1024**2,
    "k": 1e3 / 2**20,
    "M": 1e6 / 2**20,
    "G": 1e9 / 2**20,
}


class PodsError(Exception):
    """What came in is not a list of pods that can be prepared; the text says why."""


def mebibytes(quantity: str) -> int:
    """A Kubernetes quantity of bytes in whole MiB, rounded down: `16Gi` is 16384."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|k|M|G)?", quantity)
    if match is None:
        raise PodsError(f"'{quantity}' is no size of /dev/shm")
    return int(float(match[1]) * UNITS.get(match[2], 1 / 2**20))


def gpus_of(container: dict[str, Any]) -> int:
    """How many devices the container asks for: the sum of its limits on extended resources."""
    limits: dict[str, Any] = (container.get("resources") or {}).get("limits") or {}
    return sum(int(count) for name, count in limits.items() if "/" in name)


def expectations(pod: dict[str, Any]) -> list[str]:
    """Arguments for run.sh: what the pod's first container asked for, read from the pod itself."""
    container = pod["spec"]["containers"][0]
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    arguments = ["--gpus", str(gpus_of(container))]
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"], {})
        size = (volume.get("emptyDir") or {}).get("sizeLimit")
        if mount["mountPath"] == "/dev/shm":  # noqa: S108 - the pod's, not this host's
            arguments += ["--shm-mib", str(mebibytes(str(size)))] if size else []
        elif ("hostPath" in volume or "persistentVolumeClaim" in volume) and not mount.get("readOnly"):
            arguments += ["--writable", mount["mountPath"]]
    return arguments


def prepare(document: object, run: str, namespace: str, seconds: int) -> tuple[dict[str, Any], list[str]]:
    """The list for `kubectl apply`, and a line of the plan for each pod."""
    if not isinstance(document, dict) or document.get("kind") != "List" or not document.get("items"):
        raise PodsError("standard input is not a JSON List with at least one Pod")
    pods, plan = [], []
    for number, pod in enumerate(document["items"]):
        if not isinstance(pod, dict) or pod.get("kind") != "Pod" or not pod.get("spec", {}).get("containers"):
            raise PodsError(f"item {number} of the List is not a Pod with a container")
        name = f"bkgen-smoke-{run}-{number}"
        container = pod["spec"]["containers"][0]
        plan.append("\t".join([name, container["name"], *expectations(pod)]))
        idle = {**container, "command": ["/bin/sh", "-c", f"exec sleep {seconds}"]}
        idle.pop("args", None)
        labels = {**(pod.get("metadata") or {}).get("labels", {}), RUN_LABEL: run}
        pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": {
                    **pod["spec"],
                    "containers": [idle, *pod["spec"]["containers"][1:]],
                    "restartPolicy": "Never",
                    "activeDeadlineSeconds": seconds,
                    "terminationGracePeriodSeconds": 1,
                },
            }
        )
    return {"apiVersion": "v1", "kind": "List", "items": pods}, plan


def main() -> int:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Prepares the smoke test's pods, from and to a JSON List.")
    parser.add_argument("--run", required=True, help="a word that no other run uses")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--seconds", type=int, required=True, help="after which a pod ends by itself")
    parser.add_argument("--plan", type=Path, required=True, help="file for one line a pod")
    arguments = parser.parse_args()
    try:
        pods, plan = prepare(json.load(sys.stdin), arguments.run, arguments.namespace, arguments.seconds)
    except (PodsError, ValueError) as error:
        sys.stderr.write(f"smoke_pods.py: {error}\n  hint: look at `bkgen render --pods --json SUITE`\n")
        return 1
    arguments.plan.write_text("".join(f"{line}\n" for line in plan), encoding="utf-8")
    json.dump(pods, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
