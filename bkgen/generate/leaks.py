"""Secrets of the upload step's environment that stand in what would be uploaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from bkgen.buildkite import Pipeline
from bkgen.errors import Diagnostic

LEAST = 8
"""A shorter value stands in a pipeline by chance."""


def leaked(pipeline: Pipeline, environ: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """A diagnostic for every variable named like a secret whose value stands in a step.

    A build is read by more people than a secret, and newer agents refuse such an upload. Values are searched
    for as they are; what the agent itself fills in later is not seen here.
    """
    from bkgen.verify.sensitive import is_secret_name

    secrets = {name: value for name, value in environ.items() if len(value) >= LEAST and is_secret_name(name)}
    return tuple(_found(pipeline, secrets)) if secrets else ()


def _found(pipeline: Pipeline, secrets: Mapping[str, str]) -> Iterator[Diagnostic]:
    for item in pipeline.items:
        text = json.dumps(item.body, ensure_ascii=False)
        for name, value in secrets.items():
            if value in text or json.dumps(value, ensure_ascii=False)[1:-1] in text:
                yield Diagnostic(
                    "upload-secret",
                    f"the value of {name}, which this step's environment holds, is written out in it",
                    "read it in the job: the step's secrets, or a secretKeyRef in the pod; "
                    f"if it is no secret, do not call it {name} here",
                    field=item.key,
                )
