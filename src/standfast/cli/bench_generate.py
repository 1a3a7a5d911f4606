"""``standfast bench generate``: synthetic episodes from a seed."""

import os
from pathlib import Path

import click

from standfast.cli.output import json_option, print_json
from standfast.limits import MAX_EPISODE_STEPS, MAX_GENERATED_EPISODES


@click.command("generate")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "--regime",
    type=click.Choice(["default", "bursts", "redundancy", "bursts_redundancy", "adversarial"]),
    default="default",
    show_default=True,
)
@click.option("--steps", type=click.IntRange(1, MAX_EPISODE_STEPS), default=100, show_default=True)
@click.option("--episodes", type=click.IntRange(1, MAX_GENERATED_EPISODES), default=10, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--drift-rate", type=click.FloatRange(0, 1), default=0.12, show_default=True)
@click.option("--against", default=None, help="The policy that adversarial drift is made against.")
@click.option(
    "--against-budget", type=click.IntRange(1), default=10_240, show_default=True, help="Its bytes."
)
@json_option
def command(  # noqa: PLR0917  # One argument for each option.
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
    """Write synthetic episodes into FOLDER. The same settings give the same bytes, on every machine."""
    from standfast.bench.files import file_hash, write_jsonl  # noqa: PLC0415  # Help must not wait for the benchmark.
    from standfast.bench.sources.adversarial import generate_against  # noqa: PLC0415  # As above.
    from standfast.bench.sources.collection import synthetic_name  # noqa: PLC0415  # As above.
    from standfast.bench.sources.synthetic import DriftSettings, Regime, generate  # noqa: PLC0415  # As above.

    if (regime == "adversarial") != (against is not None):
        raise click.UsageError("--regime adversarial and --against go together")
    settings = DriftSettings(steps=steps, regime=Regime(regime), seed=seed, drift_rate=drift_rate)
    file = os.fspath(Path(folder) / synthetic_name(settings, episodes, against))
    if against is not None:
        made = (generate_against(settings, number, against, against_budget) for number in range(episodes))
    else:
        made = (generate(settings, number) for number in range(episodes))
    count = write_jsonl(file, made)
    if as_json:
        print_json({"file": file, "episodes": count, "sha256": file_hash(file)})
    else:
        click.echo(f"{count} episodes in {file}")
