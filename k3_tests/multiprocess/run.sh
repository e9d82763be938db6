#!/usr/bin/env bash
# Prepares the machine for one scenario of multiprocess mode and runs it.
#
# usage: k3_tests/multiprocess/run.sh SCENARIO [ARGUMENT…]
#
# SCENARIO is a script of scripts/, without run- and .sh. On a machine that is prepared already, the script
# can be started by itself.
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long an engine may take to load it
#
# Answers and logs are in artifacts/multiprocess.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
scripts=k3_tests/multiprocess/scripts
script=$scripts/run-${1:-}.sh
if [ ! -f "$script" ]; then
  known=("$scripts"/run-*.sh)
  known=("${known[@]#"$scripts"/run-}")
  log "usage: run.sh SCENARIO, which is one of ${known[*]%.sh}"
  exit 2
fi
shift

packages="vllm lmcache"
case $script in
*/run-p2p.sh) packages="vllm lmcache[nixl]" ;;
*/run-lm-eval.sh) packages="vllm lmcache lm-eval[api]" ;;
*/run-coordinator.sh) packages="lmcache" ;;
esac
export BKGEN_INSTALL=${BKGEN_INSTALL-$packages}
export BKGEN_PROBE=${BKGEN_PROBE-"lmcache --help"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

# In this shell, not in a child: what Buildkite signals is then what must stop the scenario's servers.
# shellcheck source=/dev/null
source "$script" "$@"
