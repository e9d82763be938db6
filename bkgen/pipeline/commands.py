"""A step's commands on their way through the kubelet to a shell."""

from __future__ import annotations

import re

from bkgen.buildkite import BuiltPod

_REFERENCE = re.compile(r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_RUN = re.compile(r"\$+")
_INJECTED = re.compile(r"(?:BUILDKITE_|KUBERNETES_).*|.*_SERVICE_(?:HOST|PORT).*|.*_PORT(?:_.*)?")


def in_directory(command: str, directory: str) -> str:
    """`./run.sh` of a suite, from the repository's root: where Buildkite starts every command."""
    return f"{directory}/{command[2:]}" if command.startswith("./") else command


def for_kubelet(command: str, pod: BuiltPod) -> str:
    """The text that the kubelet turns back into `command`.

    In a pod the command is the value of a container's environment variable, in which `$$` becomes `$`
    and `$(NAME)` the value of a variable that the container knows. Source: Kubernetes, EnvVar.
    """

    def escaped(run: re.Match[str]) -> str:
        dollars = run[0]
        if len(dollars) > 1:
            return dollars * 2
        reference = _REFERENCE.match(command, run.start())
        if reference and _is_known(reference[1], pod):
            return "$$"
        return dollars

    return _RUN.sub(escaped, command)


def _is_known(name: str, pod: BuiltPod) -> bool:
    return name in pod.known_variables or pod.has_unknown_variables or _INJECTED.fullmatch(name) is not None
