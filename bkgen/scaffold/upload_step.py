"""The one step that is pasted into Buildkite: it starts bkgen in a pod that has it."""

from __future__ import annotations

from typing import Any

from bkgen.pods.build import pod_spec
from bkgen.spec.pod import Amount, Pod
from bkgen.spec.settings import Profile, Settings
from bkgen.yamldump import dump

KEY = "bkgen-upload"
UPLOAD_FILE = "buildkite-pipeline.yml"
"""The file of the upload step of all suites, below `tests_dir`."""
IMAGE = Profile(image="bkgen:latest", image_pull_policy="Never")
"""What harness/setup-cluster.sh builds out of harness/bkgen.Dockerfile and imports on the node."""
USER = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
"""The image's user. It fetches the base branch into the checkout, which the controller hands over to it."""
CPU = Amount(request="500m", limit="2")
MEMORY = Amount(request="512Mi", limit="4Gi")
"""bkgen needs a small part of it; the rest is for git, which unpacks what it fetches."""
TIMEOUT_MINUTES = 75
"""Half an hour for other checks to get green, as long for the upload, and the rest for git."""
RETRIES = (
    # bkgen's own word for "a retry may help"; no other status of it changes by itself.
    {"exit_status": 75, "limit": 2},
    {"signal_reason": "stack_error", "limit": 1},
    {"signal_reason": "agent_stop", "limit": 2},
    {"exit_status": -1, "limit": 2},
)


def upload_pipeline(settings: Settings, suite: str | None = None) -> str:
    """The YAML to paste: a pipeline of the upload step, for all suites or for one."""
    return dump({"steps": [upload_step(settings, suite)]})


def upload_step(settings: Settings, suite: str | None = None) -> dict[str, Any]:
    """The upload step on the hardware of `upload_profile`; no pod where that is a bare-metal queue."""
    profile = profile_of(settings)
    step: dict[str, Any] = {
        "label": ":pipeline: bkgen upload",
        "key": KEY,
        "command": "bkgen upload" if suite is None else f"bkgen upload {suite}",
        "agents": {"queue": profile.queue or settings.queue, **profile.agents},
        "timeout_in_minutes": TIMEOUT_MINUTES,
        "retry": {"automatic": [dict(rule) for rule in RETRIES]},
    }
    if profile.pod:
        spec = pod_spec(Pod(cpu=profile.cpu or CPU, memory=profile.memory or MEMORY), profile, settings)
        if settings.upload_profile is None:
            # It is no CUDA image: there are no GPUs to hide from it.
            del spec["containers"][0]["env"]
        step["plugins"] = [{"kubernetes": {"podSpec": {"securityContext": dict(USER), **spec}}}]
    return step


def profile_of(settings: Settings) -> Profile:
    """The profile of the upload step."""
    return IMAGE if settings.upload_profile is None else settings.profiles[settings.upload_profile]
