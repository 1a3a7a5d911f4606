"""The report of a grid: files for each policy, the leaderboard, and one self-contained HTML page."""

import html
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from standfast.bench import plots
from standfast.bench.grid import CURVES, PLAN, Grid, read_results
from standfast.bench.leaderboard import (
    COLUMNS,
    LeaderboardRow,
    ResultRow,
    confusion_matrix,
    entrant_name,
    entrants_of,
    leaderboard_budget,
    leaderboard_cells,
    leaderboard_csv,
    leaderboard_markdown,
    rank_policies,
    recall_at_budget,
    select_rows,
    size_name,
    utility_per_kb,
)
from standfast.errors import BadFile

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } img { max-width: 100%; height: auto }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left } tbody tr:hover { background: #f5f5f5 }
code { background: #f3f3f3; padding: .1rem .3rem } .note { color: #555 }
"""


def write_report(folder: str, out: str, *, max_bytes: int | None = None) -> list[str]:
    """Write the report of the results in ``folder`` into ``out``. Return the names of the files.

    Args:
        folder: The folder of a finished grid of the plain condition.
        out: The folder to write to.
        max_bytes: The budget of the leaderboard and the plots; by default 10 KB, or the middle one.
    """
    rows = read_results(folder)
    if not rows or rows[0]["condition"] != "plain":
        raise BadFile(
            file=folder, problem="only the plain condition has a report; use 'standfast bench leaderboard'"
        )
    curves = read_results(folder, CURVES)
    budget = leaderboard_budget(rows, max_bytes)
    written = []
    for name, content in _files(folder, rows, curves, budget):
        target = Path(out) / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise BadFile(file=str(target), problem=str(error)) from None
        written.append(name)
    return written


def _files(
    folder: str, rows: Sequence[ResultRow], curves: Sequence[ResultRow], budget: int
) -> Iterator[tuple[str, str | bytes]]:
    for policy, track in entrants_of(rows):
        own, name = select_rows(rows, policy=policy, track=track), entrant_name(rows, policy, track)
        place = re.sub(r"[^\w.@-]+", "_", name)
        yield f"{place}/recall_at_budget.csv", recall_at_budget(own)
        yield f"{place}/confusion_matrix.csv", confusion_matrix(own)
        yield f"{place}/utility_per_kb.json", utility_per_kb(own)
        if curves:
            yield f"{place}/regret_curve.png", plots.regret_over_time(curves, [name], budget)
    board = rank_policies(rows, budget)
    yield "leaderboard.csv", leaderboard_csv(board)
    yield "leaderboard.md", leaderboard_markdown(board, budget)
    pictures = {
        "recall_against_budget.png": plots.recall_against_budget(rows),
        "utility_per_kb.png": plots.utility_bars(rows, budget),
    }
    if curves:
        best = [
            entrant_name(rows, row.policy, row.track)
            for row in sorted(board, key=lambda row: (row.regret.value, row.policy))
        ]
        pictures["regret_over_time.png"] = plots.regret_over_time(curves, best, budget)
    yield from pictures.items()
    plan = msgspec.json.decode((Path(folder) / PLAN).read_bytes(), type=Grid)
    yield "report.html", _page(rows, board, pictures, budget, plan)


def _page(
    rows: Sequence[ResultRow],
    board: Sequence[LeaderboardRow],
    pictures: dict[str, bytes],
    budget: int,
    plan: Grid,
) -> str:
    episodes = len({(row["file"], row["line"]) for row in rows})
    steps = sorted({row["steps"] for row in rows})
    facts = (
        f"{episodes} episodes of {steps[0]} to {steps[-1]} steps, {len(board)} policies, "
        f"byte model {plan.byte_model}, seed {plan.seed}, code {plan.code}"
    )
    head = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in leaderboard_cells(row)) + "</tr>\n"
        for row in board
    )
    images = "".join(
        f"<h2>{name.removesuffix('.png').replace('_', ' ').capitalize()}</h2>\n"
        f'<img alt="{name}" src="data:image/png;base64,{b64encode(picture).decode()}">\n'
        for name, picture in pictures.items()
    )
    files = "".join(
        f"<tr><td>{html.escape(file.name)}</td><td><code>{file.sha256[:16]}</code></td></tr>\n"
        for file in plan.files
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Write policies</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>Write policies under byte budgets</h1>\n"
        f'<p class="note">{html.escape(facts)}</p>\n<h2>Leaderboard at {size_name(budget)}</h2>\n'
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n"
        '<p class="note">Means over episodes; ± is half of the 95 % interval (Student\'s t). Regret is against the exact '
        "WRITE-only optimum; &ldquo;of best&rdquo; is the utility as a share of it, which can pass 1 where merging beats writing.</p>\n"
        f"{images}<h2>Episodes</h2>\n<table><tbody>\n{files}</tbody></table>\n</body></html>\n"
    )
