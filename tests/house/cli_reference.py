"""docs/cli.md, written from the commands' own help: ``make cli-docs`` prints it, a test compares it."""

from collections.abc import Iterator

import click

from holdfast.cli import main

HEADER = """\
# The command line

Written by `make cli-docs` from the commands' own help; a test fails when the two differ.

Every command that answers has `--json`, which prints one JSON object; errors then come as `{"error": …}` with a stable
`code`. Exit codes: 0 done, 1 the answer is no, 2 the call or its input was wrong, 130 interrupted.
"""


def contexts(
    command: click.Command, path: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """The context of a command and of every command below it, as click itself would make them."""
    context = command.make_context(path, [], parent=parent, resilient_parsing=True, terminal_width=100)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from contexts(below, name, context)


def reference() -> str:
    """The whole page."""
    pages = [
        f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
        for context in contexts(main, "holdfast")
    ]
    return "\n".join([HEADER, *pages])


if __name__ == "__main__":
    click.echo(reference(), nl=False)
