"""How every command speaks: words for people, one JSON object for machines (``--json``), and errors in either form."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from standfast.errors import StandfastError

ANSWER_IS_NO: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
_JSON: Final = "standfast.json"
_F = TypeVar("_F", bound=Callable[..., Any])


def json_option(command: _F) -> _F:
    """Give a command ``--json``; errors follow it too."""

    def remember(context: click.Context, _: click.Parameter, as_json: bool) -> bool:
        context.meta[_JSON] = as_json
        return as_json

    option = click.option(
        "--json", "as_json", is_flag=True, callback=remember, help="Print one JSON object, for machines."
    )
    return option(command)


def note_json(context: click.Context, words: list[str]) -> None:
    """Whether ``--json`` is asked for, seen before all words are understood, so that a mistake in them is told in that form."""
    options = words[: words.index("--")] if "--" in words else words
    context.meta[_JSON] = "--json" in options


def print_json(answer: dict[str, Any]) -> None:
    """Print one JSON object on one line, keys in the order in which they are told."""
    click.echo(json.dumps(answer, ensure_ascii=False))


class Failure(click.ClickException):
    """One of our errors at the door: told in words on stderr, or as an object on stdout with ``--json``."""

    exit_code = BAD_INPUT

    def __init__(self, error: StandfastError) -> None:
        super().__init__(str(error))
        self.error = error
        self.as_json = bool(click.get_current_context().meta.get(_JSON))

    def show(self, file: Any = None) -> None:
        """Print the error where a reader of this command's output looks for it."""
        if self.as_json:
            print_json({"error": self.error.as_json()})
        else:
            click.echo(f"Error: {self.message} [{self.error.code}]", file=file, err=True)


class Misuse(click.ClickException):
    """A call that click can't make sense of, for machines: an object on stdout, as all errors are with ``--json``."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.format_message())
        self.exit_code = error.exit_code  # type: ignore[misc]  # click reads it off the instance.

    def show(self, file: Any = None) -> None:  # noqa: ARG002  # click's signature; machines read stdout.
        """Print it as the other errors are printed."""
        print_json({"error": {"code": "usage", "message": self.message, "facts": {}}})


def wants_json(context: click.Context) -> bool:
    """Whether the answer, and so an error, is for a machine."""
    return bool(context.meta.get(_JSON))
