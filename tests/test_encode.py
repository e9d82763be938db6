"""The document's bytes against a YAML 1.2 parser, and escaping against a model of the interpolation."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bkgen.errors import BkgenError, UserError
from bkgen.pipeline.encode import KEY_BYTES, encode, escape_interpolation

# Everything that has ever been read back as something else, beside ordinary text.
ODD = "\x00\x07\x1b\x7f\x80\x85\x9f\xa0\u2028\u2029\ufeff\ufffd\ufffe\uffff\U0001f680\U0010ffff"
ODD += "\"\\/$'{}[]:#,&*!|>%@`\t\n\r"
TEXT = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=40)
SCALARS = st.one_of(
    TEXT,
    st.booleans(),
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def read(document: bytes) -> Any:
    return YAML(typ="safe", pure=True).load(document.decode())


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS)
def test_a_yaml_parser_reads_back_what_was_encoded(document: Any) -> None:
    assert read(encode(document)) == document


@given(DOCUMENTS)
def test_a_json_parser_reads_back_what_was_encoded(document: Any) -> None:
    assert json.loads(encode(document)) == document


@given(TEXT)
def test_no_character_goes_out_raw_that_the_agents_parser_refuses(text: str) -> None:
    emitted = encode({text: text}).decode()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]", emitted)
    assert not re.search(r"\\ud[89a-f]", emitted, re.IGNORECASE)
    assert "\\/" not in emitted.replace("\\\\", "")


def test_an_emoji_goes_out_raw_and_a_delete_escaped() -> None:
    assert encode({"label": "🚀\x7f\x85"}).decode() == '{"label": "🚀\\u007f\\u0085"}'


def test_a_command_of_100_kilobytes_is_read_back() -> None:
    command = "echo 'é🚀\\$x' && \\\n" * 6000
    assert len(command) > 100_000
    assert read(encode({"command": command})) == {"command": command}


def test_the_same_document_gives_the_same_bytes() -> None:
    assert encode({"b": [1, {"a": "x"}], "a": None}) == b'{"b": [1, {"a": "x"}], "a": null}'


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        pytest.param(
            {"steps": [{"label": "a\ud800b"}]}, "steps[0].label", "surrogate", id="a lone surrogate"
        ),
        pytest.param({"env": {"\udce9": "x"}}, "env", "a key with half", id="a lone surrogate in a key"),
        pytest.param({"env": {"k" * 1001: "x"}}, "env", "more than 1,000 bytes", id="a long key"),
        pytest.param({"env": {"é" * 501: "x"}}, "env", "more than 1,000 bytes", id="a key long in bytes"),
        pytest.param(
            {"env": {"\x01" * 167: "x"}}, "env", "more than 1,000 bytes", id="a key long as escaped"
        ),
        pytest.param({"a": [1, 2**63]}, "a[1]", "more than 64 bits", id="a large integer"),
        pytest.param({"a": -(2**63) - 1}, "a", "more than 64 bits", id="a large negative integer"),
        pytest.param({"a": math.nan}, "a", "no finite number", id="not a number"),
        pytest.param({"a": -math.inf}, "a", "no finite number", id="infinity"),
    ],
)
def test_what_the_agent_could_not_read_is_refused_with_its_place(
    document: Any, field: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        encode(document)
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.field) == ("encode-unreadable", field)
    assert message in diagnostic.message
    assert diagnostic.hint
    str(caught.value).encode()


@pytest.mark.parametrize("key", ["k" * KEY_BYTES, "é" * (KEY_BYTES // 2), "\x01" * (KEY_BYTES // 6)])
def test_a_key_of_the_full_length_is_taken(key: str) -> None:
    assert json.loads(encode({key: 1})) == {key: 1}


@pytest.mark.parametrize("document", [{1: "x"}, {"a": {None: 1}}, {"a": object()}, {"a": [b"bytes"]}])
def test_what_is_no_json_is_a_bug_and_no_users_mistake(document: Any) -> None:
    with pytest.raises(BkgenError) as caught:
        encode(document)
    assert type(caught.value) is BkgenError


def test_tuples_are_lists() -> None:
    assert encode({"a": (1, "x")}) == encode({"a": [1, "x"]})


# Interpolation


def interpolated(text: str) -> str:
    """The agent's interpolation where the only expansion is ours, after its published grammar."""
    pattern = re.compile(r"\\\\|\\\$|\$\$|\$\{BKGEN_NIL:-\\\}|\$\(|\$(?=[A-Za-z{])")
    replies = {"\\\\": "\\\\", "\\$": "$", "$$": "$", "${BKGEN_NIL:-\\}": "\\", "$(": "$("}

    def reply(match: re.Match[str]) -> str:
        assert match[0] in replies, f"an expansion that nobody asked for at {text[match.start() :]!r}"
        return replies[match[0]]

    return pattern.sub(reply, text)


@given(st.text(st.sampled_from("$\\{}()aZé_1:-?\n 🚀"), max_size=30))
def test_escaped_text_comes_out_of_the_interpolation_as_it_was(text: str) -> None:
    assert interpolated(escape_interpolation(text)) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("$HOME", "$$HOME"),
        ("$$", "$$$$"),
        (r"\$X", r"${BKGEN_NIL:-\}$$X"),
        (r"\\$X", r"\\$$X"),
        (r"\\\$X", r"\\${BKGEN_NIL:-\}$$X"),
        ("$(date)", "$$(date)"),
        ("a\\", "a\\"),
        ("{{matrix.x}}", "{{matrix.x}}"),
    ],
)
def test_each_dollar_is_escaped_by_the_backslashes_before_it(text: str, escaped: str) -> None:
    assert escape_interpolation(text) == escaped


def test_every_text_of_a_step_is_escaped_and_keys_of_ordered_maps_too() -> None:
    step = {
        "label": "$L",
        "command": ["$A", "b"],
        "env": {"X": "$Y"},
        "agents": {"q$": "$Q"},
        "plugins": [{"kubernetes#v1": {"podSpec": {"containers": [{"command": ["$C"]}]}}}],
        "matrix": {
            "setup": {"os": ["$M"]},
            "adjustments": [{"with": {"os": "$W"}, "skip": "costs $5", "soft_fail": True}],
        },
        "parallelism": 2,
        "steps": ["wait", {"command": "$N"}],
    }
    assert escape_interpolation(step) == {
        "label": "$$L",
        "command": ["$$A", "b"],
        "env": {"X": "$$Y"},
        "agents": {"q$$": "$$Q"},
        "plugins": [{"kubernetes#v1": {"podSpec": {"containers": [{"command": ["$$C"]}]}}}],
        "matrix": {
            "setup": {"os": ["$$M"]},
            "adjustments": [{"with": {"os": "$$W"}, "skip": "costs $5", "soft_fail": True}],
        },
        "parallelism": 2,
        "steps": ["wait", {"command": "$$N"}],
    }


def test_a_matrix_without_adjustments_gets_none() -> None:
    assert escape_interpolation({"matrix": {"setup": ["$a"]}}) == {"matrix": {"setup": ["$$a"]}}
    assert escape_interpolation({"matrix": ["$a"]}) == {"matrix": ["$$a"]}


def test_nothing_is_changed_in_what_was_given() -> None:
    step = {"env": {"X": "$Y"}, "command": ["$A"]}
    escape_interpolation(step)
    assert step == {"env": {"X": "$Y"}, "command": ["$A"]}


@pytest.mark.parametrize(
    ("step", "field"),
    [
        ({"env": {"A$B": "x"}}, "env.A$B"),
        ({"plugins": [{"kubernetes": {"metadata": {"annotations": {"a$": "x"}}}}]}, None),
        ({"matrix": {"setup": {"$os": ["x"]}}}, "matrix.setup.$os"),
        ({"matrix": {"adjustments": [{"with": {"$os": "x"}}]}}, "matrix.with.$os"),
        ({"la$bel": "x"}, "la$bel"),
        ({"secrets": {"TOKEN": "$T"}}, "secrets"),
        ({"checkout": {"flags": {"clone": "$F"}}}, "checkout"),
        ({"cache": ["$HOME/.cache"]}, "cache"),
        ({"env": {"BKGEN_NIL": "x"}}, "env"),
        ({"steps": [{"env": {"A$B": "x"}}]}, "steps[0].env.A$B"),
    ],
)
def test_where_no_spelling_is_safe_the_user_is_told_the_place(
    step: dict[str, Any], field: str | None
) -> None:
    with pytest.raises(UserError) as caught:
        escape_interpolation(step)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == "interpolation-unsafe"
    assert field is None or diagnostic.field == field


def test_the_same_attributes_without_a_dollar_pass() -> None:
    step = {"secrets": ["TOKEN"], "checkout": {"depth": 1}, "cache": "x", "label": "$"}
    assert escape_interpolation(step) == {**step, "label": "$$"}
