"""The programs of a host in tests/cluster_host.py, as text: they are written to a test's own directory.

STANDIN is every program but one; it tells by its name which one it is. INSTALLER is K3s's own installer.
Both find the host they belong to by STANDIN_ROOT.
"""

STANDIN = r"""#!/bin/bash
# A stand-in for kubectl, helm, k3s, docker, curl, … of tests/cluster_host.py.
name=${0##*/}
root=$STANDIN_ROOT
state=$root/state
if [ "$name" = k3s ] && [ "$1" = kubectl ]; then
  name=kubectl
  shift
fi
words=("$@")
line="$name $*"
line=${line//$'\n'/ }
printf '%s\n' "$line" >>"$root/calls"
if [ -e "$root/watch" ]; then
  # What anybody on the host could see at this moment.
  for process in /proc/$$ /proc/$PPID; do
    tr '\0' ' ' <"$process/cmdline" >>"$root/seen"
    tr '\0' '\n' <"$process/environ" >>"$root/seen" 2>/dev/null
  done
  case $line in
  *secret* | helm\ upgrade*) ps -eo args >>"$root/seen" ;;
  esac
fi
while read -r pattern; do
  if [[ $line =~ $pattern ]]; then
    printf '%s: the stand-in fails as told\n' "$name" >&2
    exit 7
  fi
done <"$root/fail"
if [ -e "$root/hang" ] && [[ $line =~ $(<"$root/hang") ]]; then
  echo $$ >"$root/hanging"
  exec sleep 600
fi

# tell FILE: its lines, without starting a program.
tell() {
  local lines
  mapfile lines <"$state/$1"
  printf %s "${lines[@]}"
}

# option NAME: the word after NAME.
option() {
  local at
  for at in "${!words[@]}"; do
    if [ "${words[at]}" = "$1" ]; then
      printf '%s' "${words[at + 1]}"
      return
    fi
  done
}

last=${words[${#words[@]} - 1]}
case "$name $*" in
"uname -m") echo x86_64 ;;
uname*) echo gpu-host ;;
"id -u") echo "$(<"$state/uid")" ;;
id*) exec @ID@ "$@" ;;
curl*)
  file=$root/web/${last#https://}
  [ -f "$file" ] || exit 22
  cp "$file" "$(option --output)"
  ;;
systemctl\ is-active*) [ -e "$state/k3s-active" ] ;;
systemctl\ restart*) echo 'runtimes."nvidia"' >>"$root/containerd.toml" ;;
"k3s --version") echo "k3s version $(<"$state/k3s-version") (0123456)" ;;
k3s\ ctr\ images\ ls*) tell images ;;
k3s\ ctr\ images\ import*)
  image=$(cat)
  [ -n "$image" ] || exit 9
  case $image in */*) ;; *) image=library/$image ;; esac
  echo "docker.io/$image" >>"$state/images"
  ;;
k3s\ ctr\ images\ rm*)
  grep -vxF "$last" "$state/images" >"$state/images.new"
  mv "$state/images.new" "$state/images"
  ;;
"helm version --short") echo "$(<"$state/helm-version")+g0123456" ;;
helm\ list*)
  printf '['
  chart=$state/releases/$(option --namespace)-$(option --filter | tr -d '^$')
  [ -e "$chart" ] && printf '{"name":"x","status":"deployed","chart":"%s"}' "$(<"$chart")"
  printf ']\n'
  ;;
helm\ history*)
  description=$state/descriptions/$(option --namespace)
  printf '[{"revision":1,"description":"%s"}]\n' "$([ ! -e "$description" ] || cat "$description")"
  ;;
helm\ pull*)
  chart=${2##*/}
  echo "chart $chart" >"$(option --destination)/$chart-$(option --version).tgz"
  ;;
helm\ upgrade*)
  [ -f "$4" ] || exit 8
  mkdir -p "$state/releases" "$state/descriptions"
  chart=${4##*/}
  printf '%s' "${chart%.tgz}" >"$state/releases/$(option --namespace)-$3"
  printf '%s' "$(option --description)" >"$state/descriptions/$(option --namespace)"
  [ -z "$(option --values)" ] || cp "$(option --values)" "$root/values.yaml"
  ;;
helm\ uninstall*) rm -f "$state/releases/$(option --namespace)-$3" ;;
docker\ build*)
  mkdir -p "$state/labels"
  tag=$(option --tag)
  label=$(option --label)
  printf '%s\n' "${label#*=}" >"$state/labels/${tag//\//_}"
  ;;
docker\ image\ inspect*) cat "$state/labels/${last//\//_}" 2>/dev/null ;;
docker\ image\ rm*) rm "$state/labels/${last//\//_}" ;;
docker\ save*) printf '%s\n' "$last" ;;
"nvidia-smi -L")
  tell nvidia-list
  exit "$(<"$state/nvidia-status")"
  ;;
nvidia-smi\ --query-gpu=compute_cap*) tell compute-cap ;;
"amd-smi list") tell amd-list ;;
"amd-smi static --asic") tell amd-asic ;;
xpu-smi\ discovery*) printf 'Device ID\n0\n1\n' ;;
kubectl\ wait*node*) [ -e "$state/k3s-active" ] ;;
kubectl\ wait*) [ ! -e "$state/pod-stuck" ] ;;
kubectl\ get\ nodes\ --output\ name*) [ ! -e "$state/k3s-active" ] || echo node/gpu-host ;;
kubectl\ get\ nodes\ --output\ json) tell nodes.json ;;
kubectl\ get\ nodes\ --output*) [ ! -e "$state/plugin" ] && [ ! -e "$state/releases" ] || tell gpus ;;
kubectl\ get\ nodes*) [ -e "$state/k3s-active" ] ;;
kubectl\ get\ daemonset*) cat "$state/plugin" 2>/dev/null ;;
kubectl\ get\ namespace*) [ -e "$state/namespace-$3" ] ;;
kubectl\ create\ namespace*) : >"$state/namespace-$3" ;;
kubectl\ delete\ namespace*) rm -f "$state/namespace-$3" ;;
kubectl\ get\ deployment*) [ -e "$state/releases/buildkite-agent-stack-k8s" ] ;;
kubectl\ create\ secret*)
  for word in "$@"; do
    case $word in --from-file=*) file=${word#--from-file=} ;; esac
  done
  printf 'kind: Secret\nname: %s\ndata:\n  %s: %s\n' "$4" "${file%%=*}" "$(base64 -w 0 "${file#*=}")"
  ;;
kubectl\ diff*) cmp -s "$last" "$root/secrets/${last##*/}" ;;
kubectl\ apply*--kustomize*) printf 'intel/intel-gpu-plugin:0.35.0' >"$state/plugin" ;;
kubectl\ apply*secret-*) mkdir -p "$root/secrets"; cp "$last" "$root/secrets/" ;;
kubectl\ apply*) cp "$last" "$root/applied.json" ;;
kubectl\ rollout\ status\ deployment*) [ ! -e "$state/controller-log" ] ;;
kubectl*logs*) tell controller-log ;;
kubectl\ exec*)
  while [ "$1" != -- ]; do shift; done
  shift
  exec "$@"
  ;;
kubectl\ delete\ pods*) : >"$state/pods-deleted" ;;
bkgen\ render*) tell pods.json ;;
esac
"""

INSTALLER = r"""#!/bin/sh
cd "$STANDIN_ROOT"
echo "installer $INSTALL_K3S_SKIP_DOWNLOAD $INSTALL_K3S_BIN_DIR $INSTALL_K3S_EXEC" >>calls
if grep -qxF '^installer' fail; then exit 7; fi
: >state/k3s-active
ln -sf k3s "$INSTALL_K3S_BIN_DIR/kubectl"
for name in killall uninstall; do
  cat >"$INSTALL_K3S_BIN_DIR/k3s-$name.sh" <<'END'
#!/bin/sh
cd "$STANDIN_ROOT"
name=${0##*/}
echo "$name" >>calls
if grep -qxF "^$name" fail; then exit 7; fi
[ "$name" = k3s-uninstall.sh ] || exit 0
rm -rf state/k3s-active state/images state/releases
rm -f "${0%/*}"/k3s "${0%/*}"/kubectl "${0%/*}"/k3s-*.sh
END
  chmod +x "$INSTALL_K3S_BIN_DIR/k3s-$name.sh"
done
"""
