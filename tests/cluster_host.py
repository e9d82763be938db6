"""A GPU host made of stand-ins, on which the cluster scripts of harness/ run in tests.

The stand-ins are real executables. Each call is recorded in `calls`, one line of words; what they answer
follows from files below `state`, which they also change: a chart that was installed is there afterwards.
`fail` holds regular expressions: a call that matches one ends with status 7, having done nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import getpass
import grp
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster_standins import INSTALLER, STANDIN

REPOSITORY = Path(__file__).parent.parent

TOOLS = ("amd-smi", "curl", "docker", "nvidia-smi", "systemctl", "xpu-smi")
CORE = """
awk base64 basename bash cat chmod chown cmp cp cut date df diff dirname env find git grep gzip head install ln ls
mkdir mktemp mv paste printf ps readlink rm rmdir sed sh sha256sum sleep sort stat stty tail tar tee timeout
touch tr uname wc
"""

SCRIPTS = """
bkgen-requirements.txt bkgen.Dockerfile bkgen.Dockerfile.dockerignore chart_digest.py ci-base.Dockerfile
cluster-charts.sh cluster-lib.sh config.env install-agent-stack.sh profiles.py setup-cluster.sh smoke-test.sh
smoke_pods.py teardown.sh values.py values.yaml
"""

K3S = "github.com/k3s-io/k3s/releases/download/v1.34.5%2Bk3s1"
K3S_SOURCE = "raw.githubusercontent.com/k3s-io/k3s/v1.34.5%2Bk3s1"
NVIDIA_INDEX = "helm.ngc.nvidia.com/nvidia/index.yaml"
AMD_INDEX = "rocm.github.io/k8s-device-plugin/index.yaml"
HELM = "get.helm.sh/helm-v3.20.0-linux-amd64.tar.gz"


@functools.cache
def real(tool: str) -> str:
    """Where the real program is."""
    found = shutil.which(tool)
    assert found, f"the tests need {tool}"
    return found


def link_tools(folder: Path, names: Iterable[str]) -> Path:
    """A folder for the path that holds these programs of the real machine and no others."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(real(name))
    return folder


@functools.cache
def core_tools() -> Path:
    """The programs that every host has, once for all hosts of this process."""
    folder = Path(tempfile.mkdtemp(prefix="core-tools."))
    atexit.register(shutil.rmtree, folder)
    return link_tools(folder / "bin", CORE.split())


@dataclass
class Finished:
    """What a script said and how it ended."""

    status: int
    output: str
    words: str

    @property
    def all(self) -> str:
        return self.output + self.words


@dataclass
class Host:
    """One host below `root`; see the module's text."""

    root: Path
    core: Path = field(default_factory=core_tools)
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def harness(self) -> Path:
        """The scripts: a copy, so that nothing a developer saves meanwhile changes what a test sees."""
        return self.root / "repository" / "harness"

    @property
    def bin(self) -> Path:
        return self.root / "local-bin"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def write(self, name: str, text: str) -> None:
        """A file of the stand-ins' state."""
        (self.state / name).write_text(text)

    def fail(self, *patterns: str) -> None:
        """From now on, calls that match one of these fail; none without an argument."""
        (self.root / "fail").write_text("".join(f"{pattern}\n" for pattern in patterns))

    def calls(self, *beginnings: str) -> list[str]:
        """What was called so far, in order; only calls that begin with one of these, if any are given."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        quiet = ("id ", "uname ")
        return [line for line in lines if line.startswith(beginnings or ("",)) and not line.startswith(quiet)]

    def forget(self) -> None:
        """Forgets the calls so far."""
        (self.root / "calls").unlink(missing_ok=True)

    def serve(self, address: str, content: bytes) -> None:
        """Puts content at https://ADDRESS."""
        path = self.root / "web" / address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def remove_tool(self, name: str) -> None:
        """Takes a program off the path."""
        for folder in ("bin", "local-bin"):
            (self.root / folder / name).unlink(missing_ok=True)
        if (self.core / name).exists():
            self.core = link_tools(self.root / "core", set(CORE.split()) - {name})

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment in which scripts run: nothing of the tests' own but what is named here."""
        owner = f"{getpass.getuser()}:{grp.getgrgid(os.getgid()).gr_name}"
        return {
            "STANDIN_ROOT": str(self.root),
            "PATH": f"{self.root}/bin:{self.core}",
            "HOME": str(self.root),
            "TMPDIR": str(self.root / "tmp"),
            "BIN_DIR": str(self.bin),
            "DATA_DIR": str(self.data),
            "DATA_OWNER": owner,
            "STATE_DIR": str(self.root / "marks"),
            "K3S_CONTAINERD_CONFIG": str(self.root / "containerd.toml"),
            "MOUNTS": str(self.root / "mounts"),
            "POLL_SECONDS": "0.01",
            "CONTROLLER_WATCH_SECONDS": "0",
            "PYTHON": sys.executable,
            **self.settings,
            **(more or {}),
        }

    def run(
        self,
        script: str,
        *arguments: str,
        before: Sequence[str] = (),
        stdin: str = "",
        **settings: str,
    ) -> Finished:
        """Runs SCRIPT to its end; `before` goes in front of it, such as `bash -x`."""
        finished = subprocess.run(
            [*before, str(self.harness / script), *arguments],
            input=stdin,
            env=self.environment(settings),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    def start(self, script: str, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        """Starts SCRIPT in a process group of its own."""
        return subprocess.Popen(
            [str(self.harness / script), *arguments],
            env=self.environment(settings),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def processes(self) -> list[str]:
        """The command lines of all processes that a script of this host has left running."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"STANDIN_ROOT={self.root}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return sorted(line for line in found if line)

    def leftovers(self) -> list[str]:
        """Files that a script left in its temporary directory."""
        return sorted(str(path) for path in (self.root / "tmp").rglob("*"))


def copy_host(host: Host, root: Path) -> Host:
    """The same host again, below another directory."""
    shutil.copytree(host.root, root, symlinks=True)
    return Host(root, settings=dict(host.settings))


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def make_host(root: Path) -> Host:
    """A bare host with eight NVIDIA GPUs, a network that has what is downloaded, and no cluster."""
    for folder in ("bin", "local-bin", "data", "state", "tmp", "web"):
        (root / folder).mkdir(parents=True)
    host = Host(root)
    standin = STANDIN.replace("@ID@", real("id"))
    executable(root / "bin" / "stand-in", standin)
    for tool in (*TOOLS, "id", "uname"):
        (root / "bin" / tool).symlink_to("stand-in")
    host.harness.mkdir(parents=True)
    for name in SCRIPTS.split():
        shutil.copy(REPOSITORY / "harness" / name, host.harness / name)
    shutil.copytree(REPOSITORY / "k3_tests" / "smoke", root / "repository" / "k3_tests" / "smoke")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "bkgen/__init__.py"):
        (root / "repository" / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, root / "repository" / name)
    (root / "repository" / "templates").mkdir()
    host.fail()
    for name in ("containerd.toml", "mounts"):
        (root / name).write_text("")
    host.write("uid", "0\n")
    host.write("images", "")
    host.write("k3s-version", "v1.34.5+k3s1")
    host.write("helm-version", "v3.20.0")
    host.write("nvidia-list", "".join(f"GPU {n}: NVIDIA H200 (UUID: GPU-{n})\n" for n in range(8)))
    host.write("nvidia-status", "0")
    host.write("compute-cap", "9.0\n" * 8)
    host.write("amd-list", "".join(f"GPU: {n}\n    BDF: 0000:0{n}:00.0\n    UUID: {n}\n" for n in range(8)))
    host.write("amd-asic", "GPU: 0\n    ASIC:\n        TARGET_GRAPHICS_VERSION: gfx942\n" * 8)
    host.write("gpus", "8\n")
    host.write("nodes.json", nodes({"nvidia.com/gpu": "8"}))
    serve_releases(host, standin)
    return host


def serve_releases(host: Host, standin: str) -> None:
    """What K3s and Helm publish: programs that are stand-ins, and their sums."""
    k3s = standin.encode()
    installer = INSTALLER.encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        member = tarfile.TarInfo("linux-amd64/helm")
        member.size, member.mode = len(k3s), 0o755
        tar.addfile(member, io.BytesIO(k3s))
    sums = f"{digest(b'images')}  k3s-airgap-images-amd64.tar\n{digest(k3s)}  k3s\n"
    host.serve(f"{K3S}/k3s", k3s)
    host.serve(f"{K3S}/sha256sum-amd64.txt", sums.encode())
    host.serve(f"{K3S_SOURCE}/install.sh", installer)
    host.serve(f"{K3S_SOURCE}/install.sh.sha256sum", f"{digest(installer)}  install.sh\n".encode())
    host.serve(HELM, archive.getvalue())
    for address, chart, version in (
        (NVIDIA_INDEX, "gpu-operator", "v25.10.1"),
        (AMD_INDEX, "amd-gpu", "0.21.0"),
    ):
        host.serve(address, index(chart, version, digest(f"chart {chart}\n".encode())))
    host.serve(f"{HELM}.sha256sum", f"{digest(archive.getvalue())}  {Path(HELM).name}\n".encode())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def index(chart: str, version: str, sum_: str) -> bytes:
    """A chart repository's index.yaml, as Helm writes it; an older version comes first."""
    old = {"digest": "0" * 64, "name": chart, "version": "v0.0.1"}
    entry = {"digest": sum_, "name": chart, "version": version}
    return json.dumps({"apiVersion": "v1", "entries": {chart: [old, entry]}}).encode()


def make_cluster(root: Path) -> Host:
    """A host with a running cluster, and kubectl, helm and bkgen on the path."""
    host = make_host(root)
    for tool in ("kubectl", "helm", "bkgen"):
        (host.bin / tool).symlink_to("../bin/stand-in")
    host.write("k3s-active", "")
    return host


def wait_for_file(path: Path, process: subprocess.Popen[str]) -> str:
    """The content of a file that a running process is about to write."""
    end = time.monotonic() + 30
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end, f"{path} was not written"
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return path.read_text()


def nodes(*allocatable: Mapping[str, str]) -> str:
    """What `kubectl get nodes --output json` prints for nodes that offer this."""
    return json.dumps({"items": [{"status": {"allocatable": {"cpu": "96", **each}}} for each in allocatable]})
