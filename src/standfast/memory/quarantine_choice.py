"""Which versions of records an act of quarantine hides: what a request names, with what cites it and with
copies of it, and what that had ended.

What a source, an agent or a run said stays if another source said it too, and what cites only that stays with
it. What a hidden record had superseded is current again, unless something newer took the hidden one's place.

The same request as of the same snapshot always gives the same choice, so that any process can go on with it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from standfast.errors import InvalidValue, NoSuchSnapshot, NotFound
from standfast.govern.judge.claim import WITNESS_OF
from standfast.govern.patterns import is_pattern_key
from standfast.limits import MAX_LISTED_LAW
from standfast.memory.lineage import Lineage, RecordPlace, RecordVersion
from standfast.memory.run_dependencies import RunServices
from standfast.records.incident_requests import QuarantineRequest, RevertRequest
from standfast.records.rows import RowKind
from standfast.records.scopes import is_within, key_parts, name_in, prefix_in, prefix_of, scope_in, scoped_key
from standfast.records.vocabulary import ActionType, Band, Record, Value
from standfast.store.protocol import AppliedCommit, Version, verified
from standfast.store.quarantine import HiddenVersions, shown_of
from standfast.store.stored_records import keys_of, record_of, superseded_keys

ActRequest = QuarantineRequest | RevertRequest
_HIDDEN_BANDS: Final = (Band.LEDGER, Band.ACTIVE, Band.WITNESS)


class RevertConflict(Value, frozen=True, kw_only=True):
    """A record that others changed after the run. Their change is kept."""

    scope: str
    memory_id: str
    snapshot: int
    changed_in: int


class KeptRecord(Value, frozen=True, kw_only=True):
    """A record that stays, because another source said it too."""

    scope: str
    memory_id: str
    source: str


class HiddenRow(NamedTuple):
    """What an act hides under one name: snapshots by band."""

    source: dict[str, Any] | None
    bands: dict[str, set[int]]


class QuarantineChoice(NamedTuple):
    """What an act hides in all, by the key of the row about it, and what it leaves."""

    rows: dict[str, HiddenRow]
    versions: tuple[RecordPlace, ...]
    restored: frozenset[tuple[str, str]]
    law: tuple[str, ...]
    conflicts: tuple[RevertConflict, ...]
    kept: tuple[KeptRecord, ...]


class StandingAct(NamedTuple):
    """An act that is in force: what it named, and the snapshot up to which."""

    asked: QuarantineRequest
    until: int


def decide(
    services: RunServices,
    asked: ActRequest,
    lineage: Lineage,
    *,
    standing: Sequence[StandingAct],
    is_resumed: bool = False,
) -> QuarantineChoice:
    """Choose what a request hides, as of the head of a lineage.

    Args:
        standing: The acts that are in force then.
        is_resumed: Whether the act was begun before, so that what it names may have been forgotten since.

    Raises:
        InvalidValue: There is no such record.
        NotFound: There is no such run.
    """
    return _Decider(services, asked, lineage, standing, is_resumed=is_resumed).decide()


class _Decider:
    """Decides which versions an act hides, as of the head of a lineage."""

    def __init__(
        self,
        services: RunServices,
        asked: ActRequest,
        lineage: Lineage,
        standing: Sequence[StandingAct],
        *,
        is_resumed: bool,
    ) -> None:
        self._store, self._namespace = services.store, services.namespace
        self._has_budgets = bool(services.budgets.budgets)
        self._asked, self._lineage, self._is_resumed = asked, lineage, is_resumed
        self._standing = standing
        self._hidden_before = self._store.hidden_at(self._namespace, lineage.head).versions
        self._hidden: dict[str, set[int]] = {}
        self._rows: dict[str, HiddenRow] = {}
        self._versions: set[RecordPlace] = set()
        self._law: set[str] = set()
        self._conflicts: list[RevertConflict] = []
        self._kept: dict[RecordPlace, KeptRecord] = {}
        self._runs: dict[str, frozenset[int]] = {}
        self._ranges: dict[int, tuple[int, int]] = {}

    def decide(self) -> QuarantineChoice:
        """Decide. The same request as of the same snapshot always gives the same."""
        if isinstance(self._asked, RevertRequest):
            self._revert(self._asked)
        else:
            self._quarantine(self._asked)
        self._end_superseding()
        return QuarantineChoice(
            self._rows,
            tuple(sorted(self._versions)),
            frozenset(self._restored()),
            tuple(sorted(self._law)[:MAX_LISTED_LAW]),
            tuple(sorted(self._conflicts, key=lambda one: (one.scope, one.memory_id))),
            tuple(self._kept[place] for place in sorted(self._kept)[:MAX_LISTED_LAW]),
        )

    def _require_run(self, run_id: str) -> list[AppliedCommit]:
        commits = [
            one
            for one in self._store.commits(run_ids=[run_id])
            if any(
                row.namespace == self._namespace for row in self._store.versions_of(one.memory_snapshot_id)
            )
        ]
        if not commits and not self._is_resumed:
            raise NotFound(what=f"commit of run {run_id!r:.80}")
        return commits

    # Quarantine.

    def _quarantine(self, asked: QuarantineRequest) -> None:
        found = {one.place: one for one in self._named(asked)}
        if asked.memory_id is None:
            self._weigh_witnesses(asked, found)
        level = list(found.values())
        while level and asked.descendants:
            new = {child.place: child for _, child in self._lineage.citing(level)}
            level = [child for place, child in new.items() if place not in found]
            found |= {one.place: one for one in level}
        by_name: dict[tuple[str, str], list[RecordVersion]] = {}
        for place in sorted(found):
            by_name.setdefault((place.scope, place.name), []).append(found[place])
        for (scope, name), versions in by_name.items():
            law = [one for one in versions if prefix_in(one.key) == Band.VAULT]
            self._law.update(one.key for one in law)
            self._hide_with_copies(scope, name, [one for one in versions if one not in law and one.record])

    def _named(self, asked: QuarantineRequest) -> list[RecordVersion]:
        after, until = self._lineage.range_of(asked)
        if asked.memory_id is not None:
            current = self._lineage.current(asked.place, asked.memory_id)
            if current is None and self._is_resumed:
                # It was forgotten meanwhile. What cites it is still to be hidden.
                versions = self._lineage.all_of(asked.place, asked.memory_id)
                return [one for one in versions if one.place.snapshot <= self._lineage.head][-1:]
            if current is None:
                problem = (
                    f"there is no record {asked.memory_id!r:.80} in scope {asked.place} now; name the id that"
                    " remember returned, and its scope"
                )
                raise InvalidValue(what="memory_id", problem=problem)
            return [current]
        if asked.run_id is not None:
            self._require_run(asked.run_id)
            written = self._lineage.written_in([asked.run_id])[asked.run_id]
            return [
                one
                for one in written
                if one.record is not None
                and is_within(one.place.scope, asked.within)
                and after < one.place.snapshot <= until
            ]
        return self._lineage.selected(asked)

    def _hide_with_copies(self, scope: str, name: str, versions: list[RecordVersion]) -> None:
        """Hide versions of a record, with copies of them in other bands and in the archive."""
        if not versions:
            return
        snapshots = {one.place.snapshot for one in versions}
        proofs = {one.record.evidence.hash for one in versions if one.record and one.record.evidence}
        keys = [scoped_key(band, scope, name) for band in (Band.LEDGER, Band.ACTIVE)]
        if self._has_budgets and versions[0].record is not None:
            memory_id = versions[0].record.memory_id.partition("@")[0]
            bands = (Band.LEDGER, Band.ACTIVE)
            keys = keys_of(self._store, self._namespace, memory_id, bands, scope=scope, at=self._lineage.head)
        for key, history in self._lineage.histories(keys).items():
            for version in history:
                if version.memory_snapshot_id > self._lineage.head or version.action is ActionType.EXPIRE:
                    continue
                copy = self._lineage.read(version)
                evidence = None if copy.record is None else copy.record.evidence
                if version.memory_snapshot_id in snapshots or (evidence and evidence.hash in proofs):
                    self._hide(key, version.memory_snapshot_id, copy.record)

    def _hide(self, key: str, snapshot: int, record: Record | None) -> None:
        parts = key_parts(key)
        assert parts is not None, "a record is in a scope"
        note = scoped_key(RowKind.QUARANTINED, parts.scope, parts.name)
        source = None if record is None else record.source
        hides = self._rows.setdefault(note, HiddenRow(source, {}))
        if hides.source is None and source is not None:
            hides = self._rows[note] = hides._replace(source=source)
        hides.bands.setdefault(parts.prefix, set()).add(snapshot)
        self._hidden.setdefault(key, set()).add(snapshot)
        if record is not None and parts.prefix == Band.LEDGER:
            self._versions.add(RecordPlace(parts.scope, parts.name, snapshot))

    def _is_hidden(self, key: str, snapshot: int) -> bool:
        """Whether a version is hidden, by this act or by another one."""
        return snapshot in self._hidden.get(key, ()) or snapshot in self._hidden_before.get(key, ())

    # Witnesses.

    def _weigh_witnesses(self, asked: QuarantineRequest, found: dict[RecordPlace, RecordVersion]) -> None:
        """Hide what is named of the rows that say that a source repeated a record, and take out of what was
        found what others repeat. A pattern of attacks stays: it is about a source.
        """
        fallen, others = list[Record](), dict[tuple[str, str], list[tuple[int, Record]]]()
        rows = self._store.newest_versions(
            self._namespace, prefix=prefix_of(Band.WITNESS, asked.within), at=self._lineage.head
        )
        for row in rows:
            if row.content is None or is_pattern_key(row.key):
                continue
            witness = record_of(verified(row))
            if self._names(asked, witness, row.memory_snapshot_id, self._lineage.head):
                self._hide(row.key, row.memory_snapshot_id, witness)
                fallen.append(witness)
            elif not self._is_hidden(row.key, row.memory_snapshot_id):
                vouched = witness.scope, _vouched_by(witness)
                others.setdefault(vouched, []).append((row.memory_snapshot_id, witness))
        for witness in fallen:
            # A record may stand only because of this witness: its own source is in quarantine already.
            current = self._lineage.current(witness.scope, _vouched_by(witness))
            if current is not None and current.record is not None and self._is_carried(current):
                found[current.place] = current
        for place, version in list(found.items()):
            if version.record is None or prefix_in(version.key) == Band.VAULT:
                continue
            for snapshot, witness in others.get((place.scope, version.record.memory_id), ()):
                shown = self._lineage.shown(version.key, snapshot)
                is_meant = shown is not None and shown.memory_snapshot_id == place.snapshot
                if is_meant and witness.origin.rank >= version.record.origin.rank:
                    del found[place]
                    self._kept[place] = KeptRecord(
                        scope=place.scope, memory_id=version.record.memory_id, source=_source_of(witness)
                    )
                    break

    def _names(self, asked: QuarantineRequest, record: Record, snapshot: int, until: int) -> bool:
        """Whether a request by source, agent or run names what was written in a snapshot."""
        if id(asked) not in self._ranges:
            self._ranges[id(asked)] = self._lineage.range_of(asked)
        after, before = self._ranges[id(asked)]
        if not (after < snapshot <= min(before, until) and is_within(record.scope, asked.within)):
            return False
        if asked.run_id is not None:
            return snapshot in self._snapshots_of(asked.run_id)
        if asked.agent is not None:
            own = {"kind": "agent", "id": asked.agent}
            return record.source == own or snapshot in self._lineage.by_agent(asked.agent)
        return asked.is_source_of(record)

    def _snapshots_of(self, run_id: str) -> frozenset[int]:
        if run_id not in self._runs:
            commits = self._store.commits(run_ids=[run_id])
            self._runs[run_id] = frozenset(one.memory_snapshot_id for one in commits)
        return self._runs[run_id]

    def _is_carried(self, version: RecordVersion) -> bool:
        """Whether an act that is in force named a record and left it, because of its witnesses."""
        record, snapshot = version.record, version.place.snapshot
        return record is not None and any(
            act.asked.memory_id is None and self._names(act.asked, record, snapshot, act.until)
            for act in self._standing
        )

    # What hidden records had ended.

    def _end_superseding(self) -> None:
        """Hide that records ended, if what superseded them is hidden and nothing newer took its place."""
        waiting = [
            (key, snapshot) for key, found in sorted(self._hidden.items()) for snapshot in sorted(found)
        ]
        seen = set(waiting)
        while waiting:
            key, snapshot = waiting.pop()
            history = self._history(key)
            (own,) = [one for one in history if one.memory_snapshot_id == snapshot]
            # An earlier act may have left open what this version kept ended.
            links = [one for one in history if one.memory_snapshot_id < snapshot][-1:]
            version = self._lineage.read(own)
            supersedes = version.record is not None and version.record.supersedes
            # Working memory repeats long-term memory for a while; what took its place is known of the latter.
            is_copy = self._is_hidden(_in_ledger(key), snapshot) and prefix_in(key) != Band.LEDGER
            if version.record is not None and supersedes and not is_copy and not self._is_continued(version):
                # What another act hides it may have brought back already.
                is_own = snapshot in self._hidden.get(key, ())
                for ended in superseded_keys(version.record):
                    if is_own or not self._is_hidden(ended, snapshot):
                        links += self._hide_end(ended, snapshot)
            for link in links:
                place = link.key, link.memory_snapshot_id
                if place not in seen and self._is_hidden(*place):
                    seen.add(place)
                    waiting.append(place)

    def _is_continued(self, version: RecordVersion) -> bool:
        """Whether something that is not hidden took the place of a version, over any number of steps."""
        level, seen = [version], {version.place}
        while level:
            later = [two for one in level for two in self._lineage.replaced_by(one) if two.place not in seen]
            later = [one for one in later if one.place.snapshot <= self._lineage.head]
            if any(not self._is_hidden(one.key, one.place.snapshot) for one in later):
                return True
            seen.update(one.place for one in later)
            level = later
        return False

    def _hide_end(self, key: str, snapshot: int) -> list[Version]:
        """Hide that a record ended in a snapshot, so that it is shown again; the version that had ended."""
        ends = [
            one
            for one in self._history(key)
            if one.memory_snapshot_id == snapshot and one.action is ActionType.EXPIRE
        ]
        if not ends or snapshot in self._hidden.get(key, ()):
            return []
        self._hide(key, snapshot, None)
        return [one for one in self._history(key) if one.memory_snapshot_id < snapshot][-1:]

    def _history(self, key: str) -> list[Version]:
        found = self._lineage.histories([key])[key]
        return [one for one in found if one.memory_snapshot_id <= self._lineage.head]

    def _restored(self) -> Iterator[tuple[str, str]]:
        """The names under which something else is shown than before."""
        before = HiddenVersions(0, self._hidden_before)
        for key, found in self._hidden.items():
            history = self._history(key)
            both = frozenset(found) | self._hidden_before.get(key, frozenset())
            now = shown_of(history, HiddenVersions(0, {key: both}))
            is_new = now is not shown_of(history, before)
            if prefix_in(key) == Band.LEDGER and is_new and now is not None and now.content is not None:
                yield scope_in(key), name_in(key)

    # Revert.

    def _revert(self, asked: RevertRequest) -> None:
        selected = self._written(asked)
        by_key: dict[str, list[RecordVersion]] = {}
        for one in selected:
            by_key.setdefault(one.key, []).append(one)
        kept_ends = set[tuple[str, int]]()
        # Ends last: what a record ended stays ended if the record is kept.
        for key in sorted(by_key, key=lambda one: (all(at.record is None for at in by_key[one]), one)):
            parts = key_parts(key)
            assert parts is not None, "a record is in a scope"
            if parts.prefix == Band.VAULT:
                self._law.add(key)
                continue
            own = {one.place.snapshot for one in by_key[key]}
            proofs = {one.record.evidence.hash for one in by_key[key] if one.record and one.record.evidence}
            later = [
                version.memory_snapshot_id
                for version in self._lineage.histories([key])[key]
                if max(own) < version.memory_snapshot_id <= self._lineage.head
                and not self._is_copy(version, proofs)
            ]
            if later:
                for one in by_key[key]:
                    ended = () if one.record is None else superseded_keys(one.record)
                    kept_ends.update((end, one.place.snapshot) for end in ended)
                if parts.prefix == Band.LEDGER:
                    self._conflicts.append(
                        RevertConflict(
                            scope=parts.scope,
                            memory_id=parts.name,
                            snapshot=max(own),
                            changed_in=min(later),
                        )
                    )
                continue
            for one in by_key[key]:
                if one.record is not None:
                    self._hide_with_copies(parts.scope, parts.name, [one])
                    self._hide(key, one.place.snapshot, one.record)
                elif (key, one.place.snapshot) not in kept_ends:
                    self._hide_end(key, one.place.snapshot)

    def _is_copy(self, version: Version, proofs: set[str]) -> bool:
        if version.content is None:
            return False
        evidence = record_of(version).evidence
        return evidence is not None and evidence.hash in proofs

    def _written(self, asked: RevertRequest) -> list[RecordVersion]:
        """The versions of records that a revert names, ends of records included."""
        if asked.run_id is not None:
            commits = self._require_run(asked.run_id)
            rows = [row for one in commits for row in self._store.versions_of(one.memory_snapshot_id)]
        else:
            after, until = self._lineage.range_of(asked)
            if after > self._lineage.head:
                raise NoSuchSnapshot(memory_snapshot_id=after, head=self._lineage.head)
            rows = self._store.versions_between(self._namespace, after, until) if after < until else []
        bands = (*_HIDDEN_BANDS, Band.VAULT)
        by_agent = None if asked.agent is None else self._lineage.by_agent(asked.agent)
        found = []
        for row in rows:
            if row.namespace != self._namespace or prefix_in(row.key) not in bands or is_pattern_key(row.key):
                continue
            if not is_within(scope_in(row.key), asked.within):
                continue
            version = self._lineage.read(row)
            record = version.record
            is_filtered = asked.source is not None or by_agent is not None
            if record is None:
                if row.action is ActionType.EXPIRE and not is_filtered:
                    found.append(version)
                continue
            own = {"kind": "agent", "id": asked.agent}
            is_agents = by_agent is None or record.source == own or version.place.snapshot in by_agent
            if is_agents and asked.is_source_of(record):
                found.append(version)
        return found


def _in_ledger(key: str) -> str:
    return scoped_key(Band.LEDGER, scope_in(key), name_in(key))


def _vouched_by(witness: Record) -> str:
    """The id of the record that a witness repeats."""
    return next((str(ref.get("id")) for ref in witness.refs if ref.get("kind") == WITNESS_OF), "")


def _source_of(record: Record) -> str:
    source = record.source or {}
    return f"{source.get('kind', '')}:{source.get('id', '')}"
