"""What bands hold, in records and bytes, and how that grew. The first look counts everything; later ones what is new."""

import copy
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.limits import CONSOLE_GROWTH_SNAPSHOTS
from holdfast.memory import Memory
from holdfast.store.protocol import Version
from holdfast.store.records import is_band_row, record_of
from holdfast.vocabulary import Band

UNJUDGED: Final = "unjudged"
_MOST_NAMESPACES: Final = 32


@dataclass(slots=True)
class Count:
    """Records, their bytes, and their verdicts."""

    records: int = 0
    size_bytes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, version: Version, sign: int) -> None:
        """Count a record in, or out."""
        verdict = record_of(version).verdict
        self.records += sign
        self.size_bytes += sign * len(version.content or b"")
        self.verdicts[UNJUDGED if verdict is None else verdict.value] += sign


@dataclass(frozen=True, slots=True)
class Grown:
    """How much a snapshot held."""

    memory_snapshot_id: int
    records: int
    size_bytes: int


@dataclass(slots=True)
class Tally:
    """The count of each band at a snapshot, and of the snapshots before it."""

    at: int
    bands: dict[Band, Count]
    growth: deque[Grown]

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


class Tallies:
    """A tally of each namespace that was looked at lately. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Tally] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, memory: Memory) -> Tally:
        """The tally of a memory at its newest snapshot."""
        with self._lock:
            head = memory.store.head()
            tally = self._known.pop(memory.namespace, None)
            if tally is None or not 0 <= head - tally.at <= CONSOLE_GROWTH_SNAPSHOTS:
                tally = _counted(memory, head)
            else:
                for snapshot in range(tally.at + 1, head + 1):
                    _step(memory, tally, snapshot)
            self._known[memory.namespace] = tally
            if len(self._known) > _MOST_NAMESPACES:
                self._known.popitem(last=False)
            # Others go on counting while a page is made of this.
            return copy.deepcopy(tally)


def _counted(memory: Memory, head: int) -> Tally:
    """Count everything at the head, and go back from there by what each commit changed."""
    bands: dict[Band, Count] = {band: Count() for band in Band if band is not Band.PHOENIX}
    for band, count in bands.items():
        for version in memory.store.scan(memory.namespace, prefix=f"{band}/", at=head):
            count.add(version, +1)
    tally = Tally(at=head, bands=bands, growth=deque(maxlen=CONSOLE_GROWTH_SNAPSHOTS))
    records, size_bytes = tally.records, tally.size_bytes
    tally.growth.append(Grown(head, records, size_bytes))
    for snapshot in range(head, max(0, head - CONSOLE_GROWTH_SNAPSHOTS + 1), -1):
        gone, come = _changed(memory, snapshot)
        records += len(gone) - len(come)
        size_bytes += _bytes(gone) - _bytes(come)
        tally.growth.appendleft(Grown(snapshot - 1, records, size_bytes))
    return tally


def _step(memory: Memory, tally: Tally, snapshot: int) -> None:
    gone, come = _changed(memory, snapshot)
    for versions, sign in ((gone, -1), (come, +1)):
        for version in versions:
            tally.bands[Band(version.key.partition("/")[0])].add(version, sign)
    tally.at = snapshot
    tally.growth.append(Grown(snapshot, tally.records, tally.size_bytes))


def _changed(memory: Memory, snapshot: int) -> tuple[list[Version], list[Version]]:
    """What a commit took out of the bands, and what it put into them."""
    rows = [
        row
        for row in memory.store.storage.snapshot_rows(snapshot)
        if row.namespace == memory.namespace and is_band_row(row.key)
    ]
    before = memory.store.read(memory.namespace, [row.key for row in rows], at=snapshot - 1)
    return list(before.values()), [row for row in rows if row.content is not None]


def _bytes(versions: Iterable[Version]) -> int:
    return sum(len(version.content or b"") for version in versions)
