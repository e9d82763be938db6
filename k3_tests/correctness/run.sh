#!/usr/bin/env bash
# Starts vLLM with LMCache inside, asks every question of questions.txt twice, and compares the answers. The
# first round is computed; the second must come from the cache, and must not differ by a letter.
#
# usage: k3_tests/correctness/run.sh
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long vLLM may take to load it
#   BKGEN_GPUS            how many GPUs must be seen (default: 1; empty: any number)
#
# Answers and logs are in artifacts/correctness.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
export BKGEN_GPUS=${BKGEN_GPUS-1}
export BKGEN_INSTALL=${BKGEN_INSTALL-"vllm lmcache"}
export BKGEN_PROBE=${BKGEN_PROBE-"vllm --version"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_command vllm curl
artifacts_directory correctness

group "Start vLLM with LMCache"
export LMCACHE_CHUNK_SIZE=256
export LMCACHE_LOCAL_CPU=true
export LMCACHE_MAX_LOCAL_CPU_SIZE=${LMCACHE_MAX_LOCAL_CPU_SIZE:-10}
port=$(free_port)
vllm_up "$LOGS/vllm.log" "$port" \
  --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
engine=http://127.0.0.1:$port

questions=()
while IFS= read -r question; do
  # Each question has notes of its own in front: a common beginning would be cached after the first one.
  questions+=("$(notes "day ${#questions[@]}")$question")
done <k3_tests/correctness/questions.txt

group "Ask ${#questions[@]} questions with a cold cache"
ask_cold "$engine" "$engine" "" "${questions[@]}"

group "Ask them again with a warm cache"
ask_warm "$engine" "$engine" "$ENGINE_HITS" "${questions[@]}"
