"""Plots of a grid: recall against budget, regret over time and utility per KB, with confidence intervals."""

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from standfast.bench.leaderboard import (
    Mean,
    ResultRow,
    budgets_of,
    column_mean,
    entrants_of,
    mean_of,
    select_rows,
    size_name,
)
from standfast.errors import MissingExtra

# The palette of Okabe and Ito, which colour-blind readers can tell apart; then dashes and marks.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: Final = ("-", "--", ":", "-.")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
INK: Final = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
}
DOTS_PER_INCH: Final = 130
# More bands would hide each other; the tables have them all.
MOST_BANDS: Final = 6


def _canvas(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes."""
    try:
        matplotlib: Any = import_module("matplotlib")
        figure_module: Any = import_module("matplotlib.figure")
    except ImportError:
        raise MissingExtra(feature="Plotting", extra="bench") from None
    with matplotlib.rc_context(INK):
        figure = figure_module.Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots()


def _png(figure: Any) -> bytes:
    out = io.BytesIO()
    # Without the program's name and date, the same results give the same bytes.
    figure.savefig(out, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return out.getvalue()


def _style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        "marker": MARKS[number % len(MARKS)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def _name(policy: str, track: str) -> str:
    return policy if track == "unprivileged" else f"{policy} ({track})"


def recall_against_budget(rows: Sequence[ResultRow]) -> bytes:
    """Return a PNG with one line per policy over budgets, and bands for the intervals of the best."""
    figure, axes = _canvas(9.5, 5.2)
    budgets = budgets_of(rows)
    styles = {one: _style(number) for number, one in enumerate(entrants_of(rows))}
    for number, (policy, track) in enumerate(_best_first(rows)):
        own = select_rows(rows, policy=policy, track=track)
        means = [column_mean(select_rows(own, budget_bytes=budget), "recall") for budget in budgets]
        style = styles[policy, track]
        axes.plot(budgets, [mean.value for mean in means], label=_name(policy, track), **style)
        if number < MOST_BANDS:
            axes.fill_between(budgets, *_band(means), color=style["color"], alpha=0.1, linewidth=0)
    _budget_axis(axes, budgets)
    axes.set(
        ylabel="recall of critical steps",
        ylim=(-0.02, 1.02),
        title="Recall against budget (mean over episodes, 95 %)",
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8.5)
    return _png(figure)


def regret_over_time(curves: Sequence[ResultRow], policies: Sequence[str], max_bytes: int) -> bytes:
    """Return a PNG with the mean regret after each step, one line per policy; a single line has a band."""
    figure, axes = _canvas(9.5, 5.2)
    grid = [number / 100 for number in range(1, 101)]
    known = list(dict.fromkeys(name for one in curves for name in one["curve"]["regret"]))
    for policy in policies:
        sampled = [
            _sampled(one["curve"]["t"], one["curve"]["regret"][policy], grid)
            for one in curves
            if one["budget_bytes"] == max_bytes and policy in one["curve"]["regret"]
        ]
        if not sampled:
            continue
        means = [mean_of(column) for column in zip(*sampled, strict=True)]
        style = _style(known.index(policy)) | {"marker": None}
        axes.plot([100 * share for share in grid], [mean.value for mean in means], label=policy, **style)
        if len(policies) == 1:
            axes.fill_between(
                [100 * share for share in grid], *_band(means), color=style["color"], alpha=0.15, linewidth=0
            )
    axes.set(
        xlabel="steps seen (% of the stream)",
        ylabel="regret (utility)",
        title=f"Cumulative regret against the exact WRITE-only oracle, {size_name(max_bytes)}",
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    if len(policies) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8.5)
    else:
        axes.legend(loc="upper left", frameon=False)
    return _png(figure)


def utility_bars(rows: Sequence[ResultRow], max_bytes: int) -> bytes:
    """Return a PNG with utility per KB, one bar per policy, with whiskers for the intervals."""
    own = select_rows(rows, budget_bytes=max_bytes)
    means = {
        (policy, track): column_mean(select_rows(own, policy=policy, track=track), "utility_per_kb")
        for policy, track in entrants_of(rows)
    }
    order = sorted(means, key=lambda one: (means[one].value, one))
    figure, axes = _canvas(9.5, 0.32 * len(order) + 1.4)
    tracks = {"unprivileged": 0, "privileged": 4, "bandit": 2, "oracle": 6}
    axes.barh(
        [_name(*one) for one in order],
        [means[one].value for one in order],
        xerr=[means[one].half for one in order],
        color=[COLOURS[tracks.get(one[1], 0)] for one in order],
        error_kw={"ecolor": "#555555", "elinewidth": 1, "capsize": 2},
        height=0.7,
    )
    axes.set(
        xlabel="utility per KB used",
        title=f"Utility per KB at {size_name(max_bytes)} (mean over episodes, 95 %)",
    )
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_axisbelow(True)
    return _png(figure)


def _best_first(rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    return sorted(
        entrants_of(rows),
        key=lambda one: (-column_mean(select_rows(rows, policy=one[0], track=one[1]), "recall").value, one),
    )


def _band(means: Sequence[Mean]) -> tuple[list[float], list[float]]:
    return [mean.value - mean.half for mean in means], [mean.value + mean.half for mean in means]


def _budget_axis(axes: Any, budgets: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(budgets), [size_name(budget) for budget in budgets])
    axes.minorticks_off()
    axes.set_xlabel("budget")


def _sampled(times: Sequence[int], values: Sequence[float], grid: Sequence[float]) -> list[float]:
    """Return a curve at these shares of its length; between two points the earlier one applies."""
    last, place, found = times[-1] or 1, 0, []
    for share in grid:
        while place + 1 < len(times) and times[place + 1] <= share * last:
            place += 1
        found.append(values[place])
    return found
