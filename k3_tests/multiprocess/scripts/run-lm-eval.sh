#!/usr/bin/env bash
# A benchmark of many short problems, twice: once computed, once out of the cache. Both scores must agree, and
# must be those of a working model.
#
# usage: k3_tests/multiprocess/scripts/run-lm-eval.sh lmcache_driven|engine_driven
#
# The argument says who copies the cache: LMCache, out of the GPU's memory, or the engine, through shared memory.
#
#   PROBLEMS          how many problems (default: 200)
#   SCORE_TOLERANCE   how far the two scores may differ (default: 0.01)
#   SCORE_MINIMUM     what a working model reaches (default: 0.2)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
mode=${1:-}
options=()
case $mode in
lmcache_driven) ;;
engine_driven) options=(--supported-transfer-mode engine_driven --shm-name "bkgen-lm-eval-$$" --no-l1-use-lazy) ;;
*)
  log "usage: run-lm-eval.sh lmcache_driven|engine_driven"
  exit 2
  ;;
esac

require_command vllm lmcache lm_eval curl python3
require_gpus 1
artifacts_directory multiprocess

group "Start the cache server and the engine ($mode)"
port=$(free_port)
http_port=$(free_port)
L1_SIZE_GB=${L1_SIZE_GB:-80} cache_up "$LOGS/lmcache.log" "$port" "$http_port" "${options[@]}"
engine_port=$(free_port)
vllm_up "$LOGS/vllm.log" "$engine_port" \
  --kv-transfer-config "$(connector "$port" "\"lmcache.mp.mp_transfer_mode\":\"$mode\"")"

# evaluate NAME: sets SCORE to the share of exact answers.
evaluate() {
  local reports
  lm_eval --model local-completions --tasks gsm8k --limit "${PROBLEMS:-200}" --output_path "$LOGS/$1" \
    --model_args "model=$MODEL,base_url=http://127.0.0.1:$engine_port/v1/completions,num_concurrent=16,max_retries=3,tokenized_requests=False"
  mapfile -t reports < <(find "$LOGS/$1" -name 'results_*.json')
  [ "${#reports[@]}" -eq 1 ] || die "$1: ${#reports[@]} reports instead of one in $LOGS/$1"
  SCORE=$(json_value "${reports[0]}" "results/gsm8k/exact_match,strict-match")
  log "$1: score $SCORE"
}

group "Computed"
evaluate computed
computed=$SCORE

group "Out of the cache"
before=$(counter "http://127.0.0.1:$http_port" "$CACHE_READS")
evaluate cached
wait_for_more "http://127.0.0.1:$http_port" "$CACHE_READS" "$before" "the second round came from the cache"

within "${SCORE_TOLERANCE:-0.01}" "$computed" "$SCORE" "scores, computed and out of the cache"
awk -v score="$computed" -v least="${SCORE_MINIMUM:-0.2}" 'BEGIN { exit !(score >= least) }' ||
  die "a score of $computed is not that of a working model"
