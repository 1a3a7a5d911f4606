"""``holdfast trace``: what recorded runs did, and whether two did the same. One command a file."""

from importlib import import_module
from typing import Final

import click

COMMANDS: Final = ("compare", "replay", "show", "validate")


class _Traces(click.Group):
    """Imports a command only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"holdfast.cli.trace.{cmd_name}").command
        return command


@click.group("trace", cls=_Traces)
def command() -> None:
    """Read the traces of recorded runs, compare them, and play them again."""
