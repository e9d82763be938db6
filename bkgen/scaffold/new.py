"""`bkgen new`: the directory of a new suite, with every file or not at all."""

from __future__ import annotations

import errno
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bkgen.build import Build
from bkgen.changes import ChangesNotAsked
from bkgen.config.load import SUITE_NAME_RULE, Configuration, is_suite_name, load_configuration
from bkgen.config.trees import DIRECTORY, EXECUTABLE, REGULAR, Tree
from bkgen.errors import Position, UsageError, UserError, did_you_mean
from bkgen.generate.phases import generate, select
from bkgen.scaffold.docs import setup_texts
from bkgen.scaffold.files import new_mode, sync_directory, translated, write_whole
from bkgen.scaffold.setup import FILE
from bkgen.spec.settings import Profile, Settings
from bkgen.templates import render

HARNESS = "harness/setup-env.sh"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for; `gpus` None: one, where the default profile has any."""

    name: str
    gpus: int | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class With:
    """A tree with the files of one more directory."""

    tree: Tree
    directory: str
    files: Mapping[str, str]

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file, or None where there is none."""
        folder, _, name = path.rpartition("/")
        added = self.files.get(name) if folder == self.directory else None
        return added.encode() if added is not None else self.tree.read(path)

    def entries(self, directory: str) -> dict[str, str]:
        """The names directly in `directory` with their modes."""
        if directory == self.directory:
            return {name: EXECUTABLE if name.endswith(".sh") else REGULAR for name in self.files}
        found = self.tree.entries(directory)
        parent, _, name = self.directory.rpartition("/")
        return dict(sorted({**found, name: DIRECTORY}.items())) if directory == parent else found


def new_suite(tree: Tree, configuration: Configuration, wanted: Wanted) -> dict[str, str]:
    """The files of the new suite by name, verified in the repository as it is.

    UsageError for a name, label or number of GPUs that cannot be; UserError for what clashes.
    """
    settings = configuration.settings
    if not is_suite_name(wanted.name):
        raise UsageError(f"'{wanted.name}' cannot be a suite's name", SUITE_NAME_RULE)
    directory = f"{settings.tests_dir}/{wanted.name}"
    if wanted.name in tree.entries(settings.tests_dir):
        raise _taken(directory)
    labels = _labels(wanted.labels, settings)
    profile = settings.profiles[settings.profile_name]
    gpus = _gpus(wanted.gpus, settings.profile_name, profile)
    has_harness = tree.read(HARNESS) is not None
    has_image = not profile.pod or profile.image is not None
    pod = _pod(gpus, profile)
    files = _texts(wanted.name, directory, labels, pod, gpus, harness=has_harness, image=has_image)
    added = load_configuration(With(tree, directory, files))
    generate(added, Build(), ChangesNotAsked("it is new"), select([wanted.name], added.suites, forced=True))
    return {**files, FILE: setup_texts(added, [wanted.name])[wanted.name]}


def _taken(directory: str) -> UserError:
    hint = "take another name; `bkgen docs` keeps the page of a suite that is there up to date"
    return UserError.single("new-exists", "this is here already", hint, position=Position(directory))


def _labels(given: Iterable[str], settings: Settings) -> list[str]:
    policy = settings.policy
    split = (label.strip() for text in given for label in text.split(","))
    names = list(dict.fromkeys(label.removeprefix(policy.label_prefix) for label in split if label))
    for name in names:
        if name not in policy.labels:
            raise UsageError(
                f"the label '{name}' is declared nowhere in the settings",
                did_you_mean(
                    name, policy.labels, what="declared", none="declare it in bkgen.yml: policy.labels"
                ),
            )
    return names


def _gpus(given: int | None, name: str, profile: Profile) -> int:
    has_gpus = not profile.pod or profile.gpu_resource is not None or profile.claim_template is not None
    gpus = int(has_gpus) if given is None else given
    if gpus and not has_gpus:
        raise UsageError(
            f"the profile '{name}' has no GPUs", "say --gpus 0, or make another profile the default_profile"
        )
    if profile.gpus_per_node is not None and gpus > profile.gpus_per_node:
        raise UsageError(
            f"a node of the profile '{name}' has {profile.gpus_per_node} GPUs, not {gpus}",
            "a pod runs on one node; ask for fewer",
        )
    return gpus


def _pod(gpus: int, profile: Profile) -> dict[str, str]:
    """The pod in words: what the profile does not say already, by the number of GPUs."""
    if not profile.pod:
        return {"gpus": str(gpus)} if gpus else {}
    share = max(gpus, 1)
    pod = {"gpus": str(gpus)}
    if profile.cpu is None:
        pod["cpu"] = f"{{request: {4 * share}, limit: {8 * share}}}" if gpus else "{request: 1, limit: 4}"
    if profile.memory is None:
        pod["memory"] = (
            f"{{request: {32 * share}Gi, limit: {64 * share}Gi}}" if gpus else "{request: 2Gi, limit: 8Gi}"
        )
    if profile.shm is None:
        pod["shm"] = f"{8 * share}Gi" if gpus else "1Gi"
    return pod


def _texts(
    name: str,
    directory: str,
    labels: Sequence[str],
    pod: Mapping[str, str],
    gpus: int,
    *,
    harness: bool,
    image: bool,
) -> dict[str, str]:
    on = "without a GPU" if not gpus else f"on {gpus} GPU{'s' if gpus > 1 else ''}"
    values = {
        "name": name,
        "directory": directory,
        "up": "/".join([".."] * (directory.count("/") + 1)),
        "description": f"One step {on}.",
        "label": f'":test_tube: {name}"',
        "labels": f"[{', '.join(map(_flow_text, labels))}]" if labels else "",
        "pod": pod,
        "gpus": gpus,
        "harness": harness,
        "image": image,
    }
    return {file: render(f"new/{file}.j2", **values) for file in ("pipeline.yml", "run.sh")}


def _flow_text(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", text) else json.dumps(text, ensure_ascii=False)


def write_suite(root: Path, directory: str, files: Mapping[str, str]) -> None:
    """The directory with its files in one move. UserError where that may not be written."""
    place = root / directory
    with translated(directory):
        place.parent.mkdir(parents=True, exist_ok=True)
        # Its name begins with a dot: to bkgen it is no suite while it is being filled.
        made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".tmp", dir=place.parent))
        try:
            for name, text in files.items():
                write_whole(made / name, text.encode(), new_mode(0o777 if name.endswith(".sh") else 0o666))
            made.chmod(new_mode(0o777))
            made.rename(place)
        except BaseException as error:
            shutil.rmtree(made, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                # Somebody else was quicker.
                raise _taken(directory) from None
            raise
        sync_directory(place.parent)
