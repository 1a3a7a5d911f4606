"""``standfast trace validate``: whether artifacts keep to the contract."""

from pathlib import Path

import click

from standfast.cli.output import BAD_INPUT, json_option, print_json
from standfast.cli.trace.telling import fall_told
from standfast.errors import TraceError
from standfast.traces.artifact import Trace
from standfast.traces.contract import Shortfall, shortfall_of_error, shortfalls
from standfast.traces.folder import read_artifact


@click.command("validate", epilog="Exit codes: 0 all of them; 2 at least one does not.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Check that each of FILES is a trace from which claims may be made: schema, hash, and the full trace contract."""
    found = {name: _shortfalls(Path(name)) for name in files}
    if as_json:
        print_json({name: [fall.as_json() for fall in short] for name, short in found.items()})
    else:
        for name, short in found.items():
            click.echo(f"{name}: {'claims nothing' if short else 'keeps the contract'}")
            for fall in short:
                click.echo(f"  ✗ {fall_told(fall)}")
    if any(found.values()):
        raise SystemExit(BAD_INPUT)


def _shortfalls(file: Path) -> tuple[Shortfall, ...]:
    try:
        return shortfalls(Trace.read(read_artifact(file)))
    except TraceError as error:
        return (shortfall_of_error(error),)
