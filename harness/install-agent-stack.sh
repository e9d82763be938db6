#!/usr/bin/env bash
# Connects the cluster to a Buildkite queue: secrets, values, chart, and a controller that is ready.
#
# No token is ever a word of a command, a variable or a line of a log. They are read into files that only
# the caller can read, and the files' names are all that the commands get. Keep it so: with `bash -x`, each
# assignment and each argument is printed.
# shellcheck source=harness/cluster-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster-lib.sh"

usage() {
  cat <<'TEXT'
usage: sudo harness/install-agent-stack.sh [OPTION…]

Writes the secrets for the agent and for git, generates the values from bkgen.yml and the cluster's GPUs,
installs or upgrades agent-stack-k8s, and waits until its controller is ready; says why if it is not.

  --agent-token-file FILE  the agent token of the Buildkite cluster (Agents, cluster, Agent Tokens)
  --git-token-file FILE    a token that may read the repository over HTTPS; without one, jobs can only
                           fetch public repositories
  --dry-run                print every command, run none
  -h, --help               this text

FILE may be "-": the token is then a line of standard input, the agent's first. Without
--agent-token-file, that is where the agent token is read from; on a terminal it is asked for and not
shown. A token is never an argument: it would be seen in the list of processes and in the shell's history.

Settings (PROFILE, AGENT_STACK_VERSION, POD_PENDING_MINUTES, …) are in harness/config.env.
TEXT
}

AGENT_TOKEN_FILE=- GIT_TOKEN_FILE=''

read_arguments() {
  while [ "$#" -gt 0 ]; do
    case $1 in
    --dry-run) DRY_RUN=1 ;;
    --agent-token-file | --git-token-file)
      [ "$#" -ge 2 ] || wrong_usage "$1 needs the name of a file, or -"
      case $1 in
      --agent-token-file) AGENT_TOKEN_FILE=$2 ;;
      --git-token-file) GIT_TOKEN_FILE=$2 ;;
      esac
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      die "unexpected argument; it is not shown, for it may be a token" \
        "tokens come from files or standard input (--help); revoke one that was typed as an argument" 2
      ;;
    esac
    shift
  done
}

# --- Tokens ---------------------------------------------------------------------------------------

read_tokens() {
  STEP="reading the tokens"
  if [ "$DRY_RUN" = 1 ]; then
    printf '# reads the agent token from %s\n' "${AGENT_TOKEN_FILE/#-/standard input}"
    [ -z "$GIT_TOKEN_FILE" ] || printf '# reads the git token from %s\n' "${GIT_TOKEN_FILE/#-/standard input}"
    return 0
  fi
  mkdir "$WORK/tokens"
  read_token agent "$AGENT_TOKEN_FILE"
  if [ -n "$GIT_TOKEN_FILE" ]; then
    read_token git "$GIT_TOKEN_FILE"
  fi
  STEP=
}

# read_token NAME FILE: the token, and nothing else, into WORK/tokens/NAME. Editors end files with a
# newline, and a secret with one in it is refused by Buildkite with no more than "unauthorized".
read_token() {
  local token=$WORK/tokens/$1
  if [ "$2" = - ]; then
    read_line "$1" >"$token.line"
  elif [ -r "$2" ] && [ ! -d "$2" ]; then
    cat -- "$2" >"$token.line"
  else
    die "the $1 token cannot be read from $2" "name a readable file, or - for standard input"
  fi
  tr -d '\r' <"$token.line" | { grep . || true; } >"$token.lines"
  [ "$(wc -l <"$token.lines")" -le 1 ] || die "there is more than one line where the $1 token should be" \
    "is it the right file? One token, on one line"
  tr -d '\n' <"$token.lines" >"$token"
  rm -- "$token.line" "$token.lines"
  [ -s "$token" ] || die "the $1 token is empty" "it is read from ${2/#-/standard input}"
  # These need no quoting in .git-credentials, and every token of Buildkite and GitHub consists of them.
  if LC_ALL=C grep -q '[^A-Za-z0-9._~-]' "$token"; then
    die "the $1 token has characters that no token has" "is it the right file? One token, on one line"
  fi
}

# One line of standard input and not a byte more, for the next token may follow. A terminal does not show it.
read_line() {
  if [ -t 0 ]; then
    printf 'The %s token (not shown): ' "$1" >&2
    at_exit show_typing
    stty -echo
    # Not by `attend`: only the script's own process group may read from the terminal.
    head -n 1
    stty echo
    printf '\n' >&2
  else
    attend sed --unbuffered 1q
  fi
}

show_typing() { [ ! -t 0 ] || stty echo; }

# The tokens replaced in whatever a program says.
redact() {
  awk '!stdin { token[$0]; next }
    {
      for (t in token) {
        for (done = ""; at = index($0, t); $0 = substr($0, at + length(t))) done = done substr($0, 1, at - 1) "[token]"
        $0 = done $0
      }
      print
    }' "$WORK"/tokens/* stdin=1 -
}

# --- Secrets --------------------------------------------------------------------------------------

kubectl_here() { kubectl --namespace "$AGENT_STACK_NAMESPACE" --request-timeout=20s "$@"; }

namespace_is_there() { ask kubectl get namespace "$AGENT_STACK_NAMESPACE"; }

# Marked first, for a signal may come between the two; but only when the cluster itself says that there is none.
make_namespace() {
  if absent namespace "$AGENT_STACK_NAMESPACE"; then
    mark "namespace@$AGENT_STACK_NAMESPACE"
  fi
  run kubectl create namespace "$AGENT_STACK_NAMESPACE"
}

write_manifests() {
  STEP="writing the secrets' manifests"
  write_manifest "$AGENT_SECRET" BUILDKITE_AGENT_TOKEN "$WORK/tokens/agent"
  if [ -n "$GIT_TOKEN_FILE" ]; then
    if [ "$DRY_RUN" = 0 ]; then
      {
        printf 'https://%s:' "$GIT_USER"
        cat "$WORK/tokens/git"
        printf '@%s\n' "$GIT_HOST"
      } >"$WORK/git-credentials"
    fi
    write_manifest "$GIT_SECRET" .git-credentials "$WORK/git-credentials"
  fi
  STEP=
}

# write_manifest SECRET KEY FILE: kubectl gets the file's name, never its content, as an argument.
write_manifest() {
  local command=(kubectl create secret generic "$1" --namespace "$AGENT_STACK_NAMESPACE"
    "--from-file=$2=$3" --dry-run=client --output yaml)
  show "${command[@]}"
  [ "$DRY_RUN" = 0 ] || return 0
  attend "${command[@]}" </dev/null >"$WORK/secret-$1.yaml" || die "kubectl cannot write the secret $1" "what it said stands above" 75
}

secrets_are_there() { each_secret secret_is_there; }

# A controller that runs now has read the old secrets. The restart is noted before the first of them changes and
# forgotten after it: should this run end in between, the next one finds the secrets in place and has to
# restart all the same.
write_secrets() {
  if ! absent deployment "$RELEASE" --namespace "$AGENT_STACK_NAMESPACE"; then
    mark "restart@$AGENT_STACK_NAMESPACE"
  fi
  each_secret write_secret
}

each_secret() {
  "$1" "$AGENT_SECRET" || return 1
  [ -z "$GIT_TOKEN_FILE" ] || "$1" "$GIT_SECRET" || return 1
}

# kubectl diff writes what it compares into files, so they belong where everything is removed at the end.
secret_is_there() {
  ask env TMPDIR="$WORK" kubectl diff --server-side --force-conflicts --filename "$WORK/secret-$1.yaml"
}

# On the server's side: client-side apply would keep a second copy of the secret in an annotation, which
# `kubectl describe` shows.
write_secret() {
  if absent secret "$1" --namespace "$AGENT_STACK_NAMESPACE"; then
    mark "agent-stack-secrets@$AGENT_STACK_NAMESPACE" "$1"
  fi
  run kubectl apply --server-side --force-conflicts --filename "$WORK/secret-$1.yaml"
}

# --- The chart ------------------------------------------------------------------------------------

make_values() {
  local command tag
  STEP="generating the values"
  command=("$PYTHON" "$HARNESS/values.py" --nodes "$WORK/nodes.json" --output "$WORK/values.yaml"
    --agent-secret "$AGENT_SECRET" --extra-jobs "$EXTRA_JOBS_IN_FLIGHT"
    --pending-minutes "$POD_PENDING_MINUTES" --image-grace-minutes "$IMAGE_PULL_GRACE_MINUTES"
    --job-minutes "$JOB_MINUTES" "--profile=$PROFILE"
    "--clone-flags=$GIT_CLONE_FLAGS" "--fetch-flags=$GIT_FETCH_FLAGS")
  [ -z "$BKGEN_SETTINGS" ] || command+=(--settings "$BKGEN_SETTINGS")
  [ -z "$GIT_TOKEN_FILE" ] || command+=(--git-secret "$GIT_SECRET")
  for tag in $AGENT_TAGS; do command+=("--tag=$tag"); done
  if ! answer '' kubectl get nodes --output json; then
    die "the cluster does not answer" "kubectl get nodes says why; is K3s running?" 75
  fi
  [ "$DRY_RUN" = 1 ] || printf '%s\n' "$REPLY" >"$WORK/nodes.json"
  show "${command[@]}"
  STEP=
  [ "$DRY_RUN" = 0 ] || return 0
  attend "${command[@]}" </dev/null || die "no values could be generated" "what is wrong stands above"
  VALUES_SUM=$(sha256sum <"$WORK/values.yaml" | cut -d ' ' -f 1)
}

# The release notes the sum of the values it was made from, so that a second run finds nothing to do.
chart_is_there() {
  release_is "$RELEASE" "$AGENT_STACK_NAMESPACE" "$CHART_NAME" "$AGENT_STACK_VERSION" || return 1
  answer "" helm history "$RELEASE" --namespace "$AGENT_STACK_NAMESPACE" --max 1 --output json || return 1
  [[ $REPLY == *"values $VALUES_SUM"* ]]
}

install_chart() {
  local chart=$WORK/$CHART_NAME-$AGENT_STACK_VERSION.tgz
  pull_chart "$chart" "$CHART_NAME" "$AGENT_STACK_VERSION" "$AGENT_STACK_SHA256" "$AGENT_STACK_CHART"
  upgrade_release "agent-stack@$AGENT_STACK_NAMESPACE" "$RELEASE" "$AGENT_STACK_NAMESPACE" "$chart" \
    --values "$WORK/values.yaml" --description "values $VALUES_SUM"
}

# --- The controller -------------------------------------------------------------------------------

# A pod reads its secret once, when it starts; one that ran before still has the old one.
restart_controller() {
  marked "restart@$AGENT_STACK_NAMESPACE" || [ "$DRY_RUN" = 1 ] || return 0
  STEP="restarting the controller with the new secrets"
  run kubectl rollout restart "deployment/$RELEASE" --namespace "$AGENT_STACK_NAMESPACE"
  unmark "restart@$AGENT_STACK_NAMESPACE"
}

await_controller() {
  local begun=$SECONDS took
  local wait=(kubectl rollout status "deployment/$RELEASE" --namespace "$AGENT_STACK_NAMESPACE"
    "--timeout=${CONTROLLER_TIMEOUT}s")
  STEP="waiting for the controller"
  show "${wait[@]}"
  if [ "$DRY_RUN" = 0 ] && ! attend "${wait[@]}" </dev/null >/dev/null; then
    took=$((SECONDS - begun))
    [ "$took" -lt "$CONTROLLER_TIMEOUT" ] || explain_controller "it is not ready after $CONTROLLER_TIMEOUT seconds"
    explain_controller "\`kubectl rollout status\` gave up after $took of $CONTROLLER_TIMEOUT seconds"
  fi
  watch_controller
}

# The chart has no readiness probe: to Kubernetes the controller is ready as soon as its process runs, and one
# that stops on a wrong token or an unknown setting runs for a moment, again and again.
watch_controller() {
  local end=$((SECONDS + CONTROLLER_WATCH_SECONDS)) before=
  STEP="watching the controller"
  while :; do
    look_at_controller
    [ "$DRY_RUN" = 0 ] || return 0
    [ "$RESTARTS" -le "${before:=$RESTARTS}" ] ||
      explain_controller "its container stopped and was started again while it was watched"
    [ "$SECONDS" -lt "$end" ] || return 0
    attend sleep "$POLL_SECONDS"
  done
}

# look_at_controller: RESTARTS of its pods so far; leaves when one is not running, or logs that it is refused.
look_at_controller() {
  local pod deleted restarts waiting ended count pods=0
  answer '' kubectl get pods --namespace "$AGENT_STACK_NAMESPACE" --selector "app=$RELEASE" --output \
    "jsonpath={range .items[*]}$POD_FIELDS{\"\\n\"}{end}" || explain_controller "its pods cannot be listed"
  RESTARTS=0
  while IFS='|' read -r pod deleted restarts waiting ended; do
    # One that a rollout replaces is on its way out.
    [ -n "$pod" ] && [ -z "$deleted" ] || continue
    pods=$((pods + 1))
    for count in $restarts; do RESTARTS=$((RESTARTS + count)); done
    [ -z "$waiting" ] || explain_controller "its pod $pod does not run: $waiting"
    [ -z "$ended" ] || explain_controller "its pod $pod has ended: $ended"
  done <<<"$REPLY"
  [ "$pods" != 0 ] || [ "$DRY_RUN" = 1 ] || explain_controller "it has no pod"
  answer '' kubectl logs "deployment/$RELEASE" --namespace "$AGENT_STACK_NAMESPACE" --since=2m --tail=200 || return 0
  ! grep -qiE "$BAD_SETTING|$BAD_TOKEN|$BAD_QUEUE" <<<"$REPLY" || explain_controller "it runs, but is refused"
}

# What the controller says when its settings, its token or its queue are wrong.
BAD_SETTING='unknown field|failed to parse config'
BAD_TOKEN='unauthori[sz]ed|(status|code|HTTP)[^0-9]{1,10}401|invalid.*token|token.*invalid'
BAD_QUEUE='queue.*(not found|does not exist)'

# explain_controller PROBLEM: leaves, after the commonest reasons, by what the controller or the kubelet says.
explain_controller() {
  local hint="the controller's log stands above"
  attend gather_reasons </dev/null >"$WORK/reasons" 2>&1 || true
  redact <"$WORK/reasons" >"$WORK/why"
  sed 's/^/  | /' "$WORK/why" >&2
  if grep -qiE "$BAD_SETTING" "$WORK/why"; then
    hint="it met a setting it does not know: look at harness/values.yaml and AGENT_STACK_VERSION"
  elif grep -qiE "$BAD_TOKEN" "$WORK/why"; then
    hint="Buildkite refuses the token: it must be an agent token of the cluster that has the queue"
  elif grep -qiE "$BAD_QUEUE" "$WORK/why"; then
    hint="create the queue in Buildkite (Agents, cluster, Queues, New Queue) and start this again"
  elif grep -qE 'ImagePullBackOff|ErrImagePull' "$WORK/why"; then
    hint="the node cannot fetch the controller's image: look at its network and registry settings"
  elif grep -qiE 'secret.*not found|CreateContainerConfigError' "$WORK/why"; then
    hint="the secret $AGENT_SECRET is missing or lacks BUILDKITE_AGENT_TOKEN; start this again"
  elif grep -qiE 'FailedScheduling|Insufficient' "$WORK/why"; then
    hint="no node has room for it: kubectl describe nodes shows taints and free resources"
  fi
  die "$1" "$hint" 75
}

gather_reasons() {
  kubectl_here get pods --selector "app=$RELEASE" --output wide || true
  kubectl_here get events --field-selector type=Warning || true
  kubectl_here logs "deployment/$RELEASE" --tail 30 || true
  kubectl_here logs "deployment/$RELEASE" --tail 30 --previous || true
}

# --------------------------------------------------------------------------------------------------

CHART_NAME=${AGENT_STACK_CHART##*/} RELEASE=agent-stack-k8s RESTARTS=0
# One line a pod: its name, whether it is being deleted, and of each container how often it was restarted, why
# it waits, and why it ended.
POD_FIELDS='{.metadata.name}|{.metadata.deletionTimestamp}|{.status.containerStatuses[*].restartCount}'
POD_FIELDS+='|{.status.containerStatuses[*].state.waiting.reason}'
POD_FIELDS+='|{.status.containerStatuses[*].state.terminated.reason}'
# Tokens stay in memory, unless the caller wants them elsewhere.
if [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ] && [ -w /dev/shm ]; then
  TMPDIR=/dev/shm
fi
VALUES_SUM='<sum of the values>'
read_arguments "$@"
need_root
need_tools awk diff env grep helm kubectl sed sha256sum "$PYTHON" # diff: for kubectl diff
check_paths STATE_DIR
make_work
make_values
read_tokens
step "namespace $AGENT_STACK_NAMESPACE" namespace_is_there make_namespace
write_manifests
step secrets secrets_are_there write_secrets
step "chart $CHART_NAME $AGENT_STACK_VERSION" chart_is_there install_chart
restart_controller
await_controller
STEP=
[ "$DRY_RUN" = 1 ] ||
  say "the controller is ready; jobs of the queue $(sed -n 's/^  queue: //p' "$WORK/values.yaml") run here"
