"""The report of a grid: files for each policy, leaderboards, comparisons, plots, and one HTML page.

Plots are for papers: vector formats, at most six policies to a panel, captions with n and the interval.
"""

import csv
import io
import re
import textwrap
from base64 import b64encode
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from standfast.bench.conditions import condition_named
from standfast.bench.grid import CURVES, Grid, read_plan, read_results
from standfast.bench.leaderboard import (
    GROUPINGS,
    POOLED,
    ResultRow,
    ResultTable,
    answer_correlations,
    budgets_of,
    column_mean,
    compare_policies,
    confusion_matrix,
    correlations_csv,
    entrant_name,
    entrants_of,
    group_rows,
    history_of,
    leaderboard_budget,
    pairs_csv,
    recall_at_budget,
    result_table,
    select_rows,
    size_name,
    utility_per_kb,
)
from standfast.bench.statistics import Mean, PolicyComparison, mean_of
from standfast.errors import BadFile, MissingExtra
from standfast.html_pages import page_from

# The palette of Okabe and Ito, which colour-blind readers can tell apart. Dashes and marks differ too, for
# print in black.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
MARKS: Final = ("o", "s", "^", "D", "v", "X")
MOST_IN_PANEL: Final = len(COLOURS)
assert len(COLOURS) == len(DASHES) == len(MARKS)
CONTEXT: Final = "#c8c8c8"
INK: Final = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    # Without a salt, the names inside an SVG would differ from run to run.
    "svg.hashsalt": "standfast",
    "pdf.fonttype": 42,
}
CAPTION_CHARS_PER_INCH: Final = 15
DOTS_PER_INCH: Final = 130
# Without dates and program names, the same results give the same bytes.
METADATA: Final[dict[str, dict[str, None]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
TICKS: Final = 5
TRACK_COLOURS: Final = {"unprivileged": 0, "privileged": 4, "bandit": 2, "oracle": 5}


class Plot:
    """A figure with a caption, which can be written in several formats."""

    def __init__(self, width: float, height: float, panels: int = 1) -> None:
        try:
            self._matplotlib: Any = import_module("matplotlib")
            figure_module: Any = import_module("matplotlib.figure")
        except ImportError:
            raise MissingExtra(feature="Plotting", extra="bench") from None
        with self._matplotlib.rc_context(INK):
            self.figure: Any = figure_module.Figure(figsize=(width, height), layout="constrained")
            self.axes: list[Any] = list(self.figure.subplots(1, panels, sharey=True, squeeze=False)[0])

    def caption(self, text: str) -> None:
        """Set the text below the figure."""
        self.text = text
        # A caption wider than the figure would be cut at both sides.
        most = int(CAPTION_CHARS_PER_INCH * self.figure.get_figwidth())
        lines = [textwrap.fill(line, most) for line in text.splitlines()]
        self.figure.supxlabel("\n".join(lines), fontsize=8, color="#444444")

    def encode(self, form: str) -> bytes:
        """Return the figure as ``png``, ``svg`` or ``pdf``; the same results give the same bytes."""
        out = io.BytesIO()
        with self._matplotlib.rc_context(INK):
            self.figure.savefig(out, format=form, dpi=DOTS_PER_INCH, metadata=METADATA[form])
        return out.getvalue()


def _style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number],
        "linestyle": DASHES[number],
        "marker": MARKS[number],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def _panels(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + MOST_IN_PANEL] for start in range(0, len(names), MOST_IN_PANEL)]


def _draw_panels(plot: Plot, lines: dict[str, list[Mean]], x: Sequence[float], *, marks: bool) -> None:
    """Draw each line with its band in one panel, and in grey in all others, best lines first."""
    for axes, own in zip(plot.axes, _panels(list(lines)), strict=True):
        for name, means in lines.items():
            if name not in own:
                axes.plot(x, [mean.value for mean in means], color=CONTEXT, linewidth=0.7, zorder=1)
        for number, name in enumerate(own):
            means, style = lines[name], _style(number) | ({} if marks else {"marker": None})
            axes.plot(x, [mean.value for mean in means], label=name, zorder=3, **style)
            low, high = [mean.low for mean in means], [mean.high for mean in means]
            axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0, zorder=2)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, fontsize=8, ncols=2)


def metric_against_budget(rows: Sequence[ResultRow], metric: str) -> Plot:
    """Return one line per policy over budgets."""
    budgets = budgets_of(rows)
    lines = {}
    for policy, track in entrants_of(rows):
        own = select_rows(rows, policy=policy, track=track)
        lines[entrant_name(rows, policy, track)] = [
            column_mean(select_rows(own, budget_bytes=budget), metric) for budget in budgets
        ]
    best = sorted(lines, key=lambda name: (-sum(mean.value for mean in lines[name]), name))
    panels = len(_panels(best))
    plot = Plot(4.2 * panels + 0.6, 4.6, panels)
    _draw_panels(plot, {name: lines[name] for name in best}, budgets, marks=True)
    for axes in plot.axes:
        axes.set_xscale("log")
        axes.set_xticks(list(budgets), [size_name(budget) for budget in budgets])
        axes.minorticks_off()
        axes.set_xlabel("budget")
    plot.axes[0].set_ylabel(metric.replace("_", " "))
    plot.caption(f"Means over {_counted(rows)}; bands: {_interval(rows)}. Grey: the other panels' policies.")
    return plot


def regret_over_time(curves: Sequence[ResultRow], max_bytes: int, names: Sequence[str] = ()) -> Plot:
    """Return regret over the stream as a share of the optimum, one line per policy, or those of ``names``."""
    grid = [number / 100 for number in range(1, 101)]
    own = [one for one in curves if one["budget_bytes"] == max_bytes]
    known = list(dict.fromkeys(name for one in own for name in one["curve"]["regret"]))
    histories = {(one["file"], one["line"]): history_of(one) for one in own}
    lines: dict[str, list[Mean]] = {}
    for name in names or known:
        by_episode: dict[tuple[str, int], list[list[float]]] = {}
        for one in own:
            curve = one["curve"]
            if curve["regret"].get(name) and curve["optimum"][name]:
                shares = [value / curve["optimum"][name] for value in curve["regret"][name]]
                by_episode.setdefault((one["file"], one["line"]), []).append(
                    _sampled(curve["t"], shares, grid)
                )
        of = [histories[episode] for episode in by_episode]
        means = [
            [sum(column) / len(seeds) for column in zip(*seeds, strict=True)] for seeds in by_episode.values()
        ]
        if means:
            lines[name] = [mean_of(column, of) for column in zip(*means, strict=True)]
    best = sorted(lines, key=lambda name: (lines[name][-1].value, name))
    panels = max(1, len(_panels(best)))
    plot = Plot(4.2 * panels + 0.6, 4.6, panels)
    if lines:
        _draw_panels(plot, {name: lines[name] for name in best}, [100 * share for share in grid], marks=False)
    for axes in plot.axes:
        axes.set(xlabel="steps seen (% of the stream)", xlim=(0, 100))
        axes.set_ylim(bottom=0)
    plot.axes[0].set_ylabel("regret / optimum at the end")
    plot.caption(
        f"Regret against the exact WRITE-only optimum at {size_name(max_bytes)}, over that optimum. "
        f"Means over {_counted(own)}; bands: {_interval(own)}."
    )
    return plot


def metric_bars(rows: Sequence[ResultRow], max_bytes: int, metric: str) -> Plot:
    """Return one bar per policy, with whiskers for the intervals; colours are tracks."""
    own = select_rows(rows, budget_bytes=max_bytes)
    means = {
        (policy, track): column_mean(select_rows(own, policy=policy, track=track), metric)
        for policy, track in entrants_of(rows)
    }
    order = sorted(means, key=lambda one: (means[one].value, one))
    plot = Plot(7.5, 0.3 * len(order) + 1.3)
    (axes,) = plot.axes
    axes.barh(
        [policy if track == "unprivileged" else f"{policy} ({track})" for policy, track in order],
        [means[one].value for one in order],
        xerr=[
            [means[one].value - means[one].low for one in order],
            [means[one].high - means[one].value for one in order],
        ],
        color=[COLOURS[TRACK_COLOURS.get(one[1], 0)] for one in order],
        # Light enough that a whisker can be seen on each colour.
        alpha=0.55,
        error_kw={"ecolor": "#111111", "elinewidth": 1.2, "capsize": 2.5},
        height=0.7,
    )
    axes.set_xlabel(metric.replace("_", " ").replace(" kb", " KB"))
    axes.grid(visible=False, axis="y")
    axes.set_axisbelow(True)
    plot.caption(f"At {size_name(max_bytes)}. Means over {_counted(own)}; whiskers: {_interval(own)}.")
    return plot


def critical_difference(comparison: PolicyComparison, max_bytes: int, metric: str) -> Plot:
    """Return the critical-difference diagram: means, best first; a bar joins what does not differ."""
    means = comparison.means
    order = sorted(means, key=lambda name: (-means[name], name))
    best, worst = max(means.values()), min(means.values())
    # The axis runs from the best mean on the left to the worst on the right.
    scale = (max(len(order), 2) - 1) / ((best - worst) or 1.0)
    ranks = {name: 1 + scale * (best - means[name]) for name in order}
    ties = comparison.ties()
    apart = {pair.first for pair in comparison.pairs if pair.significant and comparison.baseline is not None}
    said = (
        "A bar joins policies of which no two differ significantly"
        if comparison.baseline is None
        else f"A star marks a policy that differs significantly from {comparison.baseline}"
    )
    left = (len(order) + 1) // 2
    plot = Plot(8.5, 0.26 * left + 0.14 * len(ties) + 1.5)
    (axes,) = plot.axes
    axes.set_axis_off()
    count, top = max(len(order), 2), 0.0
    axes.set(xlim=(0.4 - 0.28 * count, 0.6 + 1.28 * count), ylim=(-(left + 1 + 0.6 * len(ties)), top + 1.2))
    axes.plot([1, count], [top, top], color="black", linewidth=1)
    for share in range(TICKS):
        tick = 1 + (count - 1) * share / (TICKS - 1)
        shown = best - (best - worst) * share / (TICKS - 1)
        axes.plot([tick, tick], [top, top + 0.2], color="black", linewidth=1)
        axes.text(tick, top + 0.35, f"{shown:.2f}", ha="center", va="bottom", fontsize=8)
    for number, group in enumerate(ties):
        y = -0.6 * (number + 1)
        axes.plot(
            [ranks[group[0]] - 0.06, ranks[group[-1]] + 0.06],
            [y, y],
            color="black",
            linewidth=3.5,
            solid_capstyle="round",
        )
    for number, name in enumerate(order):
        on_left = number < left
        y = -(0.6 * len(ties) + 1 + (number if on_left else len(order) - 1 - number))
        edge = 0.8 if on_left else count + 0.2
        axes.plot([ranks[name], ranks[name], edge], [top, y, y], color="#555555", linewidth=0.8)
        axes.text(
            edge + (-0.1 if on_left else 0.1),
            y,
            f"{name} ({means[name]:.3f}){'*' if name in apart else ''}",
            ha="right" if on_left else "left",
            va="center",
            fontsize=8,
        )
    plot.caption(
        f"Mean {metric.replace('_', ' ')} at {size_name(max_bytes)}, best on the left."
        f" {said} (sign-flip test of the mean difference, Holm's correction, 5 %).\n" + comparison.limits()
    )
    return plot


def _counted(rows: Sequence[ResultRow]) -> str:
    episodes = len({(row["file"], row["line"]) for row in rows})
    histories = len({history_of(row) for row in rows})
    named = "1 history" if histories == 1 else f"{histories} histories"
    return f"n = {named}" + (f" with {episodes} windows" if episodes > histories else "")


def _interval(rows: Sequence[ResultRow]) -> str:
    """Return what the intervals of these rows are over: the windows, if there is but one history."""
    one = len({history_of(row) for row in rows}) == 1
    return f"95 % intervals over {'its windows' if one else 'histories'}"


def _sampled(times: Sequence[int], values: Sequence[float], grid: Sequence[float]) -> list[float]:
    """Return a curve at these shares of its length; between two points the earlier one applies."""
    last, place, found = times[-1] or 1, 0, []
    for share in grid:
        while place + 1 < len(times) and times[place + 1] <= share * last:
            place += 1
        found.append(values[place])
    return found


PLAIN: Final = "plain"


def write_report(
    folder: str, out: str, *, max_bytes: int | None = None, baseline: str | None = None
) -> list[str]:
    """Write the report of the results in ``folder`` into ``out``. Return the names of the files.

    Args:
        folder: The folder of a finished grid of any condition.
        out: The folder to write to.
        max_bytes: The budget of the leaderboard and the plots; by default 10 KB, or the middle one.
        baseline: Compare each policy with this one only; by default all in pairs, if there are histories
            enough for that.
    """
    rows = read_results(folder)
    if not rows:
        raise BadFile(file=folder, problem="it has no results; run 'standfast bench run' first")
    curves = read_results(folder, CURVES)
    budget = leaderboard_budget(rows, max_bytes)
    written = []
    for name, content in _files(read_plan(folder), rows, curves, budget, baseline):
        target = Path(out) / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise BadFile(file=str(target), problem=str(error)) from None
        written.append(name)
    return written


def _files(
    plan: Grid,
    rows: Sequence[ResultRow],
    curves: Sequence[ResultRow],
    budget: int,
    baseline: str | None,
) -> Iterator[tuple[str, str | bytes]]:
    if plan.condition == PLAIN:
        yield from _policy_files(rows, curves, budget)
    metric = condition_named(plan.condition).metric
    tables = {POOLED: [result_table(rows, budget, baseline=baseline)]}
    for by in GROUPINGS:
        tables[by] = [
            result_table(own, budget, group=name, baseline=baseline)
            for name, own in group_rows(rows, by).items()
        ]
    for by, some in tables.items():
        name = "leaderboard" if by == POOLED else f"leaderboard_by_{by}"
        yield f"{name}.csv", some[0].as_csv() if by == POOLED else _grouped_csv(some)
        yield f"{name}.md", "\n".join(_markdown(one) for one in some)
    yield "pairs.csv", pairs_csv(rows, budget, metric, baseline)
    if plan.condition == "answers":
        yield "correlations.csv", correlations_csv(rows, budget)
    pictures = {
        "critical_difference": critical_difference(
            compare_policies(rows, budget, metric, baseline), budget, metric
        ),
        f"{metric}_against_budget": metric_against_budget(rows, metric),
    }
    if plan.condition == PLAIN:
        pictures["utility_per_kb"] = metric_bars(rows, budget, "utility_per_kb")
    else:
        pictures[metric] = metric_bars(rows, budget, metric)
    if curves:
        pictures["regret_over_time"] = regret_over_time(curves, budget)
    drawn = {}
    for name, plot in pictures.items():
        drawn[name] = plot.encode("svg")
        yield f"{name}.svg", drawn[name]
        yield f"{name}.pdf", plot.encode("pdf")
    yield "report.html", _page(plan, rows, tables, drawn, budget)


def _policy_files(
    rows: Sequence[ResultRow], curves: Sequence[ResultRow], budget: int
) -> Iterator[tuple[str, str | bytes]]:
    """The files that the document's section 6.4 names for each policy."""
    for policy, track in entrants_of(rows):
        own, name = select_rows(rows, policy=policy, track=track), entrant_name(rows, policy, track)
        place = re.sub(r"[^\w.@-]+", "_", name)
        yield f"{place}/recall_at_budget.csv", recall_at_budget(own)
        yield f"{place}/confusion_matrix.csv", confusion_matrix(own)
        yield f"{place}/utility_per_kb.json", utility_per_kb(own)
        if curves:
            plot = regret_over_time(curves, budget, [name])
            yield f"{place}/regret_curve.png", plot.encode("png")


def _markdown(table: ResultTable) -> str:
    notes = "".join(f"\n{note}\n" for note in table.notes)
    return f"{table.title}\n{notes}\n{table.as_markdown()}"


def _grouped_csv(tables: Sequence[ResultTable]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("group", *tables[0].csv_headings))
    for table in tables:
        group = table.title.partition(":")[0]
        writer.writerows((group, *line) for line in table.csv_lines)
    return out.getvalue()


def _page(
    plan: Grid,
    rows: Sequence[ResultRow],
    tables: dict[str, list[ResultTable]],
    pictures: dict[str, bytes],
    budget: int,
) -> str:
    agreement = answer_correlations(rows, budget) if plan.condition == "answers" else {}
    return page_from(
        "standfast.bench",
        "standalone_report.html",
        extra="bench",
        filters={"title_of": _title},
        plan=plan,
        facts=_facts(plan, rows),
        agreement="; ".join(f"{name} {mean}" for name, mean in agreement.items()),
        pooled=tables[POOLED],
        grouped={by: some for by, some in tables.items() if by != POOLED},
        pictures={name: b64encode(picture).decode() for name, picture in pictures.items()},
    )


def _facts(plan: Grid, rows: Sequence[ResultRow]) -> str:
    episodes = len({(row["file"], row["line"]) for row in rows})
    steps = sorted({row["steps"] for row in rows})
    lengths = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    return (
        f"Condition {plan.condition}; {episodes} episodes of {lengths} steps, {len(plan.policies)} policies, "
        f"byte model {plan.byte_model}, seeds {', '.join(map(str, plan.seeds))}, code {plan.code}"
    )


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize().replace(" kb", " KB")
