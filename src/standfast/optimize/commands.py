"""``standfast optimize``: shorten prompts, prove that they are no worse, apply them, and roll back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from standfast.cli.options import (
    load_settings,
    namespace_option,
    opened_store,
    printed_warnings,
    store_option,
)
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.errors import InvalidValue
from standfast.limits import (
    DEFAULT_OUTPUT_TOKENS,
    EVALUATOR_NAMES,
    GATE_LEAST_GAIN,
    GATE_LEVEL,
    GATE_MARGIN,
    STRATEGY_NAMES,
)
from standfast.optimize.errors import OptimizationError
from standfast.optimize.opening import open_overrides, open_provider, open_result_cache, read_prompt
from standfast.records.canon import canonical_bytes
from standfast.records.vocabulary import Value
from standfast.wiring import open_memory

if TYPE_CHECKING:
    # Imported late at run time, so that help is printed without loading the loops.
    from standfast.memory import Memory
    from standfast.optimize import (
        Dataset,
        GateSettings,
        LedgerSealer,
        ModelSpending,
        OptimizationReport,
        OptimizeResult,
        PromptOverridesStore,
        PromptTemplate,
        ProviderAdapter,
        SpendingLimits,
    )

_FILE: Final = click.Path(dir_okay=False)
_OVERRIDES: Final = click.option(
    "--overrides",
    "overrides_url",
    default="overrides",
    help="Where overrides are stored: a folder, redis://… or s3://bucket/prefix.",
)
_TAG: Final = click.option("--tag", default="stable", help="The tag that production renders.")


class _Models(Value, frozen=True, kw_only=True):
    """The options that choose the models."""

    provider: str
    model: str | None
    base_url: str | None
    temperature: float | None
    max_output_tokens: int
    system: str
    proposer_model: str | None
    script: str | None

    def opened(self, model: str | None) -> "ProviderAdapter":
        """Open the provider with one of its models."""
        return open_provider(
            self.provider,
            model=model,
            base_url=self.base_url,
            script=self.script,
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
        )


def _gate_settings(**fields: Any) -> "GateSettings":
    from standfast.optimize import GateSettings

    return GateSettings(**fields)


def _grouped(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options to a command and hands them to it as one argument."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        known: set[str] = set()

        @wraps(command)
        def grouped(**given: Any) -> None:
            own = {key: given.pop(key) for key in known}
            command(**{name: make(**own)}, **given)

        others = {param.name for param in getattr(grouped, "__click_params__", [])}
        for option in reversed(options):
            grouped = option(grouped)
        known.update(
            param.name for param in getattr(grouped, "__click_params__", []) if param.name not in others
        )
        return grouped

    return decorate


_MODELS: Final = _grouped(
    "models",
    _Models,
    click.option("--provider", type=click.Choice(["openai", "anthropic", "scripted"]), default="openai"),
    click.option("--model", default=None, help="The model's name."),
    click.option("--base-url", default=None, help="The URL of a server with the provider's API."),
    click.option(
        "--temperature", type=float, default=None, help="The temperature.  [default: the provider's]"
    ),
    click.option(
        "--max-output-tokens",
        type=click.IntRange(min=1),
        default=DEFAULT_OUTPUT_TOKENS,
        help="The most tokens of an answer.",
    ),
    click.option("--system", default="", help="The system message that the prompt runs under."),
    click.option(
        "--proposer-model",
        default=None,
        help="Another model of the provider, which proposes.  [default: --model]",
    ),
    click.option(
        "--script",
        type=_FILE,
        default=None,
        help='For the scripted provider: one rule per line, {"contains": […], "answer": "…"}.',
    ),
)
_GATE: Final = _grouped(
    "gate",
    _gate_settings,
    click.option(
        "--margin", type=float, default=GATE_MARGIN, help="The share of passes that must not be lost."
    ),
    click.option(
        "--least-gain",
        type=float,
        default=GATE_LEAST_GAIN,
        help="By how much a prompt that is not shorter must raise the pass rate.",
    ),
    click.option(
        "--level",
        type=float,
        default=GATE_LEVEL,
        help="The risk of reporting a prompt that loses the margin.",
    ),
    click.option(
        "--remove-untested",
        is_flag=True,
        help="Allow removing sentences that no sample tests. Without it they are only listed.",
    ),
    click.option(
        "--accept-reworded",
        is_flag=True,
        help="Accept sentences with other words although no sample tests them. They are listed either way.",
    ),
)
_RUN_HELP: Final = """Optimize the prompt in file PROMPT (TOML or JSON) on the samples in file DATASET (JSON lines).

Nothing is applied; the report says what could be. The exit code is 1 if nothing can be shortened. A memory section recalls from the store, which is only read, unless every sample brings its own text for it."""  # noqa: E501  # The text of help.


@click.group("optimize")
def command() -> None:
    """Shorten prompts, prove that they are no worse, apply them, and roll back."""


@command.command("run", help=_RUN_HELP)
@click.argument("prompt", type=_FILE)
@click.argument("dataset", type=_FILE)
@_MODELS
@click.option(
    "--evaluator",
    type=click.Choice(EVALUATOR_NAMES),
    multiple=True,
    help="How answers are graded.  [default: exact, or assertions for promptfoo's test cases]",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    help=(
        "For rows of named fields, as DSPy uses them: a field that the prompt gets. The others are expected."
    ),
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGY_NAMES),
    multiple=True,
    default=STRATEGY_NAMES[:4],
    help="recall looks for the smallest recall budget of a memory section; compress asks the model.",
)
@_GATE
@click.option(
    "--max-calls", type=click.IntRange(min=1), default=None, help="Stop after this many calls of a model."
)
@click.option("--max-cost", type=float, default=None, help="Stop when the calls have cost this much.")
@click.option("--input-price", type=float, default=0.0, help="The price of a million input tokens.")
@click.option("--output-price", type=float, default=0.0, help="The price of a million output tokens.")
@click.option(
    "--proposer-max-calls",
    type=click.IntRange(min=1),
    default=None,
    help="Ask the proposer at most this often, apart from --max-calls.",
)
@click.option("--dry-run", is_flag=True, help="Print what the run would spend, and call no model.")
@click.option("--workers", type=click.IntRange(1, 256), default=4)
@click.option(
    "--cache",
    "cache_url",
    default="eval-cache",
    help="Where results are cached: a folder, redis://… or :memory:.",
)
@click.option("--out", type=_FILE, default="optimization.json", help="Where the report is written.")
@_OVERRIDES
@_TAG
@store_option
@namespace_option
@json_option
def run(  # One parameter per option of the command.
    prompt: str,
    dataset: str,
    *,
    models: _Models,
    gate: "GateSettings",
    evaluator: Sequence[str],
    inputs: Sequence[str],
    strategy: Sequence[str],
    max_calls: int | None,
    max_cost: float | None,
    input_price: float,
    output_price: float,
    proposer_max_calls: int | None,
    dry_run: bool,
    workers: int,
    cache_url: str,
    out: str,
    overrides_url: str,
    tag: str,
    store_url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Optimize a prompt; the command's help is ``_RUN_HELP``."""
    from standfast import optimize

    template, samples = read_prompt(prompt), optimize.read_dataset(dataset, inputs=inputs)
    limits = optimize.SpendingLimits(
        max_calls=max_calls, max_cost=max_cost, input_price=input_price, output_price=output_price
    )
    overrides, recalls = open_overrides(overrides_url), _recalls(template, samples)
    names, cache = _usable_strategies(strategy, recalls=recalls), open_result_cache(cache_url)
    if dry_run:
        _print_estimate(
            template, samples, names, overrides=overrides, gate=gate, limits=limits, tag=tag, as_json=as_json
        )
        return
    adapter, proposer = models.opened(models.model), models.opened(models.proposer_model or models.model)
    with _memory(recalls, store_url, namespace) as memory, optimize.live_table(limits, quiet=as_json) as show:
        result = optimize.optimize_in_process(
            template,
            samples,
            provider=adapter,
            strategy=optimize.named_strategies(names, proposer, cache),
            overrides_store=overrides,
            evaluator=optimize.named_evaluator(evaluator or _default_evaluator(samples), adapter),
            memory=memory,
            system=models.system,
            cache=cache,
            gate=gate,
            limits=limits,
            proposer_limits=(
                None if proposer_max_calls is None else optimize.SpendingLimits(max_calls=proposer_max_calls)
            ),
            tag=tag,
            workers=workers,
            progress=show,
        )
    _conclude(result, out, limits, as_json=as_json)


def _conclude(result: "OptimizeResult", out: str, limits: "SpendingLimits", *, as_json: bool) -> None:
    """Write and print the report; exit with 1 if nothing can be shortened."""
    if result.error is not None:
        raise OptimizationError("optimization_failed", problem=result.error)
    _write_report(result.report, out)
    _print_report(result.report, as_json=as_json)
    if not as_json:
        _print_spending(result.spending, limits)
    if not result.report.has_modifications:
        raise SystemExit(ANSWER_IS_NO)


@command.command("report")
@click.argument("file", type=_FILE)
@click.option(
    "--html", type=_FILE, default=None, help="Also write an HTML page with the difference of each section."
)
@json_option
def report(file: str, html: str | None, as_json: bool) -> None:
    """Show the report in FILE."""
    loaded = _read_report(file)
    if html is not None:
        from standfast.optimize import html_report

        with click.open_file(html, "w", encoding="utf-8") as page:
            page.write(html_report(loaded))
    _print_report(loaded, as_json=as_json)


@command.command("apply")
@click.argument("file", type=_FILE)
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@click.option(
    "--approved-by",
    default=None,
    help="Who has read the new prompt and approves it. Later runs keep their margin against it.",
)
@store_option
@json_option
def apply(
    file: str,
    prompt: str,
    *,
    overrides_url: str,
    tag: str,
    approved_by: str | None,
    store_url: str | None,
    as_json: bool,
) -> None:
    """Apply the report in FILE to PROMPT: everything in one write, or nothing if the tag has changed since.

    The store's ledger records the change before and after it is made.
    """
    from standfast.optimize import apply_report

    loaded = _read_report(file)
    if not loaded.has_modifications:
        click.echo("The report has no modifications to apply.", err=True)
        raise SystemExit(ANSWER_IS_NO)
    with _sealer(store_url) as sealer:
        override = apply_report(
            open_overrides(overrides_url),
            read_prompt(prompt),
            loaded,
            tag=tag,
            sealer=sealer,
            approved_by=approved_by,
        )
    if as_json:
        print_json({"tag": tag, "version": override.version, "sections": len(loaded.modifications)})
    else:
        click.echo(
            f"Applied {len(loaded.modifications)} section(s); {tag} is now version {override.version}."
        )


@command.command("rollback")
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@click.option(
    "--to-version",
    type=click.IntRange(min=0),
    help="The version to restore, as `history` lists them; without it, the one before the last change.",
)
@store_option
@json_option
def roll_back(
    prompt: str, *, overrides_url: str, tag: str, to_version: int | None, store_url: str | None, as_json: bool
) -> None:
    """Restore an earlier version of PROMPT's tag. Without --to-version, a second one undoes the first."""
    from standfast.optimize import rollback

    with _sealer(store_url) as sealer:
        restored = rollback(
            open_overrides(overrides_url), read_prompt(prompt), tag=tag, to_version=to_version, sealer=sealer
        )
    if as_json:
        print_json({"tag": tag, "version": None if restored is None else restored.version})
    else:
        click.echo(f"Rolled back {tag}" + ("; it overrides nothing now." if restored is None else "."))


@command.command("history")
@click.argument("prompt", type=_FILE)
@_OVERRIDES
@_TAG
@json_option
def history(prompt: str, *, overrides_url: str, tag: str, as_json: bool) -> None:
    """List the versions of PROMPT's tag, newest first, with the sections that each overrides."""
    template = read_prompt(prompt)
    current = open_overrides(overrides_url).resolve(ns=template.ns, prompt_key=template.key, tag=tag)
    versions = [] if current is None else [(current.version, current.overrides)]
    versions += [] if current is None else [(one.version, one.overrides or ()) for one in current.history]
    rows = [(version, ["/".join(one.path) for one in overrides]) for version, overrides in versions]
    if as_json:
        print_json(
            {
                "tag": tag,
                "versions": [{"version": version, "sections": sections} for version, sections in rows],
            }
        )
        return
    if not rows:
        click.echo(f"{tag} overrides nothing and never did.")
    for number, (version, sections) in enumerate(rows):
        shown = ", ".join(sections) or "the source, unchanged"
        click.echo(f"{version:>6}  {shown}" + ("  (now)" if number == 0 else ""))


@command.command("dataset")
@click.argument("out", type=_FILE)
@click.option(
    "--traces",
    "folder",
    type=click.Path(file_okay=False, exists=True),
    default=None,
    help="The folder of traces.  [default: the store's]",
)
@click.option(
    "--grades", type=_FILE, default=None, help="The file of grades.  [default: the setting prompts.grades]"
)
@store_option
@json_option
def dataset(
    out: str, *, folder: str | None, grades: str | None, store_url: str | None, as_json: bool
) -> None:
    """Write graded answers of the agent to OUT as samples, for 'standfast optimize run'.

    Answers are graded on the console's page Grades, or by a GradeBook. A good answer is what is expected; a
    bad one, or one that was cut off, counts with a correction only. The exit code is 1 if there is none.
    """
    from standfast.clock import RandomIds
    from standfast.optimize import Dataset, GradeBook
    from standfast.optimize.settings import PromptSettings
    from standfast.traces.folder import TraceFolder

    settings = load_settings(store_url=store_url)
    if folder is not None:
        traces: TraceFolder | None = TraceFolder(folder, ids=RandomIds())
    elif settings.traces in ("", "off"):
        # A store that is none has no traces either, and should be told so.
        with opened_store(store_url):
            traces = None if settings.traces else TraceFolder.for_store(settings.store)
    else:
        traces = TraceFolder(settings.traces, ids=RandomIds())
    if traces is None:
        raise InvalidValue(what="traces", problem="no folder of traces is set; name one with --traces")
    book = GradeBook(grades or settings.section(PromptSettings).grades)
    try:
        book.prune(lambda run: traces.file_of(run).is_file())
        graded = book.grades()
        samples = Dataset.from_traces((trace for _, trace in traces.readable()), grades=graded)
        lines = [canonical_bytes(sample.as_json()) + b"\n" for sample in samples]
        with click.open_file(out, "wb") as file:
            file.writelines(lines)
    except OSError as error:
        raise InvalidValue(what=str(error.filename or out), problem=str(error.strerror or error)) from None
    if as_json:
        print_json({"samples": len(samples), "graded": len(graded), "out": out})
    else:
        click.echo(f"{len(samples)} samples of {len(graded)} graded answers in {out}")
    if not len(samples):
        raise SystemExit(ANSWER_IS_NO)


def _print_estimate(
    template: "PromptTemplate",
    samples: "Dataset[Any, Any]",
    strategies: Sequence[str],
    *,
    overrides: "PromptOverridesStore",
    gate: "GateSettings",
    limits: "SpendingLimits",
    tag: str,
    as_json: bool,
) -> None:
    from standfast.optimize import estimate_optimization

    estimated = estimate_optimization(
        template, samples, strategies=strategies, overrides_store=overrides, gate=gate, tag=tag
    )
    cost = limits.cost(estimated.usage)
    if as_json:
        print_json({**estimated.as_json(), "cost": cost})
        return
    if estimated.problem is not None:
        click.echo(f"No call would be made: {estimated.problem}")
        return
    tokens = f"{estimated.usage.input_tokens} tokens in, {estimated.usage.output_tokens} out"
    priced = f", cost {cost:.4f}" if cost else ""
    click.echo(
        f"About {estimated.calls} calls for {estimated.candidates} candidates ({tokens}{priced}), "
        f"at most {estimated.most_calls}."
    )


def _print_spending(spending: "ModelSpending", limits: "SpendingLimits") -> None:
    cost = limits.cost(spending.usage)
    priced = f", cost {cost:.4f}" if cost else ""
    click.echo(
        f"spent {spending.calls} calls ({spending.usage.input_tokens} tokens in, "
        f"{spending.usage.output_tokens} out{priced}); {spending.cached} evaluations were cached"
    )


def _default_evaluator(samples: "Dataset[Any, Any]") -> list[str]:
    from standfast.optimize import is_graded_by_assertions

    return ["assertions" if is_graded_by_assertions(samples) else "exact"]


def _recalls(template: "PromptTemplate", samples: "Dataset[Any, Any]") -> bool:
    """Return whether a memory section recalls from the store."""
    from standfast.optimize.prompts.template import MEMORY

    has_memory_section = any(section.recall_tokens for section in template.descriptor.sections)
    return has_memory_section and not all(MEMORY in sample.params for sample in samples)


def _usable_strategies(names: Sequence[str], *, recalls: bool) -> list[str]:
    """Leave out ``recall`` where nothing is recalled: any budget would pass."""
    usable = [name for name in names if recalls or name != "recall"]
    if not usable:
        problem = "recall needs a prompt with a memory section and samples without a text for it"
        raise InvalidValue(what="--strategy", problem=problem)
    return usable


@contextmanager
def _memory(recalls: bool, store_url: str | None, namespace: str | None) -> "Iterator[Memory | None]":
    """Open the memory that memory sections recall from, if any do, and close it afterwards."""
    if not recalls:
        yield None
        return
    # Traces of thousands of evaluations would bury those of real runs.
    settings = msgspec.structs.replace(load_settings(store_url=store_url, namespace=namespace), traces="")
    memory = open_memory(settings, create=False)
    with printed_warnings(memory), memory:
        yield memory


@contextmanager
def _sealer(store_url: str | None) -> Iterator["LedgerSealer"]:
    """Open the store whose ledger records the change. The store is created if it does not exist."""
    from standfast.optimize import LedgerSealer

    with opened_store(store_url, create=True) as store:
        yield LedgerSealer(store)


def _read_report(file: str) -> "OptimizationReport":
    import json

    from standfast.optimize import OptimizationReport

    try:
        with click.open_file(file, "rb") as source:
            return OptimizationReport.from_json(json.load(source))
    except (OSError, ValueError) as error:
        raise InvalidValue(what=f"Report {file}", problem=str(error)) from None


def _write_report(report: "OptimizationReport", file: str) -> None:
    from standfast.records.canon import canonical_bytes

    with click.open_file(file, "wb") as target:
        target.write(canonical_bytes(report.as_json()) + b"\n")


def _print_report(report: "OptimizationReport", *, as_json: bool) -> None:
    from standfast.optimize.loops.report import summary_lines

    if as_json:
        print_json(report.as_json())
    else:
        for line in summary_lines(report):
            click.echo(line)
