#!/usr/bin/env bash
# What the cluster scripts download, and how each file is compared before it is used. Sourced by
# cluster-lib.sh, never run.

# download ADDRESS FILE: over TLS, following redirects.
download() {
  run curl --fail --silent --show-error --location --proto =https --proto-redir =https --tlsv1.2 \
    --retry 3 --output "$2" "$1"
}

# download_checked ADDRESS FILE SUMS NAME PIN: downloads FILE and the publisher's list of SHA-256 sums,
# and keeps the file only when its sum is the one listed for NAME and, unless PIN is empty, also PIN.
download_checked() {
  local address=$1 file=$2 sums=$3 name=$4 pin=$5 listed
  download "$address" "$file"
  download "$sums" "$file.sums"
  if [ "$DRY_RUN" = 1 ]; then
    show sha256sum "$file"
    return 0
  fi
  listed=$(awk -v name="$name" '{ sub(/^\*/, "", $2) } $2 == name { print $1; exit }' "$file.sums")
  [[ $listed =~ ^[0-9a-f]{64}$ ]] || die "the publisher's list has no SHA-256 for $name" \
    "look at $sums; is the version in config.env a released one?"
  check_sum "$file" "$listed" "$name" "the publisher's list"
  check_pin "$file" "$pin" "$name"
}

# check_pin FILE PIN NAME: compares with a sum from config.env when there is one, and says the sum.
check_pin() {
  if [ "$DRY_RUN" = 1 ]; then
    [ -z "$2" ] || show sha256sum "$1"
    return 0
  fi
  [ -z "$2" ] || check_sum "$1" "$2" "$3" "config.env"
  say "sha256 $(sha256sum <"$1" | cut -d ' ' -f 1)  $3"
}

check_sum() {
  local sum
  sum=$(sha256sum <"$1" | cut -d ' ' -f 1)
  [ "$sum" = "$2" ] && return 0
  rm -f -- "$1"
  die "$3 has the SHA-256 $sum, but $4 says $2; the file was thrown away" \
    "do not go on before you know why: a damaged download, another version, or something worse"
}

# pull_chart FILE NAME VERSION PIN REPOSITORY: fetches a Helm chart's archive as FILE, and keeps it only when
# its sum is the digest that the repository's index names and, unless PIN is empty, also PIN. A chart that a
# registry holds (oci://…) has no index: there Helm itself compares it with the digest in the manifest.
pull_chart() {
  local file=$1 name=$2 version=$3 pin=$4 repository=$5
  if [[ $repository == oci://* ]]; then
    run helm pull "$repository" --version "$version" --destination "$(dirname "$file")"
  else
    run helm pull "$name" --repo "$repository" --version "$version" --destination "$(dirname "$file")"
  fi
  [ "$DRY_RUN" = 1 ] || [ -s "$file" ] || die "helm pull left no ${file##*/}" \
    "is $version a released version of $name?"
  [[ $repository == oci://* ]] || check_digest "$file" "$name" "$version" "$repository"
  check_pin "$file" "$pin" "$name-$version.tgz"
}

# check_digest FILE NAME VERSION REPOSITORY: see pull_chart.
check_digest() {
  local index=$WORK/$2-index.yaml
  download "$4/index.yaml" "$index"
  if ! answer '' "$PYTHON" "$HARNESS/chart_digest.py" "$index" "$2" "$3"; then
    die "the index of $4 cannot be read, or does not list $2 $3" \
      "\`$PYTHON $HARNESS/chart_digest.py\` with a copy of $4/index.yaml says more"
  fi
  [ "$DRY_RUN" = 0 ] || return 0
  if [ -z "$REPLY" ]; then
    say "warning: the index of $4 names no digest for $2 $3; only a sum in config.env can be compared"
  else
    check_sum "$1" "$REPLY" "$2-$3.tgz" "the repository's index"
  fi
}

# release_state RELEASE NAMESPACE: what Helm knows of it, as JSON in REPLY, whatever its state is.
release_state() {
  answer '[]' helm list --all --namespace "$2" --filter "^$1\$" --output json ||
    die "Helm cannot list the releases in the namespace $2" "helm list --namespace $2 says why; is K3s running?" 75
}

# upgrade_release MARK RELEASE NAMESPACE CHART OPTION…: `helm upgrade --install`, marked as ours unless the
# release was there before. Marked first: a command that fails can leave the release behind all the same.
upgrade_release() {
  local mark=$1 release=$2 namespace=$3 chart=$4
  shift 4
  release_state "$release" "$namespace"
  # Helm refuses to touch such a release and does not say how it ends. Another Helm may really be at work, so
  # that only a person can decide.
  case $REPLY in
  *'"status":"pending-install"'*)
    die "an installation of $release in the namespace $namespace was begun and never ended" \
      "if no other helm is at work: helm uninstall $release --namespace $namespace, then start this again"
    ;;
  *'"status":"pending-'*)
    die "an upgrade of $release in the namespace $namespace was begun and never ended" \
      "if no other helm is at work: helm rollback $release --namespace $namespace, then start this again"
    ;;
  esac
  [[ $REPLY == *'"name":'* ]] || mark "$mark"
  run helm upgrade --install "$release" "$chart" --namespace "$namespace" "$@"
}

# release_is RELEASE NAMESPACE CHART VERSION: Helm has deployed that release from that chart.
release_is() {
  answer '[]' helm list --namespace "$2" --filter "^$1\$" --deployed --output json || return 1
  [[ $REPLY == *"\"chart\":\"$3-$4\""* ]]
}
