"""Keys, required fields and types of the plugin's map, at any depth, as the official models know them.

The controller drops what it does not know without a word, so a misspelt key is a pod without its GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from bkgen.errors import did_you_mean
from bkgen.verify.finding import Finding, Path, error
from bkgen.verify.formats import FORMATS, Check
from bkgen.verify.values import is_number, is_open, quantity

# Source: agent-stack-k8s 0.47.0, its scheduler and its checkout, command and sidecar parameters.
PLUGIN_SHAPES = """
KubernetesPlugin
  podSpec:CommandPodSpec podSpecPatch:PatchPodSpec podTemplate:str gitEnvFrom:EnvFromSource[]
  sidecars:UnnamedContainer[] metadata:PluginMetadata extraVolumeMounts:VolumeMount[] checkout:CheckoutParams
  commandParams:CommandParams sidecarParams:SidecarParams jobActiveDeadlineSeconds:int
PluginMetadata
  labels:str{} annotations:str{}
CheckoutParams
  skip:bool checkoutFlags:str cleanFlags:str cloneFlags:str fetchFlags:str noSubmodules:bool
  submoduleCloneConfig:str[] gitMirrors:GitMirrorsParams gitCredentialsSecret:SecretVolumeSource
  envFrom:EnvFromSource[] extraVolumeMounts:VolumeMount[]
GitMirrorsParams
  path:str volume:Volume cloneFlags:str lockTimeout:int skipUpdate:bool
CommandParams
  interposer:str envFrom:EnvFromSource[] extraVolumeMounts:VolumeMount[]
SidecarParams
  envFrom:EnvFromSource[] extraVolumeMounts:VolumeMount[]
"""

NOT_PLUGIN_KEYS: Mapping[str, str] = {
    "jobTTL": "it is the controller's setting job-ttl, not the step's",
    "resourceClass": "write it as an agent tag: agents: {resource_class: …}",
    "commandOverride": "set command on podSpec.containers, or write the step's own command",
    "priority": "write priority on the step, or priorityClassName in podSpec",
    "namespace": "pods run in the controller's namespace; another namespace needs a controller of its own",
    "serviceAccount": "write serviceAccountName in podSpec",
}


class Field(NamedTuple):
    """One field of a type."""

    kind: str
    wrapper: str
    required: bool
    check: Check | None


class Shape(NamedTuple):
    """One type: its fields, those that must be there, and the family that its findings' codes name."""

    name: str
    fields: Mapping[str, Field]
    required: tuple[str, ...]
    family: str


def _parse(text: str) -> Iterator[tuple[str, list[str]]]:
    name, rows = "", list[str]()
    for line in text.splitlines():
        if line.startswith(" "):
            rows += line.split()
        elif line:
            if name:
                yield name, rows
            name, rows = line, []
    yield name, rows


def _field(owner: str, row: str) -> tuple[str, Field]:
    name, _, kind = row.partition(":")
    bare = name.rstrip("!")
    base = kind.rstrip("[]{}")
    return bare, Field(base, kind[len(base) :], bare != name, FORMATS.get((owner, bare)))


def _shape(name: str, fields: Mapping[str, Field], family: str) -> Shape:
    return Shape(name, fields, tuple(key for key, one in fields.items() if one.required), family)


@cache
def shapes() -> Mapping[str, Shape]:
    """All types by name, the plugin's own among them. Read when the first pod is verified, and not before:
    many commands never look at a pod."""
    from bkgen.verify import _podspec

    found = {
        name: _shape(name, dict(_field(name, row) for row in rows), family)
        for text, family in ((_podspec.SHAPES, "pod"), (PLUGIN_SHAPES, "plugin"))
        for name, rows in _parse(text)
    }
    container, spec = dict(found["Container"].fields), dict(found["PodSpec"].fields)
    # The controller names command containers and sidecars itself, and a pod without containers gets one.
    found["UnnamedContainer"] = _shape("Container", container | {"name": _optional(container["name"])}, "pod")
    for name, kind in (("CommandPodSpec", "UnnamedContainer"), ("PatchPodSpec", "Container")):
        found[name] = _shape("PodSpec", spec | {"containers": Field(kind, "[]", False, None)}, "pod")
    return found


def _optional(one: Field) -> Field:
    return Field(one.kind, one.wrapper, False, one.check)


def described(value: object) -> str:
    """A value's type in words, with the value where it is short."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "text"
    return f"the number {value}"


_WANTED = {"str": "text", "int": "a whole number", "bool": "true or false", "port": "a number or a name"}
_HINTS = {
    "str": "put it in quotes",
    "int": "write a whole number, without quotes",
    "bool": "write true or false, without quotes",
    "port": "write a port number, or a port's name in quotes",
}


def _is_scalar(kind: str, value: object) -> bool:
    if kind == "str":
        return isinstance(value, str)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "bool":
        return isinstance(value, bool)
    return kind == "any" or isinstance(value, str) or (is_number(value) and not isinstance(value, float))


class _Walk:
    """One walk over a value, collecting what it finds."""

    def __init__(self, *, interpolate: bool) -> None:
        self.interpolate = interpolate
        self.found: list[Finding] = []

    def of_type(self, shape: Shape, value: object, path: Path) -> None:
        if not isinstance(value, dict):
            self._wrong(shape.family, path, "a map", value, f"write the keys of {shape.name} below it")
            return
        for key, item in value.items():
            known = shape.fields.get(key) if isinstance(key, str) else None
            if known is None:
                self.found.append(_unknown(shape, key, (*path, key if isinstance(key, str) else str(key))))
            elif item is not None:
                self._wrapped(shape.family, known, item, (*path, key))
        for key in shape.required:
            if value.get(key) is None:
                self.found.append(
                    error(
                        "pod-required-missing",
                        path,
                        f"{shape.name} needs '{key}'",
                        f"add {key}: {_example(shape.fields[key])}",
                    )
                )

    def _wrapped(self, family: str, known: Field, value: object, path: Path) -> None:
        if not known.wrapper:
            self._single(family, known, value, path)
        elif known.wrapper == "[]":
            if not isinstance(value, (list, tuple)):
                self._wrong(family, path, "a list", value, "write each entry on a line of its own after '- '")
                return
            for index, item in enumerate(value):
                self._single(family, known, item, (*path, index))
        elif isinstance(value, dict):
            for key, item in value.items():
                self._single(family, known, item, (*path, str(key)))
        else:
            self._wrong(family, path, "a map", value, "write it as name: value")

    def _single(self, family: str, known: Field, value: object, path: Path) -> None:
        kind = known.kind
        if kind == "quantity":
            self._quantity(value, path)
        elif kind in _WANTED or kind == "any":
            self._scalar(family, known, value, path)
        else:
            self.of_type(shapes()[kind], value, path)

    def _scalar(self, family: str, known: Field, value: object, path: Path) -> None:
        if not _is_scalar(known.kind, value):
            self._wrong(family, path, _WANTED[known.kind], value, _HINTS[known.kind])
        elif known.check is None or is_open(value, interpolate=self.interpolate):
            return
        elif value != "" or known.required:
            fault = known.check(value)
            if fault is not None:
                self.found.append(error(fault.code, path, fault.message, fault.hint))

    def _quantity(self, value: object, path: Path) -> None:
        if not (isinstance(value, str) or is_number(value)):
            self._wrong("pod", path, "a quantity", value, "write a number, or text such as 500m or 16Gi")
            return
        if is_open(value, interpolate=self.interpolate):
            return
        number = quantity(value)
        if number is None:
            hint = "a number and one of m k M G T P E Ki Mi Gi Ti Pi Ei, without a blank: 500m, 16Gi"
            self.found.append(error("pod-quantity", path, f"'{value}' is not a quantity", hint))
        elif number < 0:
            self.found.append(error("pod-quantity", path, f"{value} is negative", "write 0 or more"))

    def _wrong(self, family: str, path: Path, wanted: str, value: object, hint: str) -> None:
        message = f"{wanted} is wanted, not {described(value)}"
        self.found.append(error(f"{family}-wrong-type", path, message, hint))


def _example(known: Field) -> str:
    return {"[]": "a list", "{}": "a map"}.get(known.wrapper) or _WANTED.get(known.kind, f"a {known.kind}")


def _unknown(shape: Shape, key: object, path: Path) -> Finding:
    name = str(key)
    if shape.name == "KubernetesPlugin":
        if name in NOT_PLUGIN_KEYS:
            return error("plugin-not-a-key", path, f"the plugin has no '{name}'", NOT_PLUGIN_KEYS[name])
        if name in shapes()["PodSpec"].fields:
            return error("plugin-unknown-key", path, f"the plugin has no '{name}'", "put it below podSpec")
    owner = "the plugin" if shape.name == "KubernetesPlugin" else shape.name
    hint = did_you_mean(name, shape.fields, what="it has")
    return error(f"{shape.family}-unknown-key", path, f"{owner} has no '{name}'; it would be dropped", hint)


def check_shape(plugin: Any, *, interpolate: bool = False) -> list[Finding]:
    """Every fault of keys, types, quantities and fixed words in the plugin's map; paths start in it."""
    walk = _Walk(interpolate=interpolate)
    walk.of_type(shapes()["KubernetesPlugin"], plugin, ())
    return walk.found
