"""``standfast canon``: the canonical form of a JSON text, for people who check fingerprints by hand."""

from typing import BinaryIO

import click

from standfast.canon import NORMALIZATION_VERSION, canonical_bytes, fingerprint_of_bytes, parse
from standfast.cli.output import json_option, print_json


@click.command("canon")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--fingerprint", "only_fingerprint", is_flag=True, help="Print the SHA-256 instead of the text."
)
@json_option
def command(file: BinaryIO, only_fingerprint: bool, as_json: bool) -> None:
    """Print the json-v1 form of the JSON text in FILE (or of standard input).

    The same value gives the same bytes everywhere; a text that json-v1 refuses is told why and where.
    """
    canonical = canonical_bytes(parse(file.read()))
    digest = fingerprint_of_bytes(canonical)
    if as_json:
        print_json(
            {
                "normalization_version": NORMALIZATION_VERSION,
                "canonical": canonical.decode(),
                "fingerprint": digest,
            }
        )
    else:
        click.echo(digest if only_fingerprint else canonical)
