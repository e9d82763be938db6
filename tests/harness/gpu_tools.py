"""Stand-in GPU tools that print recorded answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from harness.bash_tools import stand_in

Answer = str | tuple[int, str]
"""What the tool prints, and its status when that is not 0."""


def tool(directory: Path, name: str, answers: Mapping[str, Answer]) -> None:
    """A tool that answers by the first key that its command line contains, and fails loudly on any other."""
    cases = []
    for key, answer in answers.items():
        status, text = answer if isinstance(answer, tuple) else (0, answer)
        cases.append(f"*{shlex.quote(key)}*) printf '%s' {shlex.quote(text)}; exit {status} ;;")
    stand_in(
        directory,
        name,
        'case "$*" in\n' + "\n".join(cases) + '\n*) echo "unexpected call: $*"; exit 97 ;;\nesac',
    )


def row(index: int, free: object = 80900, total: object = 81559, mig: str = "Disabled") -> str:
    """A line of `nvidia-smi --query-gpu`."""
    return f"{index}, GPU-000{index}, {mig}, {total}, {free}, NVIDIA H100 80GB HBM3\n"


def nvidia(rows: Answer, apps: Answer = "", **more: Answer) -> dict[str, Answer]:
    """The answers of an nvidia-smi; `more` are `list` (-L) and `report` (-q -x)."""
    options = {"list": "-L", "report": "-q -x"}
    return {"--query-gpu=": rows, "--query-compute-apps=": apps} | {
        options[key]: answer for key, answer in more.items()
    }


def slices(*gpus: tuple[int, list[str]]) -> str:
    """`nvidia-smi -L` for GPUs with MIG slices of these profiles."""
    lines = []
    for index, profiles in gpus:
        lines.append(f"GPU {index}: NVIDIA A100-SXM4-80GB (UUID: GPU-000{index})")
        lines += [
            f"  MIG {profile}     Device  {number}: (UUID: MIG-{index}{number}aa-bb)"
            for number, profile in enumerate(profiles)
        ]
    return "\n".join(lines) + "\n"


def report(*gpus: tuple[int, list[tuple[str, str]]]) -> str:
    """`nvidia-smi -q -x` with total and free memory of each slice; what is not read is left out."""
    text = (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    )
    for index, memories in gpus:
        text += f'<gpu id="00000000:0{index}:00.0"><mig_devices>\n'
        for number, (total, free) in enumerate(memories):
            text += (
                f"<mig_device><index>{number}</index><fb_memory_usage><total>{total}</total>"
                f"<used>12 MiB</used><free>{free}</free></fb_memory_usage>"
                "<bar1_memory_usage><total>16383 MiB</total><free>16383 MiB</free></bar1_memory_usage>"
                "</mig_device>\n"
            )
        text += f"</mig_devices><uuid>GPU-000{index}</uuid>"
        text += "<fb_memory_usage><total>81920 MiB</total><free>N/A</free></fb_memory_usage></gpu>\n"
    return text + "</nvidia_smi_log>\n"


def megabytes(value: object) -> dict[str, object]:
    return {"value": value, "unit": "MB"}


def amd(*gpus: tuple[int, object, object]) -> list[dict[str, object]]:
    """The list in `amd-smi metric --mem-usage --json`: number, total and used of each GPU."""
    return [
        {
            "gpu": number,
            "mem_usage": {
                "total_vram": megabytes(total),
                "used_vram": megabytes(used),
                "free_vram": megabytes("N/A"),
                "total_gtt": megabytes(9000),
                "used_gtt": megabytes(8999),
            },
        }
        for number, total, used in gpus
    ]


def amd_processes(gpu: int, *found: tuple[int, int]) -> dict[str, object]:
    """An entry of `amd-smi process --json`: PID and bytes of each process."""
    listed: list[dict[str, object]] = [
        {
            "process_info": {
                "name": "python3",
                "pid": pid,
                "memory_usage": {
                    "gtt_mem": {"value": 0, "unit": "B"},
                    "vram_mem": {"value": size, "unit": "B"},
                },
            }
        }
        for pid, size in found
    ]
    return {"gpu": gpu, "process_list": listed or [{"process_info": "No running processes detected"}]}


def intel(total: object, used: object, processes: object = ()) -> dict[str, Answer]:
    """The answers of an xpu-smi with one GPU."""
    return {
        "discovery -j": json.dumps(
            {
                "device_list": [
                    {"device_id": 0, "device_name": "Intel(R) Data Center GPU Max 1550", "uuid": "u"}
                ]
            }
        ),
        "discovery -d 0": json.dumps({"device_id": 0, **(total if isinstance(total, dict) else {})}),
        "stats -d 0": json.dumps(
            {
                "device_id": 0,
                "device_level": [
                    {"metrics_type": "XPUM_STATS_GPU_UTILIZATION", "value": 0},
                    {"metrics_type": "XPUM_STATS_MEMORY_USED", "value": used},
                ],
                "tile_level": [{"tile_id": 0, "data_list": []}],
            }
        ),
        "ps -j": json.dumps(
            {"device_util_by_proc_list": list(processes) if isinstance(processes, tuple) else processes}
        ),
    }


def fake_process(proc: Path, pid: int, name: str, uid: int, started: int, cgroup: str | None = None) -> None:
    """A process in a stand-in /proc whose machine has been up for 100,000 seconds."""
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    (proc / "uptime").write_text("100000.42 1.0\n")
    fields = ["S", *map(str, range(18)), str(started * 100), "0"]
    (directory / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (directory / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    if cgroup is not None:
        (directory / "cgroup").write_text(cgroup)
