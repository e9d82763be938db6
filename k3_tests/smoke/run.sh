#!/usr/bin/env bash
# Compares what this pod has with what it asked for. Needs bash and the coreutils, nothing of the
# repository, so that harness/smoke-test.sh can send it into a pod through standard input.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: k3_tests/smoke/run.sh [OPTION…]

Prints one line a check on standard output: name, "ok" or "BAD", and what was found, tab-separated.

  --gpus N           exactly N GPUs are visible
  --shm-mib N        /dev/shm holds at least N MiB
  --writable DIR     a file can be written there; may be given several times
  --reach HOST:PORT  a TCP connection opens; may be given several times
                     (default: SMOKE_HOSTS, else the hosts that every build needs)
  -h, --help         this text

Exit status: 0 all is as asked for, 1 a check failed, 2 wrong usage.
TEXT
}

GPUS='' SHM_MIB=''
DEVICES=${BKGEN_DEV:-/dev}
DIRECTORIES=() HOSTS=()
BAD=0

# The options decide what is checked, so a mistake in them must not pass for a check that went well.
read_arguments() {
  while [ "$#" -gt 0 ]; do
    case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --gpus | --shm-mib | --writable | --reach)
      [ "$#" -ge 2 ] || wrong_usage "$1 needs a value"
      take_option "$1" "$2"
      shift
      ;;
    *) wrong_usage "unexpected argument '$1'" ;;
    esac
    shift
  done
}

take_option() {
  case $1 in
  --gpus | --shm-mib) [[ $2 =~ ^[0-9]{1,9}$ ]] || wrong_usage "$1 takes a whole number, not '$2'" ;;&
  --gpus) GPUS=$2 ;;
  --shm-mib) SHM_MIB=$2 ;;
  --writable) DIRECTORIES+=("$2") ;;
  --reach) HOSTS+=("$2") ;;
  esac
}

wrong_usage() {
  printf 'run.sh: %s\n  hint: --help lists the options\n' "$1" >&2
  exit 2
}

# verdict NAME ok|BAD DETAIL
verdict() {
  printf '%s\t%s\t%s\n' "$1" "$2" "$3"
  [ "$2" = ok ] || BAD=1
}

# Prints how many GPUs the first vendor's tool on the path lists; fails when it cannot tell, or not all.
visible_gpus() {
  local listing status=0
  if command -v nvidia-smi >/dev/null; then
    listing=$(nvidia-smi -L 2>&1) || status=$?
    # Some versions end with 6 where there is no device.
    if [[ $status == [06] && $listing =~ ^[[:space:]]*'No devices'[a-z' ']*\.?[[:space:]]*$ ]]; then
      echo 0
      return
    fi
    [ "$status" = 0 ] || return 1
    count_lines '^GPU [0-9]+: .*\(UUID: ' '^[[:space:]]+MIG .*\(UUID: ' '^$' "$listing"
  elif command -v amd-smi >/dev/null; then
    listing=$(amd-smi list 2>&1) || return 1
    count_lines '^GPU: [0-9]+' '^$' '^[[:space:]]+[A-Z_]+: ' "$listing"
  else
    find "$DEVICES/dri" -name 'renderD*' 2>/dev/null | wc -l
  fi
}

# count_lines GPU SLICE DETAIL LISTING: slices count in their GPU's place. A line that is neither, nor a detail, is
# an error of the tool's, whatever its status: then the number is unknown.
count_lines() {
  awk -v gpu="${1//\\/\\\\}" -v slice="${2//\\/\\\\}" -v detail="$3" '
    /^[[:space:]]*$/ { next }
    $0 ~ gpu { whole = 1; count++; next }
    count && $0 ~ slice { if (whole) whole = 0; else count++; next }
    count && $0 ~ detail { next }
    { unknown = 1 }
    END { if (unknown || !count) exit 1; print count }' <<<"$4"
}

# Whether the container was handed the device of any GPU.
has_device() {
  local found
  found=$(find "$DEVICES" -maxdepth 2 \( -name 'nvidia[0-9]*' -o -name kfd -o -path '*/dri/renderD*' \) 2>/dev/null) || true
  [ -n "$found" ]
}

check_gpus() {
  local seen
  if seen=$(visible_gpus); then
    :
  elif [ "$GPUS" = 0 ] && ! has_device; then
    # Without a device the vendor's tool cannot start; that is what was asked for.
    seen=0
  else
    verdict gpus BAD "asked for $GPUS, but the GPUs cannot be listed"
    return
  fi
  if [ "$seen" -eq "$((10#$GPUS))" ]; then
    verdict gpus ok "$seen visible, as asked for"
  else
    verdict gpus BAD "$seen visible, $GPUS asked for"
  fi
}

check_shm() {
  local size
  size=$(df --block-size=1M --output=size /dev/shm 2>/dev/null | tail -n 1 | tr -d ' ') || size=
  if [[ $size =~ ^[0-9]+$ ]] && [ "$size" -ge "$((10#$SHM_MIB))" ]; then
    verdict shm ok "$size MiB"
  else
    verdict shm BAD "${size:-no} MiB, $SHM_MIB MiB asked for"
  fi
}

check_writable() {
  local file
  if file=$(mktemp "$1/.smoke.XXXXXX" 2>/dev/null) && printf 'smoke' 2>/dev/null >"$file" && rm -f -- "$file"; then
    verdict "writable $1" ok "a file was written and removed"
  else
    verdict "writable $1" BAD "no file can be written as user $(id -u)"
  fi
}

check_reach() {
  # shellcheck disable=SC2016 # the inner shell expands them
  if timeout 10 bash -c '</dev/tcp/"$1"/"$2"' reach "${1%:*}" "${1##*:}" 2>/dev/null; then
    verdict "reach $1" ok "a connection opened"
  else
    verdict "reach $1" BAD "no connection"
  fi
}

read_arguments "$@"
if [ "${#HOSTS[@]}" = 0 ]; then
  read -ra HOSTS <<<"${SMOKE_HOSTS:-agent.buildkite.com:443 github.com:443 huggingface.co:443}"
fi
[ -z "$GPUS" ] || check_gpus
[ -z "$SHM_MIB" ] || check_shm
for directory in "${DIRECTORIES[@]}"; do check_writable "$directory"; done
for host in "${HOSTS[@]}"; do check_reach "$host"; done
exit "$BAD"
