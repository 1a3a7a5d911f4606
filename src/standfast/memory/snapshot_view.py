"""Memory as of one snapshot. Reading an old snapshot gives the same package as it did then."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Unpack

from msgspec import structs

from standfast.errors import NoSuchSnapshot, RerankingFailed
from standfast.govern.evidence import read_instant
from standfast.govern.judge.secrecy import redacted_json, redacted_request
from standfast.govern.policy import decide_recall
from standfast.limits import MAX_ATTEMPTS
from standfast.memory.embedding import MemoryVectors
from standfast.memory.listings import ChangeList, RecordListing, listed_rows
from standfast.memory.messages import SessionInfo, SessionMessage, SessionReader
from standfast.memory.recall_notes import NOBODY_NAMED, RecallNotes, Recipient
from standfast.recall.analysis import DEFAULT_LANGUAGE
from standfast.recall.answers import (
    Ceiling,
    EmbeddedRequest,
    Explanation,
    Package,
    RecallAnswer,
    RecordView,
    with_reranking,
)
from standfast.recall.controllers import ControllerRegistry
from standfast.recall.filters import Choice
from standfast.recall.hybrid import HybridController
from standfast.recall.index.store_index import StoreIndex, band_sources, key_at
from standfast.recall.jsonl import Source
from standfast.recall.lexical import LexicalController
from standfast.recall.package import RecallItem, RecallPackage, SelectedItem
from standfast.recall.rerankers import Reranker, RerankScores
from standfast.recall.tokens import TokenCounter
from standfast.records.canon import fingerprint
from standfast.records.filters import NO_FILTER, Filter, Where
from standfast.records.requests import (
    RECALLED_BANDS,
    RECORD_BANDS,
    RecallFields,
    RecallRequest,
    RememberRequest,
    named_bands,
    require_no_proposals,
    takes_fields_of,
)
from standfast.records.scopes import (
    SHARED,
    checked_scope,
    listed_scope,
    outer_scopes,
    prefix_of,
    scope_in,
    scoped_key,
)
from standfast.records.timestamps import MISSING, normal_timestamp, time_of
from standfast.records.vocabulary import Band, Record
from standfast.store.protocol import BEHIND_ALL_KEYS
from standfast.store.store import Store
from standfast.store.stored_records import (
    HistoryEntry,
    changes_between,
    erased_since,
    history_of,
    record_of,
)
from standfast.traces.artifact import RetrievalBudget, SelectedRecord
from standfast.traces.recall_log import RecallLog

_P = ParamSpec("_P")
_NAMED_SCOPES: Final = 3
"""How many other scopes a hint names."""


class SnapshotReader:
    """Reads any snapshot of one namespace, and keeps decoded records in memory between reads.

    All views of a memory share one reader. Threads may share it too.

    Args:
        law_at: Gives ``scope//memory_id`` of the law that a snapshot shows.
        require_readable: Raises if reading is not allowed; takes what was to be done.
        language: The language of the namespace's texts; see ``recall.LANGUAGES``.
        vectors: The vectors of the records, and who makes those of queries.
        may_write: Whether the index may be stored next to the records.
        warn: Called with what is wrong with the stored index, and with why a reranker was left out.
        reranker: Looks at the best records of an answer again.
        recall_log: Where it is noted which package was handed to whom.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        law_at: Callable[[int], Collection[str]],
        controllers: ControllerRegistry | None = None,
        require_readable: Callable[[str], None] = lambda _: None,
        language: str = DEFAULT_LANGUAGE,
        vectors: MemoryVectors | None = None,
        may_write: bool = True,
        warn: Callable[[str], None] = lambda _: None,
        reranker: Reranker | None = None,
        recall_log: RecallLog | None = None,
    ) -> None:
        self.store = store
        self.notes = RecallNotes(namespace, recall_log)
        self._warn, self._reranker = warn, reranker
        self._vectors = vectors or MemoryVectors(store, namespace, None, warn=lambda _: None)
        self.namespace = namespace
        self.controllers = ControllerRegistry.shipped() if controllers is None else controllers
        self.law_at = law_at
        self.require_readable = require_readable
        self.index = StoreIndex(store, namespace, language=language, may_write=may_write, warn=warn)
        self._instant: tuple[int, str | None] = (0, None)

    def answer(
        self,
        request: RecallRequest,
        *,
        at: int | None = None,
        token_counter: TokenCounter | None = None,
        recipient: Recipient = NOBODY_NAMED,
    ) -> RecallAnswer:
        """Recall from a snapshot, by default the newest, and explain the answer.

        Args:
            recipient: Who is handed the package, for the recall log.
        """
        self.require_readable("recall")
        controller = request.controller
        is_replay = isinstance(request, EmbeddedRequest) and request.is_replay
        if not is_replay:
            require_no_proposals(request.bands)
        if isinstance(self.controllers.get(controller), HybridController) and not is_replay:
            request = self._vectors.with_vector(request)
        for _ in range(MAX_ATTEMPTS):
            head = self.store.head()
            snapshot = head if at is None else at
            answer = self._answer_at(snapshot, request, token_counter, head=head)
            # An erasure while it was read may have taken a part of it. Then it is neither what the snapshot
            # showed nor what is left of it.
            if self.store.segments.last_erasure(self.namespace) <= head:
                break
        self.notes.recalled(answer.package, request, snapshot, recipient)
        return answer

    def _answer_at(
        self, snapshot: int, request: RecallRequest, token_counter: TokenCounter | None, *, head: int
    ) -> RecallAnswer:
        controller = request.controller
        is_replay = isinstance(request, EmbeddedRequest) and request.is_replay
        view = RecordView(
            lambda: self._sources(request.bands, snapshot, head, Choice.of(request, view.now(request))),
            lambda: self.index.view(
                request.bands, at=snapshot, scopes=outer_scopes(request.places), head=head
            ),
            self.instant_of(snapshot),
            vectors=lambda: self._vectors.view(at=snapshot, head=head),
        )
        if self._reranker is not None and not is_replay:
            request = self._with_reranking(request, view, self._reranker)
        answer = self.index.retry(lambda: self.controllers.answer(controller, request, view, token_counter))
        answers = [answer]

        def explanation() -> Explanation:
            found = (
                answers.pop()
                if answers
                else self.controllers.answer(controller, request, view, token_counter)
            )
            return found.explanation

        package = answer.package
        if isinstance(package, RecallPackage) and not package.items:
            package = structs.replace(package, advice=self.advice(request, at=snapshot))
        # It may read more of the index, which may have changed since the answer was given.
        answer = RecallAnswer(package, lambda: self.index.retry(explanation))
        if snapshot != head:
            scopes = outer_scopes(request.places)
            erased = erased_since(
                self.store, self.namespace, request.bands, snapshot, head=head, scopes=scopes
            )
            if erased is not None:
                answer = answer.with_package(answer.package.with_erased(erased))
        return answer

    def advice(self, request: RecallRequest, *, at: int, names_scopes: bool = True) -> str:
        """What to try after a recall that found nothing.

        Args:
            names_scopes: Whether other scopes may be named.
        """
        scopes = request.places
        is_empty = not any(
            self._holds_any(prefix_of(band, scope), at) for scope in scopes for band in request.bands
        )
        if is_empty:
            elsewhere = self.scope_advice(scopes, at=at) if names_scopes else ""
            named = ", ".join(scopes)
            return elsewhere or (
                f"Nothing is in the scope {named} yet. Remember something there, or name another scope."
            )
        if request.where:
            return "Nothing that fits passes the filter. Ask without where, or with a wider one."
        return (
            "Nothing fits the question and the budget. Ask in other words, with more tokens, or with"
            " include_unreviewed for what waits for a review."
        )

    def scope_advice(self, scopes: Sequence[str], *, at: int) -> str:
        """A hint for a read of ``shared`` that found nothing while other scopes hold something, or empty."""
        if tuple(scopes) != (SHARED,) or self._holds_any(prefix_of(Band.LEDGER, SHARED), at):
            return ""
        others, after = list[str](), ""
        while len(others) < _NAMED_SCOPES:
            rows = self.store.scan(self.namespace, prefix=prefix_of(Band.LEDGER), after=after, at=at)
            row = next(rows, None)
            if row is None:
                break
            scope = scope_in(row.key)
            after = scoped_key(Band.LEDGER, scope, BEHIND_ALL_KEYS)
            others.append(scope)
        if not others:
            return ""
        return f"Nothing is in the scope shared. Other scopes hold memories: {', '.join(others)}. Name one."

    def changes(self, old: int, new: int, *, scope: str) -> ChangeList:
        """The records of a scope that differ between two snapshots."""
        found = ChangeList(changes_between(self.store, self.namespace, old, new, scope=scope))
        if not found:
            found.advice = self.scope_advice([scope], at=new)
        return found

    def _holds_any(self, prefix: str, at: int) -> bool:
        return next(self.store.scan(self.namespace, prefix=prefix, at=at), None) is not None

    def _with_reranking(self, request: RecallRequest, view: RecordView, reranker: Reranker) -> RecallRequest:
        """The request with a reranker's scores of the best records; as it is if the reranker fails."""
        controller = self.controllers.get(request.controller)
        if not isinstance(controller, LexicalController):
            return request
        texts = self.index.retry(lambda: controller.best_texts(request, view))
        try:
            return with_reranking(request, RerankScores.of(reranker, request.query, texts))
        except RerankingFailed as error:
            self._warn(str(error))
            return request

    def after_commit(self, snapshot: int, *, erased: Collection[str] = ()) -> None:
        """Bring the stored index up to date, if many commits were made since. Never raises an error.

        Args:
            erased: The keys of what the commit erased, which the recall log forgets.
        """
        self.index.after_commit(snapshot)
        if erased:
            self.notes.forget(lambda name: name in erased)

    def sources(
        self,
        bands: Sequence[Band] = RECALLED_BANDS,
        *,
        at: int | None = None,
        scopes: Sequence[str] = (SHARED,),
        where: Filter = NO_FILTER,
    ) -> list[Source]:
        """The bands as sources for a controller, one for each scope in each band.

        A record is hidden where VAULT, also read, has one with its id in its scope.
        """
        self.require_readable("recall")
        head = self.store.head()
        snapshot = head if at is None else at
        instant = self.instant_of(snapshot) if snapshot <= head else None
        now = MISSING if instant is None else time_of(instant)
        return self._sources(bands, snapshot, head, Choice(scopes=tuple(scopes), where=where, now=now))

    def history(self, subject: str, *, scope: str = SHARED) -> list[HistoryEntry]:
        """Return every version of a scope's subject or memory id in every band, with verdict and evidence,
        oldest first.
        """
        self.require_readable("read history")
        return history_of(self.store, self.namespace, subject, scope=scope)

    def instant_of(self, snapshot: int) -> str | None:
        """When a snapshot was committed; None for the empty one. Ages are measured from it."""
        known, instant = self._instant
        if snapshot <= 0:
            return None
        if known != snapshot:
            instant = self.store.commit_of(snapshot).committed_at
            self._instant = snapshot, instant
        return instant

    def close(self) -> None:
        """Store what the index needs, and write what waits for the recall log."""
        self.index.close()
        self.notes.flush()

    def diff(self, old: int, new: int | None = None, *, scope: str = SHARED) -> ChangeList:
        """Return the records of a scope that differ between two snapshots; ``new`` defaults to the newest.

        Args:
            scope: The scope, with all below it; ``"*"`` for all.
        """
        self.require_readable("compare snapshots")
        return self.changes(old, self.store.head() if new is None else new, scope=listed_scope(scope))

    def records(
        self,
        *,
        band: Band | None = None,
        at: int | None = None,
        scope: str = SHARED,
        where: Filter | Where | None = None,
    ) -> RecordListing:
        """Yield the records that a snapshot shows in a scope, each once; see ``SnapshotView.records``."""
        view = SnapshotView(self, self.store.head() if at is None else at)
        return view.records(band=band, scope=scope, where=where)

    def session(self, session: str, *, scope: str = SHARED, at: int | None = None) -> list[SessionMessage]:
        """Return the messages of a session, in order. Those not accepted have no text, but their verdict."""
        return list(SnapshotView(self, self._existing(at)).session(session, scope=scope))

    def sessions(self, *, scope: str = SHARED, at: int | None = None) -> list[SessionInfo]:
        """Return the sessions of a scope and all below it (``"*"`` for all), by scope, in a fixed order."""
        return list(SnapshotView(self, self._existing(at)).sessions(scope=scope))

    def _existing(self, at: int | None) -> int:
        head = self.store.head()
        if at is not None and not (type(at) is int and 0 <= at <= head):
            raise NoSuchSnapshot(memory_snapshot_id=at, head=head)
        return head if at is None else at

    def _sources(self, bands: Sequence[Band], snapshot: int, head: int, choice: Choice) -> list[Source]:
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        law = self.law_at(snapshot) if Band.VAULT in bands else ()
        return [
            source
            for band in bands
            for source in band_sources(
                self.store,
                self.namespace,
                band,
                outer_scopes(choice.scopes),
                at=snapshot,
                hiding=() if band is Band.VAULT else law,
                choice=choice,
            )
        ]


def _package_of(explain: Callable[_P, RecallAnswer]) -> Callable[_P, Package]:
    """``recall``, which has the parameters of ``explain`` and returns only the package."""

    @wraps(explain)
    def recall(*args: _P.args, **kwargs: _P.kwargs) -> Package:
        return explain(*args, **kwargs).package

    recall.__doc__ = (
        "Return the best excerpts for a query within a token budget; the same bytes every time. The"
        " parameters are those of ``Memory.recall``."
    )
    return recall


class _HasReader(Protocol):
    reader: SnapshotReader


def at_newest(
    verb: Callable[Concatenate["SnapshotView", _P], RecallAnswer],
) -> Callable[Concatenate[_HasReader, _P], RecallAnswer]:
    """A verb of a snapshot as one of a memory, which asks its newest snapshot."""

    @wraps(verb)
    def asked(self: _HasReader, /, *args: _P.args, **kwargs: _P.kwargs) -> RecallAnswer:
        return verb(SnapshotView(self.reader, self.reader.store.head()), *args, **kwargs)

    return asked


class SnapshotView:
    """What one snapshot holds. ``Memory.at`` gives it.

    Args:
        recipient: Who is handed what it recalls, for the recall log.
    """

    def __init__(
        self, reader: SnapshotReader, memory_snapshot_id: int, recipient: Recipient = NOBODY_NAMED
    ) -> None:
        self._reader = reader
        self.memory_snapshot_id = memory_snapshot_id
        self._recipient = recipient

    def handed_to(self, caller: str) -> "SnapshotView":
        """The same view for a caller, whom the recall log names."""
        return SnapshotView(self._reader, self.memory_snapshot_id, Recipient(caller, self._recipient.run_id))

    @takes_fields_of(RecallRequest)
    def explain(
        self, query: str, *, token_counter: TokenCounter | None = None, **fields: Unpack[RecallFields]
    ) -> RecallAnswer:
        """Recall, and say why each record was chosen and how far it may be trusted.

        The fields are those of ``RecallRequest``.

        Args:
            token_counter: Counts the tokens of the text; by default four bytes are a token.
        """
        request = RecallRequest.of(query, **fields)
        answer = self.answer(request, token_counter=token_counter)
        now = self._now(request)

        def explanation() -> Explanation:
            found = answer.explanation
            ceilings = [
                item.ceiling or self._ceiling(item.store_path, item.memory_id, now) for item in found.items
            ]
            return found.with_ceilings(ceilings)

        return RecallAnswer(answer.package, explanation)

    recall = _package_of(explain)

    def answer(self, request: RecallRequest, *, token_counter: TokenCounter | None = None) -> RecallAnswer:
        """Answer a request and say why each record was chosen; unlike ``explain``, without trust."""
        return self._reader.answer(
            request, at=self.memory_snapshot_id, token_counter=token_counter, recipient=self._recipient
        )

    def advice(self, request: RecallRequest, *, names_scopes: bool = True) -> str:
        """What to try after a recall that found nothing; see ``SnapshotReader.advice``."""
        return self._reader.advice(request, at=self.memory_snapshot_id, names_scopes=names_scopes)

    def recall_again(self, package: RecallPackage, *, token_counter: TokenCounter | None = None) -> Package:
        """Answer the request of a package again, with what models said then. No model is needed.

        Args:
            token_counter: The counter that the package names, if it is not the estimate.
        """
        asked = package.request
        request = RecallRequest(
            query=asked.query,
            tokens=asked.tokens,
            max_items=asked.max_items,
            bands=named_bands(asked.bands),
            now_utc=asked.now_utc,
            scopes=asked.scopes,
            where=Filter.of(asked.where),
            include_unreviewed=asked.include_unreviewed,
            controller=package.controller_version,
        )
        request = EmbeddedRequest(
            **structs.asdict(request), vector=asked.vector, reranking=asked.reranking, is_replay=True
        )
        return self.answer(request, token_counter=token_counter).package

    def sources(self, bands: Sequence[Band] = RECALLED_BANDS) -> list[Source]:
        """The bands as sources for ``recall.read``."""
        return self._reader.sources(bands, at=self.memory_snapshot_id)

    def records(
        self,
        *,
        band: Band | None = None,
        scope: str = SHARED,
        where: Filter | Where | None = None,
    ) -> RecordListing:
        """Yield the records that the snapshot shows in a scope, with all below it, by band, scope and id.

        A record that is in two bands is listed once, unless a band is named. Proposals are in
        ``Memory.approvals``.

        Args:
            scope: The scope; ``"*"`` for all.
            where: Which records to list, such as ``{"tag": "billing"}``.
        """
        self._reader.require_readable("list records")
        chosen, listed = Filter.of(where), listed_scope(scope)
        bands = RECORD_BANDS if band is None else named_bands([band])
        require_no_proposals(bands)
        rows = listed_rows(
            self._reader.store, self._reader.namespace, bands, [listed], at=self.memory_snapshot_id
        )
        return RecordListing(
            (record for record in map(record_of, rows) if chosen.matches(record)),
            lambda: self._reader.scope_advice([listed], at=self.memory_snapshot_id),
        )

    def history(self, subject: str, *, scope: str = SHARED) -> list[HistoryEntry]:
        """Every version of a scope's subject (or memory id) up to this snapshot, oldest first."""
        self._reader.require_readable("read history")
        entries = history_of(self._reader.store, self._reader.namespace, subject, scope=scope)
        return [entry for entry in entries if entry.memory_snapshot_id <= self.memory_snapshot_id]

    def session(self, session: str, *, scope: str = SHARED, after: str = "") -> Iterator[SessionMessage]:
        """Yield the messages of a session, in order.

        Those that were not accepted have no text, but their verdict.

        Args:
            after: Only messages behind the one whose first record has this id.
        """
        self._reader.require_readable("read sessions")
        reader = SessionReader(self._reader.store, self._reader.namespace)
        return reader.messages(session, scope=checked_scope(scope), at=self.memory_snapshot_id, after=after)

    def sessions(self, *, scope: str = SHARED, after: str = "") -> Iterator[SessionInfo]:
        """Yield the sessions of a scope, with all below it, by scope and then in a fixed order.

        Args:
            scope: The scope; ``"*"`` for all.
            after: Only sessions behind the one with this ``key``.
        """
        self._reader.require_readable("list sessions")
        reader = SessionReader(self._reader.store, self._reader.namespace)
        return reader.sessions(scope=listed_scope(scope), at=self.memory_snapshot_id, after=after)

    def record_at(self, store_path: str, memory_id: str) -> Record | None:
        """The record behind an item of a package; None if there is none."""
        key = key_at(self._reader.namespace, store_path, memory_id)
        found = self._reader.store.read(self._reader.namespace, [key], at=self.memory_snapshot_id)
        return record_of(found[key]) if key in found else None

    def _now(self, request: RecallRequest) -> datetime | None:
        """The time that age is measured from: the request's, or else that of the snapshot's commit."""
        instant = request.now_utc or self._reader.instant_of(self.memory_snapshot_id)
        return None if instant is None else read_instant(normal_timestamp(instant))

    def _ceiling(self, store_path: str, memory_id: str, now: datetime | None) -> Ceiling | None:
        record = self.record_at(store_path, memory_id)
        if record is None or now is None:
            return None
        decision = decide_recall(record, None, now)
        return Ceiling(decision.confidence_ceiling, tuple(decision.floor_warnings))

    def redacted_request(self, request: RememberRequest) -> RememberRequest:
        """Return a request as a run records it: with every secret replaced by its kind. A replay needs it."""
        return redacted_request(request)

    def redacted_json(self, value: Any) -> Any:
        """Return arguments or results of a tool as a run records them. A replay needs it."""
        return redacted_json(value)

    def retrieval_facts(self, package: Package, request: RecallRequest) -> Mapping[str, Any]:
        """What a trace records of a package and its request: keyword arguments of ``Recorder.retrieval``."""
        items: Sequence[SelectedItem | RecallItem] = package.items
        if isinstance(package, RecallPackage):
            query_hash, candidates = fingerprint(package.request.query), package.matched
            mode = "lexical" if package.request.vector is None else "hybrid"
            budget = RetrievalBudget(tokens=package.request.tokens, max_items=package.request.max_items)
        else:
            query_hash, mode, dropped = package.query.query_hash, "text_terms", package.selection.dropped
            candidates = len(items) + (sum(dropped.values()) if isinstance(dropped, dict) else len(dropped))
            budget = RetrievalBudget(
                tokens=package.budget.max_excerpt_tokens, max_items=package.budget.max_items
            )
        identity = self._reader.store.identity
        chosen = request.where.as_json()
        return {
            "policy_id": "memory.read",
            "policy_version": package.controller_version,
            "query_fingerprint": query_hash,
            "query_normalization_version": package.controller_version,
            "retrieval_mode": mode,
            "namespace": self._reader.namespace,
            "scopes": list(request.places),
            "filters": {
                "bands": [band.value for band in request.bands],
                **({"where": chosen} if chosen else {}),
                **({"include_unreviewed": True} if request.include_unreviewed else {}),
                # Which records hold depends on the instant that was asked about.
                **({"now_utc": request.now_utc} if request.now_utc else {}),
            },
            "budget": budget,
            "candidate_count": candidates,
            "selected_records": [
                SelectedRecord(
                    record_id=item.memory_id,
                    record_type=item.store_path.rpartition("/")[2],
                    record_hash=item.record_hash,
                    score=item.score,
                    rank=rank,
                )
                # Whatever a package puts first, a trace lists records by score, then by id.
                for rank, item in enumerate(sorted(items, key=lambda one: (-one.score, one.memory_id)), 1)
            ],
            "package_hash": package.package_hash,
            "store_id": identity.store_id,
            "branch_id": identity.branch_id,
            "erased_since": package.erased_since,
        }
