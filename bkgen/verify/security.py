"""What a fork's pull request may not have: the host, and secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bkgen.verify.finding import Finding, Path, PodRules, error
from bkgen.verify.pod import Pod, env_from_lists, texts
from bkgen.verify.values import as_map, maps_in

# Each of these is a way out of the container.
_STRONG = frozenset(
    {
        "ALL",
        "BPF",
        "DAC_READ_SEARCH",
        "NET_ADMIN",
        "PERFMON",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_MODULE",
        "SYS_PTRACE",
        "SYS_RAWIO",
    }
)
_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_HINT = "leave it out for forks (when: {forks: false}), or allow it in the settings (forks)"


def _privileged(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    if not rules.fork or rules.fork_privileged:
        return
    for box in pod.everything:
        context = as_map(box.raw.get("securityContext"))
        path: Path = (*box.path, "securityContext")
        if box.privileged or as_map(context.get("windowsOptions")).get("hostProcess") is True:
            message = "a fork's pull request may not have a privileged container"
            yield error("pod-fork-privileged", (*path, "privileged"), message, _HINT)
        capabilities = texts(as_map(context.get("capabilities")).get("add"))
        added = sorted(_STRONG & {name.upper().removeprefix("CAP_") for name in capabilities})
        if added:
            message = f"a fork's pull request may not have the capability {', '.join(added)}"
            yield error("pod-fork-privileged", (*path, "capabilities", "add"), message, _HINT)
        if context.get("procMount") == "Unmasked":
            message = "a fork's pull request may not have /proc unmasked"
            yield error("pod-fork-privileged", (*path, "procMount"), message, _HINT)


def _host_namespaces(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    if not rules.fork or rules.fork_privileged:
        return
    for owner, spec in pod.specs:
        for key in _NAMESPACES:
            if spec.get(key) is True:
                message = f"a fork's pull request may not have {key}"
                yield error("pod-fork-host", (owner, key), message, _HINT)


def _secrets(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    if not rules.fork or rules.fork_secrets:
        return
    for path in _secret_places(pod):
        message = "a fork's pull request may not read a secret"
        yield error("pod-fork-secret", path, message, _HINT)


def _secret_places(pod: Pod) -> Iterator[Path]:
    """Pull secrets are left out: they reach the node's runtime, never the container."""
    for box in pod.everything:
        for index, entry in box.env():
            if as_map(entry.get("valueFrom")).get("secretKeyRef"):
                yield (*box.path, "env", index, "valueFrom", "secretKeyRef")
    for path, source in env_from_lists(pod):
        if source.get("secretRef"):
            yield (*path, "secretRef")
    for path, volume in pod.volumes:
        yield from ((*path, *place) for place in _in_volume(volume))
    if as_map(pod.plugin.get("checkout")).get("gitCredentialsSecret"):
        yield ("checkout", "gitCredentialsSecret")


def _in_volume(volume: Mapping[str, object]) -> Iterator[Path]:
    if volume.get("secret") is not None:
        yield ("secret",)
    for index, source in maps_in(as_map(volume.get("projected")).get("sources")):
        for key in ("secret", "serviceAccountToken"):
            if source.get(key) is not None:
                yield ("projected", "sources", index, key)


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (_privileged, _host_namespaces, _secrets)
