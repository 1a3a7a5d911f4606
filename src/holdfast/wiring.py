"""Turns settings into working parts, for the doors."""

from pathlib import Path

from holdfast.errors import InvalidSettings
from holdfast.govern.seals.signers import Signers
from holdfast.ledger.checkpoint import MirrorFile
from holdfast.ledger.notary import KeyFile, Notary
from holdfast.memory import Memory
from holdfast.settings import Settings
from holdfast.store.opening import open_store
from holdfast.store.store import Store


def open_memory(settings: Settings, *, create: bool) -> Memory:
    """The memory that the settings describe."""
    store = open_store(settings.store, create=create)
    return memory_in(settings, store, settings.namespace, notary=notary_of(settings, store))


def memory_in(settings: Settings, store: Store, namespace: str, *, notary: Notary | None = None) -> Memory:
    """The memory of one namespace of a store, under the settings' rules. One of a store's memories has its notary."""
    return Memory(
        store,
        namespace=namespace,
        strict=settings.strict,
        allow_live=settings.allow_live_read_write,
        notary=notary,
    )


def notary_of(settings: Settings, store: Store) -> Notary | None:
    """The notary of a store: beside its file, or where the settings say; none for a server without such settings."""
    is_file = settings.store != ":memory:" and "://" not in settings.store
    path = Path(settings.store)
    if is_file and not settings.log_key and not settings.checkpoints:
        return Notary.beside(path, store.entries)
    if not settings.log_key and not settings.checkpoints:
        return None
    if not settings.log_key or not settings.checkpoints:
        raise InvalidSettings(
            name="log_key", source="settings", problem="log_key and checkpoints go together"
        )
    name = f"holdfast/{path.stem}" if is_file else "holdfast/log"
    return Notary(KeyFile(Path(settings.log_key), name=name), MirrorFile(settings.checkpoints), store.entries)


def signers_of(settings: Settings) -> Signers:
    """Who may seal, as the files that the settings name say now."""
    return Signers.parse(
        _text("signers", settings.signers),
        _text("revoked_signers", settings.revoked_signers) if settings.revoked_signers else "",
    )


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = (
            f"{path} can't be read ({error}); write a line for each person who may seal: "
            'alice@example.com namespaces="holdfast-seal" ssh-ed25519 AAAA…'
        )
        raise InvalidSettings(name=name, source="settings", problem=problem) from None
