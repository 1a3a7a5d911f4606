"""The report of a grid: files for each policy, leaderboards, comparisons, plots, and one self-contained HTML page."""

import csv
import html
import io
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from standfast.bench import plots
from standfast.bench.conditions import condition_named
from standfast.bench.grid import CURVES, Grid, read_plan, read_results
from standfast.bench.leaderboard import (
    GROUPINGS,
    POOLED,
    ResultRow,
    ResultTable,
    answer_correlations,
    compare_policies,
    confusion_matrix,
    correlations_csv,
    entrant_name,
    entrants_of,
    group_rows,
    leaderboard_budget,
    pairs_csv,
    recall_at_budget,
    result_table,
    select_rows,
    utility_per_kb,
)
from standfast.errors import BadFile

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } h3 { font-size: 1rem; margin-bottom: .3rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } img { max-width: 100%; height: auto }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right } th { vertical-align: bottom } td { white-space: nowrap }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } tbody tr:hover { background: #f5f5f5 }
code { background: #f3f3f3; padding: .1rem .3rem } .note { color: #555 } nav a { margin-right: 1.2rem }
.wide { overflow-x: auto } .words th, .words td { text-align: left; vertical-align: top; white-space: normal } figure { margin: 0 }
@media print { body { margin: 0; max-width: none; font-size: 11px } nav { display: none } h2, h3 { break-after: avoid }
table, figure, img { break-inside: avoid } th, td { padding: .15rem .4rem } }
"""
CAN_TELL: Final = (
    (
        "which of two policies keeps more critical steps of these episodes, and how sure that is",
        "how they compare on sources unlike these; look at the tables by source",
    ),
    (
        "how far a policy is from the exact WRITE-only optimum",
        "whether every label is right: a rule made them; 'standfast bench labels' says how far it agrees with a hand",
    ),
    (
        "that a difference is not by chance, if episodes are independent",
        "that they are: windows of one history resemble each other, so true intervals are wider",
    ),
    (
        "what an entrant does with what its track shows",
        "whether its author tuned it on these episodes",
    ),
)
PLAIN: Final = "plain"


def write_report(folder: str, out: str, *, max_bytes: int | None = None) -> list[str]:
    """Write the report of the results in ``folder`` into ``out``. Return the names of the files.

    Args:
        folder: The folder of a finished grid of any condition.
        out: The folder to write to.
        max_bytes: The budget of the leaderboard and the plots; by default 10 KB, or the middle one.
    """
    rows = read_results(folder)
    if not rows:
        raise BadFile(file=folder, problem="it has no results; run 'standfast bench run' first")
    curves = read_results(folder, CURVES)
    budget = leaderboard_budget(rows, max_bytes)
    written = []
    for name, content in _files(read_plan(folder), rows, curves, budget):
        target = Path(out) / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise BadFile(file=str(target), problem=str(error)) from None
        written.append(name)
    return written


def _files(
    plan: Grid, rows: Sequence[ResultRow], curves: Sequence[ResultRow], budget: int
) -> Iterator[tuple[str, str | bytes]]:
    if plan.condition == PLAIN:
        yield from _policy_files(rows, curves, budget)
    metric = condition_named(plan.condition).metric
    tables = {POOLED: [result_table(rows, budget)]}
    for by in GROUPINGS:
        tables[by] = [result_table(own, budget, group=name) for name, own in group_rows(rows, by).items()]
    for by, some in tables.items():
        name = "leaderboard" if by == POOLED else f"leaderboard_by_{by}"
        yield f"{name}.csv", some[0].as_csv() if by == POOLED else _grouped_csv(some)
        yield f"{name}.md", "\n".join(f"{one.title}\n\n{one.as_markdown()}" for one in some)
    yield "pairs.csv", pairs_csv(rows, budget, metric)
    if plan.condition == "answers":
        yield "correlations.csv", correlations_csv(rows, budget)
    pictures = {
        "critical_difference": plots.critical_difference(
            compare_policies(rows, budget, metric), budget, metric
        ),
        f"{metric}_against_budget": plots.metric_against_budget(rows, metric),
    }
    if plan.condition == PLAIN:
        pictures["utility_per_kb"] = plots.metric_bars(rows, budget, "utility_per_kb")
    else:
        pictures[metric] = plots.metric_bars(rows, budget, metric)
    if curves:
        pictures["regret_over_time"] = plots.regret_over_time(curves, budget)
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
            plot = plots.regret_over_time(curves, budget, [name])
            yield f"{place}/regret_curve.png", plot.encode("png")


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
    agreement = regret = ""
    if plan.condition == PLAIN:
        regret = (
            " Regret is against the exact WRITE-only optimum; &ldquo;of best&rdquo; is the utility as a share of it, which can pass 1 "
            "where merging beats writing."
        )
    if plan.condition == "answers":
        said = "; ".join(f"{name} {mean}" for name, mean in answer_correlations(rows, budget).items())
        agreement = f'<p class="note">Rank correlation with answers over policies: {html.escape(said)}.</p>\n'
    images = "".join(
        f'<h2 id="{name}">{_title(name)}</h2>\n'
        f'<figure><img alt="{_title(name)}" src="data:image/svg+xml;base64,{b64encode(picture).decode()}"></figure>\n'
        for name, picture in pictures.items()
    )
    boards = {by: _boards(by, some) for by, some in tables.items()}
    files = "".join(
        f"<tr><td>{html.escape(file.name)}</td><td><code>{file.sha256[:16]}</code></td></tr>\n"
        for file in plan.files
    )
    limits = "".join(
        f"<tr><td>{html.escape(can)}</td><td>{html.escape(cannot)}</td></tr>\n" for can, cannot in CAN_TELL
    )
    links = {"leaderboard_all": "Leaderboard", **{name: _title(name) for name in pictures}}
    links |= {f"leaderboard_{by}": f"By {by}" for by in boards if by != POOLED}
    links |= {"limits": "What this can tell", "episodes": "Episodes"}
    navigation = "".join(f'<a href="#{place}">{html.escape(title)}</a>' for place, title in links.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Write policies</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>Write policies under byte budgets</h1>\n"
        f'<p class="note">{html.escape(_facts(plan, rows))}</p>\n<nav>{navigation}</nav>\n'
        '<p class="note">Means over episodes with 95 % bootstrap intervals. A place is a range: two policies are only in an order '
        "if they differ significantly (Wilcoxon's signed-rank test over episodes, Holm's correction, 5 %); pairs.csv has all "
        f"comparisons.{regret}</p>\n"
        f"{agreement}{boards.pop(POOLED)}{images}{''.join(boards.values())}"
        '<h2 id="limits">What this can tell, and what not</h2>\n<table class="words"><thead><tr><th>it can tell</th>'
        f"<th>it can't tell</th></tr></thead><tbody>\n{limits}</tbody></table>\n"
        f'<h2 id="episodes">Episodes</h2>\n<table><tbody>\n{files}</tbody></table>\n</body></html>\n'
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


def _boards(by: str, tables: Sequence[ResultTable]) -> str:
    """Return the leaderboards of one grouping. A single group is the leaderboard of all, which is not repeated."""
    title = "Leaderboard" if by == POOLED else f"Leaderboard by {by}"
    head = f'<h2 id="leaderboard_{by}">{title}</h2>\n'
    if by != POOLED and len(tables) == 1:
        group = html.escape(tables[0].title.partition(":")[0])
        return (
            f'{head}<p class="note">All episodes are of one {by}: {group}. See the leaderboard above.</p>\n'
        )
    return head + "".join(map(_table, tables))


def _table(table: ResultTable) -> str:
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in table.headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>\n" for line in table.lines
    )
    note = ""
    if len(table.lines) > 1 and len({line[0] for line in table.lines}) == 1:
        note = '<p class="note">No two policies differ significantly here, so every place is open.</p>\n'
    return (
        f'<h3>{html.escape(table.title)}</h3>\n{note}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n'
        f"{body}</tbody></table></div>\n"
    )
