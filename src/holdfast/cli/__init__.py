"""The command line: each command parses, calls one method, prints. One command a file."""

from importlib import import_module
from typing import Any, Final

import click

from holdfast.cli.output import INTERRUPTED, Failure
from holdfast.errors import HoldfastError

COMMANDS: Final = {
    "backup": "holdfast.cli.backup",
    "bench": "holdfast.cli.bench",
    "canon": "holdfast.cli.canon",
    "demo": "holdfast.cli.demo",
    "doctor": "holdfast.cli.doctor",
    "export": "holdfast.cli.export",
    "import": "holdfast.cli.import_",
    "recover": "holdfast.cli.recover",
}


class _Door(click.Group):
    """Imports a command only when it is asked for, so that help is quick, and tells our errors in words."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            raise Failure(error) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise SystemExit(INTERRUPTED) from None


@click.group(
    cls=_Door,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 the answer is no; 2 the call or its input was wrong; 130 interrupted.",
)
@click.version_option(package_name="holdfast", message="holdfast %(version)s")
def main() -> None:
    """Memory that an AI agent can be held to: judged, budgeted, reproducible, and never lost."""
