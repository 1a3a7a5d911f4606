"""LangGraph's ``BaseStore`` over ``Memory``.

    graph = builder.compile(store=StandfastStore(Memory.open("agent.db")))

The puts of a batch are one commit. Each put is judged; a rejected one raises ``PutRefused`` with the reasons. A delete is a
``forget``. A search with a query is ranked as ``Memory.recall`` ranks, or by the embeddings of the ``index`` configuration. An
unchanged item is not written again. Namespaces and keys mean what they mean in LangGraph's own stores. ``langgraph_items.py`` says how
an item becomes a record.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from standfast.adapters.langgraph_items import (
    LONG_PREFIX,
    ItemPath,
    StoredItem,
    exact_json,
    ref_of,
    subject_of,
    subject_prefix,
    text_of,
)
from standfast.adapters.langgraph_sweeper import DEFAULT_SWEEP_MINUTES, TtlSweeper
from standfast.canon import parse, utc_text
from standfast.errors import CommitAborted, InvalidValue, MissingExtra, PutRefused
from standfast.limits import MAX_RECALL_TOKENS
from standfast.memory import Memory
from standfast.memory.erasing import TTL
from standfast.recall.controller import RECALLED_BANDS, RecallRequest
from standfast.recall.lexical import BEST_SCORE, HYBRID_VERSION
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.scopes import SHARED, scoped_key
from standfast.store.commit import Commit, Write
from standfast.store.protocol import Version
from standfast.store.records import record_of
from standfast.vocabulary import ActionType, Band, Remembered, Verdict, VisibilityMode

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )

    from standfast.adapters.langgraph_search import EmbeddedTexts, matches, shown_by_index
except ImportError:
    raise MissingExtra(feature="LangGraph's store", extra="langgraph") from None

_FIRST_RANKED: Final = 64
_REFRESHED_PART: Final = 16
_MAX_TTL_MINUTES: Final = 1_000_000_000


class StandfastStore(BaseStore):
    """A LangGraph store that keeps its items in a ``Memory``. Safe to share between threads.

    Args:
        memory: Where the items are stored, in the memory's namespace.
        workflow: The workflow name of the runs that write.
        agent: The author of the writes. Default: the workflow.
        index: LangGraph's configuration of searches: ``fields`` are the paths that are searched (by default everything), and ``embed``
            ranks by embeddings alone. Without ``embed``, ``dims`` is not needed, and a search ranks by words, or by words and stored vectors
            (``hybrid-v1``) if the memory has an embedder.
        ttl: LangGraph's configuration of expiry. Expired items are not shown; ``sweep_ttl`` erases them, and ``start_ttl_sweeper`` does so
            at intervals.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        *,
        workflow: str = "langgraph",
        agent: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.memory = memory
        self.ttl_config = ttl
        self._workflow = workflow
        self._agent = agent
        self._embedded = None if index is None or "embed" not in index else EmbeddedTexts(index)
        self._fields: tuple[str, ...] | None = None
        if index is not None and index.get("fields"):
            self._fields = tuple(index["fields"] or ())
        self._sweeper = TtlSweeper(self.sweep_ttl, at_close=memory.at_close)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer all reads from one snapshot, then commit all puts. Of two puts to one key, the later counts."""
        operations = list(ops)
        puts: dict[ItemPath, PutOp] = {}
        for op in operations:
            if isinstance(op, PutOp):
                subject_of(op.namespace, op.key)
                if op.ttl is not None and not 0 < op.ttl <= _MAX_TTL_MINUTES:
                    problem = (
                        f"it must be a number of minutes from 0 to {_MAX_TTL_MINUTES}, not {op.ttl!r:.40}"
                    )
                    raise InvalidValue(what="ttl", problem=problem)
                puts[op.namespace, op.key] = op
        self.memory.require_readable("use the store")
        items = self._items(self.memory.store.head())
        answers = [_answer(items, op) for op in operations]
        if puts:
            self._put(puts)
        self._refresh(items)
        return answers

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like ``batch``, in a thread, so that the event loop does not wait for the disk."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Erase the items that have expired, and return how many."""
        items = self._items(self.memory.store.head(), shows_expired=True)
        expired = [item for item in items.below(()) if items.is_expired(item)]
        for item in expired:
            self._put({(item.namespace, item.key): PutOp(item.namespace, item.key, None)})
        return len(expired)

    async def asweep_ttl(self) -> int:
        """Like ``sweep_ttl``, in a thread."""
        return await asyncio.to_thread(self.sweep_ttl)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Erase expired items at intervals, in a thread, until ``stop_ttl_sweeper`` or the end of the memory. One thread at most.

        Args:
            sweep_interval_minutes: The time between two sweeps. Default: that of the ``ttl`` configuration, or 5 minutes.

        Returns:
            A future that is done when the thread ends. To cancel it stops the thread as well.
        """
        minutes = sweep_interval_minutes
        if minutes is None:
            minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        return self._sweeper.start(DEFAULT_SWEEP_MINUTES if minutes is None else minutes)

    async def astart_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Like ``start_ttl_sweeper``, without making the event loop wait."""
        return await asyncio.to_thread(self.start_ttl_sweeper, sweep_interval_minutes)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the thread that erases expired items, and wait for the sweep that is under way.

        Args:
            timeout: How many seconds to wait at most. Default: as long as it takes.

        Returns:
            Whether no such thread runs any more.
        """
        return self._sweeper.stop(timeout)

    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # LangGraph's name.
        """Like ``stop_ttl_sweeper``, without making the event loop wait."""
        return await asyncio.to_thread(self.stop_ttl_sweeper, timeout)

    def _items(self, at: int, *, shows_expired: bool = False) -> "_SnapshotItems":
        now = None if shows_expired else self.memory.store.clock.now()
        return _SnapshotItems(self.memory, at, fields=self._fields, embedded=self._embedded, hides_at=now)

    def _refresh(self, items: "_SnapshotItems") -> None:
        """Move the time at which items that were read expire, if the configuration says so.

        Each move is a commit, so items are only moved once a part of their time has passed.
        """
        if not (self.ttl_config or {}).get("refresh_on_read"):
            return
        now = self.memory.store.clock.now()
        writes = []
        for subject, (expires, minutes) in items.to_refresh.items():
            later = now + timedelta(minutes=minutes)
            if later - expires >= timedelta(minutes=minutes / _REFRESHED_PART):
                writes.append(self._ttl_write(subject, ActionType.MERGE, later, minutes))
        # If someone else wrote the same rows meanwhile, that was a refresh, or a put, as well.
        with suppress(CommitAborted):
            self._commit_rows(items.at, writes)

    def _commit_rows(self, at: int, writes: list[Write]) -> None:
        """Commit rows that say when items expire, and nothing else."""
        store = self.memory.store
        if writes and self.memory.ceiling.may_write:
            store.commit(
                Commit.of(
                    run_id=store.ids.new_id(),
                    memory_snapshot_id=at,
                    policy_set_id=self.memory.policy_set_id,
                    writes=writes,
                )
            )

    def _ttl_write(self, subject: str, action: ActionType, expires: datetime, minutes: float) -> Write:
        key = scoped_key(TTL, SHARED, subject)
        content = {"expires_at": utc_text(expires), "minutes": minutes}
        return Write.of(self.memory.namespace, key, action, content)

    def _ttl_writes(self, op: PutOp, subject: str, items: "_SnapshotItems") -> list[Write]:
        """What a put changes about the item's expiry."""
        known = items.ttl_of(subject)
        if op.value is not None and op.ttl is not None:
            now = self.memory.store.clock.now()
            action = ActionType.WRITE if known is None else ActionType.MERGE
            return [self._ttl_write(subject, action, now + timedelta(minutes=op.ttl), op.ttl)]
        if known is None:
            return []
        key = scoped_key(TTL, SHARED, subject)
        return [Write.of(self.memory.namespace, key, ActionType.EXPIRE)]

    def _put(self, puts: dict[ItemPath, PutOp]) -> None:
        """Commit the puts. A conflict is retried: a put does not depend on anything that was read."""
        subjects = {subject_of(namespace, key) for namespace, key in puts}
        rejected = self.memory.retry(lambda: self._commit(puts), key=min(subjects))
        if rejected:
            # The batch is not committed, but the rejections are, so that they can be inspected and counted.
            self._commit({path: puts[path] for path in rejected}, keep_rejected=True)
            (namespace, key), remembered = next(iter(rejected.items()))
            raise PutRefused(
                subject=subject_of(namespace, key),
                verdict=remembered.verdict.value,
                reasons="; ".join(remembered.reasons),
            )

    def _commit(
        self, puts: dict[ItemPath, PutOp], *, keep_rejected: bool = False
    ) -> dict[ItemPath, Remembered]:
        """Commit the puts in one run and return the rejected ones; if there are any, commit only if ``keep_rejected``."""
        rejected = {}
        writes: list[Write] = []
        with self.memory.run(
            workflow=self._workflow, mode=VisibilityMode.BUFFERED_WRITE, agent=self._agent
        ) as run:
            items = self._items(run.identity.memory_snapshot_id, shows_expired=True)
            for (namespace, key), op in puts.items():
                current, subject = items.get(namespace, key), subject_of(namespace, key)
                if op.value is None:
                    if current is not None:
                        # This erases when the item would expire as well.
                        run.forget(subject, reason="deleted through LangGraph's store")
                        continue
                elif current is None or _is_changed(current, op):
                    created = None if current is None or items.is_expired(current) else current.created_at
                    remembered = run.remember(
                        text_of(namespace, key, op.value),
                        subject=subject,
                        refs=[ref_of(namespace, key, op.value, created_at=created, index=op.index)],
                    )
                    if remembered.verdict is Verdict.VOID:
                        rejected[namespace, key] = remembered
                        continue
                writes += self._ttl_writes(op, subject, items)
            if rejected and not keep_rejected:
                run.discard()
            elif run.commit(extra_writes=writes) is None:
                self._commit_rows(run.identity.memory_snapshot_id, writes)
        return rejected


def _is_changed(current: StoredItem, op: PutOp) -> bool:
    index = tuple(op.index) if isinstance(op.index, list) else op.index
    return exact_json(current.value) != exact_json(op.value) or current.index != index


class _SnapshotItems:
    """The items of one snapshot.

    Args:
        fields: The paths that searches look at, for items that name none.
        embedded: Ranks by embeddings; None to rank by words.
        hides_at: Items that have expired by then are not shown; None to show all.
    """

    def __init__(
        self,
        memory: Memory,
        at: int,
        *,
        fields: tuple[str, ...] | None,
        embedded: EmbeddedTexts | None,
        hides_at: datetime | None,
    ) -> None:
        self._memory = memory
        self.at = at
        self._fields = fields
        self._embedded = embedded
        self._hides_at = hides_at
        self._ttls: dict[str, tuple[datetime, float]] | None = None
        self.to_refresh: dict[str, tuple[datetime, float]] = {}

    def ttl_of(self, subject: str) -> tuple[datetime, float] | None:
        """When an item expires, and how many minutes it is kept; None if it does not expire."""
        if self._ttls is None:
            prefix = scoped_key(TTL, SHARED, "")
            rows = self._memory.store.scan(self._memory.namespace, prefix=prefix, at=self.at)
            contents = {row.key[len(prefix) :]: parse(row.content or b"") for row in rows}
            self._ttls = {
                name: (datetime.fromisoformat(one["expires_at"]), float(one["minutes"]))
                for name, one in contents.items()
            }
        return self._ttls.get(subject)

    def is_expired(self, item: StoredItem) -> bool:
        """Whether an item has expired by now."""
        ttl = self.ttl_of(item.subject)
        return ttl is not None and ttl[0] <= (self._hides_at or self._memory.store.clock.now())

    def was_read(self, item: StoredItem) -> None:
        """Note that reading an item moves the time at which it expires."""
        if (ttl := self.ttl_of(item.subject)) is not None:
            self.to_refresh[item.subject] = ttl

    def _is_shown(self, item: StoredItem | None) -> bool:
        return item is not None and (self._hides_at is None or not self.is_expired(item))

    def get(self, namespace: tuple[str, ...], key: str) -> StoredItem | None:
        """The item at a path; None if there is none."""
        subject, store = subject_of(namespace, key), self._memory.store
        keys = [scoped_key(band, SHARED, subject) for band in RECALLED_BANDS]
        rows = store.read(self._memory.namespace, keys, at=self.at)
        # A band with a byte budget holds several numbered versions of a subject.
        numbered = store.scan(
            self._memory.namespace, prefix=scoped_key(Band.LEDGER, SHARED, f"{subject}@"), at=self.at
        )
        versions = [rows[key] for key in keys if key in rows] or sorted(numbered, key=_age)[-1:]
        return next(filter(self._is_shown, (StoredItem.of(record_of(version)) for version in versions)), None)

    def below(self, namespace_prefix: tuple[str, ...]) -> list[StoredItem]:
        """The items in and below a namespace, by namespace and key: the newest version of each, law before the rest."""
        newest: dict[ItemPath, StoredItem] = {}
        for band in reversed(RECALLED_BANDS):
            for prefix in (subject_prefix(namespace_prefix), LONG_PREFIX):
                rows = self._memory.store.scan(
                    self._memory.namespace, prefix=scoped_key(band, SHARED, prefix), at=self.at
                )
                for version in sorted(rows, key=_age):
                    item = StoredItem.of(record_of(version))
                    if item is not None and item.namespace[: len(namespace_prefix)] == namespace_prefix:
                        newest[item.namespace, item.key] = item
        return [newest[path] for path in sorted(newest) if self._is_shown(newest[path])]

    def ranked(
        self, query: str, items: list[StoredItem], count: int
    ) -> list[tuple[float | None, StoredItem]]:
        """The best of these items with their scores; then those that match nothing, or are not to be searched.

        By the embeddings of the store's ``index`` if it brings some; otherwise as ``hybrid-v1`` ranks if the memory has an embedder, and as
        ``lexical-v1`` does if not.
        """
        if self._embedded is not None:
            return self._embedded.ranked(query, items, self._fields)
        wanted = {item.memory_id: item for item in items if shown_by_index(item, self._fields, query)}
        view, most = self._memory.at(self.at), max(count, _FIRST_RANKED)
        controller = DEFAULT_CONTROLLER if self._memory.vectors.embedder is None else HYBRID_VERSION
        while True:
            request = RecallRequest(query=query, tokens=MAX_RECALL_TOKENS, max_items=most)
            candidates = view.answer(request, controller=controller).explanation.items
            found: dict[str, float | None] = {
                candidate.memory_id: candidate.as_json()["score"] / BEST_SCORE
                for candidate in candidates
                if candidate.memory_id in wanted
            }
            if len(found) >= min(count, len(wanted)) or len(candidates) < most:
                break
            most *= 4
        others = [(None, item) for item in items if item.memory_id not in found]
        return [*((score, wanted[memory_id]) for memory_id, score in found.items()), *others]


def _age(version: Version) -> tuple[int, int, str]:
    return version.memory_snapshot_id, len(version.key), version.key


def _answer(items: _SnapshotItems, op: Op) -> Result:
    if isinstance(op, PutOp):
        return None
    if isinstance(op, GetOp):
        item = items.get(op.namespace, op.key)
        if item is not None and op.refresh_ttl:
            items.was_read(item)
        return None if item is None else Item(**item.fields())
    if isinstance(op, SearchOp):
        return _search(items, op)
    if isinstance(op, ListNamespacesOp):
        return _namespaces(items, op)
    raise InvalidValue(what="LangGraph operation", problem=f"{type(op).__name__} is not supported")


def _search(items: _SnapshotItems, op: SearchOp) -> list[SearchItem]:
    matching = [
        item for item in items.below(tuple(op.namespace_prefix)) if matches(item.value, op.filter or {})
    ]
    end = op.offset + op.limit
    scored: list[tuple[float | None, StoredItem]]
    if op.query and op.query.strip() and matching:
        scored = items.ranked(op.query, matching, end)
    else:
        scored = [(None, item) for item in matching]
    page = scored[op.offset : end]
    for _, item in page if op.refresh_ttl else ():
        items.was_read(item)
    return [SearchItem(**item.fields(), score=score) for score, item in page]


def _namespaces(items: _SnapshotItems, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    conditions = op.match_conditions or ()
    found = {item.namespace for item in items.below(())}
    matching = {
        namespace[: op.max_depth]
        for namespace in found
        if all(_namespace_matches(condition, namespace) for condition in conditions)
    }
    return sorted(matching)[op.offset : op.offset + op.limit]


def _namespace_matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        problem = f"match_type must be prefix or suffix, not {condition.match_type!r:.40}"
        raise InvalidValue(what="MatchCondition", problem=problem)
    if len(path) > len(namespace):
        return False
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    part = namespace[start : start + len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
