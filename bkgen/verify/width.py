"""How many jobs a step is: parallelism, matrix, concurrency, and what the cluster can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from bkgen.errors import did_you_mean
from bkgen.verify.finding import Finding, error
from bkgen.verify.values import MATRIX_TOKEN, as_list, as_map

MATRIX_JOBS, MATRIX_DIMENSIONS, MATRIX_ELEMENTS, MATRIX_BYTES, MATRIX_ADJUSTMENTS = 50, 6, 25, 128, 12
GROUP_NAME = 200
_TOKENS_ALLOWED = frozenset({"label", "name", "command", "commands", "env", "agents"})
_MAY_MENTION = _TOKENS_ALLOWED | {"key", "image", "concurrency_group", "artifact_paths", "branches", "if"}


def _dimensions(matrix: object) -> dict[str, Sequence[Any]]:
    """Elements by dimension; a plain list is the dimension without a name."""
    setup = matrix.get("setup") if isinstance(matrix, dict) else matrix
    if isinstance(setup, dict):
        return {str(name): as_list(elements) for name, elements in setup.items()}
    return {"": as_list(setup)}


def _combination(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, dict):
        return tuple(sorted((str(key), str(one)) for key, one in value.items()))
    items = as_list(value) if isinstance(value, (list, tuple)) else [value]
    return tuple(("", str(one)) for one in items)


def matrix_jobs(matrix: object) -> int:
    """Jobs of a matrix: all combinations, plus adjustments with a new one, minus those that skip theirs."""
    dimensions = _dimensions(matrix)
    total = math.prod(len(elements) for elements in dimensions.values())
    if total > 10_000:
        return total
    combinations = {
        tuple(sorted(zip(dimensions, map(str, one), strict=True))) for one in product(*dimensions.values())
    }
    for adjustment in as_list(as_map(matrix).get("adjustments")):
        combination = _combination(as_map(adjustment).get("with"))
        if as_map(adjustment).get("skip"):
            combinations.discard(combination)
        else:
            combinations.add(combination)
    return len(combinations)


def job_count(step: object) -> int:
    """Jobs that Buildkite counts for a step: a group counts one beside its steps; wait and block count."""
    if not isinstance(step, dict):
        return 1
    if isinstance(step.get("steps"), (list, tuple)):
        return 1 + sum(map(job_count, step["steps"]))
    if step.get("matrix"):
        return max(1, matrix_jobs(step["matrix"]))
    parallelism = step.get("parallelism")
    return parallelism if isinstance(parallelism, int) and parallelism > 1 else 1


def matrix(step: Mapping[str, Any], mentioned: frozenset[str]) -> Iterator[Finding]:
    """Limits of a matrix, and tokens that name no dimension; `mentioned` are those of the step's pods."""
    written = step.get("matrix")
    if written and step.get("parallelism") is not None:
        message = "matrix and parallelism exclude each other"
        yield error(
            "matrix-with-parallelism", ("parallelism",), message, "make the shards a matrix dimension"
        )
    if written:
        yield from _limits(written)
    yield from _tokens(step, written, mentioned)


def _dimensions_of(chosen: object) -> set[str]:
    return {name for name, _ in _combination(chosen)}


def _limits(written: object) -> Iterator[Finding]:
    dimensions = _dimensions(written)
    adjustments = as_list(as_map(written).get("adjustments"))
    faults = [
        (len(dimensions) > MATRIX_DIMENSIONS, f"{len(dimensions)} dimensions, at most {MATRIX_DIMENSIONS}"),
        (
            len(adjustments) > MATRIX_ADJUSTMENTS,
            f"{len(adjustments)} adjustments, at most {MATRIX_ADJUSTMENTS}",
        ),
        (not all(dimensions.values()), "a dimension without elements"),
        (
            any(_dimensions_of(as_map(one).get("with")) != set(dimensions) for one in adjustments),
            "an adjustment that does not give every dimension a value, and no other",
        ),
    ]
    for name, elements in dimensions.items():
        shown = f" in '{name}'" if name else ""
        long = [one for one in elements if len(str(one).encode("utf-8", "replace")) > MATRIX_BYTES]
        faults.append(
            (len(elements) > MATRIX_ELEMENTS, f"{len(elements)} elements{shown}, at most {MATRIX_ELEMENTS}")
        )
        faults.append((bool(long), f"an element{shown} over {MATRIX_BYTES} bytes"))
    jobs = matrix_jobs(written)
    faults.append((jobs > MATRIX_JOBS, f"{jobs} jobs, at most {MATRIX_JOBS}"))
    for is_fault, what in faults:
        if is_fault:
            message = f"Buildkite refuses a matrix with {what}"
            yield error("matrix-limit", ("matrix",), message, "make several steps of it")


def _tokens(step: Mapping[str, Any], written: object, mentioned: frozenset[str]) -> Iterator[Finding]:
    known = tuple(_dimensions(written)) if written else ()
    for name in sorted(mentioned.difference(known)):
        yield _no_dimension(name, "plugins", known)
    for key, value in step.items():
        if key not in _MAY_MENTION or not (texts := _with_braces(value)):
            continue
        names = {found[1] or "" for text in texts for found in MATRIX_TOKEN.finditer(text)}
        if key in _TOKENS_ALLOWED:
            for name in sorted(names.difference(known)):
                yield _no_dimension(name, key, known)
        elif names:
            message = f"Buildkite fills in no matrix token in {key}"
            yield error("matrix-token", (key,), message, "use it in label, command, env, agents or plugins")


def _with_braces(value: object) -> list[str]:
    """The texts of an attribute that could hold a token."""
    if isinstance(value, str):
        return [value] if "{{" in value else []
    items = value.values() if isinstance(value, dict) else as_list(value)
    return [item for item in items if isinstance(item, str) and "{{" in item]


def _no_dimension(name: str, key: str, known: Sequence[str]) -> Finding:
    token = "{{matrix" + (f".{name}" if name else "") + "}}"
    hint = "add matrix to the step"
    if known:
        hint = did_you_mean(name, known, what="dimensions are") if all(known) else "write {{matrix}}"
    return error("matrix-token", (key,), f"'{token}' names no dimension of the step's matrix", hint)


def concurrency(step: Mapping[str, Any]) -> Iterator[Finding]:
    """Concurrency and its group, which need each other."""
    group, limit = step.get("concurrency_group"), step.get("concurrency")
    if limit is not None and group is None:
        message = "concurrency needs a concurrency_group"
        yield error("concurrency-without-group", ("concurrency",), message, "add concurrency_group")
    elif group is not None and limit is None:
        message = "concurrency_group needs concurrency"
        yield error("concurrency-without-limit", ("concurrency_group",), message, "add concurrency: 1")
    if isinstance(group, str) and len(group) > GROUP_NAME:
        message = f"a concurrency_group has at most {GROUP_NAME} characters, not {len(group)}"
        yield error("concurrency-group-length", ("concurrency_group",), message, "shorten it")
    method = step.get("concurrency_method")
    if method is not None and (method not in ("ordered", "eager") or group is None):
        message = f"concurrency_method '{method}' has no meaning here"
        hint = "write ordered or eager, beside concurrency and concurrency_group"
        yield error("concurrency-method", ("concurrency_method",), message, hint)
