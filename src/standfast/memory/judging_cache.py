"""What the judge may look at: sealed law and patterns, cached between runs, and what one run adds to them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from standfast.govern.admission import witness_prefix
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.govern.patterns import PATTERN_PREFIX, refused_key, said_key
from standfast.store.commit import Commit
from standfast.store.protocol import RecordKey
from standfast.store.records import record_of
from standfast.store.store import Store
from standfast.vocabulary import Band, Receipt, Record

_VAULT: Final = f"{Band.VAULT}/"
_MAX_EQUAL_RECORDS: Final = 4
_MAX_WITNESSES: Final = 16


class _CachedContext(NamedTuple):
    """A context that is valid for every snapshot from the first to the last one."""

    first: int
    last: int
    context: JudgingContext


class JudgingCache:
    """The law and the patterns of one namespace. Threads may share it; it always returns what reading again would.

    Analysing law costs in proportion to all of it, and hardly any commit changes it. Whether one did is seen from the commits in
    between: this memory's own are reported with ``saw``, those of others are looked up.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._cached: _CachedContext | None = None

    def at(self, snapshot: int) -> JudgingContext:
        """Return the context of every judgement at a snapshot."""
        cached = self._cached
        if cached is not None and cached.last < snapshot and self._is_unchanged(cached, snapshot):
            cached = self._cached = cached._replace(last=snapshot)
        if cached is None or not cached.first <= snapshot <= cached.last:
            cached = self._cached = _CachedContext(snapshot, snapshot, self._read(snapshot))
        return cached.context

    def saw(self, commit: Commit, receipt: Receipt) -> None:
        """Note a commit of this memory's own, so that it need not be looked up."""
        cached = self._cached
        if cached is not None and receipt.memory_snapshot_id == cached.last + 1:
            touched = self._touches((write.namespace, write.key) for write in commit.writes)
            self._cached = None if touched else cached._replace(last=receipt.memory_snapshot_id)

    def _is_unchanged(self, cached: _CachedContext, snapshot: int) -> bool:
        # Following costs one lookup per commit, reading again more than one per record: the cheaper one is done.
        if snapshot - cached.last > len(cached.context.vault) + len(cached.context.patterns):
            return False
        return not any(
            self._touches((row.namespace, row.key) for row in self._store.versions_of(between))
            for between in range(cached.last + 1, snapshot + 1)
        )

    def _touches(self, keys: Iterable[RecordKey]) -> bool:
        return any(
            namespace == self._namespace and key.startswith((_VAULT, PATTERN_PREFIX))
            for namespace, key in keys
        )

    def _read(self, at: int) -> JudgingContext:
        law, patterns = self._records(_VAULT, at), self._records(PATTERN_PREFIX, at)
        return JudgingContext(vault=law, patterns=patterns).precomputed()

    def _records(self, prefix: str, at: int) -> tuple[Record, ...]:
        return tuple(map(record_of, self._store.scan(self._namespace, prefix=prefix, at=at)))


class RunJudgingContext:
    """What the judge sees during one run: law and patterns, records that a claim may repeat, and what the run accepted."""

    def __init__(self, cache: JudgingCache, store: Store, namespace: str, at: int) -> None:
        self._store = store
        self._namespace = namespace
        self._at = at
        self._context = cache.at(at)
        self._looked_up: set[str] = set()
        self._accepted: list[Claim] = []

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
        refused = refused_key(claim.reading.fingerprint)
        subject = claim.record.subject
        own = f"{Band.LEDGER}/{subject}"
        keys = [refused] if subject is None or own in self._looked_up else [refused, own]
        found = self._store.read(self._namespace, keys, at=self._at)
        for key in keys[1:]:
            self._looked_up.add(key)
            if key in found:
                self._add_known(record_of(found[key]))
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
        prefix = f"{Band.WITNESS}/{witness_prefix(record.memory_id)}"
        witnesses = map(record_of, self._store.scan(self._namespace, prefix=prefix, at=self._at))
        for known in (record, *islice(witnesses, _MAX_WITNESSES)):
            self._context = self._context.with_accepted(Claim(record=known))

    def _equal_records(self, claim: Claim) -> Iterator[Record]:
        """Yield records that say the same word for word, for the floor against duplicates."""
        prefix = said_key(claim.reading.fingerprint)
        notes = self._store.scan(self._namespace, prefix=prefix, at=self._at)
        for note in islice(notes, _MAX_EQUAL_RECORDS):
            key = f"{Band.LEDGER}/{note.key.removeprefix(prefix)}"
            if key not in self._looked_up:
                self._looked_up.add(key)
                yield from map(record_of, self._store.read(self._namespace, [key], at=self._at).values())
