"""``standfast bench run``: every episode under every budget with every policy."""

import click

from standfast.cli.output import json_option, print_json


@click.command("run")
@click.argument("sources", nargs=-1, type=click.Path(exists=True))
@click.option(
    "--out",
    default="bench-results",
    show_default=True,
    help="Folder for the results; what is done stays there.",
)
@click.option(
    "--policy", "policies", multiple=True, help="A policy by name, as often as need be; by default all."
)
@click.option(
    "--budget", "budgets", multiple=True, type=int, help="Bytes; by default 1 KB, 10 KB, 100 KB and 1 MB."
)
@click.option(
    "--byte-model", type=click.Choice(["spec-v0", "indexed-v0"]), default="spec-v0", show_default=True
)
@click.option(
    "--condition",
    type=click.Choice(
        ["plain", "hierarchical", "latency", "compression", "retrieval", "shared", "adversarial"]
    ),
    default="plain",
    show_default=True,
    help="The document's own condition, or one of its extensions.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For policies that roll dice.")
@click.option(
    "--curves/--no-curves", default=True, show_default=True, help="Regret after every step, for the plots."
)
@click.option("--workers", type=click.IntRange(1), default=None, help="Processes; by default one a core.")
@click.option("--engine", type=click.Choice(["processes", "dask"]), default="processes", show_default=True)
@click.option("--scheduler", default=None, help="Address of the Dask scheduler, for --engine dask.")
@click.option("--fresh", is_flag=True, help="Throw away results of another grid that lie in the folder.")
@json_option
def command(  # noqa: PLR0917  # One argument for each option.
    sources: tuple[str, ...],
    out: str,
    policies: tuple[str, ...],
    budgets: tuple[int, ...],
    byte_model: str,
    condition: str,
    seed: int,
    curves: bool,
    workers: int | None,
    engine: str,
    scheduler: str | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Run policies over the episodes in SOURCES: files of JSON lines, or folders of them.

    Without SOURCES, synthetic episodes of 100, 1,000 and 10,000 steps are made in four regimes. An interrupted run goes
    on where it stopped when it is called again; one worker or many give the same results, to the byte.
    """
    from standfast.bench import engines  # noqa: PLC0415  # Help must not wait for the benchmark.
    from standfast.bench.grid import PRIMARY_BUDGETS, Folder, plan_grid, run_grid  # noqa: PLC0415  # As above.
    from standfast.bench.sources.collection import default_files, episode_files  # noqa: PLC0415  # As above.
    from standfast.cli.options import progress_bar  # noqa: PLC0415  # As above.
    from standfast.policies.bytes import ByteModel  # noqa: PLC0415  # As above.
    from standfast.policies.registry import names  # noqa: PLC0415  # As above.

    if (engine == "dask") != (scheduler is not None):
        raise click.UsageError("--engine dask and --scheduler go together")
    chosen = engines.dask(scheduler) if scheduler is not None else engines.processes(workers)
    grid, units = plan_grid(
        episode_files(sources) if sources else default_files(out),
        budgets=budgets or PRIMARY_BUDGETS,
        policies=policies or names(),
        seed=seed,
        byte_model=ByteModel(byte_model),
        condition=condition,
        curves=curves,
    )
    folder = Folder(out)
    folder.open(grid, fresh=fresh)
    with progress_bar("running", quiet=as_json) as progress:
        rows = run_grid(grid, units, folder, chosen, progress)
    if as_json:
        print_json({"out": out, "rows": rows, "units": len(units), "code": grid.code})
    else:
        click.echo(f"{rows} rows from {len(units)} units in {out}; next: standfast bench leaderboard {out}")
