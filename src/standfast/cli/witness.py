"""``standfast witness``: cosigns the checkpoints of other stores."""

from pathlib import Path

import click

from standfast.cli.options import public_key_in
from standfast.cli.output import json_option, print_json
from standfast.clock import SystemClock
from standfast.errors import InvalidValue
from standfast.ledger.cosigning import Witness
from standfast.ledger.note import KeyFile, VerifyingKey


@click.command("witness")
@click.option("--name", required=True, help="The witness's name, e.g. witness.example/w1.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    required=True,
    help="The public key of a log, or a file that holds it (agent.db-files/log.pub). Repeatable.",
)
@click.option(
    "--folder",
    default="witness",
    type=click.Path(file_okay=False),
    help="Where its key and the newest checkpoint of each log are kept.",
)
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option(
    "--port", default=8990, type=click.IntRange(0, 65_535), help="The port; 0 for any that is free."
)
@json_option
def witness_command(
    name: str, logs: tuple[str, ...], folder: str, host: str, port: int, as_json: bool
) -> None:
    """Run a witness (c2sp.org/tlog-witness): it cosigns a checkpoint only if it extends the one before it.

    Run it where the owner of the store has no access. It prints its public key, which goes into the settings
    witness and witness_key of the store. Requests are authenticated by the log's signature.
    """
    keys = [_key_of_log(one) for one in logs]
    try:
        place = Path(folder)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        witness = Witness(KeyFile(place / "witness.key", name=name).load(), keys, place, clock=SystemClock())
        server = witness.served(host, port)
    except (OSError, OverflowError, ValueError) as error:
        raise InvalidValue(what="witness", problem=f"it can't be started: {error}") from None
    with server:
        settings = {
            "witness": f"http://{host}:{server.server_address[1]}",
            "witness_key": witness.public_key.text,
        }
        if as_json:
            print_json(settings)
        else:
            click.echo("\n".join(f'{setting} = "{value}"' for setting, value in settings.items()))
        server.serve_forever()


def _key_of_log(place: str) -> VerifyingKey:
    try:
        return public_key_in(place)
    except InvalidValue as error:
        raise InvalidValue(what="--log", problem=str(error.facts["problem"])) from None
    except (OSError, ValueError) as error:
        raise InvalidValue(what="--log", problem=f"it can't be read: {error}") from None
