"""What went up in this build, kept in its meta-data, so that a retried upload step does not upload twice."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Literal, Protocol

from bkgen.errors import BkgenError

State = Literal["started", "done", "refused"]
"""`started` is written before an upload, so whoever finds it does not know how that upload ended."""

_FORMAT = 1
_PLAIN_SELECTION = re.compile(r"[A-Za-z0-9._-]{1,60}")


class MetaData(Protocol):
    """The build's key and value store; both calls may raise BkgenError."""

    def meta_data_get(self, key: str) -> str | None: ...

    def meta_data_set(self, key: str, value: str) -> None: ...


def record_key(selection: str) -> str:
    """The meta-data key for a selection: its name where that is short and plain, else its digest.

    Keys that begin with `buildkite:` belong to Buildkite; ours begin with `bkgen:`.
    """
    if _PLAIN_SELECTION.fullmatch(selection):
        return f"bkgen:upload:{selection}"
    digest = hashlib.sha256(selection.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return f"bkgen:upload:sha256-{digest}"


class Record:
    """The states of one selection's batches, by digest.

    Meta-data is a convenience: when it fails, that is reported once and the record is left alone from
    then on. Half a record would be worse than none.
    """

    def __init__(self, store: MetaData, selection: str, report: Callable[[str], None]) -> None:
        self._store = store
        self._key = record_key(selection)
        self._report = report
        self._states: dict[str, State] = {}
        self._begun_earlier: frozenset[str] = frozenset()
        self._usable = True

    def load(self) -> None:
        """Read what earlier tries in this build have written."""
        try:
            text = self._store.meta_data_get(self._key)
        except BkgenError as failure:
            self._give_up("read", failure)
            return
        if text is not None:
            states = _parse(text)
            if states is None:
                self._report(f"warning: the meta-data {self._key} is not bkgen's record; it is written anew")
            self._states = states or {}
        self._begun_earlier = frozenset(d for d, state in self._states.items() if state == "started")

    def state(self, digest: str) -> State | None:
        """How the batch with this digest stands; None when no try has come to it."""
        return self._states.get(digest)

    def begun_earlier(self, digest: str) -> bool:
        """An earlier try began to upload this batch, and nobody knows how that ended."""
        return digest in self._begun_earlier

    def uploaded_besides(self, digests: Collection[str]) -> bool:
        """An earlier try has uploaded something under this selection that is not among `digests`."""
        return any(state == "done" and digest not in digests for digest, state in self._states.items())

    def mark(self, changes: Mapping[str, State]) -> None:
        """Note new states and write the record; a failure is reported and nothing more."""
        self._states.update(changes)
        if not self._usable:
            return
        document = {"version": _FORMAT, "batches": self._states}
        try:
            self._store.meta_data_set(self._key, json.dumps(document, separators=(",", ":")))
        except BkgenError as failure:
            self._give_up("written", failure)

    def _give_up(self, verb: str, failure: BkgenError) -> None:
        self._usable = False
        self._report(
            f"warning: the record of what went up could not be {verb}, so a retry of this step "
            f"cannot tell what is in the build already\n  {failure}"
        )


def _parse(text: str) -> dict[str, State] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("version") != _FORMAT:
        return None
    batches = document.get("batches")
    if not isinstance(batches, dict):
        return None
    known: dict[str, State] = {}
    for digest, written in batches.items():
        state = _state(written)
        if state is None:
            return None
        known[digest] = state
    return known


def _state(written: object) -> State | None:
    for state in ("started", "done", "refused"):
        if written == state:
            return state
    return None
