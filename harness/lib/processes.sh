# shellcheck shell=bash
#
# Part of ../lib.sh: processes, and what happens when the script ends.

# Every process as `PID PPID PGRP STATE`, one a line. By awk: reading all of /proc in bash itself takes a second
# on a host with two thousand processes, and a stop looks several times.
_bkgen_processes() {
  if [ ! -r /proc/self/stat ]; then
    ps -A -o pid= -o ppid= -o pgid= -o stat=
    return
  fi
  # A process may have blanks and brackets in its name: what counts stands after the last bracket.
  { cat /proc/[0-9]*/stat 2>/dev/null || true; } |
    awk '/^[0-9]+ \(/ { pid = $1; sub(/^.*\) /, ""); print pid, $2, $3, $1 }'
}

# True while the process exists and is not a zombie that nobody collects.
_bkgen_alive() {
  local line=
  kill -0 "$1" 2>/dev/null || return 1
  [ -r "/proc/$1/stat" ] || return 0
  { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null || true
  line=${line##*) }
  [[ -n $line && $line != [ZX]* ]]
}

# The live processes of a server: LEADER, its process group, and whatever carries its cookie in its
# environment. A daemon that left the group (Ray's do) is found by nothing else.
_bkgen_members() {
  local leader=$1 cookie=$2 pid file
  local -A found=()
  while read -r pid; do
    found[$pid]=1
  done < <(_bkgen_processes |
    awk -v leader="$leader" '$4 !~ /^[ZX]/ && ($1 == leader || $3 == leader) { print $1 }')
  if [ -n "$cookie" ] && [ -d /proc/self ]; then
    while IFS= read -r file; do
      pid=${file#/proc/}
      pid=${pid%/environ}
      if _bkgen_alive "$pid"; then
        found[$pid]=1
      fi
    done < <(grep -lsaF "BKGEN_SERVER_COOKIE=$cookie" /proc/[0-9]*/environ || true)
  fi
  [ "${#found[@]}" -eq 0 ] || printf '%s\n' "${!found[@]}"
}

# Sends TERM to the processes that the function PRINT… prints, then KILL after SECONDS. 1 when some stay.
_bkgen_end_all() {
  local seconds=$1 tick pids
  shift
  mapfile -t pids < <("$@")
  [ "${#pids[@]}" -gt 0 ] || return 0
  # One TERM each, never two: servers take the second one as "drop everything".
  kill -TERM "${pids[@]}" 2>/dev/null || true
  for ((tick = 0; tick < seconds * 20 + 100; tick++)); do
    mapfile -t pids < <("$@")
    [ "${#pids[@]}" -gt 0 ] || return 0
    if ((tick == seconds * 20)); then
      log "still there $seconds s after TERM, now killed: ${pids[*]}"
    fi
    if ((tick >= seconds * 20)); then
      kill -KILL "${pids[@]}" 2>/dev/null || true
    fi
    sleep 0.05
  done
  log "cannot be killed: ${pids[*]}"
  return 1
}

# stop_group PID [SECONDS]
# Ends the process group that PID leads: TERM, up to SECONDS (10) of patience, KILL. Also ends processes that
# start_server's server put into other groups. Nothing to stop is success.
stop_group() {
  local leader=${1:-} seconds=${2:-10} cookie status=0
  if [[ ! $leader =~ ^[1-9][0-9]*$ || ! $seconds =~ ^[0-9]+$ ]] || ((leader == 1 || leader == $$)); then
    log "stop_group: '$leader ${2:-}' is not the PID of a process group that may be stopped"
    return 2
  fi
  declare -gA _bkgen_cookies
  cookie=${_bkgen_cookies[$leader]:-}
  _bkgen_end_all "$seconds" _bkgen_members "$leader" "$cookie" || status=$?
  unset "_bkgen_cookies[$leader]"
  return "$status"
}

# start_server's cleanup. A server that was stopped before is left alone: its PID may be somebody else's now.
_bkgen_stop_started() {
  if [ "${_bkgen_cookies[$1]:-}" = "$2" ]; then
    stop_group "$1"
  fi
}

# Starts a program in the background, in a process group of its own; $! is its PID. Job control is not switched on
# where setsid can do it.
_bkgen_apart() {
  if [[ $- == *m* ]]; then
    # Job control makes the group, and setsid would have to fork: $! would name a process that is gone.
    "$@" &
  elif command -v setsid >/dev/null 2>&1; then
    setsid "$@" &
  else
    set -m
    "$@" &
    set +m
  fi
}

# start_server LOG COMMAND…
# Starts COMMAND in the background, in a process group of its own, with its output added to LOG. Sets
# SERVER_PID and makes sure that the whole group is gone when the shell ends, however it ends. COMMAND is a
# program, not a function. Several servers may run at once; keep each SERVER_PID.
start_server() {
  local file=${1:-} cookie
  if [ -z "$file" ] || [ "$#" -lt 2 ]; then
    log "start_server: it takes LOG COMMAND…"
    return 2
  fi
  shift
  require_command "$1"
  mkdir -p -- "$(dirname -- "$file")"
  declare -gA _bkgen_cookies
  cookie="$$.$RANDOM$RANDOM$RANDOM."
  # First of all the mark and the guard: a signal may come between the server's start and the next line.
  _bkgen_catch_exit
  BKGEN_SERVER_COOKIE=$cookie _bkgen_apart "$@" </dev/null >>"$file" 2>&1
  SERVER_PID=$!
  _bkgen_cookies[$SERVER_PID]=$cookie
  on_exit _bkgen_stop_started "$SERVER_PID" "$cookie"
}

# on_exit COMMAND…
# Adds COMMAND to what is run when the shell ends: the last one added first, each one, whatever becomes of the
# others. The status of the shell stays what it was; a COMMAND that fails is named in the log. Holds for a
# normal end, a failure under `set -e`, and the signals TERM, INT and HUP. A subshell has its own stack.
on_exit() {
  local command
  if [ "$#" -eq 0 ]; then
    log "on_exit: it takes COMMAND…"
    return 2
  fi
  _bkgen_catch_exit
  printf -v command '%q ' "$@"
  _bkgen_cleanups+=("$command")
}

# No trap for TERM and HUP: bash delays a trapped signal until the command in front has ended, which may be
# an hour of tests. Without one it runs the EXIT trap at once and then dies by the signal, so the status stays
# right as well. INT is different: bash drops it when the command in front survives it. An EXIT trap that was
# there before becomes the first entry of the stack.
#
# The trap begins with an arithmetic command and a job in the background for a reason. Between the start of a
# command in front and the wait for it, bash runs the trap with that command as "the last child", and waits for it
# after the first simple command of the trap: a signal that came then seemed to be lost. A compound command does
# not wait, and the job takes the place of the last child.
#
# From here on, whatever is started carries a mark in its environment, by which it is found at the end, whoever is
# its parent then and whatever group or session it is in. Marks add up: a script that this one starts has its own.
_bkgen_catch_exit() {
  local before words mark functions
  if [ "${_bkgen_exit_owner:-}" = "$BASHPID" ]; then
    return 0
  fi
  _bkgen_spool=$(mktemp "${TMPDIR:-/tmp}/bkgen-exit.XXXXXXXX")
  _bkgen_cleanups=()
  before=$(trap -p EXIT)
  if [ -n "$before" ] && [ "$BASHPID" = "$$" ]; then
    eval "words=($before)" # trap -- 'COMMAND' EXIT
    printf -v before 'eval %q' "${words[2]}"
    _bkgen_cleanups+=("$before")
  fi
  mark="$BASHPID.$RANDOM$RANDOM$RANDOM."
  _bkgen_marks_before=${BKGEN_JOB_MARKS:-}
  _bkgen_exit_owner=$BASHPID
  _bkgen_mark=$mark _bkgen_guard=''
  # shellcheck disable=SC2154 # the arithmetic in the trap assigns it
  trap '(( (_bkgen_status = $?) || 1 )); : & _bkgen_at_exit "$_bkgen_status"' EXIT
  trap 'trap - INT; kill -INT "$BASHPID"' INT
  functions=$(declare -f _bkgen_watch _bkgen_alive _bkgen_end_all _bkgen_marked _bkgen_processes \
    _bkgen_no_readers _bkgen_link log)
  # shellcheck disable=SC2016 # the guard's own shell expands them
  BKGEN_GUARD=$functions _bkgen_apart bash -c 'eval "$BKGEN_GUARD"; _bkgen_watch "$@"' bkgen-guard \
    "$BASHPID" "$mark" </dev/null >/dev/null 2>&1
  _bkgen_guard=$!
  disown "$_bkgen_guard"
  export BKGEN_JOB_MARKS=$_bkgen_marks_before$mark
}

# The guard: waits until the script is gone, then ends what it started. Traps do not run in a script that got KILL,
# and its test or its server would hold the GPU until somebody comes and looks.
_bkgen_watch() {
  local owner=$1 mark=$2
  while _bkgen_alive "$owner"; do
    sleep 0.5
  done
  _bkgen_end_all 5 _bkgen_marked "$mark" none
}

_bkgen_at_exit() {
  local status=$1 index entry output
  trap - EXIT ERR
  trap '' INT TERM HUP PIPE
  set +eu
  # What the end itself starts is no leftover.
  export BKGEN_JOB_MARKS=$_bkgen_marks_before
  output="$(_bkgen_link "$BASHPID" 1) $(_bkgen_link "$BASHPID" 2)"
  _bkgen_end_all 5 _bkgen_leftovers "$BASHPID" "$output"
  for ((index = ${#_bkgen_cleanups[@]} - 1; index >= 0; index--)); do
    # In a subshell, so that an `exit` or a `die` in one cleanup does not skip the others.
    (eval "${_bkgen_cleanups[index]}") ||
      log "cleanup '${_bkgen_cleanups[index]%% *}' failed with status $?; the job's own status stays $status"
  done
  # The servers are stopped by now; here are those that nobody told of, in whatever session they are.
  _bkgen_end_all 5 _bkgen_marked "$_bkgen_mark" "$output"
  while IFS= read -r -d '' entry; do
    rm -rf -- "$entry" || log "cannot remove $entry"
  done <"$_bkgen_spool"
  rm -f -- "$_bkgen_spool"
  # The guard goes last: it takes over if this script is killed in the middle of its cleanup.
  if [ -n "$_bkgen_guard" ]; then
    kill -KILL -- "-$_bkgen_guard" 2>/dev/null || kill -KILL "$_bkgen_guard" 2>/dev/null
  fi
  _bkgen_end_group
  exit "$status"
}

# Descendants of SHELL in its own process group: a test that was running in front when the signal came, or a
# job somebody left behind.
_bkgen_leftovers() {
  local shell=$1 output=$2 self=$BASHPID
  _bkgen_processes | awk -v shell="$shell" -v self="$self" '
    $1 == shell { own = $3 }
    $4 !~ /^[ZX]/ && $1 != self { parent[$1] = $2; group[$1] = $3 }
    END {
      ours[shell] = 1
      do {
        more = 0
        for (pid in parent) if (!(pid in ours) && (parent[pid] in ours)) { ours[pid] = 1; more = 1 }
      } while (more)
      for (pid in ours) if (pid != shell && group[pid] == own) print pid
    }' | _bkgen_no_readers "$output"
}

# Whatever carries MARK in its environment, with its descendants and the process groups that it leads: a program
# that gives itself another title (engines do) writes it over its environment.
_bkgen_marked() {
  local mark=$1 output=$2 marked
  [ -d /proc/self ] || return 0
  marked=$(grep -lsaF -e "$mark" /proc/[0-9]*/environ | tr -c '0-9\n' ' ' | tr '\n' ' ') || true
  [[ $marked == *[0-9]* ]] || return 0
  _bkgen_processes | awk -v marked="$marked" '
    $4 !~ /^[ZX]/ { parent[$1] = $2; group[$1] = $3 }
    END {
      count = split(marked, list, " ")
      for (n = 1; n <= count; n++) if (list[n] in parent) ours[list[n]] = 1
      do {
        more = 0
        for (pid in parent)
          if (!(pid in ours) && ((parent[pid] in ours) || (group[pid] in ours))) { ours[pid] = 1; more = 1 }
      } while (more)
      for (pid in ours) print pid
    }' | _bkgen_no_readers "$output"
}

# Passes on the PIDs of those that do not read OUTPUT, the shell's own (`exec > >(tee log)`): they end by
# themselves and have to see the last lines.
_bkgen_no_readers() {
  local pid
  while read -r pid; do
    if [[ " $1 " != *" $(_bkgen_link "$pid" 0) "* ]]; then
      printf '%s\n' "$pid"
    fi
  done
}

# The pipe behind a descriptor of a process, or a word that no descriptor has.
_bkgen_link() {
  local target
  target=$(readlink "/proc/$1/fd/$2" 2>/dev/null) || true
  case "$target" in
  pipe:*) printf '%s' "$target" ;;
  *) printf 'none.%s.%s' "$1" "$2" ;;
  esac
}

# scratch_directory
# Makes a directory of this job's own under $BKGEN_SCRATCH (else $TMPDIR, else /tmp), prints its path and
# removes it when the script ends. In `$(scratch_directory)` the removal is the script's own task: it must
# have sourced setup-env.sh, or called on_exit once before.
scratch_directory() {
  local base=${BKGEN_SCRATCH:-${TMPDIR:-/tmp}} job=${BUILDKITE_JOB_ID:-local} directory
  if [ ! -d "$base" ]; then
    log "scratch_directory: $base is not a directory"
    return 1
  fi
  if [ "$BASHPID" != "$$" ] && [ -z "${_bkgen_exit_owner:-}" ]; then
    log "scratch_directory: nothing would remove the directory"
    log "  hint: source setup-env.sh first, or call 'on_exit true' in the script itself"
    return 1
  fi
  directory=$(mktemp -d "${base%/}/bkgen-${job//[^A-Za-z0-9-]/}-XXXXXXXX") || return 1
  if [ "$BASHPID" = "$$" ]; then
    on_exit rm -rf -- "$directory"
  else
    printf '%s\0' "$directory" >>"$_bkgen_spool"
  fi
  printf '%s\n' "$directory"
}
