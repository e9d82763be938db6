#!/usr/bin/env bash
# Starts a cache server and vLLM, and checks the OpenAI-compatible API that users see: models, completions,
# chat, streaming, several requests at once, and errors that stay errors.
#
# usage: k3_tests/integration/run.sh
#
#   BKGEN_MODEL           the model that is served
#   BKGEN_READY_SECONDS   how long vLLM may take to load it
#   BKGEN_GPUS            how many GPUs must be seen (default: 1; empty: any number)
#
# Responses and logs are in artifacts/integration.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=harness/engines.sh
source harness/engines.sh
help_on_request "$@"
export BKGEN_GPUS=${BKGEN_GPUS-1}
export BKGEN_INSTALL=${BKGEN_INSTALL-"vllm lmcache"}
export BKGEN_PROBE=${BKGEN_PROBE-"vllm --version"}
# shellcheck source=harness/setup-env.sh
source harness/setup-env.sh

require_command vllm lmcache curl python3
artifacts_directory integration

group "Start the cache server and vLLM"
cache_port=$(free_port)
http_port=$(free_port)
cache_up "$LOGS/lmcache.log" "$cache_port" "$http_port"
port=$(free_port)
vllm_up "$LOGS/vllm.log" "$port" --kv-transfer-config "$(connector "$cache_port")"
engine=http://127.0.0.1:$port
cache=http://127.0.0.1:$http_port

# send FILE PATH [JSON]: a GET, or a POST of JSON; the body goes to FILE, the HTTP status is printed.
send() {
  local file=$1 url=$engine$2
  local options=(--silent --show-error --max-time 120 --output "$file" --write-out '%{http_code}')
  if [ $# -gt 2 ]; then
    options+=(--header 'Content-Type: application/json' --data "$3")
  fi
  curl "${options[@]}" "$url"
}

# expect STATUS FILE PATH [JSON]: send, and fail with the body unless the status is as expected.
expect() {
  local wanted=$1 got
  shift
  got=$(send "$@") || die "$2: no answer"
  if [ "$got" != "$wanted" ]; then
    cat "$1" >&2
    die "$2 answered with status $got, not $wanted"
  fi
  log "$2: status $got"
}

group "Models and completions"
expect 200 "$LOGS/models.json" /v1/models
served=$(json_value "$LOGS/models.json" data/0/id)
[ "$served" = "$MODEL" ] || die "/v1/models names '$served', not '$MODEL'"
body='{"model":"'$MODEL'","prompt":"One, two, three,","max_tokens":8,"temperature":0}'
expect 200 "$LOGS/completion.json" /v1/completions "$body"
text=$(json_value "$LOGS/completion.json" choices/0/text)
[ -n "$text" ] || die "/v1/completions: empty text"
body='{"model":"'$MODEL'","messages":[{"role":"user","content":"Say hello."}],"max_tokens":8,"temperature":0}'
expect 200 "$LOGS/chat.json" /v1/chat/completions "$body"
role=$(json_value "$LOGS/chat.json" choices/0/message/role)
[ "$role" = assistant ] || die "/v1/chat/completions: the answer's role is '$role'"

group "Streaming"
body='{"model":"'$MODEL'","prompt":"One, two, three,","max_tokens":8,"temperature":0,"stream":true}'
expect 200 "$LOGS/stream.txt" /v1/completions "$body"
grep -qx 'data: \[DONE\]' <(tr -d '\r' <"$LOGS/stream.txt") || die "the stream has no end mark"

group "Errors stay errors"
expect 404 "$LOGS/unknown-model.json" /v1/completions '{"model":"no-such-model","prompt":"x","max_tokens":1}'
expect 400 "$LOGS/bad-request.json" /v1/completions '{"model":"'"$MODEL"'","prompt":"x","max_tokens":-1}'

group "Answers from the cache, one after another"
long_prompts
ask_cold "$engine" "$cache" "$CACHE_WRITES" "${PROMPTS[@]}"
ask_warm "$engine" "$cache" "$CACHE_READS" "${PROMPTS[@]}"

group "The same at once"
jobs=()
for n in "${!PROMPTS[@]}"; do
  ask "$engine" "$MODEL" "${PROMPTS[n]}" >"$LOGS/at-once-$n.txt" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do
  wait "$job" || die "a request that ran beside others failed"
done
# Kernels may round differently in a larger batch, so only that there is an answer is asked for here.
for n in "${!PROMPTS[@]}"; do
  grep -q '[^[:space:]]' "$LOGS/at-once-$n.txt" || die "request $((n + 1)) of ${#jobs[@]} at once got no answer"
done
log "${#jobs[@]} requests at once were all answered"
