"""Errors of the ledger: proofs, signed notes and receipts that do not verify."""

from standfast.errors.root import StandfastError


class NotProven(StandfastError):
    """A proof, note or receipt does not prove what it claims. Trust nothing in it."""

    code = "not_proven"
    says = "The proof does not hold."


class MalformedNote(NotProven):
    """The text is not a signed note."""

    code = "malformed_note"
    says = "This is not a signed note: {problem}. Pass the note unchanged, signature lines included."


class ForgedNote(NotProven):
    """A signature under a known key's name and id was not made by that key over this text."""

    code = "forged_note"
    says = "The signature of {name}+{key_id} does not match the note. The note was changed; get it again from its source."


class UnsignedNote(NotProven):
    """No known key has signed the note."""

    code = "unsigned_note"
    says = "The note is signed by {signers}, and by none of the known keys ({known}). Pass the signer's public key."


class MalformedCheckpoint(NotProven):
    """The text of the note is not a checkpoint."""

    code = "malformed_checkpoint"
    says = "This is not a checkpoint: {problem}. Pass a note that the log has signed."


class ForeignLog(NotProven):
    """The checkpoint belongs to another log."""

    code = "foreign_log"
    says = "The checkpoint belongs to the log {origin}, not to {expected}. Pass a checkpoint of that log."


class BadInclusion(NotProven):
    """The proof does not show that the entry is in the tree."""

    code = "bad_inclusion"
    says = "The proof does not show that leaf {index} is in the tree of {size} leaves: {problem}"


class BadConsistency(NotProven):
    """The proof does not show that the newer tree extends the older one unchanged."""

    code = "bad_consistency"
    says = (
        "The proof does not show that the tree of {new_size} leaves extends the one of {old_size}: {problem}"
    )


class SizeMismatch(NotProven):
    """The receipt and its checkpoint are about different trees."""

    code = "size_mismatch"
    says = "The receipt is for a tree of {tree_size} leaves, but its checkpoint is for {checkpoint_size}."


class MalformedEntry(NotProven):
    """The proven leaf is not a ledger entry."""

    code = "malformed_entry"
    says = "Leaf {index} is not a ledger entry: {problem}"


class MisplacedEntry(NotProven):
    """The entry has another sequence number than its receipt."""

    code = "misplaced_entry"
    says = "The entry has number {seq}, but its receipt is for leaf {index}, which is entry {expected}."
