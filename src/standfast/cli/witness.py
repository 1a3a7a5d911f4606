"""``standfast witness``: cosigns the checkpoints of other stores."""

from pathlib import Path

import click

from standfast.clock import SystemClock
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
def witness_command(name: str, logs: tuple[str, ...], folder: str, host: str, port: int) -> None:
    """Run a witness (c2sp.org/tlog-witness): it cosigns a checkpoint only if it extends the one before it.

    Run it where the owner of the store has no access. It prints its public key, which goes into the settings
    witness and witness_key of the store. Requests are authenticated by the log's signature.
    """
    place = Path(folder)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = KeyFile(place / "witness.key", name=name).load()
    keys = [
        VerifyingKey.parse(Path(one).read_text(encoding="ascii").strip() if Path(one).is_file() else one)
        for one in logs
    ]
    witness = Witness(key, keys, place, clock=SystemClock())
    with witness.served(host, port) as server:
        click.echo(f'witness_key = "{witness.public_key.text}"')
        click.echo(f'witness = "http://{host}:{server.server_address[1]}"')
        server.serve_forever()
