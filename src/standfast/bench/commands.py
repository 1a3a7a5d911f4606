"""``standfast bench``: grade write policies under byte budgets.

The benchmark itself is imported inside the commands, so help is fast.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from standfast.bench.import_commands import command as import_command
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.limits import MAX_EPISODE_STEPS, MAX_GENERATED_EPISODES

if TYPE_CHECKING:
    from standfast.bench import GridEstimate

# Repeated here, because importing the benchmark would slow down help; a test compares them.
REGIMES: Final = ("default", "bursts", "redundancy", "bursts_redundancy", "adversarial")
CONDITIONS: Final = (
    "plain",
    "hierarchical",
    "latency",
    "compression",
    "compression_choice",
    "retrieval",
    "answers",
    "shared",
    "adversarial",
)
BYTE_MODELS: Final = ("spec-v0", "indexed-v0")
GROUPINGS: Final = ("length", "source")
ESTIMATED_UNITS: Final = 1_000
_BASELINE: Final = click.option(
    "--baseline",
    default=None,
    metavar="NAME",
    help="Compare each policy with this one only; by default all in pairs, if there are histories enough.",
)
_WORKERS: Final = click.option(
    "--workers", type=click.IntRange(1), default=None, help="Processes; by default one per core."
)


@click.group("bench")
def command() -> None:
    """Find out which write policy keeps what matters when bytes run out, and deploy the winner.

    Plots and regret curves need 'pip install standfast[bench]', a Dask cluster 'pip install standfast[dask]'.
    """


@command.command("generate")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--regime", type=click.Choice(REGIMES), default="default")
@click.option("--steps", type=click.IntRange(1, MAX_EPISODE_STEPS), default=100)
@click.option("--episodes", type=click.IntRange(1, MAX_GENERATED_EPISODES), default=10)
@click.option("--seed", type=int, default=0)
@click.option("--drift-rate", type=click.FloatRange(0, 1), default=0.12)
@click.option("--against", default=None, help="The policy that adversarial drift is made against.")
@click.option(
    "--against-budget", type=click.IntRange(1), default=10_240, help="The budget of that policy, in bytes."
)
@json_option
def generate(
    folder: str,
    regime: str,
    steps: int,
    episodes: int,
    seed: int,
    drift_rate: float,
    against: str | None,
    against_budget: int,
    as_json: bool,
) -> None:
    """Write synthetic episodes into FOLDER. The same settings give the same bytes on every machine."""
    from standfast import bench
    from standfast.bench.episodes import file_hash
    from standfast.bench.sources.synthetic import synthetic_name

    if (regime == "adversarial") != (against is not None):
        raise click.UsageError("--regime adversarial and --against go together")
    settings = bench.DriftSettings(steps=steps, regime=bench.Regime(regime), seed=seed, drift_rate=drift_rate)
    file = os.fspath(Path(folder) / synthetic_name(settings, episodes, against))
    count = bench.write_jsonl(
        file,
        (
            (
                bench.generate(settings, number)
                if against is None
                else bench.generate_against(settings, number, against, against_budget)
            )
            for number in range(episodes)
        ),
    )
    if as_json:
        print_json({"file": file, "episodes": count, "sha256": file_hash(file)})
    else:
        click.echo(f"{count} episodes in {file}")


command.add_command(import_command)


@command.command("run")
@click.argument("sources", nargs=-1, type=click.Path(exists=True))
@click.option("--out", default="bench-results", help="Folder for the results.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help=(
        "A policy by name; repeatable; by default all. If only policies of yours are named,"
        " the shipped ones run too."
    ),
)
@click.option("--only", is_flag=True, help="Run the named policies and no others.")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    type=int,
    help="Bytes; repeatable; by default 1 KB, 10 KB, 100 KB and 1 MB.",
)
@click.option("--byte-model", type=click.Choice(BYTE_MODELS), default="spec-v0")
@click.option(
    "--condition",
    type=click.Choice(CONDITIONS),
    default="plain",
    help="The document's own condition, or one of its extensions.",
)
@click.option(
    "--seed",
    "seeds",
    type=int,
    multiple=True,
    default=(0,),
    help="For policies that use random numbers; repeatable. An episode's figure is the mean over seeds.",
)
@click.option("--curves/--no-curves", default=True, help="Regret after every step, for the plots.")
@_WORKERS
@click.option("--engine", type=click.Choice(["processes", "dask"]), default="processes")
@click.option("--scheduler", default=None, help="Address of the Dask scheduler, for --engine dask.")
@click.option("--fresh", is_flag=True, help="Discard the results of another grid in the folder.")
@click.option(
    "--estimate",
    is_flag=True,
    help="Run a few units, print what the grid will cost, and stop; they count as done.",
)
@json_option
def run(
    sources: tuple[str, ...],
    out: str,
    policies: tuple[str, ...],
    only: bool,
    budgets: tuple[int, ...],
    byte_model: str,
    condition: str,
    seeds: tuple[int, ...],
    curves: bool,
    workers: int | None,
    engine: str,
    scheduler: str | None,
    fresh: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Run policies over the episodes in SOURCES: files of JSON lines, or folders of them.

    Without SOURCES, synthetic episodes of 100, 1,000 and 10,000 steps are made in four regimes. An
    interrupted run continues where it stopped when it is called again. One worker or many give the same
    results, to the byte. A grid of a thousand units or more begins with an estimate of its time and space.
    """
    from standfast import bench
    from standfast.bench.grid import PRIMARY_BUDGETS
    from standfast.bench.sources.synthetic import default_files, episode_files
    from standfast.cli.options import progress_bar
    from standfast.clock import SystemClock
    from standfast.policies import ByteModel

    if (engine == "dask") != (scheduler is not None):
        raise click.UsageError("--engine dask and --scheduler go together")
    chosen = bench.dask_cluster(scheduler) if scheduler is not None else bench.process_pool(workers)
    grid, units = bench.plan_grid(
        episode_files(sources) if sources else default_files(out),
        budgets=budgets or PRIMARY_BUDGETS,
        policies=_chosen_policies(policies, only=only),
        seeds=seeds,
        byte_model=ByteModel(byte_model),
        condition=condition,
        curves=curves,
    )
    folder = bench.ResultsFolder(out)
    folder.open(grid, fresh=fresh)
    count = workers or bench.usable_cores()
    large = sum(not folder.done(unit) for unit in units) >= ESTIMATED_UNITS
    if estimate or large:
        found = bench.estimate_grid(grid, units, folder, SystemClock())
        if estimate:
            _print_estimate(found, count, as_json=as_json)
            return
        click.echo(_estimate_line(found, count), err=True)
    with progress_bar("running", quiet=as_json) as progress:
        rows = bench.run_grid(grid, units, folder, chosen, progress)
    if as_json:
        print_json({"out": out, "rows": rows, "units": len(units), "code": grid.code})
    else:
        click.echo(f"{rows} rows from {len(units)} units in {out}; next: standfast bench leaderboard {out}")
        if rows > len(units):
            _print_summary(out)


def _chosen_policies(named: Sequence[str], *, only: bool) -> list[str]:
    """Return the policies of a grid: a policy of one's own tells nothing without others next to it."""
    from standfast.policies import PolicySpec, policy_names

    if only and not named:
        raise click.UsageError("--only goes with --policy")
    if only or any(PolicySpec.read(policy.partition("@")[0]).shipped for policy in named):
        return list(named)
    return [*named, *(name for name in policy_names() if name not in named)]


def _estimate_line(found: "GridEstimate", workers: int) -> str:
    seconds = found.wall_seconds(workers)
    duration = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
    if seconds < 60:
        duration = f"{seconds:.0f} seconds"
    return (
        f"{found.waiting} of {found.units} units to run: about {duration} with {workers} processes, "
        f"{found.result_bytes / 1e6:,.0f} MB of results (from {found.sampled} units). "
        "Ctrl-C stops; the same command continues."
    )


def _print_estimate(found: "GridEstimate", workers: int, *, as_json: bool) -> None:
    if as_json:
        about = {"units": found.units, "waiting": found.waiting, "sampled": found.sampled, "workers": workers}
        seconds = {"seconds": found.seconds, "wall_seconds": found.wall_seconds(workers)}
        print_json({**about, **seconds, "result_bytes": found.result_bytes})
    else:
        click.echo(_estimate_line(found, workers))


def _print_summary(out: str) -> None:
    """Print the means of a grid: at most twenty policies and six budgets, so that it fits a screen."""
    from standfast.bench import summarise_grid
    from standfast.bench.leaderboard import size_name

    summary = summarise_grid(out)
    budgets = sorted({size for own in summary.means.values() for size in own})[:6]
    lines = [
        [name[:30], *(f"{own[size]:.3f}" if size in own else "" for size in budgets)]
        for name, own in list(summary.means.items())[:20]
    ]
    left_out = len(summary.means) - len(lines)
    headings = ("Policy", *(size_name(size) for size in budgets))
    click.echo(f"Mean {summary.metric}, without intervals and so without places:")
    _print_table("", headings, lines)
    if left_out:
        click.echo(f"and {left_out} more policies")
    for name in summary.wrote_nothing:
        click.echo(
            f"{name} stored nothing. On the unprivileged track it sees no hints (priority,"
            f" breaking_change): if it"
            f' needs them, give its class track = "privileged", or name it {name}@privileged.'
        )


@command.command("leaderboard")
@click.argument("results", default="bench-results")
@click.option("--budget", type=int, default=None, help="Rank at this budget; by default 10 KB.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "markdown"]), default="table")
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    default=None,
    help="One table for each length or source of episodes; by default one for all.",
)
@_BASELINE
@click.option(
    "--deploy", default=None, metavar="NAME", help="Print the settings that put this policy on a band."
)
@click.option(
    "--band",
    type=click.Choice(["LEDGER", "ACTIVE", "WITNESS"]),
    default="LEDGER",
    help="The band, for --deploy.",
)
@json_option
def leaderboard(
    results: str,
    budget: int | None,
    form: str,
    by: str | None,
    baseline: str | None,
    deploy: str | None,
    band: str,
    as_json: bool,
) -> None:
    """Rank the policies of RESULTS by recall, or by the metric of their condition.

    A place is a range, for example 2-4: two policies are in an order only if their means differ significantly
    on the same histories (sign-flip test with Holm's correction). What they can tell stands below.

    With --deploy NAME, print the lines for standfast.toml that make production use the policy that was
    graded: with its settings, its budget, the grid's byte model and the grid's seed. Policies that need
    labels are refused.
    """
    from standfast.bench.leaderboard import deployment_settings

    if deploy is not None:
        lines = deployment_settings(results, deploy, band=band, max_bytes=budget)
        if as_json:
            print_json({"policy": deploy, "band": band, "settings": lines})
        else:
            click.echo(lines, nl=False)
        return
    _print_leaderboard(results, budget, form, by, baseline, as_json=as_json)


def _print_leaderboard(
    results: str, budget: int | None, form: str, by: str | None, baseline: str | None, *, as_json: bool
) -> None:
    from standfast.bench import leaderboard as tables
    from standfast.bench.grid import read_results

    rows = read_results(results)
    max_bytes = tables.leaderboard_budget(rows, budget)
    groups = {tables.POOLED: rows} if by is None else tables.group_rows(rows, by)
    found = {
        name: tables.result_table(own, max_bytes, group=name, baseline=baseline)
        for name, own in groups.items()
    }
    if as_json:
        standings = {
            name: [dict(zip(table.csv_headings, line, strict=True)) for line in table.csv_lines]
            for name, table in found.items()
        }
        only = standings.pop(tables.POOLED, None)
        about = {"budget_bytes": max_bytes, "notes": {name: table.notes for name, table in found.items()}}
        print_json({**about, **({"groups": standings} if only is None else {"standings": only})})
        return
    for table in found.values():
        if form == "table":
            _print_table(f"{results}, {table.title}", table.headings, table.lines)
            for note in table.notes:
                click.echo(note)
        else:
            title = f"{table.title}\n\n" if by is not None else ""
            click.echo(title + (table.as_csv() if form == "csv" else table.as_markdown()), nl=by is not None)


def _print_table(title: str, headings: Sequence[str], lines: list[list[str]]) -> None:
    """Print a table. Columns that the terminal has no room for are left out and named, never cut."""
    from rich.console import Console
    from rich.table import Table

    # The title names the budget. Intervals would break the lines; the other formats have them.
    names = [heading.partition("@")[0] for heading in headings]
    cells = [[cell.partition(" [")[0] for cell in line] for line in lines]
    widths = [
        max([len(name), *(len(line[number]) for line in cells)]) + 1 for number, name in enumerate(names)
    ]
    console = Console()
    shown = len(names)
    while shown > 1 and sum(widths[:shown]) > console.width:
        shown -= 1
    table = Table(title=title or None, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for number, name in enumerate(names[:shown]):
        table.add_column(
            name, justify="right" if number > 2 else "left", no_wrap=True, min_width=widths[number] - 1
        )
    for line in cells:
        table.add_row(*line[:shown])
    console.print(table)
    if shown < len(names):
        click.echo(f"({', '.join(names[shown:])}: in a wider terminal, or with --format csv)")


@command.command("report")
@click.argument("results", default="bench-results")
@click.option("--out", default=None, help="Folder for the report; by default 'report' below RESULTS.")
@click.option(
    "--budget", type=int, default=None, help="The budget of leaderboard and plots; by default 10 KB."
)
@_BASELINE
@json_option
def report(results: str, out: str | None, budget: int | None, baseline: str | None, as_json: bool) -> None:
    """Write the report of RESULTS: tables, plots and a self-contained page, report.html.

    Under the plain condition each policy gets recall_at_budget.csv, confusion_matrix.csv, utility_per_kb.json
    and regret_curve.png. Leaderboards are CSV and Markdown, plots SVG and PDF; pairs.csv compares all
    policies in pairs.
    """
    from standfast.bench.report import write_report

    folder = out or str(Path(results) / "report")
    written = write_report(results, folder, max_bytes=budget, baseline=baseline)
    if as_json:
        print_json({"folder": folder, "files": written})
    else:
        click.echo(f"{len(written)} files; open {folder}/report.html")


@command.command("manifest")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("--write", is_flag=True, help="Write MANIFEST.json for the episode files in FOLDER.")
@json_option
def manifest(folder: str, write: bool, as_json: bool) -> None:
    """Compare the episode files in FOLDER with its MANIFEST.json; exit code 1 if one differs."""
    from standfast.bench.episodes import MANIFEST, check_manifest, manifest_of

    if write:
        text = json.dumps(manifest_of(folder), indent=1) + "\n"
        (Path(folder) / MANIFEST).write_text(text, encoding="utf-8")
    problems = [] if write else check_manifest(folder)
    if as_json:
        print_json({"folder": folder, "problems": problems})
    else:
        for problem in problems:
            click.echo(f"✗ {problem}")
        click.echo(f"{folder}: {len(problems)} problems" if problems else f"{folder}: matches its manifest")
    if problems:
        raise SystemExit(ANSWER_IS_NO)


@command.command("policies")
@json_option
def policies(as_json: bool) -> None:
    """List all policies with their tracks: the shipped ones, and those of installed packages."""
    from standfast.policies import PolicySpec, policy_names

    specs = [PolicySpec.parse(name) for name in policy_names()]
    about = {str(spec): "".join((spec.kind.__doc__ or "").strip().splitlines()[:1]) for spec in specs}
    if as_json:
        print_json({str(spec): {"track": str(spec.track), "about": about[str(spec)]} for spec in specs})
    else:
        for spec in specs:
            click.echo(f"{spec!s:18} {spec.track:13} {about[str(spec)]}")


@command.command("labels")
@click.argument("episodes", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--before", is_flag=True, help="The rule as it was before it was mended on the development half."
)
@json_option
def labels(episodes: tuple[str, ...], before: bool, as_json: bool) -> None:
    """Print how far the labelling rule agrees with a sample of steps that was labelled by hand (see
    docs/bench-labels.md).

    The sample has ids and labels, no texts. With EPISODES, which were imported as that page says, the rule's
    answers are taken from them; without, they are the answers that were recorded with the sample.
    """
    import msgspec

    from standfast.bench.sources import labelling
    from standfast.errors import BadFile

    if episodes and before:
        raise click.UsageError("--before is for the recorded answers; leave EPISODES out")
    sample = labelling.hand_labels()
    answers = labelling.rule_answers(episodes) if episodes else None
    if answers is not None and not any(one.id in answers for one in sample):
        raise BadFile(file=episodes[0], problem="no step of the sample is in these episodes")
    report = labelling.label_report(sample, answers, before=before)
    if as_json:
        print_json({name: msgspec.to_builtins(one) for name, one in report.items()})
        return
    headings = ("Part", "Steps", "Critical", "Precision", "Recall", "Kappa", "its 95 %", "Of classes")
    lines = [
        [
            name.replace("_", " "),
            str(one.steps),
            str(one.critical),
            *(f"{figure:.2f}" for figure in (one.precision, one.recall, one.kappa)),
            f"{one.kappa_interval[0]:.2f} to {one.kappa_interval[1]:.2f}",
            f"{one.class_kappa:.2f}",
        ]
        for name, one in report.items()
    ]
    _print_table("The labelling rule against the hand", headings, lines)


@command.command("verify")
@click.argument("submission", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--episodes",
    default=None,
    type=click.Path(exists=True, file_okay=False),
    help="Folder with the episode files, recognised by hash; by default 'episodes' in SUBMISSION.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=None,
    help="Run only so many units, evenly spread; by default all.",
)
@_WORKERS
@click.option(
    "--trusted",
    is_flag=True,
    help="Run the code without isolation where the kernel offers none; the result says so.",
)
@json_option
def verify(
    submission: str,
    episodes: str | None,
    sample: int | None,
    workers: int | None,
    trusted: bool,
    as_json: bool,
) -> None:
    """Run the grid in the folder SUBMISSION again and compare each row with the results it claims; exit code
    1 if one differs.

    A submission has a pyproject.toml with an entry point, a lock file, the code, and results/ (see
    docs/bench-submit.md). Nothing is installed or imported: each run is in a process that the kernel
    isolates, which sees one step at a time and no labels. That needs Linux with bubblewrap, or with Landlock
    and seccomp; elsewhere nothing is run unless you trust the code.
    """
    import msgspec

    from standfast.bench import process_pool
    from standfast.bench.submission import check_lines, submission_hash, verify_submission
    from standfast.cli.options import progress_bar

    with progress_bar("verifying", quiet=as_json) as progress:
        check = verify_submission(
            submission,
            episodes=episodes,
            sample=sample,
            trusted=trusted,
            engine=process_pool(workers),
            progress=progress,
        )
    if as_json:
        about = {"verified": check.verified, "sha256": submission_hash(submission)}
        print_json({**about, **msgspec.to_builtins(check)})
    else:
        for line in check_lines(check):
            click.echo(line)
    if not check.verified:
        raise SystemExit(ANSWER_IS_NO)


@command.command("ask")
@click.argument("episodes", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--policy", "policies", multiple=True, required=True, help="A policy by name; repeatable.")
@click.option("--budget", type=click.IntRange(1), default=10_240, help="Bytes.")
@click.option("--questions", type=click.IntRange(1), default=10, help="At most so many of each episode.")
@click.option("--provider", type=click.Choice(["openai", "anthropic", "scripted"]), default="openai")
@click.option("--model", default=None, help="The model's name.")
@click.option("--base-url", default=None, help="The URL of a server with the provider's API.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    help="For the scripted provider: its rules.",
)
@json_option
def ask(
    episodes: tuple[str, ...],
    policies: tuple[str, ...],
    budget: int,
    questions: int,
    provider: str,
    model: str | None,
    base_url: str | None,
    script: str | None,
    as_json: bool,
) -> None:
    """Ask a model about the end of each stream in EPISODES, from what policies kept of it.

    The questions, the recall and its token budget are those of the condition 'answers'; the share that the
    reader without a model answers is given next to the model's. Excerpts of the episodes are sent to the
    provider, one request for each question and policy.
    """
    import msgspec

    from standfast.bench import Entrant, PricedEpisode, ask_model, load_jsonl
    from standfast.bench.sources.synthetic import episode_files
    from standfast.cli.options import progress_bar
    from standfast.wiring import open_model

    asked = open_model(provider, model=model, base_url=base_url, script=script)

    def complete(prompt: str) -> str:
        return asked.ask("", prompt)

    priced = [
        PricedEpisode(episode, name=f"{Path(file).name} {number}")
        for file in episode_files(episodes)
        for number, episode in enumerate(load_jsonl(file))
    ]
    found = []
    for policy in policies:
        with progress_bar(policy, quiet=as_json) as progress:
            entrant = Entrant.parse(policy)
            found.append(ask_model(priced, entrant, budget, complete, most=questions, progress=progress))
    if as_json:
        print_json({"model": asked.guard_id, "answers": msgspec.to_builtins(found)})
        return
    lines = [
        [one.policy, one.track, str(one.questions), f"{one.answered:.3f}", f"{one.answered_by_model:.3f}"]
        for one in found
    ]
    click.echo(f"Share of right answers at {budget} bytes; the model is {asked.guard_id}.")
    _print_table("", ("Policy", "Track", "Questions", "Reader", "Model"), lines)
