"""The document's tables: for each policy recall by budget, utility per KB and the confusion matrix; and the leaderboard."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from standfast.bench.report.summary import Mean, Row, Standing, budgets_of, chosen, figure

COLUMNS = ("Policy", "Track", "Recall", "F1", "Util/KB", "Staleness", "Regret", "Of best")


def size_name(count: int) -> str:
    """A number of bytes as people say it."""
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} B"


def recall_at_budget(rows: Sequence[Row]) -> str:
    """Recall by budget, with its interval."""
    lines: list[tuple[Any, ...]] = [("budget_bytes", "recall", "recall_low", "recall_high", "episodes")]
    for max_bytes in budgets_of(rows):
        mean = figure(chosen(rows, budget_bytes=max_bytes), "recall")
        lines.append((max_bytes, *_interval(mean), mean.episodes))
    return _csv(lines)


def confusion_matrix(rows: Sequence[Row]) -> str:
    """What was kept and what should have been, added up over episodes; and precision and recall of the sums."""
    names = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    lines: list[tuple[Any, ...]] = [("budget_bytes", *names, "precision", "recall")]
    for max_bytes in budgets_of(rows):
        own = chosen(rows, budget_bytes=max_bytes)
        sums = {name: sum(row[name] for row in own) for name in names}
        hits, kept = sums["true_positives"], sums["true_positives"] + sums["false_positives"]
        due = hits + sums["false_negatives"]
        lines.append(
            (max_bytes, *sums.values(), _short(hits / kept if kept else 0), _short(hits / due if due else 0))
        )
    return _csv(lines)


def utility_per_kb(rows: Sequence[Row]) -> str:
    """Utility per KB by kind of episode and budget."""
    modes = sorted({row["mode"] or row["source"] for row in rows})
    table = {
        mode: {
            str(max_bytes): _short(
                figure(
                    [
                        row
                        for row in chosen(rows, budget_bytes=max_bytes)
                        if (row["mode"] or row["source"]) == mode
                    ],
                    "utility_per_kb",
                ).value
            )
            for max_bytes in budgets_of(rows)
        }
        for mode in modes
    }
    return json.dumps(table, indent=1) + "\n"


def leaderboard_csv(standings: Sequence[Standing]) -> str:
    """The leaderboard for a spreadsheet."""
    figures = ("recall", "f1", "utility_per_kb", "avg_staleness", "regret", "utility_share")
    lines: list[tuple[Any, ...]] = [
        (
            "policy",
            "track",
            *(f"{name}{end}" for name in figures for end in ("", "_low", "_high")),
            "episodes",
        )
    ]
    for one in standings:
        numbers = [number for name in figures for number in _interval(getattr(one, name))]
        lines.append((one.policy, one.track, *numbers, one.recall.episodes))
    return _csv(lines)


def leaderboard_markdown(standings: Sequence[Standing], max_bytes: int) -> str:
    """The leaderboard for a page."""
    heads = [
        f"{name}@{size_name(max_bytes).replace(' ', '')}" if name in ("Recall", "F1") else name
        for name in COLUMNS
    ]
    lines = [heads, ["---", "---", *["---:"] * (len(COLUMNS) - 2)], *map(cells, standings)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(one: Standing) -> list[str]:
    """A line of the leaderboard, in words."""
    return [
        one.policy,
        one.track,
        f"{one.recall.value:.3f} ± {one.recall.half:.3f}",
        f"{one.f1.value:.3f}",
        f"{one.utility_per_kb.value:.1f}",
        f"{one.avg_staleness.value:.1f}",
        f"{one.regret.value:.1f}",
        f"{one.utility_share.value:.3f}",
    ]


def _interval(mean: Mean) -> tuple[float, float, float]:
    return _short(mean.value), _short(mean.value - mean.half), _short(mean.value + mean.half)


def _short(number: float) -> float:
    return round(number, 6)


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()
