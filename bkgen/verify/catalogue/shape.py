"""Rules about keys, types and single values."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "pod-unknown-key",
        "error",
        "A key that Kubernetes does not know",
        "The controller drops unknown keys without a word, at any depth, so a misspelt key is a pod without "
        "what the key asked for. Spelling counts, capital letters included.",
        "container",
        'resources: {limits: {memory: 64Gi}, limit: {nvidia.com/gpu: "1"}}',
        'resources: {limits: {memory: 64Gi, nvidia.com/gpu: "1"}}',
    ),
    Rule(
        "pod-required-missing",
        "error",
        "A field is missing without which the API server refuses the pod",
        "Every type of Kubernetes has fields that must be there. The names of command containers and "
        "sidecars are an exception: the controller gives them one.",
        "volume",
        "hostPath: {type: Directory}",
        "hostPath: {path: /data/models, type: Directory}",
    ),
    Rule(
        "pod-wrong-type",
        "error",
        "A value of the wrong type",
        "Kubernetes takes no number for text and no text for a list. The values of environment variables and "
        "labels are text, so numbers there need quotes; quantities may be numbers or text.",
        "container",
        "env: [{name: WORKERS, value: 4}]",
        'env: [{name: WORKERS, value: "4"}]',
    ),
    Rule(
        "pod-quantity",
        "error",
        "Not a quantity",
        "A quantity is a number of 0 or more and at most one suffix: m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi "
        "or Ei. A blank between them, a capital K or a B at the end is refused.",
        "container",
        "resources: {limits: {memory: 64 Gi}}",
        "resources: {limits: {memory: 64Gi}}",
    ),
    Rule(
        "pod-enum",
        "error",
        "Not one of the words this field takes",
        "Policies, operators and kinds are fixed words, with their capital letters.",
        "container",
        "imagePullPolicy: ifNotPresent",
        "imagePullPolicy: IfNotPresent",
    ),
    Rule(
        "pod-number-range",
        "error",
        "A number out of range",
        "Ports, weights, user numbers and deadlines have bounds that the API server or the controller keeps.",
        "plugin",
        "jobActiveDeadlineSeconds: 0",
        "jobActiveDeadlineSeconds: 28800",
    ),
    Rule(
        "pod-name-invalid",
        "error",
        "Not a name that Kubernetes takes",
        "Containers and volumes are DNS labels: small letters, digits and inner hyphens, at most 63. "
        "Secrets, claims, accounts and classes may have dots as well. Variables start with no digit.",
        "podSpec",
        "serviceAccountName: CI_Runner",
        "serviceAccountName: ci-runner",
    ),
    Rule(
        "plugin-unknown-key",
        "error",
        "A key that the kubernetes plugin does not have",
        "The plugin's map has its own few keys; all that belongs to the pod goes below podSpec. What the "
        "controller does not know it drops.",
        "plugin",
        "nodeSelector: {disk: nvme}",
        "podSpec: {nodeSelector: {disk: nvme}}",
    ),
    Rule(
        "plugin-not-a-key",
        "error",
        "A key that belongs elsewhere",
        "Some settings look like the plugin's and are the controller's, the step's or the pod's: jobTTL, "
        "resourceClass, commandOverride, priority, namespace and serviceAccount.",
        "plugin",
        "serviceAccount: ci-runner",
        "podSpec: {serviceAccountName: ci-runner}",
    ),
    Rule(
        "plugin-wrong-type",
        "error",
        "A value of the wrong type in the plugin's map",
        "A wrong type fails the job before there is a pod.",
        "plugin",
        'checkout: {skip: "yes"}',
        "checkout: {skip: true}",
    ),
    Rule(
        "plugin-interposer",
        "error",
        "Not an interposer",
        "commandParams.interposer says how a container's command becomes the job's: buildkite, vector or "
        "legacy.",
        "plugin",
        "commandParams: {interposer: exec}",
        "commandParams: {interposer: vector}",
    ),
    Rule(
        "plugin-template-ignored",
        "error",
        "podTemplate beside podSpec",
        "Where both are written the controller starts from podSpec, and the template counts for nothing.",
        "plugin",
        "podTemplate: gpu-base\npodSpec: {runtimeClassName: nvidia}",
        "podTemplate: gpu-base\npodSpecPatch: {runtimeClassName: nvidia}",
    ),
    Rule(
        "plugin-name-versioned",
        "error",
        "The kubernetes plugin with a version or an address",
        "The agent writes `kubernetes` and `buildkite-plugins/kubernetes` out as the one name that the "
        "controller knows. With a version, or as an address, it is an ordinary plugin, which the agent tries "
        "to clone.",
        "step",
        "plugins: [{kubernetes#v1.0.0: {}}]",
        "plugins: [{kubernetes: {}}]",
    ),
    Rule(
        "plugin-name-open",
        "error",
        "A plugin whose name is not known yet",
        "A variable or a matrix value in the name may turn it into the kubernetes plugin, whose pod nobody "
        "has looked at then. The version may be filled in, but not for a fork's pull request.",
        "step",
        "matrix: [docker, docker-compose]\nplugins: [{'{{matrix}}#v5.13.0': {}}]",
        "matrix: ['5.13.0', '5.12.0']\nplugins: [{'docker#v{{matrix}}': {}}]",
    ),
    Rule(
        "plugin-name-misspelt",
        "error",
        "Almost the kubernetes plugin",
        "A name with a capital letter or a typing error is another plugin, and no pod is made of it.",
        "step",
        "plugins: [{Kubernetes: {}}]",
        "plugins: [{kubernetes: {}}]",
    ),
    Rule(
        "plugin-map-keys",
        "error",
        "Not one name in an entry of plugins",
        "Each entry is a name, or a map with exactly one name. Two keys come from a missing dash, or from "
        "settings that are not indented.",
        "step",
        "plugins: [{kubernetes: {}, docker#v5.13.0: {image: ubuntu}}]",
        "plugins: [{kubernetes: {}}, {docker#v5.13.0: {image: ubuntu}}]",
    ),
    Rule(
        "plugin-twice",
        "error",
        "Two kubernetes plugins",
        "A second entry overlays the first, in a way that nobody documents.",
        "step",
        "plugins: [{kubernetes: {}}, {kubernetes: {checkout: {skip: true}}}]",
        "plugins: [{kubernetes: {checkout: {skip: true}}}]",
    ),
    Rule(
        "plugins-too-large",
        "error",
        "Plugins too large for one variable",
        "The agent hands all plugins over in one environment variable, and the kernel takes 128 KiB for "
        "that. Long scripts and data belong into files.",
        "container",
        "env: [{name: DATA, value: '" + "x" * 124_000 + "'}]",
        "env: [{name: DATA_FILE, value: tests/data.json}]",
    ),
)
