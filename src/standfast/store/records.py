"""Rows as records: reading one back, the history of one, and what changed between two snapshots."""

import re
from collections.abc import Iterable
from typing import Final

from standfast.canon import parse
from standfast.errors import Corruption, StandfastError
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Band, Record, Value

STREAM: Final = "stream/"
"""Where what policies are shown again stands, by band: ``stream/BAND/epoch-number``."""
NOTE_PREFIXES: Final = ("PHOENIX/", "budget/", "decision/", "mark/", "refused/", "said/", STREAM)
# What was only logged stands behind a tilde, what a band with a budget holds side by side behind an at sign.
_BESIDE: Final = re.compile(r"(~[0-9a-f]{12})?(@[0-9]+\.[0-9]+)?")


class HistoryEntry(Value, frozen=True, kw_only=True):
    """One version in the history of a thing: what it said, in which band, by which verdict, and since when.

    ``record`` is None where the thing ended there (EXPIRE), or where its content was erased later.
    """

    memory_snapshot_id: int
    committed_at: str
    commit_id: str
    key: str
    action: ActionType
    fingerprint: str | None
    record: Record | None = None
    erased_by: int | None = None


class RecordChange(Value, frozen=True, kw_only=True):
    """What two snapshots show differently under one key; None where one of them shows nothing."""

    key: str
    before: Record | None
    after: Record | None


def record_of(version: Version) -> Record:
    """The record that a row of a band holds."""
    try:
        return Record.from_json(parse(version.content or b""))
    except StandfastError as error:
        raise Corruption(what=f"{version.namespace}/{version.key}", problem=str(error)) from None


def key_of_line(value: object) -> str | None:
    """Where a line of JSON that is a record belongs: in its band, LEDGER if it names none; None if it is no record."""
    if not isinstance(value, dict):
        return None
    memory_id, text, band = value.get("memory_id"), value.get("text"), value.get("band", Band.LEDGER.value)
    if not isinstance(memory_id, str) or not isinstance(text, str) or band not in Band.__members__:
        return None
    return f"{band}/{memory_id}"


def is_note(key: str) -> bool:
    """Whether a row is one that governance keeps for itself: proposals, decisions, marks, what was refused, streams."""
    return key.startswith(NOTE_PREFIXES)


def is_band_row(key: str) -> bool:
    """Whether a key is a record's; other rows are notes that governance keeps for itself."""
    band, slash, _ = key.partition("/")
    return bool(slash) and band in Band.__members__ and band != Band.PHOENIX


def is_of(memory_id: str, key: str) -> bool:
    """Whether a key in a band is a thing's own, or one under which a version of it stands beside the others."""
    name = key.partition("/")[2]
    return name.startswith(memory_id) and _BESIDE.fullmatch(name, len(memory_id)) is not None


def history_of(store: Store, namespace: str, memory_id: str) -> list[HistoryEntry]:
    """Every version of a thing in every band, what was only logged of it too, oldest first."""
    keys = keys_of(store, namespace, memory_id, Band, at=store.head())
    chapters = [_chapter(store, version) for key in keys for version in store.history(namespace, key)]
    return sorted(chapters, key=lambda chapter: (chapter.memory_snapshot_id, chapter.key))


def keys_of(store: Store, namespace: str, memory_id: str, bands: Iterable[Band], *, at: int) -> list[str]:
    """Every key in these bands that is or was a thing's by a snapshot."""
    keys: list[str] = []
    for band in bands:
        own = f"{band}/{memory_id}"
        keys.append(own)
        for mark in "~@":
            rows = store.newest_versions(namespace, prefix=own + mark, at=at)
            keys += [version.key for version in rows if is_of(memory_id, version.key)]
    return keys


def keys_with_content_of(
    store: Store, namespace: str, memory_id: str, bands: Iterable[Band], *, at: int
) -> list[str]:
    """Every key whose content tells of a thing: in these bands, ended or not, and in the streams of budgets."""
    in_bands = [
        key
        for key in keys_of(store, namespace, memory_id, bands, at=at)
        if any(version.content is not None for version in store.history(namespace, key))
    ]
    in_streams = [
        row.key
        for row in store.scan(namespace, prefix=STREAM, at=at)
        if is_of(memory_id, parse(row.content or b"").get("key", ""))
    ]
    return in_bands + in_streams


def _chapter(store: Store, version: Version) -> HistoryEntry:
    applied = store.commit_of(version.memory_snapshot_id)
    return HistoryEntry(
        memory_snapshot_id=version.memory_snapshot_id,
        committed_at=applied.committed_at,
        commit_id=applied.commit_id,
        key=version.key,
        action=version.action,
        fingerprint=version.fingerprint,
        record=None if version.content is None else record_of(version),
        erased_by=version.erased_by,
    )


def changes_between(store: Store, namespace: str, old: int, new: int) -> list[RecordChange]:
    """What the newer snapshot shows differently, by key; its cost is that of the commits in between."""
    touched = {
        row.key
        for snapshot in range(old + 1, new + 1)
        for row in store.versions_of(snapshot)
        if row.namespace == namespace and is_band_row(row.key)
    }
    keys = sorted(touched)
    before, after = store.read(namespace, keys, at=old), store.read(namespace, keys, at=new)
    return [
        RecordChange(
            key=key,
            before=record_of(before[key]) if key in before else None,
            after=record_of(after[key]) if key in after else None,
        )
        for key in keys
        if (before[key].fingerprint if key in before else None)
        != (after[key].fingerprint if key in after else None)
    ]
