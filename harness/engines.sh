# shellcheck shell=bash
# How the suites drive what they test: vLLM, LMCache's cache server, SGLang. To be sourced after `set -euo
# pipefail`, from the repository's root; brings harness/lib.sh along.
#
# Set in the environment, so that a person or a test can change them:
#   BKGEN_MODEL                 the model that is served
#   BKGEN_READY_SECONDS         how long an engine may take to load it
#   BKGEN_CACHE_READY_SECONDS   how long a cache server may take
#   BKGEN_SETTLE_SECONDS        how long a store may go on after its answer; stores are asynchronous

if ! declare -F start_server >/dev/null; then
  # shellcheck source=harness/lib.sh
  source harness/lib.sh
fi

MODEL=${BKGEN_MODEL:-Qwen/Qwen3-0.6B}
ENGINE_READY_SECONDS=${BKGEN_READY_SECONDS:-600}
CACHE_READY_SECONDS=${BKGEN_CACHE_READY_SECONDS:-60}
SETTLE_SECONDS=${BKGEN_SETTLE_SECONDS:-30}

# Counters that prove which side an answer came from. The first two are LMCache's, in chunks; the last is
# vLLM's, in tokens that a connector brought.
# shellcheck disable=SC2034 # the suites read them
{
  CACHE_WRITES=lmcache_mp_l1_write_chunks_total
  CACHE_READS=lmcache_mp_l1_read_chunks_total
  ENGINE_HITS=vllm:external_prefix_cache_hits_total
}

# The same tokens must get the same keys in every process.
export PYTHONHASHSEED=0
export LMCACHE_TRACK_USAGE=false

# help_on_request "$@": prints the comment at the head of the running script and ends, if --help is asked.
help_on_request() {
  case ${1:-} in
  -h | --help)
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"
    exit 0
    ;;
  esac
}

# artifacts_directory NAME: sets LOGS to artifacts/NAME and empties it, so that a second run shows its own. Git is
# told to look away: to bkgen an untracked file is a changed one.
artifacts_directory() {
  LOGS=artifacts/$1
  rm -rf -- "$LOGS"
  mkdir -p "$LOGS"
  printf '*\n' >artifacts/.gitignore
}

# engine_up LOG PORT COMMAND…: starts an engine and waits for its /health; sets ENGINE_PID.
engine_up() {
  local log=$1 port=$2
  shift 2
  start_server "$log" "$@"
  ENGINE_PID=$SERVER_PID
  wait_until_ready "$ENGINE_PID" "http://127.0.0.1:$port/health" "$ENGINE_READY_SECONDS" "$log"
}

# vllm_up LOG PORT [OPTION…]: an OpenAI-compatible server of vLLM. Its own prefix cache is off: what it does
# not compute again must have come through the connector.
vllm_up() {
  local log=$1 port=$2
  shift 2
  engine_up "$log" "$port" vllm serve "$MODEL" --host 127.0.0.1 --port "$port" \
    --no-enable-prefix-caching --max-model-len "${MAX_MODEL_LEN:-8192}" \
    --gpu-memory-utilization "${GPU_MEMORY_UTILIZATION:-0.8}" "$@"
}

# cache_up LOG PORT HTTP_PORT [OPTION…]: a cache server of LMCache; sets CACHE_PID.
cache_up() {
  local log=$1 port=$2 http_port=$3
  shift 3
  start_server "$log" lmcache server --host 127.0.0.1 --port "$port" \
    --http-host 127.0.0.1 --http-port "$http_port" \
    --l1-size-gb "${L1_SIZE_GB:-20}" --eviction-policy LRU --chunk-size "${CHUNK_SIZE:-256}" "$@"
  CACHE_PID=$SERVER_PID
  wait_until_ready "$CACHE_PID" "http://127.0.0.1:$http_port/healthcheck" "$CACHE_READY_SECONDS" "$log"
}

# connector PORT [MEMBERS]: the JSON of --kv-transfer-config for the cache server at PORT; MEMBERS are further
# members of kv_connector_extra_config. CACHE_SCHEME is the request transport: tcp (ZMQ) or grpc. When the
# cache is lost, vLLM computes again instead of failing the request.
connector() {
  printf '{"kv_connector":"%s","kv_role":"kv_both","kv_load_failure_policy":"recompute",' \
    "${KV_CONNECTOR:-LMCacheMPConnector}"
  printf '"kv_connector_extra_config":{"lmcache.mp.host":"%s://127.0.0.1","lmcache.mp.port":%d%s}}\n' \
    "${CACHE_SCHEME:-tcp}" "$1" "${2:+,$2}"
}

# counter URL NAME: the sum of a Prometheus counter over its labels; 0 while nothing was counted.
counter() {
  local page
  # errexit does not reach into $(counter …): without the return a server that is gone would count 0.
  page=$(curl --fail --silent --show-error --max-time 10 "$1/metrics") || return
  awk -v name="$2" \
    '$1 == name || index($1, name "{") == 1 { sum += $NF } END { printf "%.0f\n", sum }' <<<"$page"
}

# wait_for_more URL NAME BEFORE WHAT: until the counter is above BEFORE; fails with WHAT when it stays.
wait_for_more() {
  local url=$1 name=$2 before=$3 what=$4 now deadline=$((SECONDS + SETTLE_SECONDS))
  while :; do
    now=$(counter "$url" "$name")
    if [ "$now" -gt "$before" ]; then
      log "$what: $name went from $before to $now"
      return 0
    fi
    [ "$SECONDS" -lt "$deadline" ] || die "$what: $name stayed at $now for $SETTLE_SECONDS seconds"
    sleep 0.5
  done
}

# notes SUBJECT [SENTENCES]: a text long enough for several chunks of the cache, the same at every call.
notes() {
  local n
  for ((n = 1; n <= ${2:-90}; n++)); do
    printf 'Line %d of the notes on %s: reading number %d of that day was %d. ' \
      "$n" "$1" "$n" "$((n * 37 % 101))"
  done
}

# long_prompts: sets PROMPTS to three long questions without a common beginning.
long_prompts() {
  local subject
  PROMPTS=()
  for subject in tides "rail freight" lichens; do
    PROMPTS+=("$(notes "$subject")What was reading number 7? Answer with the number only. Answer:")
  done
}

# ask_each URL FILE PROMPT…: asks one after another and writes the answers to FILE. An empty answer is a
# failure: two empty ones would be equal and prove nothing.
ask_each() {
  local url=$1 file=$2 number=0 prompt answer
  shift 2
  : >"$file"
  for prompt; do
    number=$((number + 1))
    answer=$(ask "$url" "$MODEL" "$prompt")
    [[ $answer =~ [^[:space:]] ]] || die "question $number got an empty answer from $url"
    printf -- '--- answer %d\n%s\n' "$number" "$answer" >>"$file"
  done
}

# same_answers EXPECTED GOT: fails with the difference unless the two files are equal.
same_answers() {
  if ! diff -u -- "$1" "$2" >&2; then
    die "the answers in $2 differ from those in $1"
  fi
  log "the answers in $1 and $2 are equal"
}

# ask_cold ENGINE METRICS COUNTER PROMPT…: the answers that are computed; waits until COUNTER at METRICS shows
# that they were stored ('' for nothing to wait for).
ask_cold() {
  local engine=$1 metrics=$2 name=$3 before=0
  shift 3
  [ -z "$name" ] || before=$(counter "$metrics" "$name")
  ask_each "$engine" "$LOGS/cold.txt" "$@"
  [ -z "$name" ] || wait_for_more "$metrics" "$name" "$before" "the cold answers were stored"
}

# ask_warm ENGINE METRICS COUNTER PROMPT…: the same questions again: COUNTER at METRICS must show that the cache
# was used, and the answers must be those of ask_cold.
ask_warm() {
  local engine=$1 metrics=$2 name=$3 before
  shift 3
  before=$(counter "$metrics" "$name")
  ask_each "$engine" "$LOGS/warm.txt" "$@"
  wait_for_more "$metrics" "$name" "$before" "the warm answers came from the cache"
  same_answers "$LOGS/cold.txt" "$LOGS/warm.txt"
}

# json_value FILE PATH: a number or text out of a JSON file; PATH is the keys, joined by /.
json_value() {
  python3 - "$1" "$2" <<'PYTHON'
import json
import sys

path, keys = sys.argv[1], sys.argv[2].split("/")
try:
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    for key in keys:
        value = value[int(key) if isinstance(value, list) else key]
except (OSError, ValueError, LookupError, TypeError) as problem:
    sys.exit(f"{path}: no {'/'.join(keys)} in it ({type(problem).__name__}: {problem})")
print(value)
PYTHON
}

# within DIFFERENCE A B WHAT: fails unless the numbers A and B are no further apart than DIFFERENCE.
within() {
  awk -v most="$1" -v a="$2" -v b="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= most) }' ||
    die "$4: $2 and $3 are more than $1 apart"
  log "$4: $2 and $3"
}
