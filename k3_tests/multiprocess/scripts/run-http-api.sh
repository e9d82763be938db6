#!/usr/bin/env bash
# The cache server's HTTP interface: health, status, configuration, version and metrics answer, and what is
# cleared is gone.
#
# usage: k3_tests/multiprocess/scripts/run-http-api.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl python3
require_gpus 1
artifacts_directory multiprocess

group "Start the cache server and the engine"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$port" "$http_port"
cache=http://127.0.0.1:$http_port
engine_port=$(free_port)
vllm_up "$LOGS/vllm.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
engine=http://127.0.0.1:$engine_port

# fetch NAME PATH [OPTION…]: the body of a successful answer, into NAME.json.
fetch() {
  local file=$LOGS/$1.json url=$cache$2
  shift 2
  curl --fail --silent --show-error --max-time 30 --output "$file" "$@" "$url"
}

# is FILE PATH VALUE: fails unless the JSON file says so.
is() {
  local got
  got=$(json_value "$LOGS/$1.json" "$2")
  [ "$got" = "$3" ] || die "$1: $2 is '$got', not '$3'"
  log "$1: $2 is $got"
}

group "Health, status, configuration"
fetch healthcheck /healthcheck
is healthcheck status healthy
fetch status /status
is status is_healthy True
is status chunk_size "${CHUNK_SIZE:-256}"
fetch conf /conf
is conf mp/http_port "$http_port"
fetch version /version

group "Metrics follow what happens"
long_prompts
ask_cold "$engine" "$cache" "$CACHE_WRITES" "${PROMPTS[@]}"
ask_warm "$engine" "$cache" "$CACHE_READS" "${PROMPTS[@]}"

group "What is cleared is gone"
fetch clear-cache /clear-cache --request POST
is clear-cache status ok
before=$(counter "$cache" lmcache_mp_lookup_hit_tokens_total)
ask_each "$engine" "$LOGS/cleared.txt" "${PROMPTS[@]}"
after=$(counter "$cache" lmcache_mp_lookup_hit_tokens_total)
[ "$after" -eq "$before" ] || die "$((after - before)) tokens were found in a cache that had been cleared"
same_answers "$LOGS/cold.txt" "$LOGS/cleared.txt"
