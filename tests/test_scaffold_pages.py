"""What a setup page and the upload step say, held against the decision and the pods they speak of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import Configuration, load_configuration
from bkgen.decide.facts import Selection, gather
from bkgen.decide.rules import Subject, decide
from bkgen.errors import UserError
from bkgen.generate.phases import generate, select
from bkgen.scaffold.conditions import condition
from bkgen.scaffold.docs import setup_texts, upload_text
from bkgen.scaffold.runs import said
from bkgen.scaffold.upload_step import upload_step
from bkgen.spec.settings import Settings
from bkgen.spec.when import When
from decisions import Files

REPOSITORY = Path(__file__).parent.parent
SETTINGS = """\
queue: gpu-queue
policy:
  labels: {mp: multiprocess, long: long ones}
  cadences:
    nightly: {schedule: true, minus: [long]}
    weekly: {label: weekly-please}
  scopes: {all: {}, small: {minus: [long]}}
profiles:
  h200: {gpu_resource: nvidia.com/gpu, image: "example.com/ci:1", image_pull_policy: Never}
  metal: {pod: false, queue: metal, agents: {gpu: old}}
caches: {models: {host_path: /data/models, mount_path: /models}}
scratch: {host_path: /data/scratch}
"""


def configuration(settings: str = SETTINGS, **suites: str) -> Configuration:
    files = {"bkgen.yml": settings}
    for name, text in suites.items():
        files |= {f"k3_tests/{name}/pipeline.yml": text, f"k3_tests/{name}/run.sh": "#!/bin/bash\n"}
    return load_configuration(Files(files))


def page(text: str, settings: str = SETTINGS, **others: str) -> str:
    return setup_texts(configuration(settings, unit=text, **others), ["unit"])["unit"]


def table(text: str, title: str) -> dict[str, str]:
    """The first table below a title: its first column with the rest of the line."""
    below = text.split(f"## {title}", 1)[1].split("\n|---", 1)[1].split("\n\n", 1)[0]
    rows = [re.split(r"(?<!\\)\|", line.strip("|"), maxsplit=1) for line in below.splitlines()[1:]]
    return {row[0].strip(): row[1].strip() for row in rows if len(row) == 2}


# -- pages ---------------------------------------------------------------------------------------------------

CHOOSY = """\
description: Two steps.
when: {labels: [mp], branches: [main, release/*]}
pod: {gpus: 1, memory: 8Gi, shm: 1Gi}
steps:
- {label: a, command: ./run.sh, expected_minutes: 10}
- {label: b, command: ./run.sh, expected_minutes: 4.5, when: {labels: [long]}}
"""


def test_when_it_runs_is_what_the_decision_says() -> None:
    assert table(page(CHOOSY), "When it runs") == {
        "a pull request without a label": "nothing",
        "a pull request with `run-ci-mp`": "1 of 2 steps: `unit-a`",
        "a pull request with `run-ci-long`": "nothing",
        "a pull request with `run-ci-mp` and `run-ci-long`": "everything",
        "a pull request with `run-ci-all`": "everything",
        "a pull request with `run-ci-small`": "1 of 2 steps: `unit-a`",
        "a pull request with `weekly-please`": "everything",
        "a fork's pull request without a label": "nothing",
        "a push to `main`": "1 of 2 steps: `unit-a`",
        "a push to `release/*`": "1 of 2 steps: `unit-a`",
        "a schedule with `BKGEN_CADENCE=nightly`, or none": "1 of 2 steps: `unit-a`",
        "a schedule with `BKGEN_CADENCE=weekly`": "everything",
        "a tag, or a build by hand": "nothing",
    }


def test_a_suite_without_labels_has_no_row_for_them() -> None:
    rows = table(page("pod: {gpus: 0, image: 'i:1'}\nwhen: {forks: false}\n", "version: 1\n"), "When it runs")
    assert rows == {
        "a pull request without a label": "everything",
        "a fork's pull request without a label": "nothing",
        "a push to `main`": "everything",
        "a schedule": "everything",
        "a tag, or a build by hand": "everything",
    }


def test_the_steps_have_their_minutes_timeouts_and_sum() -> None:
    text = page(CHOOSY)
    assert "| `unit-a` | 1 | 1 | 10 | 13 |\n| `unit-b` | 1 | 1 | 4.5 | 6 |\n" in text
    assert "All of it: 2 jobs, 14.5 GPU minutes." in text


def test_the_github_settings_follow_from_labels_and_forks() -> None:
    asks = table(page(CHOOSY), "GitHub settings")
    assert asks["Rebuild on PR label change"].startswith(
        "Yes | `run-ci-mp`, `run-ci-long`, `weekly-please` and `force-ci`"
    )
    assert asks["Build branches"] == "Yes | `main`, `release/*`"
    assert asks["Build pull requests from third-party forks"].startswith("Yes")
    plain = "pod: {gpus: 1, memory: 8Gi, shm: 1Gi}\nwhen: {forks: false}\n"
    alone = table(page(plain), "GitHub settings")
    assert alone["Rebuild on PR label change"].startswith("No | this suite asks for no label;")
    assert alone["Build pull requests from third-party forks"] == "No | no step runs for a fork"
    beside = table(page(plain, other=CHOOSY), "GitHub settings")
    assert beside["Rebuild on PR label change"].startswith(
        "No; Yes in the pipeline of all suites | this suite asks"
    )


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param(CHOOSY, "Without a label the suite is skipped", id="a suite with a label"),
        pytest.param("pod: {gpus: 0}\n", "may be required for merging", id="a suite for every pull request"),
        pytest.param(
            "steps:\n- {key: s, command: ./run.sh, soft_fail: true}\n",
            "`s` may fail without failing the build",
            id="a step that may fail",
        ),
        pytest.param(
            "steps:\n- {key: s, command: ./run.sh, if: 'build.branch == \"main\"'}\n",
            "Buildkite itself decides by `if` or `branches` of `s`",
            id="a step with Buildkite's own condition",
        ),
        pytest.param(
            "when: {paths: ['a/**']}\nsteps:\n- {key: s, command: ./run.sh, when: {paths: ['a/b']}}\n",
            "- one that matches the suite's paths: `a/**`\n- one in `k3_tests/unit/`\n"
            "- one that runs everything: `/.buildkite/**`, `/harness/**`, `/bkgen.yml`\n"
            "- further paths of their own narrow `s`\n",
            id="paths of the file and of a step",
        ),
        pytest.param("pod: {gpus: 0}\n", "- any that is not trivial\n", id="no paths"),
        pytest.param("when: {include_trivial: true}\n", "- any; trivial files count, too\n", id="trivial files, too"),
        pytest.param("steps: [block]\n", "No step of this suite runs anything.", id="nothing to run"),
        pytest.param(
            "description: 'a | <!-- bkgen:end about -->\n\n  b'\n",
            "a \\| &lt;!-- bkgen:end about --> b\n",
            id="a description that would end its part",
        ),
    ],
)  # fmt: skip
def test_a_page_says(spec: str, says: str) -> None:
    assert says in page(spec)


NATIVE = """\
steps:
- key: native
  command: ./run.sh
  agents: [queue=other, arch=arm]
  secrets: {TOKEN: deploy-token}
  plugins:
  - kubernetes:
      gitEnvFrom: [{secretRef: {name: git-env}}]
      podSpec:
        serviceAccountName: tester
        priorityClassName: urgent
        runtimeClassName: nvidia
        containers:
        - name: container-0
          image: example.com/native@sha256:0000000000000000000000000000000000000000000000000000000000000000
          resources: {limits: {amd.com/gpu: 2, memory: 900Mi}}
          volumeMounts: [{name: data, mountPath: /in}, {name: keys, mountPath: /keys}]
        volumes:
        - {name: data, persistentVolumeClaim: {claimName: weights}}
        - {name: keys, secret: {secretName: ssh-keys}}
"""
COMPACT = """\
pod:
  gpus: 4
  cpu: {request: 4, limit: 8}
  memory: {request: 16Gi, limit: 64Gi}
  shm: 8Gi
  caches: [models]
  scratch: /scratch
  queue_name: team-a
  secrets: {HF_TOKEN: hf/token}
steps:
- {key: big, command: ./run.sh}
- {key: small, command: ./run.sh, pod: {gpus: 1, memory: 2000Mi, shm: 1Gi}}
- {key: old, command: ./run.sh, pod: {profile: metal}}
"""


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        pytest.param(
            COMPACT,
            {
                "Agents": "`queue=gpu-queue`; `queue=metal`, `gpu=old`",
                "Devices in one pod": "4 × `nvidia.com/gpu`",
                "CPU limit up to": "8",
                "Memory limit up to": "64Gi",
                "Shared memory up to": "8Gi",
                "Images": "`example.com/ci:1` (imported on the node, never pulled)",
                "Directories of the node": "`/data/models`, seen as `/models`; `/data/scratch`, seen as `/scratch`",
                "LocalQueue": "`team-a`",
                "Kubernetes secrets": "`hf`, key `token`, seen as `HF_TOKEN`",
            },
            id="pods in words",
        ),
        pytest.param(
            NATIVE,
            {
                "Agents": "`queue=other`, `arch=arm`",
                "Devices in one pod": "2 × `amd.com/gpu`",
                "Memory limit up to": "900Mi",
                "Images": "`example.com/native@sha256:" + "0" * 64 + "`",
                "RuntimeClass": "`nvidia`",
                "ServiceAccount": "`tester`",
                "PriorityClass": "`urgent`",
                "PersistentVolumeClaim": "`weights`",
                "Kubernetes secrets": "`git-env`, every key a variable; `ssh-keys`, seen as files",
                "Buildkite secrets": "`deploy-token`",
            },
            id="a pod written out",
        ),
    ],
)  # fmt: skip
def test_the_needs_are_those_of_the_pods(spec: str, needs: dict[str, str]) -> None:
    text = page(spec)
    assert table(text, "What it needs") == needs
    assert ("kubectl create secret" in text) is True


def test_a_plain_step_needs_an_agent() -> None:
    text = page("steps:\n- {key: s, command: ./run.sh}\n")
    assert "Nothing beyond an agent." in text
    assert "kubectl" not in text


def test_long_lists_of_steps_are_cut() -> None:
    every = [f"s{number}" for number in range(20)]
    assert said([], every) == "nothing"
    assert said(every, every) == "everything"
    assert said(every[:19], every) == "19 of 20 steps, not `s19`"
    assert said(every[:9], every) == "9 of 20 steps: `s0`, `s1`, `s2`, `s3`, `s4`, `s5` and 3 more"


# -- conditions ----------------------------------------------------------------------------------------------

KNOWN = Settings.model_validate(yaml.safe_load(SETTINGS))


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        pytest.param({}, None, id="nothing is asked for"),
        pytest.param({"branches": ["main"]}, None, id="branches without labels ask for nothing"),
        pytest.param(
            {"labels": ["long"]},
            'build.pull_request.labels includes "run-ci-long" || build.pull_request.labels includes "long" || '
            'build.pull_request.labels includes "run-ci-all" || build.pull_request.labels includes "all" || '
            'build.pull_request.labels includes "weekly-please"',
            id="a label, with and without prefix, the scopes and cadences that grant it",
        ),
        pytest.param({"cadence": ["nightly"]}, "false", id="a cadence that no label asks for"),
        pytest.param(
            {"cadence": ["weekly"], "labels": ["mp"]},
            'build.pull_request.labels includes "weekly-please"',
            id="a cadence that a label asks for",
        ),
    ],
)  # fmt: skip
def test_the_condition_is(when: Mapping[str, object], expected: str | None) -> None:
    assert condition(When.model_validate(when), KNOWN.policy) == expected


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        (["main"], 'build.branch == "main"'),
        (["release/*"], "build.branch =~ /^release\\/.*$/"),
        (["v?.x", "main"], 'build.branch =~ /^v.\\.x$/ || build.branch == "main"'),
        (["v[0-9]"], "build.branch =~ /^v.$/"),
        (["a[b"], "build.branch =~ /^a\\[b$/"),
        (["*", "!wip/*"], "((build.branch =~ /^.*$/) && !(build.branch =~ /^wip\\/.*$/))"),
    ],
)
def test_branches_in_the_condition_are(branches: list[str], expected: str) -> None:
    found = condition(When.model_validate({"labels": ["long"], "branches": branches}), KNOWN.policy)
    assert found is not None
    _, separator, rest = found.partition('"weekly-please" || ')
    assert rest == expected
    assert bool(separator) == bool(expected)


def holds(text: str, labels: list[str], branch: str) -> bool:
    """Buildkite's answer to a condition, as its documentation has it."""
    python = re.sub(r'build\.pull_request\.labels includes ("[^"]*")', r"(\1 in labels)", text)
    python = re.sub(
        r"build\.branch =~ /((?:\\.|[^/])*)/", lambda m: f"bool(re.search({m[1]!r}, branch))", python
    )
    python = python.replace("build.branch", "branch").replace("||", " or ").replace("&&", " and ")
    python = python.replace("!(", " not (").replace("false", "False")
    return bool(eval(python, {"re": re, "labels": labels, "branch": branch}))


_branch = st.sampled_from(["main", "release/1", "wip/x", "v1", "va", "a[b", "feature"])
_patterns = st.lists(
    st.sampled_from(["main", "release/*", "!wip/*", "*", "v[0-9]", "v?", "a[b", "!main", "v[!0-9]"]),
    max_size=3,
).filter(lambda patterns: not patterns or not all(pattern.startswith("!") for pattern in patterns))
_labels = st.lists(
    st.sampled_from(["run-ci-mp", "mp", "run-ci-long", "long", "run-ci-all", "all", "run-ci-small", "small", "weekly-please", "force-ci", "other"]),
    max_size=3,
)  # fmt: skip
_when = st.fixed_dictionaries(
    {
        "labels": st.lists(st.sampled_from(["mp", "long"]), max_size=2),
        "branches": _patterns,
        "cadence": st.sampled_from(
            [["regular"], ["nightly"], ["weekly"], ["nightly", "weekly"], ["regular", "nightly"]]
        ),
    }
)


@given(_when, _labels, _branch, st.booleans())
def test_a_condition_never_holds_back_what_would_be_admitted(
    when: dict[str, list[str]], labels: list[str], branch: str, is_push: bool
) -> None:
    asked = When.model_validate({key: value for key, value in when.items() if value})
    build = Build(
        source="webhook",
        branch=branch,
        pull_request=None if is_push else 1,
        labels=() if is_push else tuple(labels),
    )
    facts = gather(build, KNOWN, (), ChangesNotAsked("all"), Selection())
    admitted = decide(Subject("unit", "pipeline.yml", ((("when",), asked),)), facts).runs
    text = condition(asked, KNOWN.policy)
    if admitted:
        assert text is None or holds(text, list(build.labels), branch)
    if admitted and is_push and when["labels"]:
        assert any(fnmatchcase(branch, pattern) for pattern in when["branches"])


# -- the upload step -----------------------------------------------------------------------------------------

IMAGE = "profiles: {ci: {image: 'example.com/bkgen:7', queue: tools, node_selector: {pool: cpu}}}\nupload_profile: ci\n"
METAL = "profiles: {ci: {pod: false, queue: tools, agents: {os: linux}}}\nupload_profile: ci\n"


def as_suite(text: str, settings: str) -> dict[str, object]:
    """The step of a file to paste, after bkgen read and verified it as the native pipeline that it is."""
    loaded = configuration(settings, pasted=text)
    chosen = select(["pasted"], loaded.suites, forced=True)
    made = generate(loaded, Build(), ChangesNotAsked("it is pasted"), chosen)
    assert [str(one) for one in made.diagnostics] == []
    (step,) = made.pipeline.document()["steps"]
    return step


@pytest.mark.parametrize(
    "settings",
    [SETTINGS, IMAGE, METAL, "version: 1\n"],
    ids=["a queue", "an image", "bare metal", "nothing said"],
)
@pytest.mark.parametrize("suite", [None, "unit"], ids=["all suites", "one suite"])
def test_the_upload_step_passes_every_rule_of_bkgen(settings: str, suite: str | None) -> None:
    loaded = configuration(settings, unit="pod: {gpus: 0}\n")
    text = upload_text(loaded.settings)
    if suite is not None:
        (text,) = re.findall(r"```yaml\n(.*?)```", setup_texts(loaded)["unit"], re.DOTALL)
    step = as_suite(text, settings)
    assert step == upload_step(loaded.settings, suite)
    assert step["command"] == ("bkgen upload" if suite is None else "bkgen upload unit")
    assert {"exit_status": 75, "limit": 2} in step["retry"]["automatic"]


def test_without_a_profile_it_is_the_image_that_the_harness_builds() -> None:
    step = upload_step(Settings.model_validate({"queue": "gpu-queue"}))
    assert step["agents"] == {"queue": "gpu-queue"}
    (plugin,) = step["plugins"]
    spec = plugin["kubernetes"]["podSpec"]
    assert spec == {
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
        "containers": [
            {
                "name": "container-0",
                "image": "bkgen:latest",
                "imagePullPolicy": "Never",
                "resources": {
                    "requests": {"cpu": "500m", "memory": "512Mi"},
                    "limits": {"cpu": "2", "memory": "4Gi"},
                },
            }
        ],
    }
    config = (REPOSITORY / "harness/config.env").read_text()
    assert f"BKGEN_IMAGE:={spec['containers'][0]['image']}" in config
    user = re.search(
        r"^USER (\d+):(\d+)$", (REPOSITORY / "harness/bkgen.Dockerfile").read_text(), re.MULTILINE
    )
    assert user is not None
    assert (int(user[1]), int(user[2])) == (1000, 1000)
    (example,) = re.findall(
        r"```yaml\n(plugins:\n.*?)```", (REPOSITORY / "harness/README.md").read_text(), re.DOTALL
    )
    shown = yaml.safe_load(example)["plugins"][0]["kubernetes"]["podSpec"]
    assert shown["securityContext"] == spec["securityContext"]
    assert shown["containers"][0].items() <= spec["containers"][0].items()


def test_a_profile_decides_on_image_queue_and_placement() -> None:
    loaded = configuration(IMAGE)
    step = upload_step(loaded.settings)
    spec = step["plugins"][0]["kubernetes"]["podSpec"]
    assert step["agents"] == {"queue": "tools"}
    assert spec["containers"][0]["image"] == "example.com/bkgen:7"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert spec["nodeSelector"] == {"pool": "cpu"}
    assert spec["securityContext"]["runAsUser"] == 1000
    assert "it is that of the profile ci" in upload_text(loaded.settings)


def test_a_bare_metal_profile_makes_a_plain_step() -> None:
    loaded = configuration(METAL)
    step = upload_step(loaded.settings)
    assert "plugins" not in step
    assert step["agents"] == {"queue": "tools", "os": "linux"}
    assert "must have bkgen and git on their path" in upload_text(loaded.settings)


def test_a_profile_of_the_upload_step_that_nobody_declares_is_an_error_at_its_place() -> None:
    with pytest.raises(UserError) as caught:
        configuration("profiles: {tools: {}}\nupload_profile: tool\n")
    (found,) = caught.value.diagnostics
    assert str(found).startswith("bkgen.yml:2:17: upload_profile: the profile 'tool' is declared nowhere")
    assert found.hint == "did you mean 'tools'?"


def test_the_example_of_the_documentation_mounts_the_credentials() -> None:
    text = (REPOSITORY / "docs/how-to/new-suite.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    settings = example + "  h200: {gpu_resource: nvidia.com/gpu, image: 'example.com/ci:1'}\n"
    step = as_suite(upload_text(configuration(settings).settings), settings)
    spec = step["plugins"][0]["kubernetes"]["podSpec"]
    assert spec["volumes"] == [{"name": "git", "secret": {"secretName": "buildkite-git-credentials"}}]
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/run/secrets/git"
