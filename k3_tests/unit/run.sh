#!/usr/bin/env bash
# bkgen's own tests with coverage, on any machine with Python 3.10 or newer; no GPU is needed.
#
# usage: k3_tests/unit/run.sh [PYTEST-ARGUMENT…]
#
#   BKGEN_UNIT_TESTS   what to run, separated by blanks (default: tests)
#   BKGEN_UNIT_JOBS    processes that run tests side by side (default: 2)
#
# Report, coverage and durations are in artifacts/unit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"

# Some of the tests start this script. Without a selection of their own they would start all tests again,
# and those this script again, without end.
if [ -n "${BKGEN_UNIT_RUNNING:-}" ] && [ -z "${BKGEN_UNIT_TESTS:-}" ]; then
  die "a test started run.sh without BKGEN_UNIT_TESTS"
fi
export BKGEN_UNIT_RUNNING=1

# The virtual environment of ./dev, made here where there is none. Whoever sets BKGEN_INSTALL has a python3 of
# his own on the path.
if [ -z "${BKGEN_INSTALL+set}" ]; then
  [ -x .venv/bin/python3 ] || python3 -m venv .venv
  [ -f .venv/.bkgen-setup ] || export BKGEN_INSTALL="--editable .[dev]"
  export PATH=$PWD/.venv/bin:$PATH
fi
export BKGEN_GPUS=${BKGEN_GPUS-0}
export BKGEN_PROBE=${BKGEN_PROBE-"python3 -c 'import bkgen, pytest'"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

artifacts_directory unit
read -ra selection <<<"${BKGEN_UNIT_TESTS:-tests}"
mapfile -t shard < <(shard_args)

group "Tests"
status=0
python3 -m pytest -n "${BKGEN_UNIT_JOBS:-2}" --dist worksteal "${shard[@]}" \
  --junitxml "$LOGS/junit.xml" --durations 20 \
  --cov bkgen --cov-report "xml:$LOGS/coverage.xml" --cov-report "html:$LOGS/coverage" \
  "$@" "${selection[@]}" || status=$?
shard_status "$status" python3 -m pytest "$@" "${selection[@]}"
