"""``holdfast optimize``: prompts that get shorter and provably no worse."""

import json
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from holdfast.canon import canonical_bytes
from holdfast.cli.output import ANSWER_IS_NO, json_option, print_json
from holdfast.errors import InvalidValue, OptimizationFailed
from holdfast.evals.evaluators import AllOf, Contains, Evaluator, Exact, JsonSchema, Numeric
from holdfast.evals.judge import ModelJudge
from holdfast.evals.samples import Dataset
from holdfast.loops.gate.settings import GateSettings
from holdfast.loops.in_process import optimize_in_process
from holdfast.loops.strategies.ablation import Ablation
from holdfast.loops.strategies.compress import LLMCompressStrategy
from holdfast.loops.strategies.duplicates import DuplicateRemoval
from holdfast.loops.strategies.proposals import CompressStrategy, Strategies
from holdfast.loops.strategies.rewriting import rewriting_strategies
from holdfast.loops.trials.apply import apply_report, rollback
from holdfast.loops.trials.html import html_report
from holdfast.loops.trials.report import OptimizationReport, as_lines
from holdfast.prompts.overrides import STABLE
from holdfast.providers.adapter import ProviderAdapter
from holdfast.wiring import open_overrides, open_provider, open_result_cache, read_prompt

STRATEGIES: Final = ("rewrite", "duplicates", "ablation", "compress")
EVALUATORS: Final = ("exact", "contains", "numeric", "json-schema", "judge")
_FILE: Final = click.Path(dir_okay=False)
_OVERRIDES: Final = click.option(
    "--overrides",
    "overrides_url",
    default="overrides",
    show_default=True,
    help="A folder, redis://… or s3://bucket/prefix.",
)
_TAG: Final = click.option(
    "--tag", default=STABLE, show_default=True, help="The tag that production renders."
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
    "--evaluator", type=click.Choice(EVALUATORS), multiple=True, default=["exact"], show_default=True
)
@click.option(
    "--strategy", type=click.Choice(STRATEGIES), multiple=True, default=STRATEGIES[:3], show_default=True
)
@click.option(
    "--margin",
    type=float,
    default=GateSettings().margin,
    show_default=True,
    help="The share of passes that must not be lost.",
)
@click.option(
    "--level",
    type=float,
    default=GateSettings().level,
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
@json_option
def run(prompt: str, dataset: str, out: str, as_json: bool, **options: Any) -> None:
    """Optimise the prompt in file PROMPT (TOML or JSON) on the samples in file DATASET (JSON lines).

    Nothing is applied; the report says what could be. Exit code 1 if that is nothing.
    """
    template, samples = read_prompt(prompt), Dataset.read_jsonl(dataset)
    provider = open_provider(
        options["provider"], model=options["model"], base_url=options["base_url"], script=options["script"]
    )
    with Console(stderr=True).status("evaluating …") as status:
        result = optimize_in_process(
            template,
            samples,
            provider=provider,
            strategy=_strategy(options["strategy"], provider),
            overrides_store=open_overrides(options["overrides_url"]),
            evaluator=_evaluator(options["evaluator"], provider),
            cache=open_result_cache(options["cache_url"]),
            gate=GateSettings(margin=options["margin"], level=options["level"]),
            tag=options["tag"],
            workers=options["workers"],
            progress=lambda done, left: status.update(f"{done} evaluations done, {left} to go …"),
        )
    if result.error is not None:
        raise OptimizationFailed(problem=result.error)
    Path(out).write_bytes(canonical_bytes(result.report.as_json()) + b"\n")
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
        Path(html).write_text(html_report(known), encoding="utf-8")
    _tell(known, as_json=as_json)


@command.command("apply")
@click.argument("file", type=_FILE)
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@json_option
def apply(file: str, prompt: str, overrides_url: str, tag: str, as_json: bool) -> None:
    """Apply the report in FILE to PROMPT: all of it in one write, or nothing if the tag has changed since."""
    known = _read(file)
    if not known.has_modifications:
        click.echo("The report has nothing to apply.", err=True)
        raise SystemExit(ANSWER_IS_NO)
    applied = apply_report(open_overrides(overrides_url), read_prompt(prompt), known, tag=tag)
    if as_json:
        print_json({"tag": tag, "version": applied.version, "sections": len(known.modifications)})
    else:
        click.echo(f"{len(known.modifications)} sections applied; {tag} is version {applied.version} now")


@command.command("rollback")
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@json_option
def roll_back(prompt: str, overrides_url: str, tag: str, as_json: bool) -> None:
    """Make the tag of PROMPT what it was before the last apply; doing it again undoes it."""
    restored = rollback(open_overrides(overrides_url), read_prompt(prompt), tag=tag)
    if as_json:
        print_json({"tag": tag, "version": None if restored is None else restored.version})
    else:
        click.echo(f"{tag} is as it was" + ("; it overrides nothing" if restored is None else ""))


def _read(file: str) -> OptimizationReport:
    try:
        return OptimizationReport.from_json(json.loads(Path(file).read_bytes()))
    except (OSError, ValueError) as error:
        raise InvalidValue(what=f"Report {file}", problem=str(error)) from None


def _tell(known: OptimizationReport, *, as_json: bool) -> None:
    if as_json:
        print_json(known.as_json())
    else:
        for line in as_lines(known):
            click.echo(line)


def _strategy(names: tuple[str, ...], provider: ProviderAdapter) -> CompressStrategy:
    known: dict[str, tuple[CompressStrategy, ...]] = {
        "rewrite": rewriting_strategies(),
        "duplicates": (DuplicateRemoval(),),
        "ablation": (Ablation(),),
        "compress": (LLMCompressStrategy(provider),),
    }
    return Strategies(*(strategy for name in names for strategy in known[name]))


def _evaluator(names: tuple[str, ...], provider: ProviderAdapter) -> Evaluator:
    makers: dict[str, Any] = {
        "exact": Exact,
        "contains": Contains,
        "numeric": Numeric,
        "json-schema": JsonSchema,
        "judge": lambda: ModelJudge(provider),
    }
    made = [makers[name]() for name in names]
    chosen: Evaluator = made[0] if len(made) == 1 else AllOf(*made)
    return chosen
