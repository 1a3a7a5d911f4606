"""Results of a grid as tables: means over episodes with intervals, places, leaderboards, pooled and by group.

The settings that put a graded policy on a band come from the same results.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any, Final

import msgspec

from standfast.bench.conditions import condition_named
from standfast.bench.entrants import Entrant
from standfast.bench.grid import read_plan, read_results
from standfast.bench.label_figures import POOR_PRECISION, PRECISION, kind_of_mode
from standfast.bench.statistics import Mean, PolicyComparison, compare, mean_of, rank_correlation
from standfast.errors import BadFile, UnknownPolicy
from standfast.policies import BandBudget, PolicySpec, Track
from standfast.records.vocabulary import Band

LEADERBOARD_BYTES: Final = 10_240
# The columns of the leaderboard: name in LeaderboardRow, heading, and how the mean is shown (with its
# interval if there is no format).
COLUMNS: Final = (
    ("recall", "Recall", ""),
    ("f1", "F1", ".3f"),
    ("utility_per_kb", "Util/KB", ".1f"),
    ("avg_staleness", "Staleness", ".1f"),
    ("regret", "Regret", ".1f"),
    ("utility_share", "Of best", ".3f"),
)
CONFUSION: Final = ("true_positives", "false_positives", "false_negatives", "true_negatives")
# The document's lengths are 100, 1,000 and 10,000 steps; a length between two belongs to the nearer one, in
# factors.
LENGTHS: Final = (("short", 316), ("medium", 3_162), ("long", float("inf")))
GROUPINGS: Final = ("length", "source")
POOLED: Final = "all"
ResultRow = dict[str, Any]
Column = str | Callable[[ResultRow], float]


class LeaderboardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the leaderboard. Its place is a range: policies whose ranges overlap may be equal."""

    best_place: int
    worst_place: int
    policy: str
    track: str
    recall: Mean
    f1: Mean
    utility_per_kb: Mean
    avg_staleness: Mean
    regret: Mean
    utility_share: Mean
    """Utility as a share of the WRITE-only optimum; above 1 where merging beats writing."""


class ResultTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of results: text for readers, and figures with their intervals for programs."""

    title: str
    notes: list[str]
    """What the table can tell, and what is known of its labels."""
    headings: tuple[str, ...]
    lines: list[list[str]]
    csv_headings: tuple[str, ...]
    csv_lines: list[list[Any]]

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        right = ["---" if name in ("Policy", "Track") else "---:" for name in self.headings]
        return "".join(f"| {' | '.join(line)} |\n" for line in (self.headings, right, *self.lines))

    def as_csv(self) -> str:
        """Return the table as CSV, with intervals."""
        return _csv([self.csv_headings, *self.csv_lines])


def entrants_of(rows: Iterable[ResultRow]) -> list[tuple[str, str]]:
    """Return the policies and their tracks, in the order of the grid."""
    return list(dict.fromkeys((row["policy"], row["track"]) for row in rows))


def budgets_of(rows: Iterable[ResultRow]) -> list[int]:
    """Return the budgets of a grid, smallest first."""
    return sorted({row["budget_bytes"] for row in rows})


def select_rows(rows: Iterable[ResultRow], **columns: object) -> list[ResultRow]:
    """Return the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in columns.items())]


def group_rows(rows: Sequence[ResultRow], by: str) -> dict[str, list[ResultRow]]:
    """Return rows by the length (short to long) or the source (by name) of their episodes."""
    if by == "length":
        named = [(next(name for name, most in LENGTHS if row["steps"] <= most), row) for row in rows]
        order = [name for name, _ in LENGTHS]
    else:
        named = [(row["source"] or row["mode"] or row["file"], row) for row in rows]
        order = sorted({name for name, _ in named})
    groups: dict[str, list[ResultRow]] = {name: [] for name in order}
    for name, row in named:
        groups[name].append(row)
    return {name: own for name, own in groups.items() if own}


def episode_scores(rows: Iterable[ResultRow], column: Column) -> dict[tuple[str, int], float]:
    """Return a column, or a function of a row, by episode: the mean over seeds if there are several.

    A row without a value is left out.
    """
    read = column if callable(column) else lambda row: row[column]
    values: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if (value := read(row)) is not None:
            values.setdefault((row["file"], row["line"]), []).append(value)
    return {episode: fmean(own) for episode, own in values.items()}


def history_of(row: ResultRow) -> str:
    """Return the history that an episode is a window of; its own name if it is none."""
    return row.get("history") or f"{row['file']} {row['line']}"


def column_mean(rows: Sequence[ResultRow], column: Column) -> Mean:
    """Return the mean over histories of a column, or of a function of a row."""
    of = {(row["file"], row["line"]): history_of(row) for row in rows}
    scores = episode_scores(rows, column)
    return mean_of(list(scores.values()), [of[episode] for episode in scores])


def compare_policies(
    rows: Sequence[ResultRow], max_bytes: int, metric: str = "recall", baseline: str | None = None
) -> PolicyComparison:
    """Compare policies at one budget, by their names as the grid has them: in pairs, or with a baseline."""
    own = select_rows(rows, budget_bytes=max_bytes)
    by_entrant: dict[tuple[str, str], list[ResultRow]] = {one: [] for one in entrants_of(own)}
    for row in own:
        by_entrant[row["policy"], row["track"]].append(row)
    scores = {entrant_name(own, *one): episode_scores(some, metric) for one, some in by_entrant.items()}
    if baseline is not None and baseline not in scores:
        problem = f"no policy is named {baseline}; there are {', '.join(scores)}"
        raise UnknownPolicy(policy=baseline, problem=problem)
    return compare(scores, {(row["file"], row["line"]): history_of(row) for row in own}, baseline)


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
    """All policies at one budget, by mean recall, then F1, then name. Places say what is significant."""
    return [
        LeaderboardRow(
            best_place=one.place[0],
            worst_place=one.place[1],
            policy=one.policy,
            track=one.track,
            **{name: mean for (name, _, _), mean in zip(COLUMNS, one.means, strict=True)},
        )
        for one in _ranked(rows, max_bytes, [name for name, _, _ in COLUMNS])[0]
    ]


class _Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A policy's place and means, the metric that it is ranked by first."""

    place: tuple[int, int]
    policy: str
    track: str
    means: list[Mean]


def _ranked(
    rows: Sequence[ResultRow], max_bytes: int, names: Sequence[str], baseline: str | None = None
) -> tuple[list[_Ranked], PolicyComparison]:
    """Return all policies at one budget, by the first of these columns, then the others, then name; and the
    comparison that their places are from.
    """
    comparison = compare_policies(rows, max_bytes, names[0], baseline)
    places = comparison.places()
    found = []
    for policy, track in entrants_of(rows):
        own = select_rows(rows, policy=policy, track=track, budget_bytes=max_bytes)
        means = [column_mean(own, _utility_share if name == "utility_share" else name) for name in names]
        place = places[entrant_name(rows, policy, track)]
        found.append(_Ranked(place=place, policy=policy, track=track, means=means))
    order = sorted(found, key=lambda one: (*(-mean.value for mean in one.means[:2]), one.policy, one.track))
    return order, comparison


def _utility_share(row: ResultRow) -> float:
    # Some conditions compute it themselves.
    known = row.get("utility_share")
    if known is not None:
        return float(known)
    return row["utility"] / row["oracle_utility"] if row["oracle_utility"] else 0.0


def result_table(
    rows: Sequence[ResultRow], max_bytes: int, *, group: str = POOLED, baseline: str | None = None
) -> ResultTable:
    """Return the leaderboard of any condition at one budget, over all episodes or those of a group."""
    count = len({(row["file"], row["line"]) for row in rows})
    size = size_name(max_bytes)
    if rows[0]["condition"] == "plain":
        names, headings, formats = (list(column) for column in zip(*COLUMNS, strict=True))
        headings[:2] = [f"{heading}@{size.replace(' ', '')}" for heading in headings[:2]]
    else:
        metric = condition_named(rows[0]["condition"]).metric
        others = [name for name in rows[0] if all(isinstance(row[name], float | None) for row in rows)]
        names = headings = [metric] + [
            name for name in others if name != metric and any(row[name] is not None for row in rows)
        ]
        formats = [""] + [".3f"] * (len(names) - 1)
    ranked, comparison = _ranked(rows, max_bytes, names, baseline)
    return ResultTable(
        title=f"{group}: {count} episodes at {size}",
        notes=[comparison.limits(), *label_notes(rows)],
        headings=("Place", "Policy", "Track", *headings),
        lines=[
            [_place(*one.place), one.policy, one.track]
            + [
                f"{mean.value:{form}}" if form else str(mean)
                for mean, form in zip(one.means, formats, strict=True)
            ]
            for one in ranked
        ],
        csv_headings=_csv_headings(names),
        csv_lines=[
            [*one.place, one.policy, one.track]
            + [number for mean in one.means for number in _interval(mean)]
            + [one.means[0].episodes, one.means[0].histories]
            for one in ranked
        ],
    )


def label_notes(rows: Sequence[ResultRow]) -> list[str]:
    """Return which labels of these episodes are too poor to rank by, with their measured precision."""
    kinds = {kind_of_mode(row["mode"]) for row in rows}
    poor = {
        kind: PRECISION[kind] for kind in sorted(kinds & set(PRECISION)) if PRECISION[kind] < POOR_PRECISION
    }
    return [
        f"Labels of {kind} have a precision of {precision:.2f} on histories that the rule was not tuned on:"
        " do not rank policies by these episodes alone."
        for kind, precision in poor.items()
    ]


def _csv_headings(names: Sequence[str]) -> tuple[str, ...]:
    figures = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return ("best_place", "worst_place", "policy", "track", *figures, "episodes", "histories")


def _place(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best}-{worst}"


def size_name(count: int) -> str:
    """Return a number of bytes with its unit."""
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} B"


def answer_correlations(rows: Sequence[ResultRow], max_bytes: int) -> dict[str, Mean]:
    """Return how metrics of the byte budget agree with answers: mean rank correlations over policies.

    Episodes on which all policies have the same figure are left out.
    """
    by_episode: dict[tuple[str, int], list[ResultRow]] = {}
    for row in select_rows(rows, budget_bytes=max_bytes):
        by_episode.setdefault((row["file"], row["line"]), []).append(row)
    found = {}
    for metric in ("recall", "precision", "utility_share"):
        correlations = [
            rank_correlation([row[metric] for row in own], [row["answered"] for row in own])
            for own in by_episode.values()
        ]
        found[metric] = mean_of([one for one in correlations if one is not None])
    return found


def correlations_csv(rows: Sequence[ResultRow], max_bytes: int) -> str:
    """Return the correlations with answers as CSV."""
    lines: list[Sequence[Any]] = [
        ("metric", "correlation", "correlation_low", "correlation_high", "episodes")
    ]
    for metric, mean in answer_correlations(rows, max_bytes).items():
        lines.append((metric, *_interval(mean), mean.episodes))
    return _csv(lines)


def pairs_csv(
    rows: Sequence[ResultRow], max_bytes: int, metric: str = "recall", baseline: str | None = None
) -> str:
    """Return the comparison of pairs of policies as CSV: difference, interval, p value, corrected p value."""
    figures = ("difference", "difference_low", "difference_high", "p", "corrected_p", "episodes", "histories")
    lines: list[Sequence[Any]] = [("first", "second", *figures)]
    for pair in compare_policies(rows, max_bytes, metric, baseline).pairs:
        found = (*_interval(pair.difference), f"{pair.p:.3g}", f"{pair.corrected_p:.3g}")
        lines.append((pair.first, pair.second, *found, pair.difference.episodes, pair.difference.histories))
    return _csv(lines)


def recall_at_budget(rows: Sequence[ResultRow]) -> str:
    """Return recall by budget as CSV, with intervals: means over histories of their means over episodes."""
    lines: list[Sequence[Any]] = [
        ("budget_bytes", "mean_recall", "mean_recall_low", "mean_recall_high", "episodes", "histories")
    ]
    for max_bytes in budgets_of(rows):
        mean = column_mean(select_rows(rows, budget_bytes=max_bytes), "recall")
        lines.append((max_bytes, *_interval(mean), mean.episodes, mean.histories))
    return _csv(lines)


def confusion_matrix(rows: Sequence[ResultRow]) -> str:
    """Return the confusion matrix by budget as CSV: sums over episodes, precision and recall of the sums, and
    next to them the mean recall of ``recall_at_budget``, which weighs histories and not steps.
    """
    lines: list[Sequence[Any]] = [
        ("budget_bytes", *CONFUSION, "pooled_precision", "pooled_recall", "mean_recall")
    ]
    for max_bytes in budgets_of(rows):
        own = select_rows(rows, budget_bytes=max_bytes)
        mean = column_mean(own, "recall").value
        sums = [sum(row[name] for row in own) for name in CONFUSION]
        hits, retained, critical = sums[0], sums[0] + sums[1], sums[0] + sums[2]
        precision, recall = hits / retained if retained else 0, hits / critical if critical else 0
        lines.append((max_bytes, *sums, *map(_rounded, (precision, recall, mean))))
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
    return _rounded(mean.value), _rounded(mean.low), _rounded(mean.high)


def _rounded(number: float) -> float:
    return round(number, 6)


def _csv(lines: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def graded_budget(
    folder: str | os.PathLike[str], policy: str, *, band: Band, max_bytes: int | None = None
) -> BandBudget:
    """Return the budget that spends a band's bytes as the results in ``folder`` were made.

    It has the grid's byte model and, for a policy that uses random numbers, the grid's first seed. On the
    same stream of admitted observations it keeps what the benchmark keeps for the policy with that seed.

    Args:
        folder: The folder of a finished grid.
        policy: A policy of that grid, with its settings.
        band: The band that it should spend.
        max_bytes: A budget of that grid; by default the leaderboard's.

    Raises:
        UnknownPolicy: The grid does not have this policy, or it can't run in production.
        InvalidValue: The band can't have a budget.
        BadFile: The folder has no finished grid, or none with this budget.
    """
    plan = read_plan(folder)
    entrant = Entrant.parse(policy)
    if str(entrant) not in plan.policies:
        problem = f"it was not graded in {folder}; there are {', '.join(plan.policies)}"
        raise UnknownPolicy(policy=str(entrant), problem=problem)
    if entrant.track is not entrant.declared:
        problem = (
            "production shows hints only to policies that declare the privileged track; deploy"
            f" {entrant.spec}"
        )
        raise UnknownPolicy(policy=str(entrant), problem=problem)
    if entrant.track not in (Track.UNPRIVILEGED, Track.PRIVILEGED):
        needs = "utilities after each step" if entrant.track is Track.BANDIT else "to know the future"
        problem = f"it needs {needs}, which production does not have; choose a policy of another track"
        raise UnknownPolicy(policy=str(entrant), problem=problem)
    rows = read_results(folder)
    return BandBudget(
        band=band,
        max_bytes=leaderboard_budget(rows, max_bytes),
        policy=str(_with_seed(entrant.spec, plan.seeds[0])),
        byte_model=plan.byte_model,
    )


def deployment_settings(
    folder: str | os.PathLike[str], policy: str, *, band: str, max_bytes: int | None = None
) -> str:
    """Return the lines of ``standfast.toml`` that put a policy of the results on a band."""
    budget = graded_budget(folder, policy, band=Band(band), max_bytes=max_bytes)
    plan = read_plan(folder)
    entrant = Entrant.parse(policy)
    rows = select_rows(
        read_results(folder),
        policy=str(entrant.spec),
        track=str(entrant.track),
        budget_bytes=budget.max_bytes,
        seed=plan.seeds[0],
    )
    tables = {
        "band_policies": json.dumps(budget.policy, ensure_ascii=False),
        "band_budgets_bytes": str(budget.max_bytes),
        "band_byte_models": json.dumps(str(budget.byte_model)),
    }
    graded = f"# Graded on {len(rows)} episodes at {size_name(budget.max_bytes)}, code {plan.code}.\n"
    return graded + "\n".join(f"[{name}]\n{budget.band.value} = {value}\n" for name, value in tables.items())


def _with_seed(spec: PolicySpec, seed: int) -> PolicySpec:
    """Return the policy with the seed among its settings, if it takes one and has none."""
    if "seed" in dict(spec.settings) or not spec.takes_seed:
        return spec
    return PolicySpec(spec.name, tuple(sorted((*spec.settings, ("seed", seed)))))
