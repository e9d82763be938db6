"""What the API server asks of single fields beyond their type: fixed words, ranges, names.

The official models know nothing of these. Source: validation of pods in Kubernetes 1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from bkgen.errors import did_you_mean
from bkgen.verify.values import NAME_CHECKS

ID_MAX = 2**31 - 1


class Fault(NamedTuple):
    """What one field's value does wrong, without its place."""

    code: str
    message: str
    hint: str


Check = Callable[[object], "Fault | None"]
"""A field's value in, its fault or None out. Values of another type are the shape's business."""


def one_of(*words: str, code: str = "pod-enum") -> Check:
    """Only these words, spelt so; a word that ends in `*` allows any ending."""
    exact = frozenset(words)
    open_ended = tuple(word[:-1] for word in words if word.endswith("*"))

    def check(value: object) -> Fault | None:
        if not isinstance(value, str) or value in exact or (open_ended and value.startswith(open_ended)):
            return None
        hint = did_you_mean(value, (word or '""' for word in words), what="it takes")
        return Fault(code, f"'{value}' is no value of this field", hint)

    return check


def between(low: int, high: int | None = None) -> Check:
    """A whole number from `low` to `high`, both included."""

    def check(value: object) -> Fault | None:
        if not isinstance(value, int) or (value >= low and (high is None or value <= high)):
            return None
        wanted = f"{low} or more" if high is None else f"{low} to {high}"
        return Fault("pod-number-range", f"{value} is out of range", f"it takes {wanted}")

    return check


def named(kind: str) -> Check:
    """A name of one of `values.NAME_CHECKS`."""
    is_valid, wanted = NAME_CHECKS[kind]

    def check(value: object) -> Fault | None:
        if not isinstance(value, str) or is_valid(value):
            return None
        return Fault("pod-name-invalid", f"'{value}' is not a name that Kubernetes takes", f"use {wanted}")

    return check


_ACCESS_MODES = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"
_EFFECTS = "", "NoSchedule", "PreferNoSchedule", "NoExecute"

FORMATS: Mapping[tuple[str, str], Check] = {
    ("PodSpec", "restartPolicy"): one_of("", "Always", "OnFailure", "Never"),
    ("PodSpec", "dnsPolicy"): one_of("", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    ("PodSpec", "preemptionPolicy"): one_of("PreemptLowerPriority", "Never"),
    ("PodSpec", "activeDeadlineSeconds"): between(1, ID_MAX),
    ("PodSpec", "terminationGracePeriodSeconds"): between(0),
    ("PodSpec", "serviceAccountName"): named("subdomain"),
    ("PodSpec", "priorityClassName"): named("subdomain"),
    ("PodSpec", "runtimeClassName"): named("subdomain"),
    ("PodSpec", "nodeName"): named("subdomain"),
    ("PodSpec", "hostname"): named("label"),
    ("PodSpec", "subdomain"): named("label"),
    ("PodOS", "name"): one_of("linux", "windows"),
    ("Container", "name"): named("label"),
    ("Container", "imagePullPolicy"): one_of("", "Always", "IfNotPresent", "Never"),
    ("Container", "restartPolicy"): one_of("Always", "OnFailure", "Never"),
    ("Container", "terminationMessagePolicy"): one_of("", "File", "FallbackToLogsOnError"),
    ("ContainerPort", "protocol"): one_of("", "TCP", "UDP", "SCTP"),
    ("ContainerPort", "containerPort"): between(1, 65535),
    ("ContainerPort", "hostPort"): between(0, 65535),
    ("ContainerResizePolicy", "restartPolicy"): one_of("NotRequired", "RestartContainer"),
    ("EnvVar", "name"): named("env"),
    ("SecretKeySelector", "name"): named("subdomain"),
    ("ConfigMapKeySelector", "name"): named("subdomain"),
    ("SecretEnvSource", "name"): named("subdomain"),
    ("ConfigMapEnvSource", "name"): named("subdomain"),
    ("LocalObjectReference", "name"): named("subdomain"),
    ("HTTPGetAction", "scheme"): one_of("", "HTTP", "HTTPS"),
    ("Probe", "failureThreshold"): between(0),
    ("Probe", "periodSeconds"): between(0),
    ("Probe", "timeoutSeconds"): between(0),
    ("Probe", "initialDelaySeconds"): between(0),
    ("SecurityContext", "procMount"): one_of("Default", "Unmasked"),
    ("SecurityContext", "runAsUser"): between(0, ID_MAX),
    ("SecurityContext", "runAsGroup"): between(0, ID_MAX),
    ("PodSecurityContext", "runAsUser"): between(0, ID_MAX),
    ("PodSecurityContext", "runAsGroup"): between(0, ID_MAX),
    ("PodSecurityContext", "fsGroup"): between(0, ID_MAX),
    ("PodSecurityContext", "fsGroupChangePolicy"): one_of("OnRootMismatch", "Always"),
    ("PodSecurityContext", "supplementalGroupsPolicy"): one_of("Merge", "Strict"),
    ("SeccompProfile", "type"): one_of("RuntimeDefault", "Unconfined", "Localhost"),
    ("AppArmorProfile", "type"): one_of("RuntimeDefault", "Unconfined", "Localhost"),
    ("Toleration", "operator"): one_of("", "Exists", "Equal", "Lt", "Gt", code="pod-toleration"),
    ("Toleration", "effect"): one_of(*_EFFECTS, code="pod-toleration"),
    ("NodeSelectorRequirement", "operator"): one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ("LabelSelectorRequirement", "operator"): one_of("In", "NotIn", "Exists", "DoesNotExist"),
    ("PreferredSchedulingTerm", "weight"): between(1, 100),
    ("WeightedPodAffinityTerm", "weight"): between(1, 100),
    ("TopologySpreadConstraint", "maxSkew"): between(1),
    ("TopologySpreadConstraint", "whenUnsatisfiable"): one_of("DoNotSchedule", "ScheduleAnyway"),
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): one_of("Honor", "Ignore"),
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): one_of("Honor", "Ignore"),
    ("Volume", "name"): named("label"),
    ("VolumeMount", "mountPropagation"): one_of("None", "HostToContainer", "Bidirectional"),
    ("VolumeMount", "recursiveReadOnly"): one_of("Disabled", "IfPossible", "Enabled"),
    ("HostPathVolumeSource", "type"): one_of(
        "",
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
        code="pod-host-path-type",
    ),
    ("EmptyDirVolumeSource", "medium"): one_of(
        "", "Memory", "HugePages", "HugePages-*", code="pod-empty-dir-medium"
    ),
    ("SecretVolumeSource", "secretName"): named("subdomain"),
    ("SecretVolumeSource", "defaultMode"): between(0, 0o777),
    ("ConfigMapVolumeSource", "name"): named("subdomain"),
    ("ConfigMapVolumeSource", "defaultMode"): between(0, 0o777),
    ("KeyToPath", "mode"): between(0, 0o777),
    ("PersistentVolumeClaimVolumeSource", "claimName"): named("subdomain"),
    ("PersistentVolumeClaimSpec", "accessModes"): one_of(*_ACCESS_MODES),
    ("PersistentVolumeClaimSpec", "volumeMode"): one_of("Filesystem", "Block"),
    ("ImageVolumeSource", "pullPolicy"): one_of("", "Always", "IfNotPresent", "Never"),
    ("PodResourceClaim", "name"): named("label"),
    ("PodResourceClaim", "resourceClaimName"): named("subdomain"),
    ("PodResourceClaim", "resourceClaimTemplateName"): named("subdomain"),
    ("KubernetesPlugin", "jobActiveDeadlineSeconds"): between(1),
    ("KubernetesPlugin", "podTemplate"): named("subdomain"),
    ("CommandParams", "interposer"): one_of("", "buildkite", "vector", "legacy", code="plugin-interposer"),
}
"""By type and field; for lists and maps the check is made of each element."""
