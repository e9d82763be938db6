# shellcheck shell=bash
#
# Part of ../lib.sh: ports, readiness, questions.

# free_port
# Prints a TCP port of the loopback interface that nobody listens on or uses now. Taken from 20000 to 29999:
# below the range from which the kernel serves outgoing connections, and below Kubernetes' node ports.
free_port() {
  local try port random
  for ((try = 0; try < 200; try++)); do
    random=${SRANDOM:-$((RANDOM * 32768 + RANDOM))}
    port=$((20000 + random % 10000))
    if _bkgen_port_is_free "$port"; then
      printf '%s\n' "$port"
      return 0
    fi
  done
  log "free_port: none of 200 ports between 20000 and 29999 is free"
  return 1
}

_bkgen_port_is_free() {
  local port=$1 hex
  printf -v hex '%04X' "$port"
  if [ -r /proc/net/tcp ]; then
    ! grep -qs "^ *[0-9]*: [0-9A-F]*:$hex " /proc/net/tcp /proc/net/tcp6
  else
    ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null
  fi
}

# One GET of URL, by curl or else by python3. Sets _bkgen_answer to what came back; true for a 2xx answer.
# Proxies are left out: a proxy would be asked for its own loopback interface.
_bkgen_get() {
  local url=$1 code
  if command -v curl >/dev/null 2>&1; then
    _bkgen_answer=$(curl --silent --show-error --noproxy '*' --max-time 5 --write-out '\n%{http_code}' \
      -- "$url" 2>&1) || true
  else
    _bkgen_answer=$(python3 -c '
import sys, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(sys.argv[1], timeout=5) as answer:
        body, code = answer.read(2000), answer.status
except urllib.error.HTTPError as error:
    body, code = error.read(2000), error.code
except OSError as error:
    body, code = str(error).encode(), 0
sys.stdout.buffer.write(body + b"\n%03d" % code)
' "$url" 2>&1) || true
  fi
  code=${_bkgen_answer##*$'\n'}
  _bkgen_answer="status $code: ${_bkgen_answer%$'\n'*}"
  _bkgen_answer=${_bkgen_answer:0:500}
  [[ $code == 2?? ]]
}

# The inodes of the sockets that listen on PORT of the loopback interface or of all interfaces.
_bkgen_listeners() {
  local hex address state inode
  printf -v hex '%04X' "$1"
  while read -r _ address _ state _ _ _ _ _ inode _; do
    [ "$state" = 0A ] || continue
    case "$address" in
    00000000:"$hex" | ??????7F:"$hex") printf '%s\n' "$inode" ;;
    00000000000000000000000000000000:"$hex" | 00000000000000000000000001000000:"$hex") printf '%s\n' "$inode" ;;
    0000000000000000FFFF0000??????7F:"$hex") printf '%s\n' "$inode" ;;
    esac
  done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
}

# Whether whoever answers on URL's port belongs to the server that LEADER leads. A server that a killed job
# left behind answers just as well. Says yes when it cannot know: no /proc/net/tcp, another host, no listener
# in this network namespace, descriptors that may not be read. On no, REPLY says who it is.
_bkgen_answers_itself() {
  local leader=$1 url=$2 port inode sockets members pid
  if [[ ! -r /proc/net/tcp || ${BKGEN_READY_ANY_SOCKET:-} == 1 ]] ||
    [[ ! $url =~ ^https?://(localhost|127\.[0-9.]+|0\.0\.0\.0|\[::1?\])(:([0-9]+))?(/|\?|$) ]]; then
    return 0
  fi
  port=${BASH_REMATCH[3]:-80}
  declare -gA _bkgen_cookies
  mapfile -t members < <(_bkgen_members "$leader" "${_bkgen_cookies[$leader]:-}")
  for pid in "${members[@]}"; do
    ls "/proc/$pid/fd" >/dev/null 2>&1 || return 0
  done
  sockets=$(for pid in "${members[@]}"; do ls -l "/proc/$pid/fd" 2>/dev/null || true; done)
  while IFS= read -r inode; do
    if [[ $sockets != *"socket:[$inode]"* ]]; then
      REPLY="port $port is held by $(_bkgen_holder "$inode"), which is not of the group of $leader"
      return 1
    fi
  done < <(_bkgen_listeners "$port")
}

_bkgen_holder() {
  local directory pid name
  for directory in /proc/[0-9]*/fd; do
    # shellcheck disable=SC2010 # the link's target is wanted, which no glob shows
    if ls -l "$directory" 2>/dev/null | grep -qF "socket:[$1]"; then
      pid=${directory#/proc/}
      pid=${pid%/fd}
      name=$(tr -d '[:cntrl:]' <"/proc/$pid/comm" 2>/dev/null) || true
      printf 'pid %s (%s)' "$pid" "${name:-?}"
      return
    fi
  done
  printf 'a process that cannot be seen from here'
}

# wait_until_ready PID URL SECONDS LOG
# Asks URL until it answers with a 2xx status. Fails with status 1 as soon as PID is dead, as soon as the
# answer comes from somebody who is not of PID's process group, or after SECONDS; then it prints the last
# lines of LOG and the last answer. BKGEN_READY_ANY_SOCKET=1 accepts any answering process (a server in a
# container whose port the host's own proxy serves).
wait_until_ready() {
  if [[ $# -ne 4 || ! $1 =~ ^[1-9][0-9]*$ || ! $3 =~ ^[0-9]+$ ]]; then
    log "wait_until_ready: it takes PID URL SECONDS LOG"
    return 2
  fi
  local pid=$1 url=$2 seconds=$3 file=$4 start=$SECONDS why=''
  command -v curl >/dev/null 2>&1 || require_command python3
  _bkgen_answer='nothing was asked'
  while [ -z "$why" ]; do
    if ! _bkgen_alive "$pid"; then
      why="server $pid is dead"
    elif _bkgen_get "$url"; then
      if ! _bkgen_answers_itself "$pid" "$url"; then
        why=$REPLY
      elif _bkgen_alive "$pid"; then
        log "ready after $((SECONDS - start)) s: $url"
        return 0
      fi
    elif ((SECONDS - start >= seconds)); then
      why="server $pid is not ready after $seconds s"
    else
      sleep 0.2
    fi
  done
  log "error: $why: $url"
  log "  last answer: $_bkgen_answer"
  log "  last lines of $file:"
  { tail -n 50 -- "$file" 2>/dev/null || echo '(no log)'; } | sed 's/^/    /' >&2
  return 1
}

# ask URL MODEL PROMPT
# Sends PROMPT to an OpenAI-compatible server and prints the text of the first answer. URL is the server's
# root, or ends in /v1 or /completions. Temperature 0 and a fixed seed, so that the same question has the same
# answer. BKGEN_ASK_TOKENS (64) bounds the answer, BKGEN_ASK_SECONDS (120) the wait. Needs python3.
ask() {
  if [ "$#" -ne 3 ]; then
    log "ask: it takes URL MODEL PROMPT"
    return 2
  fi
  require_command python3
  # The prompt goes through a pipe: a single argument of a program ends at 128 KiB.
  printf '%s' "$3" | python3 -c '
import json, os, sys, urllib.error, urllib.request

url, model = sys.argv[1].rstrip("/"), sys.argv[2]
if not url.endswith("/completions"):
    url += "/completions" if url.endswith("/v1") else "/v1/completions"
question = {
    "model": model,
    "prompt": sys.stdin.read(),
    "temperature": 0,
    "seed": 0,
    "max_tokens": int(os.environ.get("BKGEN_ASK_TOKENS", "64")),
}
request = urllib.request.Request(
    url, json.dumps(question).encode(), {"Content-Type": "application/json"}, method="POST"
)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
body = ""
try:
    with opener.open(request, timeout=float(os.environ.get("BKGEN_ASK_SECONDS", "120"))) as answer:
        body = answer.read().decode()
    text = json.loads(body)["choices"][0]["text"]
    if not isinstance(text, str):
        raise TypeError("the text is not a string")
except urllib.error.HTTPError as error:
    body = error.read(500).decode(errors="replace")
    sys.exit(f"ask: {url}: status {error.code}: {body}")
except OSError as error:
    sys.exit(f"ask: {url}: {error}")
except (ValueError, KeyError, IndexError, TypeError):
    sys.exit(f"ask: {url}: the answer has no choices[0].text: {body[:500]}")
print(text)
' "$1" "$2"
}
