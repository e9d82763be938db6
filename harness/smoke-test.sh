#!/usr/bin/env bash
# Starts the smoke suite's pods on the cluster and checks from inside that they got what they asked for.
# shellcheck source=harness/cluster-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster-lib.sh"

usage() {
  cat <<'TEXT'
usage: sudo harness/smoke-test.sh [--dry-run]

Starts the pods of k3_tests/smoke, as `bkgen render --pods` makes them from its pipeline.yml, and sends
k3_tests/smoke/run.sh into each of them (the repository is not in a bare pod): number of GPUs, size of
/dev/shm, caches and scratch space writable, network. Prints a table. The pods are removed on every way
out, and end by themselves should that fail.

  --profile NAME  the profile of bkgen.yml whose hardware the pods ask for (default: PROFILE, else its
                  default_profile, else the one for this host's GPUs)
  --dry-run       print every command, run none
  -h, --help      this text

Exit status: 0 all checks passed, 1 one did not, 75 a pod did not start or could not be removed.
Settings (PROFILE, VENDOR, SMOKE_HOSTS, SMOKE_NAMESPACE, SMOKE_TIMEOUT, …) are in harness/config.env.
TEXT
}

read_arguments() {
  while [ "$#" -gt 0 ]; do
    case $1 in
    --dry-run) DRY_RUN=1 ;;
    --profile)
      [ "$#" -ge 2 ] || wrong_usage "--profile needs the name of a profile"
      PROFILE=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) wrong_usage "unexpected argument" ;;
    esac
    shift
  done
}

# --- Pods -----------------------------------------------------------------------------------------

# choose_profile: RENDERED_IN is where bkgen makes pods for this host's hardware. That is the repository itself if
# its default profile fits; else a copy of the suite, beside settings with another default.
choose_profile() {
  local resource default
  STEP="choosing the profile"
  run_into "$WORK/nodes.json" /dev/null kubectl get nodes --output json
  [ "$DRY_RUN" = 1 ] || mkdir "$WORK/settings"
  run_into "$WORK/profile" /dev/null \
    "$PYTHON" "$HARNESS/profiles.py" --settings "$(settings_file)" --vendor "$VENDOR" "--profile=$PROFILE" \
    --nodes "$WORK/nodes.json" --output "$WORK/settings/bkgen.yml"
  [ "$DRY_RUN" = 0 ] || return 0
  # Between bars: a tab as separator would swallow an empty field.
  IFS='|' read -r PROFILE resource default < <(tr '\t' '|' <"$WORK/profile")
  if [[ $resource == deviceclass.resource.kubernetes.io/* ]] && ! ask kubectl get deviceclass "${resource#*/}"; then
    die "the cluster has no device class ${resource#*/}, which the profile $PROFILE asks for" \
      "harness/README.md says how to get one, or do without (Intel GPUs)"
  fi
  if [ "$default" != default ]; then
    say "the pods are made for the profile $PROFILE ($resource), not for the default one"
    mkdir "$WORK/settings/k3_tests"
    cp -R "$SUITE_DIRECTORY" "$WORK/settings/k3_tests/"
    RENDERED_IN=$WORK/settings
  fi
}

make_pods() {
  STEP="making the pods"
  run_into "$WORK/rendered.json" /dev/null \
    env --chdir="$RENDERED_IN" "$BKGEN" render --pods --json "$SMOKE_SUITE"
  run_into "$WORK/pods.json" "$WORK/rendered.json" \
    "$PYTHON" "$HARNESS/smoke_pods.py" --run "$RUN" --namespace "$SMOKE_NAMESPACE" \
    --seconds "$POD_SECONDS" --plan "$WORK/plan"
}

# run_into OUT IN COMMAND…: like run, from and into files. What fails is something to mend, but for the cluster.
run_into() {
  local out=$1 in=$2 status=0 ends_with=1
  shift 2
  [ "$1" != kubectl ] || ends_with=75
  if [ "$DRY_RUN" = 1 ]; then
    printf '+ %s <%s >%s\n' "$(quoted "$@")" "$in" "$out"
    return 0
  fi
  show "$@"
  attend "$@" <"$in" >"$out" || status=$?
  [ "$status" = 0 ] || die "\`$(brief "$@")\` ended with status $status" "what it said stands above" "$ends_with"
}

start_pods() {
  STEP="starting the pods"
  at_exit remove_pods
  run kubectl apply --filename "$WORK/pods.json"
}

# Without waiting: each pod has a grace period of one second, and nothing here needs its name again. Within a
# time limit, for the cluster may be the very thing that is broken; what is left then is named.
remove_pods() {
  local command=(kubectl delete pods --namespace "$SMOKE_NAMESPACE" --selector "bkgen.smoke-run=$RUN"
    --ignore-not-found --wait=false)
  show "${command[@]}"
  [ "$DRY_RUN" = 0 ] || return 0
  attend timeout --kill-after=5 "$CLEANUP_TIMEOUT" "${command[@]}" </dev/null >/dev/null && return 0
  say "these pods could not be removed: $(cut -f 1 "$WORK/plan" | paste -sd ' ')"
  printf '  hint: %s; each ends by itself within %s seconds\n' \
    "once the cluster answers: $(quoted "${command[@]}")" "$POD_SECONDS" >&2
  return 1
}

# --- Checks ---------------------------------------------------------------------------------------

# check_pod NAME CONTAINER ARGUMENT…: adds its rows to the table; remembers what went wrong. A check that
# came back without a verdict is a failed one.
check_pod() {
  local pod=$1 container=$2 status=0 check verdict detail bad=0 begun=$SECONDS took
  local wait=(kubectl wait --namespace "$SMOKE_NAMESPACE" --for=condition=Ready "pod/$pod"
    "--timeout=${SMOKE_TIMEOUT}s")
  shift 2
  show "${wait[@]}"
  if ! attend "${wait[@]}" </dev/null >/dev/null; then
    took=$((SECONDS - begun))
    if [ "$took" -ge "$SMOKE_TIMEOUT" ]; then
      row "$pod" start BAD "not ready after $SMOKE_TIMEOUT seconds"
    else
      row "$pod" start BAD "kubectl gave up waiting after $took of $SMOKE_TIMEOUT seconds"
    fi
    attend explain_pod "$pod" </dev/null || true
    NOT_STARTED=1
    return 0
  fi
  row "$pod" start ok ready
  attend kubectl exec --namespace "$SMOKE_NAMESPACE" --stdin "$pod" --container "$container" -- \
    env "SMOKE_HOSTS=$SMOKE_HOSTS" bash -s -- "$@" <"$SUITE_DIRECTORY/run.sh" >"$WORK/rows" || status=$?
  while IFS=$'\t' read -r check verdict detail; do
    row "$pod" "$check" "$verdict" "$detail"
    [ "$verdict" = ok ] || bad=1
  done <"$WORK/rows"
  if [ ! -s "$WORK/rows" ] || [ "$status" != "$bad" ]; then
    row "$pod" checks BAD "run.sh ended with status $status before its last verdict"
    bad=1
  fi
  [ "$bad" = 0 ] || FAILED=1
}

row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$WORK/table"; }

# Two passes over the rows: the widths first.
print_table() {
  awk -F '\t' '
    function width(i, text) { if (length(text) > wide[i]) wide[i] = length(text) }
    NR == FNR { for (i = 1; i <= 3; i++) width(i, $i); next }
    { printf "%-*s  %-*s  %-*s  %s\n", wide[1], $1, wide[2], $2, wide[3], $3, $4 }
  ' "$WORK/table" "$WORK/table"
}

explain_pod() {
  kubectl get "pod/$1" --namespace "$SMOKE_NAMESPACE" --output wide --request-timeout=20s >&2 || true
  kubectl get events --namespace "$SMOKE_NAMESPACE" --field-selector "involvedObject.name=$1" \
    --request-timeout=20s >&2 || true
}

check_pods() {
  local fields
  STEP="checking the pods"
  if [ "$DRY_RUN" = 1 ]; then
    show kubectl wait --namespace "$SMOKE_NAMESPACE" --for=condition=Ready '<each pod>' "--timeout=${SMOKE_TIMEOUT}s"
    show kubectl exec --namespace "$SMOKE_NAMESPACE" --stdin '<each pod>' --container '<its container>' -- \
      env "SMOKE_HOSTS=$SMOKE_HOSTS" bash -s -- '<what it asked for>'
    return 0
  fi
  row POD CHECK VERDICT DETAIL
  # On a descriptor of its own: kubectl must not read the rest of the plan as its standard input.
  while IFS=$'\t' read -r -u 9 -a fields; do
    check_pod "${fields[@]}"
  done 9<"$WORK/plan"
  STEP=
  print_table
}

# --------------------------------------------------------------------------------------------------

RENDERED_IN=$(dirname "$HARNESS")
SUITE_DIRECTORY=$RENDERED_IN/k3_tests/$SMOKE_SUITE
POD_SECONDS=$((SMOKE_TIMEOUT + 600))
RUN=$(date +%s)-$$
FAILED=0 NOT_STARTED=0
read_arguments "$@"
need_root
need_tools awk cp cut env kubectl paste timeout tr "$PYTHON" "$BKGEN"
find_vendor
make_work
choose_profile
make_pods
start_pods
check_pods
[ "$NOT_STARTED" = 0 ] || die "a pod did not start" "its state and events stand above" 75
[ "$FAILED" = 0 ] || die "a check failed" "the table names it; harness/README.md says what each one needs"
[ "$DRY_RUN" = 1 ] ||
  say "every pod got what it asked for; next: ${PROFILE:+PROFILE=$PROFILE }harness/install-agent-stack.sh"
