#!/usr/bin/env bash
# Takes away again what setup-cluster.sh and install-agent-stack.sh have installed. Keeps the data.
# shellcheck source=harness/cluster-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster-lib.sh"

usage() {
  cat <<'TEXT'
usage: sudo harness/teardown.sh [--yes] [--dry-run]

Removes, after a question, what these scripts have installed on this host: the Buildkite controller, the
GPU operator or device plugin, K3s with everything that runs on it, Helm, and the images that were built.
What was there before them stays, and so does everything below DATA_DIR (/data): models, data sets,
scratch space.

  --yes        do not ask
  --dry-run    print every command, run none
  -h, --help   this text
TEXT
}

YES=0

read_arguments() {
  while [ "$#" -gt 0 ]; do
    case $1 in
    --yes) YES=1 ;;
    --dry-run) DRY_RUN=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) wrong_usage "unexpected argument" ;;
    esac
    shift
  done
}

# --- What there is --------------------------------------------------------------------------------

# installed PART: these scripts have installed it. A dry run shows the removal of every part, for it may be
# read on another machine than the one it is about.
installed() { [ "$DRY_RUN" = 1 ] || marked "$1"; }

# namespaces KIND: those in which these scripts have installed one; in a dry run the usual ones, too.
namespaces() {
  local path
  {
    for path in "$STATE_DIR/$1@"*; do
      [ ! -e "$path" ] || printf '%s\n' "${path##*@}"
    done
    [ "$DRY_RUN" = 0 ] || printf '%s\n' "$AGENT_STACK_NAMESPACE"
    [ "$DRY_RUN" = 0 ] || [ "$1" != namespace ] || printf 'gpu-operator\n'
  } | LC_ALL=C sort -u
}

# lines PART FALLBACK…: what its mark says; without a mark, in a dry run, what the settings say.
lines() {
  local part=$1
  shift
  if [ -s "$STATE_DIR/$part" ]; then
    cat "$STATE_DIR/$part"
  else
    printf '%s\n' "$@"
  fi
}

IN_NAMESPACES=(agent-stack agent-stack-secrets restart namespace)
ON_CLUSTER=(gpu-operator amd-gpu intel-gpu-plugin)
ON_HOST=(k3s helm image-ci-base image-bkgen)

find_parts() {
  local part namespace
  for part in "${IN_NAMESPACES[@]}"; do
    for namespace in $(namespaces "$part"); do FOUND+=("$part@$namespace"); done
  done
  for part in "${ON_CLUSTER[@]}"; do
    ! installed "$part" || FOUND+=("$part")
  done
  # Everything so far is on the cluster, and needs it.
  FOUND_ON_CLUSTER=${#FOUND[@]}
  for part in "${ON_HOST[@]}"; do
    ! installed "$part" || FOUND+=("$part")
  done
}

confirm() {
  local reply
  say "this removes from $(uname -n): ${FOUND[*]}"
  if marked k3s; then
    say "jobs that run on the cluster are stopped; $DATA_DIR is kept"
  fi
  [ "$YES" = 0 ] || return 0
  [ -t 0 ] || [ -p /dev/stdin ] || die "nobody is there to answer" "say --yes"
  printf 'Go on? Type "yes": ' >&2
  read -r reply || reply=
  [ "$reply" = yes ] || die "nothing was removed" "answer with the whole word yes, or say --yes"
}

# --- The cluster ----------------------------------------------------------------------------------

cluster_answers() { ask kubectl get nodes --request-timeout=10s; }

remove_from_cluster() {
  local part namespace names
  # With K3s everything on it goes; a broken cluster is then no reason to stop.
  if ! cluster_answers; then
    marked k3s || die "the cluster does not answer" "start it, or remove it by the means it was installed with" 75
    say "the cluster does not answer; its parts go with K3s"
    for part in "${FOUND[@]:0:FOUND_ON_CLUSTER}"; do unmark "$part"; done
    return 0
  fi
  # Every controller, in whichever namespace: AGENT_STACK_NAMESPACE says where the next one goes, not where
  # those are that there are.
  for namespace in $(namespaces agent-stack); do
    remove "agent-stack@$namespace" "Buildkite controller in $namespace" helm uninstall agent-stack-k8s \
      --namespace "$namespace" --ignore-not-found --wait
  done
  for namespace in $(namespaces agent-stack-secrets); do
    mapfile -t names < <(lines "agent-stack-secrets@$namespace" "$AGENT_SECRET" "$GIT_SECRET")
    remove "agent-stack-secrets@$namespace" "secrets in $namespace" kubectl delete secret "${names[@]}" \
      --namespace "$namespace" --ignore-not-found
  done
  for namespace in $(namespaces restart); do unmark "restart@$namespace"; done
  remove gpu-operator "GPU operator" helm uninstall gpu-operator --namespace gpu-operator \
    --ignore-not-found --wait
  remove amd-gpu "AMD device plugin" helm uninstall amd-gpu --namespace kube-system --ignore-not-found --wait
  remove intel-gpu-plugin "Intel device plugin" kubectl delete daemonset intel-gpu-plugin \
    --namespace default --ignore-not-found
  # Jobs that still run go with the namespace.
  for namespace in $(namespaces namespace); do
    remove "namespace@$namespace" "namespace $namespace" kubectl delete namespace "$namespace" \
      --ignore-not-found --timeout=180s
  done
}

# remove PART NAME COMMAND…: runs the command if the part was installed, and forgets the part.
remove() {
  local part=$1
  installed "$part" || return 0
  STEP=$2
  shift 2
  run "$@"
  unmark "$part"
  STEP=
}

# --- The host -------------------------------------------------------------------------------------

remove_k3s() {
  local mounts
  installed k3s || return 0
  STEP=K3s
  # A setup that failed half-way, before the installer had written its own way back.
  if [ "$DRY_RUN" = 1 ] || [ ! -x "$BIN_DIR/k3s-uninstall.sh" ]; then
    [ "$DRY_RUN" = 0 ] || printf '# without %s:\n' "$BIN_DIR/k3s-uninstall.sh"
    run rm -f -- "$BIN_DIR/k3s"
    unmark k3s
    [ "$DRY_RUN" = 1 ] || return 0
    printf '# with it:\n'
  fi
  run "$BIN_DIR/k3s-killall.sh"
  # The uninstaller deletes these trees. A volume of the host that is still mounted there would be emptied.
  if [ "$DRY_RUN" = 1 ]; then
    printf '# stops here if anything is mounted below /var/lib/kubelet, /var/lib/rancher or /run/k3s\n'
  else
    mounts=$(awk '$5 ~ "^(/var/lib/kubelet|/var/lib/rancher|/run/k3s)/" { print $5 }' "$MOUNTS")
    [ -z "$mounts" ] || die "still mounted: ${mounts//$'\n'/ }" \
      "unmount them first: K3s's uninstaller would delete what is mounted there" 75
  fi
  run "$BIN_DIR/k3s-uninstall.sh"
  [ "$DRY_RUN" = 1 ] || [ ! -e "$BIN_DIR/k3s" ] ||
    die "K3s's uninstaller left $BIN_DIR/k3s behind" "its output stands above" 75
  unmark k3s
  STEP=
}

# remove_image NAME FALLBACK: every image that was built under that name, from Docker and from a K3s that stays.
remove_image() {
  local image images
  installed "image-$1" || return 0
  mapfile -t images < <(lines "image-$1" "$2")
  for image in "${images[@]}"; do
    STEP="image $image"
    if ask docker image inspect "$image"; then
      run docker image rm "$image"
    fi
    if containerd_has "$image"; then
      run "$BIN_DIR/k3s" ctr images rm "$(containerd_name "$image")"
    fi
  done
  unmark "imported-$1"
  unmark "image-$1"
  STEP=
}

containerd_has() {
  [ "$DRY_RUN" = 1 ] || [ -x "$BIN_DIR/k3s" ] || return 1
  answer "$(containerd_name "$1")" "$BIN_DIR/k3s" ctr images ls -q ||
    die "K3s does not say which images it has" "k3s ctr images ls says why" 75
  grep -qxF -e "$(containerd_name "$1")" <<<"$REPLY"
}

# --------------------------------------------------------------------------------------------------

FOUND=() FOUND_ON_CLUSTER=0
: "${MOUNTS:=/proc/self/mountinfo}"
read_arguments "$@"
need_root
find_parts
if [ "${#FOUND[@]}" = 0 ]; then
  say "nothing to remove: these scripts have installed nothing on this host, or it is gone already"
  exit 0
fi
need_tools awk grep sort uname
[ "$DRY_RUN" = 1 ] || confirm
make_work
if [ "$FOUND_ON_CLUSTER" != 0 ]; then
  need_tools kubectl helm
  remove_from_cluster
fi
remove_k3s
remove helm Helm rm -f -- "$BIN_DIR/helm"
case " ${FOUND[*]} " in
*" image-"*)
  need_tools docker
  remove_image ci-base "$CI_IMAGE"
  remove_image bkgen "$BKGEN_IMAGE"
  ;;
esac
run rmdir --ignore-fail-on-non-empty -- "$STATE_DIR"
[ "$DRY_RUN" = 1 ] || say "removed: ${FOUND[*]}; kept: $DATA_DIR"
