"""``standfast init``, ``backup``, ``restore``, ``recover``, ``retention``, ``index`` and ``vectors``."""

import getpass
import os
from collections import Counter
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console

from standfast.cli.options import (
    MemoryTarget,
    load_settings,
    memory_options,
    opened_memory,
    opened_store,
    progress_bar,
    store_option,
)
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.memory import VectorStatus
from standfast.recall.index.upkeep import IndexStatus
from standfast.records.vocabulary import Receipt
from standfast.settings import FILE_NAME
from standfast.store.opening import open_store
from standfast.store.restore import accept_restored, copy_side_files, restore_copy
from standfast.wiring import notary_of

_SETTINGS_FILE: Final = """\
# Settings of this deployment. Each can also be set by an environment variable (STANDFAST_STORE, …), which wins.
store = "{store}"
namespace = "{namespace}"
# Who may sign law: a file in the form of OpenSSH's allowed_signers.
signers = "{signers}"
"""  # noqa: E501  # A text as a whole.
_SIGNERS_FILE: Final = """\
# Who may sign law. One line for each person; valid-after and valid-before are optional:
# alice@example.com namespaces="standfast-seal",valid-before="20270101Z" ssh-ed25519 AAAA…
"""
_MOST_LISTED: Final = 20


@click.command("init")
@store_option
@json_option
def init_command(store_url: str | None, as_json: bool) -> None:
    """Create a store in this folder, with settings, a list of signers and the key that signs the ledger.

    Existing files are not changed.
    """
    settings = load_settings(store_url=store_url)
    store, made = settings.store, []
    if not Path(FILE_NAME).exists():
        text = _SETTINGS_FILE.format(store=store, namespace=settings.namespace, signers=settings.signers)
        Path(FILE_NAME).write_text(text, encoding="utf-8")
        made.append(FILE_NAME)
    if not Path(settings.signers).exists():
        Path(settings.signers).write_text(_SIGNERS_FILE, encoding="utf-8")
        made.append(settings.signers)
    is_new = "://" not in store and not os.path.exists(store)  # noqa: PTH110  # A string from settings.
    with opened_memory(store, None, create=True) as memory:
        memory.checkpoint()
        head = memory.store.head()
    made += [store] if is_new else []
    if as_json:
        print_json({"store": store, "head": head, "made": made})
        return
    click.echo(f"{store}: ready, at snapshot {head}" + (f"; created {', '.join(made)}" if made else ""))
    click.echo(
        'Next: standfast remember "EU refunds take 14 days." --subject policy/eu-refunds --source'
        " doc:handbook#4"
    )


@click.command("backup")
@click.argument("target")
@store_option
@json_option
def backup_command(target: str, store_url: str | None, as_json: bool) -> None:
    """Copy the store to TARGET: the path of a new SQLite file, or postgresql://….

    The copy shows one moment, even while others write, and every record and ledger entry is verified. If
    TARGET holds an earlier copy of the same store, it is brought up to date.
    """
    with opened_store(store_url) as source, progress_bar("copying snapshots", quiet=as_json) as progress:
        copy = open_store(target, create=True, recover=False)
        try:
            before = copy.head()
            head = source.backup_to(copy, progress=progress)
            entries = sum(1 for _ in copy.entries(copy.commit_of(head).ledger_seq if head else 0))
            entries += copy.commit_of(head).ledger_seq if head else 0
        finally:
            copy.close()
        copy_side_files(load_settings(store_url=store_url).store, target, entries=entries)
    if as_json:
        print_json({"target": target, "head": head, "copied": head - before})
    else:
        click.echo(f"{target}: {head - before} snapshots copied, now at {head}")


@click.command("restore")
@click.argument("backup", required=False)
@click.option("--replace", is_flag=True, help="Set a store's file that is there aside, under another name.")
@click.option("--reason", default="restored from a backup", help="Goes into the ledger.")
@store_option
@json_option
def restore_command(
    backup: str | None, replace: bool, reason: str, store_url: str | None, as_json: bool
) -> None:
    """Put BACKUP, a copy made by `standfast backup`, in the place of the store, and begin a new branch there.

    Without BACKUP, accept the store as it is: you put an older copy there yourself, or the server's tools
    did. The ledger records the restore and what was left behind; the store verifies and can be written again.
    """
    settings = load_settings(store_url=store_url)
    with progress_bar("verifying snapshots", quiet=as_json) as progress:
        aside = (
            None
            if backup is None
            else restore_copy(backup, settings.store, replace=replace, progress=progress)
        )
        restored = accept_restored(
            settings.store,
            reason=reason,
            notary_of=lambda store: notary_of(settings, store),
            verified=backup is not None,
            progress=progress,
        )
    if as_json:
        print_json({"store": settings.store, "set_aside": aside, **restored.as_json()})
        return
    click.echo(f"{settings.store}: {restored.summary}")
    if aside is not None:
        click.echo(f"The store before is kept as {aside}.")
    click.echo("Next: standfast verify")


@click.command("recover")
@store_option
@json_option
def recover_command(store_url: str | None, as_json: bool) -> None:
    """Apply or abort the pending commits of crashed processes, and discard their open buffers.

    Opening a store does the same; run this as a worker where processes come and go. It touches only buffers
    whose lease has expired (30 seconds after the owner's last renewal), so it is safe at any time.
    """
    counts = {"applied": 0, "aborted": 0, "discarded": 0}
    with opened_store(store_url, recover=False) as store:
        while outcomes := store.recover():
            for outcome in outcomes:
                if outcome is None:
                    counts["discarded"] += 1
                else:
                    counts["applied" if isinstance(outcome, Receipt) else "aborted"] += 1
    if as_json:
        print_json(counts)
    else:
        click.echo(", ".join(f"{number} {kind}" for kind, number in counts.items()))


@click.group("retention")
def retention_command() -> None:
    """Archive and delete what is past its retention period.

    Working memory (ACTIVE) is deleted after 7 days, observations (WITNESS) and rejected texts (VOID) after
    90. Long-term memory (LEDGER) is archived after 90 days. Law (VAULT) stays. Traces are removed after
    `trace_retention_days` (14).
    """


@retention_command.command("sweep")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@memory_options
def sweep(dry_run: bool, target: MemoryTarget) -> None:
    """Archive and delete what is due, in commits of their own. The ledger records what was removed, and why.

    Deleted content is erased from every snapshot. Its fingerprints stay, so that everything still verifies
    and rejected content is recognised if it comes back.
    """
    with target.opened() as memory, Console(stderr=True).status("looking …"):
        due = [item.as_json() for item in memory.due()]
        receipts = [] if dry_run else memory.sweep()
        now, folder = memory.store.clock.now(), memory.traces
        traces = () if folder is None else folder.expire(now=now, rehearse=dry_run).removed
    if target.as_json:
        swept = [receipt.as_json() for receipt in receipts]
        print_json({"dry_run": dry_run, "due": due, "receipts": swept, "traces": list(traces)})
        return
    for item in due[:_MOST_LISTED]:
        click.echo(f"{item['action']:8} {item['key']}: {item['reason']}")
    if len(due) > _MOST_LISTED:
        click.echo(f"… and {len(due) - _MOST_LISTED} more")
    counts = Counter(str(item["action"]) for item in due)
    summary = ", ".join(f"{number} to {action}" for action, number in sorted(counts.items()))
    done = "nothing was changed" if dry_run else f"{len(receipts)} commits"
    click.echo(f"{summary or 'nothing is due'}; {done}")
    if traces:
        click.echo(f"{len(traces)} traces {'would be removed' if dry_run else 'removed'}")


@click.group("index")
def index_command() -> None:
    """Look after the index that recall reads. It is made from the records, keeps itself up to date, and can
    always be made anew.
    """


@index_command.command("status")
@memory_options
def index_status(target: MemoryTarget) -> None:
    """Show what the index covers, and how large it is."""
    with target.opened() as memory:
        _print_status(memory.reader.index.upkeep.status(), as_json=target.as_json)


@index_command.command("rebuild")
@memory_options
def index_rebuild(target: MemoryTarget) -> None:
    """Drop the index and make it anew from the records. Recall goes on meanwhile."""
    with target.opened() as memory, progress_bar("indexing snapshots", quiet=target.as_json) as progress:
        status = memory.reader.index.upkeep.rebuild(progress=progress)
    _print_status(status, as_json=target.as_json)


@index_command.command("verify")
@memory_options
def index_verify(target: MemoryTarget) -> None:
    """Compare the index with the records. Exit code 1 if they disagree."""
    name = load_settings(store_url=target.store_url).store
    with (
        target.opened(sign=False) as memory,
        Console(stderr=True).status(f"comparing the index of {name} with its records …"),
    ):
        problems = list(memory.reader.index.upkeep.problems())
        status = memory.reader.index.upkeep.status()
    if target.as_json:
        print_json({"namespace": status.namespace, "problems": problems})
    else:
        for problem in problems:
            click.echo(f"✗ {problem}")
        rows = sum(band.rows for band in status.bands)
        click.echo(
            f"{len(problems)} problems" if problems else f"the index agrees with the records; {rows:,} rows"
        )
    if problems:
        raise SystemExit(ANSWER_IS_NO)


def _print_status(status: IndexStatus, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.to_builtins(status), "behind": status.behind})
        return
    click.echo(f"{status.namespace}: {status.analysis}")
    for band in status.bands:
        click.echo(
            f"  {band.band}: {band.rows:,} rows in {band.segments} segments, {band.size_bytes:,} bytes, up to"
            f" snapshot {band.snapshot}"
        )
    click.echo(f"  {status.behind} of {status.head} snapshots are read from the records")
    if status.unused_segments:
        click.echo(f"  {status.unused_segments} segments of another version are not used")


@click.group("vectors")
def vectors_command() -> None:
    """Count, fill in and migrate the vectors of hybrid-v1. The setting `embedder` says who makes them."""


@vectors_command.command("status")
@memory_options
def status_command(target: MemoryTarget) -> None:
    """Count the records that have a vector of the embedder in use. Exit code 1 if some have none."""
    with target.opened(sign=False) as memory:
        status = memory.vectors.status()
    _print_vectors(status, as_json=target.as_json, done="")
    if status.missing:
        raise SystemExit(ANSWER_IS_NO)


@vectors_command.command("fill")
@memory_options
def fill_command(target: MemoryTarget) -> None:
    """Give every record that lacks a vector one. It can be interrupted, and goes on where it stopped."""
    with target.opened() as memory, progress_bar("making vectors", quiet=target.as_json) as progress:
        status = memory.vectors.fill(by=getpass.getuser(), progress=progress)
    _print_vectors(status, as_json=target.as_json, done="")


@vectors_command.command("migrate")
@click.option("--to", required=True, help="The next embedder, in the form of the setting `embedder`.")
@memory_options
def migrate_command(to: str, target: MemoryTarget) -> None:
    """Give every record a vector of another embedder. Recall uses the present one until the setting changes.

    It can be interrupted, and goes on where it stopped. The ledger records who migrates from what to what.
    """
    with target.opened() as memory, progress_bar("making vectors", quiet=target.as_json) as progress:
        status = memory.vectors.migrate(to, by=getpass.getuser(), progress=progress)
    next_step = f'Next: set embedder = "{to}", restart, and run: standfast vectors fill'
    _print_vectors(status, as_json=target.as_json, done=next_step)


def _print_vectors(status: VectorStatus, *, as_json: bool, done: str) -> None:
    if as_json:
        print_json({**status.as_json(), "missing": status.missing})
        return
    click.echo(f"{status.embedder}: {status.with_vector:,} of {status.records:,} records have a vector")
    if done:
        click.echo(done)
    elif status.missing:
        click.echo("Next: standfast vectors fill")
