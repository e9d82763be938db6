"""What verification takes and gives: the settings that rules ask, and findings as values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from bkgen.errors import Severity

Path = tuple["str | int", ...]
"""Keys and list positions from the root of a step (or of a plugin's map) to the faulty value."""


class Finding(NamedTuple):
    """One fault: a stable `code`, its place inside the step, what is wrong, and the next thing to do."""

    code: str
    path: Path
    message: str
    hint: str
    severity: Severity = "error"

    def below(self, prefix: Path) -> "Finding":
        """The same finding, seen from further up: `prefix` is put before its path."""
        return Finding(self.code, prefix + self.path, self.message, self.hint, self.severity)


class PodRules(NamedTuple):
    """What the settings say about pods, jobs and the cluster. All defaults ask nothing unusual.

    An empty mapping or `None` means that the settings are silent, and the rule that needs it keeps still.
    """

    host_paths: tuple[str, ...] = ("/data/**", "/run/udev")
    """hostPaths that may be mounted: a path, or `/path/**` for it and all below it. The docker socket is
    judged by itself: allowed, except to forks."""
    gpu_resources: tuple[str, ...] = ()
    """Names of extended resources of this cluster, beside the vendors' usual ones."""
    gpu_claims: tuple[str, ...] = ()
    """ResourceClaimTemplates that give out one GPU each."""
    gpus_per_node: Mapping[str, int] = MappingProxyType({})
    """The most devices of a resource that one node has."""
    gpu_capacity: Mapping[str, int] = MappingProxyType({})
    """All devices of a resource in the cluster, for the rule about jobs that wait too long."""
    pod_pending_minutes: int = 15
    """How long the controller lets a pod wait for a node (its `pod-pending-timeout`)."""
    node_labels: Mapping[str, tuple[str, ...]] | None = None
    """Labels a node selector may ask for, each with its values (none: any)."""
    selector_labels: tuple[str, ...] = ()
    """Labels that profiles select nodes by; where `node_labels` is None, typing errors are told by them."""
    queues: tuple[str, ...] = ()
    """Queues of the settings and of their profiles."""
    controller_tags: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """For a queue, the tags that its controllers were started with (`config.tags`)."""
    job_deadline_minutes: int = 360
    """The controller's `job-active-deadline-seconds`, in minutes."""
    jobs_per_upload: int = 500
    """Jobs that Buildkite takes in one upload."""
    jobs_per_build: int = 4000
    """Jobs that Buildkite takes in one build."""
    local_images: tuple[str, ...] = ()
    """Images that are imported on the nodes and in no registry; with or without their tag."""
    cuda_images: tuple[str, ...] = ("nvidia/*", "nvcr.io/*", "*cuda*", "vllm/*")
    """Patterns of images that ask for all NVIDIA devices unless told otherwise."""
    known_keys: tuple[str, ...] = ()
    """Keys of steps that are in the build already, such as the upload step's own."""
    fork: bool = False
    """The build is a fork's pull request."""
    fork_privileged: bool = False
    """A fork may have privileged pods, the docker socket and the host's namespaces."""
    fork_secrets: bool = False
    """A fork may use secrets."""


DEFAULT_RULES = PodRules()


def error(code: str, path: Path, message: str, hint: str) -> Finding:
    """A finding that stops the upload."""
    return Finding(code, path, message, hint)


def warning(code: str, path: Path, message: str, hint: str) -> Finding:
    """A finding that is shown, and that a suite may silence with a reason."""
    return Finding(code, path, message, hint, "warning")
