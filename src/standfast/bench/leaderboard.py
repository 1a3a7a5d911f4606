"""Results of a grid, aggregated: means over episodes with 95 % confidence intervals, tables, and the leaderboard."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Final

import msgspec

from standfast.bench.conditions import condition_named
from standfast.errors import BadFile

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond that the normal quantile is close enough.
T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL95: Final = 1.960
LEADERBOARD_BYTES: Final = 10_240
COLUMNS: Final = ("Policy", "Track", "Recall", "F1", "Util/KB", "Staleness", "Regret", "Of best")
CONFUSION: Final = ("true_positives", "false_positives", "false_negatives", "true_negatives")
ResultRow = dict[str, Any]


class Mean(msgspec.Struct, frozen=True):
    """A mean over episodes. ``half`` is half the width of its interval; 0 if there is only one episode."""

    value: float
    half: float
    episodes: int


class LeaderboardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the leaderboard."""

    policy: str
    track: str
    recall: Mean
    f1: Mean
    utility_per_kb: Mean
    avg_staleness: Mean
    regret: Mean
    utility_share: Mean
    """Utility as a share of the WRITE-only optimum; above 1 where merging beats writing."""


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean with its interval by Student's t."""
    count = len(values)
    if count < 2:
        return Mean(fmean(values) if values else 0.0, 0.0, count)
    quantile = T95[count - 2] if count - 1 <= len(T95) else NORMAL95
    return Mean(fmean(values), quantile * stdev(values) / sqrt(count), count)


def entrants_of(rows: Iterable[ResultRow]) -> list[tuple[str, str]]:
    """Return the policies and their tracks, in the order of the grid."""
    return list(dict.fromkeys((row["policy"], row["track"]) for row in rows))


def budgets_of(rows: Iterable[ResultRow]) -> list[int]:
    """Return the budgets of a grid, smallest first."""
    return sorted({row["budget_bytes"] for row in rows})


def select_rows(rows: Iterable[ResultRow], **columns: object) -> list[ResultRow]:
    """Return the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in columns.items())]


def column_mean(rows: Iterable[ResultRow], column: str | Callable[[ResultRow], float]) -> Mean:
    """Return the mean of a column, or of a function of a row."""
    read = column if callable(column) else lambda row: row[column]
    return mean_of([read(row) for row in rows])


def entrant_name(rows: Sequence[ResultRow], policy: str, track: str) -> str:
    """Return a policy's name, with ``@privileged`` if the grid has the same policy on two tracks."""
    both = len({row["track"] for row in rows if row["policy"] == policy}) > 1
    return f"{policy}@{track}" if both and track == "privileged" else policy


def leaderboard_budget(rows: Sequence[ResultRow], wanted: int | None = None) -> int:
    """Return the budget of the leaderboard: the wanted one, 10 KB, or the middle one."""
    budgets = budgets_of(rows)
    if wanted is not None and wanted not in budgets:
        problem = f"no run had {wanted} bytes; there are {', '.join(map(str, budgets))}"
        raise BadFile(file="results", problem=problem)
    return wanted or (LEADERBOARD_BYTES if LEADERBOARD_BYTES in budgets else budgets[len(budgets) // 2])


def rank_policies(rows: Sequence[ResultRow], max_bytes: int) -> list[LeaderboardRow]:
    """Return all policies at one budget, ordered by recall, then F1, then name."""
    board = []
    for policy, track in entrants_of(rows):
        own = select_rows(rows, policy=policy, track=track, budget_bytes=max_bytes)
        board.append(
            LeaderboardRow(
                policy=policy,
                track=track,
                recall=column_mean(own, "recall"),
                f1=column_mean(own, "f1"),
                utility_per_kb=column_mean(own, "utility_per_kb"),
                avg_staleness=column_mean(own, "avg_staleness"),
                regret=column_mean(own, "regret"),
                utility_share=column_mean(own, _utility_share),
            )
        )
    return sorted(board, key=lambda row: (-row.recall.value, -row.f1.value, row.policy, row.track))


def _utility_share(row: ResultRow) -> float:
    return row["utility"] / row["oracle_utility"] if row["oracle_utility"] else 0.0


def condition_table(rows: Sequence[ResultRow], max_bytes: int) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the headings and lines of another condition's leaderboard, ordered by the condition's metric."""
    metric = condition_named(rows[0]["condition"]).metric
    others = [
        name for name in rows[0] if name != metric and all(isinstance(row[name], float) for row in rows)
    ]
    lines = []
    for policy, track in entrants_of(rows):
        own = select_rows(rows, policy=policy, track=track, budget_bytes=max_bytes)
        mean = column_mean(own, metric)
        figures = [f"{column_mean(own, name).value:.3f}" for name in others]
        lines.append((-mean.value, [policy, track, f"{mean.value:.3f} ± {mean.half:.3f}", *figures]))
    return ("Policy", "Track", metric, *others), [line for _, line in sorted(lines)]


def size_name(count: int) -> str:
    """Return a number of bytes with its unit."""
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} B"


def leaderboard_cells(row: LeaderboardRow) -> list[str]:
    """Return a row of the leaderboard as text."""
    return [
        row.policy,
        row.track,
        f"{row.recall.value:.3f} ± {row.recall.half:.3f}",
        f"{row.f1.value:.3f}",
        f"{row.utility_per_kb.value:.1f}",
        f"{row.avg_staleness.value:.1f}",
        f"{row.regret.value:.1f}",
        f"{row.utility_share.value:.3f}",
    ]


def leaderboard_markdown(board: Sequence[LeaderboardRow], max_bytes: int) -> str:
    """Return the leaderboard as a Markdown table."""
    size = size_name(max_bytes).replace(" ", "")
    headings = [f"{name}@{size}" if name in ("Recall", "F1") else name for name in COLUMNS]
    lines = [headings, ["---", "---", *["---:"] * (len(COLUMNS) - 2)], *map(leaderboard_cells, board)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def leaderboard_csv(board: Sequence[LeaderboardRow]) -> str:
    """Return the leaderboard as CSV, with intervals."""
    figures = ("recall", "f1", "utility_per_kb", "avg_staleness", "regret", "utility_share")
    headings = [f"{name}{end}" for name in figures for end in ("", "_low", "_high")]
    lines: list[Sequence[Any]] = [("policy", "track", *headings, "episodes")]
    for row in board:
        numbers = [number for name in figures for number in _interval(getattr(row, name))]
        lines.append((row.policy, row.track, *numbers, row.recall.episodes))
    return _csv(lines)


def recall_at_budget(rows: Sequence[ResultRow]) -> str:
    """Return recall by budget as CSV, with intervals."""
    lines: list[Sequence[Any]] = [("budget_bytes", "recall", "recall_low", "recall_high", "episodes")]
    for max_bytes in budgets_of(rows):
        mean = column_mean(select_rows(rows, budget_bytes=max_bytes), "recall")
        lines.append((max_bytes, *_interval(mean), mean.episodes))
    return _csv(lines)


def confusion_matrix(rows: Sequence[ResultRow]) -> str:
    """Return the confusion matrix by budget as CSV: sums over episodes, and precision and recall of the sums."""
    lines: list[Sequence[Any]] = [("budget_bytes", *CONFUSION, "precision", "recall")]
    for max_bytes in budgets_of(rows):
        own = select_rows(rows, budget_bytes=max_bytes)
        sums = [sum(row[name] for row in own) for name in CONFUSION]
        hits, retained, critical = sums[0], sums[0] + sums[1], sums[0] + sums[2]
        precision, recall = hits / retained if retained else 0, hits / critical if critical else 0
        lines.append((max_bytes, *sums, _rounded(precision), _rounded(recall)))
    return _csv(lines)


def utility_per_kb(rows: Sequence[ResultRow]) -> str:
    """Return utility per KB by kind of episode and budget as JSON."""
    by_kind: dict[str, list[ResultRow]] = {}
    for row in rows:
        by_kind.setdefault(row["mode"] or row["source"], []).append(row)
    table = {
        kind: {
            str(max_bytes): _rounded(
                column_mean(select_rows(by_kind[kind], budget_bytes=max_bytes), "utility_per_kb").value
            )
            for max_bytes in budgets_of(rows)
        }
        for kind in sorted(by_kind)
    }
    return json.dumps(table, indent=1) + "\n"


def _interval(mean: Mean) -> tuple[float, float, float]:
    return _rounded(mean.value), _rounded(mean.value - mean.half), _rounded(mean.value + mean.half)


def _rounded(number: float) -> float:
    return round(number, 6)


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()
