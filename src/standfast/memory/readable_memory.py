"""Reading memory: recall, time travel, history, listings and conversations."""

from collections.abc import Iterator, Sequence

from standfast.errors import AboveCeiling, NoSuchSnapshot
from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS
from standfast.memory.sessions import SessionInfo, SessionMessage
from standfast.memory.snapshot_view import SnapshotReader, SnapshotView
from standfast.origins import Origin
from standfast.recall.controller import RECALLED_BANDS, Package, RecallRequest, named_bands
from standfast.recall.filters import Filter, Where
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.recall.tokens import TokenCounter
from standfast.scopes import SHARED, listed_scope, recalled_scopes
from standfast.store.records import HistoryEntry, RecordChange, changes_between, history_of
from standfast.store.store import Store
from standfast.vocabulary import Band, Record, VisibilityMode


class ReadableMemory:
    """What can be read of one namespace. ``GovernedMemory`` adds governing, and ``Memory`` writing."""

    store: Store
    namespace: str
    ceiling: VisibilityMode
    reader: SnapshotReader

    def require_readable(self, operation: str) -> None:
        """Raise ``AboveCeiling`` if the memory's ceiling forbids to read. ``operation`` says what was to be done."""
        if not self.ceiling.may_read:
            raise AboveCeiling(ceiling=self.ceiling.value, operation=operation)

    def recall(
        self,
        query: str,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        max_items: int = DEFAULT_MAX_ITEMS,
        bands: Sequence[Band | str] = RECALLED_BANDS,
        now_utc: str | None = None,
        controller: str = DEFAULT_CONTROLLER,
        token_counter: TokenCounter | None = None,
        scope: str | None = None,
        scopes: Sequence[str] | None = None,
        where: Filter | Where | None = None,
        least_origin: Origin | str | None = None,
        include_unreviewed: bool = False,
    ) -> Package:
        """Return the best excerpts for a query from the newest snapshot.

        Args:
            tokens: The token budget. It bounds the whole text; ``phase6-v1`` bounds the excerpts with it.
            bands: The bands to read: by default law and accepted memory.
            now_utc: What time it is, in ISO 8601 and UTC, for words such as "yesterday".
            controller: The version of the controller that answers.
            token_counter: Counts the tokens of the text; by default four bytes are a token.
            scope: The scope to read, with all below it; by default ``"shared"``.
            scopes: Several scopes, instead of ``scope``.
            where: Which records may be chosen, e.g. ``{"tag": "billing"}``; see ``Filter``.
            least_origin: The least origin of what may be chosen: ``"trusted"`` or ``"ordinary"``. Untrusted records are only chosen in the
                scopes that are named, not below them, and in a scope with other records only if nothing else matches;
                ``"untrusted"`` shows them in any case.
            include_unreviewed: Whether records that are on hold or wait for a review may be chosen.
        """
        request = RecallRequest(
            query=query,
            tokens=tokens,
            max_items=max_items,
            bands=named_bands(bands),
            now_utc=now_utc,
            scopes=recalled_scopes(scope, scopes),
            where=Filter.of(where).at_least(least_origin),
            include_unreviewed=include_unreviewed,
        )
        return self.reader.answer(request, controller=controller, token_counter=token_counter).package

    def at(self, snapshot: int) -> SnapshotView:
        """Return memory as of a snapshot. Recalling from it gives the same package as it did then.

        Raises:
            NoSuchSnapshot: It was never committed.
        """
        head = self.store.head()
        if not (type(snapshot) is int and 0 <= snapshot <= head):
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        return SnapshotView(self.reader, snapshot)

    def history(self, subject: str, *, scope: str = SHARED) -> list[HistoryEntry]:
        """Return every version of a scope's subject or memory id in every band, with verdict and evidence, oldest first."""
        self.require_readable("read history")
        return history_of(self.store, self.namespace, subject, scope=scope)

    def diff(self, old: int, new: int | None = None, *, scope: str = SHARED) -> list[RecordChange]:
        """Return the records of a scope that differ between two snapshots; ``new`` defaults to the newest.

        Args:
            scope: The scope, with all below it; ``"*"`` for all.
        """
        self.require_readable("compare snapshots")
        head = self.store.head() if new is None else new
        return changes_between(self.store, self.namespace, old, head, scope=listed_scope(scope))

    def records(
        self, *, band: Band | None = None, at: int | None = None, scope: str = SHARED
    ) -> Iterator[Record]:
        """Yield the records that a snapshot shows in a scope, by band, scope and id. Proposals are in ``approvals()``.

        Args:
            scope: The scope, with all below it; ``"*"`` for all.
        """
        view = SnapshotView(self.reader, self.store.head() if at is None else at)
        return view.records(band=band, scope=scope)

    def session(self, session: str, *, scope: str = SHARED, at: int | None = None) -> list[SessionMessage]:
        """Return the messages of a session, in order. Those that were not accepted have no text, but their verdict."""
        return list(self.at(self.store.head() if at is None else at).session(session, scope=scope))

    def sessions(self, *, scope: str = SHARED, at: int | None = None) -> list[SessionInfo]:
        """Return the sessions of a scope, with all below it (``"*"`` for all), by scope and then in a fixed order."""
        return list(self.at(self.store.head() if at is None else at).sessions(scope=scope))
