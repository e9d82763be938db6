#!/usr/bin/env bash
# Who holds the GPUs of this host? A process inside a pod belongs there; one outside of every pod is usually
# what a dead job left behind, and the next job on that GPU will fail. Says so early; kills nothing.
set -euo pipefail
# shellcheck source=harness/gpu-query.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/gpu-query.sh"

usage() {
  cat <<'TEXT'
usage: gpu-monitor.sh [--once] [--json] [--log FILE] [--vendor VENDOR] [--gpus N]
                      [--interval SECONDS] [--max-bytes N] [--keep N] [--dry-run]

  --once               look once and end with a status; without it, look every --interval
                       seconds until stopped
  --json               one JSON object a line instead of text
  --log FILE           add to FILE instead of printing; what needs a look is printed as well
  --vendor VENDOR      auto, nvidia, amd or intel (default: $BKGEN_GPU_VENDOR, else auto)
  --gpus N             how many GPUs (or MIG slices) this host has; without it, at least one
  --interval SECONDS   default 600
  --max-bytes N        a log that has grown to N bytes becomes FILE.1 (default 10485760)
  --keep N             how many such older logs are kept (default 5)
  --dry-run            print what would be asked, ask and write nothing
  --help               print this

exit status:
   0  every GPU answers, and its processes are in pods, or in containers of Docker's or
      Podman's, which are listed, but are no alarm
   2  called wrongly
  75  the query failed, so nothing is known
  78  something needs a look: a process outside of every pod and container, memory that no
      living process holds, a GPU that cannot be read, or fewer or more GPUs than there
      should be

Needs root to see other users' processes. $BKGEN_PROC (/proc) is where processes are looked up.
TEXT
}

wrong() {
  printf 'gpu-monitor: %s\n  hint: gpu-monitor.sh --help\n' "$1" >&2
  exit 2
}

once=0 json=0 log_file='' vendor=${BKGEN_GPU_VENDOR:-auto} interval=600 max_bytes=10485760 keep=5 gpus='' dry_run=0
while [ "$#" -gt 0 ]; do
  case "$1" in
  --once) once=1 ;;
  --json) json=1 ;;
  --dry-run) dry_run=1 ;;
  --log | --vendor | --gpus | --interval | --max-bytes | --keep)
    [ "$#" -ge 2 ] && [ -n "$2" ] || wrong "$1 needs a value"
    case "$1" in
    --log) log_file=$2 ;;
    --vendor) vendor=$2 ;;
    --gpus) gpus=$2 ;;
    --interval) interval=$2 ;;
    --max-bytes) max_bytes=$2 ;;
    --keep) keep=$2 ;;
    esac
    shift
    ;;
  -h | --help)
    usage
    exit 0
    ;;
  *) wrong "unknown argument '$1'" ;;
  esac
  shift
done
[[ $vendor =~ ^(auto|nvidia|amd|intel)$ ]] || wrong "--vendor is auto, nvidia, amd or intel, not '$vendor'"
[[ $interval =~ ^[1-9][0-9]{0,6}$ ]] || wrong "--interval takes seconds, not '$interval'"
[[ $max_bytes =~ ^[1-9][0-9]{0,12}$ ]] || wrong "--max-bytes takes a number of bytes, not '$max_bytes'"
[[ $keep =~ ^(0|[1-9][0-9]?)$ ]] || wrong "--keep takes 0 to 99, not '$keep'"
[[ $gpus =~ ^(0|[1-9][0-9]{0,3})?$ ]] || wrong "--gpus takes a whole number, not '$gpus'"
if [ "$dry_run" = 1 ]; then
  gpu_commands "$vendor"
  gpu_commands "$vendor" processes | grep 'apps=\|process\| ps '
  [ -z "$log_file" ] || printf '+ write %s\n' "$log_file"
  exit 0
fi

host=$(gpu_host)

rotate() {
  local size number
  [ -f "$log_file" ] || return 0
  size=$(wc -c <"$log_file")
  [ "$size" -ge "$max_bytes" ] || return 0
  if [ "$keep" -eq 0 ]; then
    : >"$log_file"
    return 0
  fi
  for ((number = keep - 1; number >= 1; number--)); do
    [ ! -f "$log_file.$number" ] || mv -f -- "$log_file.$number" "$log_file.$((number + 1))"
  done
  mv -f -- "$log_file" "$log_file.1"
}

# say LEVEL TEXT NAME JSON-VALUE NAME JSON-VALUE …: one line; LEVEL is ok, look or failed.
say() {
  local level=$1 text=$2 now line
  shift 2
  printf -v now '%(%Y-%m-%dT%H:%M:%SZ)T' -1
  if [ "$json" = 1 ]; then
    line="{\"time\":\"$now\",\"host\":$(gpu_json_string "$host"),\"level\":\"$level\""
    while [ "$#" -gt 0 ]; do
      line+=",\"$1\":$2"
      shift 2
    done
    line+=",\"text\":$(gpu_json_string "$text")}"
  else
    line="$now $host $level: $text"
  fi
  if [ -z "$log_file" ]; then
    printf '%s\n' "$line"
  else
    printf '%s\n' "$line" >>"$log_file" || log_failed=1
    [ "$level" = ok ] || printf '%s\n' "$line" >&2
  fi
}

# Where a process lives, from its control groups: sets home to pod, container, host, gone or unknown, and
# home_detail to the pod's UID, the container's ID or the path. cgroup v1 has a line for each controller, v2 one line; a pod's path begins with
# /kubepods (/kubelet…/kubelet-kubepods in kind) and holds `pod` and the UID, with - or _ in it. A path that
# merely contains the word is somebody's own name for a group. A container that Docker or Podman started as root is
# somebody's who may use the host, such as a step with `docker: true`; it is told, but is no alarm.
find_home() {
  local directory=${BKGEN_PROC:-/proc}/$1 text line path
  home=unknown home_detail=-
  if [ ! -d "$directory" ]; then
    home=gone
    return 0
  fi
  if ! text=$(cat "$directory/cgroup" 2>/dev/null) || [ -z "$text" ]; then
    [ -d "$directory" ] || home=gone
    return 0
  fi
  home=host
  while IFS= read -r line; do
    path=${line#*:*:}
    if [[ $path =~ ^/(kubelet(\.slice)?/(kubelet-)?)?kubepods(\.slice)?/(.*[/-])?pod([0-9a-f]{8}[0-9a-f_-]{24,28})(\.slice)?(/|$) ]]; then
      home=pod
      home_detail=${BASH_REMATCH[6]//_/-}
      return 0
    fi
    if [[ $path =~ ^/(system\.slice/docker-|docker/|machine\.slice/libpod-)([0-9a-f]{64})(\.scope)?(/|$) ]]; then
      home=container
      home_detail=${BASH_REMATCH[2]:0:12}
      return 0
    fi
    [[ $path == / || $home_detail != - ]] || home_detail=$(_gpu_clean "$path")
  done <<<"$text"
}

# Asks for devices and processes; sets devices_text and processes_text. A process that ended between the two
# answers still has its memory in the first one, so where one is gone, both are asked for once more.
ask_tool() {
  local record gpu pid used name home home_detail try
  for try in 1 2; do
    devices_text=$(gpu_devices "$1")
    processes_text=$(gpu_processes "$1")
    [ "$try" = 1 ] || return 0
    while IFS=$'\t' read -r record gpu pid used name; do
      if [ "$record" = process ]; then
        find_home "$pid"
        if [ "$home" = gone ]; then
          sleep 1
          continue 2
        fi
      fi
    done <<<"$processes_text"
    return 0
  done
}

look() {
  local now_vendor devices_text processes_text status=0 record id kind total free uuid whole name
  local gpu pid used text level in_pods=0 in_containers=0 outside=0 unclear=0 sick=0 held=0 count=0 known key
  local -A explained=() gone=()
  now_vendor=$(gpu_vendor "$vendor") || status=$?
  if [ "$status" -ne 0 ]; then
    text="no GPU tool is on the path"
    [ "$status" -eq 1 ] || text="tools of several vendors are on the path; name one with --vendor"
    say failed "$text" event '"query"'
    return 75
  fi
  ask_tool "$now_vendor"
  while IFS=$'\t' read -r record id text; do
    case "$record" in
    device) count=$((count + 1)) ;;
    process | '') ;;
    problem)
      if [ "$id" = tool ]; then
        say failed "$text" event '"query"'
        status=75
      else
        say look "GPU $id: $text" event '"gpu"' gpu "$(gpu_json_string "$id")"
        sick=$((sick + 1))
      fi
      ;;
    *)
      say failed "a record that nobody knows: $record" event '"query"'
      status=75
      ;;
    esac
  done <<<"$devices_text"$'\n'"$processes_text"
  [ "$status" -eq 0 ] || return "$status"
  if [ "$count" -ne "${gpus:-$count}" ] || { [ "$count" -eq 0 ] && [ "$gpus" != 0 ]; }; then
    say look "$count GPUs are seen, ${gpus:-at least 1} should be" event '"count"' gpus "$count"
    sick=$((sick + 1))
  fi

  while IFS=$'\t' read -r record gpu pid used name; do
    [ "$record" = process ] || continue
    find_home "$pid"
    gpu_process_facts "$pid"
    known=(event '"process"' class "\"$home\"" gpu "$(gpu_json_string "$gpu")" pid "$pid"
    uid "$(gpu_json_value "$gpu_uid")" age_seconds "$(gpu_json_value "$gpu_age")"
    used_mib "$(gpu_json_value "$used")" name "$(gpu_json_string "$name")")
    level=look
    text="GPU $gpu: pid $pid ($name, uid $gpu_uid, $(gpu_age_text "$gpu_age"), $used MiB)"
    # What a living process holds; `all` where nobody knows how much of the memory is its own.
    if [ "$home" = gone ]; then
      gone[$gpu]+=", pid $pid ($name), which is gone"
      continue
    elif [ "$used" = - ] || [ "${explained[$gpu]:-}" = all ]; then
      explained[$gpu]=all
    else
      explained[$gpu]=$((${explained[$gpu]:-0} + used))
    fi
    case "$home" in
    pod)
      in_pods=$((in_pods + 1)) level=ok
      text+=" is in pod $home_detail" known+=(pod_uid "$(gpu_json_string "$home_detail")")
      ;;
    container)
      in_containers=$((in_containers + 1)) level=ok
      text+=" is in a container outside of Kubernetes: $home_detail"
      known+=(container "$(gpu_json_string "$home_detail")")
      ;;
    host)
      outside=$((outside + 1))
      text+=" is outside of every pod: $home_detail" known+=(cgroup "$(gpu_json_value "$home_detail")")
      ;;
    unknown)
      unclear=$((unclear + 1))
      text+=" has control groups that cannot be read"
      ;;
    esac
    say "$level" "$text" "${known[@]}"
  done <<<"$processes_text"

  while IFS=$'\t' read -r record id kind total free uuid whole name; do
    [ "$record" = device ] && [ "$total" != - ] && [ "$free" != - ] || continue
    used=0 text=''
    [ "$whole" != "$uuid" ] || whole=-
    for key in "$id" "$uuid" "$whole"; do
      [ "$key" != - ] || continue
      text+=${gone[$key]:-}
      if [ "${explained[$key]:-}" = all ]; then
        used=$total
      else
        used=$((used + ${explained[$key]:-0}))
      fi
    done
    # A fifth may be the driver's; what else nobody living holds was left behind.
    if (((total - free - used) * 100 > 20 * total)); then
      held=$((held + 1))
      say look "GPU $id ($name, $uuid): $((total - free)) of $total MiB are held, and $([ "$used" = 0 ] &&
        echo "no process is seen on it" || echo "the processes seen on it have $used")$text" \
        event '"gpu"' gpu "$(gpu_json_string "$id")" kind "\"$kind\"" total_mib "$total" free_mib "$free"
    fi
  done <<<"$devices_text"

  text="$count GPUs; processes: $in_pods in pods, $in_containers in other containers, $outside outside, $unclear unclear; $held GPUs held by nobody, $sick unreadable or missing"
  if ((outside + unclear + held + sick > 0)); then
    status=78
  fi
  say "$([ "$status" -eq 0 ] && echo ok || echo look)" "$text" event '"summary"' gpus "$count" in_pods "$in_pods" \
    in_containers "$in_containers" outside "$outside" unclear "$unclear" held "$held" unreadable "$sick"
  return "$status"
}

while :; do
  status=0
  log_failed=0
  if [ -n "$log_file" ]; then
    rotate
  fi
  look || status=$?
  # Findings that nobody can read are no findings.
  [ "$log_failed" = 0 ] || status=75
  [ "$once" = 0 ] || exit "$status"
  sleep "$interval"
done
