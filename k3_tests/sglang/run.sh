#!/usr/bin/env bash
# Starts a cache server and SGLang.
#
# usage: k3_tests/sglang/run.sh correctness|speed
#
#   correctness   asks, drops what SGLang itself remembers, asks again: the same answers, out of LMCache
#   speed         LMCache's workload of long documents with the cache, then without: sooner with it
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long SGLang may take to load it
#   BKGEN_GPUS            how many GPUs must be seen (default: 1; empty: any number)
#   DOCUMENTS_GB          speed: size of all documents together, in GB of KV cache (default: 15)
#   MIN_GAIN              speed: how many times faster the first token must come with the cache (default: 1.2)
#
# Answers and logs are in artifacts/sglang.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
case ${1:-} in
correctness | speed) ;;
*)
  log "usage: run.sh correctness|speed"
  exit 2
  ;;
esac
export BKGEN_GPUS=${BKGEN_GPUS-1}
export BKGEN_INSTALL=${BKGEN_INSTALL-"sglang lmcache"}
export BKGEN_PROBE=${BKGEN_PROBE-"sglang version"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_command sglang lmcache curl python3
artifacts_directory sglang

group "Start the cache server"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$port" "$http_port"
cache=http://127.0.0.1:$http_port
printf 'mp_host: 127.0.0.1\nmp_port: %d\n' "$port" >"$LOGS/lmcache.yaml"

# sglang_up LOG [OPTION…]: sets ENGINE.
sglang_up() {
  local log=$1 engine_port
  shift
  engine_port=$(free_port)
  engine_up "$log" "$engine_port" sglang serve --model-path "$MODEL" --host 127.0.0.1 --port "$engine_port" \
    --context-length 16384 --mem-fraction-static "${MEM_FRACTION:-0.8}" "$@"
  ENGINE=http://127.0.0.1:$engine_port
}

correctness() {
  group "Start SGLang"
  sglang_up "$LOGS/sglang.log" --enable-lmcache --lmcache-config-file "$LOGS/lmcache.yaml"
  long_prompts

  group "Ask with a cold cache"
  ask_cold "$ENGINE" "$cache" "$CACHE_WRITES" "${PROMPTS[@]}"

  group "Drop what SGLang remembers, and ask again"
  curl --fail --silent --show-error --max-time 30 --request POST "$ENGINE/flush_cache"
  ask_warm "$ENGINE" "$cache" "$CACHE_READS" "${PROMPTS[@]}"
}

# workload NAME: sets TTFT to the mean time to the first token, in milliseconds.
workload() {
  mkdir -p "$LOGS/$1"
  lmcache bench engine --engine-url "$ENGINE" --model "$MODEL" --workload long-doc-qa \
    --tokens-per-gb-kvcache "${TOKENS_PER_GB:-9000}" --kv-cache-volume "${DOCUMENTS_GB:-15}" \
    --ldqa-document-length 10000 --ldqa-query-per-document 2 --ldqa-shuffle-policy tile \
    --json --no-csv --no-interactive --quiet --output-dir "$LOGS/$1"
  TTFT=$(json_value "$LOGS/$1/bench_summary.json" results/mean_ttft_ms)
  log "$1: first token after $TTFT ms on average"
}

speed() {
  local cached
  group "With the cache"
  sglang_up "$LOGS/sglang-cached.log" --enable-lmcache --lmcache-config-file "$LOGS/lmcache.yaml"
  workload cached
  cached=$TTFT
  stop_group "$ENGINE_PID"

  group "Without it"
  sglang_up "$LOGS/sglang-plain.log"
  workload plain
  awk -v cached="$cached" -v plain="$TTFT" -v gain="${MIN_GAIN:-1.2}" 'BEGIN { exit !(cached * gain <= plain) }' ||
    die "with the cache the first token took $cached ms, without it $TTFT ms: less than ${MIN_GAIN:-1.2} times faster"
  log "with the cache the first token took $cached ms, without it $TTFT ms"
}

"$1"
