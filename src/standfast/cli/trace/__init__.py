"""``standfast trace``: what recorded runs did, and whether two did the same. One command a file."""

from typing import Final

import click

from standfast.cli.lazy import LazyGroup

COMMANDS: Final = ("compare", "replay", "show", "validate")


@click.group("trace", cls=LazyGroup, modules={name: f"standfast.cli.trace.{name}" for name in COMMANDS})
def command() -> None:
    """Read the traces of recorded runs, compare them, and play them again."""
