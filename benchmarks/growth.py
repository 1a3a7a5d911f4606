"""How cost grows with the store: remembering, recalling, verifying and opening at 10^3, 10^4 … records.

    python -m benchmarks.growth docs/performance-growth.svg --largest 100000

prints a table in Markdown and writes the plot. It takes a minute for 100,000 records on a quiet machine, and
ten for 1,000,000.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.dialogue import dialogue_turns
from benchmarks.facts import PER_COMMIT
from standfast.bench.report import Plot
from standfast.memory import Memory
from standfast.recall import RecallPackage

QUESTIONS = 20
TITLES = {
    "remember_microseconds": "remember, µs of CPU a fact in commits of 1,000",
    "open_milliseconds": "open and close, ms of CPU",
    "first_recall_milliseconds": "first recall after opening, ms of CPU",
    "recall_milliseconds": "recall after that, long questions, ms of CPU (median)",
    "matches": "… records that match such a question (median)",
    "short_recall_milliseconds": "recall, questions of one word, ms of CPU (median)",
    "short_matches": "… records that match such a question (median)",
    "verify_microseconds": "`memory.verify`, µs of CPU a fact",
    "bytes_a_fact": "bytes in all files a fact, with vectors, traces and the index of recall",
}


class Point(NamedTuple):
    """What was measured at one size of the store."""

    facts: int
    remember_microseconds: float
    open_milliseconds: float
    first_recall_milliseconds: float
    recall_milliseconds: float
    matches: float
    short_recall_milliseconds: float
    short_matches: float
    verify_microseconds: float
    bytes_a_fact: float


def asked(memory: Memory, questions: list[str]) -> tuple[list[float], float]:
    """Milliseconds of CPU of each question, and how many records match in the median."""
    times, matches = [], []
    for question in questions:
        begun = time.process_time()
        package = memory.recall(question, tokens=500)
        assert isinstance(package, RecallPackage)
        times.append((time.process_time() - begun) * 1e3)
        matches.append(package.matched)
    return times, statistics.median(matches)


def _milliseconds(call: Callable[[], object]) -> float:
    """Milliseconds of CPU, because those depend least on what else the machine does."""
    begun = time.process_time()
    call()
    return (time.process_time() - begun) * 1e3


def _fill(path: str, turns: Iterator[str], facts: int) -> float:
    """Remember further facts. Returns CPU seconds."""
    with Memory.open(path) as memory:
        begun = time.process_time()
        for _ in range(facts // PER_COMMIT):
            with memory.run(workflow="bench", mode="buffered_write") as run:
                for turn in itertools.islice(turns, PER_COMMIT):
                    run.remember(turn)
        return time.process_time() - begun


def _point(path: str, facts: int, remembering: float) -> Point:
    stored = sum(file.stat().st_size for file in Path(path).parent.rglob("*") if file.is_file())

    def open_and_close() -> None:
        with Memory.open(path):
            pass

    opening = statistics.median(_milliseconds(open_and_close) for _ in range(5))
    turns = list(itertools.islice(dialogue_turns(), QUESTIONS))
    with Memory.open(path) as memory:
        times, matches = asked(memory, [f"What about {turn.split(' ', 6)[-1]}" for turn in turns])
        short, short_matches = asked(memory, [turn.split(" ")[6] for turn in turns])
        begun = time.process_time()
        assert list(memory.verify()) == []
        verifying = time.process_time() - begun
    return Point(
        facts,
        remembering * 1e6,
        opening,
        times[0],
        statistics.median(times[1:]),
        matches,
        statistics.median(short),
        short_matches,
        verifying / facts * 1e6,
        stored / facts,
    )


def measured(largest: int) -> list[Point]:
    """One store that grows tenfold from point to point."""
    points: list[Point] = []
    turns = dialogue_turns()
    with tempfile.TemporaryDirectory() as folder:
        path, facts = str(Path(folder) / "memory.db"), 0
        while facts * 10 <= largest:
            size = facts * 10 or PER_COMMIT
            remembering = _fill(path, turns, size - facts) / (size - facts)
            facts = size
            points.append(_point(path, facts, remembering))
            print(f"{facts:,} facts measured", flush=True)
    return points


def as_markdown(points: list[Point]) -> str:
    """The points as a table, one column for each size."""
    lines = ["| | " + " | ".join(f"{point.facts:,}" for point in points) + " |"]
    lines.append("|---|" + "---:|" * len(points))
    for name, title in TITLES.items():
        values = (f"{getattr(point, name):,.{0 if getattr(point, name) >= 20 else 1}f}" for point in points)
        lines.append(f"| {title} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def plotted(points: list[Point]) -> bytes:
    """The points as an SVG: times for the whole store on the left, for one call on the right."""
    plot = Plot(9, 3.4, panels=2)
    sizes = [point.facts for point in points]
    whole = {
        "verify all of it": [p.verify_microseconds * p.facts / 1e6 for p in points],
        "remember all of it": [p.remember_microseconds * p.facts / 1e6 for p in points],
    }
    single = {
        "first recall": [p.first_recall_milliseconds / 1e3 for p in points],
        "recall, long question": [p.recall_milliseconds / 1e3 for p in points],
        "recall, one word": [p.short_recall_milliseconds / 1e3 for p in points],
        "open and close": [p.open_milliseconds / 1e3 for p in points],
    }
    for axes, lines in zip(plot.axes, (whole, single), strict=True):
        _draw(axes, sizes, lines)
    plot.caption("Seconds of CPU by the number of facts in the store, both logarithmic.")
    return plot.encode("svg")


def _draw(axes: Any, sizes: list[int], lines: dict[str, list[float]]) -> None:
    for name, values in lines.items():
        axes.plot(sizes, values, marker="o", markersize=4, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plot", type=Path, help="where to write the plot (SVG)")
    parser.add_argument(
        "--largest", type=int, default=100_000, help="the largest store (1,000,000 takes a while)"
    )
    arguments = parser.parse_args()
    found = measured(arguments.largest)
    arguments.plot.write_bytes(plotted(found))
    print(as_markdown(found))
