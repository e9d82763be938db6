"""The page docs/reference/policy.md: what every kind of build admits, worked out by the program itself.

`docs/generate.py` writes it with the other pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from bkgen.build import Build
from bkgen.decide.policy import REGULAR, cadence_of, resolve_policy
from bkgen.errors import UserError
from bkgen.spec.settings import Settings
from bkgen.spec.when import When
from bkgen.yamlio import load

SETTINGS = """\
policy:
  label_prefix: run-ci-
  labels:
    unit: fast checks
    mp: multiprocess
    megatron: distributed training
    short: up to ten minutes
    long: over thirty minutes
    ft-short: a short fault-tolerance run
    ft-long: a long one
    image-test: tests of the image itself
  cadences:
    nightly: {schedule: true, minus: [long, ft-long]}
    weekly: {}
  scopes:
    all: {}
    image: {minus: [long, ft-short, ft-long]}
"""
EXAMPLE = Settings.model_validate(load(SETTINGS.encode(), "bkgen.yml").value).policy
INTRODUCTION = f"""\
# Labels, cadences and scopes

Whether a suite or step may run in a build at all is decided before anybody looks at the changed files. It
hangs on two things: the build's cadence, and the labels of its pull request. How to use them is on the page
[labels and cadences](../how-to/labels-and-cadences.md).

The labels that count in a build, first line that applies:

1. a scope that subtracts nothing is on the pull request: all labels;
2. the build has a cadence: all labels but the cadence's `minus`;
3. a scope is on the pull request: all labels but the scope's `minus`; of several, the first in the file;
4. otherwise: none.

What the pull request asks for by label is added last, so a request beats every subtraction. A suite without
`when.labels` needs none. A suite with several needs one that counts: that another one was subtracted is no
veto.

The tables below are worked out with these settings:

```yaml
{SETTINGS}```
"""
ADMITTED = """\
## What a build admits

`runs`: a suite with this one label may run. `asked`: it may run if the pull request carries the label itself,
such as `run-ci-long` for `long`; the prefix may be left out. Asking for a label changes nothing in the other
columns.

"""
LISTED = """\
## What `when.cadence` admits

A full cadence runs what is regular, too. So `regular` alone says what is said without it: every build. In a
longer list it stands for the builds without a cadence, and the suite is for the builds of the list only.

"""
CADENCES = """\
## Which cadence a build has

A build that names no cadence is a `regular` one. An unknown name is an error, in every kind of build, because
a nightly build that passes for a regular one loses its suites without a word.

"""


def policy_page() -> str:
    """The page without the note that generated pages begin with."""
    tables = [
        f"\n{ADMITTED}{_table(admitted_rows())}",
        f"\n{LISTED}{_table(listed_rows())}",
        f"\n{CADENCES}{_table(cadence_rows())}",
    ]
    return INTRODUCTION + "".join(tables)


def _table(rows: Iterator[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def scope_sets() -> Iterator[tuple[str, ...]]:
    """No scope, each one, and all of them together."""
    names = list(EXAMPLE.scopes)
    for count in range(len(names) + 1):
        yield from combinations(names, count)


def admitted_rows() -> Iterator[list[str]]:
    """The head, then a row for every cadence and every set of scope labels."""
    yield ["cadence", "scope labels", "none", *(f"`{label}`" for label in EXAMPLE.labels), "why"]
    for cadence in (REGULAR, *EXAMPLE.cadences):
        for scopes in scope_sets():
            on_it = [f"{EXAMPLE.label_prefix}{name}" for name in scopes]
            policy = resolve_policy(cadence, on_it, EXAMPLE)
            cells = ["runs" if label in policy.labels else "asked" for label in EXAMPLE.labels]
            yield [cadence, ", ".join(f"`{name}`" for name in on_it) or "–", "runs", *cells, policy.reason]


LISTS = (
    (),
    (REGULAR,),
    ("nightly",),
    (REGULAR, "nightly"),
    ("nightly", "weekly"),
    (REGULAR, "nightly", "weekly"),
)


def listed_rows() -> Iterator[list[str]]:
    """The head, then a row for every kind of list that `when.cadence` takes."""
    cadences = (REGULAR, *EXAMPLE.cadences)
    yield ["`cadence`", *(f"a {name} build" for name in cadences)]
    for names in LISTS:
        only = (When(cadence=names) if names else When()).only_cadences
        cells = ["runs" if only is None or name in only else "–" for name in cadences]
        yield [f"`[{', '.join(names)}]`" if names else "nothing", *cells]


BUILDS = {
    "a schedule": Build(source="schedule", branch="main"),
    "a push": Build(source="webhook", branch="main"),
    "a pull request": Build(source="webhook", branch="change", pull_request=7),
    "a pull request, built again by hand": Build(source="ui", branch="change", pull_request=7),
    "by hand": Build(source="ui", branch="main"),
    "by the API": Build(source="api", branch="main"),
    "by another pipeline": Build(source="trigger_job", branch="main"),
    "on a laptop": Build(source="local"),
}
NAMED = (None, "nightly", "weekly", "regular", "nigthly")


def cadence_rows() -> Iterator[list[str]]:
    """The head, then a row for every way in which a build is started."""
    yield ["started by", *(f"`BKGEN_CADENCE={name}`" if name else "nothing named" for name in NAMED)]
    for title, build in BUILDS.items():
        yield [title, *(_cadence(build, name) for name in NAMED)]


def _cadence(build: Build, name: str | None) -> str:
    try:
        cadence, warning = cadence_of(build._replace(cadence=name), EXAMPLE)
    except UserError as error:
        return f"error: {error.diagnostics[0].hint}"
    return f"{cadence}, with a warning" if warning else cadence
