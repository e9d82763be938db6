"""The pod of a step, out of its file's, its own and its mirror's: key by key, the nearest wins."""

from typing import Literal

from bkgen.plugin_names import is_kubernetes, is_near_kubernetes
from bkgen.spec.pod import Pod
from bkgen.spec.steps import CommandStep, Mirror
from bkgen.spec.suite import SuiteSpec

MergedPod = Pod | Literal[False] | None
"""A pod; False for a step that says it wants none; None for one that says nothing."""


def merged_pod(spec: SuiteSpec, step: CommandStep, mirror: Mirror | None = None) -> MergedPod:
    """The pod of `step`, or of its mirror. A kubernetes plugin of the step's own beats the file's pod."""
    pod: MergedPod = spec.pod
    if spec.steps is None and pod is None:
        pod = Pod()
    if step.pod is not None:
        pod = _over(pod, step.pod)
    elif has_native_pod(step):
        pod = None
    if mirror is not None and mirror.pod is not None:
        pod = _over(pod, mirror.pod)
    return pod


def _over(under: MergedPod, over: Pod | Literal[False]) -> MergedPod:
    if not isinstance(over, Pod) or not isinstance(under, Pod):
        return over
    if not over.model_fields_set:
        return under
    return under.model_copy(update={name: getattr(over, name) for name in over.model_fields_set})


def has_native_pod(step: CommandStep) -> bool:
    """The step brings a `kubernetes` plugin itself."""
    return native_plugin(step) is not None


def native_plugin(step: CommandStep) -> dict[str, object] | None:
    """The configuration of the step's own `kubernetes` plugin, whatever it is called, or None.

    One with a version counts, too: its author wants no second pod beside it, and verify refuses it.
    """
    for name, body in plugin_items(step):
        if is_kubernetes(name) or is_near_kubernetes(name):
            return body if isinstance(body, dict) else {}
    return None


def plugin_items(step: CommandStep) -> list[tuple[str, object]]:
    """The step's plugins in order, whichever of Buildkite's forms they are written in."""
    plugins = step.plugins
    if plugins is None:
        return []
    if isinstance(plugins, dict):
        return list(plugins.items())
    items: list[tuple[str, object]] = []
    for plugin in plugins:
        items += [(plugin, None)] if isinstance(plugin, str) else plugin.items()
    return items
