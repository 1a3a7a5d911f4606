"""Lists of records and of changes, which say what to try if they are empty."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from standfast.records.requests import RECALLED_BANDS
from standfast.records.scopes import name_in, prefix_in, prefix_of, scope_in, scoped_key
from standfast.records.vocabulary import Band, Record
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.stored_records import RecordChange, record_of

_ROWS_AT_ONCE: Final = 100


class RecordListing(Iterator[Record]):
    """Records, read one after the other. ``advice`` says what to try if there are none; else it is empty."""

    def __init__(self, records: Iterator[Record], advise: Callable[[], str]) -> None:
        self._records, self._advise = records, advise
        self._next: list[Record] = []
        self._is_empty: bool | None = None

    def __next__(self) -> Record:
        record = self._next.pop() if self._next else next(self._records, None)
        if self._is_empty is None:
            self._is_empty = record is None
        if record is None:
            raise StopIteration
        return record

    @property
    def advice(self) -> str:
        """What to try if there are none."""
        if self._is_empty is None:
            first = next(self._records, None)
            self._is_empty = first is None
            self._next += [] if first is None else [first]
        return self._advise() if self._is_empty else ""

    def __repr__(self) -> str:
        advice = self.advice
        return f"<no records. {advice}>" if self._is_empty else "<records; list(…) reads them>"


class ChangeList(list[RecordChange]):
    """The records that differ between two snapshots; ``advice`` says what to try if there are none."""

    advice: str = ""

    def __repr__(self) -> str:
        return super().__repr__() if self or not self.advice else f"<no changes. {self.advice}>"


def listed_rows(
    store: Store,
    namespace: str,
    bands: Sequence[Band],
    scopes: Sequence[str],
    *,
    at: int,
    after: str = "",
) -> Iterator[Version]:
    """The rows of records in these bands and scopes, by key in each band.

    Working memory repeats long-term memory for a while, under the same id. Repetitions are left out.

    Args:
        after: Only rows behind the one with this key.
    """
    order = list(Band)
    first = order.index(Band(prefix_in(after))) if after else 0
    for band in bands:
        if order.index(band) < first:
            continue
        own = after if after and prefix_in(after) == band else ""
        for scope in scopes:
            rows = store.scan(namespace, prefix=prefix_of(band, scope), after=own, at=at)
            if band is not Band.ACTIVE:
                yield from rows
                continue
            repeated = [one for one in bands if one in RECALLED_BANDS]
            while page := list(islice(rows, _ROWS_AT_ONCE)):
                others = [
                    scoped_key(one, scope_in(row.key), name_in(row.key)) for row in page for one in repeated
                ]
                found = store.read(namespace, others, at=at) if others else {}
                said = {key: record_of(row).text for key, row in found.items()}
                for row in page:
                    keys = [scoped_key(one, scope_in(row.key), name_in(row.key)) for one in repeated]
                    if record_of(row).text not in [said[key] for key in keys if key in said]:
                        yield row
