"""From flags, environment, git and files to the values that generation takes."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from bkgen.build import Build, Source
from bkgen.changes import SUBMODULE, ChangedFile, Changes, ChangeSet, UnknownChanges, printable
from bkgen.config.load import SETTINGS_FILE, Configuration, load_configuration, load_settings
from bkgen.config.trees import CommitTree, Tree, WorkTree
from bkgen.decide.policy import REGULAR
from bkgen.errors import EnvironmentFailure, UsageError, UserError, did_you_mean
from bkgen.spec.settings import Settings

if TYPE_CHECKING:
    from bkgen.git import Repository


class Flags(NamedTuple):
    """What the command line says about the build."""

    labels: tuple[str, ...] = ()
    source: str | None = None
    cadence: str | None = None
    branch: str | None = None
    base: str | None = None
    changed: tuple[str, ...] = ()


def build_from(flags: Flags, environ: Mapping[str, str]) -> Build:
    """The build of the environment, with every fact that a flag sets replaced."""
    build = Build.from_environ(environ)
    given: dict[str, object] = {}
    if flags.labels:
        given["labels"] = tuple(
            dict.fromkeys(t.strip() for label in flags.labels for t in label.split(",") if t.strip())
        )
    if flags.source is not None:
        given["source"] = cast("Source", flags.source)
    if flags.cadence is not None:
        given["cadence"] = flags.cadence
    if flags.branch is not None:
        given["branch"] = flags.branch
    if flags.base is not None and build.pull_request is not None:
        given["base_branch"] = flags.base
    return build._replace(**given)  # type: ignore[arg-type]


def here() -> Path:
    """The current directory, without symlinks. UserError where it was deleted."""
    try:
        return Path(os.path.realpath(Path.cwd()))
    except FileNotFoundError:
        raise UserError.single(
            "no-directory", "the current directory is gone", "change into the checkout again"
        ) from None


def find_root(directory: Path) -> Path:
    """The repository around `directory`: the nearest folder with `.git`, else with `bkgen.yml`."""
    folders = [directory, *directory.parents]
    for marker in (".git", SETTINGS_FILE):
        for folder in folders:
            if os.path.exists(folder / marker):  # noqa: PTH110 - False, too, where nothing may be read
                return folder
    raise UserError.single(
        "no-repository",
        f"{directory} is in no git repository",
        "run bkgen inside the checkout whose tests it should plan",
    )


class Workspace(NamedTuple):
    """Where this run reads from: the repository's root, its files, and git where it is asked."""

    root: Path
    tree: Tree
    configuration: Configuration
    changes: Changes
    specs_from: str | None = None


def offline_workspace(root: Path) -> tuple[Tree, Configuration]:
    """The files on disk alone; git is not asked."""
    tree = WorkTree(root)
    return tree, load_configuration(tree)


def named_workspace(
    build: Build, flags: Flags, environ: Mapping[str, str]
) -> tuple[Configuration, str | None]:
    """The configuration alone, and the commit it is read from where the build is a fork's.

    For what is shown whatever changed: outside a fork's build git is not asked. UserError, UsageError for
    an unknown `--cadence`, EnvironmentFailure where a fork's base is not known.
    """
    directory = here()
    commit = None
    if build.is_fork:
        from bkgen.git import Repository

        repository = Repository.open(directory, environ=environ)
        _, configuration, commit = _fork_configuration(repository, build, WorkTree(repository.root))
    else:
        _, configuration = offline_workspace(find_root(directory))
    _refuse_cadence(flags, configuration.settings)
    return configuration, commit


def workspace(
    build: Build, flags: Flags, environ: Mapping[str, str], say_progress: object = None
) -> Workspace:
    """Configuration and changes of `build`. UserError, UsageError for wrong flags, EnvironmentFailure."""
    space = _workspace(build, flags, environ, say_progress)
    _refuse_cadence(flags, space.configuration.settings)
    return space


def _refuse_cadence(flags: Flags, settings: Settings) -> None:
    known = {REGULAR, *settings.policy.cadences}
    if flags.cadence is not None and flags.cadence not in known:
        raise UsageError(
            f"--cadence '{printable(flags.cadence)}' is no cadence that {SETTINGS_FILE} declares",
            did_you_mean(flags.cadence, known, what="declared"),
        )


def _workspace(build: Build, flags: Flags, environ: Mapping[str, str], say_progress: object) -> Workspace:
    directory = here()
    if flags.changed and not build.is_fork:
        root = find_root(directory)
        tree: Tree = WorkTree(root)
        return Workspace(root, tree, load_configuration(tree), listed_changes(flags.changed, root, directory))
    from bkgen.git import Repository

    try:
        repository = Repository.open(directory, environ=environ)
    except (UserError, EnvironmentFailure) as error:
        if build.is_fork:
            raise
        # A checkout that git refuses (another owner's, say) is a doubt like any other: it runs.
        return _without_git(find_root(directory), f"git cannot read this checkout: {error}")
    tree, specs_from = WorkTree(repository.root), None
    if build.is_fork:
        tree, configuration, specs_from = _fork_configuration(repository, build, tree)
    else:
        configuration = load_configuration(tree)
    settings = configuration.settings
    if flags.changed:
        listed = listed_changes(flags.changed, repository.root, directory)
        return Workspace(repository.root, tree, configuration, listed, specs_from)
    changes = repository.changes(
        build,
        default_branch=build.default_branch or settings.default_branch,
        push_base=settings.filter.push_base,
        base=flags.base,
        progress=say_progress,  # type: ignore[arg-type]
    )
    # In Buildkite a base that is missing is a doubt, and runs; on a laptop it is a slip of the hand.
    slip = flags.base is not None and build.is_local and isinstance(changes, UnknownChanges)
    if slip and not repository.has_commit(str(flags.base)):
        raise UsageError(
            f"--base '{printable(str(flags.base))}' names no commit here",
            "git branch --all lists the branches there are; git fetch brings others",
        )
    return Workspace(repository.root, tree, configuration, changes, specs_from)


def _without_git(root: Path, reason: str) -> Workspace:
    tree = WorkTree(root)
    return Workspace(root, tree, load_configuration(tree), UnknownChanges(" ".join(reason.split())))


def _fork_configuration(
    repository: "Repository", build: Build, checkout: Tree
) -> tuple[Tree, Configuration, str | None]:
    """What a fork's base commit says, and that commit; the fork's own words where the base trusts them.

    The question is put to the base's settings: a fork must not answer it for itself.
    """
    branch = build.default_branch or "main"
    base = repository.base_commit(build, default_branch=branch)
    if isinstance(base, UnknownChanges):
        raise EnvironmentFailure(
            f"the base commit of this fork's pull request is not known: {base.reason}",
            "its specs cannot be trusted, so nothing is uploaded; retry when the base can be fetched",
        )
    settings = load_settings(
        CommitTree(repository.read_tree(base, [SETTINGS_FILE]), {SETTINGS_FILE: "100644"})
    )
    if settings.forks.specs == "head":
        return checkout, _guarded(load_configuration(checkout), settings), None
    paths = [SETTINGS_FILE, settings.tests_dir]
    tree = CommitTree(repository.read_tree(base, paths), repository.tree_modes(base, paths))
    return tree, load_configuration(tree), base


def _guarded(configuration: Configuration, base: Settings) -> Configuration:
    # Suites may be the fork's; what a fork may do, and which host paths there are, never is.
    rails = {"forks": base.forks, "host_paths": base.host_paths}
    return configuration._replace(settings=configuration.settings.model_copy(update=rails))


def _below_root(path: str, root: Path, directory: Path) -> str:
    # They need not exist; where one does, it tells which folder is meant.
    folder = Path(os.path.realpath(directory / Path(path).parent))
    from_here = os.path.relpath(folder / Path(path).name, root)
    exists = os.path.exists(directory / path) and not os.path.exists(root / path)  # noqa: PTH110
    is_meant = path.startswith("/") or (exists and not from_here.startswith(".."))
    below = from_here if is_meant else os.path.normpath(path)
    if not path or below in {".", ".."} or below.startswith("../"):
        raise UsageError(f"--changed '{path}' is no file of the repository", "name files below its root")
    return below


def _listed(path: str, root: Path, directory: Path) -> ChangedFile:
    below = _below_root(path, root, directory)
    place = root / below
    if os.path.exists(place / ".git"):  # noqa: PTH110 - False, too, where nothing may be read
        return ChangedFile(below, "M", SUBMODULE, SUBMODULE)
    # A symlink is one file for git, wherever it leads.
    if path.endswith("/") or (os.path.isdir(place) and not os.path.islink(place)):  # noqa: PTH112, PTH114
        raise UsageError(
            f"--changed '{printable(path)}' is a directory, and only files change",
            f"name files; for all that git knows below it: --changed $(git ls-files {shlex.quote(path)})",
        )
    return ChangedFile(below, "M")


def listed_changes(paths: tuple[str, ...], root: Path, directory: Path) -> Changes:
    """`--changed`: these files and no others, given relative to the root or to the current folder.

    A submodule is one, too. UsageError for a directory and for what lies outside the repository.
    """
    files = [_listed(path, root, directory) for path in paths]
    return ChangeSet(tuple(dict.fromkeys(files)), "--changed", "--changed", "the files given with --changed")
