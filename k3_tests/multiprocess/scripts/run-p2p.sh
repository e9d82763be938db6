#!/usr/bin/env bash
# Two cache servers, two engines, one coordinator, all on this machine: engine B has never seen a question, and
# its answers must come out of A's memory, equal to A's.
#
# usage: k3_tests/multiprocess/scripts/run-p2p.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command vllm lmcache curl
require_gpus 2
artifacts_directory multiprocess

group "Start the coordinator"
coordinator_port=$(free_port)
start_server "$LOGS/coordinator.log" lmcache coordinator --host 127.0.0.1 --port "$coordinator_port"
coordinator=http://127.0.0.1:$coordinator_port
wait_until_ready "$SERVER_PID" "$coordinator/healthz" "$CACHE_READY_SECONDS" "$LOGS/coordinator.log"

# side NAME GPU: a cache server that its peers may read from, and an engine on one GPU; sets ENGINE and CACHE.
side() {
  local name=$1 gpu=$2 port http_port engine_port transfer_port
  port=$(free_port)
  http_port=$(free_port)
  transfer_port=$(free_port)
  cache_up "$LOGS/lmcache-$name.log" "$port" "$http_port" --l1-align-bytes 65536 --instance-id "$name" \
    --coordinator-url "$coordinator" --coordinator-advertise-ip 127.0.0.1 \
    --p2p-advertise-url "127.0.0.1:$transfer_port"
  engine_port=$(free_port)
  CUDA_VISIBLE_DEVICES=$gpu vllm_up "$LOGS/vllm-$name.log" "$engine_port" \
    --kv-transfer-config "$(connector "$port")"
  ENGINE=http://127.0.0.1:$engine_port
  CACHE=http://127.0.0.1:$http_port
}

group "Start side A"
side node-a 0
engine_a=$ENGINE cache_a=$CACHE

group "Start side B"
side node-b 1
engine_b=$ENGINE cache_b=$CACHE

group "Wait until B knows A"
peers=0
deadline=$((SECONDS + SETTLE_SECONDS))
until [ "$peers" -ge 1 ]; do
  [ "$SECONDS" -lt "$deadline" ] || die "node-b found no peer in $SETTLE_SECONDS seconds"
  curl --fail --silent --show-error --max-time 10 --output "$LOGS/status-b.json" "$cache_b/status"
  peers=$(json_value "$LOGS/status-b.json" p2p_peer_count)
  sleep 0.5
done
log "node-b sees $peers peer(s)"

long_prompts
group "Ask A"
ask_cold "$engine_a" "$cache_a" "$CACHE_WRITES" "${PROMPTS[@]}"

group "Ask B the same"
ask_warm "$engine_b" "$cache_b" "$CACHE_READS" "${PROMPTS[@]}"
