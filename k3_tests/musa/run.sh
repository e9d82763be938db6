#!/usr/bin/env bash
# Moore Threads GPUs on a bare-metal machine.
#
# usage: k3_tests/musa/run.sh probe|vllm
#
#   probe   torch computes on the GPU, and a cache server starts and stops
#   vllm    vLLM without a cache, with a cold one and with a warm one: three times the same answers
#
#   MUSA_VISIBLE_DEVICES   the GPU to use; must be set
#   BKGEN_MODEL            the model that is served
#   BKGEN_READY_SECONDS    how long vLLM may take to load it
#
# Answers and logs are in artifacts/musa.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
case ${1:-} in
probe | vllm) ;;
*)
  log "usage: run.sh probe|vllm"
  exit 2
  ;;
esac
[ -n "${MUSA_VISIBLE_DEVICES:-}" ] || die "MUSA_VISIBLE_DEVICES is not set; pipeline.yml or the agent sets it"
export LMCACHE_DEVICE_BACKEND=musa
# gpu-health.sh reads no tool of this vendor's, so the pod's or the machine's number of GPUs cannot be compared. What
# the probe computes on the GPU is the only look at it.
log "no tool for Moore Threads GPUs is known to the harness: nobody looks whether the GPU is free"
export BKGEN_GPUS=0
# The machine keeps its own environment of MUSA, torch and vLLM; nothing is installed over it.
export BKGEN_INSTALL=${BKGEN_INSTALL-}
export BKGEN_PROBE=${BKGEN_PROBE-}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

artifacts_directory musa

probe() {
  local port http_port
  require_command python3 lmcache curl
  group "torch on the GPU"
  python3 - <<'PYTHON'
import torch
import torch_musa  # noqa: F401 - adds torch.musa

if not torch.musa.is_available():
    raise SystemExit("torch.musa sees no GPU")
print(torch.musa.device_count(), "GPU(s), the first is", torch.musa.get_device_name(0))
left = torch.arange(6, dtype=torch.float32, device="musa:0").reshape(2, 3)
product = (left @ left.T).cpu().tolist()
if product != [[5.0, 14.0], [14.0, 50.0]]:
    raise SystemExit(f"the GPU computes wrong: {product}")
PYTHON

  group "A cache server starts and stops"
  port=$(free_port)
  http_port=$(free_port)
  L1_SIZE_GB=1 cache_up "$LOGS/lmcache.log" "$port" "$http_port" --no-l1-use-lazy
  stop_group "$CACHE_PID"
}

vllm_round() {
  local log=$1 port
  shift
  port=$(free_port)
  vllm_up "$log" "$port" --enforce-eager "$@"
  ENGINE=http://127.0.0.1:$port
}

engine_rounds() {
  require_command vllm curl
  GPU_MEMORY_UTILIZATION=${GPU_MEMORY_UTILIZATION:-0.5}
  long_prompts
  group "Without a cache"
  vllm_round "$LOGS/vllm-plain.log"
  ask_each "$ENGINE" "$LOGS/plain.txt" "${PROMPTS[@]}"
  stop_group "$ENGINE_PID"

  group "With a cold cache, then with a warm one"
  export LMCACHE_CHUNK_SIZE=256 LMCACHE_LOCAL_CPU=true LMCACHE_MAX_LOCAL_CPU_SIZE=4
  vllm_round "$LOGS/vllm.log" --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
  ask_cold "$ENGINE" "$ENGINE" "" "${PROMPTS[@]}"
  same_answers "$LOGS/plain.txt" "$LOGS/cold.txt"
  ask_warm "$ENGINE" "$ENGINE" "$ENGINE_HITS" "${PROMPTS[@]}"
}

case $1 in
probe) probe ;;
vllm) engine_rounds ;;
esac
