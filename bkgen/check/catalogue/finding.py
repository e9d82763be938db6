"""Codes of what only `check` looks at."""

from __future__ import annotations

from bkgen.check.catalogue.code import Code, error, warning

SCRIPTS: tuple[Code, ...] = (
    error(
        "script-missing",
        "A command names a script that is not there",
        "A leading `./` is the suite's own directory; everything else starts at the repository's "
        "root. A file that git ignores is on your machine only.",
    ),
    error(
        "shards-durations-missing",
        "A file of durations that is not there",
        "`shards.durations` lies in the suite's own directory, and in git. Without it every test counts "
        "alike, and one shard takes long.",
    ),
    error(
        "script-not-executable",
        "No run bit",
        "The step could not start it. git keeps the bit, so it is set there where the file is tracked.",
    ),
    warning(
        "script-run-bit",
        "A `#!` line without the run bit",
        "Either it is meant to be started, or the line is left over.",
    ),
    error(
        "script-no-shebang",
        "No `#!` line",
        "The kernel does not know who runs it, and falls back to sh.",
    ),
    error(
        "script-line-ends",
        "CR LF at the end of lines",
        "The kernel looks for `bash\\r`.",
    ),
    error(
        "script-not-strict",
        "errexit or pipefail is off",
        "A command in the middle fails and the test passes. Begin with `set -euo pipefail`, or source"
        " `harness/setup-env.sh`, which does.",
    ),
    warning(
        "script-unset-variables",
        "nounset is off",
        'A misspelt variable is empty: `rm -rf "$DRI/x"`.',
    ),
    error(
        "script-pipe-hides-status",
        "A failure lost in a pipe",
        "Without pipefail the status of `tests | tee log` is tee's. The agent runs a step's commands "
        "without it, too.",
    ),
    error(
        "script-status-ignored",
        "A test that cannot fail",
        "`|| true`, `|| echo …`, `|| exit 0`, or `|| continue` at the end of a loop, behind a test. What may"
        " fail is `soft_fail`, which shows as such.",
    ),
    error(
        "script-trap-exit-zero",
        "A trap that replaces the status",
        "`exit 0` in a trap on EXIT makes every failure a success.",
    ),
    error(
        "script-trap-late-status",
        "A trap that asks for the status too late",
        "`trap 'rm -rf x; exit $?' EXIT`: by then `$?` is rm's. Keep it in the trap's first command: "
        '`status=$?; rm -rf x; exit "$status"`.',
    ),
    error(
        "script-status-unread",
        "A status kept under a name that nothing reads",
        "`pytest || rc=$?` and then `exit $status`: two names for one thing, and the step is green.",
    ),
    error(
        "script-failure-grouped",
        "A failure in one branch with success",
        "`0|1|5) exit 0`: 1 is what pytest says when tests failed. Name the statuses that are a success; "
        "every other one leaves with itself.",
    ),
    error(
        "script-failure-printed",
        "A failure that is only printed",
        "`if pytest; then …; else echo failed; fi` ends with 0, and so does an if without else. The branch "
        "of the failure leaves with 1, or keeps the status for the end.",
    ),
    error(
        "script-status-passed-over",
        "A test where errexit is off",
        "After `set +e` the script goes on whatever happened. The next command keeps the status: `rc=$?`.",
    ),
    error(
        "script-status-negated",
        "The status of a `!`",
        "In `if ! pytest; then exit $?` the status is that of the `!`, which is 0. Turn the if round, and "
        "ask in its else.",
    ),
    error(
        "script-background-unasked",
        "A test in the background that nobody asks",
        'A bare `wait` says 0. Keep the number and wait for that: `pid=$!; wait "$pid"`.',
    ),
    warning(
        "script-status-masked",
        "A status lost behind export or local",
        '`export X="$(cmd)"` has the status of export. An assignment of its own has that of the command.',
    ),
    warning(
        "script-process-unasked",
        "A test in a process substitution",
        "Nobody gets the status of what stands in `<(…)`.",
    ),
    warning(
        "script-counter-ends",
        "A counter that ends the script",
        "`((n++))` has the status 1 when n was 0, and errexit takes that for a failure: `n=$((n + 1))`.",
    ),
    warning(
        "script-inner-wait",
        "A wait that outlasts the step",
        "The step is killed first, and no log says what hung. Waits end a minute before its timeout, or a "
        "tenth of a short one: `timeout`, `sleep`, `wait_until_ready`, and loops over a written number of "
        "turns.",
    ),
    error(
        "python-pytest-main",
        "pytest.main without its status",
        "The program ends with 0 though tests failed: `sys.exit(pytest.main(…))`. Scripts are looked at for "
        "`python -c` and heredocs, too. A warning only in test files that no suite's script starts.",
    ),
    warning(
        "python-unreadable",
        "A Python file that cannot be parsed",
        "It was not looked at.",
    ),
)
PATTERNS: tuple[Code, ...] = (
    error(
        "pattern-matches-nothing",
        "A pattern without a file",
        "Misspelt, or its files are gone: a change that should run the suite does not. A warning only"
        " for `filter.trivial` and for `!` patterns, where it costs a run too many.",
    ),
    warning(
        "pattern-takes-nothing",
        "A `!` pattern without effect",
        "No pattern before it has any of its files.",
    ),
    error(
        "pattern-list-empty",
        "A list that can never match",
        "Its `!` patterns take everything away.",
    ),
    error(
        "pattern-list-trivial",
        "A list of trivial files only",
        "Trivial files select nothing unless the suite says `include_trivial: true`.",
    ),
    warning(
        "files-select-nothing",
        "Files whose change runs nothing",
        "Every suite names its paths, and nobody named these. A suite without paths would run; so would "
        "everything with `filter: {unclaimed: run}`.",
    ),
    warning(
        "suite-not-found",
        "A directory that looks like a suite and is none",
        "Suites are the directories in `tests_dir`, one level deep. What lies deeper, or elsewhere with its "
        "setup page, never runs, and no build says so.",
    ),
)
POLICY: tuple[Code, ...] = (
    error(
        "unreachable",
        "A suite or step that no build can select",
        "Its cadences exclude each other, or the only builds it is for leave its labels out.",
    ),
    error(
        "policy-label-selects-nothing",
        "A label without a suite",
        "Somebody will put it on a pull request and take green for an answer.",
    ),
    error(
        "policy-scope-selects-nothing",
        "A scope without effect",
        "A pull request with it runs what one without it runs.",
    ),
    warning(
        "branches-without-labels",
        "branches without labels",
        "It admits pushes without a label where one is asked for; here none is.",
    ),
    warning(
        "cadence-without-effect",
        "A cadence that the level above keeps out",
        "A step runs where its file and its group run, too: `regular` in a file for `nightly` adds nothing.",
    ),
    warning(
        "unused-cadence",
        "A cadence in which nothing runs",
        "Its builds are empty and green.",
    ),
    warning(
        "unused-profile",
        "A profile that nothing uses",
        "Left over, or the suite that was to use it does not.",
    ),
    warning(
        "unused-cache",
        "A cache that no pod mounts",
        "Left over, or a pod forgot it.",
    ),
    warning(
        "unused-retry",
        "A retry preset that no step names",
        "Left over, or a step forgot it.",
    ),
    warning(
        "unused-scratch",
        "A scratch path that no pod mounts",
        "Left over, or a pod forgot it.",
    ),
)
TABLES: tuple[Code, ...] = (
    error(
        "case-missing-suite",
        "A suite that should run is skipped",
        "The message holds the rule that decided, the hint what would turn it round.",
    ),
    error(
        "case-extra-suite",
        "A suite runs that the case does not list",
        "Either the case forgot it, or a pattern is too wide.",
    ),
    error(
        "case-directory",
        "A case with a directory among its changed files",
        "git names the files in it, and a pattern such as `src/**` does not match `src` itself.",
    ),
    error(
        "case-unknown-suite",
        "A case names no suite",
        "A renamed suite is renamed here, too.",
    ),
    warning(
        "case-unknown-label",
        "A case with a label that nothing declares",
        "It selects nothing in a build, either.",
    ),
)
SILENCE: tuple[Code, ...] = (
    error(
        "silence-unknown",
        "A silence of no code",
        "It was meant for something else.",
    ),
    error(
        "silence-error",
        "A silence of an error",
        "Only warnings can be silenced.",
    ),
    error(
        "silence-without-reason",
        "A silence without a reason",
        "`code: reason`.",
    ),
    warning(
        "silence-idle",
        "A silence of nothing",
        "What it silenced is mended. Left there, it hides the next one.",
    ),
    warning(
        "check-no-git",
        "No git to ask",
        "Patterns can only be held against the files that git knows.",
    ),
    warning(
        "check-skipped",
        "A part was not looked at",
        "An error elsewhere stands in its way.",
    ),
)
