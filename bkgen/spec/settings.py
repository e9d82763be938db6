"""`bkgen.yml`: the settings of a repository. Every key has a default; the file may be absent."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bkgen.spec import native
from bkgen.spec.pod import HostPathType, PullPolicy, Resource, Toleration
from bkgen.spec.types import Anything, Boolean, Env, Lazily, Name, Positive, PositiveNumber, Spec, Text
from bkgen.spec.types import _listed as listed

TRIVIAL = (
    "*.md", "LICENSE*", "NOTICE*", ".gitignore", ".gitattributes", ".editorconfig", ".mailmap", "CODEOWNERS",
    "/docs/**", "/asset/**", "/.github/**",
)  # fmt: skip
FORCE_RUN = ("/.buildkite/**", "/harness/**", "/bkgen.yml")

_PatternTuple = Annotated[tuple[str, ...], BeforeValidator(listed)]


class Filter(Spec):
    """Which files matter."""

    trivial: _PatternTuple = TRIVIAL
    """Files whose change alone runs nothing; `!` carves exceptions out."""
    force_run: _PatternTuple = FORCE_RUN
    """Files whose change runs everything that is admitted. bkgen.yml does so always, and so do files that lie
    in `tests_dir` and in no suite."""
    unclaimed: Literal["warn", "run"] = "warn"
    """What a changed file does that no suite's paths match: only a warning, or run everything admitted."""
    force_label: Text = "force-ci"
    """The pull request label that lifts the question of relevance."""
    push_base: Literal["parent", "always-run"] = "parent"
    """What a push is compared with; `always-run` where one push brings several commits."""


class Cadence(Spec):
    """A rhythm of builds: everything, minus some labels."""

    schedule: Boolean = False
    """The cadence of a scheduled build that names none."""
    minus: Annotated[tuple[Text, ...], BeforeValidator(listed)] = ()
    """Labels it leaves out."""
    label: Text | None = None
    """A pull request label that asks for this cadence."""


class Scope(Spec):
    """A pull request label that widens what is admitted."""

    minus: Annotated[tuple[Text, ...], BeforeValidator(listed)] = ()
    """Labels it leaves out."""


def _below_root(path: str) -> str:
    """`k3_tests/` and `./k3_tests` as git writes it. ValueError for what is not inside the repository."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise ValueError(f"'{path}' is no directory below the repository's root")
    return "/".join(parts)


def _resource(name: str) -> str:
    """Extended resources have a domain. Source: Kubernetes, extended resources."""
    if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?", name):
        raise ValueError(f"'{name}' is no resource that Kubernetes counts, such as nvidia.com/gpu")
    return name


def _bodies(value: object) -> object:
    if isinstance(value, dict):
        return {name: {} if body is None else body for name, body in value.items()}
    return value


class PolicySettings(Spec):
    """Labels, cadences and scopes."""

    label_prefix: Text = "run-ci-"
    """The prefix of pull request labels that are meant for bkgen; they count without it, too."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """Domain labels, each with what it stands for."""
    cadences: Annotated[dict[str, Cadence], BeforeValidator(_bodies)] = Field(default_factory=dict)
    """Rhythms by name; every one admits all but its `minus`."""
    scopes: Annotated[dict[str, Scope], BeforeValidator(_bodies)] = Field(
        default_factory=lambda: {"all": Scope()}
    )
    """Labels that widen, strongest first. One that subtracts nothing beats every cadence."""


class Profile(Spec):
    """A kind of hardware."""

    pod: Boolean = True
    """`false`: a bare-metal queue, steps are plain agent steps."""
    gpu_resource: Annotated[Text, AfterValidator(_resource)] | None = None
    """The extended resource a GPU is asked for by, such as nvidia.com/gpu."""
    gpus_per_node: Positive | None = None
    """How many of them a node has."""
    gpus: Positive | None = None
    """How many of them the cluster has; absent: unknown. Jobs that would wait too long for one are found."""
    claim_template: Text | None = None
    """A ResourceClaimTemplate (DRA) instead of an extended resource; one claim a GPU."""
    image: Name | None = None
    """The default image."""
    image_pull_policy: PullPolicy | None = None
    """`Never` where the image is imported locally."""
    queue: Name | None = None
    """The Buildkite queue; absent: the settings' queue."""
    agents: dict[str, Text] = Field(default_factory=dict)
    """Further agent tags."""
    node_selector: dict[str, Text] = Field(default_factory=dict)
    """Labels the node must carry."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints the pods tolerate."""
    runtime_class: Text | None = None
    """The RuntimeClass that shows the GPUs to the container."""
    env: Env = Field(default_factory=dict)
    """Environment every pod of this hardware needs."""
    cpu: Resource | None = None
    """Default CPU, one quantity or `{request, limit}`."""
    memory: Resource | None = None
    """Default memory, one quantity or `{request, limit}`."""
    shm: Text | None = None
    """Default size of /dev/shm."""
    spec: dict[str, Anything] | None = None
    """A raw PodSpec under every pod of this hardware."""
    label: Text | None = None
    """How the hardware is called in a mirror's label; absent: the profile's name."""


class Cache(Spec):
    """A volume that many pods share."""

    mount_path: Text
    """Where the container sees it."""
    host_path: Text | None = None
    """A path of the node."""
    claim: Text | None = None
    """A PersistentVolumeClaim, for clusters of several nodes."""
    type: HostPathType | None = None
    """The hostPath's type; `DirectoryOrCreate` where none is given."""
    read_only: Boolean = False
    """Mount it read-only."""

    @model_validator(mode="after")
    def _one_source(self) -> "Cache":
        if (self.host_path is None) == (self.claim is None):
            raise ValueError("a cache is either a host_path or a claim")
        return self


class Scratch(Spec):
    """Fast local storage, mounted whole: a subPath would hide the file system from GPUDirect Storage."""

    host_path: Text
    """A path of the node."""
    type: HostPathType | None = None
    """The hostPath's type; `DirectoryOrCreate` where none is given."""


class Forks(Spec):
    """What a fork's pull request may do."""

    specs: Literal["base", "head"] = "base"
    """Where settings and suites are read from: the base commit, or the fork's own checkout."""
    run: Boolean = True
    """`false`: nothing runs for a fork, unless a suite says `forks: true`."""
    privileged: Boolean = False
    """May its pods be privileged or mount the docker socket?"""
    secrets: Boolean = False
    """May its steps use secrets?"""


class Limits(Spec):
    """Limits of Buildkite, which an organisation can have raised, and of the controller."""

    jobs_per_upload: Positive = 500
    """Jobs in one upload, groups counted."""
    jobs_per_build: Positive = 4000
    """Jobs in a build."""
    pod_pending_minutes: Positive = 15
    """How long the controller lets a pod wait for a node (its `pod-pending-timeout`)."""


_NodeLabels = dict[str, Annotated[tuple[Text, ...], BeforeValidator(listed)]]
_Profiles = Annotated[dict[str, Profile], BeforeValidator(_bodies), Field(min_length=1)]
_Retries = dict[str, list[native.AutomaticRetry]]
# Lost machines, which `*` does not cover, and a sick GPU (78, from gpu-health.sh): no test that failed.
INFRA: tuple[native.AutomaticRetry, ...] = (
    {"signal_reason": "stack_error", "limit": 1},
    {"signal_reason": "agent_stop", "limit": 2},
    {"exit_status": -1, "limit": 2},
    {"exit_status": 78, "limit": 2},
)


class Settings(Spec):
    """`bkgen.yml`."""

    version: Literal[1] = 1
    """The version of this file's format."""
    tests_dir: Annotated[Text, AfterValidator(_below_root)] = "k3_tests"
    """The directory of the suites."""
    default_branch: Text = "main"
    """The branch that local builds are compared with."""
    queue: Text = "k8s"
    """The Buildkite queue of the agent-stack-k8s controller."""
    filter: Annotated[Filter, Lazily(Filter)] = Field(default_factory=Filter.model_construct)
    """Which files matter."""
    policy: Annotated[PolicySettings, Lazily(PolicySettings)] = Field(
        default_factory=PolicySettings.model_construct
    )
    """Labels, cadences and scopes."""
    timeout_factor: Annotated[PositiveNumber, Field(ge=1, le=100)] = 1.25
    """`timeout_in_minutes` is `expected_minutes` times this, rounded up."""
    profiles: Annotated[dict[str, Profile], Lazily(_Profiles)] = Field(
        default_factory=lambda: {"default": Profile.model_construct(gpu_resource="nvidia.com/gpu")}
    )
    """Kinds of hardware by name."""
    default_profile: Text | None = None
    """The profile of a pod that names none; absent: the first."""
    upload_profile: Text | None = None
    """The profile of the upload step; absent: the image bkgen:latest, imported on the node, on `queue`."""
    node_labels: Annotated[_NodeLabels, Lazily(_NodeLabels)] | None = None
    """Labels of the nodes, each with its values (an empty list: any); a selector may ask for nothing else.
    Absent: selectors are only compared with those of the profiles and Kubernetes' own."""
    caches: Annotated[dict[str, Cache], Lazily(dict[str, Cache])] = Field(default_factory=dict)
    """Shared volumes by name."""
    scratch: Annotated[Scratch, Lazily(Scratch)] | None = None
    """Fast local storage for `pod.scratch`."""
    host_paths: _PatternTuple = ("/data/**", "/run/udev")
    """hostPaths that pods may mount."""
    retries: Annotated[dict[str, list[native.AutomaticRetry]], Lazily(_Retries)] = Field(default_factory=dict)
    """Retry rules by name. `infra` is there undeclared: lost machines and sick GPUs, never a failed test."""
    default_retry: Text | None = None
    """The retry rules of a command step with a pod that says nothing."""
    forks: Annotated[Forks, Lazily(Forks)] = Field(default_factory=Forks.model_construct)
    """What a fork's pull request may do."""
    limits: Annotated[Limits, Lazily(Limits)] = Field(default_factory=Limits.model_construct)
    """Limits of Buildkite and of the controller."""

    @model_validator(mode="before")
    @classmethod
    def _integers_of_version(cls, value: object) -> object:
        if isinstance(value, dict) and isinstance(value.get("version"), str) and value["version"] == "1":
            return {**value, "version": 1}
        return value

    @property
    def retry_presets(self) -> Mapping[str, Sequence[native.AutomaticRetry]]:
        """The retry rules that a step may name: those declared, and `infra`."""
        return {"infra": INFRA, **self.retries}

    @property
    def profile_name(self) -> str:
        """The profile of a pod that names none."""
        return self.default_profile or next(iter(self.profiles), "default")
