#!/usr/bin/env bash
# Prepares the machine for a suite. Sourced at the head of every run.sh:
#
#   source harness/setup-env.sh
#
# What follows runs under `set -Eeuo pipefail` with the functions of lib.sh; a command that fails is named with
# file and line; whatever start_server started and scratch_directory made is gone when the script ends. Then, in
# this order and each only when it is asked for:
#
#   base branch  BKGEN_MERGE_BASE    1: merge the pull request's base branch into the checkout first (see
#                                    merge_base_branch). Off by default: a pod may have no credentials for git.
#   GPU health   BKGEN_GPUS          how many GPUs this job needs; the job ends with status 78 when they are not
#                                    all here and free. 0 in a pod: none may be seen; elsewhere: no look at all.
#                                    Unset or `any`: whatever GPUs are seen must be free, and none need be there.
#                BKGEN_GPU_VENDOR    nvidia, amd, intel, or auto (default)
#                BKGEN_GPU_MIN_FREE  percent of each GPU's memory that must be free (default 80)
#   installation BKGEN_INSTALL       requirements files and packages, separated by blanks
#                BKGEN_CONSTRAINTS   a constraints file that pins them and what they bring along (default: the
#                                    constraints.txt of the script's directory, else of the one above; empty: none)
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
  log "error: $file:$line: status $status: $(_bkgen_redact "${command:0:200}")"
}

# Takes secrets out of what goes to the log: user and password of a URL, the value of a header, and what is given to
# an option, a variable or a field that is called token, password, secret, key or credential.
_bkgen_sieve() {
  local name='[a-z0-9_-]*(token|passw(or)?d|secret|api[-_]?key|access[-_]?key|credential)s?([-_][a-z0-9_-]*)?'
  local end="[:space:]\"'"
  LC_ALL=C sed -u -E \
    -e "s,([a-z][a-z0-9+.-]*://)[^/@$end]*(@[^/@$end]*)*@,\1***@,Ig" \
    -e "s/(^|[[:space:]])(-H|--header)([[:space:]=]*)([\"']?[a-z0-9-]+):[^\"']+/\1\2\3\4: ***/Ig" \
    -e "s/((proxy-)?authorization|cookie|x-[a-z0-9-]+|$name)([[:space:]]*:[[:space:]]*)[^\"']+/\1: ***/Ig" \
    -e "s/($name)=[^=&$end][^&$end]*/\1=***/Ig" \
    -e "s/(--?$name)[[:space:]]+[^-$end][^$end]*/\1 ***/Ig" \
    -e "s/bearer[[:space:]]+[^$end]+/Bearer ***/Ig" \
    -e "s/(^|[[:space:]])(-u|--user)([[:space:]=]+)[^:$end]+:[^$end]+/\1\2\3***/g"
}

_bkgen_redact() {
  printf '%s\n' "$*" | _bkgen_sieve
}

# Runs a command that is named in the log.
_bkgen_dry() {
  log "+ $(_bkgen_redact "$*")"
  [ "${_bkgen_dry_run:-0}" = 1 ] || "$@"
}

_bkgen_merge_base() {
  case "${BKGEN_MERGE_BASE:-0}" in
  0) return 0 ;;
  1) ;;
  *) die "BKGEN_MERGE_BASE is 1 or 0, not '$BKGEN_MERGE_BASE'" ;;
  esac
  [ -z "${BKGEN_DONE_MERGE_BASE:-}" ] || return 0
  group "Merge the base branch"
  _bkgen_sieved _bkgen_dry merge_base_branch || exit "$?"
  export BKGEN_DONE_MERGE_BASE=1
}

# Whether a pod was handed the device of any GPU. Without one its image may still bring a tool, which cannot start.
_bkgen_sees_device() {
  local file
  for file in "${BKGEN_DEV:-/dev}"/{nvidia[0-9]*,kfd,dri/renderD*}; do
    if [ -e "$file" ]; then
      return 0
    fi
  done
  return 1
}

_bkgen_check_gpus() {
  local status=0
  if [ -n "${BKGEN_DONE_GPUS:-}" ]; then
    return 0
  fi
  # The kubelet sets the variable in every container. Elsewhere the machine's GPUs are in plain sight.
  if [ "${BKGEN_GPUS:-}" = 0 ] && { [ -z "${KUBERNETES_SERVICE_HOST:-}" ] || ! _bkgen_sees_device; }; then
    return 0
  fi
  if [[ ${BKGEN_GPUS:-any} == any ]] && ! command -v nvidia-smi amd-smi xpu-smi >/dev/null 2>&1; then
    return 0
  fi
  group "GPU health"
  _bkgen_dry "$_bkgen_harness/gpu-health.sh" || status=$?
  if [ "$status" -ne 0 ]; then
    case "${BKGEN_GPUS:-}" in
    '') log "  hint: BKGEN_GPUS=0 for a run that needs no GPU" ;;
    0) log "  hint: this pod asked for no GPU; BKGEN_GPUS=any if it may see some" ;;
    esac
    exit "$status"
  fi
  export BKGEN_DONE_GPUS=1
}

_bkgen_install() {
  local wanted words word command=() what constraints shown
  constraints=$(_bkgen_constraints)
  # A script that this one starts stands elsewhere, and is to find the same.
  [ -z "$constraints" ] || export BKGEN_CONSTRAINTS=$constraints
  wanted="${BKGEN_INSTALL:-}|$constraints"
  read -ra words <<<"${BKGEN_INSTALL:-}"
  if [ "${#words[@]}" -eq 0 ] || [ "${BKGEN_DONE_INSTALL:-}" = "$wanted" ]; then
    return 0
  fi
  shown=$(_bkgen_redact "${words[*]}")
  group "Install $shown"
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
      die "BKGEN_INSTALL: there is no file '$(_bkgen_redact "$word")' in $PWD"
    else
      command+=("$word")
    fi
  done
  if [ -n "$constraints" ]; then
    [ -f "$constraints" ] || die "BKGEN_CONSTRAINTS: there is no file '$constraints' in $PWD"
    command+=(-c "$constraints")
  fi
  what=${command[0]}
  retry "${BKGEN_INSTALL_TRIES:-3}" "${BKGEN_INSTALL_DELAY:-10}" _bkgen_sieved _bkgen_dry "${command[@]}" ||
    _bkgen_stop "$?" "$what could not install $shown"
  export BKGEN_DONE_INSTALL=$wanted
}

# The constraints file: what BKGEN_CONSTRAINTS says, also if it is empty; else constraints.txt beside the script
# that is run, else in the directory above, which holds what all suites share.
_bkgen_constraints() {
  local directory
  if [ -n "${BKGEN_CONSTRAINTS+set}" ]; then
    printf '%s' "$BKGEN_CONSTRAINTS"
    return 0
  fi
  [ -f "$0" ] || return 0
  directory=$(cd -- "$(dirname -- "$0")" && pwd)
  for directory in "$directory" "${directory%/*}"; do
    if [ -f "$directory/constraints.txt" ]; then
      printf '%s' "$directory/constraints.txt"
      return 0
    fi
  done
}

# Runs a command whose output, to standard error, goes through the sieve: installers and curl print the URL that
# failed. Keeps its status. The wait for the last lines has an end: a daemon that it started may hold the pipe open.
_bkgen_sieved() {
  local status=0 sieve tick
  "$@" > >(_bkgen_sieve >&2) 2>&1 || status=$?
  sieve=$!
  for ((tick = 0; tick < 40; tick++)); do
    _bkgen_alive "$sieve" || break
    sleep 0.05
  done
  return "$status"
}

_bkgen_probe() {
  local limit=() shown
  if [ -z "${BKGEN_PROBE:-}" ] || [ "${BKGEN_DONE_PROBE:-}" = "$BKGEN_PROBE" ]; then
    return 0
  fi
  shown=$(_bkgen_redact "$BKGEN_PROBE")
  group "Probe: $shown"
  if command -v timeout >/dev/null 2>&1; then
    limit=(timeout -k 5 "${BKGEN_PROBE_SECONDS:-300}")
  fi
  _bkgen_sieved _bkgen_dry "${limit[@]}" bash -euo pipefail -c "$BKGEN_PROBE" ||
    _bkgen_stop "$?" "the probe failed: $shown"
  export BKGEN_DONE_PROBE=$BKGEN_PROBE
}

_bkgen_stop() {
  log "error: $2 (status $1)"
  exit "$1"
}

_bkgen_prepare() {
  _bkgen_merge_base
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
