"""What the ledger's tests are made of: entries, leaves, keys and signed checkpoints, the same in every
run.
"""

import hashlib
from functools import cache

from standfast.ledger.chain import Entry, Tip, extend
from standfast.ledger.checkpoint import Checkpoint, InclusionReceipt
from standfast.ledger.note import SigningKey
from standfast.ledger.tree import Tree

ORIGIN = "example.com/ledger"
LOG_KEY = SigningKey(name=ORIGIN, seed=bytes(range(32)))
OTHER_KEY = SigningKey(name="example.com/witness", seed=bytes(range(1, 33)))

# The example of Go's golang.org/x/mod/sumdb/note, which other implementations use as well.
PETER_PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH_PUBLIC = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
PETER_LINE = (
    "— PeterNeumann"
    " x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
ENOCH_LINE = (
    "— EnochRoot"
    " rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
)


@cache
def entries(count: int) -> tuple[Entry, ...]:
    """A ledger of so many entries."""
    tip = Tip()
    made = []
    for number in range(count):
        body = {"subject": f"s{number % 7}", "text": "ü" * (number % 5), "number": number}
        entry = extend(tip, kind="sealed", at=f"2026-01-01T00:00:{number % 60:02}.000000Z", body=body)
        made.append(entry)
        tip = entry.tip
    return tuple(made)


@cache
def leaves(count: int) -> tuple[str, ...]:
    """So many leaf hashes, all different."""
    return tuple(hashlib.sha256(b"leaf %d" % number).hexdigest() for number in range(count))


@cache
def tree_of(count: int) -> Tree:
    """The tree over a ledger of so many entries."""
    return Tree(entry.hash for entry in entries(count))


@cache
def signed(size: int, ledger_size: int | None = None) -> str:
    """A checkpoint of the ledger's first ``size`` entries, signed by its key."""
    tree = tree_of(ledger_size or size)
    return Checkpoint(origin=ORIGIN, size=size, root_hash=tree.root(size)).sign([LOG_KEY])


@cache
def receipt(number: int, size: int) -> InclusionReceipt:
    """The receipt of entry ``number`` in the ledger of ``size`` entries."""
    return InclusionReceipt.of(entries(size)[number - 1], tree_of(size), signed(size))
