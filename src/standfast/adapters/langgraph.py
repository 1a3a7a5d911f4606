"""LangGraph's ``BaseStore`` over ``Memory``.

    graph = builder.compile(store=StandfastStore(Memory.open("agent.db")))

The puts of a batch are one commit. Each put is judged; a rejected one raises ``PutRefused`` with the reasons,
or is left out, or stored without its secrets (``on_refusal``). Items are in the scope that their namespace
names, so ``memory.forget(scope="user/ada", …)`` erases them with everything else about Ada. A delete is a
``forget``. A search with a query is ranked as ``Memory.recall`` ranks, or by the embeddings of the ``index``
configuration. An unchanged item is not written again. Namespaces and keys mean what they mean in LangGraph's
own stores. ``langgraph_items.py`` says how an item becomes a record.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from typing import Any, Final

from standfast.adapters.langgraph_items import (
    ItemPath,
    NamespaceScopes,
    StoredItem,
    exact_json,
    ref_of,
    subject_of,
    text_of,
)
from standfast.adapters.on_refusal import OnRefusal, reason_if_too_long
from standfast.errors import CommitAborted, InvalidValue, MissingExtra, StandfastError
from standfast.memory import Memory, Run
from standfast.records.canon import utc_text
from standfast.records.origins import Origin
from standfast.records.rows import RowKind
from standfast.records.scopes import scoped_key
from standfast.records.vocabulary import ActionType, Remembered, Verdict, VisibilityMode, member_of
from standfast.store.commit import Commit, Write

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

    from standfast.adapters.langgraph_search import EmbeddedTexts, SnapshotItems, matches
except ImportError:
    raise MissingExtra(feature="LangGraph's store", extra="langgraph") from None

_log: Final = logging.getLogger("standfast.adapters")
DEFAULT_SWEEP_MINUTES: Final = 5.0
_REFRESHED_PART: Final = 16
_MAX_TTL_MINUTES: Final = 1_000_000_000
SourceRule = Callable[[tuple[str, ...], str, dict[str, Any]], Mapping[str, Any] | None]


class TrustedItem(Item):
    """LangGraph's ``Item``, with the trust of whoever put it: trusted, ordinary or untrusted."""

    __slots__ = ("trust",)

    def __init__(self, *, trust: Origin, **fields: Any) -> None:
        super().__init__(**fields)
        self.trust = trust


class TrustedSearchItem(SearchItem):
    """LangGraph's ``SearchItem``, with the trust of whoever put it."""

    __slots__ = ("trust",)

    def __init__(self, *, trust: Origin, **fields: Any) -> None:
        super().__init__(**fields)
        self.trust = trust


class StandfastStore(BaseStore):
    """A LangGraph store that keeps its items in a ``Memory``. Safe to share between threads.

    Args:
        memory: Where the items are stored, in the memory's namespace.
        workflow: The workflow name of the runs that write.
        agent: The author of the writes. Default: the workflow.
        index: LangGraph's configuration of searches: ``fields`` are the paths that are searched (by default
            everything), and ``embed`` ranks by embeddings alone. Without ``embed``, ``dims`` is not needed,
            and a search ranks by words, or by words and stored vectors (``hybrid-v1``) with an embedder.
        ttl: LangGraph's configuration of expiry. Expired items are not shown; ``sweep_ttl`` erases them, and
            ``start_ttl_sweeper`` does so at intervals.
        scope: The scope of an item: a template of the labels of its namespace, such as ``"user/{0}"``. By
            default the label behind ``user`` or ``users`` is a user; see ``NamespaceScopes``.
        source: Where the items come from: a mapping such as ``{"kind": "tool", "id": "crawler"}``, or a
            function of namespace, key and value that returns one. It decides the ``trust`` of an item. By
            default they are the agent's own word, which is ordinary.
        max_origin: The most that an item may be trusted, whatever its source says.
        on_refusal: What becomes of a put that the judge refuses: ``"raise"``, ``"skip"`` or ``"redact"``.
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
        scope: str | None = None,
        source: Mapping[str, Any] | SourceRule | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        on_refusal: OnRefusal | str = OnRefusal.RAISE,
    ) -> None:
        self._scopes = NamespaceScopes(scope)
        self._source = source
        self._max_origin = member_of(Origin, max_origin, what="max_origin")
        self._on_refusal = OnRefusal.of(on_refusal)
        self.memory = memory
        self.index_config = index
        self.ttl_config = ttl
        self._workflow = workflow
        self._agent = agent
        self._embedded = None if index is None or "embed" not in index else EmbeddedTexts(index)
        self._fields: tuple[str, ...] | None = None
        if index is not None and index.get("fields"):
            self._fields = tuple(index["fields"] or ())
        self._sweeper = TtlSweeper(self.sweep_ttl, at_close=memory._at_close)  # noqa: SLF001  # Its thread ends with the memory.

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer all reads from one snapshot, then commit all puts. The later of two puts to a key counts."""
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
        """Erase expired items at intervals, in a thread, until ``stop_ttl_sweeper`` or the end of the memory.

        One thread at most.

        Args:
            sweep_interval_minutes: The time between two sweeps. Default: the ``ttl`` configuration's, or 5.

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

    def _items(self, at: int, *, shows_expired: bool = False) -> SnapshotItems:
        now = None if shows_expired else self.memory.store.clock.now()
        return SnapshotItems(
            self.memory,
            at,
            fields=self._fields,
            embedded=self._embedded,
            hides_at=now,
            scopes=self._scopes,
        )

    def _refresh(self, items: SnapshotItems) -> None:
        """Move the time at which items that were read expire, if the configuration says so.

        Each move is a commit, so items are only moved once a part of their time has passed.
        """
        if not (self.ttl_config or {}).get("refresh_on_read"):
            return
        now = self.memory.store.clock.now()
        writes = []
        for key, (expires, minutes) in items.to_refresh.items():
            later = now + timedelta(minutes=minutes)
            if later - expires >= timedelta(minutes=minutes / _REFRESHED_PART):
                writes.append(self._ttl_write(key, ActionType.MERGE, later, minutes))
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

    def _ttl_write(self, key: str, action: ActionType, expires: datetime, minutes: float) -> Write:
        content = {"expires_at": utc_text(expires), "minutes": minutes}
        return Write.of(self.memory.namespace, key, action, content)

    def _ttl_writes(self, op: PutOp, subject: str, items: SnapshotItems) -> list[Write]:
        """What a put changes about the item's expiry."""
        scope = self._scopes.of(op.namespace)
        known, key = items.ttl_of(scope, subject), scoped_key(RowKind.TTL, scope, subject)
        if op.value is not None and op.ttl is not None:
            now = self.memory.store.clock.now()
            action = ActionType.WRITE if known is None else ActionType.MERGE
            return [self._ttl_write(key, action, now + timedelta(minutes=op.ttl), op.ttl)]
        if known is None:
            return []
        return [Write.of(self.memory.namespace, key, ActionType.EXPIRE)]

    def _put(self, puts: dict[ItemPath, PutOp]) -> None:
        """Commit the puts. A conflict is retried: a put does not depend on anything that was read."""
        for (namespace, key), op in list(puts.items()):
            too_long = None if op.value is None else reason_if_too_long(text_of(namespace, key, op.value))
            if too_long is not None:
                self._on_refusal.refused(subject_of(namespace, key), [too_long])
                del puts[namespace, key]
        if not puts:
            return
        subjects = {subject_of(namespace, key) for namespace, key in puts}
        is_kept = self._on_refusal is not OnRefusal.RAISE
        rejected = self.memory.retry(lambda: self._commit(puts, keep_rejected=is_kept), key=min(subjects))
        if rejected and not is_kept:
            # The batch is not committed, but the rejections are, so that they can be inspected and counted.
            self._commit({path: puts[path] for path in rejected}, keep_rejected=True)
        for (namespace, key), remembered in rejected.items():
            self._on_refusal.refused(
                subject_of(namespace, key), remembered.reasons, verdict=remembered.verdict.value
            )

    def _commit(self, puts: dict[ItemPath, PutOp], *, keep_rejected: bool) -> dict[ItemPath, Remembered]:
        """Commit the puts in one run and return the rejected ones; if there are any, commit only if
        ``keep_rejected``.
        """
        rejected = {}
        writes: list[Write] = []
        with self.memory.run(
            workflow=self._workflow,
            mode=VisibilityMode.BUFFERED_WRITE,
            agent=self._agent,
            max_origin=self._max_origin,
        ) as run:
            items = self._items(run.identity.memory_snapshot_id, shows_expired=True)
            for (namespace, key), op in puts.items():
                scope, subject = self._scopes.of(namespace), subject_of(namespace, key)
                stored = items.versions(namespace, key)
                current = stored[0] if stored else None
                if op.value is not None and (current is None or self._is_changed(current, op)):
                    created = None if current is None or items.is_expired(current) else current.created_at
                    remembered = self._remember(run, op, created_at=created)
                    if remembered.verdict is Verdict.VOID:
                        rejected[namespace, key] = remembered
                        continue
                if op.value is None and stored:
                    # This erases when the items would expire as well.
                    for name in sorted({one.memory_id.partition("@")[0] for one in stored}):
                        run.forget(name, reason="deleted through LangGraph's store", scope=scope)
                    continue
                writes += self._ttl_writes(op, subject, items)
            if rejected and not keep_rejected:
                run.discard()
            elif run.commit(extra_writes=writes) is None:
                self._commit_rows(run.identity.memory_snapshot_id, writes)
        return rejected

    def _remember(self, run: Run, op: PutOp, *, created_at: datetime | None) -> Remembered:
        assert op.value is not None
        value = self._on_refusal.prepared(op.value)
        source = self._source(op.namespace, op.key, value) if callable(self._source) else self._source
        return run.remember(
            text_of(op.namespace, op.key, value),
            subject=subject_of(op.namespace, op.key),
            scope=self._scopes.of(op.namespace),
            source=source,
            refs=[ref_of(op.namespace, op.key, value, created_at=created_at, index=op.index, source=source)],
        )

    def _is_changed(self, current: StoredItem, op: PutOp) -> bool:
        """Whether a put says anything new: a value, what is searched, or a place."""
        index = tuple(op.index) if isinstance(op.index, list) else op.index
        value = exact_json(self._on_refusal.prepared(op.value))
        is_moved = current.scope != self._scopes.of(op.namespace)
        return is_moved or exact_json(current.value) != value or current.index != index


class TtlSweeper:
    """Calls ``sweep`` in a thread, at intervals, until it is stopped. There is at most one thread.

    Args:
        sweep: Erases what has expired, and returns how many items that were. If it fails, that is logged, and
            it is called again after the next interval.
        at_close: Stops the thread when the memory is closed.
    """

    def __init__(self, sweep: Callable[[], int], *, at_close: ExitStack) -> None:
        self._sweep = sweep
        self._at_close = at_close
        self._lock = threading.Lock()
        self._current: _Sweeping | None = None

    def start(self, minutes: float) -> Future[None]:
        """Start the thread if it does not run. The future is done when it ends; cancelling it stops both."""
        if not minutes > 0:
            problem = f"it must be a number of minutes above 0, not {minutes!r:.40}"
            raise InvalidValue(what="sweep_interval_minutes", problem=problem)
        with self._lock:
            current = self._current
            if current is None:
                self._at_close.callback(self.stop)
            elif current.stopping.is_set():
                # It was told to stop, and only finishes its last sweep.
                current.thread.join()
                current = None
            if current is None:
                current = self._current = _Sweeping(self._sweep, min(minutes * 60, threading.TIMEOUT_MAX))
                current.thread.start()
            return current.future

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the thread, and wait for a sweep under way. False if that takes over ``timeout`` seconds."""
        with self._lock:
            current = self._current
        if current is None:
            return True
        current.stopping.set()
        current.thread.join(timeout)
        return not current.thread.is_alive()


class _Sweeping:
    """One thread that sweeps."""

    def __init__(self, sweep: Callable[[], int], seconds: float) -> None:
        self._sweep = sweep
        self._seconds = seconds
        self.stopping = threading.Event()
        self.future: Future[None] = Future()
        self.future.add_done_callback(lambda _: self.stopping.set())
        self.thread = threading.Thread(target=self._run, name="standfast-ttl-sweeper", daemon=True)

    def _run(self) -> None:
        try:
            while not self.stopping.wait(self._seconds):
                self._sweep_once()
        finally:
            # A future that was cancelled is done already.
            with suppress(InvalidStateError):
                self.future.set_result(None)

    def _sweep_once(self) -> None:
        try:
            if count := self._sweep():
                _log.info("Erased %d expired LangGraph items.", count)
        except (StandfastError, OSError):
            _log.exception("Expired LangGraph items could not be erased. The next sweep tries again.")


def _answer(items: SnapshotItems, op: Op) -> Result:
    if isinstance(op, PutOp):
        return None
    if isinstance(op, GetOp):
        item = items.get(op.namespace, op.key)
        if item is not None and op.refresh_ttl:
            items.was_read(item)
        return None if item is None else TrustedItem(**item.fields(), trust=item.trust)
    if isinstance(op, SearchOp):
        return _search(items, op)
    if isinstance(op, ListNamespacesOp):
        return _namespaces(items, op)
    raise InvalidValue(what="LangGraph operation", problem=f"{type(op).__name__} is not supported")


def _search(items: SnapshotItems, op: SearchOp) -> list[SearchItem]:
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
    return [TrustedSearchItem(**item.fields(), score=score, trust=item.trust) for score, item in page]


def _namespaces(items: SnapshotItems, op: ListNamespacesOp) -> list[tuple[str, ...]]:
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
