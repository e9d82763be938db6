#!/usr/bin/env bash
# Prepares the machine for a suite. Sourced at the head of every run.sh:
#
#   source harness/setup-env.sh
#
# What follows runs under `set -Eeuo pipefail` with the functions of lib.sh; a command that fails is named with
# file and line; whatever start_server started and scratch_directory made is gone when the script ends. Then, in
# this order and each only when it is asked for:
#
#   GPU health   BKGEN_GPUS          how many GPUs this job needs; the job ends with status 78 when they are not
#                                    all here and free. 0: no look at all. Unset: whatever GPUs are seen must be
#                                    free, and none need be there.
#                BKGEN_GPU_VENDOR    nvidia, amd, intel, or auto (default)
#                BKGEN_GPU_MIN_FREE  percent of each GPU's memory that must be free (default 80)
#   installation BKGEN_INSTALL       requirements files and packages, separated by blanks
#                BKGEN_CONSTRAINTS   a constraints file that pins what they bring along
#                BKGEN_INSTALL_TRIES, BKGEN_INSTALL_DELAY   3 tries, 10 seconds apart
#   probe        BKGEN_PROBE         a shell command that shows that the engine's command line really starts,
#                                    such as "vllm --version"
#                BKGEN_PROBE_SECONDS 300
#
# uv installs when it is on the path, else pip of python3. Each phase is a log group with its time. A script
# that this one starts and that sources this file again skips what is done: by then the suite's own server
# holds the GPU. On a laptop with none of it set, this takes no time and installs nothing.
#
# `setup-env.sh --dry-run`, run instead of sourced, prints what would be done with the present environment.

if [ -z "${BASH_VERSINFO:-}" ] || [ "$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))" -lt 404 ]; then
  echo "error: setup-env.sh needs bash 4.4 or newer" >&2
  exit 2
fi

set -Eeuo pipefail

_bkgen_harness=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=harness/lib.sh
source "$_bkgen_harness/lib.sh"

# Names the place of a command that failed. The text is the script's own, with no variable filled in: no secret
# gets into the log.
_bkgen_on_error() {
  local status=$1 file=$2 line=$3 command=${4%%$'\n'*}
  log "error: $file:$line: status $status: ${command:0:200}"
}

_bkgen_dry() {
  log "+ $*"
  [ "${_bkgen_dry_run:-0}" = 1 ] || "$@"
}

_bkgen_check_gpus() {
  local status=0
  if [ "${BKGEN_GPUS:-}" = 0 ] || [ -n "${BKGEN_DONE_GPUS:-}" ]; then
    return 0
  fi
  if [ -z "${BKGEN_GPUS:-}" ] && ! command -v nvidia-smi amd-smi xpu-smi >/dev/null 2>&1; then
    return 0
  fi
  group "GPU health"
  _bkgen_dry "$_bkgen_harness/gpu-health.sh" || status=$?
  if [ "$status" -ne 0 ]; then
    [ -n "${BKGEN_GPUS:-}" ] || log "  hint: BKGEN_GPUS=0 for a run that needs no GPU"
    exit "$status"
  fi
  export BKGEN_DONE_GPUS=1
}

_bkgen_install() {
  local wanted words word command=() what
  wanted="${BKGEN_INSTALL:-}|${BKGEN_CONSTRAINTS:-}"
  read -ra words <<<"${BKGEN_INSTALL:-}"
  if [ "${#words[@]}" -eq 0 ] || [ "${BKGEN_DONE_INSTALL:-}" = "$wanted" ]; then
    return 0
  fi
  group "Install ${words[*]}"
  require_command python3
  if command -v uv >/dev/null 2>&1; then
    # Without --python, uv looks for a virtual environment and refuses an image that has none.
    command=(uv pip install --python "$(command -v python3)")
  else
    command=(python3 -m pip install --disable-pip-version-check --no-input)
  fi
  for word in "${words[@]}"; do
    if [ -f "$word" ]; then
      command+=(-r "$word")
    elif [[ $word == *.txt ]]; then
      die "BKGEN_INSTALL: there is no file '$word' in $PWD"
    else
      command+=("$word")
    fi
  done
  if [ -n "${BKGEN_CONSTRAINTS:-}" ]; then
    [ -f "$BKGEN_CONSTRAINTS" ] || die "BKGEN_CONSTRAINTS: there is no file '$BKGEN_CONSTRAINTS' in $PWD"
    command+=(-c "$BKGEN_CONSTRAINTS")
  fi
  what=${command[0]}
  retry "${BKGEN_INSTALL_TRIES:-3}" "${BKGEN_INSTALL_DELAY:-10}" _bkgen_dry "${command[@]}" ||
    _bkgen_stop "$?" "$what could not install ${words[*]}"
  export BKGEN_DONE_INSTALL=$wanted
}

_bkgen_probe() {
  local limit=()
  if [ -z "${BKGEN_PROBE:-}" ] || [ "${BKGEN_DONE_PROBE:-}" = "$BKGEN_PROBE" ]; then
    return 0
  fi
  group "Probe: $BKGEN_PROBE"
  if command -v timeout >/dev/null 2>&1; then
    limit=(timeout -k 5 "${BKGEN_PROBE_SECONDS:-300}")
  fi
  _bkgen_dry "${limit[@]}" bash -euo pipefail -c "$BKGEN_PROBE" >&2 ||
    _bkgen_stop "$?" "the probe failed: $BKGEN_PROBE"
  export BKGEN_DONE_PROBE=$BKGEN_PROBE
}

_bkgen_stop() {
  log "error: $2 (status $1)"
  exit "$1"
}

_bkgen_prepare() {
  _bkgen_check_gpus
  _bkgen_install
  _bkgen_probe
  _bkgen_end_group
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case "${1:-}" in
  --dry-run)
    _bkgen_dry_run=1
    _bkgen_prepare
    exit
    ;;
  -h | --help)
    sed -n '2,/^$/{s/^# \{0,1\}//p;}' "$0"
    exit
    ;;
  *)
    echo "error: setup-env.sh is to be sourced by a script, or run with --dry-run or --help" >&2
    exit 2
    ;;
  esac
fi

trap '_bkgen_on_error "$?" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND"' ERR
_bkgen_catch_exit
_bkgen_prepare
