"""One pod, examined once: its findings, and the few facts that the rules about steps ask."""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bkgen.verify import (
    containers,
    environment,
    resources,
    scheduling,
    security,
    shared_memory,
    visible,
    volumes,
)
from bkgen.verify.dollars import in_plugin
from bkgen.verify.finding import DEFAULT_RULES, Finding, PodRules, error
from bkgen.verify.pod import Pod, read_pod
from bkgen.verify.resources import KUEUE_LABEL, pod_devices
from bkgen.verify.shape import check_shape
from bkgen.verify.values import MATRIX_TOKEN, as_text

POD_RULES = (
    *containers.RULES,
    *resources.RULES,
    *volumes.RULES,
    *shared_memory.RULES,
    *scheduling.RULES,
    *environment.RULES,
    *visible.RULES,
    *security.RULES,
)
"""Every rule about pods beyond their shape."""


class Examined(NamedTuple):
    """What is known of one plugin map. Sizes in bytes, times in minutes."""

    findings: tuple[Finding, ...]
    size: int
    env: Mapping[str, str | None]
    """Variables of command containers; None where the value is no literal."""
    images: tuple[str, ...]
    """Images of command containers."""
    leaves_gpus_to_image: bool
    """A command container gets no GPU, and its image decides which it sees."""
    runs_command: bool
    """At least one command container runs the step's command."""
    deadline: float
    """When the controller or Kubernetes ends the pod, whatever the step's timeout says."""
    devices: Mapping[str, int]
    """Devices of the pod, by resource."""
    queued: bool
    """Kueue holds the job back, so no pod is pending."""
    matrix_names: frozenset[str]
    """Matrix dimensions it mentions; the empty text for `{{matrix}}`."""


def examine(plugin: object, rules: PodRules = DEFAULT_RULES, *, interpolate: bool = False) -> Examined:
    """Everything about the `kubernetes` plugin's map `plugin`; paths of findings start in it."""
    text = _canonical(plugin)
    pod = read_pod({} if plugin is None else plugin, interpolate=interpolate)
    found = check_shape({} if plugin is None else plugin, interpolate=interpolate)
    found += _both_bases(pod)
    for rule in POD_RULES:
        found += rule(pod, rules)
    found += in_plugin(plugin, interpolate=interpolate)
    return Examined(
        findings=tuple(dict.fromkeys(found)),
        size=len(text.encode("utf-8", "surrogatepass")),
        env=dict(_literals(pod)),
        images=tuple(box.image for box in pod.commands if box.image),
        leaves_gpus_to_image=visible.shows_what_the_image_asks(pod, rules),
        runs_command=_runs_command(pod),
        deadline=_deadline(pod, rules),
        devices={name: int(count) for name, count in pod_devices(pod, rules).items()},
        queued=KUEUE_LABEL in pod.labels,
        matrix_names=frozenset(found[1] or "" for found in MATRIX_TOKEN.finditer(text)),
    )


def _canonical(plugin: object) -> str:
    return json.dumps(plugin, ensure_ascii=False, separators=(",", ":"), default=repr)


def _content(plugin: Any) -> bytes | str:
    """A key that differs for different maps. Marshal's second version has no references, so that equal
    maps give equal bytes; it takes plain types only."""
    try:
        return marshal.dumps(plugin, 2)
    except ValueError:
        return _canonical(plugin)


def _both_bases(pod: Pod) -> Iterator[Finding]:
    if pod.plugin.get("podTemplate") and pod.plugin.get("podSpec"):
        message = "podSpec beats podTemplate; the template is not used"
        yield error("plugin-template-ignored", ("podTemplate",), message, "keep one of the two")


def _literals(pod: Pod) -> Iterator[tuple[str, str | None]]:
    names = {box.name for box in pod.commands} or {"container-0"}
    for box in pod.everything:
        if box.role == "command" or (box.role == "patch" and box.name in names):
            for _, entry in box.env():
                value = entry.get("value", None if "valueFrom" in entry else "")
                yield as_text(entry.get("name")), value if isinstance(value, str) else None


def _runs_command(pod: Pod) -> bool:
    """Some command container has no command of its own, not even after the patch."""
    patched = {box.name for box in pod.patches if box.has_command}
    if not pod.commands:
        return "container-0" not in patched
    return any(not box.has_command and box.name not in patched for box in pod.commands)


def _deadline(pod: Pod, rules: PodRules) -> float:
    """The Job's deadline, and the pod's own where that is shorter."""
    of_job = _minutes(pod.plugin.get("jobActiveDeadlineSeconds")) or rules.job_deadline_minutes
    of_pod = _minutes(pod.patch.get("activeDeadlineSeconds")) or _minutes(
        pod.spec.get("activeDeadlineSeconds")
    )
    return min(of_job, of_pod) if of_pod else of_job


def _minutes(seconds: object) -> float | None:
    return seconds / 60 if isinstance(seconds, int) and seconds > 0 else None


class Examiner:
    """Examines each distinct pod of one call once: by identity first, then by content."""

    def __init__(self, rules: PodRules, *, interpolate: bool) -> None:
        self.rules = rules
        self.interpolate = interpolate
        self.retries: dict[str, tuple[Finding, ...]] = {}
        self._by_identity: dict[int, Examined] = {}
        self._by_content: dict[bytes | str, Examined] = {}

    def of(self, plugin: object) -> Examined:
        """What is known of `plugin`, which must outlive this object."""
        known = self._by_identity.get(id(plugin))
        if known is None:
            content = _content(plugin)
            known = self._by_content.get(content)
            if known is None:
                known = examine(plugin, self.rules, interpolate=self.interpolate)
                self._by_content[content] = known
            self._by_identity[id(plugin)] = known
        return known
