"""``standfast eval``: how much of the evidence recall finds."""

from pathlib import Path

import click

from standfast.cli.options import progress_bar
from standfast.cli.output import json_option, print_json
from standfast.limits import DEFAULT_MAX_ITEMS, MAX_RECALL_ITEMS, MAX_RECALL_TOKENS
from standfast.records.requests import DEFAULT_CONTROLLER


@click.group("eval")
def command() -> None:
    """Measure memory on questions whose answers are known."""


@command.command("recall")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--controller",
    "controllers",
    multiple=True,
    default=(DEFAULT_CONTROLLER,),
    help="A controller to measure; repeatable.",
)
@click.option(
    "--tokens",
    "budgets",
    type=click.IntRange(1, MAX_RECALL_TOKENS),
    multiple=True,
    default=(500, 1_000, 2_000),
    help="A token budget; repeatable.",
)
@click.option(
    "--max-items",
    type=click.IntRange(1, MAX_RECALL_ITEMS),
    default=DEFAULT_MAX_ITEMS,
    help="At most this many excerpts.",
)
@click.option(
    "--embedder",
    help=(
        "Who makes the vectors of hybrid-v1, in the form of the setting `embedder`.  [default: static, if"
        " hybrid-v1 is measured]"
    ),
)
@click.option(
    "--plot",
    "plot_path",
    type=click.Path(dir_okay=False),
    help="Draw recall against the budget into this .svg, .png or .pdf file.",
)
@json_option
def eval_recall(
    files: tuple[str, ...],
    *,
    controllers: tuple[str, ...],
    budgets: tuple[int, ...],
    max_items: int,
    embedder: str | None,
    plot_path: str | None,
    as_json: bool,
) -> None:
    """Ask the questions of each FILE and print which share of their evidence recall hands out.

    A FILE has JSON lines: records (memory_id, text, …) and questions (question, evidence: ids of records); or
    it is a conversation of LoCoMo. Without a FILE, a small set that ships with Standfast is used. Intervals
    are 95 % bootstraps over questions.
    """
    from standfast.bench import recall_eval

    form = Path(plot_path).suffix.removeprefix(".") if plot_path else "svg"
    if form not in ("svg", "png", "pdf"):
        raise click.UsageError("--plot must name a .svg, .png or .pdf file")
    paths = [Path(file) for file in files] or [recall_eval.SAMPLE]
    corpora = [corpus for path in paths for corpus in recall_eval.read_corpora(path)]
    with progress_bar("recalls", quiet=as_json) as progress:
        scores = recall_eval.evaluate_recall(
            corpora,
            controllers=tuple(dict.fromkeys(controllers)),
            budgets=sorted(set(budgets)),
            max_items=max_items,
            embedder=embedder or ("static" if "hybrid-v1" in controllers else None),
            progress=progress,
        )
    if plot_path:
        Path(plot_path).write_bytes(recall_eval.recall_plot(scores).encode(form))
    if as_json:
        print_json({"scores": [score.as_json() for score in scores]})
        return
    width = max(len(name) for name in ("controller", *controllers))
    click.echo(f"{'controller':{width}}  tokens  recall [95 %]         complete  frames  p50 ms  p95 ms")
    for one in scores:
        click.echo(
            f"{one.controller:{width}}  {one.tokens:6}  {one.recall!s:20}  {one.complete:8.3f} "
            f" {one.frame_share:6.1%}  {one.p50_ms:6.1f}  {one.p95_ms:6.1f}"
        )
    click.echo(f"{scores[0].questions} questions", err=True)
