"""Vectors of records: made when a commit stores them, and filled in later where they are missing.

If an embedder fails, the commit is stored without vectors and a warning says so; ``VectorFiller`` adds them.
Filling in is also how one embedder replaces another: it works in commits of its own, each with an entry in
the ledger that says who did it, so it can be interrupted and taken up again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from standfast.errors import CommitAborted, EmbeddingFailed, InvalidValue
from standfast.limits import MAX_ATTEMPTS
from standfast.recall.analysis import passages_of
from standfast.recall.answers import vector_of, with_vector
from standfast.recall.embedders import (
    Embedder,
    QueryVector,
    StaticEmbedder,
    checked_embedder,
    checked_vectors,
    identity_of,
    open_embedder,
)
from standfast.recall.vectors import StoreVectors, VectorView, stored_form
from standfast.records.canon import parse
from standfast.records.requests import RecallRequest
from standfast.records.rows import RowKind
from standfast.records.scopes import prefix_of, row_key
from standfast.records.vocabulary import ActionType, Band, Value
from standfast.store.commit import Commit, Fact, RecordVector, Write
from standfast.store.protocol import Version
from standfast.store.store import Store

EMBEDDED_BANDS: Final = (Band.VAULT, Band.LEDGER)
"""The bands whose records get vectors: those that recall reads by default."""
NO_EMBEDDER: Final = "none"
FILLED_AT_ONCE: Final = 256
POLICY_SET_ID: Final = "vectors-v1"
_PREFIXES: Final = tuple(prefix_of(band) for band in EMBEDDED_BANDS)

Progress = Callable[[int, int], None]
"""Called with the number of records that have a vector, and the number of all."""


class VectorStatus(Value, frozen=True, kw_only=True):
    """How many of a namespace's records have a vector by an embedder."""

    embedder: str
    records: int
    with_vector: int

    @property
    def missing(self) -> int:
        """How many have none."""
        return self.records - self.with_vector


class MemoryVectors:
    """The vectors of one memory: makes those of new records and of queries, and fills in what is missing.

    ``memory.vectors`` is one. Threads may share it.

    Args:
        embedder: An embedder, or how ``open_embedder`` names one; by default the shipped table, and
            ``"none"`` for a memory without vectors.
        warn: Takes what went wrong when a commit was stored without vectors.
    """

    def __init__(
        self, store: Store, namespace: str, embedder: Embedder | str | None, *, warn: Callable[[str], None]
    ) -> None:
        self.embedder = named_embedder(embedder)
        self._store = store
        self._namespace = namespace
        self._stored = StoreVectors(store, namespace)
        if self.embedder is not None:
            store.vector_makers[identity_of(self.embedder)] = CommitVectors(self.embedder, warn)

    def view(self, *, at: int, head: int | None = None) -> VectorView:
        """The vectors that a snapshot shows.

        Args:
            head: The newest snapshot, if the caller has just looked it up.
        """
        return self._stored.view(at=at, head=head)

    def with_vector(self, request: RecallRequest) -> RecallRequest:
        """A request with the vector of its query, unless it has one or there is no embedder."""
        if vector_of(request) is not None or self.embedder is None:
            return request
        return with_vector(request, QueryVector.of(self.embedder, request.query))

    def status(self, embedder: Embedder | str | None = None) -> VectorStatus:
        """How many records have a vector, by default of the memory's own embedder."""
        return self._filler(embedder).status()

    def fill(self, *, by: str, progress: Progress | None = None) -> VectorStatus:
        """Give every record that lacks a vector of the memory's embedder one, in recorded commits.

        Raises:
            InvalidValue: The memory has no embedder.
            EmbeddingFailed: The embedder failed. What was filled in stays; the next call goes on there.
        """
        return self._filler(None).fill(by=by, progress=progress)

    def migrate(self, to: Embedder | str, *, by: str, progress: Progress | None = None) -> VectorStatus:
        """Give every record a vector of another embedder, in commits that the ledger records.

        Recall goes on with the vectors of the memory's own embedder until memory is opened with the other
        one; vectors of both stay usable. Calling it again goes on where it was interrupted, and fills in what
        was written meanwhile.
        """
        replaces = None if self.embedder is None else identity_of(self.embedder)
        return self._filler(to).fill(by=by, replaces=replaces, progress=progress)

    def _filler(self, embedder: Embedder | str | None) -> "VectorFiller":
        chosen = self.embedder if embedder is None else named_embedder(embedder)
        if chosen is None:
            problem = (
                'this memory has none; open it with embedder="static", or set embedder in standfast.toml'
            )
            raise InvalidValue(what="embedder", problem=problem)
        return VectorFiller(self._store, self._namespace, chosen)


def named_embedder(embedder: Embedder | str | None) -> Embedder | None:
    """An embedder that may be given by how ``open_embedder`` names it; ``InvalidValue`` if it makes no sense.

    Without one it is the shipped table; ``"none"`` stands for a memory without vectors.
    """
    if embedder == NO_EMBEDDER:
        return None
    if embedder is None:
        return StaticEmbedder()
    return open_embedder(embedder) if isinstance(embedder, str) else checked_embedder(embedder)


class _Text(msgspec.Struct):
    text: str


_decode_text: Final = msgspec.json.Decoder(_Text).decode


class CommitVectors:
    """Makes the vectors of the records that a commit writes. A ``VectorMaker`` of the store.

    Args:
        warn: Takes what went wrong.
    """

    def __init__(self, embedder: Embedder, warn: Callable[[str], None]) -> None:
        self._embedder = embedder
        self._warn = warn

    def __call__(self, commit: Commit) -> Sequence[RecordVector]:
        """The vectors; none if the embedder fails."""
        found = [
            (write, text)
            for write in commit.writes
            if write.content is not None
            and write.key.startswith(_PREFIXES)
            and (text := _text_of(write.content)) is not None
        ]
        if not found:
            return ()
        try:
            vectors = _stored_vectors(self._embedder, [text for _, text in found])
        except EmbeddingFailed as error:
            self._warn(
                f"{len(found)} records were stored without vectors: {error} Run: standfast vectors fill"
            )
            return ()
        identity = identity_of(self._embedder)
        return [
            RecordVector(namespace=write.namespace, key=write.key, embedder=identity, content=vector)
            for (write, _), vector in zip(found, vectors, strict=True)
        ]


class _Missing(NamedTuple):
    version: Version
    text: str


class VectorFiller:
    """Fills in the vectors of an embedder for the records of a namespace that have none."""

    def __init__(self, store: Store, namespace: str, embedder: Embedder) -> None:
        self._store = store
        self._namespace = namespace
        self._embedder = embedder
        self._identity = identity_of(embedder)

    def status(self) -> VectorStatus:
        """How many records have a vector now."""
        known, records, missing = self._known(), 0, 0
        for version, _ in self._records():
            records += 1
            missing += (version.key, version.memory_snapshot_id) not in known
        return VectorStatus(embedder=self._identity, records=records, with_vector=records - missing)

    def fill(self, *, by: str, replaces: str | None = None, progress: Progress | None = None) -> VectorStatus:
        """Give every record of the newest snapshot a vector, a page in each commit.

        What is there already stays.

        Args:
            by: Who does it, for the ledger.
            replaces: The embedder that this one is to replace, for the ledger.
            progress: Told after each page.

        Raises:
            EmbeddingFailed: The embedder failed. What was filled in stays; the next call goes on there.
        """
        status = self.status()
        while status.missing:
            self._fill_once(status, by, replaces, progress)
            after = self.status()
            if after.missing >= status.missing:
                break
            status = after
        self._commit((), {"by": by, "replaces": replaces, "state": "complete", "records": status.with_vector})
        return status

    def _fill_once(
        self, status: VectorStatus, by: str, replaces: str | None, progress: Progress | None
    ) -> None:
        known, done, page = self._known(), status.with_vector, list[_Missing]()

        def flush() -> None:
            nonlocal done
            vectors = _stored_vectors(self._embedder, [one.text for one in page])
            self._commit(
                [
                    RecordVector(
                        namespace=self._namespace,
                        key=one.version.key,
                        embedder=self._identity,
                        content=vector,
                        of_snapshot=one.version.memory_snapshot_id,
                    )
                    for one, vector in zip(page, vectors, strict=True)
                ],
                {"by": by, "replaces": replaces, "state": "filling", "records": done + len(page)},
            )
            done += len(page)
            page.clear()
            if progress is not None:
                progress(done, status.records)

        for version, text in self._records():
            if (version.key, version.memory_snapshot_id) not in known:
                page.append(_Missing(version, text))
                if len(page) == FILLED_AT_ONCE:
                    flush()
        if page:
            flush()

    def _commit(self, vectors: Sequence[RecordVector], facts: dict[str, Any]) -> None:
        """Store a page of vectors with a row and a ledger entry that say how far the work is."""
        row = {"embedder": self._identity, **facts}
        key = row_key(RowKind.VECTORS, self._identity)
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            head = self._store.head()
            known = self._store.read(self._namespace, [key], at=head)
            if not vectors and key in known and parse(known[key].content or b"") == row:
                return
            commit = Commit.of(
                run_id=self._store.ids.new_id(),
                memory_snapshot_id=head,
                policy_set_id=POLICY_SET_ID,
                writes=[
                    Write.of(
                        self._namespace, key, ActionType.MERGE if key in known else ActionType.WRITE, row
                    )
                ],
                facts=[Fact.of("vectors", {"namespace": self._namespace, **row})],
                vectors=vectors,
            )
            try:
                self._store.commit(commit)
            except CommitAborted:
                # Somebody else fills in too.
                if not attempts_left:
                    raise
            else:
                return

    def _known(self) -> set[tuple[str, int]]:
        return {
            (one.key, one.memory_snapshot_id)
            for one in self._store.vectors(self._namespace)
            if one.embedder == self._identity
        }

    def _records(self) -> Iterator[tuple[Version, str]]:
        head = self._store.head()
        for prefix in _PREFIXES:
            for version in self._store.scan(self._namespace, prefix=prefix, at=head):
                if (text := _text_of(version.content or b"")) is not None:
                    yield version, text


def _stored_vectors(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """The vectors of each text's passages, as they are stored."""
    passages = [passages_of(text) for text in texts]
    vectors = checked_vectors(embedder, [one for of_text in passages for one in of_text])
    stored, start = [], 0
    for of_text in passages:
        stored.append(stored_form(vectors[start : start + len(of_text)]))
        start += len(of_text)
    return stored


def _text_of(content: bytes) -> str | None:
    try:
        return _decode_text(content).text
    except msgspec.MsgspecError:
        return None
