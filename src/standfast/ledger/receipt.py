"""Receipts: proof that an entry is in the ledger, to be checked years later by someone who has only a public key.

A receipt holds the entry itself, its path to the root of the tree, and a checkpoint in which the log has signed that
root. ``docs/verify.md`` tells how to check one without Standfast.
"""

from typing import Any, Self

from standfast.canon import canonical_bytes, normal_string, parse
from standfast.errors import MalformedEntry, MisplacedEntry, NotCanonical, SizeMismatch
from standfast.ledger.chain import Entry, leaf_hash
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.note import VerifyingKey, unverified_text
from standfast.ledger.tree import Tree, verify_inclusion
from standfast.limits import MAX_NOTE_BYTES, MAX_PROOF_HASHES, MAX_TREE_SIZE, MAX_VALUE_BYTES
from standfast.vocabulary import Value


class InclusionReceipt(Value, frozen=True, kw_only=True):
    """An entry's text, its place in a tree, the proof that it stands there, and a signed checkpoint of that tree.

    Being built proves nothing; ``verify_receipt`` does.
    """

    entry: str
    leaf_index: int
    tree_size: int
    inclusion_proof: tuple[str, ...]
    checkpoint: str

    def __post_init__(self) -> None:
        self._require_text("entry", self.entry, most_bytes=MAX_VALUE_BYTES)
        self._require(
            type(self.leaf_index) is type(self.tree_size) is int
            and 0 <= self.leaf_index < self.tree_size <= MAX_TREE_SIZE,
            f"leaf_index and tree_size must be whole numbers, 0 <= leaf_index < tree_size <= {MAX_TREE_SIZE}",
        )
        self._require(
            isinstance(self.inclusion_proof, tuple) and len(self.inclusion_proof) <= MAX_PROOF_HASHES,
            f"inclusion_proof must be a tuple of at most {MAX_PROOF_HASHES} hashes",
        )
        for digest in self.inclusion_proof:
            self._require_digest("each hash of inclusion_proof", digest)
        self._require_text("checkpoint", self.checkpoint, most_bytes=MAX_NOTE_BYTES)

    def _require_text(self, field: str, text: str, *, most_bytes: int) -> None:
        """A receipt travels as JSON, whose strings are in NFC; any other text would come back changed."""
        try:
            fits = (
                len(text) <= most_bytes and normal_string(text) == text and len(text.encode()) <= most_bytes
            )
        except (AttributeError, TypeError, NotCanonical):
            fits = False
        self._require(fits, f"{field} must be text in NFC of at most {most_bytes} bytes")

    @classmethod
    def of(cls, entry: Entry, tree: Tree, checkpoint_note: str) -> Self:
        """The receipt of an entry that is a leaf of ``tree``, for the size that the signed checkpoint names."""
        size = Checkpoint.parse(unverified_text(checkpoint_note)).size
        return cls(
            entry=entry.content.decode(),
            leaf_index=entry.seq - 1,
            tree_size=size,
            inclusion_proof=tree.inclusion_proof(entry.seq - 1, size),
            checkpoint=checkpoint_note,
        )


def verify_receipt(receipt: InclusionReceipt, verifying_key: VerifyingKey) -> dict[str, Any]:
    """What the entry says, if the log with this key has vouched for it. Needs no store, network or clock.

    Every way to fail is a ``NotProven`` of its own: what ``Checkpoint.verify`` and ``verify_inclusion`` raise,
    ``SizeMismatch`` between receipt and checkpoint, and ``MalformedEntry`` or ``MisplacedEntry`` if the log has
    vouched for something that no honest ledger holds.
    """
    checkpoint = Checkpoint.verify(receipt.checkpoint, (verifying_key,))
    if checkpoint.size != receipt.tree_size:
        raise SizeMismatch(tree_size=receipt.tree_size, checkpoint_size=checkpoint.size)
    content = receipt.entry.encode()
    verify_inclusion(
        leaf_hash=leaf_hash(content),
        index=receipt.leaf_index,
        size=checkpoint.size,
        root=checkpoint.root_hash,
        proof=receipt.inclusion_proof,
    )
    return _entry_at(receipt.leaf_index, content)


def _entry_at(index: int, content: bytes) -> dict[str, Any]:
    try:
        told = parse(content)
    except NotCanonical as error:
        raise MalformedEntry(index=index, problem=str(error)) from None
    if not isinstance(told, dict) or canonical_bytes(told) != content:
        raise MalformedEntry(index=index, problem="it is no canonical JSON object")
    seq = told.get("seq")
    if type(seq) is not int:
        raise MalformedEntry(index=index, problem="it has no number")
    if seq != index + 1:
        raise MisplacedEntry(seq=seq, index=index, expected=index + 1)
    return told
