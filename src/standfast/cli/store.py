"""``standfast init``, ``backup``, ``restore``, ``recover`` and ``retention``."""

import os
from collections import Counter
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from standfast.cli.options import (
    load_settings,
    namespace_option,
    opened_memory,
    opened_store,
    progress_bar,
    store_option,
)
from standfast.cli.output import json_option, print_json
from standfast.settings import FILE_NAME
from standfast.store.restore import accept_restored, restore_copy
from standfast.store.store import open_store
from standfast.vocabulary import Receipt
from standfast.wiring import notary_of

_SETTINGS_FILE: Final = """\
# Settings of this deployment. Each can also be set by an environment variable (STANDFAST_STORE, …), which wins.
store = "{store}"
namespace = "{namespace}"
# Who may sign law: a file in the form of OpenSSH's allowed_signers.
signers = "{signers}"
"""
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
        'Next: standfast remember "EU refunds take 14 days." --subject policy/eu-refunds --source doc:handbook#4'
    )


@click.command("backup")
@click.argument("target")
@store_option
@json_option
def backup_command(target: str, store_url: str | None, as_json: bool) -> None:
    """Copy the store to TARGET: the path of a new SQLite file, or postgresql://….

    The copy shows one moment, even while others write, and every record and ledger entry is verified. If TARGET holds an
    earlier copy of the same store, it is brought up to date.
    """
    with (
        opened_store(store_url) as source,
        progress_bar("copying snapshots", quiet=as_json) as progress,
    ):
        copy = open_store(target, create=True, recover=False)
        try:
            before = copy.head()
            head = source.backup_to(copy, progress=progress)
        finally:
            copy.close()
    if as_json:
        print_json({"target": target, "head": head, "copied": head - before})
    else:
        click.echo(f"{target}: {head - before} snapshots copied, now at {head}")


@click.command("restore")
@click.argument("backup", required=False)
@click.option("--replace", is_flag=True, help="Set a store's file that is there aside, under another name.")
@click.option("--reason", default="restored from a backup", show_default=True, help="Goes into the ledger.")
@store_option
@json_option
def restore_command(
    backup: str | None, replace: bool, reason: str, store_url: str | None, as_json: bool
) -> None:
    """Put BACKUP, a copy made by `standfast backup`, in the place of the store, and begin a new branch there.

    Without BACKUP, accept the store as it is: you put an older copy there yourself, or the server's tools did. The ledger
    records the restore and what was left behind; the store verifies and can be written again.
    """
    settings = load_settings(store_url=store_url)
    aside = None if backup is None else restore_copy(backup, settings.store, replace=replace)
    restored = accept_restored(
        settings.store, reason=reason, notary_of=lambda store: notary_of(settings, store)
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

    Opening a store does the same; run this as a worker where processes come and go. It touches only buffers whose lease
    has expired (30 seconds after the owner's last renewal), so it is safe at any time.
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

    Working memory (ACTIVE) is deleted after 7 days, observations (WITNESS) and rejected texts (VOID) after 90. Long-term
    memory (LEDGER) is archived after 90 days. Law (VAULT) stays. Traces are removed after `trace_retention_days` (14).
    """


@retention_command.command("sweep")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@store_option
@namespace_option
@json_option
def sweep(dry_run: bool, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Archive and delete what is due, in commits of their own. The ledger records what was removed, and why.

    Deleted content is erased from every snapshot. Its fingerprints stay, so that everything still verifies and rejected
    content is recognised if it comes back.
    """
    with opened_memory(store_url, namespace) as memory, Console(stderr=True).status("looking …"):
        due = [item.as_json() for item in memory.due()]
        receipts = [] if dry_run else memory.sweep()
        now, folder = memory.store.clock.now(), memory.traces
        traces = () if folder is None else folder.expire(now=now, rehearse=dry_run).removed
    if as_json:
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
