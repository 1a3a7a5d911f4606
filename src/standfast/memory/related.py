"""What a new record may disagree with or repeat: earlier statements on its matters, and texts like its own.

The answer of ``remember`` and ``add`` names both, so that whoever wrote the text can say at once what it
replaces, with ``supersedes=``. Nothing is ended by it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from standfast.memory.snapshot_view import SnapshotReader
from standfast.recall.analysis import IndexedRecord, matter_term, words_of
from standfast.recall.arrays import Rows
from standfast.recall.filters import UNREVIEWED_VERDICTS
from standfast.recall.index.store_index import ScopeRows
from standfast.recall.newest_first import MAX_COMPARED_WORDS, are_nearly_equal, are_of_one_set
from standfast.records.filters import trust_of
from standfast.records.origins import Origin
from standfast.records.requests import RECALLED_BANDS
from standfast.records.scopes import prefix_of
from standfast.records.statements import differs
from standfast.records.timestamps import time_of
from standfast.records.vocabulary import Band, Record

MAX_RELATED: Final = 5
"""So many ids of each kind are given."""
_LOOKED_AT: Final = 16
_MAX_ROWS_OF_A_TERM: Final = 2_000
"""A term in more records than this finds nothing in particular."""


class Related(NamedTuple):
    """Ids of records of the scope, the newest first.

    Attributes:
        earlier: They say something else about a matter that the new record has a statement on.
        similar: Their texts are nearly equal to the new one.
    """

    earlier: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


def related_records(reader: SnapshotReader, record: Record, *, at: int) -> Related:
    """The records of a scope that a snapshot shows and that a new record may disagree with or repeat.

    Only a record with a plain statement is compared, so that other writes cost no more for it.
    """
    if not record.statements:
        return Related()
    # Another process may merge the segments that are being read.
    return reader.index.retry(lambda: _related_to(reader, record, at))


def was_contradicted(reader: SnapshotReader, record: Record, known: Record, *, at: int) -> bool:
    """Whether something else was said after a known record about what a new one repeats: then the value has
    returned, and is said anew.
    """
    if record.origin is Origin.UNTRUSTED or known.ts_utc is None or record.ts_utc is None:
        return False
    said = {one.matter: one.value for one in known.statements}
    if not said:
        return False
    terms = [matter_term(one) for one in known.statements]
    since, until = time_of(known.ts_utc), time_of(record.ts_utc)

    reader.store.note_read(reader.namespace, [prefix_of(band, record.scope) for band in RECALLED_BANDS])

    def differs_since() -> bool:
        rows = reader.index.in_scope(RECALLED_BANDS, record.scope, at=at)
        return any(
            since < found.time <= until
            and any(differs(said[one.matter], one.value) for one in found.statements if one.matter in said)
            for found in _records_with(reader, rows, record, terms)
        )

    return reader.index.retry(differs_since)


def _related_to(reader: SnapshotReader, record: Record, at: int) -> Related:
    words = words_of(record.text)
    is_short = len(words) <= MAX_COMPARED_WORDS
    rows = reader.index.in_scope(RECALLED_BANDS, record.scope, at=at)
    gist_of = rows.analyzer.gist_of
    said: dict[str, str] = {one.matter: one.value for one in record.statements}
    earlier = [
        found.memory_id
        for found in _records_with(reader, rows, record, [matter_term(one) for one in record.statements])
        if (record.ts_utc is None or found.time <= time_of(record.ts_utc))
        and any(differs(said[one.matter], one.value) for one in found.statements if one.matter in said)
    ]
    gist = frozenset(gist_of(words))
    similar = [
        found.memory_id
        for found in (_alike(reader, rows, record, words) if is_short else ())
        if found.memory_id not in earlier and are_nearly_equal(gist, frozenset(gist_of(words_of(found.text))))
    ]
    return Related(tuple(dict.fromkeys(earlier))[:MAX_RELATED], tuple(dict.fromkeys(similar))[:MAX_RELATED])


def _records_with(
    reader: SnapshotReader, rows: ScopeRows, record: Record, terms: Sequence[str]
) -> list[IndexedRecord]:
    """The records of the scope with one of some terms, the newest first."""
    found = np.unique(np.concatenate(rows.rows_with(list(dict.fromkeys(terms)))))
    return [one for one in _read(reader, rows, record, found) if not are_of_one_set(one, record)]


def _alike(reader: SnapshotReader, rows: ScopeRows, record: Record, words: list[str]) -> list[IndexedRecord]:
    """The records that share most terms with a text, the newest first."""
    terms = list(dict.fromkeys(rows.analyzer.terms_of(words)))
    having = (
        [found for found in rows.rows_with(terms) if 0 < len(found) <= _MAX_ROWS_OF_A_TERM] if terms else []
    )
    if not having:
        return []
    found, counts = np.unique(np.concatenate(having), return_counts=True)
    found, counts = found[3 * counts >= len(terms)], counts[3 * counts >= len(terms)]
    best = np.lexsort((-rows.shown.snapshots(found), -counts))[:MAX_RELATED]
    return _read(reader, rows, record, found[best])


def _read(reader: SnapshotReader, rows: ScopeRows, record: Record, found: Rows) -> list[IndexedRecord]:
    law = reader.law_at(rows.shown.snapshot) if len(found) else ()
    return [
        one
        for one in rows.newest(found, _LOOKED_AT)
        if one.scope == record.scope
        and one.memory_id not in (record.memory_id, *record.supersedes)
        and (one.band == Band.VAULT or f"{one.scope}//{one.memory_id}" not in law)
        and one.verdict not in UNREVIEWED_VERDICTS
        and trust_of(one) != Origin.UNTRUSTED
    ]
