"""What bkgen makes: Kubernetes plugins, steps and a pipeline, as values on their way out."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Path = tuple[str | int, ...]


class BuiltPod(NamedTuple):
    """A pod as the `kubernetes` plugin takes it, with what else it asks of its step.

    `plugin` is None on a bare-metal queue. Steps with equal pods share one `plugin` object, which is
    never changed after it is built. `known_variables` are the names that the kubelet would fill in.
    """

    plugin: Mapping[str, Any] | None
    agents: Mapping[str, str] = MappingProxyType({})
    env: Mapping[str, str] = MappingProxyType({})
    known_variables: frozenset[str] = frozenset()
    has_unknown_variables: bool = False
    """Environment comes from a Secret or ConfigMap whole, so any name may be known."""


class EmittedStep(NamedTuple):
    """One step of the document and where its author wrote it."""

    key: str
    body: dict[str, Any]
    suite: str
    path: Path


class Item(NamedTuple):
    """One entry of the document's top-level `steps`: a step, or a group with its steps.

    `jobs` counts as Buildkite's upload limit does: a group is one, parallelism and matrix multiply.
    """

    key: str
    body: dict[str, Any]
    suite: str
    steps: tuple[EmittedStep, ...]
    jobs: int
    keys: frozenset[str]
    needs: frozenset[str]
    interpolate: bool = False


class Pipeline(NamedTuple):
    """All items in upload order, and whom to tell about the build."""

    items: tuple[Item, ...]
    notify: tuple[Any, ...] = ()

    @property
    def jobs(self) -> int:
        """Jobs of the whole pipeline, as the limits count them."""
        return sum(item.jobs for item in self.items)

    @property
    def interpolate(self) -> bool:
        """Some suite relies on `$VAR` being filled in at upload."""
        return any(item.interpolate for item in self.items)

    def document(self) -> dict[str, Any]:
        """The pipeline as one JSON-like document."""
        head = {"notify": list(self.notify)} if self.notify else {}
        return {**head, "steps": [item.body for item in self.items]}
