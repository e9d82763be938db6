#!/usr/bin/env bash
# One model over two GPUs: each rank stores its own share of a cache, and a new engine must put the shares
# together as they were.
#
# usage: k3_tests/multiprocess/scripts/run-tensor-parallel.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl
require_gpus 2
artifacts_directory multiprocess

port=$(free_port)
http_port=$(free_port)
group "Start the cache server"
cache_up "$LOGS/lmcache.log" "$port" "$http_port" --max-workers 2
cache=http://127.0.0.1:$http_port
long_prompts

group "Ask a first engine"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-first.log" "$engine_port" --tensor-parallel-size 2 --kv-transfer-config "$(connector "$port")"
ask_cold "http://127.0.0.1:$engine_port" "$cache" "$CACHE_WRITES" "${PROMPTS[@]}"
stop_group "$ENGINE_PID"

group "Ask a second engine"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-second.log" "$engine_port" --tensor-parallel-size 2 --kv-transfer-config "$(connector "$port")"
ask_warm "http://127.0.0.1:$engine_port" "$cache" "$CACHE_READS" "${PROMPTS[@]}"
