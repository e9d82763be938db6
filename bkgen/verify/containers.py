"""Containers: their names, their commands and their images, as the controller treats them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import Box, Pod, texts
from bkgen.verify.values import as_map, as_text, image_parts, is_open, maps_in

RESERVED = frozenset({"agent", "checkout", "copy-agent"})
_MOVING_TAGS = frozenset({"", "latest", "main", "master", "nightly", "dev", "edge", "rolling"})
_SHELL = re.compile(r"(?:/\S*/)?(?:ba|da|z|k|a)?sh")


def _reserved_names(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.boxes:
        written = as_text(box.raw.get("name"))
        own = written == f"sidecar-{box.path[-1]}" and box.role == "sidecar"
        taken = written in RESERVED or written.startswith(("imagecheck-", "sidecar-"))
        if taken and not own:
            message = f"the controller has a container '{written}' of its own"
            hint = "call it container-0" if box.role == "command" else "choose another name"
            yield error("pod-container-reserved", (*box.path, "name"), message, hint)


def _ephemeral(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for owner, spec in pod.specs:
        if spec.get("ephemeralContainers"):
            message = "the API server takes ephemeral containers for running pods only, and refuses this one"
            hint = "take them out; a container beside the test is a sidecar (sidecars)"
            yield error("pod-container-ephemeral", (owner, "ephemeralContainers"), message, hint)


def _unique_names(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    seen: set[str] = set()
    for box in pod.boxes:
        if box.name and box.name in seen:
            message = f"two containers are called '{box.name}'"
            yield error(
                "pod-container-duplicate", (*box.path, "name"), message, "give one of them another name"
            )
        seen.add(box.name)


def _watched_names(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.commands:
        if box.name and box.name not in RESERVED and re.fullmatch(r"container-[0-9]+", box.name) is None:
            message = f"the controller watches container-N only; '{box.name}' can be stuck unseen"
            yield warning(
                "pod-container-renamed", (*box.path, "name"), message, f"call it container-{box.path[-1]}"
            )


def _several(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    boxes = pod.commands
    plain = [box for box in boxes if not box.has_command]
    if len(plain) > 1:
        message = f"the step's command would run {len(plain)} times, once in each container"
        hint = "keep one container; a service beside the test belongs in the plugin's sidecars"
        yield error("pod-command-runs-twice", plain[1].path, message, hint)
    elif len(boxes) > 1:
        message = "command containers run one after the other, and all hold their devices to the end"
        hint = "a service beside the test belongs in the plugin's sidecars"
        yield warning("pod-several-containers", boxes[1].path, message, hint)


def _arguments(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.commands:
        if box.raw.get("args") and not box.has_command:
            message = "args without command are dropped"
            yield error("pod-args-dropped", (*box.path, "args"), message, "put them into the step's command")


def _argument_vectors(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    if as_map(pod.plugin.get("commandParams")).get("interposer") == "vector":
        return
    for box in pod.commands:
        words = texts(box.raw.get("command"))
        if len(words) > 1 and (_SHELL.fullmatch(words[0]) or words[1].startswith("-")):
            message = "each entry of command becomes a line of its own, so this is not one call"
            hint = "write the command on the step, or set commandParams: {interposer: vector}"
            yield error("pod-command-split", (*box.path, "command"), message, hint)


def _images(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for box in pod.everything:
        if isinstance(box.raw.get("image"), str) and not is_open(box.image, interpolate=pod.interpolate):
            yield from _judge_image(box, rules)
    patched = {box.name for box in pod.patches if box.image}
    for box in pod.boxes:
        if box.role != "command" and not box.image and box.name not in patched:
            message = f"'{box.name}' has no image"
            yield error("pod-image-missing", box.path, message, "add image")


def _judge_image(box: Box, rules: PodRules) -> Iterator[Finding]:
    parts, policy = image_parts(box.image), box.raw.get("imagePullPolicy") or None
    path = (*box.path, "image")
    if parts is None:
        message = f"'{box.image}' is no image reference"
        hint = "write registry/name:tag; the name takes small letters only, and no variables"
        yield error("pod-image-malformed", path, message, hint)
        return
    if box.role == "patch":
        return
    name, tag, digest = parts
    if box.image in rules.local_images or name in rules.local_images:
        if policy not in ("Never", "IfNotPresent"):
            message = f"{box.image} is in no registry, and this pod would ask one for it"
            yield error("pod-image-local", path, message, "add imagePullPolicy: Never")
    elif tag in _MOVING_TAGS and not digest:
        shown = f"the tag {tag}" if tag else "an image without a tag"
        if policy is None:
            message = f"{shown} has no pull policy; every job asks the registry"
            hint = "name a version or a digest, or add imagePullPolicy"
            yield warning("pod-image-policy", path, message, hint)
        elif policy == "IfNotPresent":
            message = f"{shown} moves, but with IfNotPresent a node keeps what it has"
            hint = "name a version or a digest, or pull Always"
            yield warning("pod-image-stale", path, message, hint)


def _claims(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    declared: set[str] = set()
    for owner, spec in pod.specs:
        for index, claim in maps_in(spec.get("resourceClaims")):
            sources = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key)]
            path: Path = (owner, "resourceClaims", index)
            if len(sources) != 1:
                message = "a resource claim names either a claim or a template"
                hint = "write one of resourceClaimName and resourceClaimTemplateName"
                yield error("pod-claim-source", path, message, hint)
            name = as_text(claim.get("name"))
            if name in declared and owner == "podSpec":
                message = f"two resource claims are called '{name}'"
                yield error("pod-claim-duplicate", (*path, "name"), message, "give one of them another name")
            declared.add(name)
    if pod.from_template:
        return
    for box in pod.everything:
        for index, claim in maps_in(as_map(box.raw.get("resources")).get("claims")):
            name = as_text(claim.get("name"))
            if name and name not in declared:
                path = (*box.path, "resources", "claims", index)
                message = f"the pod declares no resource claim '{name}'"
                yield error("pod-claim-undeclared", path, message, "add it to podSpec.resourceClaims")


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (
    _reserved_names,
    _ephemeral,
    _unique_names,
    _watched_names,
    _several,
    _arguments,
    _argument_vectors,
    _images,
    _claims,
)
