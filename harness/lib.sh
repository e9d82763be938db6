# shellcheck shell=bash
#
# Functions for the scripts of a suite. Sourcing this file defines functions and does nothing else.
# Every function is described above its definition and in docs/reference/harness-lib.md.
#
# Needs bash 4.4 or newer; written for `set -Eeuo pipefail`. What is said to people goes to standard error,
# so that the output of a function is its product and can be captured. Names that begin with `_bkgen_` are
# private. A function ends with status 0 when it did its work, 1 when it did not, 2 when it was called
# wrongly, 75 when the environment failed and a second try may help, 78 when the hardware is not right.

# shellcheck source=harness/lib/processes.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/processes.sh"
# shellcheck source=harness/lib/servers.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/servers.sh"
# shellcheck source=harness/lib/change.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/change.sh"
# shellcheck source=harness/lib/shards.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/shards.sh"

# log MESSAGE…
# One line for the reader of the build's log.
log() {
  printf '%s\n' "$*" >&2
}

# die MESSAGE…
# Says what is wrong and ends the shell with status 1.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# group TITLE
# Opens a log group of Buildkite's (`--- TITLE`). Before that, closes the previous one with the seconds
# since it was opened.
group() {
  _bkgen_end_group
  _bkgen_group_title=$*
  _bkgen_group_started=$SECONDS
  printf -- '--- %s\n' "$*" >&2
}

_bkgen_end_group() {
  if [ -n "${_bkgen_group_started:-}" ]; then
    log "$_bkgen_group_title: $((SECONDS - _bkgen_group_started)) s"
    unset _bkgen_group_started
  fi
}

# require_command NAME…
# Ends the shell with status 1 unless every program is on the path. Names all that are missing at once.
require_command() {
  local name missing=()
  for name in "$@"; do
    command -v "$name" >/dev/null 2>&1 || missing+=("$name")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    die "not on the path: ${missing[*]}"
  fi
}

# retry TIMES DELAY COMMAND…
# Runs COMMAND until it succeeds, at most TIMES times, DELAY seconds apart. The status is the last try's.
retry() {
  if [[ ! ${1:-} =~ ^[1-9][0-9]*$ || ! ${2:-} =~ ^[0-9]+([.][0-9]+)?$ || $# -lt 3 ]]; then
    log "retry: called as 'retry ${*:1:2} …'; it takes TIMES DELAY COMMAND…"
    return 2
  fi
  local times=$1 delay=$2 try status=0 what
  shift 2
  # A private function in front is of no use to the reader.
  for what in "$@"; do
    [[ $what == _bkgen_* ]] || break
  done
  for ((try = 1; try <= times; try++)); do
    status=0
    "$@" || status=$?
    [ "$status" -ne 0 ] || return 0
    log "try $try of $times of '$what' ended with status $status"
    [ "$try" -eq "$times" ] || sleep "$delay"
  done
  return "$status"
}

# require_gpus N
# Ends the shell with status 78 unless at least N GPUs can be seen. Counts only; gpu-health.sh looks at them.
require_gpus() {
  local directory count
  if [[ ! ${1:-} =~ ^[0-9]+$ ]]; then
    log "require_gpus: it takes a number"
    return 2
  fi
  directory=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
  count=$(
    # shellcheck source=harness/gpu-query.sh
    source "$directory/gpu-query.sh"
    gpu_count "${BKGEN_GPU_VENDOR:-auto}"
  ) || count=0
  if [ "$count" -lt "$1" ]; then
    log "error: $count GPUs are seen, $1 are needed"
    exit 78
  fi
}

# upload_artifacts GLOB…
# Uploads files as artifacts of the job. Without an agent it says so. Never fails: what became of the tests
# has been decided already.
upload_artifacts() {
  local IFS=';'
  if [ "$#" -eq 0 ]; then
    return 0
  fi
  if ! command -v buildkite-agent >/dev/null 2>&1; then
    log "no buildkite-agent here: not uploaded: $*"
    return 0
  fi
  buildkite-agent artifact upload "$*" >&2 || log "warning: artifacts were not uploaded (status $?): $*"
}
