"""Rules about containers: names, commands, images."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

_TWO = """\
containers:
- {name: container-0, image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi}}%s}
- {name: container-1, image: 'redis:7.4', resources: {limits: {memory: 1Gi}}%s}"""
_SIDECAR = """\
podSpec:
  containers:
  - {name: container-0, image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi}}}
sidecars:
- {name: %s, image: 'redis:7.4'}"""
_SPLIT = """\
- plugins:
  - kubernetes: {podSpec: {containers: [{image: 'ubuntu:24.04', command: [bash, -c, ./run.sh],
      resources: {limits: {memory: 64Gi}}}]}%s}"""

RULES: tuple[Rule, ...] = (
    Rule(
        "pod-container-ephemeral",
        "error",
        "Ephemeral containers in a new pod",
        "They are for looking into a pod that runs. The API server refuses a new pod that has some.",
        "podSpec",
        "ephemeralContainers: [{name: shell, image: 'busybox:1.37'}]",
        "initContainers: [{name: shell, image: 'busybox:1.37', command: [id]}]",
    ),
    Rule(
        "pod-container-reserved",
        "error",
        "A container's name that the controller uses itself",
        "agent, checkout, copy-agent, imagecheck-… and sidecar-… are the controller's own containers.",
        "plugin",
        _SIDECAR % "agent",
        _SIDECAR % "redis",
    ),
    Rule(
        "pod-container-duplicate",
        "error",
        "Two containers with one name",
        "Names are unique among containers, init containers and sidecars.",
        "plugin",
        _SIDECAR % "container-0",
        _SIDECAR % "redis",
    ),
    Rule(
        "pod-container-renamed",
        "warning",
        "A command container that is not called container-N",
        "The controller watches container-0, container-1 and so on for images that cannot be pulled. Another "
        "name is noticed after five minutes only, and older controllers lose its resource class.",
        "container",
        "name: tests",
        "name: container-0",
    ),
    Rule(
        "pod-command-runs-twice",
        "error",
        "Several containers that run the step's command",
        "Every container of podSpec without a command of its own runs the step's. The test would run once in "
        "each, one after the other.",
        "podSpec",
        _TWO % ("", ""),
        _TWO.splitlines()[0] + "\n" + _TWO.splitlines()[1] % "",
    ),
    Rule(
        "pod-several-containers",
        "warning",
        "Several command containers",
        "The containers of podSpec run one after the other and hold their devices to the end. A service that "
        "runs beside the test is a sidecar of the plugin.",
        "podSpec",
        _TWO % ("", ", command: [redis-server]"),
        _TWO.splitlines()[0] + "\n" + _TWO.splitlines()[1] % "",
    ),
    Rule(
        "pod-args-dropped",
        "error",
        "args without command",
        "The controller looks at args only where the container has a command; alone they are dropped.",
        "container",
        "args: [--verbose]",
        "env: [{name: VERBOSE, value: '1'}]",
    ),
    Rule(
        "pod-command-split",
        "error",
        "A command in several words",
        "The controller takes each entry of command for a line of its own, so [bash, -c, …] becomes three "
        "commands. With commandParams.interposer vector the entries stay one call.",
        "steps",
        _SPLIT % "",
        _SPLIT % ", commandParams: {interposer: vector}",
    ),
    Rule(
        "command-swallowed",
        "error",
        "The container's command replaces the step's",
        "A container with a command of its own does not run the step's. Where no container is left that "
        "does, the step's command never runs.",
        "container",
        "command: [./serve.sh]",
        "env: [{name: MODE, value: serve}]",
    ),
    Rule(
        "pod-image-malformed",
        "error",
        "Not an image reference",
        "A reference is registry/name:tag or name@digest. The name takes small letters only. The kubelet "
        "refuses anything else at once.",
        "container",
        "image: LMCache/ci-base:v1",
        "image: lmcache/ci-base:v1",
    ),
    Rule(
        "pod-image-missing",
        "error",
        "A container without an image",
        "Command containers get the controller's image where they name none; init containers and sidecars do "
        "not, and the API server refuses them.",
        "podSpec",
        "initContainers: [{name: warm-up, command: [/warm-up]}]",
        "initContainers: [{name: warm-up, image: 'busybox:1.37', command: [/warm-up]}]",
    ),
    Rule(
        "pod-image-local",
        "error",
        "A local image that would be pulled",
        "An image that is imported on the node is in no registry. Without a pull policy the controller asks "
        "the registry for every tag, and the job fails.",
        "container",
        "image: lmcache/ci-base:latest\nimagePullPolicy: Always",
        "image: lmcache/ci-base:latest\nimagePullPolicy: Never",
        {"local_images": ("lmcache/ci-base",)},
    ),
    Rule(
        "pod-image-policy",
        "warning",
        "A moving tag without a pull policy",
        "latest, main, nightly and the like name another image tomorrow. Without a policy the controller "
        "asks the registry for each job; say what is meant.",
        "container",
        "image: lmcache/ci-base:latest\nimagePullPolicy: null",
        "image: lmcache/ci-base:latest\nimagePullPolicy: Always",
    ),
    Rule(
        "pod-image-stale",
        "warning",
        "A moving tag that is pulled once",
        "With IfNotPresent a node keeps the image it pulled first, whatever the tag names by now.",
        "container",
        "image: lmcache/ci-base:latest\nimagePullPolicy: IfNotPresent",
        "image: lmcache/ci-base:2026-11-30\nimagePullPolicy: IfNotPresent",
    ),
    Rule(
        "image-named-twice",
        "error",
        "An image on the step and in the pod",
        "The step's image replaces the image of every command container, after images and pull policies have "
        "been settled, so one of the two is ignored and the other is not checked.",
        "step",
        """\
image: python:3.12
plugins:
- kubernetes: {podSpec: {containers: [{image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi}}}]}}""",
        """\
plugins:
- kubernetes: {podSpec: {containers: [{image: 'python:3.12', resources: {limits: {memory: 64Gi}}}]}}""",
    ),
    Rule(
        "pod-claim-source",
        "error",
        "A resource claim without one source",
        "An entry of resourceClaims names a claim or a template, and not both.",
        "podSpec",
        "resourceClaims: [{name: gpu}]",
        "resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]",
    ),
    Rule(
        "pod-claim-duplicate",
        "error",
        "Two resource claims with one name",
        "The names of resourceClaims are unique in the pod.",
        "podSpec",
        """\
resourceClaims:
- {name: gpu, resourceClaimTemplateName: one-gpu}
- {name: gpu, resourceClaimTemplateName: one-nic}""",
        """\
resourceClaims:
- {name: gpu, resourceClaimTemplateName: one-gpu}
- {name: nic, resourceClaimTemplateName: one-nic}""",
    ),
    Rule(
        "pod-claim-undeclared",
        "error",
        "A container uses a resource claim that the pod does not have",
        "The claims of a container are names of the pod's resourceClaims.",
        "container",
        "resources: {limits: {memory: 64Gi}, claims: [{name: gpu}]}",
        "resources: {limits: {memory: 64Gi}}",
    ),
)
