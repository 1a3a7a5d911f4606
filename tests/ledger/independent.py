"""A second verifier, written from RFC 6962 and the C2SP texts alone, for holding ours against.

It is deliberately naive: proofs are checked by following the recursive definitions of RFC 6962, section 2.1,
where ours follows the loops of RFC 9162; notes are taken apart line by line. It imports nothing of Standfast
and must stay so.
"""

import base64
import hashlib
import json
import sqlite3
import zlib
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class RefusedError(Exception):
    """What was handed in proves nothing."""


class Head(NamedTuple):
    """What a checkpoint says."""

    origin: str
    size: int
    root: bytes


def leaf(data: bytes) -> bytes:
    """MTH({d0}) = SHA-256(0x00 || d0)."""
    return hashlib.sha256(bytes([0]) + data).digest()


def joined(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right)."""
    return hashlib.sha256(bytes([1]) + left + right).digest()


def split_point(size: int) -> int:
    """The largest power of two smaller than ``size``."""
    power = 1
    while power * 2 < size:
        power *= 2
    return power


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH(D[n]) over leaf hashes."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = split_point(len(leaves))
    return joined(tree_hash(leaves[:middle]), tree_hash(leaves[middle:]))


def path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH(m, D[n]) over leaf hashes."""
    if len(leaves) == 1:
        return []
    middle = split_point(len(leaves))
    if index < middle:
        return [*path(index, leaves[:middle]), tree_hash(leaves[middle:])]
    return [*path(index - middle, leaves[middle:]), tree_hash(leaves[:middle])]


def subproof(old_size: int, leaves: list[bytes], *, whole: bool = True) -> list[bytes]:
    """SUBPROOF(m, D[n], b) over leaf hashes; PROOF(m, D[n]) if called with the default."""
    if old_size == len(leaves):
        return [] if whole else [tree_hash(leaves)]
    middle = split_point(len(leaves))
    if old_size <= middle:
        return [*subproof(old_size, leaves[:middle], whole=whole), tree_hash(leaves[middle:])]
    return [*subproof(old_size - middle, leaves[middle:], whole=False), tree_hash(leaves[:middle])]


def check_inclusion(leaf_hash: bytes, index: int, size: int, root: bytes, proof: list[bytes]) -> None:
    """Refuse unless the proof leads from the leaf to the root."""
    if not 0 <= index < size:
        raise RefusedError("no such leaf")
    if _root_over(leaf_hash, index, size, proof) != root:
        raise RefusedError("another root")


def _root_over(leaf_hash: bytes, index: int, size: int, proof: list[bytes]) -> bytes:
    if size == 1:
        if proof:
            raise RefusedError("too many hashes")
        return leaf_hash
    if not proof:
        raise RefusedError("too few hashes")
    *inner, sibling = proof
    middle = split_point(size)
    if index < middle:
        return joined(_root_over(leaf_hash, index, middle, inner), sibling)
    return joined(sibling, _root_over(leaf_hash, index - middle, size - middle, inner))


def check_consistency(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: list[bytes]
) -> None:
    """Refuse unless the proof leads to both roots."""
    empty = hashlib.sha256().digest()
    if not 0 <= old_size <= new_size or (old_size == 0 and old_root != empty):
        raise RefusedError("not an older tree")
    if old_size == 0:
        if proof or (new_size == 0 and new_root != empty):
            raise RefusedError("the empty tree needs no proof")
        return
    if _roots_over(old_size, new_size, proof, old_root) != (old_root, new_root):
        raise RefusedError("another root")


def _roots_over(
    old_size: int, new_size: int, proof: list[bytes], old_root: bytes | None
) -> tuple[bytes, bytes]:
    """The roots of the old and of the new tree; ``old_root`` is handed down while the old tree starts at the
    left.
    """
    if old_size == new_size:
        known = [old_root] if old_root is not None else proof
        if len(known) != 1 or (old_root is not None and proof):
            raise RefusedError("a wrong number of hashes")
        (whole,) = known
        return whole, whole
    if not proof:
        raise RefusedError("too few hashes")
    *inner, sibling = proof
    middle = split_point(new_size)
    if old_size <= middle:
        old, new = _roots_over(old_size, middle, inner, old_root)
        return old, joined(new, sibling)
    old, new = _roots_over(old_size - middle, new_size - middle, inner, None)
    return joined(sibling, old), joined(sibling, new)


def unbase64(text: str) -> bytes:
    """RFC 4648, section 4, in the one form that section 3.5 calls canonical."""
    try:
        decoded = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError as error:
        raise RefusedError("no base64") from error
    if base64.b64encode(decoded).decode() != text:
        raise RefusedError("stray bits in base64")
    return decoded


def open_note(note: str, verifier_key: str) -> str:
    """The text of a note signed by the key ``name+id+base64``."""
    name, key_id, encoded = verifier_key.split("+", 2)
    typed_key = unbase64(encoded)
    expected_id = hashlib.sha256(name.encode() + b"\n" + typed_key).digest()[:4]
    if typed_key[0] != 1 or expected_id.hex() != key_id:
        raise RefusedError("no Ed25519 key")
    try:
        raw = note.encode()
    except UnicodeEncodeError as error:
        raise RefusedError("no UTF-8") from error
    if any(byte < 0x20 and byte != 0x0A for byte in raw) or not raw.endswith(b"\n"):
        raise RefusedError("a control character, or no newline at the end")
    lines = note[:-1].split("\n")
    if "" not in lines:
        raise RefusedError("no empty line")
    last_empty = len(lines) - 1 - lines[::-1].index("")
    text = "".join(line + "\n" for line in lines[:last_empty])
    signature_lines = lines[last_empty + 1 :]
    if not text or not signature_lines:
        raise RefusedError("nothing signed, or nothing that signs")
    verdicts = [_verdict(line, text, name, expected_id, typed_key[1:]) for line in signature_lines]
    if True not in verdicts or False in verdicts:
        raise RefusedError("not signed by the key")
    return text


def _verdict(line: str, text: str, name: str, key_id: bytes, public: bytes) -> bool | None:
    """Whether the line is a good signature of the key; None if it is another key's."""
    words = line.split(" ")
    if len(words) != 3 or words[0] != "\N{EM DASH}":
        raise RefusedError("no signature line")
    if not words[1] or any(char.isspace() or char == "+" for char in words[1]):
        raise RefusedError("no key name")
    signature = unbase64(words[2])
    if len(signature) < 5:
        raise RefusedError("no signature")
    if words[1] != name or signature[:4] != key_id:
        return None
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature[4:], text.encode())
    except InvalidSignature:
        return False
    return True


def open_checkpoint(note: str, verifier_key: str) -> Head:
    """What a log's signed checkpoint says; the log is named as its key is."""
    lines = open_note(note, verifier_key)[:-1].split("\n")
    if len(lines) < 3 or "" in lines or lines[0] != verifier_key.split("+", maxsplit=1)[0]:
        raise RefusedError("not a checkpoint of this log")
    origin, size, root = lines[:3]
    if not (size.isascii() and size.isdigit()) or str(int(size)) != size:
        raise RefusedError("no size")
    decoded = unbase64(root)
    if len(decoded) != 32:
        raise RefusedError("no root")
    return Head(origin, int(size), decoded)


def open_receipt(receipt: dict[str, Any], verifier_key: str) -> dict[str, Any]:
    """What the entry of a receipt says, if the log has vouched for it."""
    head = open_checkpoint(receipt["checkpoint"], verifier_key)
    if head.size != receipt["tree_size"]:
        raise RefusedError("another tree")
    proof = [bytes.fromhex(digest) for digest in receipt["inclusion_proof"]]
    content = receipt["entry"].encode()
    check_inclusion(leaf(content), receipt["leaf_index"], head.size, head.root, proof)
    told: dict[str, Any] = json.loads(content)
    if told["seq"] != receipt["leaf_index"] + 1:
        raise RefusedError("another place")
    return told


def open_store(path: str) -> list[bytes]:
    """The leaf hashes of a store's ledger, read with Python's own SQLite, if each entry follows the one
    before it.
    """
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = store.execute("SELECT seq, content, hash FROM ledger ORDER BY seq").fetchall()
        (dictionary,) = store.execute("SELECT dictionary FROM dictionaries WHERE kind = 1").fetchone()
    finally:
        store.close()
    previous, leaves = "0" * 64, list[bytes]()
    for seq, stored, digest in rows:
        try:
            content = _plain(stored, dictionary)
            told = json.loads(content)
        except (ValueError, zlib.error) as error:
            raise RefusedError(f"entry {seq} is no JSON") from error
        if seq != len(leaves) + 1 or leaf(content) != digest:
            raise RefusedError(f"entry {seq} is not in its place, or not what it was")
        if (told["seq"], told["previous"]) != (seq, previous):
            raise RefusedError(f"entry {seq} does not follow")
        previous = digest.hex()
        leaves.append(digest)
    return leaves


def _plain(stored: bytes, dictionary: bytes) -> bytes:
    """The bytes that were hashed, from what is stored."""
    return zlib.decompressobj(-13, dictionary).decompress(stored[1:]) if stored[0] == 1 else stored[1:]


def open_mirror(lines: str, verifier_key: str, leaves: list[bytes]) -> list[Head]:
    """What the checkpoints of a mirror say, if the log has signed each, and the leaves are a later state of
    it.
    """
    heads = [open_checkpoint(json.loads(line), verifier_key) for line in lines.splitlines()]
    for head in heads:
        if head.size > len(leaves):
            raise RefusedError("the end is missing")
        if tree_hash(leaves[: head.size]) != head.root:
            raise RefusedError("another root")
    return heads
