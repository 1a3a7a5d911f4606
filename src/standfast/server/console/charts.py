"""Records and bytes of each band, and the geometry of the SVG charts that show them.

The templates draw the charts, with colours from the style sheet and without a script. Coordinates are
rounded, so that equal values give an equal page.
"""

import copy
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

from standfast.limits import CONSOLE_GROWTH_SNAPSHOTS
from standfast.memory import Memory
from standfast.records.scopes import ALL_SCOPES, is_within, outer_scopes, prefix_in, prefix_of, scope_in
from standfast.records.vocabulary import Band
from standfast.store.protocol import Version
from standfast.store.stored_records import is_band_row, record_of

WIDTH: Final = 480
HEIGHT: Final = 210
LEFT: Final = 72
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 30
SERIES_COLOURS: Final = 8
UNJUDGED: Final = "unjudged"
_MOST_PLACES: Final = 8


@dataclass(frozen=True, slots=True)
class Tick:
    """A grid line and its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: the points of its polyline, a dot with a label for each, and a colour number."""

    name: str
    points: str
    dots: tuple[tuple[float, float, str], ...]
    colour: int


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over a common axis."""

    series: tuple[Series, ...]
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    area: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    floor: int = HEIGHT - BOTTOM


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, as a segment of a bar of 1000 units."""

    name: str
    value: float
    x: float
    width: float


def shares(parts: Sequence[tuple[str, float]]) -> tuple[Share, ...]:
    """The segments of a bar; parts of zero are left out."""
    total = sum(value for _, value in parts)
    drawn, x = list[Share](), 0.0
    for name, value in parts:
        if value > 0:
            width = 1000 * value / total
            drawn.append(Share(name, value, round(x, 2), round(width, 2)))
            x += width
    return tuple(drawn)


def line_chart(
    lines: Sequence[tuple[str, Sequence[float]]],
    labels: Sequence[str],
    *,
    top: float | None = None,
    text: Callable[[float], str] | None = None,
    base: int = 1000,
    filled: bool = False,
) -> LineChart:
    """A chart of lines with evenly spaced points, one label for each point. The axis begins at 0.

    ``text`` writes a value, and ``base`` is the step from one of its units to the next, so that the axis ends
    at a round number.
    """
    text = text or short
    most = max((value for _, line in lines for value in line), default=1)
    unit = 1.0
    while most >= unit * base:
        unit *= base
    highest = top if top is not None else nice(most / unit) * unit
    count = len(labels)

    def x(number: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (number / (count - 1) if count > 1 else 0.5), 1)

    def y(value: float) -> float:
        share = value / highest if highest else 0
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(1, max(0, share)), 1)

    series = tuple(
        Series(
            name,
            " ".join(f"{x(number)},{y(value)}" for number, value in enumerate(line)),
            tuple(
                (x(number), y(value), f"{name}, {labels[number]}: {text(value)}")
                for number, value in enumerate(line)
            ),
            number % SERIES_COLOURS,
        )
        for number, (name, line) in enumerate(lines)
    )
    area = ""
    if filled and series and count:
        area = f"{x(0)},{HEIGHT - BOTTOM} {series[0].points} {x(count - 1)},{HEIGHT - BOTTOM}"
    return LineChart(
        series=series,
        rows=tuple(Tick(y(highest * part / 4), text(highest * part / 4)) for part in range(5)),
        columns=tuple(Tick(x(number), labels[number]) for number in _spread(count)),
        area=area,
    )


def _spread(count: int, most: int = 5) -> list[int]:
    """At most ``most`` evenly spread positions, including the first and the last."""
    if count <= most:
        return list(range(count))
    chosen = [round(number * (count - 1) / (most - 1)) for number in range(most)]
    assert all(left < right for left, right in pairwise(chosen)), "there are more positions than are chosen"
    return chosen


def nice(value: float) -> float:
    """The next round number that is not below a value, for the end of an axis."""
    if value < 1e-9:
        return 1.0
    step = 10.0 ** floor(log10(value))
    return float(next(part * step for part in (1, 2, 4, 5, 8, 10) if part * step >= value * (1 - 1e-9)))


def short(value: float) -> str:
    """A number in a few characters."""
    for limit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{name}"
    return f"{value:.3g}" if value != ceil(value) else f"{value:.0f}"


@dataclass(slots=True)
class BandStats:
    """The records of a band, their bytes and their verdicts."""

    records: int = 0
    size_bytes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, size_bytes: int, verdict: str, sign: int) -> None:
        """Add a record, or take it away if ``sign`` is -1."""
        self.records += sign
        self.size_bytes += sign * size_bytes
        self.verdicts[verdict] += sign


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """What a snapshot held, without what was erased since."""

    memory_snapshot_id: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class NamespaceStats:
    """The counts of each band at a snapshot, and of all bands at the snapshots before it."""

    at: int
    bands: dict[Band, BandStats]
    growth: tuple[GrowthPoint, ...]

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


class _RunningCount:
    """The counts of a namespace or of scopes in it, with the size of each record: once it is erased, the
    store no longer knows its size.
    """

    def __init__(self, memory: Memory, head: int, scopes: Sequence[str]) -> None:
        self.at = head
        self.scopes = scopes
        self.rows: dict[str, tuple[int, str]] = {}
        self.bands: dict[Band, BandStats] = {band: BandStats() for band in Band if band is not Band.PHOENIX}
        for prefix in [prefix_of(band, scope) for band in self.bands for scope in scopes]:
            for version in memory.store.scan(memory.namespace, prefix=prefix, at=head):
                self.replace(version)

    def replace(self, version: Version) -> None:
        """Count a version instead of the one before it; a version without content only removes that one."""
        count = self.bands[Band(prefix_in(version.key))]
        if (before := self.rows.pop(version.key, None)) is not None:
            count.add(*before, -1)
        if version.content is not None:
            verdict = record_of(version).verdict
            row = len(version.content), UNJUDGED if verdict is None else verdict.value
            self.rows[version.key] = row
            count.add(*row, +1)

    def advance(self, memory: Memory, head: int) -> None:
        """Apply the changes of every commit up to the head."""
        for snapshot in range(self.at + 1, head + 1):
            for row in _rows(memory, snapshot, self.scopes):
                self.replace(row)
        self.at = head


class StatsCache:
    """The statistics that were requested last, by namespace and scopes. Safe to share between threads."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[str, ...], tuple[_RunningCount, NamespaceStats]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, memory: Memory, scopes: Sequence[str] = ()) -> NamespaceStats:
        """The statistics of a memory at its newest snapshot: of these scopes with all below them, or of
        all.
        """
        scopes = outer_scopes(scopes) or (ALL_SCOPES,)
        place = (memory.namespace, *scopes)
        with self._lock:
            head = memory.store.head()
            cached = self._cached.pop(place, None)
            if cached is None or cached[0].at != head:
                running = cached[0] if cached else _RunningCount(memory, head, scopes)
                running.advance(memory, head)
                # A page renders a copy, because other requests go on counting.
                bands = copy.deepcopy(running.bands)
                stats = NamespaceStats(at=head, bands=bands, growth=_growth(memory, head, bands, scopes))
                cached = running, stats
            self._cached[place] = cached
            if len(self._cached) > _MOST_PLACES:
                self._cached.popitem(last=False)
            return cached[1]


def _growth(
    memory: Memory, head: int, bands: dict[Band, BandStats], scopes: Sequence[str]
) -> tuple[GrowthPoint, ...]:
    """The counts of the last snapshots, computed backwards from the head by what each commit changed."""
    records = sum(count.records for count in bands.values())
    size_bytes = sum(count.size_bytes for count in bands.values())
    points = [GrowthPoint(head, records, size_bytes)]
    for snapshot in range(head, max(0, head - CONSOLE_GROWTH_SNAPSHOTS + 1), -1):
        rows = _rows(memory, snapshot, scopes)
        removed = memory.store.read(memory.namespace, [row.key for row in rows], at=snapshot - 1).values()
        added = [row for row in rows if row.content is not None]
        records += len(removed) - len(added)
        size_bytes += _bytes(removed) - _bytes(added)
        points.append(GrowthPoint(snapshot - 1, records, size_bytes))
    return tuple(reversed(points))


def _rows(memory: Memory, snapshot: int, scopes: Sequence[str]) -> list[Version]:
    """What a commit wrote into the bands of a namespace, in these scopes."""
    return [
        row
        for row in memory.store.versions_of(snapshot)
        if row.namespace == memory.namespace
        and is_band_row(row.key)
        and any(is_within(scope_in(row.key), scope) for scope in scopes)
    ]


def _bytes(versions: Iterable[Version]) -> int:
    return sum(len(version.content or b"") for version in versions)
