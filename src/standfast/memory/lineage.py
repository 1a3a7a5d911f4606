"""Lineage: who wrote which version of a record, what cites it, and which packages showed it to which runs.

It answers from what is recorded: records and commits in the store, terms of the index for sources and
citations, the recall log, and the traces of runs. Questions about many versions at once are answered
together, so that an investigation costs in proportion to what it finds and not to what is stored.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from standfast.errors import TraceError
from standfast.limits import SCAN_PAGE_RECORDS
from standfast.memory.snapshot_view import SnapshotReader
from standfast.recall.analysis import IndexedRecord, cited_by, cites_term, decode_record, source_term
from standfast.recall.packing import record_hash_of
from standfast.records.incident_requests import InvestigateRequest, QuarantineRequest, RevertRequest
from standfast.records.requests import RECALLED_BANDS
from standfast.records.scopes import is_within, key_parts, name_in, prefix_in, scope_in, scoped_key
from standfast.records.vocabulary import ActionType, Band, Record
from standfast.store.protocol import Version, runs_of
from standfast.store.quarantine import shown_of
from standfast.store.stored_records import record_of
from standfast.traces.artifact import Trace
from standfast.traces.folder import TraceFolder, read_artifact
from standfast.traces.recall_log import HASH_DIGITS, RecallEntry, RecallIndex, RecallLog, ShownRecord

_Selection = InvestigateRequest | QuarantineRequest | RevertRequest


class RecordPlace(NamedTuple):
    """A version of a record: scope and name in its key, and the snapshot that wrote it."""

    scope: str
    name: str
    snapshot: int


@dataclass(frozen=True, slots=True)
class RecordVersion:
    """A version of a record with its content; None if that was erased, or if the version ends the record."""

    place: RecordPlace
    key: str
    record: Record | None
    indexed: IndexedRecord | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The commit that wrote a version: its run, when it was, and who made it, as far as it is known."""

    run_id: str
    at: str
    caller: str


class Lineage:
    """What is known about the versions of one namespace, as of a snapshot.

    Args:
        log: The recall log; None if none is kept.
        traces: The traces of runs, which name what each run recalled.
        at: The snapshot; by default the newest.
    """

    def __init__(
        self,
        reader: SnapshotReader,
        *,
        log: RecallLog | None,
        traces: TraceFolder | None,
        at: int | None = None,
    ) -> None:
        self._reader, self._store, self._namespace = reader, reader.store, reader.namespace
        self.head = self._store.head() if at is None else at
        self.has_log = log is not None
        self._log = RecallIndex() if log is None else log.index(self._namespace)
        self._traces = traces
        self._traced: RecallIndex | None = None
        self._versions: dict[str, list[Version]] = {}
        self._read: dict[tuple[str, int], RecordVersion] = {}
        self._writers: dict[int, WrittenBy] = {}
        self._hashes: dict[RecordPlace, str] = {}
        self._by_agent: dict[str, set[int]] = {}

    # Versions.

    def histories(self, keys: Iterable[str]) -> dict[str, list[Version]]:
        """Every version of each of some keys, oldest first."""
        missing = sorted({key for key in keys if key not in self._versions})
        for start in range(0, len(missing), SCAN_PAGE_RECORDS):
            page = missing[start : start + SCAN_PAGE_RECORDS]
            found = self._store.versions_under(self._namespace, page)
            of_key = {key: list(group) for key, group in groupby(found, key=lambda one: one.key)}
            self._versions.update({key: of_key.get(key, []) for key in page})
        return {key: self._versions[key] for key in keys}

    def versions(self, named: Collection[tuple[str, int]]) -> list[RecordVersion]:
        """Versions by key and snapshot. Those that are not there are left out."""
        histories = self.histories([key for key, _ in named])
        wanted = set(named)
        return [
            self.read(version)
            for key in dict.fromkeys(key for key, _ in named)
            for version in histories[key]
            if (key, version.memory_snapshot_id) in wanted
        ]

    def read(self, version: Version) -> RecordVersion:
        """A version with its content. Each is decoded once."""
        known = self._read.get((version.key, version.memory_snapshot_id))
        if known is not None:
            return known
        parts = key_parts(version.key)
        assert parts is not None, "a record is in a scope"
        place = RecordPlace(parts.scope, parts.name, version.memory_snapshot_id)
        record, indexed = None, None
        if version.content is not None:
            record, indexed = record_of(version), decode_record(version.content)
        found = RecordVersion(place, version.key, record, indexed)
        self._read[version.key, version.memory_snapshot_id] = found
        return found

    def shown(self, key: str, at: int) -> Version | None:
        """The version that a snapshot shows under a key, with or without content."""
        versions = [one for one in self.histories([key])[key] if one.memory_snapshot_id <= at]
        return shown_of(versions, self._store.hidden_at(self._namespace, at))

    def current(self, scope: str, name: str) -> RecordVersion | None:
        """The version of a record that is shown now, as law or as memory."""
        for band in RECALLED_BANDS:
            found = self.shown(scoped_key(band, scope, name), self.head)
            if found is not None and found.content is not None:
                return self.read(found)
        return None

    def all_of(self, scope: str, name: str) -> list[RecordVersion]:
        """Every version of a record with content, as law and as memory, oldest first."""
        keys = [scoped_key(band, scope, name) for band in RECALLED_BANDS]
        versions = [one for of_key in self.histories(keys).values() for one in of_key]
        return [self.read(one) for one in versions if one.action is not ActionType.EXPIRE]

    # Who wrote what.

    def written_by(self, snapshots: Iterable[int]) -> dict[int, WrittenBy]:
        """The commits that made some snapshots."""
        for snapshot in sorted({one for one in snapshots if one not in self._writers}):
            applied = self._store.commit_of(snapshot)
            self._writers[snapshot] = WrittenBy(
                applied.run_id, applied.committed_at, self._log.writers.get(snapshot, "")
            )
        return {snapshot: self._writers[snapshot] for snapshot in snapshots}

    def written_in(self, run_ids: Sequence[str]) -> dict[str, list[RecordVersion]]:
        """What some runs wrote as law or memory, ends of records included, by run."""
        found: dict[str, list[RecordVersion]] = {run_id: [] for run_id in run_ids}
        after = 0
        while run_ids:
            page = self._store.commits(after=after, limit=SCAN_PAGE_RECORDS, run_ids=run_ids)
            for applied in (one for one in page if one.memory_snapshot_id <= self.head):
                run_id = next(one for one in runs_of(applied.run_id) if one in found)
                found[run_id] += self._written_at(applied.memory_snapshot_id)
            if len(page) < SCAN_PAGE_RECORDS:
                break
            after = page[-1].memory_snapshot_id
        return found

    def _written_at(self, snapshot: int) -> list[RecordVersion]:
        return [
            self.read(one)
            for one in self._store.versions_of(snapshot)
            if one.namespace == self._namespace and one.key.partition("/")[0] in RECALLED_BANDS
        ]

    def by_agent(self, agent: str) -> set[int]:
        """The snapshots of the commits that an agent or a server's key made, by the recall log."""
        if agent not in self._by_agent:
            own = {snapshot for snapshot, caller in self._log.writers.items() if caller == agent}
            self._by_agent[agent] = own
        return self._by_agent[agent]

    def selected(self, asked: _Selection) -> list[RecordVersion]:
        """The versions of law and memory that a request names by source, agent, scope and time."""
        after, until = self.range_of(asked)
        index = self._reader.index
        source = asked.source
        agent = asked.agent if isinstance(asked, QuarantineRequest | RevertRequest) else None
        if source is None and agent is not None:
            source = {"kind": "agent", "id": agent}
        if source is not None:
            term = source_term(source["kind"], source["id"])
            named = index.versions_with([term], bands=RECALLED_BANDS, until=until)
            found = [one for one in named if one[1] > after]
            if agent is not None:
                by_agent = self.by_agent(agent)
                found += [
                    (one.key, one.place.snapshot)
                    for snapshot in sorted(by_agent)
                    if after < snapshot <= until
                    for one in self._written_at(snapshot)
                ]
        else:
            found = index.versions_in(asked.within, bands=RECALLED_BANDS, after=after, until=until)
            by_agent = set()
        return [
            one
            for one in self.versions(list(dict.fromkeys(found)))
            if one.record is not None
            and is_within(one.place.scope, asked.within)
            and self._is_asked(asked, one.record, one.place.snapshot, agent)
        ]

    def _is_asked(self, asked: _Selection, record: Record, snapshot: int, agent: str | None) -> bool:
        if agent is not None:
            own = record.source == {"kind": "agent", "id": agent}
            is_agents = own or snapshot in self.by_agent(agent)
            return is_agents and (asked.source is None or asked.is_source_of(record))
        return asked.is_source_of(record)

    def range_of(self, asked: _Selection) -> tuple[int, int]:
        """The snapshots of a request's range: behind the first, up to the second."""
        if isinstance(asked, RevertRequest):
            return asked.since_snapshot or 0, self.head
        first = 0 if asked.since is None else self._snapshot_before(asked.since)
        last = self.head if asked.until is None else self._snapshot_before(asked.until)
        return first, last

    def _snapshot_before(self, instant: str) -> int:
        """The last snapshot that was committed before an instant; 0 if there is none."""
        low, high = 0, self.head
        while low < high:
            middle = (low + high + 1) // 2
            if self._store.commit_of(middle).committed_at < instant:
                low = middle
            else:
                high = middle - 1
        return low

    # What cites what.

    def citing(self, cited: Sequence[RecordVersion]) -> Iterator[tuple[RecordVersion, RecordVersion]]:
        """Pairs of a version and one that cites it.

        A citation names a record. It means the version that was shown when the citing one was written, or
        one of the same commit.
        """
        by_name: dict[tuple[str, str], list[RecordVersion]] = {}
        for one in cited:
            memory_id = one.place.name if one.record is None else one.record.memory_id
            by_name.setdefault((one.place.scope, memory_id), []).append(one)
        terms = [cites_term(*name) for name in by_name]
        named = self._reader.index.versions_with(terms, bands=RECALLED_BANDS, until=self.head)
        for child in self.versions(named):
            for name in cited_by(child.indexed) if child.indexed is not None else ():
                for parent in by_name.get(name, ()):
                    if self._is_meant(parent, child):
                        yield parent, child

    def cited(self, version: RecordVersion) -> list[RecordVersion]:
        """The versions that a version cites."""
        found = []
        for scope, name in cited_by(version.indexed) if version.indexed is not None else ():
            for band in RECALLED_BANDS:
                meant = self.shown(scoped_key(band, scope, name), version.place.snapshot)
                if meant is not None and meant.content is not None:
                    found.append(self.read(meant))
                    break
        return [one for one in found if one.place != version.place]

    def _is_meant(self, parent: RecordVersion, child: RecordVersion) -> bool:
        if parent.place == child.place or parent.place.snapshot > child.place.snapshot:
            return False
        versions = self.histories([parent.key])[parent.key]
        until = child.place.snapshot
        # What cites its own subject means the version before it.
        own = child.key == parent.key
        earlier = [one for one in versions if one.memory_snapshot_id < until + (not own)]
        return bool(earlier) and earlier[-1].memory_snapshot_id == parent.place.snapshot

    def replaced_by(self, version: RecordVersion) -> list[RecordVersion]:
        """What took the place of a version: the next one of its subject, or a record that supersedes it."""
        history = self.histories([version.key])[version.key]
        later = [one for one in history if one.memory_snapshot_id > version.place.snapshot]
        if not later:
            return []
        if later[0].action is not ActionType.EXPIRE:
            return [self.read(later[0])]
        name = version.place.name if version.record is None else version.record.memory_id
        return [
            one
            for one in self._written_at(later[0].memory_snapshot_id)
            if one.record is not None and one.place.scope == version.place.scope
            if name in one.record.supersedes
        ]

    # What was handed to whom.

    def shown_in(self, version: RecordVersion) -> list[RecallEntry]:
        """The packages that showed a version."""
        # Working memory repeats long-term memory for a while, under the same id.
        keys = (version.key, scoped_key(Band.ACTIVE, version.place.scope, version.place.name))
        indexes = (self._log, self._trace_index())
        entries = [
            index.recalls[number]
            for index in indexes
            for key in keys
            for number in index.by_record.get(key, ())
        ]
        return _each_once(
            [
                entry
                for entry in entries
                if any(one.key in keys and self.is_shown(version, entry, one) for one in entry.records)
            ]
        )

    def is_shown(self, version: RecordVersion, entry: RecallEntry, shown: ShownRecord) -> bool:
        """Whether a record of a package is this version."""
        if version.place.snapshot > entry.snapshot:
            return False
        if shown.record_hash:
            return self._hash_of(version)[: len(shown.record_hash)] == shown.record_hash
        meant = self.shown(version.key, entry.snapshot)
        return meant is not None and meant.memory_snapshot_id == version.place.snapshot

    def recalls_of_run(self, run_id: str) -> list[RecallEntry]:
        """The packages that a run was handed."""
        indexes = (self._log, self._trace_index())
        return _each_once(
            [index.recalls[number] for index in indexes for number in index.by_run.get(run_id, ())]
        )

    def packages(self, package_hash: str) -> list[RecallEntry]:
        """Each time that a package was handed out."""
        indexes = (self._log, self._trace_index())
        return _each_once(
            [index.recalls[number] for index in indexes for number in index.by_package.get(package_hash, ())]
        )

    def shown_versions(self, entry: RecallEntry) -> list[RecordVersion]:
        """The versions that a package showed."""
        found: list[RecordVersion] = []
        for one in entry.records:
            key = one.key
            if prefix_in(key) == Band.ACTIVE:
                key = scoped_key(Band.LEDGER, scope_in(key), name_in(key))
            meant = self.shown(key, entry.snapshot)
            if meant is not None and meant.action is not ActionType.EXPIRE:
                version = self.read(meant)
                if version.record is None or self.is_shown(version, entry, one):
                    found.append(version)
        return found

    def _hash_of(self, version: RecordVersion) -> str:
        if version.place not in self._hashes:
            known = "" if version.indexed is None else record_hash_of(version.indexed)
            self._hashes[version.place] = known
        return self._hashes[version.place]

    def _trace_index(self) -> RecallIndex:
        """What traces say about recalls that the log does not have."""
        if self._traced is None:
            self._traced = RecallIndex()
            for entry in _traced_recalls(self._traces, self._namespace):
                if entry.run_id not in self._log.by_run:
                    self._traced.add(entry)
        return self._traced


def _each_once(entries: Sequence[RecallEntry]) -> list[RecallEntry]:
    found = {(one.at, one.package_hash, one.run_id, one.caller): one for one in entries}
    return [found[key] for key in sorted(found)]


class _SelectedRecord(msgspec.Struct):
    record_id: str
    record_type: str
    record_hash: str


class _Retrieval(msgspec.Struct):
    namespace: str
    scopes: tuple[str, ...]
    selected_records: tuple[_SelectedRecord, ...]
    package_hash: str | None = None


class _Times(msgspec.Struct):
    started_at: str


class _TraceHead(msgspec.Struct):
    """The part of a trace that says what was recalled. The rest is skipped, which is ten times as fast."""

    run_id: str
    workflow_id: str
    memory_snapshot_id: int
    retrievals: tuple[_Retrieval, ...]
    metadata: _Times


assert set(_TraceHead.__struct_fields__) <= set(Trace.__struct_fields__)
_decode_trace: Final = msgspec.json.Decoder(_TraceHead).decode


def _traced_recalls(folder: TraceFolder | None, namespace: str) -> Iterator[RecallEntry]:
    """The recalls of recorded runs. A trace names records by id, so each is looked for in every scope that
    the recall named.
    """
    if folder is None:
        return
    for file in folder.run_files():
        try:
            trace = _decode_trace(read_artifact(file))
        except (TraceError, msgspec.MsgspecError):
            continue
        for one in trace.retrievals:
            if one.namespace == namespace and one.package_hash is not None:
                records = [
                    ShownRecord(
                        scoped_key(record.record_type, scope, record.record_id),
                        record.record_hash[:HASH_DIGITS],
                    )
                    for record in one.selected_records
                    for scope in one.scopes
                ]
                yield RecallEntry(
                    trace.metadata.started_at,
                    namespace,
                    one.package_hash,
                    trace.memory_snapshot_id,
                    trace.workflow_id,
                    trace.run_id,
                    one.scopes,
                    tuple(records),
                )
