"""Pods that ask for no GPU and see them all the same, because an image, a variable or a privilege shows them.

Source: the NVIDIA container toolkit, which goes by NVIDIA_VISIBLE_DEVICES; CUDA images bake "all" in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import Box, Pod
from bkgen.verify.resources import devices
from bkgen.verify.values import as_map, as_text, is_open

_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_HIDDEN = frozenset({"void", "none", ""})
_HINT = f"add env: {_VARIABLE}: void (gpus: 0 does)"


def is_cuda(image: str, rules: PodRules) -> bool:
    """The image asks the runtime for all NVIDIA devices, as far as its name tells."""
    return any(fnmatchcase(image, pattern) for pattern in rules.cuda_images)


def shows_what_the_image_asks(pod: Pod, rules: PodRules) -> bool:
    """Some command container gets no GPU and leaves it to its image which it sees.

    A pod without containers gets one from the controller.
    """
    if pod.commands:
        return any(
            not _has_devices(pod, box, rules) and _visible(pod, box.name, box) is None for box in pod.commands
        )
    return not pod.from_template and _visible(pod, "container-0", None) is None


def _has_devices(pod: Pod, box: Box, rules: PodRules) -> bool:
    return bool(devices(pod, box, rules) or as_map(box.raw.get("resources")).get("claims"))


def _visible(pod: Pod, name: str, box: Box | None) -> tuple[Path, Mapping[str, Any]] | None:
    """The entry of the environment that decides, the patch's before the container's own."""
    patches = [one for one in pod.patches if one.name == name]
    for owner in (*patches, *((box,) if box else ())):
        for index, entry in owner.env():
            if entry.get("name") == _VARIABLE:
                return (*owner.path, "env", index), entry
    return None


def _image(pod: Pod, box: Box) -> str:
    return next((one.image for one in pod.patches if one.name == box.name and one.image), box.image)


def _judge(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for box in pod.boxes:
        if _has_devices(pod, box, rules):
            continue
        found = _visible(pod, box.name, box)
        value = as_text(found[1].get("value")) if found else ""
        if found and value not in _HIDDEN and not is_open(value, interpolate=pod.interpolate):
            yield _shown(box, (*found[0], "value"), value)
        elif is_cuda(_image(pod, box), rules):
            if box.privileged:
                message = f"{box.name} asks for no GPU, but a privileged container sees all of the node's"
                hint = "take privileged out, or ask for a GPU"
                yield warning("pod-privileged-sees-gpus", box.path, message, hint)
            elif found is None:
                message = f"{box.name} asks for no GPU, but its image asks for all of the node's"
                yield warning("pod-visible-devices", box.path, message, _HINT)


def _shown(box: Box, path: Path, value: str) -> Finding:
    message = f"{box.name} asks for no GPU, but {_VARIABLE}: {value} shows it the node's"
    if box.role == "command":
        return error("pod-visible-devices-set", path, message, "take the variable out, or ask for GPUs")
    # A container beside the test may watch the GPUs on purpose.
    return warning("pod-visible-devices", path, message, _HINT)


def of_step(step: Mapping[str, Any], rules: PodRules) -> Iterator[Finding]:
    """The finding for a step's own image, which replaces those of a pod that leaves the choice to it."""
    image = step.get("image")
    if isinstance(image, str) and is_cuda(image, rules):
        message = "the pod asks for no GPU, but the step's image asks for all of the node's"
        hint = f"add env: {_VARIABLE}: void to the pod's container (gpus: 0 does)"
        yield warning("pod-visible-devices", ("image",), message, hint)


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (_judge,)
