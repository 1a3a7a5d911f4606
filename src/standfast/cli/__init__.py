"""The command line: each command parses, calls one method, prints. One command a file, named as the command is."""

from typing import Any, Final

import click

from standfast.cli.lazy import LazyGroup
from standfast.cli.output import INTERRUPTED, Failure, Misuse, note_json, wants_json
from standfast.errors import StandfastError

# What each is for, told here so that help need not load them; a test holds the commands to it.
COMMANDS: Final = {
    "approvals": "What waits for a human's signature.",
    "at": "Every record that a snapshot shows.",
    "backup": "Copy a whole store, verifying it on the way.",
    "bench": "Grade write policies under byte budgets, and deploy the winner.",
    "canon": "Print the canonical form of a JSON text and its fingerprint.",
    "demo": "Take a short tour of what exists.",
    "diff": "What two snapshots show differently.",
    "doctor": "Walk the whole store and tell of each problem below governance.",
    "export": "Print every record as JSON lines.",
    "forget": "End what is known of a subject, and erase what it said.",
    "history": "Every version of a subject, with verdict and evidence.",
    "import": "Store every line of a file as a record.",
    "init": "Make a store here, with settings and keys.",
    "keys": "Who may come in through the doors: make, list and revoke API keys.",
    "mcp": "Serve memory to one MCP client over standard input and output.",
    "optimize": "Shorten a prompt, prove that it got no worse, apply it, roll it back.",
    "read": "Print what memory holds on a question, for a prompt, within a token budget.",
    "receipt": "Print proof that an entry is in the ledger.",
    "recover": "Finish what crashed processes left behind.",
    "remember": "Have something judged, and remembered if it may be.",
    "retention": "How long memory is kept: sweep, or rehearse it.",
    "serve": "Serve memory over HTTP, and MCP beside it.",
    "trace": "Read traces of recorded runs, compare them, play them again.",
    "verify": "Walk everything: storage, ledger, checkpoints, evidence, seals.",
}


class _Door(LazyGroup):
    """Tells our errors in words."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        note_json(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StandfastError as error:
            raise Failure(error) from error
        except click.ClickException as error:
            raise (Misuse(error) if wants_json(ctx) else error) from None
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise SystemExit(INTERRUPTED) from None


@click.group(
    cls=_Door,
    modules={name: f"standfast.cli.{'import_' if name == 'import' else name}" for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 the answer is no; 2 the call or its input was wrong; 130 interrupted. "
    'Shell completion: eval "$(_STANDFAST_COMPLETE=bash_source standfast)", or zsh_source, fish_source.',
)
@click.version_option(package_name="standfast", message="standfast %(version)s")
def main() -> None:
    """Memory that an AI agent can be held to: judged, budgeted, reproducible, and never lost."""
