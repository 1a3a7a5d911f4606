"""``holdfast bench``: which write policy keeps what matters when bytes run out. Each command below it is a file of its own."""

from importlib import import_module
from typing import Final

import click

BELOW: Final = ("generate", "import", "leaderboard", "manifest", "policies", "report", "run")


class _Below(click.Group):
    """Imports a command only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(BELOW)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in BELOW:
            return None
        found: click.Command = import_module(f"holdfast.cli.bench_{cmd_name}").command
        return found


@click.group("bench", cls=_Below)
def command() -> None:
    """Find out which write policy keeps what matters when bytes run out, and deploy the winner.

    Plots and regret curves need 'pip install holdfast[bench]', a Dask cluster 'pip install holdfast[dask]'.
    """
