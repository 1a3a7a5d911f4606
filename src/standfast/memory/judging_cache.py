"""What judging looks up: law and patterns, cached between runs; what one run adds to them; origins of what is
cited; what is superseded.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.admission import CANONICAL_VERDICTS, WaitingProposals, with_own_id, witness_prefix
from standfast.govern.approvals.queue import ApprovalQueue
from standfast.govern.authority import Role
from standfast.govern.judge.claim import source_key
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.govern.patterns import is_pattern_key, pattern_prefix
from standfast.govern.refusals import RefusalLookup
from standfast.limits import MAX_SUPERSEDED
from standfast.policies.band_budget import OBSERVATION
from standfast.records.origins import CITING_KINDS, DISPUTES, Origin, kind_of, lowest
from standfast.records.requests import RememberRequest
from standfast.records.scopes import (
    SHARED,
    checked_scope,
    prefix_of,
    refused_key,
    said_key,
    scoped_key,
)
from standfast.records.vocabulary import Band, Receipt, Record
from standfast.store.commit import Commit
from standfast.store.protocol import RecordKey
from standfast.store.store import Store
from standfast.store.stored_records import record_of

_VAULT: Final = prefix_of(Band.VAULT)
_LAW_OR_WITNESS: Final = (_VAULT, prefix_of(Band.WITNESS))
_MAX_EQUAL_RECORDS: Final = 4
_MAX_WITNESSES: Final = 16
_MAX_SCOPES: Final = 10_000
_ByScope: TypeAlias = dict[str, tuple[Record, ...]]


class _CachedLaw(NamedTuple):
    """The law of all scopes, valid for every snapshot from the first to the last one, as are the contexts
    made of it.
    """

    first: int
    last: int
    law: _ByScope
    law_names: frozenset[str]
    contexts: dict[str, JudgingContext]
    """Those of the scopes that were asked for."""

    @property
    def size(self) -> int:
        return len(self.law_names) + sum(len(context.patterns) for context in self.contexts.copy().values())


class JudgingCache:
    """The law and the patterns of one namespace.

    Threads may share it; it always returns what reading again would.

    Analysing law costs in proportion to all of it, and hardly any commit changes it. Whether one did is seen
    from the commits in between: this memory's own are reported with ``saw``, those of others are looked up.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._cached: _CachedLaw | None = None

    def at(self, snapshot: int, scope: str = SHARED) -> JudgingContext:
        """Return the context of every judgement in a scope at a snapshot."""
        cached = self._law_at(snapshot)
        context = cached.contexts.get(scope)
        if context is None:
            if len(cached.contexts) > _MAX_SCOPES:
                cached.contexts.clear()
            context = cached.contexts[scope] = self._context(cached.law, snapshot, scope)
        return context

    def _context(self, law: _ByScope, snapshot: int, scope: str) -> JudgingContext:
        """Its own law and patterns, and shared law."""
        rows = self._store.scan(self._namespace, prefix=pattern_prefix(scope), at=snapshot)
        patterns = tuple(map(record_of, rows))
        if scope != SHARED and scope not in law:
            return self.at(snapshot).in_scope(scope, patterns=patterns)
        applies = law.get(SHARED, ()) + (() if scope == SHARED else law[scope])
        return JudgingContext(vault=applies, patterns=patterns, scope=scope).precomputed()

    def law_names_at(self, snapshot: int) -> frozenset[str]:
        """Return ``scope//memory_id`` of all law, by which recall leaves out what law replaces."""
        return self._law_at(snapshot).law_names

    def saw(self, commit: Commit, receipt: Receipt) -> None:
        """Note a commit of this memory's own, so that it need not be looked up."""
        cached = self._cached
        if cached is not None and receipt.memory_snapshot_id == cached.last + 1:
            touched = self._touches((write.namespace, write.key) for write in commit.writes)
            self._cached = None if touched else cached._replace(last=receipt.memory_snapshot_id)

    def _law_at(self, snapshot: int) -> _CachedLaw:
        cached = self._cached
        if cached is not None and cached.last < snapshot and self._is_unchanged(cached, snapshot):
            cached = self._cached = cached._replace(last=snapshot)
        if cached is None or not cached.first <= snapshot <= cached.last:
            cached = self._cached = self._read(snapshot)
        return cached

    def _is_unchanged(self, cached: _CachedLaw, snapshot: int) -> bool:
        # Following costs one lookup per commit, reading again more than one per record: the cheaper one is
        # done.
        if snapshot - cached.last > cached.size:
            return False
        between = self._store.versions_between(self._namespace, cached.last, snapshot, with_content=False)
        return not self._touches((row.namespace, row.key) for row in between)

    def _touches(self, keys: Iterable[RecordKey]) -> bool:
        near = [
            key for namespace, key in keys if key.startswith(_LAW_OR_WITNESS) and namespace == self._namespace
        ]
        return any(key.startswith(_VAULT) or is_pattern_key(key) for key in near)

    def _read(self, at: int) -> _CachedLaw:
        law = self._by_scope(_VAULT, at)
        names = (record.key.removeprefix(_VAULT) for records in law.values() for record in records)
        return _CachedLaw(at, at, law, frozenset(names), {})

    def _by_scope(self, prefix: str, at: int) -> _ByScope:
        found: dict[str, list[Record]] = {}
        for record in map(record_of, self._store.scan(self._namespace, prefix=prefix, at=at)):
            found.setdefault(record.scope, []).append(record)
        return {scope: tuple(records) for scope, records in found.items()}


class Presence(NamedTuple):
    """What one look at the store told before a claim was judged; see ``Store.presence``.

    Attributes:
        is_said: Whether there may be records of the scope that say the same word for word.
        has_refusals: Whether anything was ever refused in the scope.
    """

    is_said: bool
    has_refusals: bool


def presence_of(store: Store, namespace: str, claim: Claim) -> tuple[int, Presence]:
    """The newest snapshot, and what is present for a claim."""
    scope = claim.record.scope
    prefixes = [said_key(scope, claim.reading.fingerprint), refused_key(scope, "")]
    head, found = store.presence(namespace, prefixes)
    return head, Presence(*found)


class RunJudgingContext:
    """What the judge sees of one scope during one run: law and patterns, records that a claim may repeat, and
    what the run accepted.

    Args:
        presence: That of the first claim, if it is known.
    """

    def __init__(
        self,
        cache: JudgingCache,
        store: Store,
        namespace: str,
        at: int,
        scope: str = SHARED,
        *,
        presence: Presence | None = None,
    ) -> None:
        self._presence = presence
        self._has_refusals: bool | None = None if presence is None else presence.has_refusals
        self._store = store
        self._namespace = namespace
        self._at = at
        self._scope = scope
        self._context = cache.at(at, scope)
        self._looked_up: set[str] = set()
        self._accepted: list[Claim] = []
        self._current: dict[str, Record | None] = {}
        self.waiting = WaitingCounter(store, namespace, scope, at)
        self._refusals = RefusalLookup(store, namespace, scope, at)

    def for_claim(
        self, claim: Claim, *, recalled: Sequence[tuple[str, str]], forgotten: frozenset[str], today: str
    ) -> JudgingContext:
        """Return the context of one claim.

        Args:
            recalled: The ids and excerpts that the run was handed, so that they are not remembered again as
                if they were new.
            forgotten: The ids of records that the run forgets.
            today: The day of the judgement, by which patterns of attacks fade.
        """
        # Accepted claims are added when the next one comes, so the last one of a run costs nothing.
        for accepted in self._accepted:
            self._context = self._context.with_accepted(accepted)
        self._accepted.clear()
        subject = claim.record.subject
        if subject is not None and (own := self._ledger_key(subject)) not in self._looked_up:
            self._looked_up.add(own)
            if (current := self.current(subject)) is not None:
                self._add_known(current)
        # Nearly every text is new, and nearly no scope has refusals.
        present, self._presence = self._presence, None
        if present is not None:
            is_said = present.is_said
        elif self._has_refusals is None:
            _, (is_said, self._has_refusals) = presence_of(self._store, self._namespace, claim)
        else:
            # Refusals that came after the snapshot bind no claim of this run.
            said = said_key(self._scope, claim.reading.fingerprint)
            _, (is_said,) = self._store.presence(self._namespace, [said])
        for record in self._equal_records(claim) if is_said else ():
            self._add_known(record)
        self._context = self._context.updated(
            refused=self._refusals.binding(claim, today) if self._has_refusals else frozenset(),
            recalled=tuple(excerpt for _, excerpt in recalled),
            recalled_ids=tuple(memory_id for memory_id, _ in recalled),
            forgotten=forgotten,
            today=today,
        )
        return self._context

    def accept(self, claim: Claim) -> None:
        """Make an accepted claim known to the judgements after it."""
        self._accepted.append(claim)
        record = claim.record
        self._current[record.memory_id] = record

    def repinned(self, memory_id: str, pin: bool) -> Record | None:
        """A record of the scope with a pin or without one, to be judged again; None if it is so already."""
        record = self.current(memory_id)
        if record is None or bool(record.pinned) is pin:
            return None
        return replace(record, pinned=pin or None, verdict=None, evidence=None)

    def placed(self, record: Record, forgotten: Collection[str], *, keeps_pin: bool) -> Record:
        """The record under an id of its own if it must not replace the current text of its subject.

        What a trusted user says ends what ordinary sources said next to it.

        Args:
            forgotten: The keys of what the run forgets.
            keeps_pin: Whether it is pinned if the text that it replaces is.
        """
        subject = record.subject
        if subject is None or record.several:
            return record
        if record.origin is Origin.TRUSTED:
            before = self.current(subject) if keeps_pin else None
            if before is not None and before.pinned and before.key not in forgotten:
                record = replace(record, pinned=True)
            beside = [one for one in self._ordinary_beside(subject) if one not in record.supersedes]
            ended = (*record.supersedes, *beside)[:MAX_SUPERSEDED]
            return replace(record, supersedes=ended) if beside else record
        current = None if record.origin is Origin.UNTRUSTED else self.current(subject)
        is_forgotten = current is not None and current.key in forgotten
        return with_own_id(record, None if is_forgotten else current)

    def current(self, memory_id: str) -> Record | None:
        """The accepted record with an id, which is its subject if it has one, as of the snapshot and of what
        the run accepted since.
        """
        if memory_id not in self._current:
            key = self._ledger_key(memory_id)
            found = self._store.read(self._namespace, [key], at=self._at)
            self._current[memory_id] = record_of(found[key]) if key in found else None
        return self._current[memory_id]

    def _ordinary_beside(self, subject: str) -> list[str]:
        """The ids of what ordinary sources say about a subject that a trusted user spoke of, in order."""
        rows = self._store.scan(self._namespace, prefix=self._ledger_key(f"{subject}~"), at=self._at)
        found = [record_of(row) for row in rows]
        return [
            record.memory_id
            for record in found
            if record.subject == subject
            and record.origin is Origin.ORDINARY
            and record.verdict in CANONICAL_VERDICTS
            and not record.several
        ]

    def _ledger_key(self, memory_id: str) -> str:
        return scoped_key(Band.LEDGER, self._scope, memory_id)

    def _add_known(self, record: Record) -> None:
        """Add a record and its witnesses to what is known."""
        prefix = scoped_key(Band.WITNESS, self._scope, witness_prefix(record.memory_id))
        witnesses = map(record_of, self._store.scan(self._namespace, prefix=prefix, at=self._at))
        for known in (record, *islice(witnesses, _MAX_WITNESSES)):
            self._context = self._context.with_accepted(Claim(record=known))

    def _equal_records(self, claim: Claim) -> Iterator[Record]:
        """Yield records that say the same word for word, for the floor against duplicates."""
        prefix = said_key(self._scope, claim.reading.fingerprint)
        notes = self._store.scan(self._namespace, prefix=prefix, at=self._at)
        for note in islice(notes, _MAX_EQUAL_RECORDS):
            key = scoped_key(Band.LEDGER, self._scope, note.key.removeprefix(prefix))
            if key not in self._looked_up:
                self._looked_up.add(key)
                yield from map(record_of, self._store.read(self._namespace, [key], at=self._at).values())


class WaitingCounter:
    """Counts the proposals of untrusted sources that wait in a scope, by source.

    A record that it is asked about will wait too if there is room, and counts from then on.
    """

    def __init__(self, store: Store, namespace: str, scope: str, at: int) -> None:
        self._store, self._namespace, self._scope, self._at = store, namespace, scope, at
        self._counts: Counter[str] | None = None

    def __call__(self, record: Record) -> WaitingProposals:
        """Return how many wait already: of the record's source, and of all."""
        if self._counts is None:
            queue = ApprovalQueue(self._store, self._namespace, clock=self._store.clock)
            waiting = [one.record for one in queue.waiting(at=self._at)]
            self._counts = Counter(
                source_key(one.source)
                for one in waiting
                if one.scope == self._scope and one.origin is Origin.UNTRUSTED
            )
        source = source_key(record.source)
        found = WaitingProposals(self._counts[source], self._counts.total())
        self._counts[source] += not found.problem
        return found


# In the order in which they are looked up: law wins.
_CITED_BANDS: Final = (Band.VAULT, Band.LEDGER, Band.ACTIVE, Band.WITNESS)


class OriginLookup:
    """Tells how far a text is trusted, by its source and refs as of a snapshot."""

    def __init__(
        self, store: Store, namespace: str, origin_of_kind: Mapping[str, Origin], *, at: int
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._origin_of_kind = origin_of_kind
        self._at = at

    def origin_of(
        self,
        source: Mapping[str, Any],
        request: RememberRequest,
        own: Mapping[tuple[str, str], Origin],
        highest: Origin,
    ) -> Origin:
        """The lowest origin of the source of a request, of its refs, and of ``highest``.

        Args:
            own: The origins of records that the run has not committed yet, by scope and id.
            highest: The most that whoever asks may be trusted.
        """
        if highest is Origin.UNTRUSTED:
            return highest
        # An observation is what a write policy is shown of the text itself, and cites nothing.
        cited = [ref for ref in request.refs if kind_of(ref) != OBSERVATION] if request.refs else []
        found = [self._origin_of_one(one, request.place, own) for one in (source, *cited)]
        return found[0] if highest is Origin.TRUSTED and not cited else lowest([highest, *found])

    def _origin_of_one(
        self, source: Mapping[str, Any], scope: str, own: Mapping[tuple[str, str], Origin]
    ) -> Origin:
        if (kind := kind_of(source)) not in CITING_KINDS:
            return self._origin_of_kind.get(kind, Origin.UNTRUSTED)
        memory_id = source.get("id")
        if not isinstance(memory_id, str) or not memory_id:
            return Origin.UNTRUSTED
        within = checked_scope(source["scope"]) if isinstance(source.get("scope"), str) else scope
        if (within, memory_id) in own:
            return own[within, memory_id]
        keys = [scoped_key(band, within, memory_id) for band in _CITED_BANDS]
        found = self._store.read(self._namespace, keys, at=self._at)
        if keys[0] in found:
            return Origin.TRUSTED
        return lowest(record_of(row).origin for row in found.values()) if found else Origin.UNTRUSTED


class Superseded(NamedTuple):
    """What a new record ends of what it was meant to replace, and what it does not end."""

    ended: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    """What a trusted user said. A record of an ordinary source is kept next to it."""

    def applied_to(self, record: Record) -> Record:
        """The record with what it ends, and with a ref to each record that it disputes."""
        if not self.disputed:
            return record
        refs = [{"kind": "memory", "id": one, "relation": DISPUTES} for one in self.disputed]
        return replace(record, supersedes=self.ended, refs=(*record.refs, *refs))

    def reasons(self, record: Record) -> tuple[str, ...]:
        """What the answer says about each that the record did not end, its own subject included."""
        is_beside = (
            record.origin is Origin.ORDINARY
            and not record.several
            and record.subject not in (None, record.memory_id)
        )
        kept = dict.fromkeys([*self.disputed, *([record.subject] if is_beside else [])])
        return tuple(
            f"kept next to {one!r:.80}, which a trusted user said: only the user can replace it"
            for one in kept
        )


def superseded_by(
    store: Store,
    namespace: str,
    memory_ids: Sequence[str],
    *,
    scope: str,
    origin: Origin,
    at: int,
    buffered: Collection[str] = (),
    is_proposed: bool = False,
) -> Superseded:
    """Tell which of these records of its scope a record of this origin ends.

    Args:
        buffered: The ids of records that the same commit writes.
        is_proposed: Whether a human's signature will decide what ends.

    Raises:
        InvalidValue: One of them is not there, or an untrusted record would end one that is not.
        NotAuthorised: One of them is law, which only a human's signature ends.
    """
    disputed = []
    for memory_id in memory_ids:
        if memory_id in buffered:
            problem = (
                f"{memory_id!r:.80} is in this run's own buffer; commit first, or leave out what is out of"
                " date"
            )
            raise InvalidValue(what="supersedes", problem=problem)
        law = scoped_key(Band.VAULT, scope, memory_id)
        keys = [scoped_key(band, scope, memory_id) for band in (Band.LEDGER, Band.ACTIVE)]
        found = store.read(namespace, [law, *keys], at=at)
        if law in found and not is_proposed:
            raise NotAuthorised(role=Role.AGENT.value, act="supersede what is sealed", who=Role.HUMAN.value)
        if not found:
            place = "" if scope == SHARED else f" in scope {scope}"
            problem = (
                f"there is no record {memory_id!r:.80}{place} now; leave it out, or name the id that remember"
                " returned"
            )
            raise InvalidValue(what="supersedes", problem=problem)
        origins = {record_of(row).origin for row in found.values()}
        if origin is Origin.UNTRUSTED and origins != {Origin.UNTRUSTED}:
            problem = (
                f"the text is untrusted, and {memory_id!r:.80} is not; only a source that is trusted as far"
                " can replace it"
            )
            raise InvalidValue(what="supersedes", problem=problem)
        if origin is Origin.ORDINARY and Origin.TRUSTED in origins and not is_proposed:
            disputed.append(memory_id)
    return Superseded(tuple(one for one in memory_ids if one not in disputed), tuple(disputed))
