"""A report as one HTML page, with the difference of each section, readable without a server or a network."""

import difflib
import re
from html import escape
from typing import Final

from standfast.optimize.loops.gate.statistics import PowerStatement
from standfast.optimize.loops.trials.report import (
    Modification,
    OptimizationReport,
    ParetoPoint,
    RejectedModification,
    as_lines,
)

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #d9dee3; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; background: #f6f8fa; padding: .8rem; border-radius: .4rem; overflow-wrap: anywhere; }
del { background: #ffd7d5; } ins { background: #c9f0d0; text-decoration: none; }
@media (prefers-color-scheme: dark) { body { background: #14171a; color: #dfe3e8; } pre { background: #1e2329; }
th, td { border-color: #343a41; } del { background: #6b2020; } ins { background: #1d4d2b; } }
"""


def html_report(report: OptimizationReport) -> str:
    """The page."""
    title = f"{report.prompt_ns}/{report.prompt_key}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in as_lines(report)[:2]),
        _facts(report),
        "<h2>Modifications</h2>" if report.modifications else "<h2>No modifications</h2>",
        *(_modification(one) for one in report.modifications),
        _rejected(report.rejected),
        _pareto(report.pareto),
        _power("Samples to choose by", report.choosing_power),
        _power("Samples to confirm by", report.confirming_power),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _facts(report: OptimizationReport) -> str:
    usage = report.usage
    facts = {
        "experiment": report.experiment_id,
        "baseline": f"tag {report.baseline_tag}, version {report.baseline_version}, digest {report.baseline_digest}",
        "candidate": f"digest {report.candidate_digest}",
        "dataset": f"digest {report.dataset_digest}",
        "tokeniser": report.tokenizer + ("" if report.tokens_are_exact else " (an estimate)"),
        "evaluations": f"{report.evaluations}, {usage.input_tokens} tokens in, {usage.output_tokens} out",
    }
    if report.baseline_fell_back:
        facts["note"] = f"the tag's override was {report.baseline_fell_back}, so the baseline is the source"
    return _table([], [[name, value] for name, value in facts.items()])


def _modification(one: Modification) -> str:
    head = f"<h3>{escape('/'.join(one.section_path))}: {one.token_reduction} tokens less ({escape(one.strategy)})</h3>"
    budget = ""
    if one.recall_tokens != one.original_recall_tokens:
        budget = f"<p>Recall budget {one.original_recall_tokens} → {one.recall_tokens} tokens</p>"
    return f"{head}{budget}<pre>{difference(one.original_body, one.proposed_body)}</pre>"


def difference(before: str, after: str) -> str:
    """Two texts as one, with what went and what came marked, word by word."""
    old, new = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (before, after))
    pieces = []
    for what, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(
        None, old, new, False
    ).get_opcodes():
        gone, come = escape("".join(old[old_from:old_to])), escape("".join(new[new_from:new_to]))
        if what == "equal":
            pieces.append(gone)
            continue
        pieces.append((f"<del>{gone}</del>" if gone else "") + (f"<ins>{come}</ins>" if come else ""))
    return "".join(pieces)


def _rejected(rejected: tuple[RejectedModification, ...]) -> str:
    if not rejected:
        return ""
    rows = [
        ["/".join(one.section_path), one.strategy, one.reason.value, str(one.token_reduction), one.detail]
        for one in rejected
    ]
    return "<h2>Rejected</h2>" + _table(["section", "strategy", "reason", "tokens", "detail"], rows)


def _pareto(points: tuple[ParetoPoint, ...]) -> str:
    rows = [[point.label, str(point.tokens), f"{point.pass_rate:.1%}"] for point in points]
    return "<h2>Tokens and pass rate</h2>" + _table(["prompt", "tokens", "pass rate"], rows) if rows else ""


def _power(title: str, power: PowerStatement | None) -> str:
    if power is None:
        return ""
    rows = [
        ["samples that the baseline passes", str(power.samples)],
        ["declared margin and level", f"{power.margin:g}, {power.level:.3g}"],
        ["losses with which a candidate still passes", str(max(power.losses_allowed, 0))],
        ["samples needed to prove anything", str(power.samples_needed)],
        ["a harmless candidate is accepted", f"{power.accepts_harmless:.1%}"],
        ["one that loses the margin is refused", f"{power.rejects_at_margin:.1%}"],
        ["one that loses twice the margin is refused", f"{power.rejects_at_twice:.1%}"],
    ]
    return f"<h2>{escape(title)}</h2>" + _table([], rows)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "<tr>" + "".join(f"<th>{escape(one)}</th>" for one in heads) + "</tr>" if heads else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{head}{body}</table>"
