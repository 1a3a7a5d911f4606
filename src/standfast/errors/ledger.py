"""Proofs, signed notes and receipts that do not hold."""

from standfast.errors.root import StandfastError


class NotProven(StandfastError):
    """A proof, note or receipt does not prove what it claims. Nothing in it may be believed."""

    code = "not_proven"
    says = "This proves nothing."


class MalformedNote(NotProven):
    """The text is no signed note."""

    code = "malformed_note"
    says = "This is no signed note: {problem}"


class ForgedNote(NotProven):
    """A signature under a known key's name and id was not made by that key over this text."""

    code = "forged_note"
    says = "The signature of {name}+{key_id} does not fit the note; one of the two was changed."


class UnsignedNote(NotProven):
    """No known key has signed the note."""

    code = "unsigned_note"
    says = (
        "None of the known keys ({known}) has signed the note, but {signers}; give the signer's public key."
    )


class MalformedCheckpoint(NotProven):
    """The note's text is no checkpoint."""

    code = "malformed_checkpoint"
    says = "This is no checkpoint: {problem}"


class ForeignLog(NotProven):
    """The checkpoint is another log's."""

    code = "foreign_log"
    says = "The checkpoint is of the log {origin}, not of {expected}; take the checkpoint of that log."


class BadInclusion(NotProven):
    """The entry is not shown to be in the tree."""

    code = "bad_inclusion"
    says = "Leaf {index} is not shown to be in the tree of {size} leaves: {problem}"


class BadConsistency(NotProven):
    """The newer tree is not shown to hold all of the older one, unchanged."""

    code = "bad_consistency"
    says = "The tree of {new_size} leaves is not shown to extend the one of {old_size}: {problem}"


class SizeMismatch(NotProven):
    """A receipt and its checkpoint speak of different trees."""

    code = "size_mismatch"
    says = "The receipt is for a tree of {tree_size} leaves, but its checkpoint for one of {checkpoint_size}."


class MalformedEntry(NotProven):
    """What was proven to be in the tree is no ledger entry."""

    code = "malformed_entry"
    says = "Leaf {index} is no ledger entry: {problem}"


class MisplacedEntry(NotProven):
    """The entry names another place in the ledger than its receipt."""

    code = "misplaced_entry"
    says = "The entry says that it is entry {seq}, but its receipt is for leaf {index}, which is entry {expected}."
