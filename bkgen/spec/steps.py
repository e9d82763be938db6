"""The steps of a suite: Buildkite's own, with `when`, `pod`, `shards`, `expected_minutes` and `mirrors`."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from bkgen.errors import nearest
from bkgen.scalars import described
from bkgen.spec import native
from bkgen.spec.pod import OptionalPod
from bkgen.spec.types import (
    Anything,
    Boolean,
    Command,
    Env,
    Lazily,
    Positive,
    PositiveNumber,
    Spec,
    Text,
    TextList,
)
from bkgen.spec.when import When


def _inside(path: str) -> str:
    if path.startswith("/") or not path or ".." in path.split("/"):
        raise ValueError(f"'{path}' does not lie in the suite's directory")
    return path


class Shards(Spec):
    """How wide a step runs."""

    count: Positive
    """Jobs that share the tests."""
    by: Literal["none", "pytest-shard", "pytest-split", "balanced"] = "none"
    """Who divides the tests; `none`: the command reads Buildkite's own variables."""
    durations: Annotated[Text, AfterValidator(_inside)] | None = None
    """A file of test durations, in the suite's directory."""
    budget_minutes: PositiveNumber | None = None
    """How long the slowest shard may take."""


def _shards(value: object) -> object:
    return {"count": value} if isinstance(value, (str, int)) else value


_Shards = Annotated[Shards, BeforeValidator(_shards)]


class StepBase(Spec):
    """What every step has."""

    key: Annotated[Text | None, Field(max_length=100)] = None
    """Unique in the build: letters, digits, `_`, `-`, `:`."""
    id: Text | None = None
    """An old name for `key`."""
    identifier: Text | None = None
    """An old name for `key`."""
    type: Text | None = None
    """Buildkite's explicit kind of step."""
    depends_on: native.DependsOn = None
    """Keys of steps that must end before this one starts."""
    allow_dependency_failure: Boolean | None = None
    """Start even if a dependency failed."""
    if_: Annotated[Text | None, Field(alias="if")] = None
    """Buildkite's own condition, evaluated by Buildkite."""

    @property
    def own_key(self) -> str | None:
        """The key its author gave it, under whichever name."""
        return self.key or self.identifier or self.id


class WaitStep(StepBase):
    """`wait`: what follows starts when all before it has passed."""

    wait: Text | None = None
    """Nothing, or a label."""
    waiter: Text | None = None
    """The same as `wait`."""
    continue_on_failure: Boolean | None = None
    """Go on even if something before it failed."""
    branches: TextList | None = None
    """Branches the step is for."""
    label: Text | None = None
    """What Buildkite shows."""
    name: Text | None = None
    """The same as `label`."""


class SelectableStep(StepBase):
    """A step that can be chosen by `when`."""

    when: Annotated[When, Lazily(When)] | None = None
    """Which builds the step is for, on top of its file's and group's."""
    label: Text | None = None
    """What Buildkite shows."""
    name: Text | None = None
    """The same as `label`."""
    branches: TextList | None = None
    """Branches the step is for, evaluated by Buildkite."""


class _Asking(SelectableStep):
    prompt: Text | None = None
    """What is asked."""
    fields: native.Fields | None = None
    """What is to be filled in."""
    blocked_state: Literal["passed", "failed", "running"] | None = None
    """The state of the build while it waits."""
    allowed_teams: TextList | None = None
    """Who may unblock it."""


class BlockStep(_Asking):
    """`block`: somebody must unblock the build."""

    block: Text | None = None
    """The label."""
    manual: Text | None = None
    """The same as `block`."""


class InputStep(_Asking):
    """`input`: somebody is asked; the build goes on."""

    input: Text | None = None
    """The label."""


class TriggerStep(SelectableStep):
    """`trigger`: starts a build of another pipeline."""

    trigger: Text
    """The other pipeline's slug."""
    build: native.Build | None = None
    """The new build's branch, commit, message, environment and meta-data."""
    async_: Annotated[Boolean | None, Field(alias="async")] = None
    """Do not wait for it."""
    skip: native.Skip | None = None
    """Leave the step out, with a reason."""
    soft_fail: native.SoftFail | None = None
    """Its failure does not fail the build."""
    if_changed: native.IfChanged | None = None
    """Buildkite's own change filter; `when.paths` is the better one."""


class Mirror(Spec):
    """The same step on another profile's hardware; what is given here replaces the step's own."""

    label: Text | None = None
    """Absent: the step's label with the profile's name."""
    key: Annotated[Text | None, Field(max_length=100)] = None
    """Absent: the step's key and the profile's name."""
    depends_on: native.DependsOn = None
    """Its own dependencies."""
    soft_fail: native.SoftFail | None = None
    """Its failure does not fail the build."""
    expected_minutes: PositiveNumber | None = None
    """How long one job takes on this hardware."""
    timeout_in_minutes: Positive | None = None
    """When Buildkite stops it."""
    env: Env | None = None
    """Merged over the step's environment."""
    pod: OptionalPod | None = None
    """Merged over the step's pod; `false` for a plain agent step."""
    when: Annotated[When, Lazily(When)] | None = None
    """Which builds the mirror is for, on top of the step's."""


def _mirrors(value: object) -> object:
    if isinstance(value, dict):
        return {name: {} if mirror is None else mirror for name, mirror in value.items()}
    return value


_Mirrors = Annotated[dict[str, Mirror], BeforeValidator(_mirrors)]


class CommandStep(SelectableStep):
    """`command`: what runs, on what, for how long."""

    command: Command | None = None
    """The commands; a leading `./` is the suite's own directory."""
    commands: Command | None = None
    """The same as `command`."""
    plugins: native.Plugins | None = None
    """Buildkite plugins, `kubernetes` for a pod written out."""
    agents: native.Agents | None = None
    """Tags the agent or controller must carry."""
    artifact_paths: TextList | None = None
    """Globs of files to keep."""
    cache: native.Cache | None = None
    """Buildkite's cache volumes."""
    cancel_on_build_failing: Boolean | None = None
    """Stop the job when the build is failing."""
    checkout: native.Checkout | None = None
    """Buildkite's checkout attributes."""
    concurrency: Positive | None = None
    """Jobs of the group at one time."""
    concurrency_group: Annotated[Text | None, Field(max_length=200)] = None
    """The group that `concurrency` counts in."""
    concurrency_method: Literal["ordered", "eager"] | None = None
    """In which order the group's jobs go."""
    env: Env | None = None
    """Environment of the job."""
    if_changed: native.IfChanged | None = None
    """Buildkite's own change filter; `when.paths` is the better one."""
    image: Text | None = None
    """Buildkite's image attribute; with a pod write `pod.image`."""
    matrix: native.Matrix | None = None
    """One job for each combination of elements."""
    notify: native.Notify | None = None
    """Whom to tell."""
    parallelism: native.Parallelism | None = None
    """Jobs of this step; `shards` says the same with a runner."""
    priority: native.Priority | None = None
    """Higher goes first."""
    retry: native.Retry | None = None
    """A preset of the settings by name, or Buildkite's own form."""
    secrets: native.Secrets | None = None
    """Buildkite secrets."""
    signature: dict[str, Anything] | None = None
    """Written by agents that sign."""
    skip: native.Skip | None = None
    """Leave the step out, with a reason."""
    soft_fail: native.SoftFail | None = None
    """Its failure does not fail the build."""
    timeout_in_minutes: Positive | None = None
    """When Buildkite stops it; `expected_minutes` gives one."""
    pod: OptionalPod | None = None
    """The pod; `{}` is enough, `false` is a plain agent step."""
    shards: Annotated[Shards, Lazily(_Shards)] | None = None
    """How wide it runs: a number, or `{count, by, …}`."""
    expected_minutes: PositiveNumber | None = None
    """How long one job takes, in minutes (with shards: the slowest)."""
    mirrors: Annotated[dict[str, Mirror], Lazily(_Mirrors)] | None = None
    """The same step on further profiles."""

    @property
    def commands_list(self) -> list[str]:
        """What runs; `commands` beats `command`, as it does in the agent."""
        given = self.commands if self.commands is not None else self.command
        if given is None:
            return []
        return [given] if isinstance(given, str) else list(given)


_TYPES = {
    "command": "command", "commands": "command", "script": "command", "wait": "wait", "waiter": "wait",
    "block": "block", "manual": "block", "input": "input", "trigger": "trigger", "group": "group",
}  # fmt: skip
_ORDER = (
    ("command", ("command", "commands", "script", "plugins")),
    ("wait", ("wait", "waiter")),
    ("block", ("block", "manual")),
    ("input", ("input",)),
    ("trigger", ("trigger",)),
    ("group", ("group",)),
    ("command", ("pod", "shards", "expected_minutes", "mirrors")),
    ("group", ("steps",)),
)


def step_kind(value: object) -> str:
    """Which kind of step a map is, by the agent's own order of recognition. Source: go-pipeline."""
    if isinstance(value, StepBase):
        return type(value).__name__.removesuffix("Step").lower()
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            return _TYPES.get(value["type"], "unknown")
        for kind, names in _ORDER:
            if any(name in value for name in names):
                return kind
    return "unknown"


def normal_step(value: object) -> object:
    """A step as a map: `wait` and other words, and the nested `{wait: {…}}` form, spelt out."""
    if isinstance(value, str):
        word = _TYPES.get(value)
        if word in {"wait", "block", "input"}:
            return {word: None}
        raise ValueError(f"a step is a map, or one of wait, block and input, not {described(value)}")
    if isinstance(value, dict):
        if len(value) == 1:
            ((name, inner),) = value.items()
            if name in _TYPES and name != "group" and isinstance(inner, dict):
                return {"type": _TYPES[name], **inner} if "type" not in inner else inner
        if "script" in value and "command" not in value:
            return {("command" if name == "script" else name): item for name, item in value.items()}
        if step_kind(value) == "unknown":
            raise ValueError(_untyped(value))
        return value
    if isinstance(value, StepBase):
        return value
    raise ValueError(f"a step is a map, or one of wait, block and input, not {described(value)}")


def _untyped(step: dict[str, object]) -> str:
    message = "this step has no type: it needs one of command, wait, block, input, trigger, group or plugins"
    for name in step:
        close = nearest(name, {*_TYPES, "plugins"} - {"type"})
        if close:
            return f"{message}; did you mean '{close}' by '{name}'?"
    return message


def _no_nested_group(value: object) -> object:
    step = normal_step(value)
    if step_kind(step) == "group":
        raise ValueError("a group cannot hold a group")
    return step


class Choosing(Lazily):
    """A step: its kind is told by its keys, and only the model of that kind is compiled and asked."""

    def __init__(
        self, normal: Callable[[object], object], models: Mapping[str, type[StepBase] | str]
    ) -> None:
        super().__init__(None)
        self._normal = normal
        self._models = models

    def _chosen(self, kind: str) -> type[StepBase]:
        model = self._models[kind]
        return GroupStep if isinstance(model, str) else model

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        def choose(value: object) -> StepBase:
            step = self._normal(value)
            return self._chosen(step_kind(step)).model_validate(step)

        return core_schema.no_info_plain_validator_function(choose)

    def __get_pydantic_json_schema__(self, _schema: Any, handler: Any) -> Any:
        from pydantic import TypeAdapter
        from pydantic_core import core_schema

        words = core_schema.literal_schema(["wait", "waiter", "block", "input"])
        models = [TypeAdapter(self._chosen(kind)).core_schema for kind in self._models]
        return handler(core_schema.union_schema([words, *models]))


AnyLeaf = CommandStep | WaitStep | BlockStep | InputStep | TriggerStep
_LEAVES: dict[str, type[StepBase] | str] = {
    "command": CommandStep, "wait": WaitStep, "block": BlockStep, "input": InputStep, "trigger": TriggerStep,
}  # fmt: skip
LeafStep = Annotated[AnyLeaf, Choosing(_no_nested_group, _LEAVES)]
_LeafSteps = Annotated[list[LeafStep], Field(min_length=1)]


class GroupStep(SelectableStep):
    """`group`: steps shown together."""

    group: Text | None = None
    """The group's name."""
    notify: native.Notify | None = None
    """Whom to tell."""
    skip: native.Skip | None = None
    """Leave the group out, with a reason."""
    if_changed: native.IfChanged | None = None
    """Buildkite's own change filter; `when.paths` is the better one."""
    steps: Annotated[list[AnyLeaf], Lazily(_LeafSteps)]
    """The group's steps; a group holds no group."""


AnyStep = CommandStep | WaitStep | BlockStep | InputStep | TriggerStep | GroupStep
Step = Annotated[AnyStep, Choosing(normal_step, {**_LEAVES, "group": "GroupStep"})]
Steps = Annotated[list[AnyStep], Lazily(Annotated[list[Step], Field(min_length=1)])]
BKGEN_WORDS = frozenset({"when", "pod", "shards", "expected_minutes", "mirrors"})
