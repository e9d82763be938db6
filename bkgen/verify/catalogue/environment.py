"""Rules about environment, secrets and dollars."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "env-secret-literal",
        "error",
        "A secret written out",
        "A variable that is named like a secret has its value in the file, in the build and in the log. The "
        "last words of the name decide, in any case: token, secret, password, credentials, pat, or the key "
        "of an API, a deployment, SSH and the like; TOKEN_COUNT, MAX_TOKENS and CACHE_KEY are none. "
        "Buildkite's agent refuses uploads with names such as HF_TOKEN from version 4 on.",
        "step",
        "env: {hf_token: hf_0123456789}",
        "secrets: [HF_TOKEN]",
    ),
    Rule(
        "env-secret-uploaded",
        "error",
        "A secret filled in at upload",
        "With interpolation the upload step puts its own value in place of the variable, in commands as in "
        "env, and the build carries the secret from then on.",
        "step",
        "command: hf auth login --token $HF_TOKEN",
        "command: hf auth login --token $$HF_TOKEN\nsecrets: [HF_TOKEN]",
        interpolate=True,
    ),
    Rule(
        "env-name",
        "error",
        "Not a variable's name",
        "A name holds letters, digits and underscores and starts with no digit.",
        "step",
        "env: {2ND_GPU: '1'}",
        "env: {SECOND_GPU: '1'}",
    ),
    Rule(
        "env-set-twice",
        "error",
        "One variable in the step and in the pod",
        "The step's environment overwrites the container's, whatever the documentation says. Two different "
        "values mean that one of them never counts.",
        "step",
        """\
env: {MODE: fast}
plugins:
- kubernetes:
    podSpec:
      containers:
      - {image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi}}, env: [{name: MODE, value: slow}]}""",
        """\
plugins:
- kubernetes:
    podSpec:
      containers:
      - {image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi}}, env: [{name: MODE, value: slow}]}""",
    ),
    Rule(
        "env-not-expanded",
        "warning",
        "A variable inside a value",
        "Without interpolation nobody expands the value of a variable: no upload, no kubelet and no shell. "
        "The job gets the dollar and the name.",
        "container",
        "env: [{name: CACHE, value: $HOME/cache}]",
        "env: [{name: CACHE, value: /root/cache}]",
    ),
    Rule(
        "pod-env-duplicate",
        "error",
        "One variable twice in a container",
        "The last one wins.",
        "container",
        "env: [{name: MODE, value: fast}, {name: MODE, value: slow}]",
        "env: [{name: MODE, value: fast}]",
    ),
    Rule(
        "pod-env-source",
        "error",
        "Not one source for a variable",
        "A variable has a value or a valueFrom, and a valueFrom names one source.",
        "container",
        "env: [{name: NODE, value: a, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]",
        "env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]",
    ),
    Rule(
        "pod-env-reserved",
        "error",
        "A variable of the controller",
        "BUILDKITE_COMMAND, BUILDKITE_BOOTSTRAP_PHASES, BUILDKITE_CONTAINER_ID, BUILDKITE_JOB_CONTEXT_DIR "
        "and BUILDKITE_SOCKETS_PATH tell the container what to do. Another value breaks the job.",
        "container",
        "env: [{name: BUILDKITE_COMMAND, value: ./run.sh}]",
        "env: [{name: SUITE, value: unit}]",
    ),
    Rule(
        "pod-env-buildkite",
        "warning",
        "A variable that the job overwrites",
        "The job's own BUILDKITE_… variables overwrite the container's. BUILDKITE_SHELL and "
        "BUILDKITE_HOOKS_SHELL are the exceptions.",
        "container",
        "env: [{name: BUILDKITE_BRANCH, value: main}]",
        "env: [{name: BUILDKITE_SHELL, value: /bin/bash -ec}]",
    ),
    Rule(
        "pod-env-dollar",
        "warning",
        "Two dollars that become one",
        "The kubelet turns $$ into $ in values, commands and arguments.",
        "container",
        "env: [{name: PRICE, value: 5$$}]",
        "env: [{name: PRICE, value: 5$$$$}]",
    ),
    Rule(
        "pod-env-reference",
        "warning",
        "A reference that the kubelet replaces",
        "$(NAME) is replaced where the container has set NAME before. Text that is meant for a shell is "
        "changed by it; what comes from a field of the pod is made for it and passes.",
        "container",
        "env: [{name: MODE, value: fast}, {name: ARGS, value: --mode=$(MODE)}]",
        "env: [{name: MODE, value: fast}, {name: ARGS, value: --mode=fast}]",
    ),
    Rule(
        "pod-visible-devices",
        "warning",
        "A pod without a GPU that sees all of them",
        "CUDA images ask the runtime for all devices. A container that requests none, be it the test's, an "
        "init container or a sidecar, gets every GPU of the node, unless NVIDIA_VISIBLE_DEVICES is void. The "
        "images of profiles with NVIDIA's GPUs count as CUDA images.",
        "container",
        "image: nvidia/cuda:12.8.0-base-ubuntu24.04",
        "image: nvidia/cuda:12.8.0-base-ubuntu24.04\nenv: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]",
    ),
    Rule(
        "pod-visible-devices-set",
        "error",
        "A pod without a GPU that asks to see some",
        "NVIDIA_VISIBLE_DEVICES shows a container GPUs that it did not request, and that other jobs hold.",
        "container",
        "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]",
        "env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]",
    ),
    Rule(
        "pod-privileged-sees-gpus",
        "warning",
        "A privileged pod without a GPU",
        "A privileged container sees all devices of the node, whatever it asks for.",
        "container",
        """\
image: nvidia/cuda:12.8.0-base-ubuntu24.04
env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
securityContext: {privileged: true}""",
        """\
image: nvidia/cuda:12.8.0-base-ubuntu24.04
env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]""",
    ),
    Rule(
        "dollars-doubled",
        "warning",
        "Dollars doubled for an upload that leaves them alone",
        "A file without interpolate: true goes up as it is. $$NAME, right for an upload that halves the "
        "dollars, reaches the shell as its process number and a word.",
        "step",
        "command: pytest --junitxml=$$OUT/report.xml",
        "command: pytest --junitxml=$OUT/report.xml",
    ),
    Rule(
        "upload-expression",
        "error",
        "An expression that stops the upload",
        "With interpolation the agent reads every ${…} itself, and knows fewer forms than a shell. One that "
        "it does not know fails the whole upload.",
        "step",
        "command: echo ${FILE%.py}",
        "command: echo $${FILE%.py}",
        interpolate=True,
    ),
    Rule(
        "upload-shard-variable",
        "error",
        "The shard's number filled in at upload",
        "The upload step is no shard, so the variable is empty there, and every shard runs the same tests or "
        "none.",
        "step",
        "command: pytest --shard-id=$BUILDKITE_PARALLEL_JOB",
        "command: pytest --shard-id=$$BUILDKITE_PARALLEL_JOB",
        interpolate=True,
    ),
    Rule(
        "upload-own-variable",
        "warning",
        "A variable of the upload step",
        "Job and step numbers, labels, agents and paths filled in at upload are those of the upload step.",
        "step",
        "command: tar -cf $HOME/logs.tar logs",
        "command: tar -cf $$HOME/logs.tar logs",
        interpolate=True,
    ),
)
