#!/usr/bin/env bash
# Turns a Linux host with GPUs into a one-node Kubernetes cluster that can run the suites.
# shellcheck source=harness/cluster-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster-lib.sh"

usage() {
  cat <<'TEXT'
usage: sudo harness/setup-cluster.sh [--dry-run]

Sets up this host, step by step. A step that is already done is skipped, and each step is checked when it
has been done; the script can be started again at any time.

  K3s          one-node Kubernetes, pinned release, checksums compared
  Helm         pinned release, checksums compared
  GPUs         NVIDIA GPU operator, or the AMD or Intel device plugin; the node must offer every GPU
  images       ci-base.Dockerfile for this host's GPUs, and bkgen.Dockerfile; imported into containerd
  directories  model weights, data sets and scratch space below DATA_DIR

  --dry-run    print every command, run none
  -h, --help   this text

Settings are in harness/config.env; the environment wins. The most used ones:

  VENDOR=nvidia|amd|intel   which GPUs (default: whose tool is on the path)
  REBUILD_IMAGE=1           build and import the images again
  DATA_DIR=/data            where the directories go
TEXT
}

read_arguments() {
  while [ "$#" -gt 0 ]; do
    case $1 in
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

# --- The host -------------------------------------------------------------------------------------

choose_architecture() {
  case $(uname -m) in
  x86_64) ARCH=amd64 K3S_BINARY=k3s ;;
  aarch64 | arm64) ARCH=arm64 K3S_BINARY=k3s-arm64 ;;
  *) die "$(uname -m) is no architecture that K3s and the GPU plugins are released for" \
    "use an x86_64 or aarch64 host" ;;
  esac
}

choose_vendor() {
  find_vendor
  case $VENDOR in
  nvidia)
    VENDOR_TOOL=nvidia-smi
    : "${GPU_RESOURCE:=nvidia.com/gpu}" "${CI_BASE_FROM:=nvidia/cuda:13.0.2-devel-ubuntu24.04}"
    ;;
  amd)
    VENDOR_TOOL=amd-smi
    : "${GPU_RESOURCE:=amd.com/gpu}" "${CI_BASE_FROM:=rocm/dev-ubuntu-24.04:7.1.1-complete}"
    ;;
  intel)
    VENDOR_TOOL=xpu-smi
    : "${GPU_RESOURCE:=gpu.intel.com/i915}"
    : "${CI_BASE_FROM:=intel/deep-learning-essentials:2025.3.2-0-devel-ubuntu24.04}"
    ;;
  '') die "none of nvidia-smi, amd-smi and xpu-smi is on the path" \
    "install the GPU driver, or say whose GPUs these are: VENDOR=nvidia" ;;
  esac
}

# What `install` and `chown` read one way and `stat` prints another would never look done.
check_settings() {
  check_paths BIN_DIR STATE_DIR DATA_DIR CACHE_DIRS SCRATCH_DIR
  [[ $DATA_OWNER =~ ^[A-Za-z0-9._-]+:[A-Za-z0-9._-]+$ ]] ||
    die "DATA_OWNER is '$DATA_OWNER'" "write user:group, as names or as numbers: root:root, 1000:1000"
}

# The vendor's tool must be believed here: a host that miscounts its GPUs is not set up at all.
count_gpus() {
  local listing
  [ -z "$GPU_COUNT" ] || return 0
  if [ "$DRY_RUN" = 1 ]; then
    show "$VENDOR_TOOL" "${LIST_GPUS[@]}"
    GPU_COUNT='<as many as listed>'
    return 0
  fi
  capture "$VENDOR_TOOL" "${LIST_GPUS[@]}" ||
    die "\`$VENDOR_TOOL ${LIST_GPUS[*]}\` ended with status $?" "mend the GPU driver before anything else"
  listing=$REPLY
  # nvidia-smi reports a GPU that has fallen off the bus in the same listing, and still exits with 0.
  if [ "$VENDOR" = nvidia ] && grep -vE '^(GPU [0-9]+: |[[:space:]]+MIG |[[:space:]]*$)' <<<"$listing" >&2; then
    die "\`$VENDOR_TOOL ${LIST_GPUS[*]}\` lists something that is no GPU" "mend the GPU driver before anything else"
  fi
  # A GPU cut into MIG slices offers its slices in its place.
  GPU_COUNT=$(grep -cE '^[[:space:]]+MIG ' <<<"$listing") ||
    GPU_COUNT=$(grep -cE "$GPU_LINE" <<<"$listing") ||
    die "\`$VENDOR_TOOL ${LIST_GPUS[*]}\` lists no GPU" "mend the GPU driver, or set GPU_COUNT"
}

describe_gpus() {
  case $VENDOR in
  nvidia) LIST_GPUS=(-L) GPU_LINE='^GPU [0-9]+:' ;;
  amd) LIST_GPUS=(list) GPU_LINE='^GPU: [0-9]+' ;;
  intel) LIST_GPUS=(discovery --dump 1) GPU_LINE='^[0-9]+' ;;
  esac
  count_gpus
  find_architectures
}

# What the compilers in the image build for, in the words of the vendor's own build systems.
find_architectures() {
  local query listing
  [ -z "$GPU_ARCH_LIST" ] || return 0
  case $VENDOR in
  nvidia) query=(nvidia-smi --query-gpu=compute_cap '--format=csv,noheader') ;;
  amd) query=(amd-smi static --asic) ;;
  intel) return 0 ;;
  esac
  if [ "$DRY_RUN" = 1 ]; then
    show "${query[@]}"
    GPU_ARCH_LIST='<as answered>'
    return 0
  fi
  capture "${query[@]}" || die "\`$(quoted "${query[@]}")\` ended with status $?" "mend the GPU driver"
  listing=$REPLY
  case $VENDOR in
  nvidia) GPU_ARCH_LIST=$(sort -uV <<<"$listing" | paste -sd ';') ;;
  amd) GPU_ARCH_LIST=$(sed -n 's/.*TARGET_GRAPHICS_VERSION: *//p' <<<"$listing" | sort -u | paste -sd ';') ;;
  esac
  [[ $GPU_ARCH_LIST =~ ^([0-9]+\.[0-9]+|gfx[0-9a-f]+)(;([0-9]+\.[0-9]+|gfx[0-9a-f]+))*$ ]] ||
    die "\`$(quoted "${query[@]}")\` answered something that is no GPU architecture" \
      "run it by hand; set GPU_ARCH_LIST (9.0 for an H100, gfx942 for an MI300) if it cannot be mended"
}

# --- K3s ------------------------------------------------------------------------------------------

k3s_is_ready() {
  ask test -x "$BIN_DIR/k3s" || return 1
  answer "$K3S_VERSION" "$BIN_DIR/k3s" --version || return 1
  [[ $REPLY == *"$K3S_VERSION"* ]] || return 1
  ask systemctl is-active --quiet k3s && node_is_ready
}

# False, too, while the API server starts and while no node has registered yet.
node_is_ready() { ask kubectl wait --for=condition=Ready node --all --timeout=10s; }

await_node() {
  wait_until "$NODE_TIMEOUT" node_is_ready ||
    die "the node is not ready after $NODE_TIMEOUT seconds" "journalctl --unit k3s --lines 50 says why" 75
}

refuse_downgrade() {
  local installed
  [ "$DRY_RUN" = 0 ] && [ -x "$BIN_DIR/k3s" ] || return 0
  installed=$("$BIN_DIR/k3s" --version 2>/dev/null | grep -oE 'v[0-9]+\.[0-9]+\.[0-9]+\+k3s[0-9]+' | head -n 1) ||
    return 0
  [ "$(printf '%s\n' "$installed" "$K3S_VERSION" | sort -V | tail -n 1)" = "$K3S_VERSION" ] ||
    die "K3s $installed is installed, newer than $K3S_VERSION; Kubernetes cannot go back" \
      "set K3S_VERSION=$installed in harness/config.env"
}

install_k3s() {
  local release=${K3S_VERSION/+/%2B}
  refuse_downgrade
  download_checked "$K3S_DOWNLOADS/$release/$K3S_BINARY" "$WORK/k3s" \
    "$K3S_DOWNLOADS/$release/sha256sum-$ARCH.txt" "$K3S_BINARY" "$K3S_SHA256"
  download_checked "$K3S_SOURCES/$release/install.sh" "$WORK/install-k3s.sh" \
    "$K3S_SOURCES/$release/install.sh.sha256sum" install.sh "$K3S_INSTALLER_SHA256"
  if [ ! -e "$BIN_DIR/k3s" ]; then
    mark k3s
  fi
  run install -m 0755 "$WORK/k3s" "$BIN_DIR/k3s"
  # The installer writes the service and the scripts that remove it all again; the program is in place.
  run env INSTALL_K3S_SKIP_DOWNLOAD=true INSTALL_K3S_BIN_DIR="$BIN_DIR" \
    INSTALL_K3S_EXEC="$K3S_SERVER_ARGS" sh "$WORK/install-k3s.sh"
  await_node
}

# --- Helm -----------------------------------------------------------------------------------------

helm_is_ready() {
  ask test -x "$BIN_DIR/helm" || return 1
  answer "$HELM_VERSION" "$BIN_DIR/helm" version --short || return 1
  [[ $REPLY == "$HELM_VERSION"* ]]
}

install_helm() {
  local archive=helm-$HELM_VERSION-linux-$ARCH.tar.gz
  download_checked "$HELM_DOWNLOADS/$archive" "$WORK/$archive" \
    "$HELM_DOWNLOADS/$archive.sha256sum" "$archive" "$HELM_SHA256"
  run tar -xzf "$WORK/$archive" -C "$WORK" "linux-$ARCH/helm"
  if [ ! -e "$BIN_DIR/helm" ]; then
    mark helm
  fi
  run install -m 0755 "$WORK/linux-$ARCH/helm" "$BIN_DIR/helm"
}

# --- GPUs -----------------------------------------------------------------------------------------

gpus_are_ready() {
  case $VENDOR in
  nvidia) release_is gpu-operator gpu-operator gpu-operator "$NVIDIA_GPU_OPERATOR_VERSION" || return 1 ;;
  amd) release_is amd-gpu kube-system amd-gpu "$AMD_DEVICE_PLUGIN_VERSION" || return 1 ;;
  intel)
    if by_device_class; then
      device_class_is_there
      return
    fi
    intel_plugin_is_there || return 1
    ;;
  esac
  node_offers_gpus
}

# by_device_class: the GPUs are given out by a resource driver (DRA), under a device class. No node lists them
# among its resources, so there is nothing to count; and the driver is not ours to install.
by_device_class() { [[ $GPU_RESOURCE == deviceclass.resource.kubernetes.io/* ]]; }

device_class_is_there() { ask kubectl get deviceclass "${GPU_RESOURCE#*/}"; }

node_offers_gpus() {
  answer "$GPU_COUNT" kubectl get nodes --output \
    "jsonpath={range .items[*]}{.status.allocatable.${GPU_RESOURCE//./\\.}}{'\n'}{end}" || return 1
  GPUS_OFFERED=$(awk '{ sum += $1 } END { print sum + 0 }' <<<"$REPLY")
  [ "$GPUS_OFFERED" = "$GPU_COUNT" ]
}

install_gpus() {
  if by_device_class; then
    device_class_is_there || die "the cluster has no device class ${GPU_RESOURCE#*/}" \
      "install the vendor's resource driver and turn on DRAExtendedResource; harness/README.md, \"Intel GPUs\", says how"
    return 0
  fi
  "install_${VENDOR}_gpus"
  wait_until "$GPU_TIMEOUT" node_offers_gpus ||
    die "the node offers $GPUS_OFFERED of $GPU_COUNT $GPU_RESOURCE after $GPU_TIMEOUT seconds" \
      "kubectl get pods --all-namespaces shows which part is stuck; GPU_RESOURCE and GPU_COUNT may be set" 75
}

install_nvidia_gpus() {
  local chart=$WORK/gpu-operator-$NVIDIA_GPU_OPERATOR_VERSION.tgz
  pull_chart "$chart" gpu-operator "$NVIDIA_GPU_OPERATOR_VERSION" "$NVIDIA_GPU_OPERATOR_SHA256" \
    "$NVIDIA_CHARTS"
  if absent namespace gpu-operator; then
    mark namespace@gpu-operator
  fi
  # The driver is the host's. K3s keeps containerd's socket in a place of its own. The NVIDIA runtime is
  # not made the default one: with it, an image that bakes in "all devices" sees every GPU of the host.
  upgrade_release gpu-operator gpu-operator gpu-operator "$chart" --create-namespace \
    --set driver.enabled=false \
    --set 'toolkit.env[0].name=CONTAINERD_SOCKET' \
    --set 'toolkit.env[0].value=/run/k3s/containerd/containerd.sock' \
    --set 'toolkit.env[1].name=CONTAINERD_SET_AS_DEFAULT' \
    --set-string 'toolkit.env[1].value=false' \
    --wait --timeout "${GPU_TIMEOUT}s"
  wait_until "$GPU_TIMEOUT" toolkit_is_ready ||
    die "the operator's container toolkit is not ready after $GPU_TIMEOUT seconds" \
      "kubectl --namespace gpu-operator get pods shows which part is stuck" 75
  # K3s looks for NVIDIA's runtime when it starts, and the operator has only now put it there.
  if ! ask grep -q nvidia "$K3S_CONTAINERD_CONFIG" || [ "$DRY_RUN" = 1 ]; then
    run systemctl restart k3s
    await_node
  fi
}

toolkit_is_ready() {
  ask kubectl --namespace gpu-operator rollout status daemonset/nvidia-container-toolkit-daemonset \
    --timeout=10s
}

install_amd_gpus() {
  local chart=$WORK/amd-gpu-$AMD_DEVICE_PLUGIN_VERSION.tgz
  pull_chart "$chart" amd-gpu "$AMD_DEVICE_PLUGIN_VERSION" "$AMD_DEVICE_PLUGIN_SHA256" \
    "$AMD_CHARTS"
  upgrade_release amd-gpu amd-gpu kube-system "$chart" --wait --timeout "${GPU_TIMEOUT}s"
}

intel_manifest() { echo "$INTEL_DEVICE_PLUGIN_SOURCES/deployments/gpu_plugin?ref=$INTEL_DEVICE_PLUGIN_REF"; }

intel_plugin_is_there() {
  answer "intel-gpu-plugin:${INTEL_DEVICE_PLUGIN_VERSION#v}" kubectl get daemonset intel-gpu-plugin \
    --namespace default --output 'jsonpath={.spec.template.spec.containers[0].image}' || return 1
  [[ $REPLY == *":${INTEL_DEVICE_PLUGIN_VERSION#v}" ]]
}

install_intel_gpus() {
  if absent daemonset intel-gpu-plugin --namespace default; then
    mark intel-gpu-plugin
  fi
  run kubectl apply --namespace default --kustomize "$(intel_manifest)"
}

# --- Images ---------------------------------------------------------------------------------------

# image_is_ready NAME IMAGE INPUTS: what K3s's containerd has under that name is what build_image imported
# there, byte for byte, and that was built from these inputs. Docker is not asked: what it has was perhaps
# never imported, and it may have thrown its own copy away since.
image_is_ready() {
  imported_digest "$2" || return 1
  [ "$DRY_RUN" = 1 ] || grep -qxF -e "$2 $3 $REPLY" "$STATE_DIR/imported-$1" 2>/dev/null
}

# imported_digest IMAGE: the digest of what containerd has under that name, in REPLY; 1 when it has nothing.
imported_digest() {
  local name
  name=$(containerd_name "$1")
  answer "$name - -" "$BIN_DIR/k3s" ctr images ls || return 1
  REPLY=$(awk -v name="$name" '$1 == name { print $3; exit }' <<<"$REPLY")
  [ -n "$REPLY" ]
}

# build_image NAME IMAGE INPUTS DOCKERFILE CONTEXT ARGUMENT…: builds, imports, and notes what it has imported.
# The note of an earlier import goes first and the new one comes last, so that a build or an import which
# fails is done again at the next start.
build_image() {
  local name=$1 image=$2 inputs=$3 dockerfile=$4 context=$5
  shift 5
  unmark "imported-$name"
  mark "image-$name" "$image"
  run docker build --label "bkgen.inputs=$inputs" --tag "$image" --file "$dockerfile" "$@" "$context"
  # Through a pipe: the archive can be larger than what is free in /tmp.
  # shellcheck disable=SC2016 # the inner shell expands them
  run bash -c 'set -o pipefail; docker save "$1" | "$2" ctr images import -' import "$image" "$BIN_DIR/k3s"
  imported_digest "$image" || die "the import went well, but containerd has no $(containerd_name "$image")" \
    "k3s ctr images ls shows what it has" 75
  mark "imported-$name" "$image $inputs $REPLY"
  REBUILT+=" $name "
}

# Built anew in this run, or not asked to be.
settled() { [ "$REBUILD_IMAGE" != 1 ] || [[ $REBUILT == *" $1 "* ]]; }

# inputs_of DIRECTORY FILE…: one word for everything an image is made from, names and contents.
inputs_of() {
  local sum directory=$1
  shift
  if [ "$DRY_RUN" = 1 ]; then
    echo '<sum of what it is made from>'
    return
  fi
  sum=$(cd "$directory" && sha256sum -- "$@" | sha256sum) || return 1
  echo "${sum:0:16}"
}

ci_inputs() { echo "$(inputs_of "$HARNESS" ci-base.Dockerfile)-$CI_BASE_FROM-$GPU_ARCH_LIST"; }

ci_image_is_ready() { settled ci-base && image_is_ready ci-base "$CI_IMAGE" "$(ci_inputs)"; }

build_ci_image() {
  build_image ci-base "$CI_IMAGE" "$(ci_inputs)" "$HARNESS/ci-base.Dockerfile" "$HARNESS" \
    --build-arg "BASE_IMAGE=$CI_BASE_FROM" --build-arg "GPU_ARCH_LIST=$GPU_ARCH_LIST"
}

# Everything that is sent to the engine, and how it is put together: the list of what is sent is the one that
# Docker itself goes by.
bkgen_inputs() {
  local repository sent files
  repository=$(dirname "$HARNESS")
  mapfile -t sent < <(sed -n 's/^!//p' "$HARNESS/bkgen.Dockerfile.dockerignore")
  mapfile -t files < <(cd "$repository" && find "${sent[@]}" -type f ! -path '*/__pycache__/*' | LC_ALL=C sort)
  inputs_of "$repository" harness/bkgen.Dockerfile harness/bkgen.Dockerfile.dockerignore "${files[@]}"
}

bkgen_image_is_ready() { settled bkgen && image_is_ready bkgen "$BKGEN_IMAGE" "$(bkgen_inputs)"; }

build_bkgen_image() {
  build_image bkgen "$BKGEN_IMAGE" "$(bkgen_inputs)" "$HARNESS/bkgen.Dockerfile" "$(dirname "$HARNESS")"
}

# --- Directories ----------------------------------------------------------------------------------

each_directory() {
  local directory directories
  read -ra directories <<<"$CACHE_DIRS"
  for directory in "${directories[@]}"; do
    "$1" 775 "$directory" || return 1
  done
  "$1" 1777 "$SCRATCH_DIR"
}

# The owner is compared the way it was given: as a number or as a name.
directory_is_ready() {
  local user=%U group=%G
  [[ ! ${DATA_OWNER%%:*} =~ ^[0-9]+$ ]] || user=%u
  [[ ! ${DATA_OWNER##*:} =~ ^[0-9]+$ ]] || group=%g
  answer "$DATA_OWNER $1" stat --format "$user:$group %a" "$2" || return 1
  [ "$REPLY" = "$DATA_OWNER $1" ]
}

directories_are_ready() { each_directory directory_is_ready; }

# Only the directory itself: what lies inside belongs to whoever put it there.
make_directory() { run install -d -m "$1" -o "${DATA_OWNER%%:*}" -g "${DATA_OWNER##*:}" "$2"; }

make_directories() {
  local kind
  each_directory make_directory
  answer ext2/ext3 stat --file-system --format %T "$SCRATCH_DIR" || return 0
  kind=$REPLY
  case $kind in
  ext* | xfs) ;;
  *) say "warning: $SCRATCH_DIR is on $kind; GPUDirect Storage wants ext4 or XFS and falls back without a word" ;;
  esac
}

# --- What the suites will ask for -------------------------------------------------------------------

# The pods ask for what bkgen.yml says, and not for what was installed here. Only a word: the cluster is ready
# all the same, and the settings may be changed afterwards.
advise_on_profile() {
  local command=("$PYTHON" "$HARNESS/profiles.py" --settings "$(settings_file)" --vendor "$VENDOR"
  "--profile=$PROFILE" --nodes "$WORK/nodes.json")
  STEP="the profile in bkgen.yml"
  if ! answer '' kubectl get nodes --output json; then
    die "the cluster does not answer" "kubectl get nodes says why; is K3s running?" 75
  fi
  show "${command[@]}"
  if [ "$DRY_RUN" = 0 ]; then
    printf '%s\n' "$REPLY" >"$WORK/nodes.json"
    capture "${command[@]}" || say "warning: smoke-test.sh will refuse this, too, until it is mended"
  fi
  STEP=
}

# --------------------------------------------------------------------------------------------------

ARCH='' K3S_BINARY='' VENDOR_TOOL='' GPU_LINE='' GPUS_OFFERED=0 REBUILT=''
LIST_GPUS=()
read_arguments "$@"
check_settings
need_root
choose_architecture
choose_vendor
tools=(awk curl docker env find grep install sed sha256sum sort stat systemctl tar "$PYTHON" "$VENDOR_TOOL")
if [ "$VENDOR" = intel ]; then
  tools+=(git) # kubectl fetches the manifest's repository with it
fi
need_tools "${tools[@]}"
make_work
describe_gpus
step K3s k3s_is_ready install_k3s
step Helm helm_is_ready install_helm
step "GPUs ($VENDOR)" gpus_are_ready install_gpus
step "image $CI_IMAGE" ci_image_is_ready build_ci_image
step "image $BKGEN_IMAGE" bkgen_image_is_ready build_bkgen_image
step directories directories_are_ready make_directories
advise_on_profile
[ "$DRY_RUN" = 1 ] || say "this host is ready: $GPU_COUNT $GPU_RESOURCE; next: harness/smoke-test.sh"
