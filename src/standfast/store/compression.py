"""How contents are stored: compressed with a dictionary of what most share, or by reference to a row.

What is hashed is always the canonical content; what is stored gives it back byte for byte. The first byte of
what is stored tells its kind:

    0  the content as it is, because compressing would not make it shorter
    1  the content, deflated (RFC 1951) with the dictionary below
    2  nothing: the content of the row in LEDGER of the same name and snapshot, with another band
    3  what the row in LEDGER stored, which was erased since; again with another band
    4  a record with evidence: the hashes of its content and of its evidence, 32 bytes each, and behind them
       the record without these two and without its memory id, which its key ends with; that as kind 0 or 1

An accepted fact is in two bands, LEDGER and ACTIVE, so that kind 2 halves it. A dictionary never changes: a
better one would be a new kind, and old rows would still be read with theirs. The store holds a copy in its
table ``dictionaries``, for readers without this package (docs/verify.md).
"""

import zlib
from binascii import hexlify, unhexlify
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import astuple

from standfast.errors import Corruption
from standfast.ledger.chain import Entry
from standfast.limits import MAX_VALUE_BYTES
from standfast.records.canon import fingerprint_of_bytes
from standfast.records.vocabulary import ActionType, BufferState
from standfast.store.protocol import AppliedCommit, Buffer, Version

BASE_BAND: Final = "LEDGER"
SECOND_BAND: Final = "ACTIVE"
REFERENCE: Final = b"\x02"
_PLAIN, _DEFLATED, _BORROWED, _RECORD = b"\x00", b"\x01", b"\x03", b"\x04"
_HASH_BYTES: Final = 32
# What stands before the two hashes of a record, and its memory id.
_CONTENT_HASH, _EVIDENCE_HASH, _MEMORY_ID = b'"sha256:', b'"hash":"', b'"memory_id":"'
_BASE_START: Final = b'{"band":"%b",' % BASE_BAND.encode()
_SECOND_START: Final = b'{"band":"%b",' % SECOND_BAND.encode()
_BASE_PREFIX, _SECOND_PREFIX = f"{BASE_BAND}/", f"{SECOND_BAND}/"
_SHORT_BYTES: Final = 24
# A window of 8 KiB and little memory: setting up a larger one takes longer than compressing a record.
_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 6, -13, 6
DICTIONARY: Final = (
    b'"}},"kind":"erasure","previous":","namespace":"default","reason":"'
    b'"reasons":["],"verdict":"PARTIAL","888_HOLD","VOID","SABAR","metadata":{"position":,"refs":[{"id":"","kind":"'
    b'"scope":"user/","session":"","speaker":"","subject":"","tags":["'
    b'{"at":"2026-","body":{"commit_id":"","commit_payload_fingerprint":"","facts":1,"memory_snapshot_id":'
    b',"policy_set_id":"","run_id":"","start_snapshot_id":,"writes":3},"kind":"commit","previous":""seq":'
    b'{"at":"2026-","body":{"commit_id":"","memory_snapshot_id":,"told":{"writes":[{"band":"LEDGER","entry_hash":"'
    b'","entry_id":"m-","evidence_hash":"","reasons":[],"verdict":"SEAL","writer_id":"888_JUDGE"},{"band":"ACTIVE",'
    b'"entry_hash":"","reasons":[],"verdict":"SEAL","writer_id":"888_JUDGE"}]}},"kind":"audit","previous":"'
    b" about because before could every going something their there think things which would your people"
    b" really time"
    b" have been just like know more when what they were them some that this then than from with will want"
    b" and for the you not was but are his her had has our out she he it's I'm is to of in on at a it me my"
    b" we so as"
    b'{"said":"","origin":"trusted","source":{"id":"","kind":"user"},"untrusted","source":{"id":"","kind":"tool"},'
    b'{"band":"LEDGER","evidence":{"floor_checks":[{"floor":"content","passed":true,"reason":"sha256:'
    b'","score":1},{"floor":"F1_Amanah","hard":false,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F2_Truth","hard":true,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F3_Witness","hard":false,"passed":true,"score":1,"threshold":0.25},'
    b'{"floor":"F3_Witness","hard":false,"passed":true,"reason":"the agent\'s own'
    b' word","score":0.25,"threshold":0.25},'
    b'{"floor":"F4_Clarity","hard":true,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F5_Secrecy","hard":true,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F6_Injection","hard":true,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F7_Humility","hard":false,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F8_Novelty","hard":true,"passed":true,"score":1,"threshold":0.5},'
    b'{"floor":"F9_Authority","hard":true,"passed":true,"score":1,"threshold":0.5}],"hash":"'
    b'","timestamp":"2026-","verdict":"SEAL"},"memory_id":"m-","source":{"id":"agent","kind":"agent"},"text":"'
    b'.","ts_utc":"2026-","verdict":"SEAL"}'
)
_ready: Final = zlib.compressobj(
    _LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, DICTIONARY
)


def packed(content: bytes, key: str = "") -> bytes:
    """A content as it is stored under a key."""
    if key and (parts := _without_hashes(content, key)) is not None:
        hashes, record = parts
        return _RECORD + hashes + packed(record)
    if len(content) >= _SHORT_BYTES:
        deflate = _ready.copy()
        deflated = deflate.compress(content) + deflate.flush()
        if len(deflated) < len(content):
            return _DEFLATED + deflated
    return _PLAIN + content


def unpacked(stored: bytes, key: str = "") -> bytes:
    """The content that was stored under a key. Damage gives another one, which no fingerprint matches."""
    kind = stored[:1]
    if kind == _DEFLATED:
        inflate = zlib.decompressobj(_WINDOW_BITS, DICTIONARY)
        try:
            content = inflate.decompress(memoryview(stored)[1:], MAX_VALUE_BYTES)
        except zlib.error:
            return b""
        return content if inflate.eof and not inflate.unused_data else b""
    if kind == _RECORD:
        end = 1 + 2 * _HASH_BYTES
        return _with_hashes(stored[1:end], unpacked(stored[end:]), key)
    if kind == _PLAIN:
        return stored[1:]
    if kind == _BORROWED:
        content = unpacked(stored[1:], key)
        return _SECOND_START + content.removeprefix(_BASE_START) if content.startswith(_BASE_START) else b""
    return b""


def _without_hashes(content: bytes, key: str) -> tuple[bytes, bytes] | None:
    """The two hashes of a record, and the rest of it without its memory id; None if it is no such record.

    Hexadecimal digits hardly compress, and the key has the memory id already.
    """
    start, _, rest = content.partition(_CONTENT_HASH)
    middle, _, end = rest[2 * _HASH_BYTES :].partition(_EVIDENCE_HASH)
    before, found, after = end[2 * _HASH_BYTES :].partition(b'%b%b"' % (_MEMORY_ID, _name_in(key)))
    if not found:
        return None
    digits = rest[: 2 * _HASH_BYTES] + end[: 2 * _HASH_BYTES]
    try:
        hashes = unhexlify(digits)
    except ValueError:
        return None
    # What stands before each part is as it was, so that it is found again where it is put back.
    if len(hashes) != 2 * _HASH_BYTES or hexlify(hashes) != digits or _MEMORY_ID in before:
        return None
    record = b"".join((start, _CONTENT_HASH, middle, _EVIDENCE_HASH, before, _MEMORY_ID, b'"', after))
    return hashes, record


def _with_hashes(hashes: bytes, record: bytes, key: str) -> bytes:
    """The record that ``_without_hashes`` took apart."""
    start, _, rest = record.partition(_CONTENT_HASH)
    middle, _, end = rest.partition(_EVIDENCE_HASH)
    before, _, after = end.partition(_MEMORY_ID)
    start += _CONTENT_HASH + hexlify(hashes[:_HASH_BYTES])
    middle += _EVIDENCE_HASH + hexlify(hashes[_HASH_BYTES:])
    return b"".join((start, middle, before, _MEMORY_ID, _name_in(key), after))


def _name_in(key: str) -> bytes:
    return key.partition("//")[2].encode()


def packed_contents(versions: Sequence[Version]) -> list[bytes | None]:
    """The contents of versions as they are stored.

    One in the second band refers to its equal in LEDGER, if that is among them.
    """
    bases = {
        (one.namespace, one.key[len(_BASE_PREFIX) :], one.memory_snapshot_id): one.content
        for one in versions
        if one.key.startswith(_BASE_PREFIX)
    }
    return [_packed_version(one, bases) for one in versions]


def _packed_version(version: Version, bases: dict[tuple[str, str, int], bytes | None]) -> bytes | None:
    content = version.content
    if content is None:
        return None
    if version.key.startswith(_SECOND_PREFIX):
        base = bases.get((version.namespace, version.key[len(_SECOND_PREFIX) :], version.memory_snapshot_id))
        if base is not None and borrowed_by(base) == content:
            return REFERENCE
    return packed(content, version.key)


def borrowed_by(base: bytes) -> bytes | None:
    """The content of the second band that is a record of LEDGER but for its band; None if it is none."""
    return _SECOND_START + base.removeprefix(_BASE_START) if base.startswith(_BASE_START) else None


def second_key(key: str) -> str | None:
    """The key in the second band of the record that has this key in LEDGER; None for other keys."""
    return _SECOND_PREFIX + key[len(_BASE_PREFIX) :] if key.startswith(_BASE_PREFIX) else None


def references_to(versions: Sequence[Version]) -> list[tuple[str, str, int, bytes]]:
    """What could refer to records of LEDGER that come without their equals in the second band, as stored.

    That happens in a copy that is made in portions: the other half of the pair is stored already.
    """
    present = {(one.namespace, one.key, one.memory_snapshot_id) for one in versions}
    found = []
    for one in versions:
        second = second_key(one.key)
        if second is None or (one.namespace, second, one.memory_snapshot_id) in present:
            continue
        if one.content is not None and (borrowed := borrowed_by(one.content)) is not None:
            found.append((one.namespace, second, one.memory_snapshot_id, packed(borrowed, second)))
    return found


# Rows of both databases.

_ACTIONS: Final = (ActionType.EXPIRE, ActionType.WRITE, ActionType.MERGE)
ACTION_NUMBERS: Final = {action: number for number, action in enumerate(_ACTIONS)}


# A note has no content but its key. The fingerprint of that is not stored with each.
_OF_NOTES: Final = fingerprint_of_bytes(b"{}")


def digest_of(version: Version) -> bytes | None:
    """The fingerprint of a version as it is stored; see ``version_of``."""
    fingerprint = version.fingerprint
    if fingerprint is None:
        return None
    return b"" if fingerprint == _OF_NOTES else bytes.fromhex(fingerprint)


def version_of(row: Any, snapshot: int, content: bytes | None) -> Version:
    """The version in a row of namespace, key, its place, action, fingerprint, content and ``erased_by``."""
    namespace, key, _, action, digest, _, erased_by = row
    if not 0 <= action < len(_ACTIONS):
        what = f"{namespace}/{key} in snapshot {snapshot}"
        raise Corruption(what=what, problem=f"{action!r} is not an action")
    fingerprint = None if digest is None else digest.hex() or _OF_NOTES
    return Version(namespace, key, snapshot, _ACTIONS[action], fingerprint, content, erased_by)


def row_of_entry(entry: Entry) -> tuple[int, bytes, bytes]:
    """The row of a ledger entry."""
    return entry.seq, packed(entry.content), bytes.fromhex(entry.hash)


def entry_of(row: Any) -> Entry:
    """The ledger entry in a row of its columns."""
    seq, content, digest = row
    return Entry(seq=seq, content=unpacked(content), hash=digest.hex())


def row_of_applied(applied: AppliedCommit) -> tuple[Any, ...]:
    """The row of a commit."""
    snapshot, commit_id, run_id, payload, at, seq, digest = astuple(applied)
    from_hex = bytes.fromhex
    return snapshot, from_hex(commit_id), run_id, from_hex(payload), at, seq, from_hex(digest)


def applied_of(row: Any) -> AppliedCommit:
    """The commit in a row of its columns."""
    snapshot, commit_id, run_id, payload, at, seq, digest = row
    return AppliedCommit(snapshot, commit_id.hex(), run_id, payload.hex(), at, seq, digest.hex())


def buffer_of(row: Any) -> Buffer:
    """The buffer in a row of its columns."""
    commit_id, run_id, payload, state, *rest = row
    try:
        return Buffer(commit_id, run_id, payload, BufferState(state), *rest)
    except ValueError as error:
        raise Corruption(what=f"the buffer of commit {commit_id}", problem=str(error)) from None
