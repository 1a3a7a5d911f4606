"""What bands hold, in records and bytes, and how that grew. The first look counts everything; later ones what is new."""

import copy
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from standfast.limits import CONSOLE_GROWTH_SNAPSHOTS
from standfast.memory import Memory
from standfast.store.protocol import Version
from standfast.store.records import is_band_row, record_of
from standfast.vocabulary import Band

UNJUDGED: Final = "unjudged"
_MOST_NAMESPACES: Final = 8


@dataclass(slots=True)
class Count:
    """Records, their bytes, and their verdicts."""

    records: int = 0
    size_bytes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, size_bytes: int, verdict: str, sign: int) -> None:
        """Count a record in, or out."""
        self.records += sign
        self.size_bytes += sign * size_bytes
        self.verdicts[verdict] += sign


@dataclass(frozen=True, slots=True)
class Grown:
    """How much a snapshot held, of what was not erased since."""

    memory_snapshot_id: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Tally:
    """The count of each band at a snapshot, and of all bands at the snapshots before it."""

    at: int
    bands: dict[Band, Count]
    growth: tuple[Grown, ...]

    @property
    def records(self) -> int:
        """Records in all bands."""
        return sum(count.records for count in self.bands.values())

    @property
    def size_bytes(self) -> int:
        """Bytes in all bands."""
        return sum(count.size_bytes for count in self.bands.values())

    @property
    def verdicts(self) -> Counter[str]:
        """Verdicts in all bands."""
        return sum((count.verdicts for count in self.bands.values()), Counter())


class _Held:
    """What a namespace holds, by key: once it was erased, nobody else could say how much it was."""

    def __init__(self, memory: Memory, head: int) -> None:
        self.at = head
        self.rows: dict[str, tuple[int, str]] = {}
        self.bands: dict[Band, Count] = {band: Count() for band in Band if band is not Band.PHOENIX}
        for band in self.bands:
            for version in memory.store.scan(memory.namespace, prefix=f"{band}/", at=head):
                self.put(version)

    def put(self, version: Version) -> None:
        """Take a version in place of the one before it; one without content is only taken out."""
        count = self.bands[Band(version.key.partition("/")[0])]
        if (before := self.rows.pop(version.key, None)) is not None:
            count.add(*before, -1)
        if version.content is not None:
            verdict = record_of(version).verdict
            now = len(version.content), UNJUDGED if verdict is None else verdict.value
            self.rows[version.key] = now
            count.add(*now, +1)

    def follow(self, memory: Memory, head: int) -> None:
        """Go on to the head, by what each commit changed."""
        for snapshot in range(self.at + 1, head + 1):
            for row in _rows(memory, snapshot):
                self.put(row)
        self.at = head


class Tallies:
    """A tally of each namespace that was looked at lately. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[_Held, Tally]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, memory: Memory) -> Tally:
        """The tally of a memory at its newest snapshot."""
        with self._lock:
            head = memory.store.head()
            known = self._known.pop(memory.namespace, None)
            if known is None or known[0].at != head:
                held = known[0] if known else _Held(memory, head)
                held.follow(memory, head)
                # Pages are made of a copy, while others go on counting.
                bands = copy.deepcopy(held.bands)
                known = held, Tally(at=head, bands=bands, growth=_growth(memory, head, bands))
            self._known[memory.namespace] = known
            if len(self._known) > _MOST_NAMESPACES:
                self._known.popitem(last=False)
            return known[1]


def _growth(memory: Memory, head: int, bands: dict[Band, Count]) -> tuple[Grown, ...]:
    """Back from the head, by what each commit changed."""
    records = sum(count.records for count in bands.values())
    size_bytes = sum(count.size_bytes for count in bands.values())
    grown = [Grown(head, records, size_bytes)]
    for snapshot in range(head, max(0, head - CONSOLE_GROWTH_SNAPSHOTS + 1), -1):
        rows = _rows(memory, snapshot)
        gone = memory.store.read(memory.namespace, [row.key for row in rows], at=snapshot - 1).values()
        come = [row for row in rows if row.content is not None]
        records += len(gone) - len(come)
        size_bytes += _bytes(gone) - _bytes(come)
        grown.append(Grown(snapshot - 1, records, size_bytes))
    return tuple(reversed(grown))


def _rows(memory: Memory, snapshot: int) -> list[Version]:
    """What a commit wrote into the bands of a namespace."""
    rows = memory.store.versions_of(snapshot)
    return [row for row in rows if row.namespace == memory.namespace and is_band_row(row.key)]


def _bytes(versions: Iterable[Version]) -> int:
    return sum(len(version.content or b"") for version in versions)
