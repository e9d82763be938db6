#!/usr/bin/env bash
# Are the GPUs of this machine, or of this pod, the ones the job asked for, and are they free? Fails closed:
# what cannot be read is sick. Looks only; kills nothing.
set -euo pipefail
# shellcheck source=harness/gpu-query.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/gpu-query.sh"

usage() {
  cat <<'TEXT'
usage: gpu-health.sh [--gpus N|any] [--vendor auto|nvidia|amd|intel] [--min-free PERCENT] [--json]
                     [--dry-run]

  --gpus N|any         how many GPUs (or MIG slices) must be seen, no more and no fewer;
                       without it, any number (default: $BKGEN_GPUS)
  --vendor VENDOR      whose tool is asked: nvidia-smi, amd-smi or xpu-smi; auto takes the one
                       that is on the path (default: $BKGEN_GPU_VENDOR, else auto)
  --min-free PERCENT   how much of each GPU's memory must be free
                       (default: $BKGEN_GPU_MIN_FREE, else 80)
  --json               print the findings as one JSON object
  --dry-run            print what would be asked, ask nothing
  --help               print this

exit status:
   0  healthy
   2  called wrongly, or several vendors' tools are there and none was named
  78  sick hardware: the wrong number of GPUs, memory that somebody holds, or an answer that
      cannot be read. No test exits with it, so a retry rule on 78 retries elsewhere.
TEXT
}

wrong() {
  printf 'gpu-health: %s\n  hint: gpu-health.sh --help\n' "$1" >&2
  exit 2
}

asked=${BKGEN_GPUS:-} vendor=${BKGEN_GPU_VENDOR:-auto} min_free=${BKGEN_GPU_MIN_FREE:-80} json=0 dry_run=0
while [ "$#" -gt 0 ]; do
  case "$1" in
  --gpus | --vendor | --min-free)
    [ "$#" -ge 2 ] || wrong "$1 needs a value"
    case "$1" in
    --gpus)
      asked=$2
      [ -n "$asked" ] || wrong "--gpus takes a whole number or 'any', not ''"
      ;;
    --vendor) vendor=$2 ;;
    --min-free) min_free=$2 ;;
    esac
    shift 2
    ;;
  --json)
    json=1
    shift
    ;;
  --dry-run)
    dry_run=1
    shift
    ;;
  -h | --help)
    usage
    exit 0
    ;;
  *) wrong "unknown argument '$1'" ;;
  esac
done
[ "$asked" != any ] || asked=''
[[ $asked =~ ^(0|[1-9][0-9]{0,3})?$ ]] || wrong "--gpus takes a whole number, not '$asked'"
[[ $min_free =~ ^(0|[1-9][0-9]?|100)$ ]] || wrong "--min-free takes 0 to 100, not '$min_free'"
[[ $vendor =~ ^(auto|nvidia|amd|intel)$ ]] || wrong "--vendor is auto, nvidia, amd or intel, not '$vendor'"
if [ "$dry_run" = 1 ]; then
  gpu_commands "$vendor"
  gpu_commands "$vendor" processes | sed -n '/apps=\|process\| ps /s/$/   # where a GPU is not free/p'
  exit 0
fi

host=$(gpu_host)
devices=() problems=() seen=0 unknown=''

# The processes on a GPU, with what the kernel tells about them; in a pod, most are out of sight.
holders() {
  local id=$1 uuid=$2 whole=$3 kind gpu pid used name text=''
  while IFS=$'\t' read -r kind gpu pid used name; do
    if [ "$kind" = problem ]; then
      text="; its processes cannot be listed: $pid"
    elif [ "$kind" = process ] && [[ $gpu == "$id" || $gpu == "$uuid" || $gpu == "$whole" ]]; then
      gpu_process_facts "$pid"
      text+=", pid $pid ($name, uid $gpu_uid, $(gpu_age_text "$gpu_age"), $used MiB)"
    fi
  done <<<"$processes"
  case "$text" in
  '') printf '; no process that can be seen from here holds it' ;;
  ,*) printf '; held by%s' "${text#,}" ;;
  *) printf '%s' "$text" ;;
  esac
}

look_at() {
  local id=$1 kind=$2 total=$3 free=$4 uuid=$5 whole=$6 name=$7 percent=-
  seen=$((seen + 1))
  # Not to be reached: but arithmetic that fails would end this function, and the GPU would pass for healthy.
  if [[ ! $total$free =~ ^[0-9-]+$ || $total == 0?* || $free == 0?* ]]; then
    problems+=("GPU $id: memory cannot be read: '$free' of '$total'")
    total=- free=-
  fi
  [[ $total != - && $free != - ]] || unknown=$id
  if [ "$total" != - ] && [ "$free" != - ]; then
    percent=$((free * 100 / total))
    if ((free * 100 < min_free * total)); then
      [ -n "${processes+asked}" ] || processes=$(gpu_processes "$vendor")
      problems+=("GPU $id ($name, $uuid): $percent % of $total MiB is free, at least $min_free % is needed$(holders "$id" "$uuid" "$whole")")
    fi
  fi
  devices+=("$(printf '{"id":%s,"kind":"%s","name":%s,"uuid":%s,"total_mib":%s,"free_mib":%s,"free_percent":%s}' \
    "$(gpu_json_string "$id")" "$kind" "$(gpu_json_string "$name")" "$(gpu_json_value "$uuid")" \
    "$(gpu_json_value "$total")" "$(gpu_json_value "$free")" "$(gpu_json_value "$percent")")")
}

status=0
found=$(gpu_vendor "$vendor") || status=$?
if [ "$status" -eq 2 ]; then
  wrong "tools of several vendors are on the path; name one with --vendor or BKGEN_GPU_VENDOR"
elif [ "$status" -ne 0 ]; then
  missing="nvidia-smi, amd-smi or xpu-smi"
  [ "$vendor" = auto ] || missing=$(gpu_tool "$vendor")
  # Without a tool nothing can be seen; only a job that wants nothing may take that for an answer.
  [ "$asked" = 0 ] || problems+=("no $missing on the path; is the container's runtime the GPU's?")
else
  vendor=$found
  records=$(gpu_devices "$vendor")
  unreadable=0
  while IFS=$'\t' read -r record id kind total free uuid whole name; do
    case "$record" in
    device) look_at "$id" "$kind" "$total" "$free" "$uuid" "$whole" "$name" ;;
    problem)
      if [ "$id" = tool ]; then
        unreadable=1
        problems+=("$kind")
      else
        problems+=("GPU $id: $kind")
      fi
      ;;
    '') ;;
    *) problems+=("a record that nobody knows: $record") ;;
    esac
  done <<<"$records"
  if [ -n "$unknown" ] && [ "${#problems[@]}" -eq 0 ]; then
    problems+=("GPU $unknown: its memory is not known")
  fi
  # The number is no news when the tool gave no answer at all.
  if [ -n "$asked" ] && [ "$seen" -ne "$asked" ] && ! { [ "$unreadable" = 1 ] && [ "$seen" -eq 0 ]; }; then
    problems+=("$seen GPUs are seen, $asked asked for")
  fi
fi

verdict=healthy
[ "${#problems[@]}" -eq 0 ] || verdict=sick
if [ "$json" = 1 ]; then
  join() {
    local IFS=,
    printf '%s' "$*"
  }
  quoted=()
  for problem in "${problems[@]}"; do
    quoted+=("$(gpu_json_string "$problem")")
  done
  printf '{"host":%s,"vendor":"%s","asked":%s,"seen":%s,"min_free_percent":%s,"verdict":"%s","devices":[%s],"problems":[%s]}\n' \
    "$(gpu_json_string "$host")" "$vendor" "${asked:-null}" "$seen" "$min_free" "$verdict" \
    "$(join "${devices[@]}")" "$(join "${quoted[@]}")"
fi
if [ "$verdict" = healthy ]; then
  printf 'gpu-health: healthy: %s: %s GPUs, each with at least %s %% of its memory free\n' "$host" "$seen" "$min_free" >&2
  exit 0
fi
for problem in "${problems[@]}"; do
  printf 'gpu-health: sick: %s: %s\n' "$host" "$problem" >&2
done
exit 78
