#!/usr/bin/env bash
# Starts vLLM with one configuration of LMCache, asks the same questions with a cold and a warm cache, compares
# the answers, and writes down how long each round took.
#
# usage: k3_tests/comprehensive/run.sh CONFIG
#
# CONFIG is the name of a file in configs/, without .yaml. @SCRATCH@ in it becomes a directory of this job's
# own, which is removed at the end.
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long vLLM may take to load it
#   BKGEN_GPUS            how many GPUs must be seen (default: 1; empty: any number)
#
# Answers, logs and result-CONFIG.json are in artifacts/comprehensive.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
config=${1:-}
template=k3_tests/comprehensive/configs/$config.yaml
if [ $# -ne 1 ] || [ ! -f "$template" ]; then
  known=(k3_tests/comprehensive/configs/*.yaml)
  known=("${known[@]##*/}")
  log "usage: run.sh CONFIG, which is one of ${known[*]%.yaml}"
  exit 2
fi
export BKGEN_GPUS=${BKGEN_GPUS-1}
export BKGEN_INSTALL=${BKGEN_INSTALL-"vllm lmcache"}
export BKGEN_PROBE=${BKGEN_PROBE-"vllm --version"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_command vllm curl python3
artifacts_directory comprehensive

group "Start vLLM with $template"
scratch=$(scratch_directory)
sed "s|@SCRATCH@|$scratch|g" "$template" >"$LOGS/$config.yaml"
export LMCACHE_CONFIG_FILE=$PWD/$LOGS/$config.yaml
port=$(free_port)
vllm_up "$LOGS/vllm.log" "$port" \
  --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
engine=http://127.0.0.1:$port
long_prompts

group "Ask with a cold cache"
started=$EPOCHREALTIME
ask_cold "$engine" "$engine" "" "${PROMPTS[@]}"
between=$EPOCHREALTIME

group "Ask with a warm cache"
ask_warm "$engine" "$engine" "$ENGINE_HITS" "${PROMPTS[@]}"
ended=$EPOCHREALTIME

result=$LOGS/result-$config.json
# The locale may write the seconds with a comma.
awk -v config="$config" -v a="${started/,/.}" -v b="${between/,/.}" -v c="${ended/,/.}" \
  'BEGIN { printf "{\"config\": \"%s\", \"cold_seconds\": %.3f, \"warm_seconds\": %.3f}\n", config, b - a, c - b }' \
  >"$result"
cat "$result"
