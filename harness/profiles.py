"""Chooses the profile of bkgen.yml that fits the GPUs of this cluster.

Reads bkgen.yml and, optionally, the nodes as `kubectl get nodes --output json` prints them. A profile that is
named must fit the vendor. Without a name it is the default one, if that fits, else the only one that does.

Prints one line: the profile's name, its GPU resource, and "default" if the settings choose it by themselves,
tab-separated. With `--output`, a copy of the settings is written in which it is the default profile.

Exit status: 0, 1 when no profile fits (file:line:column, and what to do), 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from values import DEVICE_CLASS, Document, ValuesError, gpus_offered, profile_name, profile_of, read_nodes

import yaml  # isort: skip - after values.py, which says what to do where there is none

VENDORS = ("nvidia", "amd", "intel")


def vendor_of(resource: str) -> str:
    """Whose GPUs a resource is, by its domain (`gpu.intel.com/xe` is intel); "" for any other maker."""
    domain = re.search(r"(?:^|[./])(nvidia|amd|intel)\.com(?:/|$)", resource)
    return domain[1] if domain else ""


def resources(settings: Document) -> dict[str, str]:
    """Name and GPU resource of each profile whose steps are pods with GPUs, in the order of the file."""
    profiles: dict[str, Any] = settings.get("profiles", kind=dict, default={})
    if not profiles:
        return {"": "nvidia.com/gpu"}
    return {
        str(name): str(profile["gpu_resource"])
        for name, profile in profiles.items()
        if isinstance(profile, dict) and profile.get("gpu_resource") and profile.get("pod") is not False
    }


def choose(settings: Document, vendor: str, name: str) -> str:
    """The name of the profile, "" where the settings have none and bkgen's own is meant.

    `vendor` may be empty: any profile fits then. Raises `ValuesError` when none fits, or more than one.
    """
    known = resources(settings)
    usual = profile_name(settings, name)
    if name and name not in known:
        place = settings.place(["profiles", name])
        raise ValuesError(place, "has no gpu_resource, or its steps are no pods", "choose another: PROFILE=…")
    if not vendor or vendor_of(known.get(usual, "")) == vendor:
        return usual
    fitting = [profile for profile, resource in known.items() if vendor_of(resource) == vendor]
    others = ", ".join(f"{profile or 'the built-in one'} ({resource})" for profile, resource in known.items())
    if name:
        hint = (
            f"choose another: PROFILE={fitting[0]}"
            if fitting
            else f"the GPUs are of {vendor}; set VENDOR if not"
        )
        raise ValuesError(settings.place(["profiles", name]), f"is for {known[name]}, not for {vendor}", hint)
    if not fitting:
        raise ValuesError(
            settings.place(["profiles"]),
            f"no profile has a gpu_resource of {vendor}; there is {others or 'none at all'}",
            "add a profile for this hardware; bkgen's reference of the settings describes it; or set VENDOR",
        )
    if len(fitting) > 1:
        raise ValuesError(
            settings.place(["profiles"]),
            f"several profiles are for {vendor}: {', '.join(fitting)}",
            f"choose one: PROFILE={fitting[0]}",
        )
    return fitting[0]


def check_offered(settings: Document, name: str, nodes: list[dict[str, Any]]) -> None:
    """Raises `ValuesError` when no pod of this profile could ever get a GPU from these nodes."""
    _, resource, _ = profile_of(settings, name)
    place = settings.place(["profiles", name, "gpu_resource"] if name else ["profiles"])
    vendor = vendor_of(resource)
    others = sorted({key for node in nodes for key in node if "/" in key and vendor_of(key) == vendor})
    # Two drivers must not give out the same devices, so that of the two only one can be meant.
    if resource.startswith(DEVICE_CLASS) and others:
        raise ValuesError(
            place,
            f"is {resource}, but the nodes offer {', '.join(others)}: they run a device plugin",
            f"write gpu_resource: {others[0]}, or exchange the plugin for a resource driver; "
            "harness/README.md has both ways (Intel GPUs)",
        )
    if not resource.startswith(DEVICE_CLASS) and not gpus_offered(nodes, resource, 0):
        found = f"; they offer {', '.join(others)}" if others else ""
        hint = (
            f"write gpu_resource: {others[0]}"
            if others
            else "run setup-cluster.sh, or choose another: PROFILE=…"
        )
        raise ValuesError(place, f"no node offers {resource}{found}", hint)


def copy_settings(settings: Document, name: str, output: Path) -> None:
    """Writes the settings with `name` as the default profile; every other value stays."""
    content = {**settings.content, "default_profile": name}
    output.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Reads, chooses, prints; see the module's text for the exit status."""
    parser = argparse.ArgumentParser(description="Chooses the profile of bkgen.yml that fits this cluster.")
    parser.add_argument("--settings", type=Path, required=True, help="bkgen.yml; it need not exist")
    parser.add_argument("--vendor", choices=("", *VENDORS), default="", help="(default: any)")
    parser.add_argument("--profile", default="", help="(default: chosen by the vendor)")
    parser.add_argument(
        "--nodes", type=Path, help="`kubectl get nodes --output json`: refuse what none offers"
    )
    parser.add_argument("--output", type=Path, help="a copy of the settings with this default profile")
    args = parser.parse_args(arguments)
    try:
        settings = Document(args.settings, optional=True)
        name = choose(settings, args.vendor, args.profile)
        if args.nodes:
            check_offered(settings, name, read_nodes(args.nodes))
        if args.output and name:
            copy_settings(settings, name, args.output)
        default = "default" if name == profile_name(settings, "") else ""
        sys.stdout.write(f"{name}\t{profile_of(settings, name)[1]}\t{default}\n")
    except ValuesError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
