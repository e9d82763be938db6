"""CPU, memory and devices: what the API server takes, the scheduler can place, and the node survives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from bkgen.errors import did_you_mean, nearest
from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import DEVICE_CLASS_PREFIX, Box, Pod, is_extended
from bkgen.verify.values import as_map, as_text, is_open, is_qualified_name, maps_in, quantity

STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
VENDOR_RESOURCES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "huawei.com/Ascend310",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend910",
    "mthreads.com/gpu",
    "rebellions.ai/ATOM",
    "rebellions.ai/REBEL",
    "rebellions.ai/npu",
    "furiosa.ai/rngd",
    "iluvatar.com/gpu",
    "metax-tech.com/gpu",
    "cambricon.com/mlu",
    "hygon.com/dcu",
    "google.com/tpu",
    "aws.amazon.com/neuron",
)
# Network cards and the like: a pod may have one beside its GPUs.
_BESIDE = ("rdma/", "vpc.amazonaws.com/", "devices.kubevirt.io/", "smarter-devices/")
_MIG = r"nvidia\.com/mig-[1-9][0-9]*g\.[1-9][0-9]*gb(\.me)?(\.shared)?"
KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_TINY = 1024 * 1024
_LARGEST_NODE = 16


def amount(pod: Pod, value: object) -> Fraction | None:
    """The number of a quantity that is final and well formed, else None."""
    return None if is_open(value, interpolate=pod.interpolate) else quantity(value)


def is_device(resource: str, rules: PodRules) -> bool:
    """A GPU or its like: in the vendors' table or named by the settings."""
    known = resource in VENDOR_RESOURCES or resource in rules.gpu_resources
    return known or re.fullmatch(_MIG, resource) is not None


def devices(pod: Pod, box: Box, rules: PodRules) -> Mapping[str, Fraction]:
    """How many of which device one container gets; devices asked for by zero are left out."""
    wanted = {**box.requests, **box.limits}
    counts = {name: amount(pod, value) for name, (value, _) in wanted.items() if is_device(name, rules)}
    return {name: count for name, count in counts.items() if count}


def has_gpu(pod: Pod, box: Box, rules: PodRules) -> bool:
    """The container gets a GPU or its like: as a resource, or by a claim of a template of the settings."""
    if any(count >= 1 for count in devices(pod, box, rules).values()):
        return True
    claims = as_map(box.raw.get("resources")).get("claims")
    if not claims or not rules.gpu_claims:
        return False
    templates = {
        as_text(claim.get("name")): claim.get("resourceClaimTemplateName")
        for _, claim in maps_in(pod.spec.get("resourceClaims"))
    }
    return any(templates.get(as_text(claim.get("name"))) in rules.gpu_claims for _, claim in maps_in(claims))


def pod_devices(pod: Pod, rules: PodRules) -> Mapping[str, Fraction]:
    """Devices that the scheduler must find on one node: all containers together, or the largest init."""
    together: dict[str, Fraction] = {}
    largest: dict[str, Fraction] = {}
    for box in pod.boxes:
        for name, count in devices(pod, box, rules).items():
            if box.role == "init":
                largest[name] = max(largest.get(name, Fraction(0)), count)
            else:
                together[name] = together.get(name, Fraction(0)) + count
    return {
        name: max(together.get(name, Fraction(0)), largest.get(name, Fraction(0)))
        for name in together | largest
    }


def _extended(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.everything:
        for name in {**box.requests, **box.limits}:
            if is_extended(name) or name.startswith("hugepages-"):
                yield from _whole_and_equal(pod, box, name)


def _whole_and_equal(pod: Pod, box: Box, name: str) -> Iterator[Finding]:
    request, limit = box.requests.get(name), box.limits.get(name)
    for written in (request, limit):
        number = amount(pod, written[0]) if written else None
        if written and number is not None and number.denominator != 1:
            message = f"{name} comes in whole numbers, not {written[0]}"
            yield error("pod-device-fraction", written[1], message, "ask for a whole number")
    if box.role == "patch" or request is None:
        return
    if limit is None:
        message = f"{name} has a request but no limit, which the API server refuses"
        yield error("pod-device-request", request[1], message, f"move it to limits: {name}: {request[0]}")
        return
    wanted, granted = amount(pod, request[0]), amount(pod, limit[0])
    if wanted is not None and granted is not None and wanted != granted:
        message = f"the request of {name} ({request[0]}) differs from its limit ({limit[0]})"
        yield error(
            "pod-device-request", request[1], message, "write the limit alone; it sets the request, too"
        )


def _overcommit(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.everything:
        yield from _above_limit(pod, box.requests, box.limits)
    level = as_map(pod.spec.get("resources"))
    pairs = [
        {name: (value, ("podSpec", "resources", key, name)) for name, value in as_map(level.get(key)).items()}
        for key in ("requests", "limits")
    ]
    yield from _above_limit(pod, pairs[0], pairs[1])


def _above_limit(
    pod: Pod, requests: Mapping[str, tuple[object, Path]], limits: Mapping[str, tuple[object, Path]]
) -> Iterator[Finding]:
    for name, (value, path) in requests.items():
        if name not in limits or is_extended(name) or name.startswith("hugepages-"):
            continue
        wanted, granted = amount(pod, value), amount(pod, limits[name][0])
        if wanted is not None and granted is not None and wanted > granted:
            message = f"the request of {name} ({value}) is above its limit ({limits[name][0]})"
            yield error("pod-request-above-limit", path, message, "lower the request or raise the limit")


def _names(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for box in pod.everything:
        for place in (box.limits, box.requests):
            for name, (_, path) in place.items():
                if (
                    name not in STANDARD
                    and not name.startswith("hugepages-")
                    and path[: len(box.path)] == box.path
                ):
                    yield from _judge_name(name, path, rules)


def _judge_name(name: str, path: Path, rules: PodRules) -> Iterator[Finding]:
    known = (*VENDOR_RESOURCES, *rules.gpu_resources)
    if is_device(name, rules) or name.startswith((DEVICE_CLASS_PREFIX, *_BESIDE)):
        return
    if "/" not in name or not is_qualified_name(name):
        message = f"'{name}' is no resource name; other than {', '.join(sorted(STANDARD))} it needs a domain"
        yield error("pod-resource-name", path, message, did_you_mean(name, (*known, *STANDARD)))
        return
    if not is_extended(name):
        return
    close = nearest(name, known)
    if name.startswith("nvidia.com/mig-"):
        message, hint = f"'{name}' is no MIG profile", "profiles are called like nvidia.com/mig-1g.10gb"
        yield error("pod-resource-misspelt", path, message, hint)
    elif close is not None and _is_slip(name, close):
        message = f"no vendor's device is called '{name}'; such a pod waits for ever"
        hint = f"did you mean '{close}'? A name of your own goes into the settings (profiles: gpu_resource)"
        yield error("pod-resource-misspelt", path, message, hint)
    else:
        message = f"'{name}' is neither in the vendors' table nor in the settings"
        hint = f"{did_you_mean(name, known)}; a name of your own goes into a profile's gpu_resource"
        yield warning("pod-resource-unknown", path, message, hint)


def _is_slip(name: str, known: str) -> bool:
    """One typing error away: the vendor is the same and the device almost, or the other way round."""
    domain, _, device = name.casefold().rpartition("/")
    other, _, known_device = known.casefold().rpartition("/")
    from difflib import SequenceMatcher  # slow to load, and most resources are known

    if device == known_device:
        return bool(SequenceMatcher(None, domain, other).ratio() >= 0.85)
    return domain == other and bool(SequenceMatcher(None, device, known_device).ratio() >= 0.75)


def _one_device_type(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for box in pod.boxes:
        names = sorted(devices(pod, box, rules))
        if len(names) > 1:
            path = (box.limits.get(names[1]) or box.requests[names[1]])[1]
            message = f"one container asks for {' and '.join(names)}, which no node offers together"
            yield error("pod-two-device-types", path, message, "ask for one type a container")


def _pod_level(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for owner, spec in pod.specs:
        for kind in ("requests", "limits"):
            for name in as_map(as_map(spec.get("resources")).get(kind)):
                if name not in {"cpu", "memory"} and not name.startswith("hugepages-"):
                    message = f"'{name}' cannot be set for the pod as a whole"
                    hint = "write it below the container's resources"
                    yield error("pod-level-resource", (owner, "resources", kind, name), message, hint)


def _hugepages(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.boxes:
        wanted = {**box.requests, **box.limits}
        pages = next((name for name in wanted if name.startswith("hugepages-")), None)
        if pages and not {"cpu", "memory"} & wanted.keys():
            message = "huge pages alone are refused; cpu or memory must be asked for with them"
            yield error(
                "pod-hugepages-alone", wanted[pages][1], message, "add a memory limit to the container"
            )


def memory_limit(pod: Pod, box: Box) -> Fraction | None:
    """The memory that a container may use: its own limit, else the pod's, else None."""
    return amount(pod, _memory_limit(pod, box))


def limit_text(pod: Pod, box: Box) -> str:
    """The same limit as it is written."""
    return str(_memory_limit(pod, box))


def _memory_limit(pod: Pod, box: Box) -> object:
    own = box.limits.get("memory")
    if own is not None:
        return own[0]
    return as_map(as_map(pod.spec.get("resources")).get("limits")).get("memory")


def has_memory_limit(pod: Pod, box: Box) -> bool:
    """A limit is written, be its number known yet or not."""
    return "memory" in box.limits or "memory" in as_map(as_map(pod.spec.get("resources")).get("limits"))


def _memory(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.commands:
        if not has_memory_limit(pod, box):
            message = f"{box.name} has no memory limit; it can take the node down"
            yield warning("pod-memory-limit", (*box.path, "resources"), message, "add limits: {memory: 64Gi}")
    for box in pod.everything:
        for place in (box.requests, box.limits):
            if "memory" in place and place["memory"][1][: len(box.path)] == box.path:
                value, path = place["memory"]
                number = amount(pod, value)
                if number is not None and 0 < number < _TINY:
                    message = f"memory is counted in bytes; {value} is less than one mebibyte"
                    yield warning("pod-memory-tiny", path, message, "add a unit: 512Mi, 64Gi")


def _gpus_per_node(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for name, count in pod_devices(pod, rules).items():
        most = rules.gpus_per_node.get(name)
        if count <= (most or _LARGEST_NODE) or (most is None and _is_a_share(name)):
            continue
        box = next(box for box in pod.boxes if name in box.limits or name in box.requests)
        path = (box.limits.get(name) or box.requests[name])[1]
        if most is not None:
            message = f"the pod needs {count} of {name}, but a node has {most}"
            hint = f"ask for {most} or fewer, or choose another profile"
            yield error("pod-gpus-above-node", path, message, hint)
        else:
            message = f"the pod needs {count} of {name} on one node; hardly one has over {_LARGEST_NODE}"
            hint = "ask for fewer, or say in the settings how many a node has (profiles: gpus_per_node)"
            yield warning("pod-gpus-many", path, message, hint)


def _is_a_share(name: str) -> bool:
    """A slice of a GPU, of which one GPU gives several."""
    return name.endswith(".shared") or name.startswith("nvidia.com/mig-")


def _kueue(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    if KUEUE_LABEL not in pod.labels:
        return
    for box in pod.boxes:
        missing = sorted({"cpu", "memory"} - {**box.requests, **box.limits}.keys())
        if missing:
            message = f"Kueue counts requests, and {box.name} asks for no {' and no '.join(missing)}"
            hint = "give every container requests for cpu and memory"
            yield warning("pod-kueue-requests", (*box.path, "resources"), message, hint)


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (
    _extended,
    _overcommit,
    _names,
    _one_device_type,
    _pod_level,
    _hugepages,
    _memory,
    _gpus_per_node,
    _kueue,
)
