"""What a fork's pull request may not have: the host, and secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bkgen.verify.finding import Finding, Path, PodRules, error
from bkgen.verify.pod import Pod, env_from_lists, texts
from bkgen.verify.values import as_map, is_open, maps_in

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
# The types that Kubernetes' baseline standard leaves to a container; spc_t, for one, is confined by nothing.
_CONFINED = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_REFERENCES = ("secretRef", "nodePublishSecretRef")
_PROJECTED = ("secret", "serviceAccountToken", "podCertificate")
# Drivers whose volumes are secrets, certificates or identities, and nothing else.
_OF_SECRETS = frozenset(
    {
        "csi.cert-manager.io",
        "csi.spiffe.io",
        "secrets-store-gke.csi.k8s.io",
        "secrets-store.csi.k8s.io",
    }
)
_HINT = "leave it out for forks (when: {forks: false}), or allow it in the settings (forks)"


def _privileged(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    if not rules.fork or rules.fork_privileged:
        return
    for owner, spec in pod.specs:
        yield from _powers(pod, as_map(spec.get("securityContext")), (owner, "securityContext"))
    for box in pod.everything:
        yield from _powers(pod, as_map(box.raw.get("securityContext")), (*box.path, "securityContext"))


def _powers(pod: Pod, context: Mapping[str, object], path: Path) -> Iterator[Finding]:
    """What the security context of a container or of a pod asks for beyond a plain container.

    A word that is filled in later is refused: it may become any of these.
    """
    for names in (("privileged",), ("windowsOptions", "hostProcess")):
        if (context if len(names) == 1 else as_map(context.get(names[0]))).get(names[-1]) is True:
            message = "a fork's pull request may not have a privileged container"
            yield error("pod-fork-privileged", (*path, *names), message, _HINT)
    capabilities = texts(as_map(context.get("capabilities")).get("add"))
    added = {name for name in capabilities if is_open(name, interpolate=pod.interpolate)}
    added |= _STRONG & {name.upper().removeprefix("CAP_") for name in capabilities}
    if added:
        message = f"a fork's pull request may not have the capability {', '.join(sorted(added))}"
        yield error("pod-fork-privileged", (*path, "capabilities", "add"), message, _HINT)
    mask = context.get("procMount")
    if mask == "Unmasked" or is_open(mask, interpolate=pod.interpolate):
        message = "a fork's pull request may not have /proc unmasked"
        yield error("pod-fork-privileged", (*path, "procMount"), message, _HINT)
    kind = as_map(context.get("seLinuxOptions")).get("type")
    if kind and kind not in _CONFINED:
        message = f"a fork's pull request may not have the SELinux type {kind}"
        yield error("pod-fork-privileged", (*path, "seLinuxOptions", "type"), message, _HINT)


def _template(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    if not rules.fork or (rules.fork_privileged and rules.fork_secrets):
        return
    if pod.plugin.get("podTemplate"):
        message = "a fork's pull request may not have a pod of the cluster's: nobody can tell what it gives"
        yield error("pod-fork-template", ("podTemplate",), message, _HINT)


def _account(pod: Pod, rules: PodRules) -> Iterator[Finding]:
    """Whose token the pod has, and whose rights in the cluster and its cloud."""
    if not rules.fork or rules.fork_secrets:
        return
    for owner, spec in pod.specs:
        for key in ("serviceAccountName", "serviceAccount"):
            if spec.get(key) not in (None, "", "default"):
                message = "a fork's pull request may not have another service account: its token is a secret"
                yield error("pod-fork-account", (owner, key), message, _HINT)


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
    """Pull secrets are left out: they reach the node's runtime, and never a container."""
    for box in pod.everything:
        for index, entry in box.env():
            if as_map(entry.get("valueFrom")).get("secretKeyRef"):
                yield (*box.path, "env", index, "valueFrom", "secretKeyRef")
    for path, source in env_from_lists(pod):
        if source.get("secretRef"):
            yield (*path, "secretRef")
    for path, volume in pod.volumes:
        yield from ((*path, *place) for place in _in_volume(volume, interpolate=pod.interpolate))
    if as_map(pod.plugin.get("checkout")).get("gitCredentialsSecret"):
        yield ("checkout", "gitCredentialsSecret")


def _in_volume(volume: Mapping[str, object], *, interpolate: bool) -> Iterator[Path]:
    for kind, source in volume.items():
        if kind in {"secret", "azureFile"} and source is not None:
            # The key of an Azure account is in the secret that the volume names.
            yield (kind,)
        for key in _REFERENCES:
            if as_map(source).get(key) is not None:
                yield (kind, key)
    driver = as_map(volume.get("csi")).get("driver")
    if driver in _OF_SECRETS or is_open(driver, interpolate=interpolate):
        yield ("csi", "driver")
    for index, source in maps_in(as_map(volume.get("projected")).get("sources")):
        for key in _PROJECTED:
            if source.get(key) is not None:
                yield ("projected", "sources", index, key)


RULES: tuple[Callable[[Pod, PodRules], Iterator[Finding]], ...] = (
    _privileged,
    _host_namespaces,
    _template,
    _account,
    _secrets,
)
