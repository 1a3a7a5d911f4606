"""``standfast init``: a store, its settings, and what is needed to seal."""

import os
from pathlib import Path

import click

from standfast.cli.options import memory, settings, store_option
from standfast.cli.output import json_option, print_json
from standfast.settings import FILE_NAME

_TOML = """\
# What this deployment decides; every name is also an environment variable (STANDFAST_STORE, …), which wins.
store = "{store}"
namespace = "{namespace}"
# Who may seal: one line a person, as in OpenSSH's allowed_signers file.
signers = "{signers}"
"""
_SIGNERS = """\
# Who may seal law. One line a person; valid-after and valid-before are optional:
# alice@example.com namespaces="standfast-seal",valid-before="20270101Z" ssh-ed25519 AAAA…
"""


@click.command("init")
@store_option
@json_option
def command(store_url: str | None, as_json: bool) -> None:
    """Make a store here, with settings, a list of signers and the key that signs the ledger. Changes nothing that is there."""
    told = settings()
    store = store_url or told.store
    made = []
    if not Path(FILE_NAME).exists():
        text = _TOML.format(store=store, namespace=told.namespace, signers=told.signers)
        Path(FILE_NAME).write_text(text, encoding="utf-8")
        made.append(FILE_NAME)
    if not Path(told.signers).exists():
        Path(told.signers).write_text(_SIGNERS, encoding="utf-8")
        made.append(told.signers)
    is_new = "://" not in store and not os.path.exists(store)  # noqa: PTH110  # A string from settings.
    with memory(store, None, create=True) as opened:
        opened.checkpoint()
        head = opened.store.head()
    made += [store] if is_new else []
    if as_json:
        print_json({"store": store, "head": head, "made": made})
        return
    click.echo(f"{store}: ready, at snapshot {head}" + (f"; made {', '.join(made)}" if made else ""))
    click.echo(
        'Next: standfast remember "EU refunds take 14 days." --subject policy/eu-refunds --source doc:handbook#4'
    )
