#!/usr/bin/env bash
# An engine on the CPU, which hands its cache over in shared memory: the path of all hardware that has no handle
# to share. A new engine must find what the first one stored.
#
# usage: k3_tests/multiprocess/scripts/run-cpu-engine.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
MODEL=${BKGEN_MODEL:-facebook/opt-125m}
MAX_MODEL_LEN=2048
GPU_MEMORY_UTILIZATION=0.3
L1_SIZE_GB=${L1_SIZE_GB:-4}
CHUNK_SIZE=128
export VLLM_TARGET_DEVICE=cpu

require_command vllm lmcache curl
artifacts_directory multiprocess

group "Start the cache server"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$port" "$http_port" \
  --supported-transfer-mode engine_driven --shm-name "bkgen-cpu-engine-$$" --no-l1-use-lazy
cache=http://127.0.0.1:$http_port
transfer="$(connector "$port" '"lmcache.mp.mp_transfer_mode":"engine_driven"')"

# OPT takes 2048 tokens: notes of the usual length would be refused.
prompts=()
for subject in tides lichens; do
  prompts+=("$(notes "$subject" 30)The notes go on: ")
done

group "Ask a first engine"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-first.log" "$engine_port" --dtype bfloat16 --kv-transfer-config "$transfer"
ask_cold "http://127.0.0.1:$engine_port" "$cache" "$CACHE_WRITES" "${prompts[@]}"
stop_group "$ENGINE_PID"

group "Ask a second engine"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-second.log" "$engine_port" --dtype bfloat16 --kv-transfer-config "$transfer"
ask_warm "http://127.0.0.1:$engine_port" "$cache" "$CACHE_READS" "${prompts[@]}"
