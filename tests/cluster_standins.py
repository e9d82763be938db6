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
  [ ! -e "$root/deaf" ] || trap '' TERM
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
k3s\ ctr\ images\ ls\ -q) awk '{ print $1 }' "$state/images" ;;
"k3s ctr images ls")
  echo 'REF TYPE DIGEST SIZE PLATFORMS LABELS'
  awk '{ print $1, "application/vnd.oci.image.manifest.v1+json", $2, "1.2 GiB linux/amd64 -" }' "$state/images"
  ;;
k3s\ ctr\ images\ import*)
  read -r image content
  [ -n "$image" ] || exit 9
  [ ! -e "$state/import-nothing" ] || exit 0
  case $image in */*) ;; *) image=library/$image ;; esac
  grep -v "^docker.io/$image " "$state/images" >"$state/images.new"
  echo "docker.io/$image sha256:$(sha256sum <<<"$content" | cut -d ' ' -f 1)" >>"$state/images.new"
  mv "$state/images.new" "$state/images"
  ;;
k3s\ ctr\ images\ rm*)
  grep -v "^$last " "$state/images" >"$state/images.new"
  mv "$state/images.new" "$state/images"
  ;;
"helm version --short") echo "$(<"$state/helm-version")+g0123456" ;;
helm\ list*)
  printf '['
  chart=$state/releases/$(option --namespace)-$(option --filter | tr -d '^$')
  status=deployed
  [ ! -e "$state/release-status" ] || status=$(<"$state/release-status")
  # As the real one: what is neither deployed nor failed is only in the list of all.
  case $status$* in deployed* | *--all*)
    [ ! -e "$chart" ] || printf '{"name":"x","status":"%s","chart":"%s"}' "$status" "$(<"$chart")" ;;
  esac
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
  case $tag in *:*) ;; *) tag+=:latest ;; esac
  label=$(option --label)
  printf '%s %s\n' "${label#*=}" "$(wc -l <"$root/calls")" >"$state/labels/${tag//\//_}"
  ;;
docker\ image\ inspect*)
  [ -e "$state/labels/${last//\//_}" ] || exit 1
  read -r label _ <"$state/labels/${last//\//_}"
  echo "$label"
  ;;
docker\ image\ rm*) rm "$state/labels/${last//\//_}" ;;
docker\ save*)
  case $last in *:*) ;; *) last+=:latest ;; esac
  printf '%s %s\n' "$last" "$(<"$state/labels/${last//\//_}")"
  ;;
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
# Whether there is one, in the words of `--ignore-not-found --output name`.
kubectl\ get\ *--ignore-not-found*)
  case $2 in
  namespace) there=$state/namespace-$3 ;;
  secret) there=$root/secrets/$(option --namespace)/secret-$3.yaml ;;
  deployment) there=$state/releases/$(option --namespace)-$3 ;;
  daemonset) there=$state/plugin ;;
  esac
  [ ! -e "$there" ] || echo "$2/$3"
  ;;
kubectl\ get\ daemonset*) cat "$state/plugin" 2>/dev/null ;;
kubectl\ get\ deviceclass*) [ -e "$state/deviceclass-$3" ] ;;
kubectl\ get\ namespace*) [ -e "$state/namespace-$3" ] ;;
kubectl\ get\ pods*jsonpath*)
  # The controller's pods: one that runs, unless the state says otherwise; a line of `pods` for each look.
  if [ -e "$state/pods-at-once" ]; then
    tell pods-at-once
  elif [ -s "$state/pods" ]; then
    head -n 1 "$state/pods"
    [ "$(wc -l <"$state/pods")" = 1 ] || { tail -n +2 "$state/pods" >"$state/pods.rest" && mv "$state/pods.rest" "$state/pods"; }
  else
    echo 'agent-stack-k8s-5d||0||'
  fi
  ;;
kubectl\ create\ namespace*) : >"$state/namespace-$3" ;;
kubectl\ delete\ namespace*) rm -f "$state/namespace-$3" ;;
kubectl\ create\ secret*)
  for word in "$@"; do
    case $word in --from-file=*) file=${word#--from-file=} ;; esac
  done
  printf 'kind: Secret\nname: %s\nnamespace: %s\ndata:\n  %s: %s\n' "$4" "$(option --namespace)" "${file%%=*}" \
    "$(base64 -w 0 "${file#*=}")"
  ;;
kubectl\ delete\ secret*) rm -rf "$root/secrets/$(option --namespace)" ;;
kubectl\ diff*)
  echo "$TMPDIR" >>"$state/diff-directories"
  namespace=$(sed -n 's/^namespace: //p' "$last")
  cmp -s "$last" "$root/secrets/$namespace/${last##*/}"
  ;;
kubectl\ apply*--kustomize*) printf 'intel/intel-gpu-plugin:0.35.0' >"$state/plugin" ;;
kubectl\ apply*secret-*)
  namespace=$(sed -n 's/^namespace: //p' "$last")
  mkdir -p "$root/secrets/$namespace"
  cp "$last" "$root/secrets/$namespace/"
  ;;
kubectl\ apply*) cp "$last" "$root/applied.json" ;;
kubectl\ rollout\ status\ deployment*) [ ! -e "$state/controller-log" ] ;;
kubectl*logs*)
  for log in controller-log running-log; do [ ! -e "$state/$log" ] || tell "$log"; done
  ;;
kubectl\ exec*)
  while [ "$1" != -- ]; do shift; done
  shift
  exec "$@"
  ;;
kubectl\ delete\ pods*) : >"$state/pods-deleted" ;;
bkgen\ render*)
  [ ! -e bkgen.yml ] || cp bkgen.yml "$root/rendered-with.yml"
  tell pods.json
  ;;
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
