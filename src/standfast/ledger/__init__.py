"""The ledger: a hash chain of entries, the Merkle tree over them, signed checkpoints of it, and receipts.

Read in this order: ``chain.py``, ``tree.py``, ``note.py`` (signed notes and keys), ``checkpoint.py``
(checkpoints, the file that keeps them, receipts), ``witness.py`` (what verifies, and what vouches for the
newest entry), ``notary.py`` (what signs).
"""

from standfast.ledger.chain import Entry
from standfast.ledger.checkpoint import Checkpoint, CheckpointFile, InclusionReceipt, verify_receipt
from standfast.ledger.notary import Notary
from standfast.ledger.note import KeyFile, SigningKey, VerifyingKey
from standfast.ledger.witness import LedgerState, LedgerTail, Verification

__all__ = [
    "Checkpoint",
    "CheckpointFile",
    "Entry",
    "InclusionReceipt",
    "KeyFile",
    "LedgerState",
    "LedgerTail",
    "Notary",
    "SigningKey",
    "Verification",
    "VerifyingKey",
    "verify_receipt",
]
