"""A suite: one directory's `pipeline.yml`, as its author wrote it."""

from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import BeforeValidator, Field

from bkgen.errors import Position
from bkgen.spec import native
from bkgen.spec.pod import OptionalPod
from bkgen.spec.steps import Steps
from bkgen.spec.types import Boolean, Env, Spec, Text
from bkgen.spec.when import When


def _written(value: object) -> object:
    # All steps commented out would otherwise become one that nobody wrote, with a pod of its own.
    if value is None:
        raise ValueError("the key is here, but no step is below it")
    return value


class SuiteSpec(Spec):
    """`pipeline.yml`: a Buildkite pipeline and five words more."""

    description: Text = ""
    """What the suite tests, in a sentence."""
    interpolate: Boolean = False
    """The file relies on `$VAR` being filled in at upload."""
    silence: dict[str, Text] = Field(default_factory=dict)
    """Warnings that do not apply here: `code: reason`."""
    when: When = Field(default_factory=When)
    """Which builds the suite is for."""
    pod: OptionalPod | None = None
    """The default pod of the file's command steps."""
    env: Env | None = None
    """Environment of every command step."""
    agents: native.Agents | None = None
    """Agent tags of every command step."""
    image: Text | None = None
    """Buildkite's image attribute of every command step."""
    priority: native.Priority | None = None
    """Priority of every command step."""
    secrets: native.Secrets | None = None
    """Buildkite secrets of every command step."""
    notify: native.Notify | None = None
    """Whom to tell about the build; joined over the selected suites."""
    steps: Annotated[Steps | None, BeforeValidator(_written)] = None
    """The steps. Absent: one command step that runs `./run.sh`."""


class Located(Protocol):
    """Something that knows where a field stands in the user's file."""

    @property
    def file(self) -> str:
        """The file's path, relative to the repository."""

    def position(self, path: Any, *, of_key: bool = True) -> Position:
        """Line and column of the field at `path`."""

    def has(self, path: Any) -> bool:
        """Whether the file has a field at `path`."""


class Suite(NamedTuple):
    """A suite as the later phases see it: its name, its directory (both with `/`), its spec, its file."""

    name: str
    directory: str
    spec: SuiteSpec
    source: Located
