#!/usr/bin/env bash
# A second tier on disk: the cache server is stopped, memory and all, and a new one must serve the old answers
# from its files.
#
# usage: k3_tests/multiprocess/scripts/run-disk-tier.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl
require_gpus 1
artifacts_directory multiprocess

port=$(free_port)
http_port=$(free_port)
on_exit true # so that the directory is removed at the end, also when this script is started by itself
disk=$(scratch_directory)
options=(--l2-adapter "{\"type\": \"fs\", \"base_path\": \"$disk\", \"checksum\": \"crc32\"}")
cache=http://127.0.0.1:$http_port
long_prompts

group "Ask with an empty disk"
cache_up "$LOGS/lmcache-first.log" "$port" "$http_port" "${options[@]}"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-first.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
ask_cold "http://127.0.0.1:$engine_port" "$cache" lmcache_mp_l2_store_completed_requests_total "${PROMPTS[@]}"
stop_group "$ENGINE_PID"
stop_group "$CACHE_PID"
files=$(find "$disk" -type f -name '*.data' | wc -l)
[ "$files" -gt 0 ] || die "nothing was written to $disk"
log "$files files on disk"

group "Ask again with an empty memory"
cache_up "$LOGS/lmcache-second.log" "$port" "$http_port" "${options[@]}"
engine_port=$(free_port)
vllm_up "$LOGS/vllm-second.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
ask_warm "http://127.0.0.1:$engine_port" "$cache" lmcache_mp_lookup_hit_l2_tokens_total "${PROMPTS[@]}"
