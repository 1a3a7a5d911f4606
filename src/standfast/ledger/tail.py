"""The ledger's tail: what vouches for the newest entry. Without that, entries cut off the end, or a rewritten chain, would not show."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from standfast.errors import StandfastError
from standfast.ledger.chain import Branch
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.note import VerifyingKey
from standfast.vocabulary import Value


class LedgerTail(Value, frozen=True, kw_only=True):
    """How far each witness of a ledger reaches.

    Attributes:
        newest_seq: The number of the newest entry; 0 if the ledger is empty.
        opened_seq: The newest entry when this process opened the store. Something must vouch for it; what came later was written meanwhile.
        signed_seq: The last entry that a signed checkpoint covers.
        signed_by: The log that signed it.
        acknowledged_seq: The last entry by the head file, which is kept next to a store's file. After a crash the ledger may be ahead of it.
    """

    newest_seq: int = 0
    opened_seq: int = 0
    signed_seq: int = 0
    signed_by: str = ""
    acknowledged_seq: int = 0

    def signed(
        self,
        newest_seq: int,
        notes: Sequence[str],
        keys: Sequence[VerifyingKey],
        branches: Sequence[Branch] = (),
    ) -> "LedgerTail":
        """The tail with signed checkpoints as witnesses. Notes that no key signed, or that a restore left behind, do not count."""
        signed = []
        for note in notes:
            with suppress(StandfastError):
                checkpoint = Checkpoint.verify(note, keys)
                if not checkpoint.is_left(branches):
                    signed.append((checkpoint.size, checkpoint.origin))
        size, log = max(signed, default=(0, ""))
        return msgspec.structs.replace(self, newest_seq=newest_seq, signed_seq=size, signed_by=log)

    @property
    def summary(self) -> str:
        """What vouches for the newest entry, in a sentence or two."""
        newest = f"Entry {self.newest_seq}, the newest,"
        if not self.newest_seq:
            return "The ledger is empty."
        if self.signed_seq >= self.newest_seq:
            return f"{newest} is covered by a checkpoint that {self.signed_by} signed."
        if self.problem:
            return f"Nothing vouches for entry {self.opened_seq}, the newest when the store was opened."
        covered = f"Signed checkpoints cover {self.signed_seq} entries."
        if self.acknowledged_seq >= self.newest_seq:
            begins = f"{newest} is covered by the store's head file only"
            return f"{begins}; the next command that writes signs it. {covered}"
        return f"{newest} is not signed yet: a checkpoint is signed on request, and when the store is closed. {covered}"

    @property
    def problem(self) -> str | None:
        """What to do if nothing vouches for the entries that were there; None if something does."""
        if not self.opened_seq or self.signed_seq >= self.opened_seq or self.acknowledged_seq:
            return None
        return (
            f"nothing vouches for entry {self.opened_seq}, the newest when the store was opened: signed checkpoints cover {self.signed_seq} entries, "
            "and no head file covers the rest, so a cut or rewritten end would not show. If you kept checkpoints elsewhere, run: standfast verify "
            "--checkpoints FILE --public-key FILE. If the log's key and checkpoints are in another place, set log_key and checkpoints, or run "
            "this where the folder standfast-log is. If the store never had any, sign it: any command that writes does"
        )
