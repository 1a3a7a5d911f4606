"""The hash chain: each entry holds the hash of the one before it, so no change goes unnoticed.

An entry's hash is that of a Merkle leaf (RFC 6962: SHA-256 over a zero byte and the entry's canonical bytes),
so the same entries are the leaves of a tree without being hashed again.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from standfast.errors import BrokenChain
from standfast.records.canon import canonical_bytes, parse
from standfast.records.vocabulary import Value

_LEAF_PREFIX: Final = b"\x00"


class Tip(Value, frozen=True, kw_only=True):
    """The end of a chain: the number of its entries, and the hash of the last one."""

    seq: int = 0
    hash: str = "0" * 64


class Branch(msgspec.Struct, frozen=True):
    """The ledger's own line, number 0, whose id is the store's; or one that began when a copy was restored.

    The line that was left had entries up to ``left_seq``, as far as was known, and shares those up to
    ``shared_seq``. ``ledger_seq`` is the entry that tells of the restore; it is 0 for the first line.
    """

    number: int
    branch_id: str
    ledger_seq: int = 0
    shared_seq: int = 0
    left_seq: int = 0


class Entry(Value, frozen=True, kw_only=True, gc=False):
    """One entry: its sequence number, its canonical bytes and their hash."""

    seq: int
    content: bytes
    hash: str

    @property
    def tip(self) -> Tip:
        """The end of the chain, if this entry is the last."""
        return Tip(seq=self.seq, hash=self.hash)

    def read(self) -> dict[str, Any]:
        """The content: ``seq``, ``previous``, ``kind``, ``at`` and ``body``."""
        content: dict[str, Any] = parse(self.content)
        return content


def leaf_hash(content: bytes) -> str:
    """The RFC 6962 leaf hash of an entry's canonical bytes."""
    return hashlib.sha256(_LEAF_PREFIX + content).hexdigest()


def extend(tip: Tip, *, kind: str, at: str, body: dict[str, Any]) -> Entry:
    """Make the entry that follows ``tip``: ``kind`` happened at the instant ``at``; ``body`` has facts."""
    seq = tip.seq + 1
    content = canonical_bytes({"seq": seq, "previous": tip.hash, "kind": kind, "at": at, "body": body})
    return Entry(seq=seq, content=content, hash=leaf_hash(content))


def check(entries: Iterable[Entry], *, start: Tip | None = None) -> Tip:
    """Check that entries follow ``start`` and return the chain's end; ``BrokenChain`` at the first break."""
    tip = start or Tip()
    last = deque(walk(entries, start=tip), maxlen=1)
    return last[0].tip if last else tip


def walk(entries: Iterable[Entry], *, start: Tip | None = None) -> Iterator[Entry]:
    """Yield each entry that follows the one before it; the first that does not raises ``BrokenChain``."""
    tip = start or Tip()
    seq, previous, sha256 = tip.seq, tip.hash, hashlib.sha256
    for entry in entries:
        content, digest = entry.content, entry.hash
        if (
            entry.seq != seq + 1
            or sha256(_LEAF_PREFIX + content).hexdigest() != digest
            # These two fields are the last in canonical order, so the link is checked without parsing the
            # rest.
            or not content.endswith(b',"previous":"%b","seq":%d}' % (previous.encode(), seq + 1))
        ):
            raise _broken(Tip(seq=seq, hash=previous), entry)
        seq, previous = seq + 1, digest
        yield entry


def _broken(tip: Tip, entry: Entry) -> BrokenChain:
    """The error for the break between an intact end and the next entry."""
    if entry.seq != tip.seq + 1:
        return BrokenChain(seq=tip.seq + 1, problem=f"it is missing; entry {entry.seq} comes next")
    if leaf_hash(entry.content) != entry.hash:
        return BrokenChain(seq=entry.seq, problem="its content does not match its hash")
    return BrokenChain(seq=entry.seq, problem="it does not follow the entry before it")
