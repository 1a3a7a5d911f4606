"""The notary: signs the ledger's head, keeps the signed checkpoints outside the store, and hands out receipts.

It never signs what contradicts an earlier checkpoint of its own: a ledger that was changed, cut or rolled back gets
no new signature, but an error that says so. It looks, decides and signs while it holds the file of checkpoints, so that
of two processes with different ledgers under one name, one at most is signed for.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Self

from standfast.errors import BrokenChain, InvalidValue, StandfastError
from standfast.ledger.chain import Entry, Tip, walk
from standfast.ledger.checkpoint import (
    Checkpoint,
    CheckpointFile,
    CheckpointFileContent,
    InclusionReceipt,
    verify_receipt,
)
from standfast.ledger.note import KeyFile, SigningKey, VerifyingKey, log_name, unverified_text
from standfast.ledger.tree import Tree
from standfast.limits import SCAN_PAGE_RECORDS

EntriesAfter = Callable[[int], Iterable[Entry]]
"""The ledger's entries from after a place on, in order."""


class Notary:
    """Signs for one log, whose name is its key's. Threads may share it, processes the files."""

    def __init__(
        self, key: SigningKey | KeyFile, mirror: CheckpointFile, entries_after: EntriesAfter
    ) -> None:
        self._held = key
        self._mirror = mirror
        self._entries_after = entries_after
        self._lock = threading.RLock()
        self._tree = Tree()
        self._tip = Tip()
        self._extended: set[str] = set()
        self._last: str | None = None

    @classmethod
    def for_store_file(cls, path: Path, entries_after: EntriesAfter) -> Self:
        """The notary of a store's file: its key, its public half and its checkpoints stand beside the file.

        The key is made when it is first needed. Whoever can change the store can take it; to hold against them, keep
        the checkpoints, or the key, elsewhere.
        """
        return cls(
            KeyFile(path.with_name(path.name + "-log.key"), name=log_name(path)),
            CheckpointFile(path.with_name(path.name + "-log.checkpoints")),
            entries_after,
        )

    def kept(self) -> tuple[tuple[str, ...], tuple[VerifyingKey, ...], tuple[int, ...]]:
        """The checkpoints that were signed so far, the key that must have signed them, and torn lines between them.

        No checkpoints but a key means that they are missing, because their file is made before the key is. A line that
        a crash cut short counts as torn only until another follows it.
        """
        found = self._mirror.read()
        key = self._held.public() if isinstance(self._held, KeyFile) else self._held.verifying_key
        is_expected = found.notes or (isinstance(self._held, KeyFile) and not self._mirror.path.exists())
        torn = tuple(sorted(set(found.torn_lines) - set(found.healed_lines)))
        return found.notes, (key,) if key is not None and is_expected else (), torn

    @property
    def _key(self) -> SigningKey:
        return self._held.load() if isinstance(self._held, KeyFile) else self._held

    @property
    def verifying_key(self) -> VerifyingKey:
        """What others need to check what is signed here."""
        return self._key.verifying_key

    def checkpoint(self) -> str:
        """The signed checkpoint of the present head, mirrored; the one that is there already, if nothing was added."""
        with self._lock:
            self._mirror.extend(self._following)
            assert self._last is not None, "a checkpoint was found or made"
            return self._last

    def is_behind(self) -> bool:
        """Whether the newest checkpoint leaves entries out, as after a crash, and who asks could sign a newer one."""
        notes, keys, _ = self.kept()
        can_sign = not isinstance(self._held, KeyFile) or self._held.is_at_hand(signed_before=bool(notes))
        return can_sign and next(iter(self._entries_after(_newest_size(notes, keys))), None) is not None

    def _following(self, kept: CheckpointFileContent) -> str | None:
        """The checkpoint to add to those that are kept; None if the present head has one."""
        # Only now, because what another process has signed before is in the ledger by now.
        self._catch_up()
        self._last = None
        for note in kept.notes:
            if note not in self._extended and self._is_own(note):
                self._extended.add(note)
            if note in self._extended and _size_of(note) == len(self._tree):
                self._last = note
        if self._last is not None:
            return None
        head = Checkpoint(origin=self._key.name, size=len(self._tree), root_hash=self._tree.root())
        self._last = head.sign([self._key])
        return self._last

    def receipt(self, seq: int) -> InclusionReceipt:
        """Proof that entry ``seq`` is in the ledger, under the newest checkpoint; it has been verified."""
        with self._lock:
            note = self.checkpoint()
            if type(seq) is not int or not 0 < seq <= len(self._tree):
                problem = f"the ledger has entries 1 to {len(self._tree)}, not {seq!r:.40}"
                raise InvalidValue(what="seq", problem=problem)
            entry = next(iter(self._entries_after(seq - 1)))
            receipt = InclusionReceipt.of(entry, self._tree, note)
            verify_receipt(receipt, self.verifying_key)
            return receipt

    def consistency_proof(self, older: str, newer: str | None = None) -> tuple[str, ...]:
        """Proof that a newer checkpoint (by default that of the present head) extends an older one."""
        with self._lock:
            note = self.checkpoint() if newer is None else newer
            sizes = [Checkpoint.verify(one, [self.verifying_key]).size for one in (older, note)]
            return self._tree.consistency_proof(*sizes)

    def _catch_up(self) -> None:
        """Take in what was added to the ledger. The end that is known must still be there."""
        entries = iter(self._entries_after(max(self._tip.seq - 1, 0)))
        if self._tip.seq:
            known = next(entries, None)
            if known is None or known.tip != self._tip:
                problem = "it was there and is missing or another; the store was rolled back"
                raise BrokenChain(seq=self._tip.seq, problem=problem)
        added = walk(entries, start=self._tip)
        while page := list(islice(added, SCAN_PAGE_RECORDS)):
            self._tree.extend(entry.hash for entry in page)
            self._tip = page[-1].tip

    def _is_own(self, note: str) -> bool:
        """Whether this log has signed it; if it did, and the ledger is no later state of it, that is a ``BrokenChain``."""
        try:
            older = Checkpoint.verify(note, [self.verifying_key])
        except StandfastError:
            # Another key's, or a hand's; verifying tells of it, and signing does not depend on it.
            return False
        if problem := contradiction(older, self._tree):
            raise BrokenChain(seq=min(older.size, len(self._tree) + 1), problem=problem)
        return True


def _newest_size(notes: Sequence[str], keys: Sequence[VerifyingKey]) -> int:
    """How many entries the newest checkpoint of these keys vouches for."""
    for note in reversed(notes):
        with suppress(StandfastError):
            return Checkpoint.verify(note, keys).size
    return 0


def _size_of(note: str) -> int:
    return Checkpoint.parse(unverified_text(note)).size


def contradiction(checkpoint: Checkpoint, tree: Tree, sound_size: int = 0) -> str | None:
    """Why this tree can't be a later state of the checkpoint's, or None. Up to ``sound_size`` it is known to hold."""
    size = checkpoint.size
    if size > len(tree):
        return f"a signed checkpoint vouches for {size} entries; from {len(tree) + 1} on they are missing or broken"
    if tree.root(size) != checkpoint.root_hash:
        return f"a signed checkpoint of {size} entries has another root; of {sound_size + 1} to {size} some were changed"
    return None


def problems_of_ledger(
    entries: Iterable[Entry], notes: Sequence[str] = (), keys: Sequence[VerifyingKey] = ()
) -> Iterator[str]:
    """What is wrong with a ledger and its checkpoints, the first break of the chain first."""
    hashes: list[str] = []
    try:
        for entry in walk(entries):
            hashes.append(entry.hash)  # noqa: PERF401  # What was found sound before a break counts too.
    except BrokenChain as error:
        yield str(error)
    if keys and not notes:
        yield "the checkpoints are missing, and the log has a key; find them, or sign the present head to begin anew"
    if notes:
        yield from _problems_of_checkpoints(Tree(hashes), notes, keys)


def _problems_of_checkpoints(tree: Tree, notes: Sequence[str], keys: Sequence[VerifyingKey]) -> Iterator[str]:
    checkpoints: list[tuple[int, int, Checkpoint]] = []
    for number, note in enumerate(notes, 1):
        try:
            checkpoint = Checkpoint.verify(note, keys)
        except StandfastError as error:
            yield f"checkpoint {number}: {error}"
        else:
            checkpoints.append((checkpoint.size, number, checkpoint))
    sound_size = 0
    # By size, so that the first contradiction tells between which two checkpoints the break is.
    for size, number, checkpoint in sorted(checkpoints, key=lambda one: one[:2]):
        if problem := contradiction(checkpoint, tree, sound_size):
            yield f"checkpoint {number}: {problem}"
        else:
            sound_size = size
