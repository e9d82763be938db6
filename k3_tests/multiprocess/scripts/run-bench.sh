#!/usr/bin/env bash
# The same load on an engine with a cache (GPU 0) and on one without (GPU 1), twice. Every request must be
# answered, and the second round with the cache must not be slower to its first token than without it.
#
# usage: k3_tests/multiprocess/scripts/run-bench.sh
#
#   NUM_PROMPTS   requests of a round (default: 100)
#   MAX_RATIO     how many times the plain engine's time the cached one may take (default: 1.0)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl python3
require_gpus 2
artifacts_directory multiprocess
prompts=${NUM_PROMPTS:-100}

group "Start the cache server and two engines"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$port" "$http_port"
cached_port=$(free_port)
CUDA_VISIBLE_DEVICES=0 vllm_up "$LOGS/vllm-cached.log" "$cached_port" --kv-transfer-config "$(connector "$port")"
plain_port=$(free_port)
CUDA_VISIBLE_DEVICES=1 vllm_up "$LOGS/vllm-plain.log" "$plain_port"

# bench NAME PORT: one round; sets TTFT to the mean time to the first token, in milliseconds.
bench() {
  local completed
  vllm bench serve --backend vllm --model "$MODEL" --base-url "http://127.0.0.1:$2" --endpoint /v1/completions \
    --dataset-name random --random-input-len 4000 --random-output-len 16 --num-prompts "$prompts" --seed 7 \
    --max-concurrency 8 --save-result --result-dir "$LOGS" --result-filename "$1.json"
  completed=$(json_value "$LOGS/$1.json" completed)
  [ "$completed" = "$prompts" ] || die "$1: $completed of $prompts requests were answered"
  TTFT=$(json_value "$LOGS/$1.json" mean_ttft_ms)
  log "$1: first token after $TTFT ms on average"
}

group "First round"
bench cached-first "$cached_port"
bench plain-first "$plain_port"

group "Second round"
bench cached-second "$cached_port"
cached=$TTFT
bench plain-second "$plain_port"
plain=$TTFT

reads=$(counter "http://127.0.0.1:$http_port" "$CACHE_READS")
[ "$reads" -gt 0 ] || die "the second round read nothing from the cache"
awk -v cached="$cached" -v plain="$plain" -v most="${MAX_RATIO:-1.0}" 'BEGIN { exit !(cached <= plain * most) }' ||
  die "with the cache the first token took $cached ms, without it $plain ms"
log "with the cache the first token took $cached ms, without it $plain ms"
