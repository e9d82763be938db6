#!/usr/bin/env bash
# LMCache's own workload of long documents that are asked about again and again, on an engine with a cache
# (GPU 0) and one without (GPU 1).
#
# usage: k3_tests/multiprocess/scripts/run-long-doc-qa.sh
#
#   DOCUMENTS_GB   size of all documents together, in GB of KV cache (default: 10)
#   MIN_GAIN       how many times faster the first token must come with the cache (default: 1.2)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl python3
require_gpus 2
artifacts_directory multiprocess

group "Start the cache server and two engines"
port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$port" "$http_port"
MAX_MODEL_LEN=16384
cached_port=$(free_port)
CUDA_VISIBLE_DEVICES=0 vllm_up "$LOGS/vllm-cached.log" "$cached_port" --kv-transfer-config "$(connector "$port")"
plain_port=$(free_port)
CUDA_VISIBLE_DEVICES=1 vllm_up "$LOGS/vllm-plain.log" "$plain_port"

# workload NAME PORT: sets TTFT to the mean time to the first token, in milliseconds. The cache server knows how
# many tokens make a GB, so it is named for both.
workload() {
  mkdir -p "$LOGS/$1"
  lmcache bench engine --engine-url "http://127.0.0.1:$2" --model "$MODEL" --workload long-doc-qa \
    --lmcache-url "http://127.0.0.1:$http_port" --kv-cache-volume "${DOCUMENTS_GB:-10}" \
    --ldqa-document-length 10000 --ldqa-query-per-document 2 --ldqa-shuffle-policy tile \
    --json --no-csv --no-interactive --quiet --output-dir "$LOGS/$1"
  TTFT=$(json_value "$LOGS/$1/bench_summary.json" results/mean_ttft_ms)
  log "$1: first token after $TTFT ms on average"
}

group "With the cache"
workload cached "$cached_port"
cached=$TTFT

group "Without it"
workload plain "$plain_port"
plain=$TTFT

awk -v cached="$cached" -v plain="$plain" -v gain="${MIN_GAIN:-1.2}" 'BEGIN { exit !(cached * gain <= plain) }' ||
  die "with the cache the first token took $cached ms, without it $plain ms: less than ${MIN_GAIN:-1.2} times faster"
log "with the cache the first token took $cached ms, without it $plain ms"
