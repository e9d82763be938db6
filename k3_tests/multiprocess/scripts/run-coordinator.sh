#!/usr/bin/env bash
# The coordinator of a fleet: it lists the cache servers that announce themselves, and forgets one that is gone.
# Needs neither a GPU nor a model.
#
# usage: k3_tests/multiprocess/scripts/run-coordinator.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

require_command lmcache curl python3
artifacts_directory multiprocess

group "Start the coordinator and two cache servers"
coordinator_port=$(free_port)
coordinator=http://127.0.0.1:$coordinator_port
start_server "$LOGS/coordinator.log" lmcache coordinator --host 127.0.0.1 --port "$coordinator_port" \
  --instance-timeout 5 --health-check-interval 1
wait_until_ready "$SERVER_PID" "$coordinator/healthz" "$CACHE_READY_SECONDS" "$LOGS/coordinator.log"
L1_SIZE_GB=1
for name in node-a node-b; do
  port=$(free_port)
  http_port=$(free_port)
  cache_up "$LOGS/lmcache-$name.log" "$port" "$http_port" --instance-id "$name" \
    --coordinator-url "$coordinator" --coordinator-advertise-ip 127.0.0.1 --coordinator-heartbeat-interval 1
done

# fleet NAME…: waits until the coordinator lists exactly these servers.
fleet() {
  local expected="$*" current="" deadline=$((SECONDS + SETTLE_SECONDS))
  while :; do
    curl --fail --silent --show-error --max-time 10 --output "$LOGS/instances.json" "$coordinator/instances"
    current=$(python3 -c 'import json, sys
print(*sorted(instance["instance_id"] for instance in json.load(open(sys.argv[1]))["instances"]))' "$LOGS/instances.json")
    [ "$current" != "$expected" ] || break
    [ "$SECONDS" -lt "$deadline" ] || die "the coordinator lists '$current', not '$expected'"
    sleep 0.5
  done
  log "the coordinator lists $current"
}

group "Both are current"
fleet node-a node-b

group "One is gone"
stop_group "$CACHE_PID"
fleet node-a
