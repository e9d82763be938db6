"""Pull requests of forks, end to end: what they say is data, and what runs is the base's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bkrun import SETTINGS, THREE, Cli, Result, pull_request_environ, suite, unit_pipeline
from gitrepo import Content, Link, PullRequest, clone
from gitrepo import repository as new_repository

pytestmark = pytest.mark.slow

FORK = {
    "BUILDKITE_BRANCH": "someone:feature",
    "BUILDKITE_PULL_REQUEST_REPO": "https://example.invalid/someone/upstream.git",
}
TOUCH = {".buildkite/pipeline.yml": "steps: [wait]\n"}
"""A change that runs every suite, so that every suite's bytes are seen."""
SECRET = "{HF_TOKEN: huggingface/token}"


def pod(more: str, when: str = "") -> str:
    """The pipeline of one GPU step whose pod says `more`."""
    return when + unit_pipeline().replace("gpus: 1", f"gpus: 1, {more}")


def build(cli: Cli, made: PullRequest, *arguments: str, **more: str) -> Result:
    """`bkgen …` in the build of the fork's pull request."""
    return cli.run(made.checkout.path, *arguments, environ=pull_request_environ(made, **{**FORK, **more}))


def pull_request(path: Path, files: Mapping[str, Content]) -> PullRequest:
    """A pull request that makes the change TOUCH to `files`; its base has gone on since."""
    upstream = new_repository(path / "upstream", files=files)
    upstream.branch("feature")
    upstream.commit(TOUCH)
    upstream.switch("main")
    upstream.commit({"lib/other.py": "other = 2\n"})
    return PullRequest(upstream, clone(upstream, path / "checkout", revision="feature"), "main")


def with_change(made: PullRequest, path: Path, change: Mapping[str, Content]) -> PullRequest:
    """The pull request with one commit more, in a checkout of its own."""
    checkout = made.checkout.copy(path / "checkout")
    checkout.commit(change)
    return PullRequest(made.upstream, checkout, made.base)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> PullRequest:
    """Three suites that every fork may run."""
    return pull_request(tmp_path_factory.mktemp("usual"), THREE)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> PullRequest:
    """Suites that no fork may run, beside the usual three."""
    return pull_request(tmp_path_factory.mktemp("strict"), repository(NOT_FOR_FORKS))


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> PullRequest:
    """A base that takes the suites of forks."""
    return pull_request(tmp_path_factory.mktemp("trusting"), repository({}, "forks: {specs: head}\n"))


def verdicts(result: Result) -> dict[str, str]:
    """`{"alpha": "SKIP not-admitted"}` of `plan --json`."""
    assert result.code == 0, result.err
    found = {suite["suite"]: suite["decision"] for suite in result.json()["suites"]}
    return {name: f"{decision['verdict']} {decision['rule']}" for name, decision in found.items()}


# -- a fork's own words change nothing -----------------------------------------------------------------------

EVIL: dict[str, Mapping[str, Content]] = {
    "privileged pods": {"k3_tests/gamma/pipeline.yml": pod("privileged: true, docker: true")},
    "another command": {"k3_tests/alpha/pipeline.yml": unit_pipeline("src/**").replace("./run.sh", "evil")},
    "settings that allow everything": {
        "bkgen.yml": SETTINGS
        + "forks: {specs: head, privileged: true, secrets: true}\nhost_paths: [/**]\nqueue: other\n",
        "k3_tests/gamma/pipeline.yml": pod(f"privileged: true, secrets: {SECRET}"),
    },
    "settings that move the suites": {
        "bkgen.yml": "tests_dir: mine\n",
        **suite("gamma", pod("privileged: true"), "mine"),
    },
    "settings taken away": {"bkgen.yml": None},
    "a suite taken away": {"k3_tests/gamma/pipeline.yml": None, "k3_tests/gamma/run.sh": None},
    "a suite of its own": suite("mine", pod("privileged: true")),
    "a suite that is a link": {"k3_tests/gamma/pipeline.yml": Link("/etc/hostname")},
    "files that cannot be read": {
        "bkgen.yml": "version: [\n",
        "k3_tests/gamma/pipeline.yml": "steps: {{ }}\n",
    },
    "templates": {
        "templates/annotation.md.j2": "{{ ''.__class__ }}\n",
        "bkgen/_templates/annotation.md.j2": "evil\n",
    },
}


@pytest.mark.parametrize("change", EVIL.values(), ids=EVIL)
def test_a_fork_that_changes_its_own_files_gets_the_bytes_of_the_base(
    cli: Cli, usual: PullRequest, tmp_path: Path, change: Mapping[str, Content]
) -> None:
    made = with_change(usual, tmp_path, change)
    result = build(cli, made, "upload", "--dry-run", "--json")
    assert result.code == 0, result.err
    base = cli.run(made.upstream.path, "render", "alpha", "beta", "gamma", "--json")
    assert base.code == 0, base.err
    assert result.out == base.out


def test_a_forks_build_renders_the_pod_of_the_base(cli: Cli, usual: PullRequest, tmp_path: Path) -> None:
    made = with_change(usual, tmp_path, EVIL["privileged pods"])
    result = build(cli, made, "render", "gamma", "--json")
    assert result.code == 0, result.err
    assert "those of the base commit" in result.err
    assert result.out == cli.run(made.upstream.path, "render", "gamma", "--json").out
    away = build(cli, made, "render", "gamma", BUILDKITE_PULL_REQUEST_BASE_BRANCH="gone")
    assert (away.code, away.out) == (75, "")


def test_the_same_change_by_a_member_is_rendered(cli: Cli, usual: PullRequest, tmp_path: Path) -> None:
    made = with_change(usual, tmp_path, {"k3_tests/gamma/pipeline.yml": pod("privileged: true")})
    environ = pull_request_environ(made)
    result = cli.run(made.checkout.path, "upload", "--dry-run", "--json", environ=environ)
    assert '"privileged":true' in result.out.replace(" ", "")


@pytest.mark.slow
def test_the_log_tells_which_commit_the_suites_of_a_fork_come_from(cli: Cli, usual: PullRequest) -> None:
    result = build(cli, usual, "upload")
    assert result.code == 0, result.err
    assert cli.agent.keys() == {"alpha", "beta", "gamma"}
    base = usual.upstream.git("merge-base", "main", "feature")
    assert f"settings and suites are those of the base commit {base[:12]}" in result.err


NO_PULL_REQUEST = {
    "BUILDKITE_PULL_REQUEST": "false",
    "BUILDKITE_PULL_REQUEST_REPO": "",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "",
}


@pytest.mark.parametrize(
    "facts",
    [
        {"BUILDKITE_PULL_REQUEST_REPO": ""},
        {"BUILDKITE_BRANCH": "feature"},
        {"BUILDKITE_SOURCE": "ui"},
        {"BUILDKITE_SOURCE": "api", "BUILDKITE_RETRY_COUNT": "1"},
        {**NO_PULL_REQUEST, "BUILDKITE_SOURCE": "ui"},
        NO_PULL_REQUEST,
    ],
    ids=[
        "known by its branch", "known by its repository", "built again by hand", "built by the API",
        "a branch built by hand", "a branch that was pushed",
    ],
)  # fmt: skip
def test_a_fork_is_known_however_its_build_was_started(
    cli: Cli, usual: PullRequest, tmp_path: Path, facts: dict[str, str]
) -> None:
    made = with_change(usual, tmp_path, {"bkgen.yml": "version: [\n"})
    result = build(cli, made, "plan", "--json", **facts)
    assert set(verdicts(result)) == {"alpha", "beta", "gamma"}
    assert result.json()["build"]["is_fork"] is True


def test_a_forks_branch_without_a_pull_request_is_not_judged_by_its_own_last_commit(
    cli: Cli, usual: PullRequest, tmp_path: Path
) -> None:
    made = with_change(usual, tmp_path, {"k3_tests/gamma/pipeline.yml": pod("privileged: true")})
    made.checkout.commit({"docs/guide.md": "more\n"})
    result = build(cli, made, "upload", "--dry-run", "--json", **NO_PULL_REQUEST)
    assert result.code == 0, result.err
    assert "privileged" not in result.out


def test_files_named_by_hand_do_not_make_a_forks_specs_trusted(
    cli: Cli, usual: PullRequest, tmp_path: Path
) -> None:
    made = with_change(usual, tmp_path, {"k3_tests/gamma/pipeline.yml": pod("privileged: true")})
    result = build(cli, made, "upload", "--dry-run", "--json", "--changed", "newdir/x.py")
    assert result.code == 0, result.err
    assert "privileged" not in result.out
    assert "those of the base commit" in result.err


@pytest.mark.parametrize("command", ["upload", "plan"])
def test_a_base_that_cannot_be_reached_is_worth_a_retry_and_nothing_goes_up(
    cli: Cli, usual: PullRequest, command: str
) -> None:
    result = build(cli, usual, command, BUILDKITE_PULL_REQUEST_BASE_BRANCH="gone")
    assert result.code == 75
    assert "the base commit of this fork's pull request is not known" in result.err
    assert "gone" in result.err
    assert cli.agent.uploads == []


# -- what the base itself may not give a fork ----------------------------------------------------------------

NOT_FOR_FORKS = {
    "privileged": pod("privileged: true"),
    "docker": pod("docker: true"),
    "secret": pod(f"secrets: {SECRET}"),
    "mounted": pod("mounts: [{name: creds, mount_path: /creds, secret: deploy-key}]"),
    "network": pod("spec: {hostNetwork: true}"),
    "strong": pod(
        "spec: {containers: [{name: container-0, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]}"
    ),
    "native": "steps: [{command: ./run.sh, secrets: [DEPLOY_KEY]}]\n",
    "account": pod("service_account: ci-deploy"),
}
REFUSALS = {
    "privileged": "may not have a privileged container",
    "docker": "may not have the docker socket",
    "secret": "may not read a secret",
    "mounted": "may not read a secret",
    "network": "may not have hostNetwork",
    "strong": "may not have the capability SYS_ADMIN",
    "native": "may not use secrets",
    "account": "may not have another service account",
}


def repository(suites: Mapping[str, str], settings: str = "") -> dict[str, Content]:
    files: dict[str, Content] = {**THREE, "bkgen.yml": SETTINGS + settings}
    for name, pipeline in suites.items():
        files |= suite(name, pipeline)
    return files


def test_what_a_fork_may_not_have_is_refused_all_at_once_with_place_and_remedy(
    cli: Cli, strict: PullRequest
) -> None:
    result = build(cli, strict, "upload")
    assert result.code == 1
    for name, refusal in REFUSALS.items():
        told = [line for line in result.err.splitlines() if line.startswith(f"k3_tests/{name}/pipeline.yml:")]
        assert any(refusal in line for line in told), (name, result.err)
    assert result.err.count("when: {forks: false}") >= len(NOT_FOR_FORKS)
    assert cli.agent.uploads == []
    (body,) = cli.agent.annotations.values()
    assert body.startswith("error")
    assert "privileged container" in body


def test_a_member_gets_what_a_fork_is_refused(cli: Cli, strict: PullRequest) -> None:
    environ = pull_request_environ(strict)
    assert cli.run(strict.checkout.path, "upload", "--dry-run", environ=environ).code == 0


def test_the_base_may_allow_it(cli: Cli) -> None:
    allowed = repository(NOT_FOR_FORKS, "forks: {privileged: true, secrets: true}\n")
    made = cli.pull_request(TOUCH, allowed)
    result = build(cli, made, "upload", "--dry-run", "--json")
    assert result.code == 0, result.err
    assert set(NOT_FOR_FORKS) <= {step["key"] for step in result.json()["steps"]}


def test_privileges_and_secrets_are_allowed_apart(cli: Cli) -> None:
    made = cli.pull_request(TOUCH, repository(NOT_FOR_FORKS, "forks: {secrets: true}\n"))
    result = build(cli, made, "upload", "--dry-run")
    assert result.code == 1
    assert "may not have a privileged container" in result.err
    assert "secret" not in result.err.replace("k3_tests/secret", "")


def test_a_suite_that_says_it_is_not_for_forks_is_skipped_and_stops_nothing(cli: Cli) -> None:
    suites = {name: f"when: {{forks: false}}\n{pipeline}" for name, pipeline in NOT_FOR_FORKS.items()}
    made = cli.pull_request(TOUCH, repository(suites))
    result = build(cli, made, "upload", "--dry-run", "--json")
    assert result.code == 0, result.err
    assert {step["key"] for step in result.json()["steps"]} == {"alpha", "beta", "gamma"}
    assert result.err.count("it is not for the pull requests of forks") == len(NOT_FOR_FORKS)


def test_only_what_the_build_selects_is_held_against_the_fork(cli: Cli) -> None:
    suites = {"secret": "when: {paths: [deploy/**]}\n" + NOT_FOR_FORKS["secret"]}
    made = cli.pull_request({"src/core.py": "core = 2\n"}, repository(suites))
    result = build(cli, made, "upload", "--dry-run", "--json")
    assert result.code == 0, result.err
    assert {step["key"] for step in result.json()["steps"]} == {"alpha", "gamma"}


def test_one_step_alone_can_be_kept_from_forks(cli: Cli) -> None:
    steps = (
        "steps:\n- {key: test, command: ./run.sh}\n"
        "- {key: publish, command: ./run.sh, secrets: [DEPLOY_KEY], when: {forks: false}}\n"
        "- {key: report, command: ./run.sh, depends_on: publish}\n"
    )
    made = cli.pull_request(TOUCH, repository({"deploy": steps}))
    result = build(cli, made, "plan", "--json")
    (deploy,) = [one for one in result.json()["suites"] if one["suite"] == "deploy"]
    found = {step["key"]: step["decision"]["rule"] for step in deploy["steps"]}
    assert found == {"test": "force-run", "publish": "not-admitted", "report": "dependency-refused"}


def test_a_foreign_host_path_is_refused_to_everybody(cli: Cli) -> None:
    mount = pod("mounts: [{name: root, mount_path: /host, host_path: /etc, type: Directory}]")
    made = cli.pull_request(TOUCH, repository({"host": mount}))
    for facts in (FORK, {}):
        result = cli.run(
            made.checkout.path, "upload", "--dry-run", environ=pull_request_environ(made, **facts)
        )
        assert result.code == 1
        assert "'/etc' is not in the settings' host_paths" in result.err


def test_settings_can_keep_forks_out_and_a_suite_can_let_them_in(cli: Cli) -> None:
    suites = {"open": "when: {forks: true}\n" + unit_pipeline()}
    made = cli.pull_request(TOUCH, repository(suites, "forks: {run: false}\n"))
    found = build(cli, made, "plan", "--json")
    assert verdicts(found) == {
        "alpha": "SKIP not-admitted",
        "beta": "SKIP not-admitted",
        "gamma": "SKIP not-admitted",
        "open": "RUN force-run",
    }
    decisions: dict[str, Any] = {one["suite"]: one["decision"] for one in found.json()["suites"]}
    assert "forks: true" in decisions["alpha"]["remedy"]


def test_a_label_does_not_let_a_fork_in(cli: Cli) -> None:
    made = cli.pull_request(TOUCH, repository({}, "forks: {run: false}\n"))
    labels = "force-ci,run-ci-all,run-ci-mp"
    found = verdicts(build(cli, made, "plan", "--json", BUILDKITE_PULL_REQUEST_LABELS=labels))
    assert set(found.values()) == {"SKIP not-admitted"}


# -- specs: head ---------------------------------------------------------------------------------------------


def test_a_base_that_trusts_forks_takes_their_suites(cli: Cli, trusting: PullRequest, tmp_path: Path) -> None:
    change = {"k3_tests/gamma/pipeline.yml": unit_pipeline().replace("gpus: 1", "gpus: 8")}
    made = with_change(trusting, tmp_path, change)
    result = build(cli, made, "upload", "--dry-run", "--json")
    assert result.code == 0, result.err
    assert '"nvidia.com/gpu":"8"' in result.out.replace(" ", "")


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("privileged: true", "may not have a privileged container"),
        (f"secrets: {SECRET}", "may not read a secret"),
        (
            "mounts: [{name: root, mount_path: /host, host_path: /etc, type: Directory}]",
            "'/etc' is not in the settings' host_paths",
        ),
    ],
    ids=["privileged", "secrets", "host paths"],
)
def test_a_trusted_fork_still_cannot_say_what_forks_may_do(
    cli: Cli, trusting: PullRequest, tmp_path: Path, word: str, refusal: str
) -> None:
    change = {
        "k3_tests/gamma/pipeline.yml": pod(word),
        "bkgen.yml": SETTINGS + "forks: {specs: head, privileged: true, secrets: true}\nhost_paths: [/**]\n",
    }
    made = with_change(trusting, tmp_path, change)
    result = build(cli, made, "upload", "--dry-run")
    assert result.code == 1
    assert refusal in result.err
