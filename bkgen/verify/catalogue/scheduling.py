"""Rules about where a pod runs, and about patches."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "pod-toleration",
        "error",
        "Not a toleration",
        "The operators are Exists and Equal, the effects NoSchedule, PreferNoSchedule and NoExecute. Exists "
        "takes no value; a toleration without a key needs Exists; tolerationSeconds goes with NoExecute.",
        "podSpec",
        "tolerations: [{key: gpu, operator: Exists, value: h200}]",
        "tolerations: [{key: gpu, operator: Equal, value: h200}]",
    ),
    Rule(
        "pod-label-invalid",
        "error",
        "Not a label",
        "A label's value has at most 63 letters, digits, '-', '_' and '.', and its name the same, after an "
        "optional domain. The controller fails the job for one that is invalid.",
        "plugin",
        "metadata: {labels: {team: LLM serving}}",
        "metadata: {labels: {team: llm-serving}}",
    ),
    Rule(
        "pod-node-selector",
        "error",
        "A node label that the settings do not know",
        "A pod with a misspelt selector waits for ever. Where the settings list the labels of the nodes "
        "(node_labels), nothing but these and Kubernetes' own may be asked for.",
        "podSpec",
        "nodeSelector: {gpu-modle: h200}",
        "nodeSelector: {gpu-model: h200}",
        {"node_labels": {"gpu-model": ("h200", "l40s")}},
    ),
    Rule(
        "pod-node-selector-close",
        "warning",
        "Almost a node label that is known",
        "Where the settings list no labels of the nodes, a selector is compared with those of the profiles "
        "and with Kubernetes' own. One letter away is taken for a typing error.",
        "podSpec",
        "nodeSelector: {gpu-modle: h200}",
        "nodeSelector: {gpu-model: h200}",
        {"selector_labels": ("gpu-model",)},
    ),
    Rule(
        "pod-patch-target",
        "error",
        "A patch of a container that is not there",
        "A patch finds its container by name. A name that it does not find adds a container without an "
        "image, and the API server refuses the pod.",
        "plugin",
        "podSpecPatch: {containers: [{name: container-9, tty: true}]}",
        "podSpecPatch: {containers: [{name: container-0, tty: true}]}",
    ),
    Rule(
        "pod-patch-command",
        "error",
        "A patch of a command of the controller",
        "The controller refuses command and args for agent, checkout, copy-agent and its image checks.",
        "plugin",
        "podSpecPatch: {containers: [{name: checkout, command: [git]}]}",
        "podSpecPatch: {containers: [{name: checkout, tty: true}]}",
    ),
    Rule(
        "pod-patch-replaces",
        "warning",
        "A patch that replaces a whole list",
        "tolerations, command, args and envFrom have no names to merge by. What the patch brings takes the "
        "place of all that podSpec has.",
        "plugin",
        """\
podSpec: {tolerations: [{key: gpu, operator: Exists}]}
podSpecPatch: {tolerations: [{key: spot, operator: Exists}]}""",
        "podSpec: {tolerations: [{key: gpu, operator: Exists}, {key: spot, operator: Exists}]}",
    ),
    Rule(
        "pod-patch-volume",
        "error",
        "A patch that gives a volume a second source",
        "Volumes merge by name, and a source does not replace another: the volume would have two.",
        "plugin",
        """\
podSpec:
  containers:
  - image: ubuntu:24.04
    resources: {limits: {memory: 64Gi}}
    volumeMounts: [{name: models, mountPath: /models}]
  volumes: [{name: models, emptyDir: {}}]
podSpecPatch: {volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]}""",
        """\
podSpec:
  containers:
  - image: ubuntu:24.04
    resources: {limits: {memory: 64Gi}}
    volumeMounts: [{name: models, mountPath: /models}]
  volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]""",
    ),
    Rule(
        "pod-patch-zero",
        "warning",
        "A patch that sets something to false",
        "On its way to the merge a patch loses such fields where they are false, so what podSpec says stays.",
        "plugin",
        "podSpecPatch: {hostNetwork: false}",
        "podSpecPatch: {hostNetwork: true}",
    ),
    Rule(
        "pod-patch-user",
        "warning",
        "A patch that changes the user",
        "The controller fits the checkout's permissions to the user of podSpec. A user from a patch comes "
        "too late for that.",
        "plugin",
        "podSpecPatch: {securityContext: {runAsUser: 1000}}",
        "podSpec: {securityContext: {runAsUser: 1000}}",
    ),
)
