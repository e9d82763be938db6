"""Recorded shapes of what nvidia-smi, amd-smi and xpu-smi print, each with the verdict and its reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from harness.gpu_tools import Answer, amd, amd_processes, intel, nvidia, report, row, slices

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n"
)
FELL_OFF = "Unable to determine the device handle for GPU 0000:83:00.0: Unknown Error\n"
H100 = "NVIDIA H100 80GB HBM3"


class Case(NamedTuple):
    """`free` is the free memory of each GPU as it was read, where all is well; `problems` where it is not."""

    gpus: str
    answers: Mapping[str, Answer]
    problems: list[str]
    free: list[int | None] = []  # noqa: RUF012 - never changed
    tool: str = "nvidia-smi"


def unreadable(line: str) -> str:
    return f"nvidia-smi printed a line that cannot be read: {line}"


NOBODY = "no process that can be seen from here holds it"

NVIDIA_CASES = {
    "one healthy GPU": Case("1", nvidia(row(0)), [], [80900]),
    "four healthy GPUs": Case("4", nvidia("".join(map(row, range(4)))), [], [80900] * 4),
    "a GPU that cannot do MIG": Case("1", nvidia(row(0, mig="[N/A]")), [], [80900]),
    "an old driver's word for that": Case("1", nvidia(row(0, mig="[Not Supported]")), [], [80900]),
    "exactly 80 % free": Case("1", nvidia(row(0, 800, 1000)), [], [800]),
    "any number, when none was asked for": Case("", nvidia(row(0) + row(1)), [], [80900] * 2),
    "one of four is missing": Case(
        "4", nvidia(row(0) + row(1) + row(3)), ["3 GPUs are seen, 4 asked for"], [80900] * 3
    ),
    "one too many": Case("1", nvidia(row(0) + row(1)), ["2 GPUs are seen, 1 asked for"], [80900] * 2),
    "a GPU in a pod that asked for none": Case(
        "0", nvidia(row(0)), ["1 GPUs are seen, 0 asked for"], [80900]
    ),
    "no GPU in a pod that asked for none": Case("0", nvidia((6, "No devices were found\n")), []),
    "the same with status 0": Case("0", nvidia("No devices were found\n"), []),
    "no GPU in a pod that asked for one": Case(
        "1", nvidia((6, "No devices were found\n")), ["0 GPUs are seen, 1 asked for"]
    ),
    "one per mille below 80 % free": Case(
        "1",
        nvidia(row(0, 799, 1000)),
        [f"GPU 0 ({H100}, GPU-0000): 79 % of 1000 MiB is free, at least 80 % is needed; {NOBODY}"],
        [799],
    ),
    "ERR! where the memory should be": Case(
        "1", nvidia(row(0, "ERR!")), ["GPU 0: free memory cannot be read: 'ERR!'"], [None]
    ),
    "[N/A] where the memory should be": Case(
        "1",
        nvidia(row(0, "[N/A]", "[N/A]")),
        ["GPU 0: total memory cannot be read: '[N/A]'", "GPU 0: free memory cannot be read: '[N/A]'"],
        [None],
    ),
    "[Insufficient Permissions] likewise": Case(
        "1",
        nvidia(row(0, "[Insufficient Permissions]")),
        ["GPU 0: free memory cannot be read: '[Insufficient Permissions]'"],
        [None],
    ),
    "[Unknown Error] likewise": Case(
        "1",
        nvidia(row(0, "[Unknown Error]")),
        ["GPU 0: free memory cannot be read: '[Unknown Error]'"],
        [None],
    ),
    "one GPU fell off the bus, status 255": Case(
        "2", nvidia((255, FELL_OFF)), [f"nvidia-smi ended with status 255: {FELL_OFF.strip()}"]
    ),
    "one GPU fell off the bus, status 0 and an error between the numbers": Case(
        "2",
        nvidia(row(0) + FELL_OFF),
        [unreadable(FELL_OFF.strip()), "1 GPUs are seen, 2 asked for"],
        [80900],
    ),
    "the right number of GPUs and an error line besides": Case(
        "1", nvidia(row(0) + FELL_OFF), [unreadable(FELL_OFF.strip())], [80900]
    ),
    "status 0 and nothing but an error text": Case("1", nvidia(NO_DRIVER), [unreadable(NO_DRIVER.strip())]),
    "status 0 and an error text where no GPU was asked for": Case(
        "0", nvidia(NO_DRIVER), [unreadable(NO_DRIVER.strip())]
    ),
    "status 9, no driver": Case(
        "1", nvidia((9, NO_DRIVER)), [f"nvidia-smi ended with status 9: {NO_DRIVER.strip()}"]
    ),
    "status 9 and no output": Case("1", nvidia((9, "")), ["nvidia-smi ended with status 9: no output"]),
    "status 9 where no GPU was asked for": Case(
        "0", nvidia((9, "")), ["nvidia-smi ended with status 9: no output"]
    ),
    "a library that does not fit the driver": Case(
        "1",
        nvidia((18, "Failed to initialize NVML: Driver/library version mismatch\n")),
        ["nvidia-smi ended with status 18: Failed to initialize NVML: Driver/library version mismatch"],
    ),
    "a field that the tool does not know": Case(
        "1",
        nvidia((2, 'Field "mig.mode.current" is not a valid field to query.\n')),
        ['nvidia-smi ended with status 2: Field "mig.mode.current" is not a valid field to query.'],
    ),
    "killed while it ran": Case(
        "1", nvidia((137, row(0))), [f"nvidia-smi ended with status 137: {row(0).strip()}"]
    ),
    "empty": Case("1", nvidia(""), ["nvidia-smi printed nothing"]),
    "blank lines only": Case("1", nvidia(" \n\n"), ["nvidia-smi printed nothing"]),
    "thousands with a comma": Case(
        "1",
        nvidia("0, GPU-0000, Disabled, 81,559, 80,900, NVIDIA H100\n"),
        [unreadable("0, GPU-0000, Disabled, 81,559, 80,900, NVIDIA H100")],
    ),
    "thousands with a point": Case(
        "1",
        nvidia(row(0, "80.900", "81.559")),
        ["GPU 0: total memory cannot be read: '81.559'", "GPU 0: free memory cannot be read: '80.900'"],
        [None],
    ),
    "units that were not asked for": Case(
        "1",
        nvidia(row(0, "80900 MiB", "81559 MiB")),
        ["GPU 0: total memory cannot be read: '81559 MiB'", "GPU 0: free memory cannot be read: '80900 MiB'"],
        [None],
    ),
    "a header that was not asked for": Case(
        "1",
        nvidia("index, uuid, mig.mode.current, memory.total [MiB], memory.free [MiB], name\n" + row(0)),
        [unreadable("index, uuid, mig.mode.current, memory.total [MiB], memory.free [MiB], name")],
        [80900],
    ),
    "a negative number": Case("1", nvidia(row(0, -1)), ["GPU 0: free memory cannot be read: '-1'"], [None]),
    "no memory at all": Case("1", nvidia(row(0, 0, 0)), ["GPU 0: total memory is 0 MiB"], [0]),
    "more free than there is": Case(
        "1", nvidia(row(0, 99999)), ["GPU 0: 99999 MiB free of 81559 MiB is impossible"], [None]
    ),
    "one GPU twice": Case(
        "2", nvidia(row(0) * 2), ["nvidia-smi lists GPU 0 twice", "1 GPUs are seen, 2 asked for"], [80900]
    ),
    "leading zeros, which are octal to a shell": Case("1", nvidia(row(0, "080900", "081559")), [], [80900]),
    "leading zeros of a GPU in use": Case(
        "1",
        nvidia(row(0, "00800", "081559")),
        [f"GPU 0 ({H100}, GPU-0000): 0 % of 81559 MiB is free, at least 80 % is needed; {NOBODY}"],
        [800],
    ),
    "zeros only": Case("1", nvidia(row(0, "000", "0000")), ["GPU 0: total memory is 0 MiB"], [0]),
    "a GPU whose number has a leading zero": Case(
        "1", nvidia("0" + row(9)), [unreadable(f"09, GPU-0009, Disabled, 81559, 80900, {H100}")]
    ),
    "half a line": Case("1", nvidia("0, GPU-0000, Disabled, 8"), [unreadable("0, GPU-0000, Disabled, 8")]),
    "a corrupt infoROM, told after the numbers": Case(
        "1",
        nvidia(row(0) + "WARNING: infoROM is corrupted at gpu 0000:8A:00.0\n"),
        [unreadable("WARNING: infoROM is corrupted at gpu 0000:8A:00.0")],
        [80900],
    ),
    "a binary answer": Case("1", nvidia("\x01\x7f\x1b[0m\n"), [unreadable("[0m")]),
}

ONE_SLICE = {"list": slices((0, ["1g.10gb"])), "report": report((0, [("9728 MiB", "9715 MiB")]))}
MIG_ROW = row(0, "[N/A]", "[N/A]", mig="Enabled")

MIG_CASES = {
    "a pod with one MIG slice": Case("1", nvidia(MIG_ROW, **ONE_SLICE), [], [9715]),
    "a slice whose GPU shows no memory to the pod": Case(
        "1",
        nvidia(row(0, "[Insufficient Permissions]", "[Insufficient Permissions]", "Enabled"), **ONE_SLICE),
        [],
        [9715],
    ),
    "three slices of two GPUs and a whole one": Case(
        "4",
        nvidia(
            row(0, mig="Enabled") + row(1) + row(2, mig="Enabled"),
            list=slices((0, ["1g.10gb", "3g.40gb"]), (1, []), (2, ["1g.10gb+me"])),
            report=report(
                (0, [("9728 MiB", "9715 MiB"), ("40192 MiB", "40000 MiB")]),
                (1, []),
                (2, [("9728 MiB", "9000 MiB")]),
            ),
        ),
        [],
        [80900, 9715, 40000, 9000],
    ),
    "one slice where two were asked for": Case(
        "2", nvidia(MIG_ROW, **ONE_SLICE), ["1 GPUs are seen, 2 asked for"], [9715]
    ),
    "a slice that is in use": Case(
        "1",
        nvidia(
            MIG_ROW,
            "4242, GPU-0000, [N/A], python3\n",
            list=ONE_SLICE["list"],
            report=report((0, [("9728 MiB", "900 MiB")])),
        ),
        [
            (
                "GPU 0/0 (MIG 1g.10gb, MIG-00aa-bb): 9 % of 9728 MiB is free, at least 80 % is needed; "
                "held by pid 4242 (python3, uid -, of unknown age, - MiB)"
            )
        ],
        [900],
    ),
    "MIG is on, without any slice": Case(
        "1",
        nvidia(MIG_ROW, list=slices((0, []))),
        ["GPU 0: MIG is on, but the GPU has no slice", "0 GPUs are seen, 1 asked for"],
    ),
    "a slice that the report does not know": Case(
        "1",
        nvidia(MIG_ROW, list=ONE_SLICE["list"], report=report((0, []))),
        [
            "GPU 0/0: total memory cannot be read: 'not in the report'",
            "GPU 0/0: free memory cannot be read: 'not in the report'",
        ],
        [None],
    ),
    "a slice whose memory is N/A": Case(
        "1",
        nvidia(MIG_ROW, list=ONE_SLICE["list"], report=report((0, [("9728 MiB", "N/A")]))),
        ["GPU 0/0: free memory cannot be read: 'N/A'"],
        [None],
    ),
    "a report that breaks off": Case(
        "1",
        nvidia(MIG_ROW, list=ONE_SLICE["list"], report="<nvidia_smi_log>\n<gpu>"),
        [
            "nvidia-smi printed what is not XML: no element found: line 2, column 5",
            "GPU 0/0: total memory cannot be read: 'not in the report'",
            "GPU 0/0: free memory cannot be read: 'not in the report'",
        ],
        [None],
    ),
    "the list of slices fails": Case(
        "1", nvidia(MIG_ROW, list=(9, NO_DRIVER)), [f"nvidia-smi ended with status 9: {NO_DRIVER.strip()}"]
    ),
    "a list with an error line": Case(
        "1",
        nvidia(MIG_ROW, list=ONE_SLICE["list"] + FELL_OFF, report=ONE_SLICE["report"]),
        [f"nvidia-smi -L printed a line that cannot be read: {FELL_OFF.strip()}"],
        [9715],
    ),
    "a MIG mode that cannot be read": Case(
        "1", nvidia(row(0, mig="ERR!")), ["GPU 0: MIG mode cannot be read: 'ERR!'"], [80900]
    ),
}


def amd_case(
    gpus: str, metric: object, problems: list[str], free: list[int | None], processes: object = ()
) -> Case:
    text = metric if isinstance(metric, str | tuple) else json.dumps(metric)
    answers: dict[str, Answer] = {"metric --mem-usage --json": text, "process --json": json.dumps(processes)}
    return Case(gpus, answers, problems, free, "amd-smi")


AMD_CASES = {
    "two healthy AMD GPUs in a bare list": amd_case(
        "2", amd((0, 196592, 283), (1, 196592, 284)), [], [196309, 196308]
    ),
    "the same under gpu_data": amd_case("1", {"gpu_data": amd((0, 196592, 283))}, [], [196309]),
    "numbers that are text": amd_case("1", amd((0, "16384", "100")), [], [16284]),
    "warnings in front": amd_case(
        "1",
        "WARNING: User is missing the following required groups: render, video.\n\n"
        + json.dumps(amd((0, 1000, 100))),
        [],
        [900],
    ),
    "an AMD GPU in use": amd_case(
        "1",
        amd((0, 196592, 180000)),
        [
            (
                "GPU 0 (AMD GPU, -): 8 % of 196592 MiB is free, at least 80 % is needed; "
                "held by pid 77 (python3, uid -, of unknown age, 170000 MiB)"
            )
        ],
        [16592],
        [amd_processes(0, (77, 170000 * 2**20), (78, 0)), amd_processes(1, (79, 5))],
    ),
    "an AMD GPU in use by nobody": amd_case(
        "1",
        amd((0, 1000, 900)),
        [f"GPU 0 (AMD GPU, -): 10 % of 1000 MiB is free, at least 80 % is needed; {NOBODY}"],
        [100],
        [amd_processes(0)],
    ),
    "an AMD GPU in use, and processes that cannot be listed": amd_case(
        "1",
        amd((0, 1000, 900)),
        [
            (
                "GPU 0 (AMD GPU, -): 10 % of 1000 MiB is free, at least 80 % is needed; "
                "its processes cannot be listed: amd-smi printed a report without a list of gpu_data"
            )
        ],
        [100],
        {"oops": 1},
    ),
    "N/A on an AMD partition": amd_case(
        "1", amd((0, 196592, "N/A")), ["GPU 0: free memory cannot be read: 'N/A'"], [None]
    ),
    "no memory usage at all": amd_case(
        "1",
        [{"gpu": 0, "mem_usage": "N/A"}],
        ["GPU 0: total memory cannot be read: 'N/A'", "GPU 0: free memory cannot be read: 'N/A'"],
        [None],
    ),
    "one AMD GPU is missing": amd_case("2", amd((0, 1000, 1)), ["1 GPUs are seen, 2 asked for"], [999]),
    "no AMD GPU": amd_case("1", [], ["0 GPUs are seen, 1 asked for"], []),
    "no AMD driver, status 255": amd_case(
        "1",
        (255, "ERROR:root:Drivers not loaded (amdgpu drivers not found in modules)\n"),
        [
            "amd-smi ended with status 255: ERROR:root:Drivers not loaded (amdgpu drivers not found in modules)"
        ],
        [],
    ),
    "no AMD driver, status 0": amd_case(
        "1",
        "ERROR:root:Unable to get devices, driver not initialized (amdgpu not found in modules)\n",
        [
            (
                "amd-smi printed what is not JSON: ERROR:root:Unable to get devices, driver not initialized "
                "(amdgpu not found in modules)"
            )
        ],
        [],
    ),
    "an AMD answer that breaks off": amd_case(
        "1",
        json.dumps(amd((0, 1000, 1)))[:60],
        ["amd-smi printed what is not JSON: " + json.dumps(amd((0, 1000, 1)))[:60]],
        [],
    ),
    "a negative AMD number": amd_case(
        "1", amd((0, 1000, -5)), ["GPU 0: free memory cannot be read: '-5'"], [None]
    ),
    "an infinite AMD number": amd_case(
        "1", amd((0, 1000, float("nan"))), ["GPU 0: free memory cannot be read: 'nan'"], [None]
    ),
    "more used than there is": amd_case(
        "1", amd((0, 1000, 1001)), ["GPU 0: free memory cannot be read: '-1'"], [None]
    ),
    "a unit that is not known": amd_case(
        "1",
        [
            {
                "gpu": 0,
                "mem_usage": {
                    "total_vram": {"value": 1, "unit": "TB"},
                    "used_vram": {"value": 0, "unit": "MB"},
                },
            }
        ],
        ["GPU 0: total memory cannot be read: '1 TB'"],
        [None],
    ),
    "an AMD GPU without a number": amd_case(
        "1", [{"mem_usage": {}}], ["amd-smi printed an entry whose 'gpu' is no number: absent"], []
    ),
    "JSON that is too deep": amd_case(
        "1", "[" * 100000, [("amd-smi printed what is not JSON: " + "[" * 200)[:200]], []
    ),
    "a number of 5,000 digits": amd_case(
        "1",
        '[{"gpu": 0, "mem_usage": {"total_vram": {"value": ' + "9" * 5000 + "}}}]",
        [
            (
                'amd-smi printed what is not JSON: [{"gpu": 0, "mem_usage": {"total_vram": {"value": '
                + "9" * 200
            )[:200]
        ],
        [],
    ),
    "5,000 digits as text": amd_case(
        "1",
        amd((0, "9" * 5000, 1)),
        [f"GPU 0: total memory cannot be read: '{'9' * 200}'"],
        [None],
    ),
    "a number that no GPU has": amd_case(
        "1", amd((0, 10**30, 1)), [f"GPU 0: total memory cannot be read: '{10**30} MB'"], [None]
    ),
    "text where an object should be": amd_case(
        "1",
        [{"gpu": 0, "mem_usage": {"total_vram": {"value": 1, "unit": ["MB"]}, "used_vram": None}}],
        ["GPU 0: total memory cannot be read: '1 ['MB']'", "GPU 0: free memory cannot be read: 'absent'"],
        [None],
    ),
    "one AMD GPU twice": amd_case("2", amd((0, 10, 1), (0, 10, 1)), ["amd-smi printed GPU 0 twice"], []),
}

MAX = {"memory_physical_size_byte": "68719476736"}


def intel_case(gpus: str, answers: Mapping[str, Answer], problems: list[str], free: list[int | None]) -> Case:
    return Case(gpus, answers, problems, free, "xpu-smi")


IN_USE = [
    {
        "device_id": 0,
        "process_id": 55,
        "process_name": "python",
        "mem_size": 50 * 2**20,
        "shared_mem_size": 0,
    },
    {"device_id": 0, "process_id": 56, "process_name": "xpu-smi", "mem_size": 9, "shared_mem_size": 0},
]

INTEL_CASES = {
    "a healthy Intel GPU": intel_case("1", intel(MAX, 43), [], [65493]),
    "a size as text with a unit": intel_case(
        "1", intel({"memory_physical_size": "65536.00 MiB"}, 43.9), [], [65493]
    ),
    "an Intel GPU in use": intel_case(
        "1",
        intel(MAX, 52000, tuple(IN_USE)),
        [
            (
                "GPU 0 (Intel(R) Data Center GPU Max 1550, -): 20 % of 65536 MiB is free, at least 80 % is needed; "
                "held by pid 55 (python, uid -, of unknown age, 51200 MiB)"
            )
        ],
        [13536],
    ),
    "one Intel GPU twice": intel_case(
        "2",
        {
            **intel(MAX, 43),
            "discovery -j": json.dumps({"device_list": [{"device_id": 0}, {"device_id": "0"}]}),
        },
        ["xpu-smi printed GPU 0 twice"],
        [],
    ),
    "no Intel GPU": intel_case(
        "1", {"discovery -j": '{"device_list": []}'}, ["0 GPUs are seen, 1 asked for"], []
    ),
    "no Intel driver, told in JSON": intel_case(
        "1",
        {"discovery -j": '{"error": "Level Zero Initialization Error", "errno": 6}'},
        ["xpu-smi printed an error: Level Zero Initialization Error"],
        [],
    ),
    "no Intel driver, told in text": intel_case(
        "1",
        {"discovery -j": "No device discovered\n"},
        ["xpu-smi printed what is not JSON: No device discovered"],
        [],
    ),
    "a size with a comma": intel_case(
        "1",
        intel({"memory_physical_size": "65,536 MiB"}, 43),
        ["GPU 0: total memory cannot be read: '65,536 MiB'"],
        [None],
    ),
    "a size that is missing": intel_case(
        "1", intel({}, 43), ["GPU 0: total memory cannot be read: 'absent'"], [None]
    ),
    "memory in use that is missing": intel_case(
        "1", intel(MAX, None), ["GPU 0: free memory cannot be read: 'absent'"], [None]
    ),
    "statistics that fail": intel_case(
        "1",
        {**intel(MAX, 1), "stats -d 0": (1, "Error: permission denied\n")},
        ["GPU 0: free memory cannot be read: 'xpu-smi ended with status 1: Error: permission denied'"],
        [None],
    ),
}

CASES = NVIDIA_CASES | MIG_CASES | AMD_CASES | INTEL_CASES
