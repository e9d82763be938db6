"""Rules about volumes and mounts."""

from __future__ import annotations

from bkgen.verify.catalogue.rule import Rule

_WITH = """\
containers:
- image: ubuntu:24.04
  resources: {limits: {memory: 64Gi}}
  volumeMounts: [%s]
volumes: [%s]"""

RULES: tuple[Rule, ...] = (
    Rule(
        "pod-volume-reserved",
        "error",
        "A volume's name that the controller uses itself",
        "The controller adds the volumes workspace, git-credentials and git-credentials-ro.",
        "podSpec",
        _WITH
        % ("{name: git-credentials-mine, mountPath: /git}", "{name: git-credentials-mine, emptyDir: {}}"),
        _WITH % ("{name: my-git, mountPath: /git}", "{name: my-git, emptyDir: {}}"),
    ),
    Rule(
        "pod-volume-duplicate",
        "error",
        "Two volumes with one name",
        "The names of volumes are unique in the pod.",
        "podSpec",
        _WITH
        % ("{name: a, mountPath: /a}", "{name: a, emptyDir: {}}, {name: a, emptyDir: {sizeLimit: 1Gi}}"),
        _WITH % ("{name: a, mountPath: /a}", "{name: a, emptyDir: {}}"),
    ),
    Rule(
        "pod-mount-without-volume",
        "error",
        "A mount without its volume",
        "Every volumeMount names a volume of the pod; the API server refuses one that does not.",
        "podSpec",
        _WITH % ("{name: hf-cache, mountPath: /hf}", ""),
        _WITH % ("{name: hf-cache, mountPath: /hf}", "{name: hf-cache, emptyDir: {}}"),
    ),
    Rule(
        "pod-volume-unused",
        "warning",
        "A volume that nothing mounts",
        "Either the mount is missing, or the volume is left over.",
        "podSpec",
        _WITH % ("", "{name: hf-cache, emptyDir: {}}"),
        _WITH % ("{name: hf-cache, mountPath: /hf}", "{name: hf-cache, emptyDir: {}}"),
    ),
    Rule(
        "pod-mount-path-duplicate",
        "error",
        "One path mounted twice",
        "The controller keeps the first mount of a path and drops the other without a word.",
        "podSpec",
        _WITH
        % (
            "{name: a, mountPath: /hf}, {name: b, mountPath: /hf/}",
            "{name: a, emptyDir: {}}, {name: b, emptyDir: {}}",
        ),
        _WITH
        % (
            "{name: a, mountPath: /hf}, {name: b, mountPath: /ds}",
            "{name: a, emptyDir: {}}, {name: b, emptyDir: {}}",
        ),
    ),
    Rule(
        "pod-mount-path",
        "error",
        "Not a path to mount at",
        "A mount path starts at the root and holds no colon.",
        "mount",
        "mountPath: models",
        "mountPath: /models",
    ),
    Rule(
        "pod-mount-workspace",
        "error",
        "A mount over the checkout",
        "The controller mounts its own volume at /workspace, with the checkout in it. A mount there hides "
        "both.",
        "mount",
        "mountPath: /workspace",
        "mountPath: /scratch",
    ),
    Rule(
        "pod-sub-path",
        "error",
        "A subPath that cannot be",
        "subPath is relative, holds no '..', excludes subPathExpr, and is not for image volumes.",
        "mount",
        "subPath: ../other",
        "subPath: llama",
    ),
    Rule(
        "pod-volume-source",
        "error",
        "Not exactly one source",
        "A volume is one thing: a hostPath, an emptyDir, a claim, a secret or another.",
        "volume",
        "emptyDir: {}\npersistentVolumeClaim: {claimName: models}",
        "persistentVolumeClaim: {claimName: models}",
    ),
    Rule(
        "pod-host-path",
        "error",
        "Not a path of the node",
        "A hostPath starts at the root, holds no '..', and is written out, so that it can be held against "
        "the allow-list.",
        "volume",
        "hostPath: {path: /data/../etc, type: Directory}",
        "hostPath: {path: /data/models, type: Directory}",
    ),
    Rule(
        "pod-host-path-not-allowed",
        "error",
        "A hostPath outside the allow-list",
        "Pods may mount what host_paths of the settings lists, and nothing else of the node.",
        "volume",
        "hostPath: {path: /etc, type: Directory}",
        "hostPath: {path: /data/models, type: Directory}",
    ),
    Rule(
        "pod-host-path-type",
        "error",
        "Not a type of hostPath",
        "The types are DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice and BlockDevice.",
        "volume",
        "hostPath: {path: /data/models, type: Directoryorcreate}",
        "hostPath: {path: /data/models, type: DirectoryOrCreate}",
    ),
    Rule(
        "pod-host-path-untyped",
        "warning",
        "A hostPath without a type",
        "Without a type nothing is checked: a path that is not there, or is not mounted yet, becomes an "
        "empty directory on the root disk.",
        "volume",
        "hostPath: {path: /data/models}",
        "hostPath: {path: /data/models, type: Directory}",
    ),
    Rule(
        "pod-empty-dir-medium",
        "error",
        "Not a medium of emptyDir",
        "The media are Memory, HugePages and HugePages-…; even the API server takes a typing error, and the "
        "mount fails on the node.",
        "volume",
        "emptyDir: {medium: memory, sizeLimit: 8Gi}",
        "emptyDir: {medium: Memory, sizeLimit: 8Gi}",
    ),
    Rule(
        "pod-shm-unlimited",
        "error",
        "A volume in memory without a size",
        "Without sizeLimit such a volume can grow until the node has no memory left. A size of 0 counts as "
        "none.",
        "volume",
        "emptyDir: {medium: Memory, sizeLimit: 0}",
        "emptyDir: {medium: Memory, sizeLimit: 8Gi}",
    ),
    Rule(
        "pod-shm-above-memory",
        "error",
        "Volumes in memory that fill the memory limit",
        "What is written there counts as the container's memory. A volume as large as the limit gets the "
        "writer killed before it is full.",
        "volume",
        "emptyDir: {medium: Memory, sizeLimit: 128Gi}",
        "emptyDir: {medium: Memory, sizeLimit: 16Gi}",
    ),
    Rule(
        "pod-shm-missing",
        "warning",
        "A GPU and 64 MiB of shared memory",
        "A container has 64 MiB at /dev/shm unless it mounts a volume there. NCCL, data loaders and the "
        "workers of an engine need more, with one GPU as with eight.",
        "podSpec",
        "containers: [{image: 'ubuntu:24.04', resources: {limits: {memory: 64Gi, nvidia.com/gpu: 1}}}]",
        """\
containers:
- image: ubuntu:24.04
  resources: {limits: {memory: 64Gi, nvidia.com/gpu: 1}}
  volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]""",
    ),
    Rule(
        "pod-shm-on-disk",
        "warning",
        "A volume on disk at /dev/shm",
        "An emptyDir is a directory on the node's disk unless its medium is Memory. At /dev/shm it hides the "
        "container's own shared memory, and everything that processes share goes to the disk.",
        "podSpec",
        """\
containers:
- image: ubuntu:24.04
  resources: {limits: {memory: 64Gi}}
  volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {sizeLimit: 16Gi}}]""",
        """\
containers:
- image: ubuntu:24.04
  resources: {limits: {memory: 64Gi}}
  volumeMounts: [{name: shm, mountPath: /dev/shm}]
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]""",
    ),
)
