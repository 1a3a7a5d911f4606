"""Records over rows: decode a row, find a record's keys and history, and what snapshots changed.

Keys are ``BAND/scope//memory_id``; ``scopes.py`` builds them and takes them apart. Two suffixes mark further
versions of one record in the same band: ``~digest`` for one that was only logged, ``@epoch.number`` for one
that a band with a byte budget holds next to others.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from standfast.errors import Corruption, StandfastError
from standfast.limits import MAX_FOLLOWED_SNAPSHOTS
from standfast.records.canon import canonical_bytes, parse
from standfast.records.rows import RECORD_KINDS, RowKind
from standfast.records.scopes import (
    ALL_SCOPES,
    SHARED,
    checked_scope,
    is_within,
    key_parts,
    prefix_of,
    scope_in,
    scoped_key,
)
from standfast.records.vocabulary import ActionType, Band, ErasedSince, Record, Value
from standfast.store.commit import ERASURE_KIND
from standfast.store.protocol import Version
from standfast.store.store import Store

# Untrusted content stands next to its subject under one suffix; if it is only logged, it gets a second one.
decode_record: Final = msgspec.json.Decoder(Record).decode
_SUFFIX: Final = re.compile(r"(~[0-9a-f]{12}){0,2}(@[0-9]+\.[0-9]+)?")


class HistoryEntry(Value, frozen=True, kw_only=True):
    """One version in the history of a record, with the commit that wrote it.

    ``record`` is None if the record ended there (EXPIRE), or if its content was erased later.
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
    """The difference between two snapshots under one key; None where a snapshot shows nothing."""

    key: str
    before: Record | None
    after: Record | None


def record_of(version: Version) -> Record:
    """Decode the record that a row of a band holds; ``Corruption`` if it holds none."""
    try:
        return decode_record(version.content or b"")
    except (msgspec.DecodeError, StandfastError) as error:
        raise Corruption(what=f"{version.namespace}/{version.key}", problem=str(error)) from None


def superseded_keys(record: Record, bands: Sequence[Band] = (Band.LEDGER, Band.ACTIVE)) -> tuple[str, ...]:
    """The keys that end when a record is accepted: of what it supersedes, in the bands that it may be in.

    Law ends only with a human's seal.
    """
    return tuple(scoped_key(band, record.scope, one) for one in record.supersedes for band in bands)


def is_band_row(key: str) -> bool:
    """Whether a key is that of a record in a band; proposals and other rows of governance are not."""
    parts = key_parts(key)
    return parts is not None and parts.prefix in RECORD_KINDS


def is_key_of(scope: str, memory_id: str, key: str) -> bool:
    """Whether a key in a band belongs to a record, with or without a suffix."""
    parts = key_parts(key)
    if parts is None or parts.scope != scope:
        return False
    return parts.name.startswith(memory_id) and _SUFFIX.fullmatch(parts.name, len(memory_id)) is not None


def keys_of(
    store: Store, namespace: str, memory_id: str, bands: Iterable[Band], *, scope: str = SHARED, at: int
) -> list[str]:
    """Every key that a record has or had in these bands, as of a snapshot."""
    keys: list[str] = []
    for band in bands:
        own = scoped_key(band, scope, memory_id)
        keys.append(own)
        for mark in "~@":
            rows = store.newest_versions(namespace, prefix=own + mark, at=at)
            keys += [version.key for version in rows if is_key_of(scope, memory_id, version.key)]
    return keys


def keys_with_content_of(
    store: Store, namespace: str, memory_id: str, bands: Iterable[Band], *, scope: str = SHARED, at: int
) -> list[str]:
    """Every key that still holds content of a record: in these bands, expired or not, and in streams."""
    in_bands = [
        key
        for key in keys_of(store, namespace, memory_id, bands, scope=scope, at=at)
        if any(version.content is not None for version in store.history(namespace, key))
    ]
    in_streams = [
        row.key
        for row in store.scan(namespace, prefix=prefix_of(RowKind.STREAM), at=at)
        if is_key_of(scope, memory_id, parse(row.content or b"").get("key", ""))
    ]
    return in_bands + in_streams


def history_of(store: Store, namespace: str, memory_id: str, *, scope: str = SHARED) -> list[HistoryEntry]:
    """Every version of a record in every band, those that were only logged included, oldest first."""
    keys = keys_of(store, namespace, memory_id, Band, scope=checked_scope(scope), at=store.head())
    entries = [_history_entry(store, version) for key in keys for version in store.history(namespace, key)]
    return sorted(entries, key=lambda entry: (entry.memory_snapshot_id, entry.key))


def _history_entry(store: Store, version: Version) -> HistoryEntry:
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


def erased_since(
    store: Store,
    namespace: str,
    bands: Iterable[Band],
    at: int,
    *,
    head: int,
    scopes: Sequence[str] = (ALL_SCOPES,),
) -> ErasedSince | None:
    """How many records of a snapshot in these bands and scopes were erased up to the head; None for none.

    Costs nothing for the newest snapshot, the ledger since then for a recent one, and one read of the
    snapshot for an old one.
    """
    if not 0 < at < head:
        return None
    prefixes = tuple(prefix_of(band, scope) for band in bands for scope in scopes)
    if head - at > MAX_FOLLOWED_SNAPSHOTS:
        shown = [one for prefix in prefixes for one in store.newest_versions(namespace, prefix=prefix, at=at)]
    else:
        keys = sorted(key for key in erased_after(store, namespace, at) if key.startswith(prefixes))
        histories = (store.history(namespace, key, verify=False) for key in keys)
        earlier = ([one for one in history if one.memory_snapshot_id <= at] for history in histories)
        shown = [versions[-1] for versions in earlier if versions]
    erased_by = [one.erased_by for one in shown if one.erased_by is not None]
    return ErasedSince(records=len(erased_by), memory_snapshot_id=max(erased_by)) if erased_by else None


def erased_after(store: Store, namespace: str, at: int) -> set[str]:
    """The keys of which commits after a snapshot erased content."""
    marker = b'"kind":"%s"' % ERASURE_KIND.encode()
    entries = store.entries(after=store.commit_of(at).ledger_seq if at else 0)
    bodies = (entry.read()["body"] for entry in entries if marker in entry.content)
    return {body["key"] for body in bodies if body.get("namespace") == namespace and "key" in body}


def changes_between(
    store: Store, namespace: str, old: int, new: int, *, scope: str = ALL_SCOPES
) -> list[RecordChange]:
    """The records of a scope, with all below it, that a newer snapshot shows differently, by key.

    The cost is that of the commits in between.
    """
    touched = {
        row.key
        for row in store.versions_between(namespace, old, new, with_content=False)
        if is_band_row(row.key) and is_within(scope_in(row.key), scope)
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


_AS_TEXT: Final = "content-as-text/v1"


class _RecordHead(msgspec.Struct):
    """The fields that make content a record."""

    memory_id: str
    text: str
    band: str = Band.LEDGER.value
    scope: str = SHARED


_decode_head: Final = msgspec.json.Decoder(_RecordHead).decode


def record_line(version: Version) -> bytes:
    """A verified version as a line that ``memory.read`` accepts, without the newline."""
    content = version.content or b"null"
    try:
        head = _decode_head(content)
        if scoped_key(head.band, head.scope, head.memory_id) == version.key:
            return content
    except msgspec.MsgspecError:
        pass
    return canonical_bytes({"memory_id": version.key, "text": content.decode(), "standfast": _AS_TEXT})
