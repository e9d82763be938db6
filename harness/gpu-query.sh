# shellcheck shell=bash
#
# Asks the vendors' tools about GPUs; sourced by gpu-health.sh, gpu-monitor.sh and lib.sh, defines functions
# and what is asked. What a tool says is believed only as far as every line of it can be read: a tool that is broken prints
# its error where the numbers should be, or prints nothing, and both once passed for a healthy machine.
#
# gpu_devices and gpu_processes print one record a line, fields separated by tabs, `-` for what is not known:
#
#   device   ID  gpu|mig  TOTAL-MIB  FREE-MIB  UUID  UUID-OF-THE-WHOLE-GPU  NAME
#   process  GPU  PID  USED-MIB  NAME           GPU is the ID or the UUID of a device
#   problem  tool|ID  TEXT                      what cannot be read, for the tool as a whole or for one device
#
# BKGEN_GPU_TOOL_SECONDS (60) is how long a tool may take: the tool of a GPU that fell off the bus hangs.
# BKGEN_PROC (/proc) is where processes are looked up.

_gpu_nvidia_query=index,uuid,mig.mode.current,memory.total,memory.free,name
_gpu_nvidia_apps=pid,gpu_uuid,used_memory,process_name

gpu_tool() {
  case "$1" in
  nvidia) echo nvidia-smi ;;
  amd) echo amd-smi ;;
  intel) echo xpu-smi ;;
  esac
}

# gpu_vendor auto|nvidia|amd|intel: prints the vendor whose tool is to be asked. Status 1 when no tool is on the
# path, 2 when several are and nobody said which.
gpu_vendor() {
  local vendor tools=()
  for vendor in nvidia amd intel; do
    if [[ $1 == auto || $1 == "$vendor" ]] && command -v "$(gpu_tool "$vendor")" >/dev/null 2>&1; then
      tools+=("$vendor")
    fi
  done
  case "${#tools[@]}" in
  0) return 1 ;;
  1) printf '%s\n' "${tools[0]}" ;;
  *) return 2 ;;
  esac
}

# gpu_count auto|VENDOR: prints how many devices are seen. Status 1 when the tool is missing or cannot be read.
gpu_count() {
  local vendor records
  vendor=$(gpu_vendor "$1") || return 1
  records=$(gpu_devices "$vendor")
  if grep -q '^problem'$'\t''tool' <<<"$records"; then
    return 1
  fi
  grep -c '^device' <<<"$records" || true
}

# gpu_commands auto|VENDOR [processes]: prints what would be asked, one command a line, for --dry-run. `auto` is
# whichever tool is on the path, and all of them where none is.
gpu_commands() {
  local vendor=$1
  if [ "$vendor" = auto ] && ! vendor=$(gpu_vendor auto); then
    for vendor in nvidia amd intel; do
      gpu_commands "$vendor" "${2:-}"
    done
    return 0
  fi
  case "$vendor" in
  nvidia)
    printf '+ %s\n' "nvidia-smi --query-gpu=$_gpu_nvidia_query --format=csv,noheader,nounits" \
      "nvidia-smi -L   # where MIG is on" "nvidia-smi -q -x   # where MIG is on"
    ;;
  amd) echo "+ amd-smi metric --mem-usage --json" ;;
  intel)
    printf '+ %s\n' "xpu-smi discovery -j" "xpu-smi discovery -d ID -j   # for each GPU" \
      "xpu-smi stats -d ID -j   # for each GPU"
    ;;
  esac
  [ "${2:-}" != processes ] || case "$vendor" in
  nvidia) echo "+ nvidia-smi --query-compute-apps=$_gpu_nvidia_apps --format=csv,noheader,nounits" ;;
  amd) echo "+ amd-smi process --json" ;;
  intel) echo "+ xpu-smi ps -j" ;;
  esac
}

gpu_devices() { "_gpu_${1}_devices"; }

gpu_processes() { "_gpu_${1}_processes"; }

_gpu_problem() {
  printf 'problem\t%s\t%s\n' "$1" "$(_gpu_clean "$2")"
}

# One line of printable text, of bounded length, never empty: fit for a record, a log and JSON.
_gpu_clean() {
  local LC_ALL=C IFS=$' \t\n' text=${1:0:400} words
  text=${text//[^[:print:]]/ }
  read -ra words <<<"$text"
  text="${words[*]}"
  printf '%s' "${text:--}"
}

# Runs a tool; sets _gpu_output and _gpu_status. `read` bounds the time once more than `timeout` does: a tool
# that hangs inside the driver cannot be killed, and waiting for it would hang as well.
_gpu_run() {
  local seconds=${BKGEN_GPU_TOOL_SECONDS:-60} raw='' limit=()
  if command -v timeout >/dev/null 2>&1; then
    limit=(timeout -k 1 "$seconds")
  fi
  _gpu_output='' _gpu_status=124
  if IFS= read -r -d '' -t "$((seconds + 3))" raw < <(
    # A tool that hangs for ever must not hold the job's own log open as well.
    exec 2>/dev/null
    status=0
    LC_ALL=C "${limit[@]}" "$@" </dev/null 2>&1 || status=$?
    printf '\n%s\0' "$status"
  ); then
    _gpu_output=${raw%$'\n'*}
    _gpu_status=${raw##*$'\n'}
  fi
  [[ $_gpu_status =~ ^[0-9]+$ ]] || _gpu_status=125
}

# Whether the tool that _gpu_run has just run ended well and said something. If not, prints the problem.
_gpu_answered() {
  local tool=$1 first
  first=${_gpu_output#"${_gpu_output%%[![:space:]]*}"}
  first=${first%%$'\n'*}
  if [ "$_gpu_status" -eq 124 ]; then
    _gpu_problem tool "$tool did not answer within ${BKGEN_GPU_TOOL_SECONDS:-60} s"
  elif [ "$_gpu_status" -ne 0 ]; then
    _gpu_problem tool "$tool ended with status $_gpu_status: ${first:-no output}"
  elif [ -z "$first" ]; then
    _gpu_problem tool "$tool printed nothing"
  else
    return 0
  fi
  return 1
}

_gpu_ask() {
  _gpu_run "$@"
  _gpu_answered "$1"
}

# Reads the report in _gpu_output with gpu_reports.py; prints its lines, or the problem. Its last line says that it
# came to the end: a python3 that is broken may print nothing and be content.
_gpu_report() {
  local lines status=0
  if ! command -v python3 >/dev/null 2>&1; then
    _gpu_problem tool "python3 is not on the path; without it this report cannot be read"
    return 1
  fi
  lines=$(python3 -I -S "$(dirname -- "${BASH_SOURCE[0]}")/gpu_reports.py" "$@" <<<"$_gpu_output" 2>/dev/null) ||
    status=$?
  if [[ $lines != end && $lines != *$'\n'end ]]; then
    _gpu_problem tool "python3 could not read the report '$1' to its end (status $status)"
    return 1
  fi
  lines=${lines%end}
  printf '%s' "$lines"
  return "$status"
}

# Prints a device and, for memory that makes no sense, its problems.
_gpu_device() {
  local id=$1 kind=$2 total=$3 free=$4 uuid=$5 whole=$6 name=$7
  if [[ ! $total =~ ^[0-9]{1,9}$ ]]; then
    _gpu_problem "$id" "total memory cannot be read: '$total'"
    total=-
  elif ((10#$total == 0)); then
    _gpu_problem "$id" "total memory is 0 MiB"
    total=-
  else
    total=$((10#$total)) # a leading zero would be octal
  fi
  if [[ $total == - && $free == - ]]; then
    : # what is free follows from the total, which has been told
  elif [[ ! $free =~ ^[0-9]{1,9}$ ]]; then
    _gpu_problem "$id" "free memory cannot be read: '$free'"
    free=-
  else
    free=$((10#$free))
    if [ "$total" != - ] && [ "$free" -gt "$total" ]; then
      _gpu_problem "$id" "$free MiB free of $total MiB is impossible"
      free=-
    fi
  fi
  printf 'device\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
    "$id" "$kind" "$total" "$free" "$uuid" "$whole" "$(_gpu_clean "$name")"
}

# ------------------------------------------------------------------------------------------------- NVIDIA

_gpu_nvidia_devices() {
  local line id uuid mig total free name sliced=()
  local -A listed=()
  _gpu_run nvidia-smi "--query-gpu=$_gpu_nvidia_query" --format=csv,noheader,nounits
  # The tool's way of saying zero: some versions end with status 6, some with 0.
  if [[ $_gpu_status == [06] && $_gpu_output =~ ^[[:space:]]*'No devices were found'[[:space:]]*$ ]]; then
    return 0
  fi
  _gpu_answered nvidia-smi || return 0
  while IFS= read -r line; do
    [[ $line =~ [^[:space:]] ]] || continue
    if [[ ! $line =~ ^(0|[1-9][0-9]{0,8}),\ (GPU-[0-9A-Za-z-]+),\ ([^,]+),\ ([^,]+),\ ([^,]+),\ (.+)$ ]]; then
      _gpu_problem tool "nvidia-smi printed a line that cannot be read: $line"
      continue
    fi
    id=${BASH_REMATCH[1]} uuid=${BASH_REMATCH[2]} mig=${BASH_REMATCH[3]}
    total=${BASH_REMATCH[4]} free=${BASH_REMATCH[5]} name=${BASH_REMATCH[6]}
    if [ -n "${listed[$id]:-}" ]; then
      _gpu_problem tool "nvidia-smi lists GPU $id twice"
      continue
    fi
    listed[$id]=1
    case "$mig" in
    Enabled) sliced+=("$id" "$uuid") ;;
    Disabled | '[N/A]' | '[Not Supported]') _gpu_device "$id" gpu "$total" "$free" "$uuid" "$uuid" "$name" ;;
    *)
      _gpu_problem "$id" "MIG mode cannot be read: '$mig'"
      _gpu_device "$id" gpu "$total" "$free" "$uuid" "$uuid" "$name"
      ;;
    esac
  done <<<"$_gpu_output"
  [ "${#sliced[@]}" -eq 0 ] || _gpu_nvidia_slices "${sliced[@]}"
}

# The slices of the GPUs given as ID UUID ID UUID …. `nvidia-smi -L` knows which there are, the XML report knows
# their memory; the memory of the GPU itself is `[N/A]` to whoever holds a slice only.
_gpu_nvidia_slices() {
  local line gpu='' key kind total free
  local -A wanted=() names=() uuids=() totals=() frees=() divided=()
  local order=()
  while [ "$#" -gt 0 ]; do
    wanted[$1]=$2
    shift 2
  done
  _gpu_ask nvidia-smi -L || return 0
  while IFS= read -r line; do
    if [[ $line =~ ^GPU\ ([0-9]+):\ .*\(UUID:\ (GPU-[0-9A-Za-z-]+)\)[[:space:]]*$ ]]; then
      gpu=${BASH_REMATCH[1]}
    elif [[ -n $gpu && $line =~ ^[[:space:]]+MIG\ ([0-9a-z.+]+)[[:space:]]+Device[[:space:]]+([0-9]+):\ \(UUID:\ (MIG-[0-9A-Za-z/-]+)\)[[:space:]]*$ ]]; then
      key=$gpu/${BASH_REMATCH[2]}
      order+=("$key")
      names[$key]="MIG ${BASH_REMATCH[1]}"
      uuids[$key]=${BASH_REMATCH[3]}
      divided[$gpu]=1
    elif [[ $line =~ [^[:space:]] ]]; then
      _gpu_problem tool "nvidia-smi -L printed a line that cannot be read: $line"
    fi
  done <<<"$_gpu_output"
  for gpu in "${!wanted[@]}"; do
    [ -n "${divided[$gpu]:-}" ] || _gpu_problem "$gpu" "MIG is on, but the GPU has no slice"
  done
  [ "${#order[@]}" -gt 0 ] || return 0
  _gpu_ask nvidia-smi -q -x || return 0
  while IFS=$'\t' read -r kind gpu key total free; do
    if [ "$kind" = problem ]; then
      _gpu_problem "$gpu" "$key"
    elif [ "$kind" = slice ]; then
      totals["$gpu/$key"]=$total
      frees["$gpu/$key"]=$free
    fi
  done < <(_gpu_report nvidia-slices)
  for key in "${order[@]}"; do
    gpu=${wanted[${key%/*}]:-}/${key#*/}
    _gpu_device "$key" mig "${totals[$gpu]:-not in the report}" "${frees[$gpu]:-not in the report}" \
      "${uuids[$key]}" "${wanted[${key%/*}]:--}" "${names[$key]}"
  done
}

_gpu_nvidia_processes() {
  local line pid uuid used name
  _gpu_run nvidia-smi "--query-compute-apps=$_gpu_nvidia_apps" --format=csv,noheader,nounits
  # No process at all is an empty answer here, or a sentence, depending on the version.
  if [[ $_gpu_status == 0 && $_gpu_output =~ ^[[:space:]]*('No running processes found')?[[:space:]]*$ ]]; then
    return 0
  fi
  _gpu_answered nvidia-smi || return 0
  while IFS= read -r line; do
    [[ $line =~ [^[:space:]] ]] || continue
    if [[ ! $line =~ ^([1-9][0-9]{0,8}),\ (GPU-[0-9A-Za-z-]+|MIG-[0-9A-Za-z/-]+),\ ([^,]+),\ (.*)$ ]]; then
      _gpu_problem tool "nvidia-smi printed a line that cannot be read: $line"
      continue
    fi
    pid=${BASH_REMATCH[1]} uuid=${BASH_REMATCH[2]} used=${BASH_REMATCH[3]} name=${BASH_REMATCH[4]}
    if [[ $used =~ ^[0-9]{1,9}$ ]]; then
      used=$((10#$used))
    else
      used=-
    fi
    printf 'process\t%s\t%s\t%s\t%s\n' "$uuid" "$pid" "$used" "$(_gpu_clean "$name")"
  done <<<"$_gpu_output"
}

# ---------------------------------------------------------------------------------------------------- AMD

_gpu_amd_devices() {
  local kind id total free name
  _gpu_ask amd-smi metric --mem-usage --json || return 0
  while IFS=$'\t' read -r kind id total free name; do
    case "$kind" in
    device) _gpu_device "$id" gpu "$total" "$free" - - "$name" ;;
    problem) _gpu_problem "$id" "$total" ;;
    esac
  done < <(_gpu_report amd-devices)
}

_gpu_amd_processes() {
  _gpu_ask amd-smi process --json || return 0
  _gpu_report amd-processes || true
}

# -------------------------------------------------------------------------------------------------- Intel

_gpu_intel_devices() {
  local ids kind id name total used free
  _gpu_ask xpu-smi discovery -j || return 0
  ids=$(_gpu_report intel-devices)
  while IFS=$'\t' read -r kind id name; do
    if [ "$kind" = problem ]; then
      _gpu_problem "$id" "$name"
    fi
    [ "$kind" = device ] || continue
    _gpu_run xpu-smi discovery -d "$id" -j
    total=$(_gpu_answered xpu-smi && _gpu_report intel-total) || total=${total##*$'\t'}
    _gpu_run xpu-smi stats -d "$id" -j
    used=$(_gpu_answered xpu-smi && _gpu_report intel-used) || used=${used##*$'\t'}
    free=$used
    if [[ $used =~ ^[0-9]+$ ]]; then
      free=-
      [[ ! $total =~ ^[0-9]+$ ]] || free=$((total - used))
    fi
    _gpu_device "$id" gpu "$total" "$free" - - "$name"
  done <<<"$ids"
}

_gpu_intel_processes() {
  _gpu_ask xpu-smi ps -j || return 0
  _gpu_report intel-processes || true
}

# ---------------------------------------------------------------------------------------------- processes

# gpu_process_facts PID: sets gpu_uid, gpu_age (seconds) and gpu_comm from the kernel, `-` where it does not tell.
# shellcheck disable=SC2034 # the callers read them
gpu_process_facts() {
  local root=${BKGEN_PROC:-/proc} stat='' uptime hertz line fields
  gpu_uid=- gpu_age=- gpu_comm=-
  [ -r "$root/$1/stat" ] || return 0
  { IFS= read -r -d '' stat <"$root/$1/stat"; } 2>/dev/null || true
  gpu_comm=${stat#*\(}
  gpu_comm=$(_gpu_clean "${gpu_comm%)*}")
  while IFS= read -r line; do
    if [[ $line =~ ^Uid:[[:space:]]+([0-9]+) ]]; then
      gpu_uid=${BASH_REMATCH[1]}
    fi
  done < <(cat "$root/$1/status" 2>/dev/null)
  read -ra fields <<<"${stat##*) }"
  { read -r uptime _ <"$root/uptime"; } 2>/dev/null || return 0
  hertz=$(getconf CLK_TCK 2>/dev/null) || hertz=100
  # Field 22 of the file, the 20th after the name: ticks between the machine's start and the process's.
  if [[ ${fields[19]:-} =~ ^[0-9]+$ && ${uptime%%.*} =~ ^[0-9]+$ ]]; then
    gpu_age=$((${uptime%%.*} - fields[19] / hertz))
    ((gpu_age >= 0)) || gpu_age=0
  fi
}

# gpu_age_text SECONDS: for people.
gpu_age_text() {
  local seconds=$1
  if [[ ! $seconds =~ ^[0-9]+$ ]]; then
    printf 'of unknown age'
  elif ((seconds >= 86400)); then
    printf 'for %d d %d h' $((seconds / 86400)) $((seconds % 86400 / 3600))
  elif ((seconds >= 3600)); then
    printf 'for %d h %d min' $((seconds / 3600)) $((seconds % 3600 / 60))
  elif ((seconds >= 60)); then
    printf 'for %d min' $((seconds / 60))
  else
    printf 'for %d s' "$seconds"
  fi
}

# gpu_host: this machine, and the node below it when it is a pod.
gpu_host() {
  local name=${HOSTNAME:-}
  [ -n "$name" ] || name=$(uname -n)
  if [ -n "${BUILDKITE_K8S_NODE:-}" ] && [ "$BUILDKITE_K8S_NODE" != "$name" ]; then
    name="$name on node $BUILDKITE_K8S_NODE"
  fi
  printf '%s' "$name"
}

# ------------------------------------------------------------------------------------------------- values

# A JSON string; the text has gone through _gpu_clean or is ours.
gpu_json_string() {
  local text=${1//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

# A JSON number or string, and null for `-`.
gpu_json_value() {
  if [ "$1" = - ]; then
    printf 'null'
  elif [[ $1 =~ ^(0|[1-9][0-9]*)$ ]]; then
    printf '%s' "$1"
  else
    gpu_json_string "$1"
  fi
}
