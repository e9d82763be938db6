#!/usr/bin/env bash
# What setup-cluster.sh, smoke-test.sh, install-agent-stack.sh and teardown.sh share. Sourced, never run.
#
# Exit status of all four: 0 done, 1 something for a person to fix, 2 wrong command line, 75 a command or
# the network failed and another try may help, 130 or 143 stopped by a signal.
#
# Nothing here may see a secret: tokens travel in files, so that no argument, no trace and no log can
# hold one. Every argument of `run`, `ask` and `answer` is meant to be read by anybody.
set -euo pipefail

HARNESS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=harness/config.env
. "$HARNESS/config.env"
# shellcheck source=harness/cluster-charts.sh
. "$HARNESS/cluster-charts.sh"
export KUBECONFIG
PATH="$BIN_DIR:$PATH"

DRY_RUN=0
STEP=
WORK=
CLEANUPS=()

# --- Words ----------------------------------------------------------------------------------------

# say TEXT…: to a person, on standard error.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die MESSAGE HINT [STATUS]: says what is wrong and what to do next, then leaves with STATUS (1).
die() {
  say "${STEP:+$STEP: }$1"
  printf '  hint: %s\n' "$2" >&2
  exit "${3:-1}"
}

# wrong_usage MESSAGE: leaves with 2. An unexpected argument is not repeated: it may be a token.
wrong_usage() { die "$1" "${0##*/} --help lists the options" 2; }

# quoted WORD…: one line that a shell would read as these words.
quoted() {
  local word line=
  for word in "$@"; do
    if [[ $word =~ ^[A-Za-z0-9_./:=@%+,-]+$ ]]; then
      line+=" $word"
    else
      line+=" ${word@Q}"
    fi
  done
  printf '%s\n' "${line# }"
}

# brief WORD…: the beginning of that line; all of it was shown when the command began.
brief() {
  local more=
  [ "$#" -le 3 ] || more=' …'
  printf '%s%s\n' "$(quoted "${@:1:3}")" "$more"
}

# show WORD…: a command as it is about to run; in a dry run it is the product, on standard output.
show() {
  if [ "$DRY_RUN" = 1 ]; then
    printf '+ %s\n' "$(quoted "$@")"
  else
    printf '+ %s\n' "$(quoted "$@")" >&2
  fi
}

# --- Commands -------------------------------------------------------------------------------------
#
# None of them can read standard input, for a token or an answer may be waiting there.

# attend COMMAND…: runs it so that a signal is obeyed at once and not when the command has ended. The command
# is a process group of its own, so that what it has started ends with it.
attend() {
  local status=0
  set -m
  "$@" <&0 &
  set +m
  wait "$!" || status=$?
  return "$status"
}

# run COMMAND…: shows the command and runs it; leaves with 75 when it fails. A dry run only shows it.
run() {
  local status=0
  show "$@"
  [ "$DRY_RUN" = 0 ] || return 0
  attend "$@" </dev/null || status=$?
  [ "$status" = 0 ] || die "\`$(brief "$@")\` ended with status $status" \
    "what it said stands above; once that is mended, start ${0##*/} again, done steps are skipped" 75
}

# ask COMMAND…: a question that changes nothing: does the command succeed? A dry run shows it and goes on.
ask() {
  if [ "$DRY_RUN" = 1 ]; then
    show "$@"
    return 0
  fi
  attend "$@" </dev/null >/dev/null 2>&1
}

# capture COMMAND…: puts the command's output into REPLY; the status is the command's. By way of a file: a
# signal has to wait for a command substitution, and the command may hang.
capture() {
  local status=0
  attend "$@" </dev/null >"$WORK/answer" || status=$?
  REPLY=$(<"$WORK/answer")
  return "$status"
}

# answer PLACEHOLDER COMMAND…: the same, without what the command says besides. A dry run shows the command
# and puts the placeholder there.
answer() {
  local placeholder=$1
  shift
  REPLY=$placeholder
  if [ "$DRY_RUN" = 1 ]; then
    show "$@"
    return 0
  fi
  capture "$@" 2>/dev/null
}

# absent KIND NAME [OPTION…]: the cluster says that it has no such thing. An answer that does not come is
# none: what was there before must not be taken for something of ours.
absent() {
  answer '' kubectl get "$@" --ignore-not-found --output name ||
    die "the cluster does not say whether there is a $1 $2" "kubectl get $1 says why; is K3s running?" 75
  [ -z "$REPLY" ]
}

# step NAME IS_DONE ACT: skips ACT when the function IS_DONE says yes, and asks it again afterwards.
step() {
  STEP=$1
  if [ "$DRY_RUN" = 1 ]; then
    printf '# %s\n' "$STEP"
    "$2" || true
    "$3"
    STEP=
    return 0
  fi
  if "$2"; then
    say "$STEP: already done"
  else
    say "$STEP"
    "$3"
    "$2" || die "every command succeeded, but the check afterwards still fails" \
      "${0##*/} --dry-run lists the commands of that check; run them by hand" 75
    say "$STEP: done"
  fi
  STEP=
}

# wait_until SECONDS IS_DONE: looks every POLL_SECONDS; 1 when the time is up. A dry run looks once.
wait_until() {
  local end=$((SECONDS + $1))
  until "$2"; do
    [ "$DRY_RUN" = 0 ] || return 0
    [ "$SECONDS" -lt "$end" ] || return 1
    attend sleep "$POLL_SECONDS"
  done
}

# --- Before anything is done ----------------------------------------------------------------------

# need_root: only root may read K3s's kubeconfig and write where these scripts write.
need_root() {
  [ "$DRY_RUN" = 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "must run as root" "sudo $0, or --dry-run to see what it would do"
}

# need_tools NAME…: names every missing tool at once.
need_tools() {
  local tool missing=()
  if [ "$DRY_RUN" = 1 ]; then
    printf '# needs: %s\n' "$*"
    return 0
  fi
  for tool in "$@"; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [ "${#missing[@]}" = 0 ] || die "not found on the path: ${missing[*]}" "$(tool_hint "${missing[0]}")"
}

tool_hint() {
  case $1 in
  kubectl | helm) echo "setup-cluster.sh installs $1; run it first" ;;
  docker) echo "install Docker; it builds the images (any recent docker engine will do)" ;;
  nvidia-smi | amd-smi | xpu-smi) echo "install the GPU driver first; $1 comes with it" ;;
  systemctl) echo "K3s is run by systemd here; use a host with systemd" ;;
  "${BKGEN:-bkgen}") echo "install bkgen (pip install .), or name it: BKGEN=/path/to/bkgen" ;;
  "${PYTHON:-python3}") echo "install Python 3.10 or newer, or name it: PYTHON=/path/to/python3" ;;
  *) echo "install it with the host's package manager" ;;
  esac
}

# --- Files ----------------------------------------------------------------------------------------

# make_work: WORK is a directory for this run, readable for its owner alone and removed at the end.
make_work() {
  if [ "$DRY_RUN" = 1 ]; then
    WORK=/tmp/harness.XXXXXX
    return 0
  fi
  WORK=$(umask 077 && mktemp -d "${TMPDIR:-/tmp}/harness.XXXXXX")
  at_exit remove_work
}

remove_work() { rm -rf -- "$WORK"; }

# containerd_name IMAGE: the full name under which containerd keeps what Docker calls IMAGE.
containerd_name() {
  local image=$1
  case ${image##*/} in
  *:* | *@*) ;;
  *) image+=:latest ;;
  esac
  case $image in
  *.*/* | *:*/* | localhost/*) echo "$image" ;;
  */*) echo "docker.io/$image" ;;
  *) echo "docker.io/library/$image" ;;
  esac
}

# check_paths SETTING…: each is a list of absolute paths, or one path, and none has a blank in it. A relative
# one would mean another place at each start, and a blank would make two directories out of one.
check_paths() {
  local setting directory directories
  for setting in "$@"; do
    [[ $setting == CACHE_DIRS || ${!setting} != *[[:space:]]* ]] ||
      die "$setting is '${!setting}', with a blank in it" "name a directory without blanks, for example a link to it"
    read -ra directories <<<"${!setting}"
    [ "${#directories[@]}" != 0 ] || die "$setting is empty" "harness/config.env says what belongs there"
    for directory in "${directories[@]}"; do
      [[ $directory == /* ]] || die "$setting has '$directory', which is no absolute path" "begin it with /"
    done
  done
}

# mark NAME [LINE] / marked NAME / unmark NAME: what these scripts have installed on this host. What can be
# there several times is marked as KIND@NAMESPACE; the lines of a mark say more, each one once.
mark() {
  [ "$DRY_RUN" = 0 ] || return 0
  mkdir -p "$STATE_DIR"
  : >>"$STATE_DIR/$1"
  [ -z "${2:-}" ] || grep -qxF -e "$2" "$STATE_DIR/$1" || printf '%s\n' "$2" >>"$STATE_DIR/$1"
}
marked() { [ -e "$STATE_DIR/$1" ]; }
unmark() { [ "$DRY_RUN" = 1 ] || rm -f -- "$STATE_DIR/$1"; }

# --- The host's GPUs ------------------------------------------------------------------------------

# find_vendor: VENDOR is the first whose tool is on the path, unless it is set; it stays empty without any.
find_vendor() {
  local vendor
  for vendor in nvidia:nvidia-smi amd:amd-smi intel:xpu-smi; do
    if [ -z "$VENDOR" ] && command -v "${vendor#*:}" >/dev/null; then
      VENDOR=${vendor%%:*}
    fi
  done
  case $VENDOR in
  '' | nvidia | amd | intel) ;;
  *) die "VENDOR is '$VENDOR'" "it is nvidia, amd or intel" ;;
  esac
}

# settings_file: the bkgen.yml that the cluster is for.
settings_file() { echo "${BKGEN_SETTINGS:-$(dirname "$HARNESS")/bkgen.yml}"; }

# --- The end --------------------------------------------------------------------------------------

# at_exit FUNCTION: called on every way out, the last one first.
at_exit() { CLEANUPS=("$1" "${CLEANUPS[@]}"); }

# Every process that `attend` has started, with what it has started in turn; not before 5 seconds are over, but
# then for certain. The group is gone before a temporary file is removed, for it may still write there.
end_children() {
  local child tries
  for child in $(jobs -p); do
    kill -TERM -- "-$child" 2>/dev/null || kill -TERM "$child" 2>/dev/null || continue
    for ((tries = 50; tries > 0; tries--)); do
      kill -0 -- "-$child" 2>/dev/null || continue 2
      sleep 0.1
    done
    kill -KILL -- "-$child" 2>/dev/null || true
  done
}

# A signal that comes now ends only what is being waited for: the other cleanups still have to run. The
# variable has a name that no function has for one of its own, for the trap runs within whatever is running.
leave() {
  local leave_with=$? cleanup
  trap '[ "$leave_with" != 0 ] || leave_with=143; end_children' HUP INT TERM
  trap - EXIT
  end_children
  for cleanup in "${CLEANUPS[@]}"; do
    "$cleanup" && continue
    [ "$leave_with" != 0 ] || leave_with=75
  done
  exit "$leave_with"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
