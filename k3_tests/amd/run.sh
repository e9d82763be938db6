#!/usr/bin/env bash
# AMD GPUs on a bare-metal machine.
#
# usage: k3_tests/amd/run.sh probe|in-process|multiprocess
#
#   probe          the GPUs are there and free, and a cache server starts and stops
#   in-process     vLLM with LMCache inside, cold and warm
#   multiprocess   vLLM with a cache server, cold and warm
#
#   HIP_VISIBLE_DEVICES   the GPU to use (default: 0)
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long vLLM may take to load it
#
# Answers and logs are in artifacts/amd.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
case ${1:-} in
probe | in-process | multiprocess) ;;
*)
  log "usage: run.sh probe|in-process|multiprocess"
  exit 2
  ;;
esac
# The machine keeps its own environment of ROCm and vLLM; nothing is installed over it. All of its GPUs are looked
# at, whichever one is used.
export BKGEN_GPU_VENDOR=amd
export BKGEN_INSTALL=${BKGEN_INSTALL-}
export BKGEN_PROBE=${BKGEN_PROBE-}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_gpus 1
export HIP_VISIBLE_DEVICES=${HIP_VISIBLE_DEVICES:-0}
artifacts_directory amd

probe() {
  local port http_port
  require_command lmcache curl
  group "A cache server starts and stops"
  port=$(free_port)
  http_port=$(free_port)
  L1_SIZE_GB=1 cache_up "$LOGS/lmcache.log" "$port" "$http_port"
  stop_group "$CACHE_PID"
}

in-process() {
  local port engine
  require_command vllm curl
  group "Start vLLM with LMCache"
  export LMCACHE_CHUNK_SIZE=256 LMCACHE_LOCAL_CPU=true LMCACHE_MAX_LOCAL_CPU_SIZE=10
  port=$(free_port)
  vllm_up "$LOGS/vllm.log" "$port" --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
  engine=http://127.0.0.1:$port
  long_prompts
  group "Ask with a cold cache, then with a warm one"
  ask_cold "$engine" "$engine" "" "${PROMPTS[@]}"
  ask_warm "$engine" "$engine" "$ENGINE_HITS" "${PROMPTS[@]}"
}

multiprocess() {
  local port http_port engine_port engine
  require_command vllm lmcache curl
  group "Start the cache server and vLLM"
  port=$(free_port)
  http_port=$(free_port)
  cache_up "$LOGS/lmcache.log" "$port" "$http_port"
  engine_port=$(free_port)
  vllm_up "$LOGS/vllm.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
  engine=http://127.0.0.1:$engine_port
  long_prompts
  group "Ask with a cold cache, then with a warm one"
  ask_cold "$engine" "http://127.0.0.1:$http_port" "$CACHE_WRITES" "${PROMPTS[@]}"
  ask_warm "$engine" "http://127.0.0.1:$http_port" "$CACHE_READS" "${PROMPTS[@]}"
}

"$1"
