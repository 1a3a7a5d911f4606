"""``standfast eval``: how much of the evidence recall finds, and whether memory keeps itself current."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from standfast.bench.recall_eval import DEFAULT_BUDGETS, RecallScore, evaluate_recall, recall_plot
from standfast.bench.recall_peers import PEERS
from standfast.bench.recall_sets import SHIPPED, read_set, without_names_and_times
from standfast.bench.updates_eval import (
    DEFAULT_TOKENS,
    ORACLE,
    RECALL,
    STORIES,
    Form,
    evaluate_updates,
    read_stories,
    updates_plot,
)
from standfast.cli.options import load_settings, progress_bar
from standfast.cli.output import json_option, print_json
from standfast.errors import ExtractionError
from standfast.limits import MAX_RECALL_TOKENS
from standfast.memory.extraction import FactExtractor
from standfast.records.requests import DEFAULT_CONTROLLER
from standfast.store.store import Store
from standfast.wiring import extractor_of

_F = TypeVar("_F", bound=Callable[..., Any])


def _peer_option(text: str) -> Callable[[_F], _F]:
    return click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), help=text)


def _plot_option(text: str) -> Callable[[_F], _F]:
    return click.option("--plot", "plot_path", type=click.Path(dir_okay=False), help=text)


@click.group("eval")
def command() -> None:
    """Measure memory on questions whose answers are known."""


@command.command("recall")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True))
@click.option(
    "--controller",
    "controllers",
    multiple=True,
    default=(DEFAULT_CONTROLLER,),
    help="A controller to measure; repeatable.",
)
@_peer_option("Another memory to run on the same texts and vectors; repeatable.")
@click.option(
    "--tokens",
    "budgets",
    type=click.IntRange(1, MAX_RECALL_TOKENS),
    multiple=True,
    default=DEFAULT_BUDGETS,
    help="A token budget; repeatable.",
)
@click.option(
    "--embedder",
    help="Who makes the vectors, in the form of the setting `embedder`.  [default: static]",
)
@click.option(
    "--plain-too",
    is_flag=True,
    help="Measure each conversation a second time, without names and times.",
)
@_plot_option("Draw recall against the budget into this .svg, .png or .pdf file.")
@json_option
def eval_recall(
    files: tuple[str, ...],
    *,
    controllers: tuple[str, ...],
    peers: tuple[str, ...],
    budgets: tuple[int, ...],
    embedder: str | None,
    plain_too: bool,
    plot_path: str | None,
    as_json: bool,
) -> None:
    """Tell memory what each FILE holds, ask its questions, and print which share of the evidence it recalls.

    A FILE has JSON lines: records (memory_id, text, …) and questions (question, evidence: ids of records); or
    it is a conversation of LoCoMo, a folder of a BEAM chat, or SQuAD's paragraphs. Without a FILE, the sets
    that ship with Standfast are used. Intervals are 95 % bootstraps over questions.
    """
    form = _plot_form(plot_path)
    sets = [read_set(path) for path in [Path(file) for file in files] or SHIPPED]
    if plain_too:
        sets += [without_names_and_times(one) for one in sets]
    with progress_bar("recalls", quiet=as_json) as progress:
        scores = evaluate_recall(
            sets,
            controllers=tuple(dict.fromkeys(controllers)),
            peers=tuple(dict.fromkeys(peers)),
            budgets=sorted(set(budgets)),
            embedder=embedder,
            progress=progress,
        )
    if plot_path:
        Path(plot_path).write_bytes(recall_plot(scores).encode(form))
    if as_json:
        print_json({"scores": [score.as_json() for score in scores]})
    else:
        _print(scores)


def _print(scores: Sequence[RecallScore]) -> None:
    width = max(len(name) for name in ("system", *(one.system for one in scores)))
    for number, one in enumerate(scores):
        if number == 0 or one.set_name != scores[number - 1].set_name:
            click.echo(f"{one.set_name}: {one.questions} questions, {one.unanswerable} that nothing answers")
            click.echo(
                f"  {'system':{width}}  tokens  evidence [95 %]       all of it  first 3  spent  on nothing"
                "  p50 ms"
            )
        click.echo(
            f"  {one.system:{width}}  {one.tokens:6}  {one.recall!s:20}  {one.complete:9.3f}"
            f"  {one.first_three:7.3f}  {one.text_tokens:5.0f}  {one.unanswerable_tokens:10.0f}"
            f"  {one.p50_ms:6.1f}"
        )


@command.command("updates")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--tokens", type=click.IntRange(1, MAX_RECALL_TOKENS), default=DEFAULT_TOKENS)
@click.option("--oracle", is_flag=True, help="Also with facts from a model that knows the stories.")
@click.option(
    "--model",
    "with_model",
    is_flag=True,
    help="Also with facts from the model of the section [extraction] of the settings.",
)
@_peer_option("Another memory to tell the same stories; repeatable.")
@_plot_option("Draw what each system reached into this .svg, .png or .pdf file.")
@json_option
def eval_updates(
    files: tuple[str, ...],
    *,
    tokens: int,
    oracle: bool,
    with_model: bool,
    peers: tuple[str, ...],
    plot_path: str | None,
    as_json: bool,
) -> None:
    """Tell stories in which facts change; print whether the current value is first and the old one marked.

    A FILE has JSON lines: story, language, kind (change, return, denied or alike), told, question, now and
    old. Without a FILE, the stories that ship with Standfast are used, in two halves. No model is asked,
    unless --model is given. `needed` is of users who were told all stories of a language.
    """
    form = _plot_form(plot_path)
    systems: list[tuple[str, Form]] = [(RECALL, "facts"), (RECALL, "messages")]
    systems += [(ORACLE, "messages")] if oracle else []
    systems += [("model", "messages")] if with_model else []
    systems += [(peer, "facts") for peer in dict.fromkeys(peers)]
    settings = load_settings()

    def open_model(store: Store) -> FactExtractor:
        found = extractor_of(settings, store)
        if found is None:
            raise ExtractionError("no_extractor")
        return found

    with progress_bar("stories", quiet=as_json) as progress:
        scores = [
            evaluate_updates(
                read_stories(path),
                path.stem,
                system=system,
                form=told_as,
                tokens=tokens,
                open_extractor=open_model if system == "model" else None,
                progress=progress,
            )
            for path in [Path(file) for file in files] or STORIES
            for system, told_as in systems
        ]
    if plot_path:
        Path(plot_path).write_bytes(updates_plot(scores).encode(form))
    if as_json:
        print_json({"scores": [score.as_json() for score in scores]})
        return
    click.echo(
        "stories    system     told as   changing  in package  first  in text  marked  false/1000  then "
        "  tokens  needed"
    )
    for one in scores:
        click.echo(
            f"{one.stories:10} {one.system:10} {one.form:8}  {one.changing:8}  {one.in_package:10.3f}"
            f"  {one.first:.3f}  {one.first_in_text:7.3f}  {one.marked:6.3f}  {one.false_marks:10.2f}"
            f"  {one.then:.3f}  {one.tokens:6.0f}  {one.needed:6.3f}"
        )


def _plot_form(plot_path: str | None) -> str:
    """The format of a picture, by its name."""
    form = Path(plot_path).suffix.removeprefix(".") if plot_path else "svg"
    if form not in ("svg", "png", "pdf"):
        raise click.UsageError("--plot must name a .svg, .png or .pdf file")
    return form
