#!/usr/bin/env bash
# Non-prefix reuse (CacheBlend): a document that was read once is taken from the cache although another one stands
# in front of it now.
#
# usage: k3_tests/blend/run.sh reorder|permute
#
#   reorder   two documents, then the same two the other way round: chunks must be read, and facts still be found
#   permute   LMCache's own workload of many orders
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long vLLM may take to load it
#   BKGEN_GPUS            how many GPUs must be seen (default: 1; empty: any number)
#   KV_CONNECTOR          vLLM's connector (default: LMCacheMPConnector)
#
# Answers and logs are in artifacts/blend.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
case ${1:-} in
reorder | permute) ;;
*)
  log "usage: run.sh reorder|permute"
  exit 2
  ;;
esac
export BKGEN_GPUS=${BKGEN_GPUS-1}
export BKGEN_INSTALL=${BKGEN_INSTALL-"vllm lmcache"}
export BKGEN_PROBE=${BKGEN_PROBE-"vllm --version"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_command vllm lmcache curl
artifacts_directory blend

group "Start the blending cache server and vLLM"
port=$(free_port)
http_port=$(free_port)
L1_SIZE_GB=${L1_SIZE_GB:-40} cache_up "$LOGS/lmcache.log" "$port" "$http_port" --engine-type blend
cache=http://127.0.0.1:$http_port
engine_port=$(free_port)
MAX_MODEL_LEN=32768
vllm_up "$LOGS/vllm.log" "$engine_port" --kv-transfer-config "$(connector "$port")"
engine=http://127.0.0.1:$engine_port

# contains FILE WORD: fails unless the answers in FILE name WORD.
contains() {
  grep -q -- "$2" "$1" || die "no answer in $1 names $2"
}

reorder() {
  local first second question before
  first="$(notes "the northern harbour")The harbour master of the north is called Ysolde. "
  second="$(notes "the southern harbour")The harbour master of the south is called Tancred. "
  question="What are the names of the two harbour masters? Answer:"

  group "Read both documents"
  before=$(counter "$cache" "$CACHE_WRITES")
  ask_each "$engine" "$LOGS/first-order.txt" "$first$second$question"
  wait_for_more "$cache" "$CACHE_WRITES" "$before" "the documents were stored"
  contains "$LOGS/first-order.txt" Ysolde
  contains "$LOGS/first-order.txt" Tancred

  group "Read them the other way round"
  before=$(counter "$cache" "$CACHE_READS")
  ask_each "$engine" "$LOGS/second-order.txt" "$second$first$question"
  wait_for_more "$cache" "$CACHE_READS" "$before" "the documents were reused out of their place"
  contains "$LOGS/second-order.txt" Ysolde
  contains "$LOGS/second-order.txt" Tancred
}

permute() {
  local before
  group "Many orders of four documents"
  before=$(counter "$cache" "$CACHE_READS")
  lmcache bench engine --engine-url "$engine" --model "$MODEL" --workload long-doc-permutator \
    --lmcache-url "$cache" --kv-cache-volume "${DOCUMENTS_GB:-20}" \
    --ldp-num-contexts 4 --ldp-context-length 4000 --ldp-num-permutations 20 --ldp-num-inflight-requests 2 \
    --json --no-csv --no-interactive --quiet --output-dir "$LOGS"
  wait_for_more "$cache" "$CACHE_READS" "$before" "documents were reused out of their place"
  log "first token after $(json_value "$LOGS/bench_summary.json" results/mean_ttft_ms) ms on average"
}

"$1"
