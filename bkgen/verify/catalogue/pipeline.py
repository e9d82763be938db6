"""Rules about all steps of a build together."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "group-empty",
        "error",
        "A group without steps",
        "Buildkite refuses it.",
        "steps",
        "[{group: Tests, steps: []}]",
        "[{group: Tests, steps: [{command: ./run.sh}]}]",
    ),
    Rule(
        "group-nested",
        "error",
        "A group in a group",
        "Groups have one level.",
        "steps",
        "[{group: Tests, steps: [{group: Inner, steps: [{command: ./run.sh}]}]}]",
        "[{group: Tests, steps: [{command: ./run.sh}]}]",
    ),
    Rule(
        "key-duplicate",
        "error",
        "One key twice in a build",
        "Keys are unique in a build, whichever suites they come from.",
        "steps",
        "[{key: unit, command: ./a.sh}, {key: unit, command: ./b.sh}]",
        "[{key: unit, command: ./a.sh}, {key: unit-2, command: ./b.sh}]",
    ),
    Rule(
        "depends-on-unknown",
        "error",
        "A dependency that nobody defines",
        "The build fails quietly, and the step never runs.",
        "steps",
        "[{key: image, command: ./build.sh}, {key: unit, depends_on: imgae, command: ./run.sh}]",
        "[{key: image, command: ./build.sh}, {key: unit, depends_on: image, command: ./run.sh}]",
    ),
    Rule(
        "depends-on-cycle",
        "error",
        "Steps that wait for each other",
        "None of them can start. A wait counts, too: what follows it waits for all before it.",
        "steps",
        "[{key: a, depends_on: b, command: ./a.sh}, {key: b, depends_on: a, command: ./b.sh}]",
        "[{key: a, command: ./a.sh}, {key: b, depends_on: a, command: ./b.sh}]",
    ),
    Rule(
        "wait-conditional",
        "warning",
        "A wait with a condition, outside a group",
        "bkgen turns a suite's waits into dependencies, so that they hold back no other suite. A wait with "
        "if or branches cannot be said that way, and holds back all that follows in the build.",
        "steps",
        "[{command: ./a.sh}, {wait: null, if: build.branch == 'main'}, {command: ./b.sh}]",
        "- group: Tests\n"
        "  steps: [{command: ./a.sh}, {wait: null, if: build.branch == 'main'}, {command: ./b.sh}]",
    ),
    Rule(
        "too-many-jobs-in-upload",
        "error",
        "One step or group over the limit of an upload",
        "Buildkite takes 500 jobs in one upload; parallelism and matrix multiply, and a group counts one. A "
        "build can be uploaded in pieces, a group cannot.",
        "steps",
        "[{key: unit, command: ./run.sh, parallelism: 501}]",
        "[{key: unit, command: ./run.sh, parallelism: 500}]",
    ),
    Rule(
        "too-many-jobs",
        "error",
        "A build over the limit of jobs",
        "Buildkite takes 4,000 jobs in one build, retries included, unless the organisation has it raised.",
        "steps",
        "[{key: a, command: ./a.sh, parallelism: 30}, {key: b, command: ./b.sh, parallelism: 30}]",
        "[{key: a, command: ./a.sh, parallelism: 30}, {key: b, command: ./b.sh, parallelism: 20}]",
        {"jobs_per_build": 50},
    ),
)
