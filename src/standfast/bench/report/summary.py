"""Rows of results, gathered: means over episodes, each with a 95 % confidence interval, and the leaderboard."""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Final

import msgspec

from standfast.errors import BadFile

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, the normal one is near enough.
T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL95: Final = 1.960
LEADERBOARD_BYTES: Final = 10_240
Row = dict[str, Any]


class Mean(msgspec.Struct, frozen=True):
    """A mean over episodes; half the width of its interval is 0 where one episode is all there is."""

    value: float
    half: float
    episodes: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the leaderboard."""

    policy: str
    track: str
    recall: Mean
    f1: Mean
    utility_per_kb: Mean
    avg_staleness: Mean
    regret: Mean
    utility_share: Mean
    """Utility as a share of the WRITE-only optimum; over 1 where merging beats writing."""


def mean_of(values: Sequence[float]) -> Mean:
    """The mean, with the interval that Student's t gives."""
    count = len(values)
    if count == 0:
        return Mean(0.0, 0.0, 0)
    if count == 1:
        return Mean(values[0], 0.0, 1)
    quantile = T95[count - 2] if count - 1 <= len(T95) else NORMAL95
    return Mean(fmean(values), quantile * stdev(values) / sqrt(count), count)


def entrants_of(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Policies and their tracks, in the order of the grid."""
    return list(dict.fromkeys((row["policy"], row["track"]) for row in rows))


def budgets_of(rows: Iterable[Row]) -> list[int]:
    """The budgets of a grid, smallest first."""
    return sorted({row["budget_bytes"] for row in rows})


def chosen(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def figure(rows: Iterable[Row], name: str | Callable[[Row], float]) -> Mean:
    """The mean of a column, or of what a function makes of a row."""
    read = name if callable(name) else lambda row: row[name]
    return mean_of([read(row) for row in rows])


def utility_share(row: Row) -> float:
    """Utility as a share of the optimum."""
    return row["utility"] / row["oracle_utility"] if row["oracle_utility"] else 0.0


def leaderboard_budget(rows: Sequence[Row], asked: int | None = None) -> int:
    """The budget that the leaderboard is about: the one asked for, 10 KB, or the middle one."""
    budgets = budgets_of(rows)
    if asked is not None and asked not in budgets:
        raise BadFile(
            file="results", problem=f"no run had {asked} bytes; there are {', '.join(map(str, budgets))}"
        )
    return asked or (LEADERBOARD_BYTES if LEADERBOARD_BYTES in budgets else budgets[len(budgets) // 2])


def leaderboard(rows: Sequence[Row], max_bytes: int) -> list[Standing]:
    """All policies at one budget, by recall, then F1, then name."""
    standings = []
    for policy, track in entrants_of(rows):
        own = chosen(rows, policy=policy, track=track, budget_bytes=max_bytes)
        standings.append(
            Standing(
                policy=policy,
                track=track,
                recall=figure(own, "recall"),
                f1=figure(own, "f1"),
                utility_per_kb=figure(own, "utility_per_kb"),
                avg_staleness=figure(own, "avg_staleness"),
                regret=figure(own, "regret"),
                utility_share=figure(own, utility_share),
            )
        )
    return sorted(standings, key=lambda one: (-one.recall.value, -one.f1.value, one.policy, one.track))
