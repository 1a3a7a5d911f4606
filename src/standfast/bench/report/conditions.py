"""The leaderboard of an extension: its own metric first, and whatever other figures its rows have."""

from collections.abc import Sequence

from standfast.bench.conditions import condition_named
from standfast.bench.report.summary import Row, chosen, entrants_of, figure


def condition_table(rows: Sequence[Row], max_bytes: int) -> tuple[tuple[str, ...], list[list[str]]]:
    """Headings and lines, the best by the condition's metric first."""
    condition = condition_named(rows[0]["condition"])
    numbers = [
        name
        for name, value in rows[0].items()
        if isinstance(value, float)
        and name != condition.METRIC
        and all(isinstance(row[name], float) for row in rows)
    ]
    lines = []
    for policy, track in entrants_of(rows):
        own = chosen(rows, policy=policy, track=track, budget_bytes=max_bytes)
        metric = figure(own, condition.METRIC)
        others = [f"{figure(own, name).value:.3f}" for name in numbers]
        lines.append((metric.value, [policy, track, f"{metric.value:.3f} ± {metric.half:.3f}", *others]))
    lines.sort(key=lambda line: (-line[0] if condition.HIGHER_IS_BETTER else line[0], line[1][0], line[1][1]))
    return ("Policy", "Track", condition.METRIC, *numbers), [line for _, line in lines]
