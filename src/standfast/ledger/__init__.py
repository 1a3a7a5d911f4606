"""The ledger: a hash chain of entries, the Merkle tree over them, signed checkpoints of it, and receipts.

Read in this order: ``chain.py``, ``tree.py``, ``note.py`` (signed notes and keys), ``checkpoint.py``
(checkpoints, the file that keeps them, receipts), ``witness.py`` (what verifies, and what vouches for the
newest entry), ``notary.py`` (what signs).
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
