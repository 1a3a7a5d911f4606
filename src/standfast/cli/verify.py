"""``standfast verify``, ``doctor``, ``receipt``, ``canon``: whether the stored bytes are what was written."""

from pathlib import Path
from typing import BinaryIO

import click
from rich.console import Console

from standfast.cli.options import (
    load_settings,
    opened_memory,
    opened_store,
    progress_bar,
    public_key_in,
    store_option,
)
from standfast.cli.output import ANSWER_IS_NO, UNSIGNED_TAIL, json_option, print_json
from standfast.errors import BrokenChain, Corruption, NotProven
from standfast.ledger.checkpoint import CheckpointFile, InclusionReceipt, verify_receipt
from standfast.ledger.note import VerifyingKey
from standfast.ledger.witness import LedgerState, Verification
from standfast.memory.watch import watch_sources
from standfast.records.canon import NORMALIZATION_VERSION, canonical_bytes, fingerprint_of_bytes, parse
from standfast.side_files import SideFiles
from standfast.store.restore import Restoration, restorations_of


@click.command("verify")
@click.option(
    "--receipt", type=click.Path(exists=True, dir_okay=False), help="Check this receipt instead of a store."
)
@click.option(
    "--checkpoints",
    type=click.Path(exists=True, dir_okay=False),
    help="Hold the ledger also against these checkpoints, which you kept elsewhere.",
)
@click.option("--public-key", help="The log's public key, or a file that holds it. [<store>-files/log.pub]")
@store_option
@json_option
def verify_command(
    receipt: str | None, checkpoints: str | None, public_key: str | None, store_url: str | None, as_json: bool
) -> None:
    """Verify everything: storage, ledger, signed checkpoints, commits, evidence, signatures.

    It tells three states apart. Sound: exit code 0. Unsigned tail, a warning: the newest entries are not
    covered by a signed checkpoint yet, as after a crash; exit code 3. Broken: something contradicts; exit
    code 1. With --receipt, check one entry's proof offline, with the public key alone.
    """
    store = load_settings(store_url=store_url).store
    if receipt is not None:
        _verify_receipt(receipt, public_key or _own_public_key(store), as_json=as_json)
        return
    restored: list[Restoration] = []
    try:
        # Verifying must not sign a head that may turn out to be wrong.
        with (
            opened_memory(store_url, None, sign=False) as memory,
            progress_bar("verifying snapshots", quiet=as_json) as progress,
        ):
            kept = _kept_checkpoints(checkpoints, public_key or _own_public_key(store))
            found = memory.verification(*kept, progress=progress)
            restored = restorations_of(memory.store)
    except (Corruption, BrokenChain) as error:
        found = Verification(state=LedgerState.BROKEN, problems=(str(error),))
    if as_json:
        restorations = [one.as_json() for one in restored]
        unsigned = found.tail.unsigned_entries
        summary = {**found.tail.as_json(), "unsigned_entries": unsigned, "summary": found.tail.summary}
        print_json({"store": store, **found.as_json(), "restored": restorations, "tail": summary})
    else:
        for line in [*(one.summary for one in restored), *found.notices, found.summary]:
            click.echo(line)
        verified = f"{found.snapshots} snapshots and {found.entries} ledger entries verified"
        _print_problems(store, list(found.problems), verified)
    if found.state is not LedgerState.SOUND:
        raise SystemExit(ANSWER_IS_NO if found.problems else UNSIGNED_TAIL)


def _own_public_key(store: str) -> str:
    """Where the public key of a store's own log is."""
    files = SideFiles.of(store)
    return "" if files is None else str(files.public_key)


def _kept_checkpoints(path: str | None, public_key: str) -> tuple[tuple[str, ...], tuple[VerifyingKey, ...]]:
    """The checkpoints in a file that somebody kept, and the key that must have signed them."""
    if path is None:
        return (), ()
    found = CheckpointFile(path).read()
    if not found.notes:
        raise click.UsageError(
            f"{path} holds no checkpoint; give a copy of a file such as agent.db-files/checkpoints"
        )
    return found.notes, (public_key_in(public_key),)


def _verify_receipt(path: str, public_key: str, *, as_json: bool) -> None:
    key = public_key_in(public_key)
    entry = problem = None
    try:
        entry = verify_receipt(InclusionReceipt.from_json(parse(Path(path).read_bytes())), key)
    except NotProven as error:
        problem = str(error)
    if as_json:
        print_json({"receipt": path, "log": key.name, "entry": entry, "problem": problem})
    elif entry is not None:
        click.echo(
            f"{path}: {key.name} vouches for entry {entry['seq']}, kind {entry['kind']}, of {entry['at']}"
        )
    else:
        click.echo(f"✗ {path}: {problem}")
    if problem is not None:
        raise SystemExit(ANSWER_IS_NO)


@click.command("receipt")
@click.argument("entry", type=click.IntRange(1))
@store_option
@json_option
def receipt_command(entry: int, store_url: str | None, as_json: bool) -> None:  # noqa: ARG001  # A receipt is JSON anyway; errors follow the flag.
    """Print a receipt for ledger entry number ENTRY: the entry, its inclusion proof and a signed checkpoint.

    Keep it in a file. `standfast verify --receipt FILE` checks it later with the public key alone.
    """
    with opened_memory(store_url, None) as memory:
        click.echo(canonical_bytes(memory.receipt(entry).as_json()).decode())


@click.command("doctor")
@store_option
@click.option("--rebuild", is_flag=True, help="Rebuild every index from the records first.")
@json_option
def doctor_command(store_url: str | None, rebuild: bool, as_json: bool) -> None:
    """Check a store for damage: pages, indexes, record fingerprints, commits, the ledger's hash chain.

    It also names sources that had much more refused, disputed or quarantined in the last 7 days than before;
    docs/incidents.md has the rule. Exit code 1 if there is a problem, which such a source is not.
    """
    name = load_settings(store_url=store_url).store
    problems: list[str] = []
    head = watch = None
    try:
        with (
            opened_store(store_url, recover=False) as store,
            Console(stderr=True).status(f"checking {name} …"),
        ):
            problems += store.verify(rebuild_indexes=rebuild)
            head = store.head()
            if not problems:  # Rows that are damaged can't be counted.
                watch = watch_sources(store, store.namespaces(), now=store.clock.now())
    except (Corruption, BrokenChain) as error:
        problems.append(str(error))
    if as_json:
        watched = None if watch is None else watch.as_json()
        print_json({"store": name, "head": head, "rebuilt": rebuild, "problems": problems, "watch": watched})
    else:
        for source in watch.sources if watch else ():
            click.echo(f"! {source.summary}")
        if watch is not None and watch.is_cut:
            click.echo(f"The watch on sources read the newest {watch.commits:,} commits only.")
        _print_problems(name, problems, f"no problem in {head} snapshots")
    if problems:
        raise SystemExit(ANSWER_IS_NO)


def _print_problems(store: str, problems: list[str], summary: str) -> None:
    for problem in problems:
        click.echo(f"✗ {problem}")
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    click.echo(f"{store}: {count if problems else summary}")


@click.command("canon")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--fingerprint", "only_fingerprint", is_flag=True, help="Print the SHA-256 instead of the text."
)
@json_option
def canon_command(file: BinaryIO, only_fingerprint: bool, as_json: bool) -> None:
    """Print the canonical form (json-v1) of the JSON text in FILE or on standard input.

    Equal values give equal bytes. A value that json-v1 does not allow is refused, with reason and place.
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
