"""How many jobs a step becomes, how many GPUs one of them holds, and for how long."""

from collections.abc import Iterable
from math import prod
from typing import Any

from bkgen.spec.merge import MergedPod, native_plugin
from bkgen.spec.pod import Pod
from bkgen.spec.steps import AnyStep, CommandStep


def jobs(step: AnyStep) -> int:
    """Jobs that Buildkite makes of one step. Source: parallelism and matrix multiply; a group adds one."""
    if not isinstance(step, CommandStep):
        return 1
    if step.shards is not None:
        return step.shards.count
    return (step.parallelism or 1) * _combinations(step.matrix)


def _combinations(matrix: Any) -> int:
    if matrix is None:
        return 1
    if isinstance(matrix, list):
        return max(1, len(matrix))
    setup = matrix.get("setup", [])
    elements = {"": setup} if isinstance(setup, list) else setup
    count = prod(len(values) for values in elements.values())
    for adjustment in matrix.get("adjustments", ()):
        chosen = adjustment.get("with")
        skipped = adjustment.get("skip") not in {None, False, ""}
        if _known(chosen, elements):
            count -= 1 if skipped else 0
        else:
            count += 0 if skipped else 1
    return max(1, count)


def _known(chosen: Any, elements: dict[str, list[str]]) -> bool:
    if isinstance(chosen, dict):
        return all(value in elements.get(name, ()) for name, value in chosen.items())
    values: Iterable[str] = [chosen] if isinstance(chosen, str) else (chosen or ())
    return all(value in next(iter(elements.values()), ()) for value in values)


def gpus(step: AnyStep, pod: MergedPod) -> int:
    """GPUs (or other accelerators) that one job holds."""
    if isinstance(pod, Pod):
        return pod.gpus or 0
    if not isinstance(step, CommandStep):
        return 0
    plugin = native_plugin(step)
    pod_spec = plugin.get("podSpec") if plugin else None
    containers = pod_spec.get("containers") if isinstance(pod_spec, dict) else None
    return sum(_accelerators(container) for container in containers or () if isinstance(container, dict))


def _accelerators(container: dict[str, Any]) -> int:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(limits, dict):
        return 0
    return sum(int(v) for name, v in limits.items() if "/" in str(name) and str(v).isdecimal())
