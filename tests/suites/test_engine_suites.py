"""Every suite that drives an engine, run for real against stand-ins (see standin.py for their faults)."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from suites.conftest import Tree, executable

SLOW = pytest.mark.slow

RUNS = {
    "amd: GPUs and cache server": ("amd/run.sh", "probe"),
    "amd: the cache inside the engine": ("amd/run.sh", "in-process"),
    "amd: the cache as a process": ("amd/run.sh", "multiprocess"),
    "blend: documents in another order": ("blend/run.sh", "reorder"),
    "blend: many orders": ("blend/run.sh", "permute"),
    "comprehensive: on disk": ("comprehensive/run.sh", "local_disk"),
    "correctness": ("correctness/run.sh",),
    "integration": ("integration/run.sh",),
    "multiprocess: bench": ("multiprocess/run.sh", "bench"),
    "multiprocess: coordinator": ("multiprocess/run.sh", "coordinator"),
    "multiprocess: cpu engine": ("multiprocess/run.sh", "cpu-engine"),
    "multiprocess: disk tier": ("multiprocess/run.sh", "disk-tier"),
    "multiprocess: fault tolerance": ("multiprocess/run.sh", "fault-tolerance"),
    "multiprocess: http api": ("multiprocess/run.sh", "http-api"),
    "multiprocess: lm-eval": ("multiprocess/run.sh", "lm-eval", "engine_driven"),
    "multiprocess: long documents": ("multiprocess/run.sh", "long-doc-qa"),
    "multiprocess: p2p": ("multiprocess/run.sh", "p2p"),
    "multiprocess: restart": ("multiprocess/run.sh", "restart-recovery"),
    "multiprocess: tensor parallel": ("multiprocess/run.sh", "tensor-parallel"),
    "sglang: correctness": ("sglang/run.sh", "correctness"),
    "sglang: speed": ("sglang/run.sh", "speed"),
    "xpu: over gRPC": ("xpu/run.sh", "grpc"),
}


QUICK = {"correctness"}
"""Runs and faults that belong to the quick tests; the others take a second or two each."""
QUICK_FAULTS = {
    "correctness: an engine that never gets ready",
    "correctness: an engine that dies",
    "correctness: an engine that refuses",
    "correctness: an answer that changes when it is cached",
}
TWO_GPUS = {"bench", "long-doc-qa", "p2p", "tensor-parallel"}


def gpus_of(command: tuple[str, ...]) -> str:
    """How many GPUs its pod has."""
    return "2" if TWO_GPUS.intersection(command) else "1"


@pytest.mark.parametrize(
    "command", [pytest.param(run, id=name, marks=() if name in QUICK else SLOW) for name, run in RUNS.items()]
)
def test_a_suite_passes_with_engines_that_work(tree: Tree, command: tuple[str, ...]) -> None:
    result = tree.run(*command, STANDIN_GPUS=gpus_of(command))
    assert result.returncode == 0, result.stdout
    assert tree.alive() == []


FAULTS = {
    "correctness: an engine that never gets ready": (
        ("correctness/run.sh",),
        "never-ready",
        "loads its weights for ever",
    ),
    "correctness: an engine that dies": (("correctness/run.sh",), "dies", "the stand-in has no device"),
    "correctness: an answer that changes when it is cached": (("correctness/run.sh",), "wrong-warm", " warm"),
    "correctness: a cache that is not used": (("correctness/run.sh",), "forgets", "stayed at 0"),
    "correctness: an engine that says nothing": (("correctness/run.sh",), "empty", "empty answer"),
    "correctness: an engine that refuses": (("correctness/run.sh",), "refuses", "status 500"),
    "correctness: counters that cannot be read": (("correctness/run.sh",), "no-metrics", "curl: (22)"),
    "blend: a cache that is not used": (("blend/run.sh", "reorder"), "forgets", "reused out of their place"),
    "multiprocess: a peer that nobody finds": (("multiprocess/run.sh", "p2p"), "no-peer", "found no peer"),
    "multiprocess: a cache that slows down": (
        ("multiprocess/run.sh", "bench"),
        "slow-cache",
        "without it 10.0 ms",
    ),
    "multiprocess: a benchmark that loses a request": (
        ("multiprocess/run.sh", "bench"),
        "drops",
        "99 of 100 requests",
    ),
    "multiprocess: a score that falls": (
        ("multiprocess/run.sh", "lm-eval", "lmcache_driven"),
        "bad-score",
        "more than 0.01 apart",
    ),
    "multiprocess: a cache that keeps what was cleared": (
        ("multiprocess/run.sh", "http-api"),
        "keeps",
        "had been cleared",
    ),
    "sglang: a cache that slows down": (("sglang/run.sh", "speed"), "slow-cache", "less than 1.2 times"),
    "xpu: an answer that changes when it is cached": (("xpu/run.sh", "zmq"), "wrong-warm", " warm"),
}


@pytest.mark.parametrize(
    ("command", "fault", "said"),
    [
        pytest.param(*case, id=name, marks=() if name in QUICK_FAULTS else SLOW)
        for name, case in FAULTS.items()
    ],
)
def test_a_suite_fails_and_says_why(tree: Tree, command: tuple[str, ...], fault: str, said: str) -> None:
    variables = {"STANDIN_FAULT": fault, "STANDIN_GPUS": gpus_of(command)}
    result = tree.run(*command, BKGEN_READY_SECONDS="2", BKGEN_SETTLE_SECONDS="1", **variables)
    assert result.returncode == (22 if fault == "no-metrics" else 1), result.stdout
    assert said in result.stdout
    assert tree.alive() == []


SICK = {
    "one that asks for more than there are": (
        ("multiprocess/run.sh", "p2p"),
        {"STANDIN_GPUS": "1"},
        "2 are needed",
    ),
    "one that was given too many": (("correctness/run.sh",), {"STANDIN_GPUS": "2"}, "1 asked for"),
    "one whose machine has none": (("amd/run.sh", "probe"), {"STANDIN_FAULT": "no-gpu"}, "0 GPUs are seen"),
}


@pytest.mark.parametrize(("command", "variables", "said"), SICK.values(), ids=SICK)
def test_a_job_without_its_gpus_ends_with_the_status_that_is_retried(
    tree: Tree, command: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    result = tree.run(*command, **variables)
    assert result.returncode == 78, result.stdout
    assert said in result.stdout
    assert tree.calls() == []


XPU_SMI = """#!/bin/sh
case "$*" in
"discovery -j") echo '{"device_list": [{"device_id": 0, "device_name": "Stand-in"}]}' ;;
"discovery -d 0 -j") echo '{"memory_physical_size_byte": "68719476736"}' ;;
"stats -d 0 -j") echo '{"device_level": [{"metrics_type": "XPUM_STATS_MEMORY_USED", "value": @USED@}]}' ;;
"ps -j") echo '{"device_util_by_proc_list": []}' ;;
*) exit 9 ;;
esac
"""


@pytest.mark.parametrize(
    ("used", "variables", "said"),
    [
        pytest.param("60000", {}, "8 % of 65536 MiB is free", id="somebody holds the GPU"),
        pytest.param("10", {"BKGEN_GPUS": "2"}, "1 GPUs are seen, 2 asked for", id="the pod asked for two"),
        pytest.param('"ERR"', {"BKGEN_GPUS": "1"}, "free memory cannot be read", id="it cannot be read"),
    ],
)
def test_an_intel_gpu_is_looked_at_where_its_tool_is(
    used: str, variables: dict[str, str], said: str, tree: Tree
) -> None:
    executable(tree.root.parent / "bin/xpu-smi", XPU_SMI.replace("@USED@", used))
    result = tree.run("xpu/run.sh", "grpc", **variables)
    assert result.returncode == 78, result.stdout
    assert said in result.stdout
    assert tree.calls() == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("xpu/run.sh", "zmq"), "xpu-smi is not in this image"),
        (("musa/run.sh", "probe"), "no tool for Moore Threads GPUs is known"),
    ],
)
def test_a_gpu_that_nobody_can_look_at_is_said(command: tuple[str, ...], said: str, tree: Tree) -> None:
    """Whatever number the pod asked for; the probe that fails ends the run before an engine starts."""
    result = tree.run(*command, BKGEN_GPUS="1", BKGEN_PROBE="exit 3", MUSA_VISIBLE_DEVICES="0")
    assert result.returncode == 3, result.stdout
    assert said in result.stdout


@SLOW
def test_the_engine_gets_the_flags_of_the_cache(tree: Tree) -> None:
    assert tree.run("xpu/run.sh", "grpc").returncode == 0
    cache, engine = (call for call in tree.calls() if call[1] in {"server", "serve"})
    transfer = json.loads(engine[engine.index("--kv-transfer-config") + 1])
    assert transfer["kv_connector"] == "LMCacheMPConnector"
    assert transfer["kv_connector_extra_config"] == {
        "lmcache.mp.host": "grpc://127.0.0.1",
        "lmcache.mp.port": int(cache[cache.index("--port") + 1]),
        "lmcache.mp.mp_transfer_mode": "engine_driven",
    }
    assert cache[cache.index("--transport") + 1] == "grpc"
    assert "--no-enable-prefix-caching" in engine


@SLOW
def test_two_engines_get_a_gpu_each(tree: Tree) -> None:
    vllm = tree.root.parent / "bin" / "vllm"
    real = vllm.read_text()
    vllm.write_text(
        real.replace("exec", 'echo "${CUDA_VISIBLE_DEVICES-none}" >>"$STANDIN_STATE/gpus.txt"\nexec')
    )
    assert tree.run("multiprocess/run.sh", "p2p", STANDIN_GPUS="2").returncode == 0
    assert (tree.state / "gpus.txt").read_text().split() == ["0", "1"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
def test_no_server_outlives_a_script_that_is_killed(tree: Tree, sent: signal.Signals) -> None:
    process = tree.start("correctness/run.sh", STANDIN_FAULT="never-ready", BKGEN_READY_SECONDS="30")
    wait_for(lambda: len(tree.alive()) == 1)
    os.kill(process.pid, sent)
    output, _ = process.communicate(timeout=20)
    assert process.returncode != 0, output
    wait_for(lambda: tree.alive() == [])


def test_a_command_that_fails_before_a_pipe_ends_the_job(tree: Tree) -> None:
    result = tree.run("correctness/run.sh", BKGEN_PROBE="false | cat")
    assert result.returncode == 1, result.stdout
    assert "the probe failed" in result.stdout
    assert tree.calls() == []


@pytest.mark.parametrize("suite", ["correctness", "multiprocess", "unit"])
def test_help_is_printed_without_touching_anything(tree: Tree, suite: str) -> None:
    result = tree.run(f"{suite}/run.sh", "--help")
    assert result.returncode == 0
    assert f"usage: k3_tests/{suite}/run.sh" in result.stdout
    assert not (tree.root / "artifacts").exists()


WRONG = {
    "multiprocess without a scenario": (("multiprocess/run.sh",), "p2p"),
    "multiprocess with an unknown scenario": (("multiprocess/run.sh", "p3p"), "restart-recovery"),
    "comprehensive with an unknown configuration": (("comprehensive/run.sh", "nothing"), "local_cpu"),
    "lm-eval without a mode": (("multiprocess/run.sh", "lm-eval"), "engine_driven"),
    "blend with an unknown word": (("blend/run.sh", "swirl"), "reorder"),
    "sglang without a word": (("sglang/run.sh",), "speed"),
    "xpu with an unknown transport": (("xpu/run.sh", "pigeon"), "grpc"),
    "amd without a word": (("amd/run.sh",), "probe"),
    "musa without a word": (("musa/run.sh",), "probe"),
}


@pytest.mark.parametrize(("command", "known"), WRONG.values(), ids=WRONG)
def test_a_wrong_call_names_the_right_ones(tree: Tree, command: tuple[str, ...], known: str) -> None:
    result = tree.run(*command)
    assert result.returncode == 2, result.stdout
    assert known in result.stdout
    assert tree.calls() == []


def test_a_missing_engine_is_named(tree: Tree) -> None:
    (tree.root.parent / "bin" / "lmcache").unlink()
    result = tree.run("integration/run.sh")
    assert result.returncode == 1
    assert "not on the path: lmcache" in result.stdout


class TestMoore:
    """Moore Threads: torch is a stand-in, too."""

    TORCH = """
float32 = "float32"
class Tensor:
    def __init__(self, rows): self.rows = rows
    def reshape(self, *_): return Tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    @property
    def T(self): return self
    def __matmul__(self, other): return Tensor(ROWS)
    def cpu(self): return self
    def tolist(self): return self.rows
def arange(*_, **__): return Tensor([])
class musa:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    get_device_name = staticmethod(lambda index: "Stand-in")
"""

    def modules(self, tree: Tree, rows: str) -> str:
        folder = tree.root.parent / "modules"
        folder.mkdir()
        (folder / "torch.py").write_text(self.TORCH.replace("ROWS", rows))
        (folder / "torch_musa.py").write_text("")
        return str(folder)

    def test_the_probe_passes_on_a_gpu_that_computes(self, tree: Tree) -> None:
        path = self.modules(tree, "[[5.0, 14.0], [14.0, 50.0]]")
        result = tree.run("musa/run.sh", "probe", MUSA_VISIBLE_DEVICES="0", PYTHONPATH=path)
        assert result.returncode == 0, result.stdout

    def test_the_probe_fails_on_a_gpu_that_computes_wrong(self, tree: Tree) -> None:
        path = self.modules(tree, "[[5.0, 14.0], [14.0, 51.0]]")
        result = tree.run("musa/run.sh", "probe", MUSA_VISIBLE_DEVICES="0", PYTHONPATH=path)
        assert result.returncode == 1
        assert "computes wrong" in result.stdout

    @SLOW
    def test_three_rounds_give_the_same_answers(self, tree: Tree) -> None:
        result = tree.run("musa/run.sh", "vllm", MUSA_VISIBLE_DEVICES="0")
        assert result.returncode == 0, result.stdout

    def test_the_gpu_must_be_chosen(self, tree: Tree) -> None:
        result = tree.run("musa/run.sh", "vllm")
        assert result.returncode == 1
        assert "MUSA_VISIBLE_DEVICES is not set" in result.stdout


class TestBaselines:
    """comprehensive/scripts/collect-baselines.sh"""

    def results(self, tree: Tree, **replaced: str) -> None:
        for config in sorted((tree.root / "k3_tests/comprehensive/configs").glob("*.yaml")):
            text = replaced.get(config.stem, '{"cold_seconds": 2.5, "warm_seconds": 1}')
            file = tree.state / "artifacts/artifacts/comprehensive" / f"result-{config.stem}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            if text:
                file.write_text(text)

    def test_what_every_configuration_measured_is_joined(self, tree: Tree) -> None:
        self.results(tree)
        result = tree.run("comprehensive/scripts/collect-baselines.sh")
        assert result.returncode == 0, result.stdout
        joined = json.loads((tree.root / "artifacts/comprehensive/baselines.json").read_text())
        assert joined["layerwise"] == {"cold_seconds": 2.5, "warm_seconds": 1.0}
        assert len(joined) == len(list((tree.root / "k3_tests/comprehensive/configs").glob("*.yaml")))

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"cold_seconds": 1}'])
    def test_a_configuration_without_a_result_is_named(self, tree: Tree, text: str) -> None:
        self.results(tree, layerwise=text)
        result = tree.run("comprehensive/scripts/collect-baselines.sh")
        assert result.returncode == 1, result.stdout
        assert "no result of: layerwise" in result.stdout

    def test_a_store_that_does_not_answer_is_a_failure(self, tree: Tree) -> None:
        script = tree.root / "k3_tests/comprehensive/scripts/collect-baselines.sh"
        script.write_text(script.read_text().replace("retry 3 5", "retry 3 0"))
        result = tree.run("comprehensive/scripts/collect-baselines.sh", STANDIN_FAULT="no-result")
        assert result.returncode == 1
        assert len(tree.calls()) == 3


def test_every_scenario_of_multiprocess_is_a_step_and_every_step_a_scenario() -> None:
    suite = Path(__file__).parents[2] / "k3_tests" / "multiprocess"
    scripts = {file.stem.removeprefix("run-") for file in (suite / "scripts").glob("run-*.sh")}
    text = (suite / "pipeline.yml").read_text()
    steps = {line.split()[2] for line in text.splitlines() if line.strip().startswith("command: ./run.sh")}
    assert steps == scripts


def test_every_configuration_of_comprehensive_is_a_step_and_every_step_a_configuration() -> None:
    suite = Path(__file__).parents[2] / "k3_tests" / "comprehensive"
    configs = {file.stem for file in (suite / "configs").glob("*.yaml")}
    text = (suite / "pipeline.yml").read_text()
    steps = {line.split()[2] for line in text.splitlines() if line.strip().startswith("command: ./run.sh")}
    assert steps == configs


def wait_for(condition: object, seconds: float = 15) -> None:
    """Until `condition()` is true."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
