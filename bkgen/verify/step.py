"""One step: its key, clocks, tags and texts, and whether it and its pod agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bkgen.errors import did_you_mean
from bkgen.verify.dollars import doubled, texts_in, uploaded
from bkgen.verify.environment import unexpanded
from bkgen.verify.examine import Examined
from bkgen.verify.finding import Finding, Path, PodRules, error, warning
from bkgen.verify.retry import retry
from bkgen.verify.sensitive import is_secret_name, secret_finding
from bkgen.verify.slip import slip_of
from bkgen.verify.values import as_list, as_map, is_env_name, is_open
from bkgen.verify.visible import of_step
from bkgen.verify.width import concurrency, job_count, matrix

KEY_LENGTH, LABEL_LENGTH, SKIP_LENGTH = 100, 255, 70
SIZE_MAX = 120 * 1024
"""The kernel takes 128 KiB for one environment variable; the rest is for its name and for growth."""

_KEY = re.compile(r"[A-Za-z0-9_:-]+")
_UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class Context(NamedTuple):
    """What the rules about one step know beside it."""

    rules: PodRules
    interpolate: bool
    pods: Sequence[Examined]
    other_plugins_size: int
    retries: dict[str, tuple[Finding, ...]]
    """Findings of retry rules seen before, by their text: most steps of a build have the same."""


def key_of(step: object) -> str | None:
    """A step's key, under whichever of its names; None where it has none."""
    if isinstance(step, dict):
        for name in ("key", "identifier", "id"):
            if isinstance(step.get(name), str):
                return str(step[name])
    return None


def commands(step: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """The step's command lines with their places; `commands` beats `command`."""
    name = "commands" if step.get("commands") is not None else "command"
    written = step.get(name)
    if isinstance(written, str):
        return [((name,), written)]
    return [((name, index), line) for index, line in enumerate(as_list(written)) if isinstance(line, str)]


def _key(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    key = key_of(step)
    if key is None or is_open(key, interpolate=context.interpolate):
        return
    path = (next(name for name in ("key", "identifier", "id") if isinstance(step.get(name), str)),)
    if not _KEY.fullmatch(key):
        message = f"'{key}' is no key that Buildkite takes"
        yield error("key-invalid", path, message, "use letters, digits, '-' and '_' only")
    elif len(key) > KEY_LENGTH:
        message = f"a key has at most {KEY_LENGTH} characters, not {len(key)}"
        yield error("key-too-long", path, message, "shorten it")
    elif re.fullmatch(_UUID, key):
        message = "a key must not look like a UUID"
        yield error("key-invalid", path, message, "give it a name that says what runs")


def _label(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    del context
    for name in ("label", "name", "group"):
        text = step.get(name)
        if isinstance(text, str) and len(text) > LABEL_LENGTH:
            message = f"the label has {len(text)} characters; commit statuses take {LABEL_LENGTH}"
            yield warning("label-too-long", (name,), message, "shorten it, and keep details in the log")
    reason = step.get("skip")
    if isinstance(reason, str) and len(reason) > SKIP_LENGTH:
        message = f"the reason for skip has {len(reason)} characters; Buildkite takes {SKIP_LENGTH}"
        yield error("skip-too-long", ("skip",), message, "shorten it")


def _retries(step: Mapping[str, Any], context: Context) -> Iterable[Finding]:
    text = repr(step["retry"])
    known = context.retries.get(text)
    if known is None:
        known = context.retries[text] = tuple(retry(step))
    return known


def _width(step: Mapping[str, Any], context: Context) -> Iterable[Finding]:
    mentioned = context.pods[0].matrix_names if context.pods else frozenset[str]()
    for pod in context.pods[1:]:
        mentioned |= pod.matrix_names
    return matrix(step, mentioned)


def _concurrency(step: Mapping[str, Any], context: Context) -> Iterable[Finding]:
    del context
    return concurrency(step)


def _timeout(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    minutes = step.get("timeout_in_minutes")
    if not isinstance(minutes, int):
        return
    for pod in context.pods:
        if minutes > pod.deadline:
            message = f"the pod is ended after {pod.deadline:g} minutes, before this timeout of {minutes}"
            hint = (
                f"give it {minutes} minutes or more: active_deadline_minutes in pod, or "
                f"jobActiveDeadlineSeconds: {minutes * 60} on a kubernetes plugin; or set a shorter timeout"
            )
            yield error("timeout-past-deadline", ("timeout_in_minutes",), message, hint)


def _texts(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    lines = commands(step)
    if context.interpolate:
        others = {key: value for key, value in step.items() if key not in {"plugins", "secrets", "steps"}}
        for text, path in texts_in(others, ()):
            if "$" in text:
                yield from uploaded(text, path)
    else:
        for path, line in lines:
            if "$$" in line:
                yield from doubled(line, path)
        for name, value in as_map(step.get("env")).items():
            if isinstance(value, str) and "$" in value:
                yield from doubled(value, ("env", str(name)))
                yield from unexpanded(str(name), value, ("env", str(name)))
    size = sum(len(line.encode("utf-8", "surrogatepass")) + 1 for _, line in lines)
    if size > SIZE_MAX:
        message = f"the command has {size // 1024} KiB; the kernel takes 128 in one variable"
        yield error("command-too-large", lines[0][0][:1], message, "put it into a script and call that")


def _env(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    build = as_map(step.get("build"))
    for prefix, env in ((("env",), step.get("env")), (("build", "env"), build.get("env"))):
        for name, value in as_map(env).items():
            if is_secret_name(str(name)):
                place = (*prefix, str(name))
                yield from secret_finding(str(name), value, place, interpolate=context.interpolate)
            if not is_env_name(str(name)) and not is_open(name, interpolate=context.interpolate):
                message = f"'{name}' is no name for a variable"
                yield error(
                    "env-name", (*prefix, str(name)), message, "use letters, digits and '_', no digit first"
                )
    own = as_map(step.get("env"))
    for pod in context.pods:
        for name in own:
            if name in pod.env and own[name] != pod.env[name]:
                message = f"{name} is set by the step and by the pod; the step's value wins"
                yield error("env-set-twice", ("env", name), message, "set it in one place")
    if step.get("secrets") and context.rules.fork and not context.rules.fork_secrets:
        message = "a fork's pull request may not use secrets"
        hint = "leave it out for forks (when: {forks: false}), or allow it in the settings (forks)"
        yield error("step-fork-secret", ("secrets",), message, hint)


def tags_of(step: Mapping[str, Any]) -> dict[str, str]:
    """The agent tags a step asks for, in whichever form they are written."""
    written = step.get("agents")
    if isinstance(written, dict):
        return {str(key): str(value) for key, value in written.items()}
    pairs = (str(entry).partition("=") for entry in as_list(written))
    return {key: value for key, equals, value in pairs if equals}


def _agents(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    tags = tags_of(step)
    queue = tags.get("queue", "default")
    if queue == "":
        message = "the queue is empty, and no agent listens to it"
        yield error("queue-empty", ("agents",), message, "write the queue's name, or take the tag out")
    elif close := slip_of(queue, context.rules.queues):
        message = f"the settings know no queue '{queue}', but one that is called almost so"
        hint = f"did you mean '{close}'? A queue of your own goes into the settings (queue, or a profile's)"
        yield warning("queue-close", ("agents",), message, hint)
    known = context.rules.controller_tags.get(queue)
    if known is None or not context.pods:
        return
    for key, value in tags.items():
        if key in {"queue", "resource_class"} or is_open(value, interpolate=context.interpolate):
            continue
        if value not in {"*", *known.get(key, ())}:
            message = (
                f"no profile has the tag {key}={value} for this queue; without it the job waits for ever"
            )
            shown = {f"{name}={tag}" for name, values in known.items() for tag in values}
            hint = f"{did_you_mean(f'{key}={value}', shown)}; further tags go into a profile's agents"
            yield warning("tag-unknown", ("agents", key), message, hint)


def _and_its_pod(step: Mapping[str, Any], context: Context) -> Iterator[Finding]:
    size = context.other_plugins_size
    for pod in context.pods:
        size += pod.size
    if size > SIZE_MAX:
        message = f"the plugins have {size // 1024} KiB; the kernel takes 128 in one variable"
        yield error(
            "plugins-too-large", ("plugins",), message, "move what is long into a file of the repository"
        )
    for pod in context.pods:
        if not pod.runs_command and any(line.strip() for _, line in commands(step)):
            message = "the container's own command runs instead of the step's"
            hint = "take command out of podSpec.containers, or out of the step"
            yield error("command-swallowed", commands(step)[0][0][:1], message, hint)
        image = step.get("image")
        others = [one for one in pod.images if one != image]
        if isinstance(image, str) and others:
            message = f"the step's image replaces {others[0]}, which the pod names"
            yield error("image-named-twice", ("image",), message, "write the image in one place")
        elif pod.leaves_gpus_to_image and not pod.images:
            yield from of_step(step, context.rules)
        yield from _waits(step, pod, context.rules)


def _waits(step: Mapping[str, Any], pod: Examined, rules: PodRules) -> Iterator[Finding]:
    """Jobs of one step that wait for each other's devices longer than the controller lets a pod wait."""
    minutes, jobs = step.get("timeout_in_minutes"), job_count(step)
    if pod.queued or not isinstance(minutes, int) or jobs == 1:
        return
    limit = step.get("concurrency")
    jobs = min(jobs, limit) if isinstance(limit, int) else jobs
    for name, count in pod.devices.items():
        at_once = rules.gpu_capacity.get(name, 0) // count if count else 0
        rounds = -(-jobs // at_once) if at_once else 1
        if (rounds - 1) * minutes > rules.pod_pending_minutes:
            message = (
                f"{jobs} jobs with {count} of {name} need {rounds} rounds on {rules.gpu_capacity[name]}; "
                f"a pod that waits over {rules.pod_pending_minutes} minutes fails"
            )
            hint = (
                f"set concurrency: {at_once} with a concurrency_group; or let the controller wait longer "
                "(pod-pending-timeout), and say so in the settings (limits: pod_pending_minutes)"
            )
            yield warning(
                "jobs-wait-too-long", ("matrix" if step.get("matrix") else "parallelism",), message, hint
            )


STEP_RULES: tuple[
    tuple[frozenset[str] | None, Callable[[Mapping[str, Any], Context], Iterable[Finding]]], ...
] = (
    (frozenset({"key", "identifier", "id"}), _key),
    (frozenset({"label", "name", "group", "skip"}), _label),
    (frozenset({"retry"}), _retries),
    (None, _width),
    (frozenset({"concurrency", "concurrency_group", "concurrency_method"}), _concurrency),
    (frozenset({"timeout_in_minutes"}), _timeout),
    (None, _texts),
    (frozenset({"env", "build", "secrets"}), _env),
    (frozenset({"agents"}), _agents),
    (frozenset({"plugins"}), _and_its_pod),
)
"""Every rule about one step, each after the attributes without which it has nothing to say."""
