"""Generates the values file of the agent-stack-k8s chart from a repository's bkgen.yml.

Reads bkgen.yml (queue, profiles), harness/values.yaml (everything that is not derived), optionally the
nodes as `kubectl get nodes --output json` prints them, and writes YAML in which the same input always
gives the same bytes.

The controller stops on a key it does not know, so keys are held against a list here, before Helm sees
them. A token never passes through: the chart reads it from a secret.

Exit status: 0, 1 when a file must be mended (one line a problem: file:line:column), 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

if sys.version_info < (3, 10):  # noqa: UP036 - the host's own Python runs this, not the project's
    sys.exit("values.py: needs Python 3.10 or newer\n  hint: name another one: PYTHON=/path/to/python3")
try:
    import yaml
except ModuleNotFoundError:
    sys.exit("values.py: this Python has no PyYAML\n  hint: install python3-yaml, or PYTHON=/path/to/python3")

Nodes = list[dict[str, Any]]
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

ANY = None
"""A subtree with Kubernetes' own types; the server checks it."""

PARAMS: dict[str, Any] = {"envFrom": ANY, "extraVolumeMounts": ANY}

KNOWN: dict[str, Any] = {
    # The chart's own values.
    "agentStackSecret": ANY,
    "annotations": ANY,
    "controllerEnv": ANY,
    "image": ANY,
    "labels": ANY,
    "monitoring": ANY,
    "nodeSelector": ANY,
    "resources": ANY,
    "secretsMetadata": ANY,
    "serviceAccountMetadata": ANY,
    "tolerations": ANY,
    # The controller's.
    "config": {
        "additional-redacted-vars": ANY,
        "agent-config": ANY,
        "allow-pod-spec-patch-unsafe-command-modification": ANY,
        "debug": ANY,
        "default-checkout-params": {
            **PARAMS,
            "checkoutFlags": ANY,
            "cleanFlags": ANY,
            "cloneFlags": ANY,
            "fetchFlags": ANY,
            "gitCredentialsSecret": ANY,
            "gitMirrors": ANY,
            "noSubmodules": ANY,
            "skip": ANY,
            "submoduleCloneConfig": ANY,
        },
        "default-command-params": {**PARAMS, "interposer": ANY},
        "default-image-check-pull-policy": ANY,
        "default-image-pull-policy": ANY,
        "default-metadata": {"annotations": ANY, "labels": ANY},
        "default-resource-class-name": ANY,
        "default-sidecar-params": PARAMS,
        "default-termination-grace-period-seconds": ANY,
        "empty-job-grace-period": ANY,
        "enable-queue-pause": ANY,
        "image": ANY,
        "image-check-container-cpu-limit": ANY,
        "image-check-container-memory-limit": ANY,
        "image-pull-backoff-grace-period": ANY,
        "job-active-deadline-seconds": ANY,
        "job-cancel-checker-poll-interval": ANY,
        "job-creation-concurrency": ANY,
        "job-prefix": ANY,
        "job-ttl": ANY,
        "k8s-client-rate-limiter-burst": ANY,
        "k8s-client-rate-limiter-qps": ANY,
        "max-in-flight": ANY,
        "pagination-depth-limit": ANY,
        "pagination-page-size": ANY,
        "pod-pending-timeout": ANY,
        "pod-spec-patch": ANY,
        "poll-interval": ANY,
        "profiler-address": ANY,
        "prohibit-kubernetes-plugin": ANY,
        "prometheus-port": ANY,
        "query-reset-interval": ANY,
        "queue": ANY,
        "resource-classes": ANY,
        "skip-image-check-containers": ANY,
        "tags": ANY,
        "work-queue-limit": ANY,
        "workspace-volume": ANY,
    },
}
"""The keys that are let through; a mapping where the keys below it are held against a list, too.

Those of the documentation and of the controller's settings that earlier and later versions share, so that
the pinned one has them as well. Some newer ones (`log-level`, `http-timeout`) are left out on purpose: the
pinned version may not have them yet.
"""

REFUSED = {
    "agentToken": (
        "is a secret, and this file is none",
        "give the token to install-agent-stack.sh, which puts it into a secret; then revoke this one",
    ),
}
RENAMING = (
    "renames the deployment, and install-agent-stack.sh would wait for one that does not exist",
    "leave it out; a second controller takes a namespace of its own (AGENT_STACK_NAMESPACE)",
)
REFUSED |= {"fullnameOverride": RENAMING, "nameOverride": RENAMING}
"""Keys of the chart that have no place here: what is wrong with each, and what to do."""

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Before the name of a device class that gives out devices under its own name (Kubernetes: DRA)."""

TAG = re.compile(r"[^=\s]+=[^\s]+")


class ValuesError(Exception):
    """A file that must be mended: where, what, and what to do next."""

    def __init__(self, where: str, message: str, hint: str) -> None:
        super().__init__(f"{where}: {message}\n  hint: {hint}")


class Document:
    """One YAML file: its content, and where in it a key stands.

    A file that does not exist is an empty one if `optional`: bkgen, too, works without bkgen.yml. Raises
    `ValuesError` for a file that cannot be read, is no YAML, or is no mapping.
    """

    def __init__(self, path: Path, *, optional: bool = False) -> None:
        self.path = path
        try:
            text = "" if optional and not path.exists() else path.read_text(encoding="utf-8")
            loader = LOADER(text)
            self.root = loader.get_single_node()
            self.content: Any = None if self.root is None else loader.construct_document(self.root)
        except (OSError, UnicodeDecodeError) as error:
            raise ValuesError(
                str(path), f"cannot be read ({error})", "name another file with --settings"
            ) from error
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
            raise ValuesError(
                place, f"is no YAML: {error.problem}", "mend it; `bkgen check` says more"
            ) from error
        if self.content is None:
            self.content = {}
        if not isinstance(self.content, dict):
            raise ValuesError(str(path), "is no mapping", "it holds keys and values; `bkgen check` says more")

    def place(self, keys: Iterable[str]) -> str:
        """`file:line:column: a.b` of the last of these keys that the file has."""
        node, mark, keys = self.root, None, list(keys)
        for key in keys:
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            found = next(((k, v) for k, v in pairs if k.value == key), None)
            if found is None:
                break
            mark, node = found[0].start_mark, found[1]
        position = f"{self.path}:{mark.line + 1}:{mark.column + 1}" if mark else str(self.path)
        return f"{position}: {'.'.join(keys)}"

    def get(self, *keys: str, kind: type, default: Any) -> Any:
        """The value below these keys, `default` where there is none; `ValuesError` when it is no `kind`."""
        value: Any = self.content
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValuesError(self.place(keys), f"is {value!r}", f"it must be a {kind.__name__}")
        return value


def profile_name(settings: Document, name: str) -> str:
    """The profile that is meant: `name`, or the default one, which is the first unless the settings say
    otherwise; "" where there are no profiles at all. Raises `ValuesError` for one that is not there."""
    profiles = settings.get("profiles", kind=dict, default={})
    first = next(iter(map(str, profiles)), "")
    name = name or settings.get("default_profile", kind=str, default=first)
    if name and name not in profiles:
        known = ", ".join(map(str, profiles)) or "none"
        raise ValuesError(settings.place(["profiles"]), f"has no '{name}'", f"declared: {known}")
    return name


def profile_of(settings: Document, name: str) -> tuple[str, str, int]:
    """Queue, GPU resource and GPUs per node of a profile; of the default one if `name` is empty.

    Raises `ValuesError` for a profile that is not there or whose steps are no pods.
    """
    name = profile_name(settings, name)
    queue = settings.get("queue", kind=str, default="k8s")
    if not name:
        return queue, "nvidia.com/gpu", 0
    if settings.get("profiles", name, kind=dict, default={}).get("pod") is False:
        place = settings.place(["profiles", name, "pod"])
        raise ValuesError(
            place, "is false", "its steps run outside Kubernetes; choose another with PROFILE=…"
        )
    queue = settings.get("profiles", name, "queue", kind=str, default=queue)
    resource = settings.get("profiles", name, "gpu_resource", kind=str, default="nvidia.com/gpu")
    return queue, resource, settings.get("profiles", name, "gpus_per_node", kind=int, default=0)


def read_nodes(path: Path) -> Nodes:
    """What each node can give to pods, from a file with `kubectl get nodes --output json`: the mappings
    `status.allocatable`. Raises `ValuesError` for a file that holds something else."""
    hint = "it holds what `kubectl get nodes --output json` prints; is the cluster well?"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValuesError(f"{path}:{error.lineno}:{error.colno}", f"is no JSON: {error.msg}", hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValuesError(str(path), f"cannot be read ({error})", hint) from error
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise ValuesError(str(path), "is no list of nodes", hint)
    nodes = []
    for number, node in enumerate(items):
        status = node.get("status") if isinstance(node, dict) else None
        allocatable = status.get("allocatable", {}) if isinstance(status, dict) else None
        if not isinstance(allocatable, dict):
            raise ValuesError(f"{path}: items.{number}", "is no node with a status", hint)
        nodes.append(allocatable)
    return nodes


def gpus_offered(nodes: Nodes, resource: str, per_node: int) -> int:
    """How many of `resource` these nodes can give to pods.

    A device class is no resource of a node, and nothing in a node's status tells how many devices it has:
    for one, each node counts as the settings' `gpus_per_node`.
    """
    if resource.startswith(DEVICE_CLASS):
        return per_node * len(nodes)
    counts = [str(node.get(resource, 0)) for node in nodes]
    if wrong := [count for count in counts if not re.fullmatch(r"[0-9]+", count)]:
        raise ValuesError("the nodes", f"offer '{wrong[0]}' of {resource}", "it must be a whole number")
    return sum(map(int, counts))


def unknown_keys(
    values: Mapping[str, Any], known: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The paths of all keys that are not in the list, in the order of the file."""
    for key, value in values.items():
        if key not in known:
            yield (*above, key)
        elif known[key] is not ANY and isinstance(value, dict):
            yield from unknown_keys(value, known[key], (*above, key))


def refuse_unknown(base: Document) -> None:
    """Raises one `ValuesError` that names every key the chart or its controller does not know."""
    unknown = list(unknown_keys(base.content, KNOWN))
    for refused, (problem, remedy) in REFUSED.items():
        if refused in base.content:
            raise ValuesError(base.place([refused]), problem, remedy)
    if not unknown:
        return
    known = KNOWN
    for key in unknown[0][:-1]:
        known = known[key]
    close = difflib.get_close_matches(unknown[0][-1], known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known there: {', '.join(sorted(known))}"
    raise ValuesError(
        "\n".join(base.place(path) for path in unknown),
        "not among the keys that the pinned chart is known to have",
        f"{hint}; a key that its documentation names belongs into KNOWN in harness/values.py",
    )


def generate(
    base: Document, settings: Document, nodes: Nodes | None, args: argparse.Namespace
) -> dict[str, Any]:
    """The chart's values: `base` with everything that follows from the settings and the nodes."""
    refuse_unknown(base)
    queue, resource, per_node = profile_of(settings, args.profile)
    gpus = per_node if nodes is None else gpus_offered(nodes, resource, per_node)
    if gpus < 1:
        raise ValuesError(
            settings.place(["profiles"]) if nodes is None else "the nodes",
            f"no {resource} is offered",
            "set gpus_per_node, run setup-cluster.sh, or choose another profile: PROFILE=…",
        )
    if wrong := [tag for tag in args.tag if not TAG.fullmatch(tag) or tag.startswith("queue=")]:
        raise ValuesError(
            "AGENT_TAGS", f"'{wrong[0]}' is no tag", "write key=value; the queue is added by itself"
        )
    config = dict(base.get("config", kind=dict, default={}))
    config.update(
        {
            "queue": queue,
            "tags": [f"queue={queue}", *args.tag],
            "max-in-flight": gpus + args.extra_jobs,
            "pod-pending-timeout": f"{args.pending_minutes}m",
            "image-pull-backoff-grace-period": f"{args.image_grace_minutes}m",
            "job-active-deadline-seconds": 60 * (args.job_minutes + args.pending_minutes),
        }
    )
    checkout = dict(base.get("config", "default-checkout-params", kind=dict, default={}))
    checkout.pop("gitCredentialsSecret", None)
    if args.git_secret:
        checkout["gitCredentialsSecret"] = {"secretName": args.git_secret}
    checkout.update(
        {
            key: flags
            for key, flags in (("cloneFlags", args.clone_flags), ("fetchFlags", args.fetch_flags))
            if flags
        }
    )
    config["default-checkout-params"] = checkout
    if not checkout:
        del config["default-checkout-params"]
    return {**base.content, "agentStackSecret": args.agent_secret, "config": config}


def whole(text: str) -> int:
    """A whole number from 0, for argparse."""
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 0 to 999999")
    return int(text)


def read_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; the defaults are those of harness/config.env."""
    parser = argparse.ArgumentParser(
        description="Generates the agent-stack-k8s chart's values from bkgen.yml."
    )
    here = Path(__file__).parent
    parser.add_argument("--settings", type=Path, help="bkgen.yml (default: that of this repository, if any)")
    parser.add_argument("--base", type=Path, default=here / "values.yaml", help="what is not derived")
    parser.add_argument("--nodes", type=Path, help="`kubectl get nodes --output json`, to count the GPUs")
    parser.add_argument("--output", type=Path, help="the file to write (default: standard output)")
    parser.add_argument("--profile", default="", help="profile of bkgen.yml (default: its default_profile)")
    parser.add_argument("--agent-secret", default="buildkite-agent-token")
    parser.add_argument("--git-secret", default="", help="(default: none; checkout has no credentials)")
    parser.add_argument("--extra-jobs", type=whole, default=2)
    parser.add_argument("--pending-minutes", type=whole, default=180)
    parser.add_argument("--image-grace-minutes", type=whole, default=15)
    parser.add_argument("--job-minutes", type=whole, default=360)
    parser.add_argument("--clone-flags", default="")
    parser.add_argument("--fetch-flags", default="")
    parser.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Reads, generates, writes; see the module's text for the exit status."""
    args = read_arguments(arguments)
    try:
        nodes = read_nodes(args.nodes) if args.nodes else None
        own = Path(__file__).parent.parent / "bkgen.yml"
        settings = Document(args.settings or own, optional=args.settings is None)
        values = generate(Document(args.base), settings, nodes, args)
    except ValuesError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    text = "# Generated by harness/values.py; harness/values.yaml explains the keys.\n"
    text += yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
    if not args.output:
        sys.stdout.write(text)
        return 0
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(
            f"{args.output}: cannot be written ({error.strerror})\n  hint: name another --output\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
