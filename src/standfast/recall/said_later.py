"""What was said later: the newest statement on each matter among the records that a recall looked at."""

from typing import Final, NamedTuple

from standfast.recall.analysis import IndexedRecord
from standfast.recall.filters import UNREVIEWED_VERDICTS
from standfast.records.filters import trust_of
from standfast.records.origins import Origin
from standfast.records.statements import differs

LATER_CHARS: Final = 80
"""So much is shown of a text that was said later."""


class LaterStatement(NamedTuple):
    """What was said later about a matter of a record: the text with its date, and the id of its record."""

    text: str
    memory_id: str


class _Said(NamedTuple):
    newness: tuple[int, int]
    record: IndexedRecord
    value: str


class SaidLast:
    """The newest statement on each matter of each scope; of what is untrusted or not reviewed, none."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], _Said] = {}

    def note(self, record: IndexedRecord, snapshot: int) -> None:
        """Take in what a record says.

        Args:
            snapshot: The snapshot that wrote it, which decides between records of one time.
        """
        if record.verdict in UNREVIEWED_VERDICTS or trust_of(record) == Origin.UNTRUSTED:
            return
        newness = record.time, snapshot
        for statement in record.statements:
            place = record.scope, statement.matter
            known = self._newest.get(place)
            if known is None or known.newness < newness:
                self._newest[place] = _Said(newness, record, statement.value)

    def later_than(self, record: IndexedRecord, snapshot: int) -> LaterStatement | None:
        """What was said last about a matter of a record, if it is something else and was said later."""
        if not record.statements or trust_of(record) == Origin.UNTRUSTED:
            return None
        for statement in record.statements:
            newest = self._newest.get((record.scope, statement.matter))
            if newest is None or newest.newness <= (record.time, snapshot):
                continue
            if differs(newest.value, statement.value):
                return LaterStatement(_shown(newest.record, record), newest.record.memory_id)
        return None


def _shown(later: IndexedRecord, record: IndexedRecord) -> str:
    """The beginning of a later text with its date, and the time if both are of one day."""
    text = " ".join(later.text.split())
    date = later.date or "no date"
    if later.ts_utc is not None and later.date == record.date:
        date += f" {later.ts_utc[11:16]}"
    if len(text) > LATER_CHARS:
        text = f"{text[:LATER_CHARS].rsplit(' ', 1)[0]}…"
    return f"{date}: {text}"
