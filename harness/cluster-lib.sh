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
export KUBECONFIG
PATH="$BIN_DIR:$PATH"

DRY_RUN=0
STEP=
CHILD=
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

# attend COMMAND…: runs it so that a signal is obeyed at once and not when the command has ended.
attend() {
  local status=0
  "$@" <&0 &
  CHILD=$!
  wait "$CHILD" || status=$?
  CHILD=
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

# answer PLACEHOLDER COMMAND…: puts the command's output into REPLY; the status is the command's. A dry
# run shows the command and puts the placeholder there.
answer() {
  local placeholder=$1
  shift
  REPLY=$placeholder
  if [ "$DRY_RUN" = 1 ]; then
    show "$@"
    return 0
  fi
  REPLY=$("$@" </dev/null 2>/dev/null)
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

# download ADDRESS FILE: over TLS, following redirects.
download() {
  run curl --fail --silent --show-error --location --proto =https --proto-redir =https --tlsv1.2 \
    --retry 3 --output "$2" "$1"
}

# download_checked ADDRESS FILE SUMS NAME PIN: downloads FILE and the publisher's list of SHA-256 sums,
# and keeps the file only when its sum is the one listed for NAME and, unless PIN is empty, also PIN.
download_checked() {
  local address=$1 file=$2 sums=$3 name=$4 pin=$5 listed
  download "$address" "$file"
  download "$sums" "$file.sums"
  if [ "$DRY_RUN" = 1 ]; then
    show sha256sum "$file"
    return 0
  fi
  listed=$(awk -v name="$name" '{ sub(/^\*/, "", $2) } $2 == name { print $1; exit }' "$file.sums")
  [[ $listed =~ ^[0-9a-f]{64}$ ]] || die "the publisher's list has no SHA-256 for $name" \
    "look at $sums; is the version in config.env a released one?"
  check_sum "$file" "$listed" "$name" "the publisher's list"
  check_pin "$file" "$pin" "$name"
}

# check_pin FILE PIN NAME: compares with a sum from config.env when there is one, and says the sum.
check_pin() {
  if [ "$DRY_RUN" = 1 ]; then
    [ -z "$2" ] || show sha256sum "$1"
    return 0
  fi
  [ -z "$2" ] || check_sum "$1" "$2" "$3" "config.env"
  say "sha256 $(sha256sum <"$1" | cut -d ' ' -f 1)  $3"
}

check_sum() {
  local sum
  sum=$(sha256sum <"$1" | cut -d ' ' -f 1)
  [ "$sum" = "$2" ] && return 0
  rm -f -- "$1"
  die "$3 has the SHA-256 $sum, but $4 says $2; the file was thrown away" \
    "do not go on before you know why: a damaged download, another version, or something worse"
}

# pull_chart FILE NAME VERSION PIN SOURCE…: fetches a Helm chart's archive as FILE and checks its pin.
# SOURCE is the chart's address, or NAME with --repo and the repository's.
pull_chart() {
  local file=$1 name=$2 version=$3 pin=$4
  shift 4
  run helm pull "$@" --version "$version" --destination "$(dirname "$file")"
  [ "$DRY_RUN" = 1 ] || [ -s "$file" ] || die "helm pull left no ${file##*/}" \
    "is $version a released version of $name?"
  check_pin "$file" "$pin" "$name-$version.tgz"
}

# release_is RELEASE NAMESPACE CHART VERSION: Helm has deployed that release from that chart.
release_is() {
  answer '[]' helm list --namespace "$2" --filter "^$1\$" --deployed --output json || return 1
  [[ $REPLY == *"\"chart\":\"$3-$4\""* ]]
}

# containerd_name IMAGE: the full name under which containerd keeps what Docker calls IMAGE.
containerd_name() {
  case $1 in
  *.*/* | *:*/* | localhost/*) echo "$1" ;;
  */*) echo "docker.io/$1" ;;
  *) echo "docker.io/library/$1" ;;
  esac
}

# mark NAME / marked NAME / unmark NAME: which parts these scripts have installed on this host.
mark() {
  [ "$DRY_RUN" = 0 ] || return 0
  mkdir -p "$STATE_DIR"
  : >"$STATE_DIR/$1"
}
marked() { [ -e "$STATE_DIR/$1" ]; }
unmark() { [ "$DRY_RUN" = 1 ] || rm -f -- "$STATE_DIR/$1"; }

# --- The end --------------------------------------------------------------------------------------

# at_exit FUNCTION: called on every way out, the last one first.
at_exit() { CLEANUPS=("$1" "${CLEANUPS[@]}"); }

leave() {
  local status=$? cleanup
  trap - EXIT
  trap '' INT TERM HUP
  if [ -n "$CHILD" ]; then
    kill "$CHILD" 2>/dev/null || true
    wait "$CHILD" 2>/dev/null || true
  fi
  for cleanup in "${CLEANUPS[@]}"; do
    "$cleanup" || say "$cleanup failed"
  done
  exit "$status"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
