"""Field types: what a place takes, said once for the reader, the message and the JSON Schema."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, WithJsonSchema

from bkgen.scalars import as_boolean, as_integer, as_number, described, natural

Integer = Annotated[int, BeforeValidator(as_integer, json_schema_input_type=int)]
MOST = 1_000_000
"""More jobs, GPUs or minutes than anybody has; sums and products of such numbers stay far below 64 bits."""
Count = Annotated[Integer, Field(ge=0, le=MOST)]
Positive = Annotated[Integer, Field(ge=1, le=MOST)]
Number = Annotated[float, BeforeValidator(as_number, json_schema_input_type=float)]
PositiveNumber = Annotated[Number, Field(gt=0, le=MOST)]
Boolean = Annotated[bool, BeforeValidator(as_boolean, json_schema_input_type=bool)]

_SCALAR_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean"]}

Text = Annotated[str, WithJsonSchema(_SCALAR_SCHEMA)]
"""Text as it was written: `1.10`, `on` and `012` stay what they are."""
Name = Annotated[Text, Field(min_length=1)]
"""Text that must not be empty, where an empty one would count as none and bring the default back."""


def _text_or_empty(value: object) -> object:
    # The agent sends `NAME:` (null) as an empty value, not as an absent variable.
    return "" if value is None else value


EnvValue = Annotated[
    str, BeforeValidator(_text_or_empty), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]
Env = dict[str, EnvValue]
Anything = Annotated[Any, BeforeValidator(natural)]
"""A value that belongs to somebody else (another plugin); passed on as JSON."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


TextList = Annotated[
    list[Text],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [_SCALAR_SCHEMA, {"type": "array", "items": _SCALAR_SCHEMA}]}),
]
"""One text or a list of texts; always a list afterwards."""


def _no_map(value: object) -> object:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise ValueError(
                    f"item {index + 1} is {described(item)}, not text"
                    + (": quote a command that holds ': '" if isinstance(item, dict) else "")
                )
    return value


Command = Annotated[
    str | list[str],
    BeforeValidator(_no_map),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    ),
]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]


class Lazily:
    """A field whose type is compiled when the first value for it is met.

    Compiling all of Buildkite's attributes costs a tenth of a second on every start, and most files
    use five of them. A fault inside keeps its exact place: pydantic joins the locations.
    """

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._adapter: TypeAdapter[Any] | None = None

    def _compiled(self) -> TypeAdapter[Any]:
        if self._adapter is None:
            self._adapter = TypeAdapter(self._annotation)
        return self._adapter

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: self._compiled().validator.validate_python(value)
        )

    def __get_pydantic_json_schema__(self, _schema: Any, handler: Any) -> Any:
        return handler(self._compiled().core_schema)


class Spec(BaseModel):
    """The base of what users write: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
