"""Idempotency records: a request that arrives twice takes effect once.

The record is a row that is written in the same transaction as the request's effect. Its key is a hash of the
caller, the namespace and the idempotency key; its content is the request's fingerprint and the answer. A
repeated request gets the stored answer. A different request under the same key is refused. If two attempts
run at once, one commits and the other finds its row.

``CallLog`` makes the id of a run such a key: the request is the run's writing calls, as made, in order.
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec

from standfast.errors import AccessError, PayloadMismatch
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import CALL_PAGE_CALLS
from standfast.records.canon import canonical_bytes, fingerprint, parse
from standfast.records.rows import SYSTEM_NAMESPACE, RowKind
from standfast.records.scopes import row_key
from standfast.records.vocabulary import ActionType, Receipt, Remembered, RunIdentity, Value
from standfast.store.commit import Write, commit_id_of
from standfast.store.store import Store

_CALLER: Final = "run"


class StoredAnswer(msgspec.Struct, frozen=True):
    """The answer that was given to a request, and the receipt of the commit it was part of."""

    answer: dict[str, Any]
    receipt: Receipt


class IdempotencyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request under an idempotency key. Build it with ``of``."""

    request_key: str
    digest: str
    request: str

    @classmethod
    def of(cls, caller: str, namespace: str, request_key: str, request: list[Any]) -> Self:
        """Build the record of a request.

        Args:
            caller: Who sends it; the same key of two callers names two requests.
            request: What must be equal for a second request to count as the same one.
        """
        return cls(
            request_key=request_key,
            digest=fingerprint(["request/v1", caller, namespace, request_key]),
            request=fingerprint(request),
        )

    @property
    def run_id(self) -> str:
        """The id of the run that carries out the request, the same for every attempt."""
        return f"request-{self.digest[:32]}"

    @property
    def row_key(self) -> str:
        """The key of the row, in the system namespace."""
        return row_key(RowKind.REQUEST, self.digest)

    def write(self, answer: dict[str, Any], run: RunIdentity, *, page: int = 0) -> Write:
        """Return the row to commit together with the request's effect.

        A long answer has further pages, each a row.
        """
        # Two writes of equal content do not conflict in the store, so the row names the attempt that wrote
        # it.
        attempt = commit_id_of(run.run_id, run.memory_snapshot_id, run.policy_set_id)
        content = {"answer": answer, "attempt": attempt, "request": self.request}
        key = f"{self.row_key}/{page:06}" if page else self.row_key
        return Write.of(SYSTEM_NAMESPACE, key, ActionType.WRITE, content)

    def stored_answer(self, store: Store) -> StoredAnswer | None:
        """Return the answer that an earlier attempt committed, or None if none did.

        Raises:
            AccessError: The key was used for a different request.
        """
        found = store.read(SYSTEM_NAMESPACE, [self.row_key])
        if self.row_key not in found:
            return None
        version = found[self.row_key]
        row = parse(version.content or b"")
        if row["request"] != self.request:
            raise AccessError("request_reused", request_key=self.request_key)
        return StoredAnswer(row["answer"], store.receipt_of(version.memory_snapshot_id))

    def stored_pages(self, store: Store) -> list[StoredAnswer]:
        """Return the pages of an answer that earlier attempts committed, in order; none if none did.

        Raises:
            AccessError: The key was used for a different request.
        """
        versions = store.scan(SYSTEM_NAMESPACE, prefix=self.row_key)
        rows = [(parse(version.content or b""), version.memory_snapshot_id) for version in versions]
        if any(row["request"] != self.request for row, _ in rows):
            raise AccessError("request_reused", request_key=self.request_key)
        return [StoredAnswer(row["answer"], store.receipt_of(snapshot)) for row, snapshot in rows]


class ErasedRows(Value, frozen=True, kw_only=True):
    """What forgetting one record erases: 1 or no record, its rows, and the traces that recorded its texts."""

    records: int
    rows: int
    traces: int = 0


class LoggedCall(msgspec.Struct, frozen=True):
    """One writing call of a run: the fingerprint of what was asked, and the answer, if it has one.

    An answer holds ids, verdicts and numbers and no text, so that it can stay when the text is erased.
    """

    fingerprint: str
    answer: Remembered | ErasedRows | None

    @classmethod
    def from_json(cls, asked: str, answer: dict[str, Any] | None) -> Self:
        """The call whose fingerprint and answer were stored."""
        if answer is None:
            return cls(asked, None)
        kind = Remembered if "memory_id" in answer else ErasedRows
        return cls(asked, kind.from_json(answer))


class CallLog:
    """The writing calls of one run, in order. They make the run's id an idempotency key.

    Calls are compared as they were made, without the instants that the library stamps, and with each secret
    replaced by its kind, because no fingerprint of a secret may be stored.

    Args:
        run_id: The id that the caller gave the run.
    """

    def __init__(self, store: Store, namespace: str, run_id: str) -> None:
        self._store = store
        self._namespace = namespace
        self._run_id = run_id
        self._calls: list[LoggedCall] = []
        self._earlier: list[LoggedCall] = []
        self.receipt: Receipt | None = None
        """The receipt of an earlier attempt, if one was committed."""
        self.look_up()

    @property
    def request_fingerprint(self) -> str:
        """The fingerprint of all calls so far."""
        return _record_of(self._namespace, self._run_id, self._calls).request

    @property
    def answers(self) -> list[Remembered]:
        """What the calls of the committed attempt were answered."""
        return [call.answer for call in self._answered if isinstance(call.answer, Remembered)]

    @property
    def erased(self) -> list[ErasedRows]:
        """What the calls of ``forget`` of the committed attempt erased."""
        return [call.answer for call in self._answered if isinstance(call.answer, ErasedRows)]

    @property
    def _answered(self) -> list[LoggedCall]:
        return self._calls if self.receipt is None else self._earlier

    def look_up(self) -> None:
        """Look for an attempt that was committed, by this or any other process."""
        record = _record_of(self._namespace, self._run_id, self._calls)
        rows = {version.key: version for version in self._store.scan(SYSTEM_NAMESPACE, prefix=record.row_key)}
        if not rows:
            return
        contents = [parse(rows[key].content or b"") for key in sorted(rows)]
        calls = [call for content in contents for call in content["answer"]["calls"]]
        self._earlier = [LoggedCall.from_json(asked, answer) for asked, answer in calls]
        self.receipt = self._store.receipt_of(rows[record.row_key].memory_snapshot_id)

    def repeated(self, call: list[Any]) -> LoggedCall | None:
        """Return how an earlier attempt answered this call; None if there was no earlier attempt.

        Args:
            call: Its name and arguments, without secrets.

        Raises:
            PayloadMismatch: The earlier attempt made another call here.
        """
        if self.receipt is None:
            return None
        position = len(self._calls)
        self._calls.append(LoggedCall(_fingerprint_of(call), None))
        if (
            position >= len(self._earlier)
            or self._earlier[position].fingerprint != self._calls[position].fingerprint
        ):
            raise self._mismatch(self.receipt)
        return self._earlier[position]

    def add(self, call: list[Any], answer: Remembered | ErasedRows | None) -> None:
        """Log a call that was carried out; see ``repeated``."""
        self.restore(_fingerprint_of(call), answer)

    def restore(self, fingerprint: str, answer: Remembered | ErasedRows | None) -> None:
        """Log a call that was carried out by another process."""
        self._calls.append(LoggedCall(fingerprint, answer))

    @property
    def has_calls(self) -> bool:
        """Whether the run made a writing call."""
        return bool(self._calls)

    @property
    def last_fingerprint(self) -> str:
        """The fingerprint of the last call."""
        return self._calls[-1].fingerprint

    def confirmed(self) -> Receipt | None:
        """Return the receipt of the earlier attempt; None if there was none, or if this one made no call.

        Raises:
            PayloadMismatch: The earlier attempt made other calls.
        """
        if self.receipt is None or not self._calls:
            return None
        if [call.fingerprint for call in self._calls] != [call.fingerprint for call in self._earlier]:
            raise self._mismatch(self.receipt)
        return self.receipt

    def writes(self, run: RunIdentity) -> list[Write]:
        """Return the rows to commit together with the run; none if it made no call, or an earlier attempt
        was committed.
        """
        if not self._calls or self.receipt is not None:
            return []
        record = _record_of(self._namespace, self._run_id, self._calls)
        pages = [
            {"calls": [[c.fingerprint, None if c.answer is None else c.answer.as_json()] for c in page]}
            for page in _pages(self._calls)
        ]
        return [record.write(page, run, page=number) for number, page in enumerate(pages)]

    def _mismatch(self, receipt: Receipt) -> PayloadMismatch:
        return PayloadMismatch(
            commit_id=receipt.commit_id,
            run_id=self._run_id,
            known_fingerprint=_record_of(self._namespace, self._run_id, self._earlier).request,
            payload_fingerprint=self.request_fingerprint,
        )


def _record_of(namespace: str, run_id: str, calls: Sequence[LoggedCall]) -> IdempotencyRecord:
    asked = [call.fingerprint for call in calls]
    return IdempotencyRecord.of(_CALLER, namespace, run_id, ["calls/v1", *asked])


def _pages(calls: Sequence[LoggedCall]) -> list[Sequence[LoggedCall]]:
    return [calls[start : start + CALL_PAGE_CALLS] for start in range(0, len(calls), CALL_PAGE_CALLS)]


def fingerprint_of_call(call: list[Any]) -> str:
    """The fingerprint of a call's name and arguments, with secrets replaced by their kinds."""
    clean = redacted_json(call)
    return _fingerprint_of(clean if clean == call else redacted_call(clean, len(canonical_bytes(call))))


def redacted_call(clean: list[Any], size: int) -> list[Any]:
    """A call whose secrets were replaced. It never equals one that says the replacement itself, nor, by and
    large, another one with a secret, because it has the size of what was said.
    """
    return [*clean, "redacted", size]


def _fingerprint_of(clean: list[Any]) -> str:
    return fingerprint(["call/v1", *clean])
