#!/usr/bin/env bash
# Builds the real buildkite-agent, each version that tests/conformance/agents pins, for the conformance tests.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/conformance/build-agents.sh [--print]

Builds every buildkite-agent that tests/conformance/agents/*/go.mod names into
.cache/agents/VERSION/buildkite-agent. What is built already is left alone. The first
build takes some minutes and fetches Go modules; it needs Go (the version that go.mod asks for).

  --print   build nothing; print "VERSION PATH" of each agent, one a line
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
pins=$root/tests/conformance/agents
staged=
builder=

fail() {
  printf 'build-agents: %s\n' "$1" >&2
  printf '  hint: %s\n' "$2" >&2
  exit 1
}

clean_up() {
  if [ -n "$builder" ]; then
    kill "$builder" 2>/dev/null || true
    wait "$builder" 2>/dev/null || true
  fi
  if [ -n "$staged" ]; then
    rm -rf "$staged"
  fi
}

version_of() {
  sed -n 's|^\(require\)\{0,1\}[[:space:]]*github.com/buildkite/agent/v3 v\([0-9.]*\).*|\2|p' "$1/go.mod" | head -n 1
}

stamp_of() {
  cat "$1/go.mod" "$1/go.sum" | cksum
}

is_built() {
  [ -x "$2/buildkite-agent" ] && [ "$(cat "$2/stamp" 2>/dev/null || true)" = "$(stamp_of "$1")" ]
}

need_go() {
  command -v go >/dev/null 2>&1 ||
    fail "Go is not installed, and the agents are built from source" \
      "install Go $1 or newer, or name a finished agent: BUILDKITE_AGENT=/path/to/buildkite-agent"
  local have
  have=$(GOTOOLCHAIN=local go env GOVERSION)
  have=${have#go}
  if [ "$(printf '%s\n%s\n' "$1" "$have" | sort -V | head -n 1)" != "$1" ]; then
    fail "Go is $have, and this agent needs $1 or newer" \
      "install a newer Go, or name a finished agent: BUILDKITE_AGENT=/path/to/buildkite-agent"
  fi
}

# Into a directory of its own first: a build that is broken off leaves nothing that looks finished.
build() {
  local pin=$1 target=$2 version=$3
  need_go "$(sed -n 's/^go //p' "$pin/go.mod")"
  printf 'build-agents: building buildkite-agent %s (this takes some minutes)\n' "$version" >&2
  mkdir -p "$(dirname "$target")"
  staged=$(mktemp -d "$(dirname "$target")/.building.XXXXXX")
  # In the background, because bash answers a signal only after a foreground child has ended.
  GOFLAGS=-mod=readonly go build -C "$pin" -buildvcs=false -trimpath -ldflags='-s -w' \
    -o "$staged/buildkite-agent" github.com/buildkite/agent/v3 &
  builder=$!
  local status=0
  wait "$builder" || status=$?
  builder=
  [ "$status" -eq 0 ] ||
    fail "buildkite-agent $version could not be built" \
      "see the words of the go command above; modules come from the proxy that 'go env GOPROXY' names"
  "$staged/buildkite-agent" --version >&2
  stamp_of "$pin" >"$staged/stamp"
  rm -rf "$target"
  mv "$staged" "$target"
  chmod 755 "$target"
  staged=
}

main() {
  local print_only=
  case "${1:-}" in
  "") ;;
  --print) print_only=1 ;;
  -h | --help)
    usage
    return
    ;;
  *)
    printf 'build-agents: unknown argument: %s\n' "$1" >&2
    usage >&2
    return 2
    ;;
  esac
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  local pin version target
  for pin in "$pins"/*/; do
    pin=${pin%/}
    version=$(version_of "$pin")
    [ -n "$version" ] || fail "$pin/go.mod names no version of the agent" "see the other go.mod beside it"
    target=$root/.cache/agents/$version
    if [ -n "$print_only" ]; then
      printf '%s %s\n' "$version" "$target/buildkite-agent"
    elif is_built "$pin" "$target"; then
      printf 'build-agents: buildkite-agent %s is built\n' "$version" >&2
    else
      build "$pin" "$target" "$version"
    fi
  done
}

main "$@"
