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

# installed PART: these scripts have installed it. A dry run shows the removal of every part, for it may
# be read on another machine than the one it is about.
installed() { [ "$DRY_RUN" = 1 ] || marked "$1"; }

PARTS=(agent-stack agent-stack-secrets agent-stack-namespace gpu-operator amd-gpu intel-gpu-plugin k3s helm image-ci-base image-bkgen)

find_parts() {
  local part
  for part in "${PARTS[@]}"; do
    if installed "$part"; then
      FOUND+=("$part")
    fi
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
  local part
  # With K3s everything on it goes; a broken cluster is then no reason to stop.
  if ! cluster_answers; then
    marked k3s || die "the cluster does not answer" "start it, or remove it by the means it was installed with" 75
    say "the cluster does not answer; its parts go with K3s"
    for part in agent-stack agent-stack-secrets agent-stack-namespace gpu-operator amd-gpu intel-gpu-plugin; do
      unmark "$part"
    done
    return 0
  fi
  remove agent-stack "Buildkite controller" helm uninstall agent-stack-k8s \
    --namespace "$AGENT_STACK_NAMESPACE" --ignore-not-found --wait
  remove agent-stack-secrets secrets kubectl delete secret "$AGENT_SECRET" "$GIT_SECRET" \
    --namespace "$AGENT_STACK_NAMESPACE" --ignore-not-found
  # Jobs that still run go with the namespace.
  remove agent-stack-namespace "namespace $AGENT_STACK_NAMESPACE" kubectl delete namespace \
    "$AGENT_STACK_NAMESPACE" --ignore-not-found --timeout=180s
  remove gpu-operator "GPU operator" helm uninstall gpu-operator --namespace gpu-operator \
    --ignore-not-found --wait
  remove amd-gpu "AMD device plugin" helm uninstall amd-gpu --namespace kube-system --ignore-not-found --wait
  remove intel-gpu-plugin "Intel device plugin" kubectl delete daemonset intel-gpu-plugin \
    --namespace default --ignore-not-found
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
  [ "$DRY_RUN" = 1 ] || [ -x "$BIN_DIR/k3s-uninstall.sh" ] || {
    # A setup that failed half-way, before the installer had written its own way back.
    run rm -f -- "$BIN_DIR/k3s"
    unmark k3s
    return 0
  }
  run "$BIN_DIR/k3s-killall.sh"
  # The uninstaller deletes these trees. A volume of the host that is still mounted there would be emptied.
  if [ "$DRY_RUN" = 0 ]; then
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

remove_image() {
  installed "$1" || return 0
  STEP="image $2"
  if ask docker image inspect "$2"; then
    run docker image rm "$2"
  fi
  # A K3s that was here before stays, but not with this image.
  if [ "$DRY_RUN" = 0 ] && [ -x "$BIN_DIR/k3s" ]; then
    run "$BIN_DIR/k3s" ctr images rm "$(containerd_name "$2")"
  fi
  unmark "$1"
  STEP=
}

# --------------------------------------------------------------------------------------------------

FOUND=()
: "${MOUNTS:=/proc/self/mountinfo}"
read_arguments "$@"
need_root
find_parts
if [ "${#FOUND[@]}" = 0 ]; then
  say "nothing to remove: these scripts have installed nothing on this host, or it is gone already"
  exit 0
fi
need_tools awk uname
[ "$DRY_RUN" = 1 ] || confirm
case " ${FOUND[*]} " in
*" agent-stack"* | *" gpu-operator "* | *" amd-gpu "* | *" intel-gpu-plugin "*)
  need_tools kubectl helm
  remove_from_cluster
  ;;
esac
remove_k3s
remove helm Helm rm -f -- "$BIN_DIR/helm"
case " ${FOUND[*]} " in
*" image-"*)
  need_tools docker
  remove_image image-ci-base "$CI_IMAGE"
  remove_image image-bkgen "$BKGEN_IMAGE"
  ;;
esac
[ "$DRY_RUN" = 1 ] || rmdir --ignore-fail-on-non-empty -- "$STATE_DIR"
[ "$DRY_RUN" = 1 ] || say "removed: ${FOUND[*]}; kept: $DATA_DIR"
