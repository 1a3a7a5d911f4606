"""A group of commands that imports one only when it is asked for, so that help and every other command are quick."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by name, each with the module that has it as ``command``."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """All names, in order."""
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """The command of that name, if there is one."""
        if cmd_name not in self._modules:
            return None
        found: click.Command = import_module(self._modules[cmd_name]).command
        return found
