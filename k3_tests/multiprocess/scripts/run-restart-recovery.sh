#!/usr/bin/env bash
# The engine ends and a new one starts, while the cache server lives on: the new one must find all that the old
# one stored.
#
# usage: k3_tests/multiprocess/scripts/run-restart-recovery.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl
require_gpus 1
artifacts_directory multiprocess

group "Start the cache server"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$port" "$http_port"
cache=http://127.0.0.1:$http_port
long_prompts

group "Ask a first engine"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-first.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
ask_cold "http://127.0.0.1:$engine_port" "$cache" "$CACHE_WRITES" "${PROMPTS[@]}"

group "Stop it, start a second one, and ask again"
stop_group "$ENGINE_PID"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-second.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
ask_warm "http://127.0.0.1:$engine_port" "$cache" "$CACHE_READS" "${PROMPTS[@]}"
