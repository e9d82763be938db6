"""Where a pod may run: tolerations, node selectors, labels; and what a patch does to all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bkgen.errors import did_you_mean
from bkgen.verify.containers import RESERVED
from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.pod import Pod, volume_sources
from bkgen.verify.slip import slip_of
from bkgen.verify.values import as_map, as_text, is_label_value, is_open, is_qualified_name, maps_in

# Source: Kubernetes, well-known labels, annotations and taints.
_OF_KUBERNETES = (
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
_LABEL_HINT = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def _tolerations(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for owner, spec in pod.specs:
        for index, one in maps_in(spec.get("tolerations")):
            operator, path = one.get("operator") or "Equal", (owner, "tolerations", index)
            if operator == "Exists" and one.get("value"):
                message, hint = "Exists tolerates every value", "take value out, or write operator: Equal"
            elif operator != "Exists" and not one.get("key"):
                message, hint = "a toleration without a key needs operator: Exists", "add the taint's key"
            elif one.get("tolerationSeconds") is not None and one.get("effect") != "NoExecute":
                message, hint = "tolerationSeconds goes with effect: NoExecute only", "add that effect"
            else:
                continue
            yield error("pod-toleration", path, message, hint)


def _labels(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    metadata = as_map(pod.plugin.get("metadata"))
    for key in ("labels", "annotations"):
        for name, value in as_map(metadata.get(key)).items():
            path = ("metadata", key, name)
            if not is_open(name, interpolate=pod.interpolate) and not is_qualified_name(str(name)):
                message = f"'{name}' is no name for one of the {key}"
                yield error(
                    "pod-label-invalid", path, message, f"an optional domain and '/', then {_LABEL_HINT}"
                )
            elif key == "labels" and isinstance(value, str):
                yield from _label_value(pod, path, value)
    for owner, spec in pod.specs:
        for name, value in as_map(spec.get("nodeSelector")).items():
            if isinstance(value, str):
                yield from _label_value(pod, (owner, "nodeSelector", name), value)


def _label_value(pod: Pod, path: Path, value: str) -> Iterator[Finding]:
    if not is_open(value, interpolate=pod.interpolate) and not is_label_value(value):
        message = f"'{value}' is no value for a label; the job fails"
        yield error("pod-label-invalid", path, message, _LABEL_HINT)


def _node_selector(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    for owner, spec in pod.specs:
        for name, value in _texts_of(spec.get("nodeSelector")):
            if name in _OF_KUBERNETES or name.startswith("node-role.kubernetes.io/"):
                continue
            path = (owner, "nodeSelector", name)
            if rules.node_labels is not None:
                open_value = is_open(value, interpolate=pod.interpolate)
                yield from _declared(rules.node_labels, path, name, None if open_value else str(value))
            elif close := slip_of(name, (*_OF_KUBERNETES, *rules.selector_labels)):
                message = f"the node label '{name}' is one letter away from '{close}'"
                hint = f"did you mean '{close}'? Labels of your own go into the settings (node_labels)"
                yield warning("pod-node-selector-close", path, message, hint)


def _texts_of(selector: object) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in as_map(selector).items() if isinstance(name, str))


def _declared(
    labels: Mapping[str, Sequence[str]], path: Path, name: str, value: str | None
) -> Iterator[Finding]:
    if name not in labels:
        message = f"the settings know no node label '{name}'; such a pod waits for ever"
        yield error("pod-node-selector", path, message, did_you_mean(name, labels))
    elif labels[name] and value is not None and value not in labels[name]:
        message = f"no node has {name}={value}; such a pod waits for ever"
        yield error("pod-node-selector", path, message, did_you_mean(value, labels[name]))


def _patch_targets(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    if pod.from_template:
        return
    commands = {box.name for box in pod.commands} or {"container-0"}
    known = {
        "containers": commands | {"agent", "checkout"},
        "initContainers": {box.name for box in pod.boxes if box.role != "command"} | {"copy-agent"},
    }
    for box in pod.patches:
        key = str(box.path[1])
        if box.name and box.name not in known[key] and not box.name.startswith("imagecheck-"):
            message = f"the pod has no container '{box.name}' to patch; it would be added"
            hint = did_you_mean(box.name, known[key], what="it has")
            yield error("pod-patch-target", (*box.path, "name"), message, hint)


def _patch_commands(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    for box in pod.patches:
        if box.name in RESERVED or box.name.startswith("imagecheck-"):
            for key in ("command", "args"):
                if box.raw.get(key):
                    message = f"the controller refuses a patch of {key} in its own container '{box.name}'"
                    yield error("pod-patch-command", (*box.path, key), message, "take it out")


def _patch_lists(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    pairs: list[tuple[Path, Mapping[str, Any], Mapping[str, Any], tuple[str, ...]]]
    pairs = [(("podSpecPatch",), pod.spec, pod.patch, ("tolerations", "hostAliases", "readinessGates"))]
    by_name = {box.name: box.raw for box in pod.boxes}
    pairs += [
        (box.path, by_name[box.name], box.raw, ("command", "args", "envFrom"))
        for box in pod.patches
        if box.name in by_name
    ]
    for path, base, patch, keys in pairs:
        for key in keys:
            if base.get(key) and patch.get(key):
                message = f"the patch replaces all of {key}; what podSpec says there is lost"
                yield warning(
                    "pod-patch-replaces", (*path, key), message, "write the whole list in one place"
                )


def _patch_volumes(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    base = {as_text(volume.get("name")): volume for path, volume in pod.volumes if path[0] == "podSpec"}
    for path, volume in pod.volumes:
        known = base.get(as_text(volume.get("name")))
        if path[0] != "podSpecPatch" or known is None:
            continue
        before, after = volume_sources(known), volume_sources(volume)
        if after and before and set(after) - set(before):
            message = f"the volume would have two sources, {before[0]} and {after[0]}"
            yield error("pod-patch-volume", path, message, "change the volume in podSpec")


_ZERO_IS_DROPPED = {
    "spec": ("hostNetwork", "hostPID", "hostIPC"),
    "container": ("stdin", "stdinOnce", "tty"),
    "mount": ("readOnly",),
}


def _patch_zeros(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    owners: list[tuple[Path, Mapping[str, Any], str]] = [(("podSpecPatch",), pod.patch, "spec")]
    for box in pod.patches:
        owners.append((box.path, box.raw, "container"))
        owners += [(path, mount, "mount") for path, mount in box.mounts()]
    for path, owner, kind in owners:
        for key in _ZERO_IS_DROPPED[kind]:
            if owner.get(key) is False:
                message = f"a patch cannot set {key} to false; the value is lost on the way"
                yield warning("pod-patch-zero", (*path, key), message, "change it in podSpec")


def _patch_user(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    del rules
    context = as_map(pod.patch.get("securityContext"))
    for key in ("runAsUser", "runAsGroup"):
        if context.get(key):
            message = f"{key} in a patch comes too late: the checkout keeps root's permissions"
            path = ("podSpecPatch", "securityContext", key)
            yield warning("pod-patch-user", path, message, "set it in podSpec.securityContext")


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (
    _tolerations,
    _labels,
    _node_selector,
    _patch_targets,
    _patch_commands,
    _patch_lists,
    _patch_volumes,
    _patch_zeros,
    _patch_user,
)
