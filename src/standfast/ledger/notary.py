"""The notary signs the ledger's head, keeps the checkpoints outside the store, and hands out receipts.

It never signs what contradicts an earlier checkpoint of its own: a ledger that was changed, cut or rolled back gets an
error instead of a signature. It checks and signs while it holds the file of checkpoints, so of two processes with
different ledgers under one name, at most one gets a signature.
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
"""Returns the ledger's entries behind a sequence number, in order."""


class Notary:
    """Signs for one log, which has the name of the key. Threads may share a notary, and processes its files."""

    def __init__(self, key: SigningKey | KeyFile, file: CheckpointFile, entries_after: EntriesAfter) -> None:
        self._key_source = key
        self._file = file
        self._entries_after = entries_after
        self._lock = threading.RLock()
        self._tree = Tree()
        self._tip = Tip()
        self._verified_notes: set[str] = set()
        self._last: str | None = None

    @classmethod
    def for_store_file(cls, path: Path, entries_after: EntriesAfter) -> Self:
        """The notary of a store's file, with the key and the checkpoints next to the file.

        The key is created when it is first needed. Whoever can change the store can also read the key; to be safe from
        them, keep the checkpoints or the key elsewhere.
        """
        return cls(
            KeyFile(path.with_name(path.name + "-log.key"), name=log_name(path)),
            CheckpointFile(path.with_name(path.name + "-log.checkpoints")),
            entries_after,
        )

    def checkpoints(self) -> tuple[tuple[str, ...], tuple[VerifyingKey, ...], tuple[int, ...]]:
        """The checkpoints signed so far, the key that must have signed them, and the numbers of torn lines.

        A key without checkpoints means that these are missing, because their file is created before the key. A line
        that a crash cut short counts as torn only until another one follows it.
        """
        found = self._file.read()
        key = (
            self._key_source.public()
            if isinstance(self._key_source, KeyFile)
            else self._key_source.verifying_key
        )
        is_expected = found.notes or (isinstance(self._key_source, KeyFile) and not self._file.path.exists())
        torn = tuple(sorted(set(found.torn_lines) - set(found.healed_lines)))
        return found.notes, (key,) if key is not None and is_expected else (), torn

    @property
    def _key(self) -> SigningKey:
        return self._key_source.load() if isinstance(self._key_source, KeyFile) else self._key_source

    @property
    def verifying_key(self) -> VerifyingKey:
        """The public key, with which others verify what is signed here."""
        return self._key.verifying_key

    def checkpoint(self) -> str:
        """Sign the present head and append it to the file; return the existing checkpoint if nothing was added."""
        with self._lock:
            self._file.extend(self._following)
            assert self._last is not None, "a checkpoint was found or made"
            return self._last

    def is_behind(self) -> bool:
        """Whether the newest checkpoint lacks entries, as after a crash, and this process could sign a newer one."""
        notes, keys, _ = self.checkpoints()
        can_sign = not isinstance(self._key_source, KeyFile) or self._key_source.can_sign(
            signed_before=bool(notes)
        )
        return can_sign and next(iter(self._entries_after(_newest_size(notes, keys))), None) is not None

    def _following(self, content: CheckpointFileContent) -> str | None:
        """The checkpoint to add to the file; None if the present head has one."""
        # Only now, because everything that another process signed before is in the ledger by now.
        self._catch_up()
        self._last = None
        for note in content.notes:
            if note not in self._verified_notes and self._is_own(note):
                self._verified_notes.add(note)
            if note in self._verified_notes and _size_of(note) == len(self._tree):
                self._last = note
        if self._last is not None:
            return None
        head = Checkpoint(origin=self._key.name, size=len(self._tree), root_hash=self._tree.root())
        self._last = head.sign([self._key])
        return self._last

    def receipt(self, seq: int) -> InclusionReceipt:
        """Make the receipt of entry ``seq`` under the newest checkpoint, and verify it."""
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
        """Prove that a newer checkpoint (by default that of the present head) extends an older one."""
        with self._lock:
            note = self.checkpoint() if newer is None else newer
            sizes = [Checkpoint.verify(one, [self.verifying_key]).size for one in (older, note)]
            return self._tree.consistency_proof(*sizes)

    def _catch_up(self) -> None:
        """Add the new entries of the ledger to the tree. The last known entry must still be there."""
        entries = iter(self._entries_after(max(self._tip.seq - 1, 0)))
        if self._tip.seq:
            known = next(entries, None)
            if known is None or known.tip != self._tip:
                problem = "it is missing or was replaced; the store was rolled back"
                raise BrokenChain(seq=self._tip.seq, problem=problem)
        added = walk(entries, start=self._tip)
        while page := list(islice(added, SCAN_PAGE_RECORDS)):
            self._tree.extend(entry.hash for entry in page)
            self._tip = page[-1].tip

    def _is_own(self, note: str) -> bool:
        """Whether this log has signed a note. If the ledger contradicts it, that is a ``BrokenChain``."""
        try:
            older = Checkpoint.verify(note, [self.verifying_key])
        except StandfastError:
            # Not of this key. Verification reports it; signing does not depend on it.
            return False
        if problem := contradiction(older, self._tree):
            raise BrokenChain(seq=min(older.size, len(self._tree) + 1), problem=problem)
        return True


def _newest_size(notes: Sequence[str], keys: Sequence[VerifyingKey]) -> int:
    """The number of entries in the newest checkpoint of these keys."""
    for note in reversed(notes):
        with suppress(StandfastError):
            return Checkpoint.verify(note, keys).size
    return 0


def _size_of(note: str) -> int:
    return Checkpoint.parse(unverified_text(note)).size


def contradiction(checkpoint: Checkpoint, tree: Tree, sound_size: int = 0) -> str | None:
    """Why this tree is not a later state of the checkpoint's tree, or None. The first ``sound_size`` entries are intact."""
    size = checkpoint.size
    if size > len(tree):
        return f"a signed checkpoint covers {size} entries, but from {len(tree) + 1} on they are missing or broken"
    if tree.root(size) != checkpoint.root_hash:
        return f"a signed checkpoint of {size} entries has another root; entries between {sound_size + 1} and {size} were changed"
    return None


def problems_of_ledger(
    entries: Iterable[Entry], notes: Sequence[str] = (), keys: Sequence[VerifyingKey] = ()
) -> Iterator[str]:
    """Yield one message per problem of a ledger and its checkpoints, the first break of the chain first."""
    hashes: list[str] = []
    try:
        for entry in walk(entries):
            hashes.append(entry.hash)  # noqa: PERF401  # The entries before a break count too.
    except BrokenChain as error:
        yield str(error)
    if keys and not notes:
        yield "the log has a key, but its checkpoints are missing; restore their file, or sign the present head to begin anew"
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
    # By size, so that the first contradiction shows between which two checkpoints the break is.
    for size, number, checkpoint in sorted(checkpoints, key=lambda one: one[:2]):
        if problem := contradiction(checkpoint, tree, sound_size):
            yield f"checkpoint {number}: {problem}"
        else:
            sound_size = size
