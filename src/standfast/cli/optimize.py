"""``standfast optimize``: prompts that get shorter and provably no worse."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from standfast.cli.options import namespace_option, opened_memory, opened_store, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.errors import InvalidValue, OptimizationFailed
from standfast.limits import EVALUATOR_NAMES, GATE_LEVEL, GATE_MARGIN, STRATEGY_NAMES
from standfast.wiring import open_overrides, open_provider, open_result_cache, read_prompt

if TYPE_CHECKING:
    # The help of all commands is printed without waiting for the loops.
    from standfast.memory import Memory
    from standfast.optimize.evals.samples import Dataset
    from standfast.optimize.loops.apply import LedgerSealer
    from standfast.optimize.loops.report import OptimizationReport
    from standfast.optimize.prompts.template import PromptTemplate

_FILE: Final = click.Path(dir_okay=False)
_OVERRIDES: Final = click.option(
    "--overrides",
    "overrides_url",
    default="overrides",
    show_default=True,
    help="A folder, redis://… or s3://bucket/prefix.",
)
_TAG: Final = click.option(
    "--tag", default="stable", show_default=True, help="The tag that production renders."
)


@click.group("optimize")
def command() -> None:
    """Make prompts shorter, prove that they are no worse, apply them, and take that back."""


@command.command("run")
@click.argument("prompt", type=_FILE)
@click.argument("dataset", type=_FILE)
@click.option(
    "--provider", type=click.Choice(["openai", "anthropic", "scripted"]), default="openai", show_default=True
)
@click.option("--model", default=None, help="The model's name.")
@click.option("--base-url", default=None, help="Of a server that speaks the provider's protocol.")
@click.option(
    "--script",
    type=_FILE,
    default=None,
    help='For scripted: a rule a line, {"contains": […], "answer": "…"}.',
)
@click.option(
    "--evaluator", type=click.Choice(EVALUATOR_NAMES), multiple=True, default=["exact"], show_default=True
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGY_NAMES),
    multiple=True,
    default=STRATEGY_NAMES[:4],
    show_default=True,
    help="recall looks for the smallest recall budget of a memory section, compress asks the model.",
)
@click.option(
    "--margin",
    type=float,
    default=GATE_MARGIN,
    show_default=True,
    help="The share of passes that must not be lost.",
)
@click.option(
    "--level",
    type=float,
    default=GATE_LEVEL,
    show_default=True,
    help="The risk of reporting a prompt that loses it.",
)
@click.option("--workers", type=click.IntRange(1, 256), default=4, show_default=True)
@click.option(
    "--cache", "cache_url", default="eval-cache", show_default=True, help="A folder, redis://… or :memory:."
)
@click.option(
    "--out", type=_FILE, default="optimization.json", show_default=True, help="Where the report goes."
)
@_OVERRIDES
@_TAG
@store_option
@namespace_option
@json_option
def run(prompt: str, dataset: str, out: str, as_json: bool, **options: Any) -> None:
    """Optimise the prompt in file PROMPT (TOML or JSON) on the samples in file DATASET (JSON lines).

    Nothing is applied; the report says what could be. Exit code 1 if that is nothing.

    A memory section recalls from the store, which is only read, unless every sample brings a text of its own for it.
    """
    from rich.console import Console  # noqa: PLC0415  # Only this command pays for all of these.

    from standfast.canon import canonical_bytes  # noqa: PLC0415  # As above.
    from standfast.optimize.evals.evaluators import evaluator_of  # noqa: PLC0415  # As above.
    from standfast.optimize.evals.samples import Dataset  # noqa: PLC0415  # As above.
    from standfast.optimize.loops.gate import GateSettings  # noqa: PLC0415  # As above.
    from standfast.optimize.loops.optimize import optimize_in_process  # noqa: PLC0415  # As above.
    from standfast.optimize.loops.strategies import strategy_of  # noqa: PLC0415  # As above.

    template, samples = read_prompt(prompt), Dataset.read_jsonl(dataset)
    provider = open_provider(
        options["provider"], model=options["model"], base_url=options["base_url"], script=options["script"]
    )
    cache, recalls = open_result_cache(options["cache_url"]), _recalls(template, samples)
    strategies = _chosen(options["strategy"], recalls=recalls)
    with (
        _memory(options["store_url"], options["namespace"]) if recalls else nullcontext() as recalled,
        Console(stderr=True).status("evaluating …") as status,
    ):
        result = optimize_in_process(
            template,
            samples,
            provider=provider,
            strategy=strategy_of(strategies, provider, cache),
            overrides_store=open_overrides(options["overrides_url"]),
            evaluator=evaluator_of(options["evaluator"], provider),
            memory=recalled,
            cache=cache,
            gate=GateSettings(margin=options["margin"], level=options["level"]),
            tag=options["tag"],
            workers=options["workers"],
            progress=lambda done, left: status.update(f"{done} evaluations done, {left} to go …"),
        )
    if result.error is not None:
        raise OptimizationFailed(problem=result.error)
    with click.open_file(out, "wb") as file:
        file.write(canonical_bytes(result.report.as_json()) + b"\n")
    _tell(result.report, as_json=as_json)
    if not result.report.has_modifications:
        raise SystemExit(ANSWER_IS_NO)


@command.command("report")
@click.argument("file", type=_FILE)
@click.option(
    "--html", type=_FILE, default=None, help="Also write a page with the difference of each section."
)
@json_option
def report(file: str, html: str | None, as_json: bool) -> None:
    """Show the report in FILE."""
    known = _read(file)
    if html is not None:
        from standfast.optimize.loops.report import html_report  # noqa: PLC0415  # Only this command pays for it.

        with click.open_file(html, "w", encoding="utf-8") as page:
            page.write(html_report(known))
    _tell(known, as_json=as_json)


@command.command("apply")
@click.argument("file", type=_FILE)
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@store_option
@json_option
def apply(
    file: str, prompt: str, *, overrides_url: str, tag: str, store_url: str | None, as_json: bool
) -> None:
    """Apply the report in FILE to PROMPT: all of it in one write, or nothing if the tag has changed since.

    The store's ledger is told before and after, as of any change that somebody must answer for.
    """
    from standfast.optimize.loops.apply import apply_report  # noqa: PLC0415  # Only this command pays for it.

    known = _read(file)
    if not known.has_modifications:
        click.echo("The report has nothing to apply.", err=True)
        raise SystemExit(ANSWER_IS_NO)
    with _sealer(store_url) as sealer:
        applied = apply_report(
            open_overrides(overrides_url), read_prompt(prompt), known, tag=tag, sealer=sealer
        )
    if as_json:
        print_json({"tag": tag, "version": applied.version, "sections": len(known.modifications)})
    else:
        click.echo(f"{len(known.modifications)} sections applied; {tag} is version {applied.version} now")


@command.command("rollback")
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@store_option
@json_option
def roll_back(prompt: str, *, overrides_url: str, tag: str, store_url: str | None, as_json: bool) -> None:
    """Make the tag of PROMPT what it was before the last apply; doing it again undoes it."""
    from standfast.optimize.loops.apply import rollback  # noqa: PLC0415  # Only this command pays for it.

    with _sealer(store_url) as sealer:
        restored = rollback(open_overrides(overrides_url), read_prompt(prompt), tag=tag, sealer=sealer)
    if as_json:
        print_json({"tag": tag, "version": None if restored is None else restored.version})
    else:
        click.echo(f"{tag} is as it was" + ("; it overrides nothing" if restored is None else ""))


def _recalls(template: "PromptTemplate", samples: "Dataset[Any, Any]") -> bool:
    """Whether memory is asked for what a memory section shows."""
    from standfast.optimize.prompts.template import MEMORY  # noqa: PLC0415  # As above.

    asks = any(section.recall_tokens for section in template.descriptor.sections)
    return asks and not all(MEMORY in sample.params for sample in samples)


def _chosen(names: Sequence[str], *, recalls: bool) -> list[str]:
    """The strategies that can prove something: a budget that nothing is recalled under could be cut to nothing."""
    chosen = [name for name in names if recalls or name != "recall"]
    if not chosen:
        problem = "recall needs a prompt with a memory section, and samples that leave it to the store"
        raise InvalidValue(what="--strategy", problem=problem)
    return chosen


@contextmanager
def _memory(store_url: str | None, namespace: str | None) -> "Iterator[Memory]":
    """What a memory section recalls from."""
    with opened_memory(store_url, namespace) as recalled:
        # A trace of each of thousands of evaluations would bury those of the runs that matter.
        recalled.traces = None
        yield recalled


@contextmanager
def _sealer(store_url: str | None) -> Iterator["LedgerSealer"]:
    """Who answers for the change: the store's ledger. The store is made if it is not there."""
    from standfast.optimize.loops.apply import LedgerSealer  # noqa: PLC0415  # Only these commands pay for it.

    with opened_store(store_url, create=True) as store:
        yield LedgerSealer(store)


def _read(file: str) -> "OptimizationReport":
    import json  # noqa: PLC0415  # Only these commands pay for them.

    from standfast.optimize.loops.report import OptimizationReport  # noqa: PLC0415  # As above.

    try:
        with click.open_file(file, "rb") as source:
            return OptimizationReport.from_json(json.load(source))
    except (OSError, ValueError) as error:
        raise InvalidValue(what=f"Report {file}", problem=str(error)) from None


def _tell(known: "OptimizationReport", *, as_json: bool) -> None:
    from standfast.optimize.loops.report import as_lines  # noqa: PLC0415  # As above.

    if as_json:
        print_json(known.as_json())
    else:
        for line in as_lines(known):
            click.echo(line)
