"""``standfast bench``: which write policy keeps what matters when bytes run out. Each command below it is a file of its own."""

from typing import Final

import click

from standfast.cli.output import LazyGroup

BELOW: Final = ("generate", "import", "leaderboard", "manifest", "policies", "report", "run")


@click.group(
    "bench", cls=LazyGroup, commands_at={name: f"standfast.cli.bench_{name}:command" for name in BELOW}
)
def command() -> None:
    """Find out which write policy keeps what matters when bytes run out, and deploy the winner.

    Plots and regret curves need 'pip install standfast[bench]', a Dask cluster 'pip install standfast[dask]'.
    """
