"""OptimizationReport: what can change, what can't and why, and how certain that is; as data, text, HTML."""

import difflib
import re
from html import escape
from typing import Final

from standfast.optimize.loops.gate import GateSettings, RejectReason
from standfast.optimize.loops.statistics import PowerStatement, loss_p_value
from standfast.optimize.prompts.template import HexDigest, Path
from standfast.optimize.providers.adapter import TokenUsage
from standfast.records.vocabulary import Value


class Modification(Value, frozen=True, kw_only=True):
    """A validated modification, ready to be applied.

    ``original_hash`` is the hash of the section's source; ``original_body`` is the baseline's text, which may
    be an override.
    """

    section_path: Path
    original_hash: HexDigest
    proposed_body: str
    token_reduction: int
    baseline_pass_rate: float
    candidate_pass_rate: float
    original_body: str = ""
    recall_tokens: int | None = None
    original_recall_tokens: int | None = None
    strategy: str = ""


class SampleComparison(Value, frozen=True, kw_only=True):
    """A sample with the answers of two prompts, cut to a few lines."""

    sample_id: str
    input: str
    expected: str
    baseline_output: str
    candidate_output: str
    baseline_passed: bool
    candidate_passed: bool
    baseline_truncated: bool = False
    """Whether the answer ends at the limit of output tokens."""
    candidate_truncated: bool = False

    @property
    def change(self) -> str:
        """Both answers in one line, and whether they were cut off."""
        sides = (
            (self.baseline_output, self.baseline_truncated),
            (self.candidate_output, self.candidate_truncated),
        )
        return " became ".join(f"{output!r:.60}{' (cut off)' if cut else ''}" for output, cut in sides)


class RejectedModification(Value, frozen=True, kw_only=True):
    """A rejected modification with the reason."""

    section_path: Path
    token_reduction: int
    regression_count: int = 0
    reason: RejectReason
    detail: str = ""
    original_body: str = ""
    proposed_body: str = ""
    strategy: str = ""
    lost: tuple[SampleComparison, ...] = ()
    """A few samples that pass less often than with the baseline."""


class UnchangedSection(Value, frozen=True, kw_only=True):
    """A section that stays as it is, and why."""

    section_path: Path
    why: str


class UntestedText(Value, frozen=True, kw_only=True):
    """A sentence that no sample tests: without it, no choosing sample did worse."""

    section_path: Path
    text: str
    removed: bool


class RewordedText(Value, frozen=True, kw_only=True):
    """A sentence with words that its source does not have, and whether a sample tests it."""

    section_path: Path
    before: str
    after: str
    tested: bool
    accepted: bool


class ParetoPoint(Value, frozen=True, kw_only=True):
    """A tried prompt that no other beats in both tokens and pass rate."""

    label: str
    tokens: int
    pass_rate: float


class OptimizationReport(Value, frozen=True, kw_only=True):
    """The result of an optimization.

    The same request with the same answers gives the same report, to the byte.
    """

    experiment_id: str
    prompt_ns: str
    prompt_key: str
    baseline_pass_rate: float
    baseline_token_count: int
    modifications: tuple[Modification, ...] = ()
    rejected: tuple[RejectedModification, ...] = ()
    unchanged: tuple[UnchangedSection, ...] = ()
    untested: tuple[UntestedText, ...] = ()
    reworded: tuple[RewordedText, ...] = ()
    samples: tuple[SampleComparison, ...] = ()
    """The held-out samples with both answers, those that changed first."""
    candidate_pass_rate: float = 0.0
    candidate_token_count: int = 0
    tokenizer: str = ""
    tokens_are_exact: bool = False
    baseline_tag: str = ""
    baseline_version: int | None = None
    baseline_fell_back: str | None = None
    baseline_digest: HexDigest | None = None
    candidate_digest: HexDigest | None = None
    dataset_digest: HexDigest | None = None
    choosing_samples: int = 0
    confirming_samples: int = 0
    settings: GateSettings | None = None
    choosing_power: PowerStatement | None = None
    confirming_power: PowerStatement | None = None
    confirming_p_value: float | None = None
    worst_loss: float | None = None
    """The largest share of the baseline's passes whose loss the held-out runs do not exclude."""
    tried_pass_rate: float | None = None
    """The pass rate on the held-out samples of what was tried there, accepted or not."""
    approved_digest: HexDigest | None = None
    """The version that a human last approved, if it is not the baseline."""
    model_varies: bool = True
    """Whether the model's answers to one prompt differ."""
    truncated_answers: int = 0
    """How many answers ended at the limit of output tokens, of all prompts that were tried."""
    baseline_truncated: int = 0
    """How many answers of the baseline did."""
    candidate_truncated: int = 0
    """How many answers of the last candidate did."""
    repeated_samples: int = 0
    """How many samples were left out because they are the same as another one."""
    memory_snapshot: int | None = None
    """The snapshot of memory that every evaluation read."""
    held_out_use: int = 1
    """How many tests these held-out samples have decided for this prompt, this one included."""
    stopped: str | None = None
    """Why the optimization ended before its time; nothing was accepted then."""
    pareto: tuple[ParetoPoint, ...] = ()
    evaluations: int = 0
    usage: TokenUsage = TokenUsage()

    @property
    def total_token_reduction(self) -> int:
        """The tokens that all modifications save."""
        return sum(modification.token_reduction for modification in self.modifications)

    @property
    def has_modifications(self) -> bool:
        """Whether there is anything to apply."""
        return len(self.modifications) > 0

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))

    @classmethod
    def failed(cls, *, ns: str, prompt_key: str) -> "OptimizationReport":
        """Return the empty report of an optimization that failed."""
        return cls(
            experiment_id="failed",
            prompt_ns=ns,
            prompt_key=prompt_key,
            baseline_pass_rate=0.0,
            baseline_token_count=0,
        )


def pareto_front(points: list[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Return the points that no other point beats in both tokens and pass rate."""
    front: list[ParetoPoint] = []
    best = -1.0
    for point in sorted(points, key=lambda point: (point.tokens, -point.pass_rate, point.label)):
        if point.pass_rate > best:
            front.append(point)
            best = point.pass_rate
    return tuple(front)


def summary_lines(report: OptimizationReport) -> list[str]:
    """Return the report in a few lines for a terminal."""
    label = report.tokenizer + ("" if report.tokens_are_exact else ", an estimate")
    tokens = f"{report.baseline_token_count} → {report.candidate_token_count} tokens ({label})"
    counts = f"{report.choosing_samples} choosing and {report.confirming_samples} held-out samples"
    rates = f"pass rate {report.baseline_pass_rate:.1%} → {report.candidate_pass_rate:.1%}"
    if not report.has_modifications:
        rates = f"nothing is changed; the baseline's pass rate is {report.baseline_pass_rate:.1%}"
    lines = [
        f"{report.prompt_ns}/{report.prompt_key}, tag {report.baseline_tag}: {tokens}",
        f"{rates} on {counts}, {report.evaluations} evaluations" if not report.stopped else counts,
    ]
    lines += [
        f"  + {'/'.join(one.section_path)}: {_tokens(one.token_reduction)} ({one.strategy})"
        for one in report.modifications
    ]
    for rejected in report.rejected:
        lines.append(
            f"  - {'/'.join(rejected.section_path)}: {rejected.reason.value} ({rejected.strategy})"
            f" {rejected.detail}".rstrip()
        )
        lines += [f"      {one.sample_id}: {one.change}" for one in rejected.lost]
    lines += [f"  = {'/'.join(one.section_path)}: {one.why}" for one in report.unchanged]
    lines += [
        f"  {'removed, though' if one.removed else 'kept, but'} no sample tests it: {one.text!r:.100}"
        for one in report.untested
    ]
    lines += [f"  {_reworded_line(one)}" for one in report.reworded]
    if report.truncated_answers:
        lines.append(
            f"{report.truncated_answers} of {report.evaluations} answers were cut off,"
            f" {report.baseline_truncated} of the baseline and {report.candidate_truncated} of the last"
            " candidate; raise the limit of output tokens"
        )
    if report.repeated_samples:
        lines.append(f"{report.repeated_samples} samples are the same as another one and count once")
    return [*lines, *_certainty(report)]


def _reworded_line(one: RewordedText) -> str:
    what = "reworded" if one.accepted else "not reworded"
    why = "samples test it" if one.tested else "no sample tests it"
    return f"{what} ({why}): {one.before!r:.100} → {one.after!r:.100}"


def _certainty(report: OptimizationReport) -> list[str]:
    """Return how certain the result is, in one line."""
    if report.stopped is not None:
        return [report.stopped]
    if report.settings is None:
        return []
    if report.worst_loss is None or report.tried_pass_rate is None:
        return [] if report.confirming_power is None else [_power_line(report.confirming_power)]
    if not report.has_modifications:
        return [_refused_line(report, report.tried_pass_rate, report.worst_loss, report.settings)]
    if report.candidate_token_count > report.baseline_token_count:
        return [_gain_line(report.settings)]
    return [_loss_line(report, report.worst_loss, report.settings)]


def _refused_line(report: OptimizationReport, rate: float, worst_loss: float, settings: GateSettings) -> str:
    tried = (
        f"what was tried passes {rate:.1%} of the held-out runs, the baseline {report.baseline_pass_rate:.1%}"
    )
    if any(one.reason is RejectReason.REGRESSED for one in report.rejected):
        return "what was tried loses a sample that must pass, which decides alone"
    if worst_loss <= settings.margin:
        return f"{tried}; it was rejected for the reason above"
    return (
        f"{tried}; a loss of up to {worst_loss:.1%} is not excluded, and the margin is {settings.margin:.0%}"
    )


def _tokens(reduction: int) -> str:
    return f"{reduction} fewer tokens" if reduction >= 0 else f"{-reduction} more tokens"


def _loss_line(report: OptimizationReport, worst_loss: float, settings: GateSettings) -> str:
    used = f", use {report.held_out_use} of these held-out samples" if report.held_out_use > 1 else ""
    return (
        f"the held-out runs exclude a loss of more than {worst_loss:.1%} of the passes; "
        f"margin {settings.margin:.0%}, level {settings.level:.0%}{used}"
    )


def _gain_line(settings: GateSettings) -> str:
    return (
        f"the held-out runs show a gain of more than {settings.least_gain:.1%} of the pass rate at level "
        f"{settings.level:.0%}"
    )


def _power_line(power: PowerStatement) -> str:
    if power.losses_allowed < 0:
        return (
            f"{power.samples} held-out samples can't prove anything at margin {power.margin:g} and level"
            f" {power.level:g}; {power.samples_needed} could"
        )
    return (
        f"a prompt that loses {power.margin:.0%} is rejected with probability {power.rejects_at_margin:.1%}"
        f" or more, one that loses {2 * power.margin:.0%} with {power.rejects_at_twice:.1%}"
    )


_STYLE: Final = """
:root { color-scheme: light dark; --line: #d9dee3; --box: #f6f8fa; --removed: #ffd7d5; --added: #c9f0d0; --quiet: #59636e; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; background: #fff; }
h1 { font-size: 1.5rem; margin-bottom: .5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
.headline { font-size: 1.15rem; margin: .2rem 0; } .quiet { color: var(--quiet); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td:last-child { overflow-wrap: anywhere; } td:nth-child(n+5) { min-width: 9rem; } th { white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; min-width: 0; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; background: var(--box); padding: .8rem; border-radius: .4rem; overflow-wrap: anywhere; }
svg { max-width: 34rem; width: 100%; } svg text { font-size: 12px; fill: currentColor; }
del { background: var(--removed); } ins { background: var(--added); text-decoration: none; }
@media (max-width: 30rem) { svg text { font-size: 17px; } th, td { padding: .3rem .4rem; } }
@media (prefers-color-scheme: dark) { :root { --line: #343a41; --box: #1e2329; --removed: #6b2020; --added: #1d4d2b; --quiet: #9aa4ae; }
body { background: #14171a; color: #dfe3e8; } }
"""  # noqa: E501  # A style sheet.
_NUMBER: Final = re.compile(r"-?[\d.,]+ ?%?")


def html_report(report: OptimizationReport) -> str:
    """Return the report as one HTML page that needs no server and no network."""
    title = f"{report.prompt_ns}/{report.prompt_key}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="headline">{escape(line)}</p>' for line in summary_lines(report)[:2]),
        f'<p class="quiet">{escape(summary_lines(report)[-1])}</p>',
        "<h2>Modifications</h2>" if report.modifications else "<h2>No modifications</h2>",
        *(_modification(one) for one in report.modifications),
        _rejected(report.rejected),
        _unchanged(report),
        _samples(report.samples),
        _pareto(report.pareto),
        _operating_curve(report.confirming_power),
        _power("Choosing samples", report.choosing_power),
        _power("Held-out samples", report.confirming_power),
        _provenance(report),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _provenance(report: OptimizationReport) -> str:
    usage = report.usage
    version = f"version {report.baseline_version}"
    if report.baseline_fell_back:
        version = f"the source, because the tag's override is {report.baseline_fell_back}"
    facts = {
        "experiment": report.experiment_id,
        "baseline": f"tag {report.baseline_tag}, {version}; digest {report.baseline_digest}",
        "candidate": f"digest {report.candidate_digest}",
        "dataset": f"digest {report.dataset_digest}",
        "tokenizer": report.tokenizer + ("" if report.tokens_are_exact else " (an estimate)"),
        "evaluations": f"{report.evaluations}, {usage.input_tokens} tokens in, {usage.output_tokens} out",
    }
    return "<h2>Provenance</h2>" + _table([], [[name, value] for name, value in facts.items()])


def _modification(one: Modification) -> str:
    head = (
        f"<h3>{escape('/'.join(one.section_path))}: {_tokens(one.token_reduction)}"
        f" ({escape(one.strategy)})</h3>"
    )
    budget = ""
    if one.recall_tokens != one.original_recall_tokens:
        budget = f"<p>Recall budget {one.original_recall_tokens} → {one.recall_tokens} tokens</p>"
    return f"{head}{budget}<pre>{difference(one.original_body, one.proposed_body)}</pre>"


def difference(before: str, after: str) -> str:
    """Return two texts merged into HTML, with removed and added words marked."""
    old, new = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (before, after))
    pieces = []
    for what, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(
        None, old, new, False
    ).get_opcodes():
        removed, added = escape("".join(old[old_from:old_to])), escape("".join(new[new_from:new_to]))
        if what == "equal":
            pieces.append(removed)
            continue
        pieces.append((f"<del>{removed}</del>" if removed else "") + (f"<ins>{added}</ins>" if added else ""))
    return "".join(pieces)


def _rejected(rejected: tuple[RejectedModification, ...]) -> str:
    if not rejected:
        return ""
    parts = ["<h2>Rejected</h2>"]
    for one in rejected:
        place = "/".join(one.section_path)
        head = f"{place}: {one.reason.value} ({one.strategy}), {_tokens(one.token_reduction)}"
        parts.append(f"<h3>{escape(head)}</h3><p>{escape(one.detail)}</p>")
        if one.proposed_body != one.original_body:
            parts.append(f"<pre>{difference(one.original_body, one.proposed_body)}</pre>")
        parts.append(_comparison_table(one.lost))
    return "".join(parts)


def _samples(samples: tuple[SampleComparison, ...]) -> str:
    if not samples:
        return ""
    intro = "<p>The first answer of each prompt; samples that changed come first.</p>"
    return f"<h2>Held-out samples, before and after</h2>{intro}{_comparison_table(samples)}"


def _comparison_table(samples: tuple[SampleComparison, ...]) -> str:
    if not samples:
        return ""
    rows = [
        [
            one.sample_id,
            f"{'pass' if one.baseline_passed else 'fail'} → {'pass' if one.candidate_passed else 'fail'}",
            one.input,
            one.expected,
            one.baseline_output + (" (cut off)" if one.baseline_truncated else ""),
            one.candidate_output + (" (cut off)" if one.candidate_truncated else ""),
        ]
        for one in samples
    ]
    return _table(["sample", "", "input", "expected", "before", "after"], rows)


def _unchanged(report: OptimizationReport) -> str:
    stayed = [["/".join(one.section_path), one.why] for one in report.unchanged]
    untested = [
        ["/".join(one.section_path), "removed" if one.removed else "kept", one.text]
        for one in report.untested
    ]
    return "".join(
        (
            "<h2>Unchanged</h2>" + _table(["section", "why"], stayed) if stayed else "",
            (
                "<h2>Sentences that no sample tests</h2>" + _table(["section", "", "text"], untested)
                if untested
                else ""
            ),
            (
                "<h2>Reworded sentences</h2>"
                + _table(["section", "", "before", "after"], [_reworded_row(one) for one in report.reworded])
                if report.reworded
                else ""
            ),
        )
    )


def _reworded_row(one: RewordedText) -> list[str]:
    state = f"{'accepted' if one.accepted else 'rejected'}, {'tested' if one.tested else 'not tested'}"
    return ["/".join(one.section_path), state, one.before, one.after]


def _pareto(points: tuple[ParetoPoint, ...]) -> str:
    rows = [[point.label, str(point.tokens), f"{point.pass_rate:.1%}"] for point in points]
    intro = "<p>The prompts that no other one beats in both, on the choosing samples.</p>"
    table = _table(["prompt", "tokens", "pass rate"], rows)
    return f"<h2>Tokens and pass rate</h2>{intro}{table}" if rows else ""


def _operating_curve(power: PowerStatement | None) -> str:
    """Return a drawing of the probability of acceptance against the share of samples that are really lost."""
    if power is None or power.losses_allowed < 0:
        return ""
    width, height, most_loss = 480, 200, min(3 * power.margin, 0.99)

    def place(loss: float, accepted: float) -> str:
        return f"{40 + loss / most_loss * width:.1f},{10 + (1 - accepted) * height:.1f}"

    losses = [max(step / 60 * most_loss, 1e-9) for step in range(61)]
    line = " ".join(
        place(loss, loss_p_value(samples=power.samples, losses=power.losses_allowed, margin=loss))
        for loss in losses
    )
    at_margin = place(power.margin, 0).partition(",")[0]
    marks = "".join(
        f'<text x="{40 + share * width:.0f}" y="{height + 28}"'
        f' text-anchor="middle">{share * most_loss:.0%}</text>'
        for share in (0, 1 / 3, 2 / 3, 1)
    )
    level_y = place(0, power.level).partition(",")[2]
    return (
        "<h2>Operating curve</h2><p>The probability that the held-out samples accept a prompt, against the"
        " share of samples that it really "
        f"loses. The dashed lines are the margin ({power.margin:.0%}) and the level ({power.level:.1%}) that"
        " this test spends.</p>"
        f'<svg viewBox="0 0 {width + 60} {height + 40}" role="img" aria-label="Probability of acceptance'
        ' against true loss">'
        f'<path d="M40,10 V{height + 10} H{width + 40}" fill="none" stroke="currentColor"/>'
        f'<path d="M{at_margin},10 V{height + 10} M40,{level_y} H{width + 40}" stroke="currentColor"'
        ' stroke-dasharray="4"/>'
        f'<polyline points="{line}" fill="none" stroke="#2f6fdd" stroke-width="2.5"/>'
        f'<text x="34" y="16" text-anchor="end">1</text><text x="34" y="{height + 12}"'
        f' text-anchor="end">0</text>{marks}</svg>'
    )


def _power(title: str, power: PowerStatement | None) -> str:
    if power is None:
        return ""
    rows = [
        ["samples that the baseline passes", str(power.samples)],
        ["declared margin", f"{power.margin:.1%}"],
        ["level of the easiest look", f"{power.level:.1%}"],
        ["most losses with which a candidate passes", str(max(power.losses_allowed, 0))],
        ["samples needed", str(power.samples_needed)],
        ["probability that a harmless candidate is accepted", f"{power.accepts_harmless:.1%}"],
        ["… that one that loses the margin is rejected", f"{power.rejects_at_margin:.1%}"],
        ["… that one that loses twice the margin is rejected", f"{power.rejects_at_twice:.1%}"],
    ]
    return f"<h2>{escape(title)}</h2>" + _table([], rows)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table; columns of numbers are aligned to the right."""
    kinds = [
        ' class="number"' if all(_NUMBER.fullmatch(cell) for cell in column) else ""
        for column in zip(*rows, strict=True)
    ]

    def row(tag: str, cells: list[str]) -> str:
        marked = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(marked)}</tr>"

    head = row("th", heads) if heads else ""
    return f'<div class="wide"><table>{head}{"".join(row("td", cells) for cells in rows)}</table></div>'
