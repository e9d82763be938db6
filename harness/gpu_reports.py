#!/usr/bin/env python3
"""Reads one report of a vendor's GPU tool from standard input and prints records for gpu-query.sh.

    nvidia-slices    nvidia-smi -q -x                   slice    GPU-UUID  INDEX  TOTAL  FREE
    amd-devices      amd-smi metric --mem-usage --json  device   ID  TOTAL  FREE  NAME
    amd-processes    amd-smi process --json             process  GPU  PID  USED  NAME
    intel-devices    xpu-smi discovery -j               device   ID  NAME
    intel-total      xpu-smi discovery -d ID -j         TOTAL
    intel-used       xpu-smi stats -d ID -j             USED
    intel-processes  xpu-smi ps -j                      process  GPU  PID  USED  NAME

Fields are separated by tabs; memory is in MiB; a value that is no number comes out as it was written, so that
the caller can show it. `problem tool TEXT` is a report that cannot be read. The
last line is `end`. Needs the standard library only.
"""

from __future__ import annotations

import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

UNITS = {"B": 2.0**-20, "KB": 2.0**-10, "KIB": 2.0**-10, "MB": 1.0, "MIB": 1.0, "GB": 2.0**10, "GIB": 2.0**10}
"""MiB in one of them. The tools write MB for what they divide by 2**20."""


class UnreadableError(Exception):
    """The report is not what the tool is known to print."""


def clean(value: object) -> str:
    """A field: one line of printable ASCII, never empty."""
    text = "".join(c if " " <= c <= "~" else " " for c in str(value)[:200])
    return " ".join(text.split()) or "-"


def mib(value: object, unit: str = "MB") -> int | None:
    """Memory in MiB, rounded down, or None for what is no amount of memory. Takes `{value, unit}` as well."""
    if isinstance(value, dict):
        return mib(value.get("value"), str(value.get("unit", unit)))
    if isinstance(value, bool) or unit.upper() not in UNITS:
        return None
    if isinstance(value, str):
        if not re.fullmatch("[0-9]{1,18}", value):
            return None
        value = int(value)
    if not isinstance(value, (int, float)) or abs(value) > 1e18 or not math.isfinite(value) or value < 0:
        return None
    return int(value * UNITS[unit.upper()])


def raw(value: object) -> str:
    """What was written where an amount of memory should be, so that it cannot be taken for one."""
    unit = "without a unit"
    if isinstance(value, dict):
        unit = str(value.get("unit", unit))
        value = value.get("value")
    text = clean("absent" if value is None else value)
    return f"{text} {unit}" if text.isdigit() else text


def document(text: str) -> Any:
    """The JSON of a report. amd-smi may put warnings about missing groups in front."""
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("WARNING")):
        del lines[0]
    try:
        return json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        raise UnreadableError(f"what is not JSON: {lines[0] if lines else 'nothing'}") from None


def entries(found: object, *keys: str) -> list[dict[str, Any]]:
    """The list of objects in a report: the report itself, or under the first of `keys` that it has."""
    if isinstance(found, dict):
        if "error" in found:
            raise UnreadableError(f"an error: {found['error']}")
        found = next((found[key] for key in keys if key in found), None)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UnreadableError(f"a report without a list of {' or '.join(keys)}")
    return found


def index(entry: dict[str, Any], key: str) -> int:
    """A device's or a process's number."""
    value = entry.get(key)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
        raise UnreadableError(f"an entry whose '{key}' is no number: {raw(value)}")
    return value


def nvidia_slices(text: str) -> Iterator[tuple[object, ...]]:
    """The memory of every MIG slice, by the UUID of its GPU and its own number."""
    try:
        root = ET.fromstring(text.strip())  # noqa: S314 - expat loads no external entity
    except ET.ParseError as error:
        raise UnreadableError(f"what is not XML: {error}") from None
    for gpu in root.iter("gpu"):
        for part in gpu.iter("mig_device"):
            memory = [part.findtext(f"fb_memory_usage/{name}") or "absent" for name in ("total", "free")]
            yield (
                "slice",
                gpu.findtext("uuid"),
                part.findtext("index"),
                *(m.replace(" MiB", "") for m in memory),
            )


def amd_devices(text: str) -> Iterator[tuple[object, ...]]:
    """Every GPU with total and free memory."""
    seen = set()
    for entry in entries(document(text), "gpu_data"):
        number, usage = index(entry, "gpu"), entry.get("mem_usage")
        if number in seen:
            raise UnreadableError(f"GPU {number} twice")
        seen.add(number)
        usage = usage if isinstance(usage, dict) else {"total_vram": usage, "used_vram": usage}
        total, used = mib(usage.get("total_vram")), mib(usage.get("used_vram"))
        free = raw(usage.get("used_vram")) if used is None else "-" if total is None else total - used
        yield "device", number, raw(usage.get("total_vram")) if total is None else total, free, "AMD GPU"


def amd_processes(text: str) -> Iterator[tuple[object, ...]]:
    """Every process with memory on a GPU. Who merely opened the driver is listed for every GPU, with 0."""
    for entry in entries(document(text), "gpu_data"):
        number = index(entry, "gpu")
        for item in entries(entry, "process_list"):
            info = item.get("process_info", item)
            if isinstance(info, str):
                if "no running processes" not in info.lower():
                    raise UnreadableError(f"a process that cannot be read: {info}")
                continue
            usage = info.get("memory_usage")
            used = mib(usage.get("vram_mem"), "B") if isinstance(usage, dict) else None
            used = mib(info.get("mem_usage"), "B") if used is None else used
            if used != 0:
                yield "process", number, index(info, "pid"), "-" if used is None else used, info.get("name")


def intel_devices(text: str) -> Iterator[tuple[object, ...]]:
    """Every GPU's number and name."""
    seen = set()
    for entry in entries(document(text), "device_list"):
        if str(entry.get("device_type", "GPU")) == "GPU":
            number = index(entry, "device_id")
            if number in seen:
                raise UnreadableError(f"GPU {number} twice")
            seen.add(number)
            yield "device", number, entry.get("device_name", "Intel GPU")


def intel_total(text: str) -> Iterator[tuple[object, ...]]:
    """A GPU's memory. Versions differ: a number of bytes, or a text with a unit."""
    found = document(text)
    found = found if isinstance(found, dict) else {}
    value = found.get("memory_physical_size_byte")
    amount = mib(value, "B")
    if value is None:
        value = found.get("memory_physical_size", found.get("error"))
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)", str(value))
        amount = mib(float(match[1]), match[2]) if match else None
    yield (raw(value) if amount is None else amount,)


def intel_used(text: str) -> Iterator[tuple[object, ...]]:
    """A GPU's memory in use, as the whole device reports it."""
    found = document(text)
    values = [
        entry.get("value")
        for entry in entries(found, "device_level")
        if entry.get("metrics_type") == "XPUM_STATS_MEMORY_USED"
    ]
    value = values[0] if len(values) == 1 else None
    amount = mib(value)
    yield (raw(value) if amount is None else amount,)


def intel_processes(text: str) -> Iterator[tuple[object, ...]]:
    """Every process with memory on a GPU, in KiB there; the tool itself is always one of them."""
    for entry in entries(document(text), "device_util_by_proc_list", "process_list"):
        name, used = entry.get("process_name"), mib(entry.get("mem_size"), "KB")
        if name != "xpu-smi" and used != 0:
            device, pid = index(entry, "device_id"), index(entry, "process_id")
            yield "process", device, pid, "-" if used is None else used, name


REPORTS: dict[str, tuple[str, Callable[[str], Iterator[tuple[object, ...]]]]] = {
    "nvidia-slices": ("nvidia-smi", nvidia_slices),
    "amd-devices": ("amd-smi", amd_devices),
    "amd-processes": ("amd-smi", amd_processes),
    "intel-devices": ("xpu-smi", intel_devices),
    "intel-total": ("xpu-smi", intel_total),
    "intel-used": ("xpu-smi", intel_used),
    "intel-processes": ("xpu-smi", intel_processes),
}


def main(arguments: list[str]) -> int:
    """Prints the records of one report; a report that cannot be read is one `problem` record and status 1."""
    if len(arguments) != 1 or arguments[0] not in REPORTS:
        sys.stderr.write(f"usage: gpu_reports.py {'|'.join(REPORTS)} <REPORT\n")
        return 2
    tool, read = REPORTS[arguments[0]]
    try:
        records = list(read(sys.stdin.buffer.read().decode(errors="replace")))
    except UnreadableError as error:
        records = [("problem", "tool", f"{tool} printed {error}")]
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        records = [("problem", "tool", f"{tool} printed what no report looks like ({type(error).__name__})")]
    for record in records:
        sys.stdout.write("\t".join(clean(field) for field in record) + "\n")
    sys.stdout.write("end\n")
    return int(bool(records) and records[0][0] == "problem")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
