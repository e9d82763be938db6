"""One planned step becomes one Buildkite step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from typing import Any

from bkgen.buildkite import BuiltPod
from bkgen.pipeline.commands import for_kubelet, in_directory
from bkgen.plan.planned import PlannedStep
from bkgen.plugin_names import is_kubernetes
from bkgen.spec.settings import Settings
from bkgen.spec.steps import BKGEN_WORDS, AnyStep, CommandStep, GroupStep, Mirror, WaitStep
from bkgen.spec.suite import SuiteSpec

DEADLINE_MINUTES = 360
"""The controller ends a job after six hours unless it is told otherwise. Source: agent-stack-k8s."""
_DEADLINE_MARGIN_MINUTES = 15
_NOT_EMITTED = BKGEN_WORDS | {"id", "identifier", "type", "commands", "steps", "script"}
_NULLABLE = frozenset({"wait", "waiter", "block", "manual", "input", "group", "depends_on"})
"""Attributes that say something even where they hold nothing: what a step is, that it waits for nothing."""
_NAMES = {"if_": "if", "async_": "async"}
_FIRST = ("group", "label", "name", "command", "wait", "waiter", "block", "manual", "input", "trigger", "key")


def emitted_step(planned: PlannedStep, pod: BuiltPod | None, settings: Settings) -> dict[str, Any]:
    """The step as Buildkite takes it, without the steps of a group."""
    step = planned.step
    body = _attributes(step)
    if isinstance(step, CommandStep):
        _command(body, planned, step, pod, settings)
    elif isinstance(step, GroupStep):
        body.setdefault("group", None)
    elif isinstance(step, WaitStep) and not {"wait", "waiter"} & body.keys():
        body["wait"] = None
    body["key"] = planned.key
    return {**{name: body[name] for name in _FIRST if name in body}, **body}


def _attributes(step: AnyStep) -> dict[str, Any]:
    body: dict[str, Any] = {}
    given = step.model_fields_set - _NOT_EMITTED
    for name in sorted(given, key=_places(type(step)).__getitem__):
        value = getattr(step, name)
        if value is not None or name in _NULLABLE:
            body[_NAMES.get(name, name)] = value
    return body


@cache
def _places(model: type[AnyStep]) -> dict[str, int]:
    """Where each attribute of a kind of step stands: the same order in every build."""
    return {name: place for place, name in enumerate(model.model_fields)}


def _command(
    body: dict[str, Any], planned: PlannedStep, step: CommandStep, pod: BuiltPod | None, settings: Settings
) -> None:
    spec, mirror = planned.suite.spec, planned.mirror_spec
    _commands(body, planned, step, pod)
    _push_down(body, spec)
    if mirror is not None:
        _apply_mirror(body, mirror, planned, settings)
    _shards(body, step, planned)
    timeout = timeout_of(planned, settings)
    if timeout is not None:
        body["timeout_in_minutes"] = timeout
    if pod is not None:
        _pod(body, pod, planned)
    _retry(body, step, pod is not None and _is_built(planned), settings)


def _commands(body: dict[str, Any], planned: PlannedStep, step: CommandStep, pod: BuiltPod | None) -> None:
    commands = [in_directory(command, planned.suite.directory) for command in step.commands_list]
    if pod is not None and pod.plugin is not None and not planned.suite.spec.interpolate:
        commands = [for_kubelet(command, pod) for command in commands]
    if commands:
        body["command"] = commands[0] if len(commands) == 1 else commands
    elif "command" in body:
        body["command"] = []


def _push_down(body: dict[str, Any], spec: SuiteSpec) -> None:
    # At the top of the document these would leak into every other suite of the build.
    if spec.env:
        body["env"] = {**spec.env, **body.get("env", {})}
    if spec.agents is not None:
        body["agents"] = merged_agents(spec.agents, body.get("agents"))
    for name in ("image", "priority"):
        value = getattr(spec, name)
        if value is not None:
            body.setdefault(name, value)
    if spec.secrets is not None:
        body["secrets"] = merged_secrets(spec.secrets, body.get("secrets", []))


def merged_secrets(under: Any, over: Any) -> Any:
    """Buildkite secrets of two places, the second's winning; a list names variables after their secrets."""
    if isinstance(under, list) and isinstance(over, list):
        return list(dict.fromkeys([*under, *over]))
    return {
        name: key
        for secrets in (under, over)
        for name, key in (
            secrets.items() if isinstance(secrets, Mapping) else zip(secrets, secrets, strict=True)
        )
    }


def merged_agents(under: Any, over: Any) -> Any:
    """Agent tags of two places as a map, the second's winning; one alone keeps its form."""
    if over is None or not under:
        return under if over is None else over
    return {**tags_of(under), **tags_of(over)}


def tags_of(agents: Any) -> dict[str, str]:
    """`{queue: k8s}` of either of Buildkite's two forms."""
    if isinstance(agents, Mapping):
        return dict(agents)
    return dict(tag.partition("=")[::2] for tag in agents)


def _apply_mirror(body: dict[str, Any], mirror: Mirror, planned: PlannedStep, settings: Settings) -> None:
    name = planned.mirror or ""
    hardware = settings.profiles[name].label or name
    base = body.pop("name", None) or body.get("label") or planned.suite.name
    body["label"] = mirror.label or f"{base} ({hardware})"
    if "depends_on" in mirror.model_fields_set:
        body["depends_on"] = mirror.depends_on
    if "soft_fail" in mirror.model_fields_set:
        body["soft_fail"] = mirror.soft_fail
    if mirror.env:
        body["env"] = {**body.get("env", {}), **mirror.env}


def _shards(body: dict[str, Any], step: CommandStep, planned: PlannedStep) -> None:
    shards = step.shards
    if shards is None:
        return
    body["parallelism"] = shards.count
    label = body.pop("name", None) or body.get("label") or planned.suite.name
    body["label"] = label if any(token in label for token in ("%n", "%N")) else f"{label} %N of %t"
    env: dict[str, str] = {}
    if shards.by != "none":
        env["BKGEN_SHARDS_BY"] = shards.by
    if shards.durations is not None:
        env["BKGEN_SHARDS_DURATIONS"] = f"{planned.suite.directory}/{shards.durations.removeprefix('./')}"
    if env:
        body["env"] = {**env, **body.get("env", {})}


def timeout_of(planned: PlannedStep, settings: Settings) -> int | None:
    """The step's timeout in minutes: its own, else its expectation times the settings' factor, rounded up."""
    step, mirror = planned.step, planned.mirror_spec
    if not isinstance(step, CommandStep):
        return None
    if mirror is not None:
        if mirror.timeout_in_minutes is not None:
            return mirror.timeout_in_minutes
        if mirror.expected_minutes is not None:
            return _with_headroom(mirror.expected_minutes, settings)
    if step.timeout_in_minutes is not None:
        return step.timeout_in_minutes
    return None if planned.minutes is None else _with_headroom(planned.minutes, settings)


def _with_headroom(minutes: float, settings: Settings) -> int:
    # 10 times 1.1 is 11.000000000000002 to the machine, which is no reason for a twelfth minute.
    return ceil(round(minutes * settings.timeout_factor, 6))


def _pod(body: dict[str, Any], pod: BuiltPod, planned: PlannedStep) -> None:
    if pod.agents:
        # A mirror is there for other hardware, so its profile's queue beats the one written on the step.
        both = (pod.agents, body.get("agents"))
        body["agents"] = merged_agents(*(both if planned.mirror is None else both[::-1]))
    if pod.env:
        body["env"] = {**pod.env, **body.get("env", {})}
    if pod.plugin is None:
        return
    plugin = pod.plugin
    timeout = body.get("timeout_in_minutes", 0)
    if _is_built(planned) and timeout > DEADLINE_MINUTES and "jobActiveDeadlineSeconds" not in plugin:
        # Later than the timeout, so that Buildkite's own message is the one that is seen.
        plugin = {**plugin, "jobActiveDeadlineSeconds": (timeout + _DEADLINE_MARGIN_MINUTES) * 60}
    if _is_built(planned):
        body["plugins"] = [*_as_list(body.get("plugins")), {"kubernetes": plugin}]
    else:
        body["plugins"] = [_adopted(entry, plugin) for entry in _as_list(body["plugins"])]


def _is_built(planned: PlannedStep) -> bool:
    """The pod is made of bkgen's words, and not the plugin that its author wrote out."""
    return planned.pod is not None or planned.mirror is not None


def _adopted(entry: Any, plugin: Mapping[str, Any]) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    # What is no map goes on as it is written, for verify to refuse.
    return {
        name: plugin if is_kubernetes(name) and (config is None or isinstance(config, Mapping)) else config
        for name, config in entry.items()
    }


def _as_list(plugins: Any) -> list[Any]:
    if plugins is None:
        return []
    return (
        [{name: config} for name, config in plugins.items()]
        if isinstance(plugins, Mapping)
        else list(plugins)
    )


def _retry(body: dict[str, Any], step: CommandStep, has_pod: bool, settings: Settings) -> None:
    if isinstance(step.retry, str):
        body["retry"] = {"automatic": list(settings.retry_presets[step.retry])}
    elif step.retry is None and has_pod and settings.default_retry is not None:
        body["retry"] = {"automatic": list(settings.retry_presets[settings.default_retry])}
