"""The journal of open runs, in the store: any process that serves the store can carry a run on.

A run has a head row, and a row for each call that changed it. A call is added by replacing the head's
version, so no two processes add one at the same place: whoever comes second reads what the first one added,
and makes its call again after it.
"""

from typing import Final

import msgspec

from standfast.clock import Clock, IdSource
from standfast.errors import AccessError
from standfast.limits import MAX_OPEN_RUNS_OF_KEY, MAX_RUN_SECONDS, RUN_IDLE_SECONDS
from standfast.memory.run_step import RunStep
from standfast.records.canon import fingerprint
from standfast.records.conversion import decoded
from standfast.records.origins import Origin
from standfast.records.vocabulary import RunIdentity
from standfast.store.protocol import TemporaryRow, TemporaryRows
from standfast.traces.artifact import ModelConfig

_HEAD: Final = "run"
_CALL: Final = "run_call"
_EMPTY: Final = "run_committed_empty"


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """An open run: who it is, who opened it, how far it is. ``opening`` tells two runs of one id apart."""

    opening: str
    identity: RunIdentity
    agent: str
    is_idempotent: bool
    max_origin: Origin
    opened_at: float
    model: ModelConfig | None = None
    calls: int = 0
    is_sealed: bool = False
    """Whether it is being committed, so that no call is added any more."""
    version: int = 0


class JournaledCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call that changed a run. ``call_id`` is unique; key and fingerprint are its request's."""

    call_id: str
    step: RunStep
    size_bytes: int
    request_key: str | None = None
    request: str = ""


class RunJournal:
    """The journals of all open runs. Safe to share between threads and processes."""

    def __init__(self, rows: TemporaryRows, *, clock: Clock, ids: IdSource) -> None:
        self._rows = rows
        self._clock = clock
        self._ids = ids

    def open(
        self,
        key_id: str,
        namespace: str,
        identity: RunIdentity,
        *,
        agent: str,
        is_idempotent: bool,
        max_origin: Origin,
        model: ModelConfig | None = None,
    ) -> RunHead:
        """Open a run of a key. If it is open already, return it as it is.

        Raises:
            AccessError: The key holds as many as one key may.
        """
        row_id = row_id_of(key_id, namespace, identity.run_id)
        if (known := self.head(row_id)) is not None:
            return known
        held = len(self._rows.scan(_HEAD, f"{key_id}/", limit=MAX_OPEN_RUNS_OF_KEY))
        if held >= MAX_OPEN_RUNS_OF_KEY:
            raise AccessError("too_many_runs", open_runs=held)
        opening = self._ids.new_id()
        head = RunHead(
            opening=opening,
            identity=identity,
            agent=agent,
            is_idempotent=is_idempotent,
            max_origin=max_origin,
            opened_at=self._clock.now().timestamp(),
            model=model,
            # A run that is opened again under its id must not have a version that the earlier one had.
            version=int(opening[:12], 16),
        )
        if self._rows.put(self._row(row_id, head), replaces=None):
            return head
        return self.head(row_id) or head

    def head(self, row_id: str) -> RunHead | None:
        """Return an open run, or None."""
        row = self._rows.get(_HEAD, row_id)
        return None if row is None else decoded(row.content, RunHead)

    def calls(self, row_id: str, head: RunHead, *, after: int) -> list[JournaledCall]:
        """Return the calls of a run behind the first ``after``."""
        prefix = f"{row_id}/{head.opening}/"
        rows = self._rows.scan(_CALL, prefix, after=f"{prefix}{after:06}", limit=head.calls - after)
        return [decoded(row.content, JournaledCall) for row in rows]

    def add(self, row_id: str, head: RunHead, calls: list[JournaledCall]) -> RunHead | None:
        """Add calls to a run and return its new head; None if another process changed the run."""
        added = msgspec.structs.replace(head, calls=head.calls + len(calls), version=head.version + 1)
        rows = [
            TemporaryRow(
                kind=_CALL,
                row_id=f"{row_id}/{head.opening}/{number:06}",
                content=msgspec.json.encode(call),
                keep_seconds=2 * MAX_RUN_SECONDS,
            )
            for number, call in enumerate(calls, head.calls + 1)
        ]
        return added if self._rows.put(self._row(row_id, added), replaces=head.version, extra=rows) else None

    def seal(self, row_id: str, head: RunHead) -> RunHead | None:
        """Let no call be added any more. Returns None if another process changed the run."""
        if head.is_sealed:
            return head
        sealed = msgspec.structs.replace(head, is_sealed=True, version=head.version + 1)
        return sealed if self._rows.put(self._row(row_id, sealed), replaces=head.version) else None

    def close(self, row_id: str) -> None:
        """Remove a run that is over."""
        self._rows.remove(_HEAD, row_id)
        self._rows.remove(_CALL, f"{row_id}/")

    def note_empty(self, row_id: str) -> None:
        """Note that a run was committed with nothing to commit, which leaves no other trace."""
        row = TemporaryRow(kind=_EMPTY, row_id=row_id, content=b"", keep_seconds=RUN_IDLE_SECONDS)
        self._rows.put(row, replaces=None)

    def was_empty(self, row_id: str) -> bool:
        """Whether a run was committed with nothing to commit, a short while ago."""
        return self._rows.get(_EMPTY, row_id) is not None

    def expire(self) -> None:
        """Remove what has been idle for too long."""
        self._rows.expire()

    def _row(self, row_id: str, head: RunHead) -> TemporaryRow:
        left_seconds = head.opened_at + MAX_RUN_SECONDS - self._clock.now().timestamp()
        return TemporaryRow(
            kind=_HEAD,
            row_id=row_id,
            content=msgspec.json.encode(head),
            keep_seconds=min(RUN_IDLE_SECONDS, left_seconds),
            version=head.version,
        )


def row_id_of(key_id: str, namespace: str, run_id: str) -> str:
    """The id of a run's rows. It begins with the key's, so that the runs of a key can be counted."""
    return f"{key_id}/{fingerprint([namespace, run_id])[:32]}"
