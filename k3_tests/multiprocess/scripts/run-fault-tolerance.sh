#!/usr/bin/env bash
# The cache server dies under a running engine. Users must get the same answers, computed again; and when a
# server is back, so must they still.
#
# usage: k3_tests/multiprocess/scripts/run-fault-tolerance.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl
require_gpus 1
artifacts_directory multiprocess

group "Start the cache server and the engine"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache-first.log" "$port" "$http_port"
engine_port=$(free_port)
vllm_up "$LOGS/vllm.log" "$engine_port" \
  --kv-transfer-config "$(connector "$port" '"lmcache.mp.heartbeat_interval":2,"lmcache.mp.mq_timeout":20')"
engine=http://127.0.0.1:$engine_port
long_prompts
ask_cold "$engine" "http://127.0.0.1:$http_port" "$CACHE_WRITES" "${PROMPTS[@]}"

group "Stop the cache server and ask on"
stop_group "$CACHE_PID"
ask_each "$engine" "$LOGS/without-cache.txt" "${PROMPTS[@]}"
same_answers "$LOGS/cold.txt" "$LOGS/without-cache.txt"

group "Start it anew and ask on"
cache_up "$LOGS/lmcache-second.log" "$port" "$http_port"
ask_each "$engine" "$LOGS/with-new-cache.txt" "${PROMPTS[@]}"
same_answers "$LOGS/cold.txt" "$LOGS/with-new-cache.txt"
