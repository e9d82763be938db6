#!/usr/bin/env bash
# vLLM on an Intel GPU with a cache server: the engine hands its cache over in shared memory, and requests go over
# the transport that is named. The warm answers must come out of the cache and be the cold ones.
#
# usage: k3_tests/xpu/run.sh zmq|grpc
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long vLLM may take to load it
#   BKGEN_GPUS            how many GPUs must be seen (default: 1; empty: any number); needs xpu-smi
#
# Answers and logs are in artifacts/xpu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
case ${1:-} in
zmq) CACHE_SCHEME=tcp ;;
grpc) CACHE_SCHEME=grpc ;;
*)
  log "usage: run.sh zmq|grpc"
  exit 2
  ;;
esac
if command -v xpu-smi >/dev/null 2>&1; then
  export BKGEN_GPU_VENDOR=intel
  export BKGEN_GPUS=${BKGEN_GPUS-1}
else
  # vLLM's image for Intel GPUs does not bring the tool. Failing here would fail every job.
  log "xpu-smi is not in this image: nobody looks whether the GPU is free before vLLM starts"
  log "  hint: add xpu-smi to the image; then this job ends with status 78 on a sick GPU and is retried elsewhere"
  export BKGEN_GPUS=any
fi
export BKGEN_INSTALL=${BKGEN_INSTALL-"lmcache"}
export BKGEN_PROBE=${BKGEN_PROBE-"vllm --version"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_command vllm lmcache curl
artifacts_directory xpu

group "Start the cache server and vLLM ($1)"
port=$(free_port)
http_port=$(free_port)
L1_SIZE_GB=${L1_SIZE_GB:-40} cache_up "$LOGS/lmcache.log" "$port" "$http_port" --transport "$1" \
  --supported-transfer-mode engine_driven --shm-name "bkgen-xpu-$$" --no-l1-use-lazy
engine_port=$(free_port)
vllm_up "$LOGS/vllm.log" "$engine_port" --enforce-eager \
  --kv-transfer-config "$(connector "$port" '"lmcache.mp.mp_transfer_mode":"engine_driven"')"
engine=http://127.0.0.1:$engine_port
cache=http://127.0.0.1:$http_port
long_prompts

group "Ask with a cold cache"
ask_cold "$engine" "$cache" "$CACHE_WRITES" "${PROMPTS[@]}"

group "Ask with a warm cache"
ask_warm "$engine" "$cache" "$CACHE_READS" "${PROMPTS[@]}"
