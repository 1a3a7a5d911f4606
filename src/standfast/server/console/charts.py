"""The geometry of SVG charts.

The templates draw the charts, with colours from the style sheet and without a script. Coordinates are
rounded, so that equal values give an equal page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 210
LEFT: Final = 72
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 30
SERIES_COLOURS: Final = 8


@dataclass(frozen=True, slots=True)
class Tick:
    """A grid line and its label. ``time`` is the instant that the label names, if it names one."""

    at: float
    label: str
    time: str = ""


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


def line_chart(
    lines: Sequence[tuple[str, Sequence[float]]],
    labels: Sequence[str],
    *,
    top: float | None = None,
    text: Callable[[float], str] | None = None,
    base: int = 1000,
    filled: bool = False,
    times: Sequence[str] = (),
) -> LineChart:
    """A chart of lines with evenly spaced points, one label for each point. The axis begins at 0.

    ``text`` writes a value, and ``base`` is the step from one of its units to the next, so that the axis ends
    at a round number. ``times`` are the instants that the labels name; a script shows them in local time.
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
        rows=tuple(Tick(y(value), text(value)) for value in _steps(highest, text is short)),
        columns=tuple(
            Tick(x(number), labels[number], times[number] if times else "") for number in _spread(count)
        ),
        area=area,
    )


def _steps(highest: float, is_count: bool) -> list[float]:
    """The values that an axis names: in quarters, or whole numbers where things are counted."""
    parts = 4
    if is_count and highest % 4:
        parts = 5 if highest % 5 == 0 else max(1, int(highest))
    return [highest * part / parts for part in range(parts + 1)]


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
