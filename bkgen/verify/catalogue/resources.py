"""Rules about CPU, memory and devices."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

_ONE_GPU = 'resources: {limits: {memory: 64Gi, nvidia.com/gpu: "1"}}'
_GPUS = """\
containers:
- image: ubuntu:24.04
  resources: {limits: {memory: 64Gi, amd.com/gpu: %s}}
  volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]"""

RULES: tuple[Rule, ...] = (
    Rule(
        "pod-device-fraction",
        "error",
        "A part of a device",
        "Extended resources come in whole numbers. A part of a GPU is a resource of its own: a MIG profile "
        "or a shared GPU.",
        "container",
        'resources: {limits: {memory: 64Gi, nvidia.com/gpu: "0.5"}}',
        'resources: {limits: {memory: 64Gi, nvidia.com/mig-1g.10gb: "1"}}',
    ),
    Rule(
        "pod-device-request",
        "error",
        "The request of a device differs from its limit",
        "Devices cannot be overcommitted: request and limit are equal, and a request alone is refused. A "
        "limit alone sets both.",
        "container",
        'resources: {limits: {memory: 64Gi}, requests: {nvidia.com/gpu: "1"}}',
        _ONE_GPU,
    ),
    Rule(
        "pod-request-above-limit",
        "error",
        "A request above its limit",
        "The API server refuses a container that asks for more than it may use.",
        "container",
        "resources: {requests: {memory: 96Gi}, limits: {memory: 64Gi}}",
        "resources: {requests: {memory: 32Gi}, limits: {memory: 64Gi}}",
    ),
    Rule(
        "pod-resource-name",
        "error",
        "Not a resource's name",
        "Other than cpu, memory, ephemeral-storage and huge pages, a resource has the domain of its vendor "
        "in front of it.",
        "container",
        'resources: {limits: {memory: 64Gi, gpu: "1"}}',
        _ONE_GPU,
    ),
    Rule(
        "pod-resource-misspelt",
        "error",
        "Almost the name of a vendor's device",
        "No node offers a resource with a typing error, so the pod waits until it is failed. A name of your "
        "own goes into a profile of the settings, and is known from then on.",
        "container",
        'resources: {limits: {memory: 64Gi, nvidia.com/gpus: "1"}}',
        _ONE_GPU,
    ),
    Rule(
        "pod-resource-unknown",
        "warning",
        "A device that neither a vendor nor the settings know",
        "If no node offers it, the pod waits until it is failed. Names of your own go into a profile's "
        "gpu_resource.",
        "container",
        'resources: {limits: {memory: 64Gi, fpga.example.com/card: "1"}}',
        'resources: {limits: {memory: 64Gi, example.com/accelerator: "1"}}',
        {"gpu_resources": ("example.com/accelerator",)},
    ),
    Rule(
        "pod-two-device-types",
        "error",
        "Two types of device in one container",
        "A container with GPUs of two kinds fits no node.",
        "container",
        'resources: {limits: {memory: 64Gi, nvidia.com/gpu: "1", amd.com/gpu: "1"}}',
        _ONE_GPU,
    ),
    Rule(
        "pod-level-resource",
        "error",
        "A device for the pod as a whole",
        "The resources of the pod itself take cpu, memory and huge pages. Devices belong to a container.",
        "podSpec",
        'resources: {limits: {nvidia.com/gpu: "1"}}',
        "resources: {limits: {memory: 80Gi}}",
    ),
    Rule(
        "pod-hugepages-alone",
        "error",
        "Huge pages without memory",
        "Huge pages are refused unless the container asks for cpu or memory as well.",
        "podSpec",
        """\
resources: {limits: {memory: 80Gi}}
containers: [{image: 'ubuntu:24.04', resources: {limits: {hugepages-2Mi: 1Gi}}}]""",
        """\
resources: {limits: {memory: 80Gi}}
containers: [{image: 'ubuntu:24.04', resources: {limits: {hugepages-2Mi: 1Gi, memory: 64Gi}}}]""",
    ),
    Rule(
        "pod-memory-limit",
        "warning",
        "No memory limit",
        "A test that leaks can take the memory of the whole node, and every other job with it.",
        "container",
        'resources: {limits: {nvidia.com/gpu: "1"}}',
        _ONE_GPU,
    ),
    Rule(
        "pod-memory-tiny",
        "warning",
        "Memory without its unit",
        "Memory is counted in bytes. 64 is sixty-four bytes, and 64m a fifteenth of one.",
        "container",
        "resources: {limits: {memory: 64}}",
        "resources: {limits: {memory: 64Gi}}",
    ),
    Rule(
        "pod-gpus-above-node",
        "error",
        "More devices than a node has",
        "A pod runs on one node. What no node has keeps it waiting until it is failed.",
        "podSpec",
        _GPUS % 16,
        _GPUS % 8,
        {"gpus_per_node": {"amd.com/gpu": 8}},
    ),
    Rule(
        "pod-gpus-many",
        "warning",
        "More devices than nodes usually have",
        "A pod runs on one node, and hardly a node has more than sixteen GPUs. Where a profile says how many "
        "its nodes have, that number counts instead.",
        "podSpec",
        _GPUS % 64,
        _GPUS % 16,
    ),
    Rule(
        "pod-kueue-requests",
        "warning",
        "A queue of Kueue without requests",
        "Kueue admits a job by what its containers request. Without requests it admits more than fits.",
        "plugin",
        "metadata: {labels: {kueue.x-k8s.io/queue-name: gpu}}",
        """\
metadata: {labels: {kueue.x-k8s.io/queue-name: gpu}}
podSpec:
  containers: [{image: 'ubuntu:24.04', resources: {requests: {cpu: 8}, limits: {memory: 64Gi}}}]""",
    ),
    Rule(
        "jobs-wait-too-long",
        "warning",
        "More jobs than devices, and waiting pods are failed",
        "The controller fails a pod that finds no node in time, and the clock starts when the pod is made. "
        "Jobs of one step that take turns on the devices wait for each other. A profile's gpus says how many "
        "there are, and limits.pod_pending_minutes how long a pod may wait.",
        "step",
        """\
parallelism: 10
timeout_in_minutes: 30
plugins:
- kubernetes:
    podSpec:
      containers:
      - image: ubuntu:24.04
        resources: {limits: {memory: 64Gi, nvidia.com/gpu: 1}}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]""",
        """\
parallelism: 10
concurrency: 8
concurrency_group: gpu/unit
timeout_in_minutes: 30
plugins:
- kubernetes:
    podSpec:
      containers:
      - image: ubuntu:24.04
        resources: {limits: {memory: 64Gi, nvidia.com/gpu: 1}}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]""",
        {"gpu_capacity": {"nvidia.com/gpu": 8}},
    ),
)
