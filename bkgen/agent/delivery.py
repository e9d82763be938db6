"""Upload the batches of one selection in order, each at most once in a build, and say what went up."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bkgen.agent.child import Interrupted, no_room
from bkgen.agent.outcome import UploadRefusedError
from bkgen.agent.process import Agent
from bkgen.agent.record import Record, State
from bkgen.errors import BkgenError, Diagnostic, EnvironmentFailure, UserError

_KEYS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """One pipeline document for one upload.

    `document` is exactly what is uploaded (JSON, UTF-8), `keys` are the step keys in it, for messages.
    """

    document: bytes
    interpolate: bool
    keys: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The same for the same upload, whichever try it belongs to."""
        kind = b"interpolate\n" if self.interpolate else b"literal\n"
        return hashlib.sha256(kind + self.document).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Delivered:
    """How many batches this call uploaded, and how many an earlier try had uploaded."""

    uploaded: int = 0
    already: int = 0


def deliver(
    agent: Agent, batches: Sequence[Batch], *, selection: str, report: Callable[[str], None]
) -> Delivered:
    """Upload `batches` in order, skipping what an earlier try of this step has uploaded.

    `selection` names what was asked for; it is the same in every try. `report` gets lines for people.
    No batches is no agent call. Raises UploadRefusedError, another UserError, EnvironmentFailure or
    Interrupted; each of them says, or `report` has said, what went up and what did not.
    """
    if not batches:
        return Delivered()
    record = Record(agent, selection, report)
    record.load()
    if record.uploaded_besides({batch.digest for batch in batches}):
        raise UserError.single(
            "selection-changed",
            "an earlier try of this step uploaded another pipeline, so nothing was uploaded now",
            "start a new build: labels or settings have changed since, and a build's steps stay as they are",
        )
    return _Delivery(agent, batches, record, report).run()


@dataclass(slots=True)
class _Delivery:
    agent: Agent
    batches: Sequence[Batch]
    record: Record
    report: Callable[[str], None]

    def run(self) -> Delivered:
        uploaded = already = 0
        for index, batch in enumerate(self.batches):
            if self.record.state(batch.digest) == "done":
                self.report(f"{self._name(index)} is in this build already; it is not uploaded again")
                already += 1
            elif self._upload(index, batch):
                uploaded += 1
            else:
                already += 1
        return Delivered(uploaded, already)

    def _upload(self, index: int, batch: Batch) -> bool:
        """True when this call uploaded the batch, False when the build had it from an unfinished try."""
        if self.record.state(batch.digest) != "started":
            self.record.mark({batch.digest: "started"})
        try:
            _send(self.agent, batch, f"pipeline-{index + 1}-of-{len(self.batches)}.json")
        except UploadRefusedError as refused:
            if not (self.record.begun_earlier(batch.digest) and self._is_there(refused, batch)):
                self.record.mark({batch.digest: "refused"})
                raise self._refusal(index, refused) from refused
            self.report(
                f"{self._name(index)}: an earlier try of this step had begun this upload, and the build has "
                f"its keys ({_shown(refused.duplicate_keys)}); it counts as uploaded"
            )
            self._done(index)
            return False
        except Interrupted:
            self.report(f"interrupted: {self._balance(index, 'unknown')}")
            raise
        except EnvironmentFailure as failure:
            raise EnvironmentFailure(
                f"{failure}\n  {self._balance(index, 'unknown')}",
                "retry this step: what is recorded as uploaded is not uploaded twice",
            ) from failure
        except UserError as failure:
            raise UserError([*failure.diagnostics, self._remark(index)]) from failure
        self._done(index)
        return True

    def _is_there(self, refused: UploadRefusedError, batch: Batch) -> bool:
        """The build has this batch already. It has all of it or nothing: an upload is applied as a whole.

        The server names the first key that comes again, which another upload may have brought; the last of
        the others tells the two apart. (A batch of one key has no other.)
        """
        named = set(refused.duplicate_keys)
        if not named or not named <= set(batch.keys):
            return False
        others = [key for key in batch.keys if key not in named]
        return not others or self.agent.has_step(others[-1])

    def _done(self, index: int) -> None:
        changes: dict[str, State] = {self.batches[index].digest: "done"}
        # One write for the end of this batch and the beginning of the next.
        for following in self.batches[index + 1 : index + 2]:
            if self.record.state(following.digest) != "done":
                changes[following.digest] = "started"
        self.record.mark(changes)

    def _refusal(self, index: int, refused: UploadRefusedError) -> BkgenError:
        return UploadRefusedError(
            f"{refused.reason}\n  {self._balance(index, 'refused')}",
            self._duplicates_hint() if refused.duplicate_keys else refused.hint,
            refused.duplicate_keys,
        )

    def _duplicates_hint(self) -> str:
        return (
            "a step key can be used once in a build: if this step was retried and its record was lost, "
            "the steps are in the build already; otherwise another upload uses the same keys"
        )

    def _remark(self, index: int) -> Diagnostic:
        return Diagnostic("upload-stopped", self._balance(index, "not uploaded"))

    def _balance(self, index: int, verdict: str) -> str:
        """What went up, how it stands with the batch at `index`, and what was not tried."""
        parts = [
            f"{word}: {_shown([key for batch in batches for key in batch.keys])}"
            for word, batches in (
                ("in the build", self.batches[:index]),
                (verdict, self.batches[index : index + 1]),
                ("not tried", self.batches[index + 1 :]),
            )
            if batches
        ]
        return f"{self._name(index)}; step keys {'; '.join(parts)}"

    def _name(self, index: int) -> str:
        return f"batch {index + 1} of {len(self.batches)}"


def _send(agent: Agent, batch: Batch, name: str) -> None:
    # The directory is readable by this user only and goes on every path, an interruption included.
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bkgen-"))
            document = Path(directory, name)
            descriptor = os.open(document, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(batch.document)
        except OSError as error:
            raise no_room(error) from None
        agent.upload(document, interpolate=batch.interpolate)


def _shown(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_KEYS_SHOWN])
    return f"{shown} and {len(keys) - _KEYS_SHOWN} more" if len(keys) > _KEYS_SHOWN else shown or "(no keys)"
