"""The notary: signs the ledger's head, keeps the signed checkpoints outside the store, and hands out receipts.

It never signs what contradicts an earlier checkpoint of its own: a ledger that was changed, cut or rolled back gets
no new signature, but an error that says so.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from holdfast.errors import BrokenChain, HoldfastError, InvalidValue
from holdfast.ledger.chain import Entry, Tip, check
from holdfast.ledger.checkpoint import Checkpoint, MirrorFile
from holdfast.ledger.note import SigningKey, VerifyingKey, unverified_text
from holdfast.ledger.receipt import InclusionReceipt
from holdfast.ledger.tree import Tree

EntriesAfter = Callable[[int], Iterable[Entry]]
"""The ledger's entries from after a place on, in order."""


class KeyFile:
    """A signing key in a file that only its owner reads, made at its first use, its public half beside it (``.pub``)."""

    def __init__(self, path: Path, *, name: str) -> None:
        self.path = path
        self._name = name
        self._loaded: SigningKey | None = None

    def load(self) -> SigningKey:
        """The key. Of two processes that make it at once, both get the one that was there first."""
        if self._loaded is None:
            if not self.path.exists():
                self._make()
            self._loaded = SigningKey.parse(self.path.read_text(encoding="ascii").strip())
        return self._loaded

    def _make(self) -> None:
        key = SigningKey.generate(self._name)
        draft = self.path.with_name(f"{self.path.name}.{key.verifying_key.key_id}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key.secret_text + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link fails where a rename would replace another's key.
            os.link(draft, self.path)
        except FileExistsError:
            return
        finally:
            draft.unlink()
        self.path.with_suffix(".pub").write_text(key.verifying_key.text + "\n", encoding="ascii")


class Notary:
    """Signs for one log, whose name is its key's. Not safe to share between threads."""

    def __init__(self, key: SigningKey | KeyFile, mirror: MirrorFile, entries_after: EntriesAfter) -> None:
        self._held = key
        self._mirror = mirror
        self._entries_after = entries_after
        self._tree = Tree()
        self._tip = Tip()
        self._last: str | None = None

    @classmethod
    def beside(cls, path: Path, entries_after: EntriesAfter) -> Self:
        """The notary of a store's file: its key, its public half and its checkpoints stand beside the file.

        The key is made when it is first needed. Whoever can change the store can take it; to hold against them, keep
        the checkpoints, or the key, elsewhere.
        """
        return cls(
            KeyFile(path.with_name(path.name + "-log.key"), name=f"holdfast/{path.stem}"),
            MirrorFile(path.with_name(path.name + "-log.checkpoints")),
            entries_after,
        )

    def kept(self) -> tuple[tuple[str, ...], tuple[VerifyingKey, ...], tuple[int, ...]]:
        """The checkpoints that were signed so far, the key that must have signed them, and torn lines between them."""
        found = self._mirror.read()
        return found.notes, (self.verifying_key,) if found.notes else (), found.torn_lines

    @property
    def _key(self) -> SigningKey:
        return self._held.load() if isinstance(self._held, KeyFile) else self._held

    @property
    def verifying_key(self) -> VerifyingKey:
        """What others need to check what is signed here."""
        return self._key.verifying_key

    def checkpoint(self) -> str:
        """The signed checkpoint of the present head, mirrored; the one that is there already, if nothing was added."""
        self._catch_up()
        for note in self._mirror.read().notes:
            self._require_extended(note)
        if self._last is None or Checkpoint.parse(unverified_text(self._last)).size != len(self._tree):
            head = Checkpoint(origin=self._key.name, size=len(self._tree), root_hash=self._tree.root())
            self._last = head.sign([self._key])
            self._mirror.append(self._last)
        return self._last

    def receipt(self, seq: int) -> InclusionReceipt:
        """Proof that entry ``seq`` is in the ledger, under the newest checkpoint."""
        note = self.checkpoint()
        if not 0 < seq <= len(self._tree):
            raise InvalidValue(
                what="seq", problem=f"the ledger has entries 1 to {len(self._tree)}, not {seq}"
            )
        entry = next(iter(self._entries_after(seq - 1)))
        return InclusionReceipt.of(entry, self._tree, note)

    def consistency_proof(self, older: str) -> tuple[str, ...]:
        """Proof that the present head extends an older checkpoint."""
        self._catch_up()
        size = Checkpoint.verify(older, [self.verifying_key]).size
        return self._tree.consistency_proof(size, len(self._tree))

    def _catch_up(self) -> None:
        new = list(self._entries_after(self._tip.seq))
        self._tip = check(new, start=self._tip)
        self._tree.extend(entry.hash for entry in new)

    def _require_extended(self, note: str) -> None:
        if note == self._last:
            return
        try:
            older = Checkpoint.verify(note, [self.verifying_key])
        except HoldfastError:
            # Another key's, or a hand's; verifying tells of it, and signing does not depend on it.
            return
        if problem := contradiction(older, self._tree):
            raise BrokenChain(seq=min(older.size, len(self._tree)), problem=problem)
        if older.size == len(self._tree):
            self._last = note


def contradiction(checkpoint: Checkpoint, tree: Tree) -> str | None:
    """Why this tree can't be a later state of the checkpoint's, or None."""
    if checkpoint.size > len(tree):
        lost = checkpoint.size - len(tree)
        return f"a signed checkpoint vouches for {checkpoint.size} entries; the last {lost} are missing"
    if tree.root(checkpoint.size) != checkpoint.root_hash:
        return f"a signed checkpoint of {checkpoint.size} entries has another root; entries up to there were changed"
    return None


def problems_of_ledger(
    entries: Iterable[Entry], notes: Sequence[str] = (), keys: Sequence[VerifyingKey] = ()
) -> Iterable[str]:
    """What is wrong with a ledger and its checkpoints, the first break of the chain first."""
    tree = Tree()
    hashes: list[str] = []
    try:
        check(_noting(entries, hashes))
    except BrokenChain as error:
        yield str(error)
    if not notes:
        return
    tree.extend(hashes)
    for number, note in enumerate(notes, 1):
        try:
            checkpoint = Checkpoint.verify(note, keys)
        except HoldfastError as error:
            yield f"checkpoint {number}: {error}"
            continue
        if problem := contradiction(checkpoint, tree):
            yield f"checkpoint {number}: {problem}"


def _noting(entries: Iterable[Entry], hashes: list[str]) -> Iterable[Entry]:
    for entry in entries:
        yield entry
        # Only reached once the walk has found the entry sound.
        hashes.append(entry.hash)
