"""Quarantine: takes records out of recall, and brings them back, however many they are, and to the end.

An act hides versions of records by rows about them (``store/quarantine.py``); nothing is erased or rewritten.
What it names is decided once, as of a snapshot. Each commit hides a page of records and moves the act's
cursor, so that a process that dies loses nothing and any other one goes on from there. A release takes the
act's marks away again, page by page. A revert is an act too: it hides what a run wrote, and so brings back
what that had replaced.

Law is listed and stays: it ends by a signature.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from standfast.errors import CommitAborted, NotFound, PayloadMismatch
from standfast.govern.evidence import read_instant
from standfast.govern.judge.secrecy import redacted_text, require_no_secret
from standfast.limits import (
    LEASE_SECONDS,
    MAX_CLOCK_SKEW_SECONDS,
    MAX_LISTED_LAW,
    QUARANTINED_ROWS_PER_COMMIT,
)
from standfast.memory.lineage import Lineage
from standfast.memory.quarantine_choice import (
    ActRequest,
    HiddenRow,
    KeptRecord,
    QuarantineChoice,
    RevertConflict,
    StandingAct,
    decide,
)
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import fingerprint, parse, utc_text
from standfast.records.incident_requests import QuarantineRequest, RevertRequest, check_name
from standfast.records.rows import RowKind
from standfast.records.scopes import (
    ALL_SCOPES,
    key_parts,
    prefix_in,
    prefix_of,
    row_key,
    scoped_key,
)
from standfast.records.vocabulary import ActionType, Band, Receipt, Record, Value
from standfast.store.commit import Commit, Fact, Write
from standfast.store.protocol import Version, verified
from standfast.store.quarantine import note_of
from standfast.store.stored_records import record_of

_DONE_BY_ANOTHER: Final = (CommitAborted, PayloadMismatch)
_MAX_SHOWN_CHARS: Final = 128
"""A longer act id is not part of its commits' run ids."""


class ActState(StrEnum):
    """How far an act has come."""

    HIDING = "hiding"
    IN_FORCE = "in force"
    RELEASING = "releasing"
    RELEASED = "released"

    @property
    def is_open(self) -> bool:
        """Whether pages are left to do."""
        return self in (ActState.HIDING, ActState.RELEASING)


class QuarantineAct(Value, frozen=True, kw_only=True):
    """An act that put records into quarantine.

    Attributes:
        verb: ``quarantine`` or ``revert``.
        asked: What the caller named.
        until: The snapshot as of which it was decided what that is.
        at: When its last page was committed.
        after: The record behind which the next page begins.
        records: How many versions of records it hides.
        restored: How many records it brings back, because what had ended them is hidden.
        release_reason: Why it was released.
    """

    act_id: str
    verb: str
    asked: dict[str, Any]
    reason: str
    by: str
    at: str
    until: int
    state: ActState = ActState.HIDING
    after: str = ""
    records: int = 0
    restored: int = 0
    commits: int = 0
    release_reason: str = ""
    released_by: str = ""


class QuarantinePlan(Value, frozen=True, kw_only=True):
    """What an act would do.

    Attributes:
        records: How many versions of records it would hide.
        restored: How many records would be shown again.
        scopes: How many versions it would hide in each scope.
        hidden: Scope, id and snapshot of the versions that it would hide, the first of them.
        law: The keys of law that it names, which stays.
        conflicts: What others changed since, which a revert keeps.
        kept: Records that it leaves, because another source said them too; the first of them.
    """

    records: int
    restored: int
    scopes: dict[str, int]
    hidden: tuple[str, ...]
    law: tuple[str, ...] = ()
    conflicts: tuple[RevertConflict, ...] = ()
    kept: tuple[KeptRecord, ...] = ()


class Quarantined(Receipt, frozen=True, kw_only=True):
    """The receipt of an act: that of its last commit, with what it hides in numbers.

    ``memory.release(act_id, reason=…)`` takes it back.
    """

    act_id: str = ""
    records: int = 0
    restored: int = 0
    commits: int = 0
    law: tuple[str, ...] = ()
    conflicts: tuple[RevertConflict, ...] = ()
    kept: tuple[KeptRecord, ...] = ()


class Released(Receipt, frozen=True, kw_only=True):
    """The receipt of a release."""

    act_id: str = ""
    records: int = 0
    commits: int = 0


class QuarantinedRecord(Value, frozen=True, kw_only=True):
    """A version of a record that is in quarantine, for who reviews it."""

    scope: str
    memory_id: str
    band: Band
    snapshot: int
    acts: tuple[str, ...]
    record: Record | None = None


class QuarantineActs:
    """The acts of one namespace.

    Args:
        lineage_at: Gives what is known about records as of a snapshot.
    """

    def __init__(self, services: RunServices, lineage_at: Callable[[int], Lineage]) -> None:
        self._services = services
        self._store, self._namespace = services.store, services.namespace
        self._lineage_at = lineage_at

    def plan(self, asked: ActRequest, lineage: Lineage) -> QuarantinePlan:
        """What an act would do now. Changes nothing."""
        choice = decide(self._services, asked, lineage, standing=self._standing(lineage.head))
        scopes: dict[str, int] = {}
        for place in choice.versions:
            scopes[place.scope] = scopes.get(place.scope, 0) + 1
        return QuarantinePlan(
            records=len(choice.versions),
            restored=len(choice.restored),
            scopes=dict(sorted(scopes.items())),
            hidden=tuple(
                f"{place.scope}//{place.name}@{place.snapshot}" for place in choice.versions[:MAX_LISTED_LAW]
            ),
            law=choice.law,
            conflicts=choice.conflicts,
            kept=choice.kept,
        )

    def begin(self, asked: ActRequest, lineage: Lineage, *, by: str, act_id: str | None) -> Quarantined:
        """Hide what a request names.

        Args:
            act_id: The id of the act. One that was begun under it is finished, and its receipt given.

        Raises:
            InvalidValue: The id is empty or too long.
            PayloadMismatch: The id was used for another act.
        """
        check_name("by", by)
        if act_id is not None:
            check_name("act_id", act_id)
        require_no_secret(agent=by, act_id=act_id)
        new_id = self._store.ids.new_id() if act_id is None else act_id
        named = {**asked.as_json()}
        named.pop("reason", None)
        verb = "revert" if isinstance(asked, RevertRequest) else "quarantine"
        known = self._act(new_id, self._store.head())
        if known is not None:
            if (known.verb, known.asked) != (verb, named):
                raise PayloadMismatch(
                    commit_id=new_id,
                    run_id=new_id,
                    known_fingerprint=fingerprint([known.verb, known.asked]),
                    payload_fingerprint=fingerprint([verb, named]),
                )
            return (
                self._repeated(known)
                if known.state is not ActState.HIDING
                else self._hide(known, asked, None)
            )
        for value in (
            None if isinstance(asked, RevertRequest) else asked.memory_id,
            asked.scope,
            asked.run_id,
            asked.agent,
            *(asked.source or {}).values(),
        ):
            require_no_secret(target=value)
        act = QuarantineAct(
            act_id=new_id,
            verb=verb,
            asked=named,
            reason=redacted_text(asked.reason),
            by=by,
            at=utc_text(self._store.clock.now()),
            until=lineage.head,
        )
        return self._hide(act, asked, lineage)

    def release(self, act_id: str, *, reason: str, by: str) -> Released:
        """Take an act back: what it hid is shown again, unless another act hides it too.

        Raises:
            NotFound: There is no such act.
        """
        check_name("by", by)
        require_no_secret(agent=by)
        act = self._act(act_id, self._store.head())
        if act is None:
            raise NotFound(what=f"quarantine {act_id!r:.80}; memory.quarantines() lists them")
        if act.state is ActState.HIDING:
            self._hide(act, _request_of(act), None)
        act = self._act(act_id, self._store.head())
        assert act is not None, "acts are never removed"
        if act.state is ActState.IN_FORCE:
            act = replace(
                act,
                state=ActState.RELEASING,
                after="",
                release_reason=redacted_text(reason),
                released_by=by,
            )
        return self._release(act)

    def acts(self) -> list[QuarantineAct]:
        """Every act, the newest last."""
        rows = self._store.scan(self._namespace, prefix=prefix_of(RowKind.QUARANTINE))
        found = [(row.memory_snapshot_id, _act_in(row)) for row in rows]
        return [act for _, act in sorted(found, key=lambda one: (one[1].at, one[1].act_id))]

    def finish_abandoned(self) -> None:
        """Finish the acts that no process works on any more."""
        now = self._store.clock.now()
        for act in self.acts():
            began = read_instant(act.at)
            age = (now - began).total_seconds() if began else inf
            if not act.state.is_open or -MAX_CLOCK_SKEW_SECONDS <= age <= LEASE_SECONDS:
                continue
            if act.state is ActState.HIDING:
                self._hide(act, _request_of(act), None)
            else:
                self._release(act)

    def records(self, *, scope: str = ALL_SCOPES) -> Iterator[QuarantinedRecord]:
        """What is in quarantine now, by scope and id, for who reviews it."""
        for row in self._store.scan(self._namespace, prefix=prefix_of(RowKind.QUARANTINED, scope)):
            parts = key_parts(row.key)
            assert parts is not None, "such a row is in a scope"
            acts: dict[str, dict[str, list[int]]] = parse(row.content or b"")["hides"]
            hidden: dict[tuple[str, int], list[str]] = {}
            for act_id, bands in acts.items():
                for band, snapshots in bands.items():
                    for snapshot in snapshots:
                        hidden.setdefault((band, snapshot), []).append(act_id)
            keys = sorted({scoped_key(band, parts.scope, parts.name) for band, _ in hidden})
            for version in self._store.versions_under(self._namespace, keys):
                of_version = hidden.get((prefix_in(version.key), version.memory_snapshot_id))
                if of_version is None or version.action is ActionType.EXPIRE:
                    continue
                record = None if version.content is None else record_of(verified(version))
                yield QuarantinedRecord(
                    scope=parts.scope,
                    memory_id=parts.name if record is None else record.memory_id,
                    band=Band(prefix_in(version.key)),
                    snapshot=version.memory_snapshot_id,
                    acts=tuple(sorted(of_version)),
                    record=record,
                )

    # Hiding, page by page.

    def _hide(self, act: QuarantineAct, asked: ActRequest, lineage: Lineage | None) -> Quarantined:
        is_resumed = lineage is None
        lineage = lineage or self._lineage_at(act.until)
        choice = self._choice_of(act, asked, lineage, is_resumed=is_resumed)
        order = sorted(choice.rows)
        while True:
            at = self._store.head()
            known = self._act(act.act_id, at)
            current = known or act
            if known is not None and known.state is not ActState.HIDING:
                return self._receipt(known, choice, is_replayed=False)
            page = [key for key in order if key > current.after][:QUARANTINED_ROWS_PER_COMMIT]
            is_last = not page or page[-1] == order[-1]
            moved = replace(
                current,
                after=page[-1] if page else current.after,
                state=ActState.IN_FORCE if is_last else ActState.HIDING,
                records=len(choice.versions),
                restored=len(choice.restored),
                commits=current.commits + 1,
                at=utc_text(self._store.clock.now()),
            )
            notes = self._notes(page, choice.rows, act.act_id, at)
            self._commit(moved, known is not None, notes, at)

    def _notes(self, page: Iterable[str], rows: Mapping[str, HiddenRow], act_id: str, at: int) -> list[Write]:
        """The rows of a page, each with what other acts hide of the same record."""
        keys = list(page)
        present = self._store.read(self._namespace, keys, at=at) if keys else {}
        writes = []
        for key in keys:
            parts = key_parts(key)
            assert parts is not None, "such a row is in a scope"
            own = rows[key]
            known = parse(present[key].content or b"") if key in present else {"hides": {}}
            hides = {**known["hides"], act_id: own.bands}
            record_key = scoped_key(min(own.bands), parts.scope, parts.name)
            content = note_of(record_key, own.source or known.get("source"), hides)
            action = ActionType.MERGE if key in present else ActionType.WRITE
            writes.append(Write.of(self._namespace, key, action, content))
        return writes

    def _release(self, act: QuarantineAct) -> Released:
        is_replayed = act.state is ActState.RELEASED
        while True:
            at = self._store.head()
            known = self._act(act.act_id, at)
            assert known is not None, "acts are never removed"
            if known.state is ActState.RELEASED:
                return self._release_receipt(known, is_replayed=is_replayed)
            current = act if known.state is ActState.IN_FORCE else known
            page, writes = "", list[Write]()
            rows = self._store.scan(
                self._namespace, prefix=prefix_of(RowKind.QUARANTINED), after=current.after, at=at
            )
            own = (row for row in rows if act.act_id in parse(row.content or b"")["hides"])
            found = list(islice(own, QUARANTINED_ROWS_PER_COMMIT))
            for row in found:
                page = row.key
                content = parse(row.content or b"")
                del content["hides"][act.act_id]
                if content["hides"]:
                    writes.append(Write.of(self._namespace, row.key, ActionType.MERGE, content))
                else:
                    writes.append(Write.of(self._namespace, row.key, ActionType.EXPIRE))
            is_last = len(found) < QUARANTINED_ROWS_PER_COMMIT
            moved = replace(
                current,
                after=page or current.after,
                state=ActState.RELEASED if is_last else ActState.RELEASING,
                commits=current.commits + 1,
                at=utc_text(self._store.clock.now()),
            )
            self._commit(moved, True, writes, at)

    def _commit(self, act: QuarantineAct, is_known: bool, notes: list[Write], at: int) -> None:
        """Commit a page with the act's row. If another process did so meanwhile, the caller looks again."""
        key = row_key(RowKind.QUARANTINE, act.act_id)
        action = ActionType.MERGE if is_known else ActionType.WRITE
        row = Write.of(self._namespace, key, action, act.as_json())
        short = act.act_id if len(act.act_id) <= _MAX_SHOWN_CHARS else fingerprint(act.act_id)
        named = f"{short}-{act.state}-{fingerprint([act.after, act.commits])[:16]}"
        identity = self._services.identity(f"{act.verb}-{named}", workflow=act.verb, at=at)
        body = {**act.as_json(), "namespace": self._namespace, "rows": len(notes)}
        del body["after"]
        commit = Commit.of(
            run_id=identity.run_id,
            memory_snapshot_id=at,
            policy_set_id=identity.policy_set_id,
            writes=[row, *notes],
            facts=[Fact.of("quarantine", body)],
        )
        try:
            receipt = self._store.commit(commit)
        except _DONE_BY_ANOTHER:
            return
        self._services.reader.after_commit(receipt.memory_snapshot_id)

    # The acts' rows.

    def _act(self, act_id: str, at: int) -> QuarantineAct | None:
        found = self._version(act_id, at)
        return None if found is None else _act_in(found)

    def _version(self, act_id: str, at: int) -> Version | None:
        key = row_key(RowKind.QUARANTINE, act_id)
        return self._store.read(self._namespace, [key], at=at).get(key)

    def _commit_receipt(self, act: QuarantineAct) -> dict[str, Any]:
        version = self._version(act.act_id, self._store.head())
        assert version is not None, "acts are never removed"
        return self._store.receipt_of(version.memory_snapshot_id).as_json()

    def _choice_of(
        self, act: QuarantineAct, asked: ActRequest, lineage: Lineage, *, is_resumed: bool
    ) -> QuarantineChoice:
        """What an act hides, as of the snapshot when it began."""
        standing = self._standing(act.until)
        return decide(self._services, asked, lineage, standing=standing, is_resumed=is_resumed)

    def _standing(self, at: int) -> list[StandingAct]:
        """The acts of quarantine that are in force, or about to be, as of a snapshot."""
        rows = self._store.scan(self._namespace, prefix=prefix_of(RowKind.QUARANTINE), at=at)
        return [
            StandingAct(asked, act.until)
            for act in map(_act_in, rows)
            if act.state in (ActState.HIDING, ActState.IN_FORCE)
            if isinstance(asked := _request_of(act), QuarantineRequest)
        ]

    def _repeated(self, act: QuarantineAct) -> Quarantined:
        """The receipt of an act that is repeated: the same, but for the names of what was forgotten since."""
        choice = self._choice_of(act, _request_of(act), self._lineage_at(act.until), is_resumed=True)
        return self._receipt(act, choice, is_replayed=True)

    def _receipt(self, act: QuarantineAct, choice: QuarantineChoice, *, is_replayed: bool) -> Quarantined:
        numbers = {name: getattr(act, name) for name in ("act_id", "records", "restored", "commits")}
        return Quarantined.from_json(
            {
                **self._commit_receipt(act),
                **numbers,
                "law": list(choice.law),
                "conflicts": [one.as_json() for one in choice.conflicts],
                "kept": [one.as_json() for one in choice.kept],
                "replayed": is_replayed,
            }
        )

    def _release_receipt(self, act: QuarantineAct, *, is_replayed: bool) -> Released:
        numbers = {name: getattr(act, name) for name in ("act_id", "records", "commits")}
        return Released.from_json({**self._commit_receipt(act), **numbers, "replayed": is_replayed})


def _act_in(version: Version) -> QuarantineAct:
    return QuarantineAct.from_json(parse(version.content or b""))


def _request_of(act: QuarantineAct) -> ActRequest:
    kind = RevertRequest if act.verb == "revert" else QuarantineRequest
    # What is redacted in a reason may make it longer than a request's may be.
    return kind.from_json({**act.asked, "reason": "resumed"})
