"""What the judge may look at: sealed law and patterns, cached between runs, and what one run adds to them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from standfast.govern.admission import witness_prefix
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.govern.patterns import is_pattern_key, pattern_prefix, refused_key, said_key
from standfast.scopes import SHARED, prefix_of, scoped_key
from standfast.store.commit import Commit
from standfast.store.protocol import RecordKey
from standfast.store.records import record_of
from standfast.store.store import Store
from standfast.vocabulary import Band, Receipt, Record

_VAULT: Final = prefix_of(Band.VAULT)
_MAX_EQUAL_RECORDS: Final = 4
_MAX_WITNESSES: Final = 16
_MAX_SCOPES: Final = 10_000
_ByScope: TypeAlias = dict[str, tuple[Record, ...]]


class _CachedLaw(NamedTuple):
    """The law of all scopes, valid for every snapshot from the first to the last one, as are the contexts made of it."""

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
    """The law and the patterns of one namespace. Threads may share it; it always returns what reading again would.

    Analysing law costs in proportion to all of it, and hardly any commit changes it. Whether one did is seen from the commits in
    between: this memory's own are reported with ``saw``, those of others are looked up.
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
        # Following costs one lookup per commit, reading again more than one per record: the cheaper one is done.
        if snapshot - cached.last > cached.size:
            return False
        between = self._store.versions_between(cached.last, snapshot, with_content=False)
        return not self._touches((row.namespace, row.key) for row in between)

    def _touches(self, keys: Iterable[RecordKey]) -> bool:
        return any(
            namespace == self._namespace and (key.startswith(_VAULT) or is_pattern_key(key))
            for namespace, key in keys
        )

    def _read(self, at: int) -> _CachedLaw:
        law = self._by_scope(_VAULT, at)
        names = (record.key.removeprefix(_VAULT) for records in law.values() for record in records)
        return _CachedLaw(at, at, law, frozenset(names), {})

    def _by_scope(self, prefix: str, at: int) -> _ByScope:
        found: dict[str, list[Record]] = {}
        for record in map(record_of, self._store.scan(self._namespace, prefix=prefix, at=at)):
            found.setdefault(record.scope, []).append(record)
        return {scope: tuple(records) for scope, records in found.items()}


class RunJudgingContext:
    """What the judge sees of one scope during one run: law and patterns, records that a claim may repeat, and what the run accepted."""

    def __init__(
        self, cache: JudgingCache, store: Store, namespace: str, at: int, scope: str = SHARED
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._at = at
        self._scope = scope
        self._context = cache.at(at, scope)
        self._looked_up: set[str] = set()
        self._accepted: list[Claim] = []
        rejected = store.newest_versions(namespace, prefix=refused_key(scope, ""), at=at)
        self._any_refused = next(rejected, None) is not None

    def for_claim(
        self,
        claim: Claim,
        *,
        recalled: Sequence[tuple[str, str]],
        forgotten: frozenset[str],
        today: str,
    ) -> JudgingContext:
        """Return the context of one claim.

        Args:
            recalled: The ids and excerpts that the run was handed, so that they are not remembered again as if they were new.
            forgotten: The ids of records that the run forgets.
            today: The day of the judgement, by which patterns of attacks fade.
        """
        # Accepted claims are added when the next one comes, so the last one of a run costs nothing.
        for accepted in self._accepted:
            self._context = self._context.with_accepted(accepted)
        self._accepted.clear()
        refused = refused_key(self._scope, claim.reading.fingerprint)
        subject = claim.record.subject
        own = None if subject is None else scoped_key(Band.LEDGER, self._scope, subject)
        keys = [refused] if self._any_refused else []
        if own is not None and own not in self._looked_up:
            keys.append(own)
        found = self._store.read(self._namespace, keys, at=self._at) if keys else {}
        if own in keys:
            self._looked_up.add(own)
        if own in found:
            self._add_known(record_of(found[own]))
        for record in self._equal_records(claim):
            self._add_known(record)
        is_refused = refused in found
        return self._context.updated(
            refused=frozenset({claim.reading.fingerprint} if is_refused else ()),
            recalled=tuple(excerpt for _, excerpt in recalled),
            recalled_ids=tuple(memory_id for memory_id, _ in recalled),
            forgotten=forgotten,
            today=today,
        )

    def accept(self, claim: Claim) -> None:
        """Make an accepted claim known to the judgements after it."""
        self._accepted.append(claim)

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
