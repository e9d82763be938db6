"""Codes of reading, loading, planning and writing."""

from __future__ import annotations

from bkgen.check.catalogue.code import Code, error, warning

YAML: tuple[Code, ...] = (
    error(
        "yaml-syntax",
        "Not YAML",
        "The place is where the parser gave up; the mistake may stand a line above.",
    ),
    error(
        "yaml-encoding",
        "Not UTF-8, or a control character",
        "Save the file as UTF-8; write control characters as escapes in double quotes.",
    ),
    error(
        "yaml-documents",
        "A second document in one file",
        "One file holds one document.",
    ),
    error(
        "yaml-duplicate-key",
        "One key twice in a map",
        "Most readers keep the last one without a word.",
    ),
    error(
        "yaml-key",
        "A key that is no text",
        "Keys are text. A missing key is usually a forgotten word before the colon.",
    ),
    error(
        "yaml-tag",
        "A tag that is not known",
        "Values are written without tags.",
    ),
    error(
        "yaml-merge",
        "`<<` with something that is no map",
        "It takes a map, or a list of maps.",
    ),
    error(
        "yaml-recursion",
        "An anchor that contains itself",
        "Write the part out once.",
    ),
    error(
        "yaml-depth",
        "Too many levels",
        "A document this deep is a mistake or an attack.",
    ),
    error(
        "yaml-aliases",
        "Aliases that unfold to too much",
        "A few lines can unfold to gigabytes.",
    ),
)
SPEC: tuple[Code, ...] = (
    error(
        "spec-unknown-key",
        "A key that nobody knows",
        "A misspelt key would be ignored, and with it what it asked for. The hint names the nearest "
        "known one; `x-` keys are free at the top of a file.",
    ),
    error(
        "spec-value",
        "A value that the key does not take",
        "Wrong kind, out of range, or not one of the words. Numbers and booleans stand without quotes.",
    ),
    error(
        "spec-empty",
        "An empty pipeline.yml",
        "Write at least a description; without `steps` the suite runs `./run.sh`.",
    ),
    error(
        "spec-clash",
        "Two keys that exclude each other",
        "Such as `pod` beside a kubernetes plugin, or `shards` beside `matrix`.",
    ),
    error(
        "spec-no-command",
        "A step that runs nothing",
        "It would pass without testing anything.",
    ),
    error(
        "spec-no-gpu-resource",
        "GPUs of a profile that has none",
        "The pod would run without the GPU it asks for.",
    ),
    error(
        "spec-reserved",
        "Something that does not work yet",
        "The word is reserved, and says so rather than being ignored.",
    ),
    error(
        "spec-reserved-name",
        "A name that is taken",
        "`regular` is the name of builds without a cadence.",
    ),
    error(
        "spec-name-never-carried",
        "A label or cadence that no build can carry",
        "Buildkite tells labels as one text with commas between them, and blanks around a name are cut off.",
    ),
    error(
        "spec-name-prefixed",
        "A label or scope declared with the prefix",
        "The prefix is left out where a name is declared and put before it on the pull request: with it, "
        "only `run-ci-run-ci-long` would ask for the label.",
    ),
    error(
        "spec-name-twice",
        "A pull request label with two meanings",
        "A label, a scope, the label of a cadence and `force_label` share one name, with or without the "
        "prefix: whoever puts it on a pull request gets both.",
    ),
    error(
        "spec-two-schedules",
        "Two cadences for one schedule",
        "Only one can be the cadence of a scheduled build that names none; others are named by "
        "`BKGEN_CADENCE`.",
    ),
    error(
        "spec-unknown-profile",
        "A profile that is not declared",
        "Hardware nobody has: the job would wait.",
    ),
    error(
        "spec-unknown-cache",
        "A cache that is not declared",
        "Declare it in `caches` of bkgen.yml.",
    ),
    error(
        "spec-unknown-label",
        "A label that is not declared",
        "A misspelt label selects nothing, for ever. Declare it in `policy.labels`.",
    ),
    error(
        "spec-unknown-cadence",
        "A cadence that is not declared",
        "Declare it in `policy.cadences`.",
    ),
    error(
        "spec-unknown-retry",
        "A retry preset that is not declared",
        "Declare it in `retries`, or write Buildkite's own form.",
    ),
    error(
        "spec-unknown-name",
        "Scratch without a scratch",
        "The settings declare no `scratch`.",
    ),
    error(
        "spec-mount-source",
        "A mount with no source, or with two",
        "One of host_path, claim, secret, config_map and empty_dir.",
    ),
    error(
        "spec-secret-reference",
        "Not a reference to a secret",
        "`NAME: secret/key`.",
    ),
    error(
        "spec-pattern",
        "A pattern that cannot mean what it says",
        "git would read it differently, or it could never match.",
    ),
    warning(
        "native-if-changed",
        "Buildkite's own change filter",
        "It misses renames and pushes of several commits; `when.paths` does not, and shows in plan and why.",
    ),
    error(
        "time-below-expectation",
        "A timeout below the expected time",
        "Every run would be stopped.",
    ),
    warning(
        "time-near-timeout",
        "A timeout close to the expected time",
        "Above 80 %, a slow node ends a healthy job.",
    ),
    error(
        "settings-tests-dir",
        "Not the directory of the suites",
        "`tests_dir` is written, and is missing, holds no suite, or is itself one, while suites lie "
        "elsewhere: every build would be green and run nothing.",
    ),
    warning(
        "settings-no-suites",
        "A repository without a suite",
        "Its builds run nothing. `check` says so where `tests_dir` is written; `upload`, `plan` and `render` "
        "always.",
    ),
    error(
        "suite-name",
        "Not a name for a suite",
        "Letters, digits, `_`, `.` and `-`, sixty at most. A directory that is no suite begins with `_`.",
    ),
    error(
        "suite-incomplete",
        "A suite without run.sh or pipeline.yml",
        "A directory of the suites is a suite, unless its name begins with `_`.",
    ),
    error(
        "suite-symlink",
        "A symlink where a directory must be",
        "What a link points at can change without the suite.",
    ),
    error(
        "file-kind",
        "No file where one must be",
        "A symlink, whose target can change without it, a directory, a pipe or a device.",
    ),
    error(
        "file-unreadable",
        "A file that may not be read",
        "It exists, and the user that runs bkgen has no right to read it.",
    ),
)
PLAN: tuple[Code, ...] = (
    error(
        "step-key",
        "Not a key",
        "Letters, digits, `_`, `-` and `:`, and nothing like a UUID.",
    ),
    error(
        "step-key-twice",
        "One key for two steps",
        "Keys are unique in a build, over all suites.",
    ),
    error(
        "step-unknown-dependency",
        "A dependency that no step has",
        "Buildkite would let the step wait.",
    ),
    error(
        "step-cycle",
        "Steps that wait for each other",
        "None of them could start.",
    ),
    error(
        "pipeline-group-too-large",
        "A group over the limit of one upload",
        "A build goes up in pieces, a group does not.",
    ),
    error(
        "pipeline-wait-split",
        "A wait with a condition in a build of several uploads",
        "Steps of a later upload land in front of those of an earlier one, so that the wait would hold back "
        "the wrong ones. A wait without a condition becomes dependencies and has no such trouble.",
    ),
    error(
        "encode-unreadable",
        "Text that the agent could not read",
        "Half of a surrogate pair, a number of more than 64 bits, a key of more than a thousand bytes.",
    ),
    error(
        "interpolation-unsafe",
        "A `$` that cannot be protected",
        "One suite of the build is interpolated, and in this place no spelling keeps the agent from "
        "filling in another's `$`.",
    ),
    error(
        "build-cadence",
        "A cadence that is not declared",
        "`BKGEN_CADENCE` or a case names it.",
    ),
    error(
        "build-source",
        "A source that nobody knows",
        "`BUILDKITE_SOURCE` has a value without a rule.",
    ),
    error(
        "build-pull-request",
        "A pull request without a number",
        "`BUILDKITE_PULL_REQUEST` is neither a number nor `false`.",
    ),
)
