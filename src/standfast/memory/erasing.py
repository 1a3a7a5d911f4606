"""Erasing all of a scope, or of a source, however much it is: in as many commits as it takes, and to the end.

The intent is stored first, as a row in the system namespace, with the snapshot at which it was asked for.
Each commit erases a page of rows and writes how far the intent has come, so that a process that dies loses
nothing, and any other one goes on from there. The last commit replaces the intent by what was erased in
numbers, and its receipt is the receipt of the whole.

Versions are erased, not records: what is acknowledged after the intent stays. So a page conflicts with no
writer, and an erasure ends while any number of them write.

Law is listed and stays: it ends by a signature.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from standfast.errors import CommitAborted, NotAuthorised, PayloadMismatch
from standfast.govern.admission import witness_prefix
from standfast.govern.evidence import read_instant
from standfast.govern.judge.secrecy import redacted_scope, redacted_text, require_no_secret
from standfast.govern.judge.text_reading import TextReading
from standfast.limits import (
    ERASED_ROWS_PER_COMMIT,
    ERASED_ROWS_READ_AT_ONCE,
    LEASE_SECONDS,
    MAX_CLOCK_SKEW_SECONDS,
    MAX_LISTED_LAW,
)
from standfast.memory.commit_plan import JudgedCommit
from standfast.memory.erasure_targets import ErasureIntent, ErasureTarget, pending_erasures
from standfast.memory.forgotten_traces import traces_about
from standfast.memory.idempotency import CallLog
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import fingerprint, parse, utc_text
from standfast.records.origins import Origin
from standfast.records.requests import ForgetRequest
from standfast.records.rows import ERASED_KINDS, RULES, SYSTEM_NAMESPACE, ErasedBy, Place, RowKind
from standfast.records.scopes import (
    ALL_SCOPES,
    is_within,
    key_parts,
    name_in,
    prefix_of,
    row_key,
    said_key,
    scope_in,
    scoped_key,
)
from standfast.records.vocabulary import ActionType, Band, Receipt, Record, RunIdentity, Value
from standfast.store.commit import Commit, Fact, Write
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.stored_records import is_band_row, keys_with_content_of, record_of

# Two processes that finish one erasure submit the same commit, each with an instant of its own.
_DONE_BY_ANOTHER: Final = (CommitAborted, PayloadMismatch)
_ERASED_BANDS: Final = tuple(Band(kind) for kind in ERASED_KINDS if RULES[kind].erased_by is ErasedBy.RECORD)


class ErasurePlan(Value, frozen=True, kw_only=True):
    """What forgetting would erase: how many records and rows, and the law that would stay."""

    records: int
    rows: int
    traces: int
    law: tuple[str, ...] = ()


class Forgotten(Receipt, frozen=True, kw_only=True):
    """The receipt of forgetting: its last commit, what was erased in numbers, and the law that stays."""

    records: int = 0
    rows: int = 0
    traces: int = 0
    commits: int = 1
    law: tuple[str, ...] = ()

    def __repr__(self) -> str:
        law = f"; law that stays: {', '.join(self.law)}" if self.law else ""
        if not self.rows:
            return f"<forgot nothing: nothing was there, in that scope and by that name{law}>"
        return f"<forgot {self.records} records, {self.rows} rows{law}>"

    @property
    def receipt(self) -> Receipt:
        """The receipt alone."""
        return Receipt(**{name: getattr(self, name) for name in Receipt.__struct_fields__})


class _RowToErase(NamedTuple):
    """A row to erase. Rows of one stage are in the order of their newest versions that are erased."""

    stage: int
    snapshot: int
    key: str

    @property
    def is_record(self) -> bool:
        """Whether it counts as a record: one has rows in several bands."""
        return ERASED_KINDS[self.stage] in (RowKind.LEDGER, RowKind.VOID)


@dataclass(frozen=True, slots=True)
class _Page:
    """Rows that one commit erases, and the place behind which all that is left will be then."""

    rows: tuple[_RowToErase, ...]
    stage: int
    after: str


class Eraser:
    """Erases from one namespace."""

    def __init__(self, services: RunServices) -> None:
        self._services = services
        self._store = services.store
        self._namespace = services.namespace

    def plan(self, target: ErasureTarget) -> ErasurePlan:
        """What erasing would reach now. Changes nothing."""
        at, rows, records = self._store.head(), 0, 0
        for row in self._rows(target, at, at):
            rows, records = rows + 1, records + row.is_record
        return ErasurePlan(
            records=records, rows=rows, traces=len(self._traces(target)), law=self._law(target, at)
        )

    def plan_one(self, memory_id: str, scope: str) -> ErasurePlan:
        """What forgetting one record would erase now."""
        at = self._store.head()
        rows = rows_about(self._store, self._namespace, memory_id, scope=scope, at=at)
        law = scoped_key(Band.VAULT, scope, memory_id)
        return ErasurePlan(
            records=1 if rows else 0,
            rows=len(rows),
            traces=len(self._traces(ErasureTarget(scope=scope), memory_id)),
            law=tuple(self._store.read(self._namespace, [law], at=at)),
        )

    def traces_of(
        self, memory_id: str, scope: str, *, seen: set[tuple[Path, int, int]]
    ) -> list[Callable[[], None]]:
        """For each trace that records a text under this subject or id, the function that removes it.

        Args:
            seen: See ``TraceFolder.readable``.
        """
        return traces_about(self._services, ErasureTarget(scope=scope), memory_id, seen=seen)

    def nothing_there(self, request: ForgetRequest, *, by: str) -> Forgotten:
        """Note that a record was asked for that is not there, so that the request has a receipt."""
        erased = {"commits": 1, "law": [], "records": 0, "rows": 0, "traces": 0}
        require_no_secret(agent=by)
        target = {"scope": redacted_scope(request.place), "subject": redacted_text(request.name)}
        fact = Fact.of("forgotten", {**erased, "reason": request.reason, "by": by, "target": target})
        erasure_id = self._store.ids.new_id()
        row = Write.of(SYSTEM_NAMESPACE, row_key(RowKind.FORGOTTEN, erasure_id), ActionType.WRITE, erased)
        run = self._identity(f"{erasure_id}-end", self._store.head())
        receipt = self._store.commit(_commit_of(run, [row], fact))
        return Forgotten.from_json({**receipt.as_json(), **erased})

    def erase(self, target: ErasureTarget, *, reason: str, by: str, key: str | None) -> Forgotten:
        """Erase what there is now, and end an erasure of the same target that did not end.

        Args:
            key: An idempotency key: an erasure with this key that ended gives its receipt.

        Raises:
            PayloadMismatch: The key was used for another call.
        """
        self._log_of(target, key)
        wanted = fingerprint(
            ["erasure/v1", self._namespace, target.as_json(), key or self._store.ids.new_id()]
        )
        if key is not None and (done := self._done(wanted[:32])) is not None:
            return done
        ended: Forgotten | None = None
        for begun in pending_erasures(self._store, self._namespace).intents:
            if begun.target == target:
                ended = self.finish(begun)
                if begun.erasure_id == wanted[:32]:
                    return ended
        require_no_secret(agent=by)
        intent, at = self._new_intent(wanted[:32], target, reason=reason, by=by), self._store.head()
        if next(self._rows(target, at, at), None) is None:
            source = target.source or {}
            require_no_secret(scope=target.scope, source=source.get("id"), kind=source.get("kind"))
            if ended is None or key is None:
                return self._end(intent, key) if ended is None else ended
            # The answer is kept under the key too, so that a replay erases nothing that came later.
            counted = replace(intent, records=ended.records, rows=ended.rows, commits=ended.commits)
            return self._end(counted, key)
        self._commit_intent(intent, key)
        return self.finish(intent)

    def _log_of(self, target: ErasureTarget, key: str | None) -> CallLog | None:
        """The calls under a key: this erasure alone, whether it is new or was begun before.

        Raises:
            PayloadMismatch: The key was used for another call.
        """
        if key is None:
            return None
        log, call = CallLog(self._store, self._namespace, key), ["forget", target.as_json()]
        if log.repeated(call) is None:
            log.add(call, None)
        return log

    def _new_intent(self, erasure_id: str, target: ErasureTarget, *, reason: str, by: str) -> ErasureIntent:
        return ErasureIntent(
            erasure_id=erasure_id,
            namespace=self._namespace,
            target=target,
            reason=redacted_text(reason),
            by=by,
            at=utc_text(self._store.clock.now()),
        )

    def finish_abandoned(self) -> list[Forgotten]:
        """Finish the erasures that no process works on. One whose clock was far ahead may have died too."""
        now = self._store.clock.now()
        pending = pending_erasures(self._store, self._namespace)
        begun = ((intent, read_instant(intent.at)) for intent in pending.intents)
        ages = ((intent, (now - at).total_seconds() if at else inf) for intent, at in begun)
        abandoned = [one for one, age in ages if not -MAX_CLOCK_SKEW_SECONDS <= age <= LEASE_SECONDS]
        return [self.finish(intent) for intent in abandoned]

    def finish(self, intent: ErasureIntent) -> Forgotten:
        """Erase what is left. Of several processes that do so at once, one erases each page."""
        at = self._store.head()
        current = self._intent(intent.erasure_id, at)
        if current is None:
            return self._ended(intent)
        # As long as nobody else commits, nobody else erases.
        expected, is_alone = at, True
        intent = current
        for page in self._pages(current, at):
            rows = page.rows
            while rows:
                at = self._store.head()
                current = self._intent(intent.erasure_id, at)
                if current is None:
                    return self._ended(intent)
                is_alone = is_alone and at == expected
                rows = rows if is_alone else self._still_held(rows, current.until)
                if not rows:
                    intent = current
                    break
                intent = replace(
                    current,
                    stage=page.stage,
                    after=page.after,
                    records=current.records + sum(row.is_record for row in rows),
                    rows=current.rows + len(rows),
                    commits=current.commits + 1,
                    at=utc_text(self._store.clock.now()),
                )
                expected = at + 1
                if self._erase_page(intent, rows, at):
                    break
        return self._end(intent)

    def _erase_page(self, intent: ErasureIntent, rows: Sequence[_RowToErase], at: int) -> bool:
        """Erase rows and move the cursor, in one commit. False if another process did so meanwhile."""
        keys = [row.key for row in rows]
        run = self._identity(f"{intent.erasure_id}-{intent.stage}-{fingerprint(keys)[:16]}", at)
        moved = self._row(intent, ActionType.MERGE)
        with self._services.budgets_lock():
            try:
                erased = dict.fromkeys(keys, intent.reason)
                commit = JudgedCommit(
                    self._services, [], erased, run=run, extra_writes=lambda _: [moved], until=intent.until
                )
                commit.submit()
            except _DONE_BY_ANOTHER:
                return False
        return True

    def _ended(self, intent: ErasureIntent) -> Forgotten:
        """The answer of an erasure that another process has ended."""
        done = self._done(intent.erasure_id)
        assert done is not None, "an erasure ends with what was erased"
        return done

    def _still_held(self, rows: Sequence[_RowToErase], until: int) -> tuple[_RowToErase, ...]:
        """Those of the rows that others have not erased meanwhile."""
        keys = [row.key for row in rows]
        versions = self._store.versions_under(self._namespace, keys, with_content=False)
        held = {one.key for one in versions if _has_content(one) and one.memory_snapshot_id <= until}
        return tuple(row for row in rows if row.key in held)

    def _end(self, intent: ErasureIntent, key: str | None = None) -> Forgotten:
        """End an erasure. One that stored no intent takes its idempotency key now."""
        traces = self._traces(intent.target)
        for remove in traces:
            remove()
        self._services.reader.notes.forget(partial(self._is_forgotten_name, intent.target))
        # Who moves the cursor at the same moment makes this one try again; pages are finite.
        while (done := self._try_to_end(intent, len(traces), key)) is None:
            pass
        return done

    def _try_to_end(self, intent: ErasureIntent, traces: int, key: str | None) -> Forgotten | None:
        """Replace the intent by what was erased. None if another process went on with it meanwhile."""
        at = self._store.head()
        current = self._intent(intent.erasure_id, at)
        if current is None and (done := self._done(intent.erasure_id)) is not None:
            return done
        log = self._log_of(intent.target, key)
        intent = intent if current is None else current
        erased = {
            "commits": intent.commits + (current is not None),
            "law": list(self._law(intent.target, at)),
            "records": intent.records,
            "rows": intent.rows,
            "traces": traces,
        }
        forgotten = row_key(RowKind.FORGOTTEN, intent.erasure_id)
        writes = [Write.of(SYSTEM_NAMESPACE, forgotten, ActionType.WRITE, erased)]
        if current is not None:
            forgetting = row_key(RowKind.FORGETTING, intent.erasure_id)
            writes.append(Write.of(SYSTEM_NAMESPACE, forgetting, ActionType.EXPIRE))
        body = {**erased, "reason": intent.reason, "by": intent.by, "target": intent.target.as_json()}
        run = self._identity(f"{intent.erasure_id}-end", at)
        writes += [] if log is None else log.writes(run)
        replayed = False
        try:
            self._store.commit(_commit_of(run, writes, Fact.of("forgotten", body)))
        except _DONE_BY_ANOTHER:
            replayed = True
        return self._done(intent.erasure_id, replayed=replayed)

    # The intents.

    def _commit_intent(self, intent: ErasureIntent, key: str | None) -> None:
        """Store what is to be erased, and with it that the key is used.

        A call with the same key may have begun it at this moment. There is one intent then, and both finish
        it.
        """
        at = self._store.head()
        log = self._log_of(intent.target, key)
        if log is not None and log.receipt is not None:
            return
        body = {"by": intent.by, "reason": intent.reason, "target": intent.target.as_json()}
        run = self._identity(f"{intent.erasure_id}-begin", at)
        writes = [self._row(intent, ActionType.WRITE), *(() if log is None else log.writes(run))]
        try:
            self._store.commit(_commit_of(run, writes, Fact.of("forgetting", body)))
        except _DONE_BY_ANOTHER:
            # If the key was taken meanwhile, then for this erasure.
            self._log_of(intent.target, key)

    def _row(self, intent: ErasureIntent, action: ActionType) -> Write:
        key = row_key(RowKind.FORGETTING, intent.erasure_id)
        return Write.of(SYSTEM_NAMESPACE, key, action, intent.as_json())

    def _intent(self, erasure_id: str, at: int) -> ErasureIntent | None:
        key = row_key(RowKind.FORGETTING, erasure_id)
        found = self._store.read(SYSTEM_NAMESPACE, [key], at=at)
        return ErasureIntent.read(found[key]) if key in found else None

    def _done(self, erasure_id: str, *, replayed: bool = True) -> Forgotten | None:
        key = row_key(RowKind.FORGOTTEN, erasure_id)
        found = self._store.read(SYSTEM_NAMESPACE, [key])
        if key not in found:
            return None
        receipt = self._store.receipt_of(found[key].memory_snapshot_id)
        return Forgotten.from_json(
            {**receipt.as_json(), **parse(found[key].content or b""), "replayed": replayed}
        )

    def _identity(self, run_id: str, at: int) -> RunIdentity:
        return self._services.identity(f"forget-{run_id}", workflow="forget", at=at)

    # What is erased.

    def _pages(self, intent: ErasureIntent, at: int) -> Iterator[_Page]:
        """What is left to erase.

        A page has rows that were written one after the other, as have the segments of the index: so it
        changes few of them. Many rows are read before the first page, since their keys are in another order.
        """
        stage, after = intent.stage, intent.after
        rows = self._rows(intent.target, at, intent.until, stage=stage, after=after)
        while read := list(islice(rows, ERASED_ROWS_READ_AT_ONCE)):
            last = read[-1]
            read.sort()
            while read:
                page, read = tuple(read[:ERASED_ROWS_PER_COMMIT]), read[ERASED_ROWS_PER_COMMIT:]
                if not read:
                    stage, after = last.stage, last.key
                yield _Page(page, stage, after)

    def _rows(
        self, target: ErasureTarget, at: int, until: int, *, stage: int = 0, after: str = ""
    ) -> Iterator[_RowToErase]:
        """The rows to erase behind a place, by stage and key."""
        for number in range(stage, len(ERASED_KINDS)):
            prefix, rule = self._prefix(target, number), RULES[ERASED_KINDS[number]]
            # Without a source nearly all rows are erased for where they are, whatever they say.
            with_content = target.source is not None or rule.erased_by is ErasedBy.ITS_CONTENT
            for versions in self._store.versions_by_key(
                self._namespace, prefix=prefix, after=after, with_content=with_content
            ):
                held = [one for one in versions if _has_content(one) and one.memory_snapshot_id <= until]
                if held and self._is_erased(target, number, held, at):
                    yield _RowToErase(number, held[-1].memory_snapshot_id, held[-1].key)
            after = ""

    def _prefix(self, target: ErasureTarget, stage: int) -> str:
        kind = ERASED_KINDS[stage]
        is_scoped = RULES[kind].place is Place.SCOPE
        return prefix_of(kind, target.scope if is_scoped else ALL_SCOPES)

    def _is_erased(self, target: ErasureTarget, stage: int, held: Sequence[Version], at: int) -> bool:
        """Whether a row belongs to the target, by its versions from before the erasure was asked for."""
        kind, key = ERASED_KINDS[stage], held[-1].key
        erased_by = RULES[kind].erased_by
        if erased_by is ErasedBy.ITS_CONTENT:
            return self._is_row_of(target, parse(held[-1].content or b""), at)
        if target.source is None:
            return True
        if erased_by is ErasedBy.RECORD:
            return any(target.is_source_of(record_of(one)) for one in held)
        if erased_by is ErasedBy.ITS_RECORD:
            memory_id = _said_id(key) if kind is RowKind.SAID else name_in(key)
            return self._is_of_source(target, Band.LEDGER, scope_in(key), memory_id)
        return False

    def _is_row_of(self, target: ErasureTarget, row: dict[str, Any], at: int) -> bool:
        """Whether a proposal, a decision or a stream's row is about the target. Law keeps its decisions."""
        key = row["proposal"]["key"] if "proposal" in row else row.get("key", "")
        parts = key_parts(key)
        if parts is None or not is_within(parts.scope, target.scope):
            return False
        if "approval" in row and self._store.read(self._namespace, [key], at=at):
            return False
        if target.source is None:
            return True
        if isinstance(row.get("record"), dict):
            return target.is_source_of(Record.from_json(row["record"]))
        if "hides" in row:
            return target.is_source_of(Record(memory_id="hidden", text="", source=row["source"]))
        return any(self._is_of_source(target, band, parts.scope, parts.name) for band in _ERASED_BANDS)

    def _is_of_source(self, target: ErasureTarget, band: Band, scope: str, memory_id: str) -> bool:
        versions = self._store.history(self._namespace, scoped_key(band, scope, memory_id))
        return any(target.is_source_of(record_of(one)) for one in versions if one.content is not None)

    def _law(self, target: ErasureTarget, at: int) -> tuple[str, ...]:
        """The keys of the law of the target, as many as are listed."""
        rows = self._store.scan(self._namespace, prefix=prefix_of(Band.VAULT, target.scope), at=at)
        keys = (row.key for row in rows if target.is_source_of(record_of(row)))
        return tuple(key for key, _ in zip(keys, range(MAX_LISTED_LAW), strict=False))

    def _is_forgotten_name(self, target: ErasureTarget, name: str) -> bool:
        """Whether a key in the recall log, or a scope with a slash behind it, is of the target."""
        scope = name[:-1] if name.endswith("/") else scope_in(name)
        if not is_within(scope, target.scope) or target.source is None:
            return target.source is None and is_within(scope, target.scope)
        # By now nothing of the source is left, and whose record it was can't be seen any more.
        return not name.endswith("/") and not self._store.read(self._namespace, [name], even_hidden=True)

    def _traces(self, target: ErasureTarget, memory_id: str | None = None) -> list[Callable[[], None]]:
        """For each trace that records a text of the target, the function that removes it."""
        return traces_about(self._services, target, memory_id)


def _has_content(version: Version) -> bool:
    """Whether a version has content, even if it was read without."""
    return version.fingerprint is not None and version.erased_by is None


def _commit_of(run: RunIdentity, writes: list[Write], fact: Fact) -> Commit:
    return Commit.of(
        run_id=run.run_id,
        memory_snapshot_id=run.memory_snapshot_id,
        policy_set_id=run.policy_set_id,
        writes=writes,
        facts=[fact],
    )


def _said_id(key: str) -> str:
    return name_in(key).partition("/")[2]


def check_untrusted(store: Store, namespace: str, keys: Iterable[str]) -> None:
    """Raise ``NotAuthorised`` if one of these rows holds what somebody said who is not untrusted.

    Whoever is untrusted replaces nobody's words, and erases nobody's either.
    """
    for key in filter(is_band_row, keys):
        versions = store.history(namespace, key)
        if any(one.content is not None and record_of(one).origin is not Origin.UNTRUSTED for one in versions):
            raise untrusted_may_not("forget what others said")


def untrusted_may_not(act: str) -> NotAuthorised:
    """The refusal of an act of whoever is untrusted."""
    return NotAuthorised(role="an untrusted caller", act=act, who="a caller that is ordinary or trusted")


def rows_about(store: Store, namespace: str, memory_id: str, *, scope: str, at: int) -> list[str]:
    """Every key that still holds content of one record: in bands, in streams of budgets, and what stands
    about it elsewhere.
    """
    own = keys_with_content_of(store, namespace, memory_id, _ERASED_BANDS, scope=scope, at=at)
    law = scoped_key(Band.VAULT, scope, memory_id)
    prefix = scoped_key(Band.WITNESS, scope, witness_prefix(memory_id))
    texts = {
        record_of(version).text
        for key in own
        if is_band_row(key)
        for version in store.history(namespace, key)
        if version.content is not None
    }
    notes = [said_key(scope, TextReading(text).fingerprint, memory_id) for text in sorted(texts)]
    notes += [scoped_key(kind, scope, memory_id) for kind in (RowKind.TTL, RowKind.QUARANTINED)]
    decided = [
        row.key
        for kind in (RowKind.PHOENIX, RowKind.DECISION)
        for row in store.scan(namespace, prefix=prefix_of(kind), at=at)
        if parse(row.content or b"").get("proposal", {}).get("key") == law
    ]
    rows = store.newest_versions(namespace, prefix=prefix, at=at)
    witnesses = [row.key for row in rows if row.content is not None]
    return [*own, *store.read(namespace, notes, at=at), *decided, *witnesses]
