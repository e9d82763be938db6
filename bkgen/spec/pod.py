"""`pod`: the Kubernetes pod of a step in a few words."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Tag, WithJsonSchema
from pydantic.types import Discriminator

from bkgen.scalars import described
from bkgen.spec.native import kind_of
from bkgen.spec.types import Anything, Boolean, Count, Env, Integer, Lazily, Name, Positive, Spec, Text

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
HostPathType = Literal[
    "", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"
]


def _quantity(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return str(value)
    raise ValueError(f"a Kubernetes quantity such as 500m, 32 or 96Gi is wanted, not {described(value)}")


Quantity = Annotated[str, BeforeValidator(_quantity), WithJsonSchema({"type": ["string", "number"]})]


class Amount(Spec):
    """A request and a limit of one resource."""

    request: Quantity | None = None
    """What the scheduler sets aside."""
    limit: Quantity | None = None
    """What the container may not exceed."""


_Resource = Annotated[
    Annotated[Amount, Tag("map")] | Annotated[Quantity, Tag("text")],
    Discriminator(lambda v: "map" if isinstance(v, (dict, Amount)) else "text"),
]


Resource = Annotated[Amount | str, Lazily(_Resource)]


class EmptyDir(Spec):
    """An `emptyDir` volume."""

    medium: Literal["", "Memory", "HugePages"] = ""
    """`Memory` for a tmpfs."""
    size_limit: Quantity | None = None
    """How much it may hold."""


class Mount(Spec):
    """One further volume and where it is mounted."""

    name: Text
    """The volume's name, a DNS label."""
    mount_path: Text
    """Where the container sees it."""
    host_path: Text | None = None
    """A path of the node; must lie in the settings' `host_paths`."""
    claim: Text | None = None
    """A PersistentVolumeClaim's name."""
    secret: Text | None = None
    """A Secret's name."""
    config_map: Text | None = None
    """A ConfigMap's name."""
    empty_dir: EmptyDir | None = None
    """A scratch volume that dies with the pod."""
    type: HostPathType | None = None
    """The hostPath's type; `DirectoryOrCreate` where none is given."""
    read_only: Boolean = False
    """Mount it read-only."""
    sub_path: Text | None = None
    """A path inside the volume."""


class Toleration(Spec):
    """A Kubernetes toleration."""

    key: Text | None = None
    """The taint's key; absent with operator Exists tolerates all."""
    operator: Literal["Exists", "Equal"] | None = None
    """`Equal` (the default) or `Exists`."""
    value: Text | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; absent means all."""
    toleration_seconds: Annotated[Integer, Field(ge=0)] | None = None
    """How long a NoExecute taint is tolerated, in seconds."""


def _no_gpu_fraction(value: object) -> object:
    if isinstance(value, str) and "." in value:
        raise ValueError(
            "a pod takes whole GPUs; a part of one is a resource of its own (a MIG profile, a shared GPU)"
        )
    return value


class Pod(Spec):
    """The pod of a step. File-level `pod` is the default; a step's own is merged over it key by key.

    A key is replaced as a whole: a step's `env`, `cpu` or `spec` takes the place of the file's.
    """

    profile: Text | None = None
    """A profile of the settings: the kind of hardware. Absent: `default_profile`."""
    image: Name | None = None
    """The image of `container-0`."""
    image_pull_policy: PullPolicy | None = None
    """When the image is pulled; `Never` for one imported locally."""
    gpus: Annotated[Count | None, BeforeValidator(_no_gpu_fraction)] = None
    """Whole GPUs of the profile's resource; 0 is a CPU pod that sees no GPU."""
    cpu: Resource | None = None
    """One quantity for request and limit, or `{request, limit}`."""
    memory: Resource | None = None
    """One quantity for request and limit, or `{request, limit}`."""
    shm: Quantity | None = None
    """Size of the tmpfs on /dev/shm; below the memory limit."""
    caches: tuple[Text, ...] | None = None
    """Named volumes of the settings."""
    scratch: Text | None = None
    """Where the settings' scratch path is mounted, whole."""
    mounts: Annotated[tuple[Mount, ...], Lazily(tuple[Mount, ...])] | None = None
    """Further volumes."""
    env: Env | None = None
    """Environment of the container, literal values. A step's own `env` is the better place."""
    secrets: dict[str, Text] | None = None
    """`NAME: secret/key`: an environment variable out of a Kubernetes Secret."""
    docker: Boolean | None = None
    """Mount the node's docker socket."""
    privileged: Boolean | None = None
    """Run the container privileged."""
    node_selector: dict[str, Text] | None = None
    """Labels the node must carry."""
    tolerations: Annotated[tuple[Toleration, ...], Lazily(tuple[Toleration, ...])] | None = None
    """Taints the pod tolerates."""
    runtime_class: Text | None = None
    """The pod's RuntimeClass."""
    service_account: Text | None = None
    """The pod's ServiceAccount."""
    priority_class: Text | None = None
    """The pod's PriorityClass."""
    queue_name: Text | None = None
    """The Kueue LocalQueue the job is admitted through."""
    sidecars: list[Anything] | None = None
    """The plugin's `sidecars`: containers that run beside the test."""
    checkout: Anything | None = None
    """The plugin's `checkout` parameters."""
    active_deadline_minutes: Positive | None = None
    """After how many minutes the controller stops the job; six hours where absent."""
    spec: dict[str, Anything] | None = None
    """A raw PodSpec merged last: maps deeply, lists of named things by name, the rest replaced."""


def _pod_or_false(value: object) -> object:
    if value is None:
        return {}
    if isinstance(value, str) and value == "false":
        return False
    if isinstance(value, str):
        raise ValueError(f"`pod` is a map or false, not {described(value)}")
    return value


_Pod = Annotated[
    Annotated[
        Annotated[Pod, Tag("map")] | Annotated[Literal[False], Tag("other")],
        Discriminator(lambda v: "other" if v is False else ("map" if isinstance(v, Pod) else kind_of(v))),
    ],
    BeforeValidator(_pod_or_false),
]
OptionalPod = Annotated[Pod | Literal[False], Lazily(_Pod)]
