# shellcheck shell=bash
#
# Part of ../lib.sh: the pull request's base branch.

# merge_base_branch
# Merges the tip of the pull request's base branch into HEAD, so that what is tested is what the merge would
# give. Outside a pull request it does nothing. A conflict is undone, its files are named, and the status is
# 1; a base that cannot be fetched gives 75. The first job of a build leaves the base's commit in the build's
# meta-data, and the others merge that same commit. Meta-data knows no "set if absent": jobs that start at the same
# moment each write, look again, and take what is there. Neither the user's git configuration nor a branch is
# touched: HEAD is detached before it moves.
merge_base_branch() {
  local base=${BUILDKITE_PULL_REQUEST_BASE_BRANCH:-} remote tip date conflicts
  if [ "${BUILDKITE_PULL_REQUEST:-false}" = false ]; then
    log "not a pull request: no base branch to merge"
    return 0
  fi
  if [[ $base == -* ]] || ! git check-ref-format "refs/heads/$base"; then
    log "error: BUILDKITE_PULL_REQUEST_BASE_BRANCH is not the name of a branch: '$base'"
    return 1
  fi
  remote=$(_bkgen_base_remote)
  if ! retry 3 2 _bkgen_git fetch --quiet --no-tags --no-recurse-submodules \
    "$remote" "+refs/heads/$base:refs/remotes/origin/$base"; then
    log "error: the base branch '$base' cannot be fetched"
    return 75
  fi
  tip=$(_bkgen_base_tip "$base" "$remote") || return
  _bkgen_deepen "$remote" "$tip" || return
  git symbolic-ref --quiet HEAD >/dev/null && _bkgen_git checkout --quiet --detach
  date=$(git show --no-patch --format=%cI "$tip")
  # The date is the base's, so that all jobs of a build test one and the same commit.
  if GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date _bkgen_git merge --quiet --ff --no-edit \
    --no-gpg-sign -m "Merge $base ($tip) for testing" "$tip" >&2; then
    log "merged $base at $tip; testing $(git rev-parse HEAD)"
    return 0
  fi
  conflicts=$(git -c core.quotePath=true diff --name-only --diff-filter=U)
  _bkgen_git merge --abort 2>/dev/null || true
  log "error: the pull request does not merge with $base at $tip"
  if [ -n "$conflicts" ]; then
    log "  conflicts in:"
    log "    ${conflicts//$'\n'/$'\n'    }"
    log "  hint: merge or rebase onto $base, solve these files, push again"
  fi
  return 1
}

# git with everything switched off that a user's configuration could add to a fetch or a merge.
_bkgen_git() {
  GIT_TERMINAL_PROMPT=0 LC_ALL=C git -c core.hooksPath=/dev/null -c commit.gpgSign=false \
    -c rerere.enabled=false -c merge.autoStash=false -c merge.renames=true -c gc.auto=0 \
    -c user.name=bkgen -c user.email=bkgen@localhost "$@"
}

# The remote of the base repository: in a fork's checkout `origin` may be the fork.
_bkgen_base_remote() {
  local name
  if [ -n "${BUILDKITE_REPO:-}" ] && [[ $BUILDKITE_REPO != -* ]]; then
    while IFS= read -r name; do
      if [ "$(git config --get "remote.$name.url")" = "$BUILDKITE_REPO" ]; then
        printf '%s\n' "$name"
        return
      fi
    done < <(git remote)
    printf '%s\n' "$BUILDKITE_REPO"
    return
  fi
  printf 'origin\n'
}

# The commit of the base that all jobs of this build merge.
_bkgen_base_tip() {
  local base=$1 remote=$2 tip known='' key="bkgen-base:$1"
  tip=$(git rev-parse --verify --quiet "refs/remotes/origin/$base^{commit}") || return 75
  if [ -n "${BUILDKITE_BUILD_ID:-}" ] && command -v buildkite-agent >/dev/null 2>&1; then
    known=$(buildkite-agent meta-data get "$key" --default "" 2>/dev/null) || true
    if [ -z "$known" ]; then
      if buildkite-agent meta-data set "$key" "$tip" >&2; then
        # Another job may have found it empty as well; the last one to write is right. The pause lets it write.
        sleep "${BKGEN_MERGE_BASE_PAUSE:-2}"
        known=$(buildkite-agent meta-data get "$key" --default "" 2>/dev/null) || known=''
      fi
      if [ -z "$known" ]; then
        log "the base's commit could not be noted for other jobs"
        known=$tip
      fi
    fi
    if [[ ! $known =~ ^[0-9a-f]{40}([0-9a-f]{24})?$ ]]; then
      log "error: the build's meta-data '$key' is not a commit: '$known'"
      return 1
    fi
    if ! git cat-file -e "$known^{commit}" 2>/dev/null &&
      ! _bkgen_git fetch --quiet --no-tags --no-recurse-submodules "$remote" "$known"; then
      log "error: the base's commit $known, which another job merged, cannot be fetched"
      return 75
    fi
    tip=$known
  fi
  printf '%s\n' "$tip"
}

# Deepens a shallow clone until the merge base stays the same from one step to the next: with part of the
# history git answers with an older one, and the merge blames other people's changes on this branch.
_bkgen_deepen() {
  local remote=$1 tip=$2 head step before='' now
  head=$(git rev-parse HEAD)
  for step in 100 400 1600 all; do
    if [ "$(git rev-parse --is-shallow-repository)" != true ]; then
      return 0
    fi
    now=$(git merge-base --all "$tip" "$head" | sort) || true
    if [ -n "$now" ] && [ "$now" = "$before" ]; then
      return 0
    fi
    before=$now
    if [ "$step" = all ]; then
      step=--unshallow
    else
      step=--deepen=$step
    fi
    if ! _bkgen_git fetch --quiet --no-tags --no-recurse-submodules "$step" \
      "$remote" "$tip" "$head"; then
      log "error: the history of this shallow clone cannot be fetched"
      return 75
    fi
  done
}
