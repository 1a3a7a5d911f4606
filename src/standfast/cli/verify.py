"""``standfast verify``: whether memory is what was written, judged and sealed."""

from pathlib import Path

import click
from rich.console import Console

from standfast.canon import parse
from standfast.cli.options import memory, settings, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.errors import BrokenChain, Corruption, NotProven
from standfast.ledger.checkpoint import InclusionReceipt, verify_receipt
from standfast.ledger.note import VerifyingKey


@click.command("verify")
@click.option(
    "--receipt", type=click.Path(exists=True, dir_okay=False), help="Check a receipt instead; needs no store."
)
@click.option("--public-key", help="The log's public key, as a word or a file; by default <store>-log.pub.")
@store_option
@json_option
def command(receipt: str | None, public_key: str | None, store_url: str | None, as_json: bool) -> None:
    """Walk everything: storage, ledger, signed checkpoints, commits, evidence, seals. The first break is told first.

    With --receipt, check one entry's proof offline, with the public key alone. Exit code 1 if anything is wrong.
    """
    name = store_url or settings().store
    if receipt is not None:
        _verify_receipt(receipt, public_key or f"{name}-log.pub", as_json=as_json)
        return
    problems: list[str] = []
    counts: dict[str, int | None] = {"snapshots": None, "entries": None}
    try:
        # Who only verifies signs nothing: what they were asked to doubt is not theirs to vouch for.
        with memory(store_url, None, signs=False) as opened, Console(stderr=True).status(f"walking {name} …"):
            problems += opened.verify()
            counts = {"snapshots": opened.store.head(), "entries": sum(1 for _ in opened.store.entries())}
    except (Corruption, BrokenChain) as error:
        if str(error) not in problems:
            problems.append(str(error))
    if as_json:
        print_json({"store": name, **counts, "problems": problems})
    else:
        for problem in problems:
            click.echo(f"✗ {problem}")
        summary = f"{counts['snapshots']} snapshots and {counts['entries']} ledger entries hold"
        click.echo(f"{name}: {len(problems)} problems" if problems else f"{name}: {summary}")
    if problems:
        raise SystemExit(ANSWER_IS_NO)


def _verify_receipt(path: str, public_key: str, *, as_json: bool) -> None:
    known = Path(public_key).read_text(encoding="ascii").strip() if Path(public_key).is_file() else public_key
    key = VerifyingKey.parse(known)
    told = None
    try:
        told = verify_receipt(InclusionReceipt.from_json(parse(Path(path).read_bytes())), key)
        problem = None
    except NotProven as error:
        problem = str(error)
    if as_json:
        print_json({"receipt": path, "log": key.name, "entry": told, "problem": problem})
    elif told is not None:
        click.echo(f"{path}: {key.name} vouches for entry {told['seq']}, a {told['kind']} of {told['at']}")
    else:
        click.echo(f"✗ {path}: {problem}")
    if problem is not None:
        raise SystemExit(ANSWER_IS_NO)
