# shellcheck shell=bash
#
# Part of ../lib.sh: one test run, split over several jobs.

# shard_args
# Prints the test runner's arguments for this job, one a line; nothing for a job that is not one of several:
#   mapfile -t args < <(shard_args)
#   pytest "${args[@]}" tests
# BKGEN_SHARDS_BY says how the tests are split: none (the default), pytest-shard, pytest-split. Buildkite says
# which part this job is (BUILDKITE_PARALLEL_JOB, from 0) and of how many (BUILDKITE_PARALLEL_JOB_COUNT).
# BKGEN_SHARDS_DURATIONS names pytest-split's file of durations. On an error it prints, besides the message,
# one argument that no runner knows: the status of `<( )` is lost, and without arguments every job would
# quietly run all tests.
shard_args() {
  local by=${BKGEN_SHARDS_BY:-none} job=${BUILDKITE_PARALLEL_JOB:-} count=${BUILDKITE_PARALLEL_JOB_COUNT:-}
  case "$by" in
  none) return 0 ;;
  pytest-shard | pytest-split) ;;
  balanced)
    _bkgen_no_shards "BKGEN_SHARDS_BY=balanced is reserved; use none, pytest-shard or pytest-split"
    return
    ;;
  *)
    _bkgen_no_shards "BKGEN_SHARDS_BY is '$by'; known: none, pytest-shard, pytest-split"
    return
    ;;
  esac
  if [ -z "$job" ] && [ -z "$count" ]; then
    return 0
  fi
  if [[ ! $job =~ ^(0|[1-9][0-9]{0,5})$ || ! $count =~ ^[1-9][0-9]{0,5}$ ]] || ((job >= count)); then
    _bkgen_no_shards "BUILDKITE_PARALLEL_JOB '$job' of BUILDKITE_PARALLEL_JOB_COUNT '$count' is no shard"
    return
  fi
  if [ "$by" = pytest-shard ]; then
    printf '%s\n' "--num-shards=$count" "--shard-id=$job"
    return 0
  fi
  printf '%s\n' "--splits=$count" "--group=$((job + 1))"
  if [ -n "${BKGEN_SHARDS_DURATIONS:-}" ]; then
    if [ ! -r "$BKGEN_SHARDS_DURATIONS" ]; then
      _bkgen_no_shards "BKGEN_SHARDS_DURATIONS: cannot read '$BKGEN_SHARDS_DURATIONS'"
      return
    fi
    printf '%s\n' "--durations-path=$BKGEN_SHARDS_DURATIONS"
  fi
}

_bkgen_no_shards() {
  log "error: $1"
  printf '%s\n' '--shard-args-failed-see-the-log'
  return 1
}

# shard_status STATUS [COMMAND…]
# Returns the status to end with after the runner ended with STATUS. Every status stays as it is but one:
# pytest's 5, "no tests collected", becomes 0 when this job is one of several and COMMAND, the runner as it
# was called but without shard_args, collects tests when it is asked for the whole selection. So a shard that
# got nothing passes, while a selection that has become empty fails in every shard. Without COMMAND nothing
# can be proved, and 5 stays 5.
#   status=0
#   pytest "${args[@]}" tests || status=$?
#   shard_status "$status" pytest tests
shard_status() {
  local status=${1:-} count=${BUILDKITE_PARALLEL_JOB_COUNT:-1} collected=0
  if [[ ! $status =~ ^[0-9]{1,3}$ ]]; then
    log "shard_status: it takes STATUS [COMMAND…]"
    return 2
  fi
  shift
  if [ "$status" -ne 5 ] || [[ ! $count =~ ^[1-9][0-9]*$ ]] || [ "$count" -lt 2 ]; then
    return "$status"
  fi
  if [ "${BKGEN_SHARDS_BY:-none}" = none ] || [ "$#" -eq 0 ]; then
    log "error: no tests ran in this shard, and nothing shows that other shards have any"
    return 5
  fi
  "$@" --collect-only -q >/dev/null 2>&1 || collected=$?
  if [ "$collected" -ne 0 ]; then
    log "error: no tests ran in this shard, and collecting the whole selection ends with status $collected"
    return 5
  fi
  log "no tests fell into this shard; the other ${count} shards of the selection have them"
}
