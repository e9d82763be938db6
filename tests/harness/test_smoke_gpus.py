"""k3_tests/smoke/run.sh: the number of GPUs is taken from a listing only when every line of it is understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bash_tools import HARNESS, environment, run, stand_in

RUN = HARNESS.parent / "k3_tests" / "smoke" / "run.sh"
ONE = "GPU 0: NVIDIA H200 (UUID: GPU-0)\n"
TWO = ONE + "GPU 1: NVIDIA H200 (UUID: GPU-1)\n"
LOST = "Unable to determine the device handle for GPU 0000:83:00.0: Unknown Error\n"
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
SLICES = ONE + "  MIG 1g.10gb     Device  0: (UUID: MIG-a)\n  MIG 3g.40gb     Device  1: (UUID: MIG-b)\n"
AMD = "GPU: 0\n    BDF: 0000:05:00.0\n    UUID: 1aff-74a1\n    KFD_ID: 45412\n"
UNKNOWN = "BAD", "asked for {gpus}, but the GPUs cannot be listed"
RIGHT = "ok", "{gpus} visible, as asked for"

CASES = {
    "one GPU": ("nvidia-smi", 0, ONE, "1", "", RIGHT),
    "a number with a leading zero": ("nvidia-smi", 0, ONE, "01", "", ("ok", "1 visible, as asked for")),
    "slices of one GPU and a whole one": ("nvidia-smi", 0, SLICES + TWO[len(ONE) :], "3", "", RIGHT),
    "one GPU and one that is lost, status 255, none asked for": ("nvidia-smi", 255, ONE + LOST, "0", "nvidia0", UNKNOWN),
    "the same where no device is to be found": ("nvidia-smi", 0, ONE + LOST, "0", "nvidia0", UNKNOWN),
    "an error line with status 0": ("nvidia-smi", 0, ONE + LOST, "1", "nvidia0", UNKNOWN),
    "an error line in front": ("nvidia-smi", 0, LOST + ONE, "1", "nvidia0", UNKNOWN),
    "the right number and a status that is not 0": ("nvidia-smi", 1, ONE, "1", "nvidia0", UNKNOWN),
    "a driver that does not answer, and a device": ("nvidia-smi", 9, NO_DRIVER, "0", "nvidia0", UNKNOWN),
    "a driver that does not answer, and none": ("nvidia-smi", 9, NO_DRIVER, "0", "", RIGHT),
    "no driver, one asked for": ("nvidia-smi", 9, NO_DRIVER, "1", "", UNKNOWN),
    "no device, status 6": ("nvidia-smi", 6, "No devices were found\n", "0", "", RIGHT),
    "no device, with an error besides": ("nvidia-smi", 0, "No devices found.\n" + LOST, "0", "nvidia0", UNKNOWN),
    "nothing at all": ("nvidia-smi", 0, "", "0", "nvidia0", UNKNOWN),
    "an AMD GPU": ("amd-smi", 0, AMD, "1", "kfd", RIGHT),
    "an AMD GPU and an error": ("amd-smi", 0, AMD + "ERROR: GPU 1 is gone\n", "1", "kfd", UNKNOWN),
    "an AMD GPU and a status": ("amd-smi", 3, AMD, "1", "kfd", UNKNOWN),
    "AMD's tool without a driver": ("amd-smi", 255, "ERROR: no driver\n", "0", "", RIGHT),
}  # fmt: skip


@pytest.mark.parametrize(("tool", "status", "text", "gpus", "device", "verdict"), CASES.values(), ids=CASES)
def test_the_verdict_on_the_gpus(
    tool: str, status: int, text: str, gpus: str, device: str, verdict: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "listing").write_text(text)
    stand_in(tmp_path / "bin", tool, f"cat {tmp_path}/listing; exit {status}")
    (tmp_path / "dev").mkdir()
    if device:
        (tmp_path / "dev" / device).touch()
    env = environment(tmp_path, tmp_path / "bin", BKGEN_DEV=str(tmp_path / "dev"))
    done = run(["bash", RUN, "--gpus", gpus, "--reach", "127.0.0.1:1"], env, tmp_path)
    name, word, detail = done.stdout.splitlines()[0].split("\t")
    assert (name, word, detail) == ("gpus", verdict[0], verdict[1].format(gpus=gpus))
