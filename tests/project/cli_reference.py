"""docs/cli.md, written from the commands' own help: ``make cli-docs`` prints it, a test compares it."""

from collections.abc import Iterator

import click

from standfast.cli import main

HEADER = """\
# The command line

Written by `make cli-docs` from the commands' own help; a test fails when the two differ.

Every command that answers has `--json`, which prints one JSON object; errors then come as `{"error": …}` with a stable
`code`, `usage` for a call that is not understood.

| exit code | means | and what was under way |
|---|---|---|
| 0 | done | is done, durably |
| 1 | the answer is no: refused, different, not proven, nothing known, or you said no | what was refused is kept as such |
| 2 | the call, its input, the settings or the store was wrong, or the disk failed; the message and its code say which | nothing was changed, or the message says how to learn it |
| 130 | interrupted by Ctrl-C (for `standfast serve` that is the way to end it: it finishes what it answers, and gives 0) | happened in full or not at all; what was acknowledged is there |

Shell completion: `eval "$(_STANDFAST_COMPLETE=bash_source standfast)"`, or `zsh_source`, or `fish_source`.
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
        for context in contexts(main, "standfast")
    ]
    return "\n".join([HEADER, *pages])


if __name__ == "__main__":
    click.echo(reference(), nl=False)
