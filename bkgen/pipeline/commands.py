"""A step's commands on their way through the kubelet to a shell."""

from __future__ import annotations

import re

from bkgen.buildkite import BuiltPod

# Two dollars or more; a closed reference, whatever stands in it; a dollar before what is not ASCII.
_EXPANDED = r"\$\$+|\$\(([^)]*)\)|\$(?=[^\x00-\x7f])"
_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_INJECTED = r"(?:BUILDKITE_|KUBERNETES_).*|.*_SERVICE_(?:HOST|PORT).*|.*_PORT(?:_.*)?"


def in_directory(command: str, directory: str) -> str:
    """`./run.sh` of a suite, from the repository's root: where Buildkite starts every command."""
    return f"{directory}/{command[2:]}" if command.startswith("./") else command


def for_kubelet(command: str, pod: BuiltPod) -> str:
    """The text that the kubelet turns back into `command`.

    In a pod the command is the value of a container's environment variable, in which `$$` becomes `$`
    and `$(NAME)` the value of a variable that the container knows. Everything up to the first `)` is the
    name; with a name that is not known, all of it stays as it is, dollars included. Source: Kubernetes,
    EnvVar and third_party/forked/golang/expansion.
    """

    def escaped(found: re.Match[str]) -> str:
        text, name = found[0], found[1]
        if name is not None:
            known = re.fullmatch(_NAME, name) is not None and _is_known(name, pod)
            return f"${text}" if known else text
        # The kubelet reads bytes: after a dollar it turns the first byte of é into a character of its own.
        return text * 2

    return re.sub(_EXPANDED, escaped, command) if "$" in command else command


def _is_known(name: str, pod: BuiltPod) -> bool:
    known = name in pod.known_variables or pod.has_unknown_variables
    return known or re.fullmatch(_INJECTED, name) is not None
