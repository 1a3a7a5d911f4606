"""What every command prints and returns: text, or one JSON object with ``--json``; errors too.

Loaded for every call, ``--help`` included, so it imports nothing heavy.
"""

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import click

from standfast.errors import StandfastError
from standfast.extensions import Command, extensions, part_at

ANSWER_IS_NO: Final = 1
BAD_INPUT: Final = 2
UNSIGNED_TAIL: Final = 3
INTERRUPTED: Final = 130
_JSON: Final = "standfast.json"
_F = TypeVar("_F", bound=Callable[..., Any])


def json_option(command: _F) -> _F:
    """Add ``--json`` to a command; its errors are then printed as JSON too."""

    def store(context: click.Context, _: click.Parameter, as_json: bool) -> bool:
        context.meta[_JSON] = as_json
        return as_json

    option = click.option(
        "--json", "as_json", is_flag=True, callback=store, help="Print one JSON object, for programs."
    )
    return option(command)


def counted(number: int, what: str) -> str:
    """A number with its noun: ``1 record``, ``2,000 records``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_json(answer: dict[str, Any]) -> None:
    """Print one JSON object on one line, with its keys in the given order."""
    click.echo(json.dumps(answer, ensure_ascii=False))


def _print_os_error(error: OSError, *, as_json: bool) -> None:
    """Print why a file, or standard output itself, could not be used."""
    message = f"{error.filename or 'standard output'}: {error.strerror or error}"
    if as_json:
        # It may be standard output that can't be written.
        with suppress(OSError):
            print_json({"error": {"code": "os_error", "message": message, "facts": {}}})
    else:
        click.echo(f"Error: {message} [os_error]", err=True)


class CommandError(click.ClickException):
    """A ``StandfastError`` on the command line: text on stderr, or with ``--json`` an object on stdout."""

    exit_code = BAD_INPUT

    def __init__(self, error: StandfastError) -> None:
        super().__init__(str(error))
        self.error = error
        self.as_json = bool(click.get_current_context().meta.get(_JSON))

    def show(self, file: Any = None) -> None:
        """Print the error."""
        if self.as_json:
            print_json({"error": self.error.as_json()})
        else:
            click.echo(f"Error: {self.message} [{self.error.code}]", file=file, err=True)


class JsonUsageError(click.ClickException):
    """A usage error of click's with ``--json``: an object on stdout with the code ``usage``."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.format_message())
        self.exit_code = error.exit_code  # type: ignore[misc]  # click reads it off the instance.

    def show(self, file: Any = None) -> None:  # noqa: ARG002  # click's signature; programs read stdout.
        """Print the error."""
        print_json({"error": {"code": "usage", "message": self.message, "facts": {}}})


class RootGroup(click.Group):
    """The ``standfast`` command. It lists commands by heading and prints every error as text or JSON.

    A command is imported only when it is called, so that help and the other commands start fast.

    Args:
        own: The commands of the core by name. Extensions bring others, which can't replace these.
        headings: The headings of help, in order. Headings of extensions come before the last of them.
    """

    def __init__(
        self, *args: Any, own: Mapping[str, Command], headings: Sequence[str], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._own = own
        self._headings = headings

    def known_commands(self) -> dict[str, Command]:
        """All commands by name: the core's, then those of the extensions."""
        return {name: one for part in extensions() for name, one in part.commands.items()} | dict(self._own)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """All command names, sorted."""
        return sorted(self.known_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import the command of that name; None if there is none."""
        known = self._own.get(cmd_name) or self.known_commands().get(cmd_name)
        command: click.Command | None = part_at(known.at) if known else None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """List the commands by heading without importing them."""
        listed: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self._headings[:-1]}
        commands = self.known_commands()
        for name in (*self._own, *sorted(set(commands) - set(self._own))):
            listed.setdefault(commands[name].heading, []).append((name, commands[name].summary))
        last = self._headings[-1]
        for heading in (*(one for one in listed if one != last), last):
            if rows := listed.get(heading):
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look for ``--json`` before parsing, so that a usage error is printed in that form too."""
        options = args[: args.index("--")] if "--" in args else args
        ctx.meta[_JSON] = "--json" in options
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and turn its errors into messages and exit codes."""
        try:
            return super().invoke(ctx)
        except StandfastError as error:
            raise CommandError(error) from error
        except click.ClickException as error:
            raise (JsonUsageError(error) if ctx.meta.get(_JSON) else error) from None
        except click.Abort:
            if not ctx.meta.get(_JSON):
                raise
            # A question was answered with no, or nobody was there to answer it.
            message = "Nothing was done: the question was not answered with yes. --yes answers it."
            print_json({"error": {"code": "declined", "message": message, "facts": {}}})
            raise SystemExit(ANSWER_IS_NO) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            _print_os_error(error, as_json=bool(ctx.meta.get(_JSON)))
            raise SystemExit(BAD_INPUT) from None
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise SystemExit(INTERRUPTED) from None
