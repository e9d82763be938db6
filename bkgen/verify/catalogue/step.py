"""Rules about a step's own attributes."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

_POD = "plugins: [{kubernetes: %s}]"

RULES: tuple[Rule, ...] = (
    Rule(
        "step-kind",
        "error",
        "A step of no kind",
        "Buildkite tells the kind of a step by its attributes: command, wait, block, input, trigger or "
        "group.",
        "steps",
        "[{label: Unit tests}]",
        "[{label: Unit tests, command: ./run.sh}]",
    ),
    Rule(
        "step-unknown-key",
        "error",
        "An attribute that Buildkite does not know",
        "Buildkite refuses the whole upload for one attribute that the kind of step does not have.",
        "step",
        "timeout_in_minute: 30",
        "timeout_in_minutes: 30",
    ),
    Rule(
        "step-wrong-type",
        "error",
        "An attribute of the wrong type",
        "A number in quotes, a map where text is due, or a count below one is refused, or read as something "
        "else.",
        "step",
        'parallelism: "4"',
        "parallelism: 4",
    ),
    Rule(
        "step-without-command",
        "error",
        "Nothing to run",
        "A command step without a command is a job that does nothing and passes.",
        "steps",
        "[{label: Unit tests, plugins: [{kubernetes: {}}]}]",
        "[{label: Unit tests, command: ./run.sh, plugins: [{kubernetes: {}}]}]",
    ),
    Rule(
        "command-too-large",
        "error",
        "A command too large for one variable",
        "The agent hands the command over in one environment variable, and the kernel takes 128 KiB for "
        "that.",
        "step",
        "command: 'echo " + "x" * 124_000 + "'",
        "command: ./long.sh",
    ),
    Rule(
        "key-invalid",
        "error",
        "Not a key",
        "Buildkite takes letters, digits, '-', '_' and ':', and nothing that looks like a UUID.",
        "step",
        "key: unit tests",
        "key: unit-tests",
    ),
    Rule(
        "key-too-long",
        "error",
        "A key over 100 characters",
        "Buildkite refuses a longer key.",
        "step",
        f"key: {'x' * 101}",
        f"key: {'x' * 100}",
    ),
    Rule(
        "label-too-long",
        "warning",
        "A label over 255 characters",
        "The label becomes the name of a commit status, which takes no more.",
        "step",
        f"label: {'long ' * 52}",
        "label: short",
    ),
    Rule(
        "skip-too-long",
        "error",
        "A reason for skip over 70 characters",
        "Buildkite refuses a longer reason.",
        "step",
        f"skip: {'x' * 71}",
        "skip: needs a driver that no node has yet",
    ),
    Rule(
        "retry-invalid",
        "error",
        "Not a retry rule",
        "A rule has exit_status (-1 to 255, a list of these, or '*'), signal, signal_reason and a limit of 0 "
        "to 10.",
        "step",
        "retry: {automatic: [{exit_status: 256}]}",
        "retry: {automatic: [{exit_status: 255}]}",
    ),
    Rule(
        "retry-without-lost",
        "warning",
        "Retries that leave lost machines out",
        "'*' stands for 1 to 255. A job whose node was lost or whose pod could not start ends with "
        "-1, which is not among them, and those are the jobs that a retry helps.",
        "step",
        "retry: {automatic: [{exit_status: '*', limit: 1}]}",
        "retry: {automatic: [{exit_status: '*', limit: 1}, {exit_status: -1, limit: 2}]}",
    ),
    Rule(
        "retry-every-failure",
        "warning",
        "Every failure retried, more than once",
        "A blanket retry hides the tests that fail now and then, and costs each real failure its GPUs again. "
        "Lost machines have statuses and reasons of their own. One more try, written out, is taken for "
        "intended; `automatic: true` means two.",
        "step",
        "retry: {automatic: [{exit_status: '*', limit: 10}, {exit_status: -1, limit: 2}]}",
        "retry: {automatic: [{signal_reason: agent_stop, limit: 2}, {exit_status: -1, limit: 2}]}",
    ),
    Rule(
        "retry-too-often",
        "warning",
        "Many retries for a lost machine",
        "A machine is lost now and then. A job that loses three is what ends them, by its memory for "
        "instance, and would go on.",
        "step",
        "retry: {automatic: [{exit_status: -1, limit: 5}]}",
        "retry: {automatic: [{exit_status: -1, limit: 2}]}",
    ),
    Rule(
        "timeout-past-deadline",
        "error",
        "A timeout past the job's deadline",
        "The controller ends every Job after six hours, or after its own deadline. The step's longer timeout "
        "never counts.",
        "step",
        "timeout_in_minutes: 480\n" + _POD % "{}",
        "timeout_in_minutes: 480\n" + _POD % "{jobActiveDeadlineSeconds: 28800}",
    ),
    Rule(
        "queue-empty",
        "error",
        "An empty queue",
        "No agent listens to a queue without a name, so the job waits for ever.",
        "step",
        "agents: {queue: ''}",
        "agents: {queue: k8s}",
    ),
    Rule(
        "queue-close",
        "warning",
        "Almost the name of a queue",
        "No agent listens to a queue with a typing error, and the job waits for ever. A name that is one "
        "letter away from a queue of the settings or of a profile is taken for one; any other may be a queue "
        "of your own.",
        "step",
        "agents: {queue: k8ss}",
        "agents: {queue: k8s}",
        {"queues": ("k8s", "amd-k8s")},
    ),
    Rule(
        "tag-unknown",
        "warning",
        "A tag that no profile has for this queue",
        "The controller takes a job whose every tag it has itself. One that it has not keeps the job waiting "
        "for ever, without a message. Where profiles name agent tags for a queue, its pods are held against "
        "them.",
        "step",
        "agents: {queue: k8s, gpu: h100}\n" + _POD % "{}",
        "agents: {queue: k8s, gpu: h200}\n" + _POD % "{}",
        {"controller_tags": {"k8s": {"gpu": ("h200",)}}},
    ),
    Rule(
        "matrix-with-parallelism",
        "error",
        "matrix beside parallelism",
        "Buildkite takes one of the two.",
        "step",
        "matrix: [tcp, rdma]\ncommand: ./run.sh {{matrix}}\nparallelism: 2",
        "matrix: [tcp, rdma]\ncommand: ./run.sh {{matrix}}",
    ),
    Rule(
        "matrix-limit",
        "error",
        "A matrix over Buildkite's limits",
        "A matrix has at most 50 jobs, 6 dimensions, 25 elements of 128 bytes in each, and 12 adjustments.",
        "step",
        f"command: ./run.sh {{{{matrix}}}}\nmatrix: [{', '.join(f'n{number}' for number in range(26))}]",
        f"command: ./run.sh {{{{matrix}}}}\nmatrix: [{', '.join(f'n{number}' for number in range(25))}]",
    ),
    Rule(
        "matrix-token",
        "error",
        "A matrix token that is not filled in",
        "Tokens name a dimension of the step's own matrix, in label, command, env, agents or plugins. "
        "Everywhere else they stay as they are.",
        "step",
        "matrix: {setup: {transport: [tcp, rdma]}}\ncommand: ./run.sh {{matrix.tranport}}",
        "matrix: {setup: {transport: [tcp, rdma]}}\ncommand: ./run.sh {{matrix.transport}}",
    ),
    Rule(
        "concurrency-without-group",
        "error",
        "concurrency without its group",
        "Buildkite refuses a limit that belongs to no group.",
        "step",
        "concurrency: 1",
        "concurrency: 1\nconcurrency_group: amd/gpu",
    ),
    Rule(
        "concurrency-without-limit",
        "error",
        "concurrency_group without concurrency",
        "Buildkite refuses a group without a limit.",
        "step",
        "concurrency_group: amd/gpu",
        "concurrency: 1\nconcurrency_group: amd/gpu",
    ),
    Rule(
        "concurrency-group-length",
        "error",
        "A concurrency_group over 200 characters",
        "Buildkite refuses a longer name.",
        "step",
        f"concurrency: 1\nconcurrency_group: {'x' * 201}",
        f"concurrency: 1\nconcurrency_group: {'x' * 200}",
    ),
    Rule(
        "concurrency-method",
        "error",
        "Not a concurrency_method",
        "The methods are ordered and eager, beside concurrency and concurrency_group.",
        "step",
        "concurrency: 1\nconcurrency_group: amd/gpu\nconcurrency_method: fifo",
        "concurrency: 1\nconcurrency_group: amd/gpu\nconcurrency_method: eager",
    ),
)
