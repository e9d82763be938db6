"""The parts of a Buildkite pipeline that are passed on as they are: checked, and still plain dicts.

Source: Buildkite's step reference and its published pipeline schema.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Tag, WithJsonSchema
from pydantic.types import Discriminator
from typing_extensions import Required, TypedDict

from bkgen.errors import nearest
from bkgen.scalars import Plain, described, natural
from bkgen.spec.types import Anything, Boolean, Env, Integer, Lazily, Positive, Text, TextList

_CLOSED = ConfigDict(extra="forbid")


def kind_of(value: object) -> str:
    """The tag of a value in a union by shape: `map`, `list`, `text` or `other`."""
    if isinstance(value, dict):
        return "map"
    if isinstance(value, list):
        return "list"
    return "text" if isinstance(value, str) else "other"


class Dependency(TypedDict, total=False):
    """`{step, allow_failure}` of `depends_on`."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    step: Text
    """The key of the step."""
    allow_failure: Boolean
    """Start even if it failed."""


DependsOnItem = Annotated[
    Annotated[Text, Tag("text")] | Annotated[Dependency, Tag("map")], Discriminator(kind_of)
]
_DependsOn = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[list[DependsOnItem], Tag("list")]
    | Annotated[None, Tag("other")],
    Discriminator(kind_of),
]


def _tag(value: str) -> str:
    if "=" not in value:
        raise ValueError(f"a tag is written key=value, not '{value}'")
    return value


_Agents = Annotated[
    Annotated[dict[str, Text], Tag("map")]
    | Annotated[list[Annotated[Text, AfterValidator(_tag)]], Tag("list")],
    Discriminator(kind_of),
]


ExitStatus = Annotated[
    Annotated[Literal["*"], Tag("star")]
    | Annotated[list[Annotated[Integer, Field(ge=-10, le=255)]], Tag("list")]
    | Annotated[Annotated[Integer, Field(ge=-10, le=255)], Tag("number")],
    Discriminator(lambda v: "star" if v == "*" else ("list" if isinstance(v, list) else "number")),
]

SignalReason = Literal[
    "*", "none", "agent_incompatible", "agent_refused", "agent_stop", "cancel", "process_run_error",
    "signature_rejected", "stack_error",
]  # fmt: skip


class AutomaticRetry(TypedDict, total=False):
    """One rule of `retry.automatic`; its conditions are joined by AND, the first rule that matches wins."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    exit_status: ExitStatus
    """The status, or several; `*` for every one but -1, the lost agent's."""
    limit: Annotated[Integer, Field(ge=0, le=10)]
    """How often it is tried again."""
    signal: Text
    """The signal that ended the job."""
    signal_reason: SignalReason
    """Why the job was ended, in the agent's or controller's word."""


class ManualRetry(TypedDict, total=False):
    """`retry.manual`."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    allowed: Boolean
    """May somebody retry the job?"""
    permit_on_passed: Boolean
    """May a job that passed be retried?"""
    reason: Text
    """Why it may not be retried."""


class NativeRetry(TypedDict, total=False):
    """Buildkite's own form of `retry`."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    automatic: Annotated[
        Annotated[AutomaticRetry, Tag("map")]
        | Annotated[list[AutomaticRetry], Tag("list")]
        | Annotated[Boolean, Tag("text")]
        | Annotated[Boolean, Tag("other")],
        Discriminator(kind_of),
    ]
    """Rules by which Buildkite tries again; true for its default."""
    manual: Annotated[
        Annotated[ManualRetry, Tag("map")]
        | Annotated[Boolean, Tag("text")]
        | Annotated[Boolean, Tag("other")],
        Discriminator(kind_of),
    ]
    """Whether somebody may retry the job."""


class SoftFailRule(TypedDict, total=False):
    """One entry of `soft_fail`."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    exit_status: ExitStatus
    """A status that does not fail the build, or `*`."""


_SoftFail = Annotated[
    Annotated[list[SoftFailRule], Tag("list")]
    | Annotated[Boolean, Tag("text")]
    | Annotated[Boolean, Tag("other")],
    Discriminator(lambda v: "other" if isinstance(v, dict) else kind_of(v)),
]


def _skip(value: object) -> object:
    if not isinstance(value, str):
        return value
    if type(value) is Plain:
        meant = natural(value)
        # `no`, `off` or `0` would be taken for a reason, and the step would be left out.
        if type(meant) in {int, float} or meant in _ODD_BOOLEANS:
            raise ValueError(f"true, false or a reason in words is wanted, not '{value}'")
        return meant
    return {"true": True, "false": False}.get(value, value)


_ODD_BOOLEANS = frozenset(
    spelt
    for word in ("on", "off", "yes", "no", "y", "n")
    for spelt in (word, word.capitalize(), word.upper())
)


_Skip = Annotated[bool | Annotated[str, Field(max_length=70)], BeforeValidator(_skip)]


def _matrix_element(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"a matrix element is text, a number or a boolean, not {described(value)}")
    return value


MatrixElement = Annotated[
    str, BeforeValidator(_matrix_element), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
"""The agent turns every element into text, so the text that was written is what it gets."""


Adjustment = TypedDict(
    "Adjustment",
    {
        "with": Required[
            Annotated[
                Annotated[dict[str, MatrixElement], Tag("map")]
                | Annotated[list[MatrixElement], Tag("list")]
                | Annotated[MatrixElement, Tag("text")],
                Discriminator(kind_of),
            ]
        ],
        "skip": _Skip,
        "soft_fail": _SoftFail,
        "env": Env,
    },
    total=False,
)
Adjustment.__pydantic_config__ = _CLOSED  # type: ignore[attr-defined]


class MatrixSetup(TypedDict, total=False):
    """`matrix` with `setup` and `adjustments`."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    setup: Required[
        Annotated[
            Annotated[dict[str, list[MatrixElement]], Tag("map")]
            | Annotated[list[MatrixElement], Tag("list")],
            Discriminator(kind_of),
        ]
    ]
    """The elements, or the elements of each dimension."""
    adjustments: list[Adjustment]
    """Combinations to add, skip or change."""


_Matrix = Annotated[
    Annotated[MatrixSetup, Tag("map")] | Annotated[list[MatrixElement], Field(min_length=1), Tag("list")],
    Discriminator(kind_of),
]

_Plugins = Annotated[
    Annotated[
        list[
            Annotated[
                Annotated[Text, Tag("text")] | Annotated[dict[str, Anything], Tag("map")],
                Discriminator(kind_of),
            ]
        ],
        Tag("list"),
    ]
    | Annotated[dict[str, Anything], Tag("map")],
    Discriminator(kind_of),
]

_Secrets = Annotated[
    Annotated[list[Text], Tag("list")] | Annotated[dict[str, Text], Tag("map")], Discriminator(kind_of)
]


class CacheMap(TypedDict, total=False):
    """`cache` as a map."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    paths: TextList
    """Directories to keep."""
    size: Text
    """How large the volume is."""
    name: Text
    """The volume's name."""


_Cache = Annotated[
    Annotated[CacheMap, Tag("map")] | Annotated[list[Text], Tag("list")] | Annotated[Text, Tag("text")],
    Discriminator(kind_of),
]

NOTIFY_CHANNELS = frozenset(
    {
        "email",
        "basecamp_campfire",
        "slack",
        "webhook",
        "pagerduty_change_event",
        "github_commit_status",
        "github_check",
    }
)


def _channels(value: object) -> object:
    names = [value] if isinstance(value, str) else [name for name in value if name != "if"]  # type: ignore[attr-defined]
    if not names:
        raise ValueError(f"an entry says whom to tell: {', '.join(sorted(NOTIFY_CHANNELS))}")
    for name in names:
        # Buildkite may learn new ones, so a map's key is refused only where a known one was meant.
        meant = nearest(name, NOTIFY_CHANNELS)
        if name not in NOTIFY_CHANNELS and (meant or isinstance(value, str)):
            hint = f"; did you mean '{meant}'?" if meant else ""
            raise ValueError(f"nobody can be told by '{name}'{hint}")
    return value


_Notify = list[
    Annotated[
        Annotated[
            Annotated[Text, Tag("text")] | Annotated[dict[str, Anything], Tag("map")], Discriminator(kind_of)
        ],
        AfterValidator(_channels),
    ]
]


class IncludeExclude(TypedDict, total=False):
    """`if_changed` as a map."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    include: TextList
    """Globs of files that matter."""
    exclude: TextList
    """Globs of files that do not."""


def _some_globs(value: object) -> object:
    globs = value.get("include") if isinstance(value, dict) else value
    if globs is None or globs == "" or globs == []:
        raise ValueError("it names no file, and the agent would skip the step in every build")
    if type(globs) is Plain and not isinstance(natural(globs), str):
        raise ValueError(f"a glob is wanted, not {described(natural(globs))}")
    return value


_IfChanged = Annotated[
    Annotated[
        Annotated[IncludeExclude, Tag("map")]
        | Annotated[list[Text], Tag("list")]
        | Annotated[Text, Tag("text")],
        Discriminator(kind_of),
    ],
    BeforeValidator(_some_globs),
]


class TriggeredBuild(TypedDict, total=False):
    """`build` of a trigger step."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]
    branch: Text
    """The branch to build."""
    commit: Text
    """The commit to build."""
    env: Env
    """Environment of the new build."""
    message: Text
    """What Buildkite shows."""
    meta_data: dict[str, Text]
    """Meta-data of the new build."""


Checkout = dict[str, Anything]
Fields = list[dict[str, Anything]]
Priority = Integer
Parallelism = Positive
_Retry = Annotated[Annotated[NativeRetry, Tag("map")] | Annotated[Text, Tag("text")], Discriminator(kind_of)]


# -- the same, compiled when the first value is met ---------------------------------------------------------

DependsOn = Annotated[str | list[str | Dependency] | None, Lazily(_DependsOn)]
Agents = Annotated[dict[str, str] | list[str], Lazily(_Agents)]
SoftFail = Annotated[bool | list[SoftFailRule], Lazily(_SoftFail)]
Skip = Annotated[bool | str, Lazily(_Skip)]
Matrix = Annotated[MatrixSetup | list[str], Lazily(_Matrix)]
Plugins = Annotated[list[str | dict[str, Any]] | dict[str, Any], Lazily(_Plugins)]
Secrets = Annotated[list[str] | dict[str, str], Lazily(_Secrets)]
Cache = Annotated[CacheMap | list[str] | str, Lazily(_Cache)]
Notify = Annotated[list[str | dict[str, Any]], Lazily(_Notify)]
IfChanged = Annotated[IncludeExclude | list[str] | str, Lazily(_IfChanged)]
Retry = Annotated[NativeRetry | str, Lazily(_Retry)]
Build = Annotated[TriggeredBuild, Lazily(TriggeredBuild)]
