"""Rules about forks."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

_FORK = {"fork": True}

RULES: tuple[Rule, ...] = (
    Rule(
        "pod-fork-privileged",
        "error",
        "A fork with a privileged container",
        "A privileged container, a strong capability, an unmasked /proc and an unconfined SELinux type are "
        "ways out of the container. A fork's pull request gets none of them, unless the settings say so.",
        "container",
        "securityContext: {privileged: true}",
        "securityContext: {privileged: false}",
        _FORK,
    ),
    Rule(
        "pod-fork-docker-socket",
        "error",
        "A fork with the docker socket",
        "Whoever has the docker socket is root on the node.",
        "volume",
        "hostPath: {path: /var/run/docker.sock, type: Socket}",
        "hostPath: {path: /data/models, type: Directory}",
        _FORK,
    ),
    Rule(
        "pod-fork-host",
        "error",
        "A fork in the host's namespaces",
        "hostNetwork, hostPID and hostIPC show the node's network and processes.",
        "podSpec",
        "hostNetwork: true",
        "hostNetwork: false",
        _FORK,
    ),
    Rule(
        "pod-fork-template",
        "error",
        "A fork's pod from a template of the cluster",
        "What a PodTemplate gives, privileges and secrets among it, stands in the cluster, where nobody can "
        "look before the upload. It is allowed where the settings allow forks both.",
        "plugin",
        "podTemplate: gpu-base",
        "podSpec: {containers: [{image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi}}}]}",
        _FORK,
    ),
    Rule(
        "pod-fork-account",
        "error",
        "A fork's pod under another service account",
        "The account's token lies in the pod, and with it the account's rights in the cluster and its cloud.",
        "podSpec",
        "serviceAccountName: ci-deploy",
        "serviceAccountName: default",
        _FORK,
    ),
    Rule(
        "pod-fork-secret",
        "error",
        "A fork that reads a secret",
        "Anybody can open a pull request, and its code can print what it reads. Volumes count that need a "
        "secret to be mounted or hold an identity, too. Secrets for pulling images do not: no container "
        "sees them.",
        "container",
        "env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: huggingface, key: token}}}]",
        "env: [{name: HF_HUB_OFFLINE, value: '1'}]",
        _FORK,
    ),
    Rule(
        "step-fork-secret",
        "error",
        "A fork's step with Buildkite secrets",
        "The same for the secrets that Buildkite gives to a step.",
        "step",
        "secrets: [HF_TOKEN]",
        "env: {HF_HUB_OFFLINE: '1'}",
        _FORK,
    ),
)
