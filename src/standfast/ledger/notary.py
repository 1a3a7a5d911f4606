"""The notary signs the ledger's head, keeps the checkpoints outside the store, and hands out receipts.

It never signs what contradicts its newest checkpoint: a ledger that was cut, rolled back or replaced gets an
error instead of a signature. It checks and signs while it holds the file of checkpoints, so of two processes
with different ledgers under one name, at most one gets a signature. What a restore left behind is the only
exception; the ledger itself tells of that.

Signing takes time for the entries since the last checkpoint only. The right edge of the tree is kept in a
file next to the checkpoints; it is used if it leads to the root that was signed, and otherwise made anew from
the whole ledger.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, Self

from standfast.errors import BrokenChain, InvalidValue, StandfastError
from standfast.ledger.chain import Branch, Entry, Tip, walk
from standfast.ledger.checkpoint import Checkpoint, CheckpointFile, InclusionReceipt, verify_receipt
from standfast.ledger.cosigning import Cosigner, WitnessKey
from standfast.ledger.note import KeyFile, SigningKey, VerifyingKey, log_name, unverified_text
from standfast.ledger.tree import Tree, TreeEdge
from standfast.ledger.witness import contradiction, has_signed, size_of
from standfast.limits import (
    DEFAULT_SIGNED_ENTRIES,
    DEFAULT_SIGNED_SECONDS,
    MAX_LOG_NAME_CHARS,
    SCAN_PAGE_RECORDS,
)
from standfast.side_files import SideFiles, database_name

EntriesAfter = Callable[[int], Iterable[Entry]]
"""Returns the ledger's entries behind a sequence number, in order."""
Branches = Callable[[], Sequence[Branch]]
"""Returns the branches of the ledger, by number."""

Announce = Callable[[VerifyingKey], None]
"""Appends an entry to the ledger that names the key that signs from here on."""

_EDGE_FORMAT: Final = "standfast-edge/v1"


class Notary:
    """Signs for one log, which has the name of the key.

    Threads may share a notary, and processes its files.

    Args:
        key: What signs.
        file: Where checkpoints are kept.
        entries_after: Reads the ledger.
        branches: Reads its branches.
        announce: Called before a key signs for the first time. None for a ledger that does not name its keys.
        every_entries: A memory that writes signs as soon as so many entries are not covered,
        every_seconds: or as soon as one was not for so long.
    """

    def __init__(
        self,
        key: SigningKey | KeyFile,
        file: CheckpointFile,
        entries_after: EntriesAfter,
        branches: Branches = tuple,
        *,
        announce: Announce | None = None,
        every_entries: int = DEFAULT_SIGNED_ENTRIES,
        every_seconds: float = DEFAULT_SIGNED_SECONDS,
    ) -> None:
        self._key_source = key
        self._file = file
        self._entries_after = entries_after
        self._branches = branches
        self._announce = announce
        self.every_entries = every_entries
        self.every_seconds = every_seconds
        self._lock = threading.RLock()
        self._edge_path = file.path.with_name(file.path.name + ".edge")
        self._edge = TreeEdge()
        self._tip = Tip()
        self._tree = Tree()
        self._tree_tip = Tip()
        self.cosigner: Cosigner | None = None
        """Who asks a witness to cosign; None if there is no witness."""
        self._last: str | None = None
        """The newest checkpoint that this process has signed, or held against the ledger."""

    @classmethod
    def for_store_file(
        cls,
        path: Path,
        entries_after: EntriesAfter,
        branches: Branches = tuple,
        announce: Announce | None = None,
    ) -> Self:
        """The notary of a store's file, with the key and the checkpoints among its side files.

        The key is created when it is first needed. Whoever can change the store can also read the key; to be
        safe from them, keep the checkpoints or the key elsewhere.
        """
        found = cls.for_store(str(path), entries_after, branches, announce)
        assert found is not None, "a file has side files"
        return found

    @classmethod
    def for_store(
        cls,
        url: str,
        entries_after: EntriesAfter,
        branches: Branches = tuple,
        announce: Announce | None = None,
        *,
        every_entries: int = DEFAULT_SIGNED_ENTRIES,
        every_seconds: float = DEFAULT_SIGNED_SECONDS,
    ) -> Self | None:
        """The notary of a store by its URL, with the key and the checkpoints among its side files.

        The folder is created. A store in memory has no notary.
        """
        if (files := SideFiles.of(url)) is None:
            return None
        with suppress(OSError):
            # Whoever can't create it gets a warning when a checkpoint is due.
            files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        named = (
            log_name(Path(url))
            if "://" not in url
            else f"standfast/{database_name(url)[:MAX_LOG_NAME_CHARS]}"
        )
        return cls(
            KeyFile(files.key, name=named),
            CheckpointFile(files.checkpoints),
            entries_after,
            branches,
            announce=announce,
            every_entries=every_entries,
            every_seconds=every_seconds,
        )

    def checkpoints(self) -> tuple[tuple[str, ...], tuple[VerifyingKey, ...], tuple[int, ...]]:
        """The checkpoints signed so far, the key that must have signed them, and the numbers of torn lines.

        A key without checkpoints means that these are missing, because their file is created before the key.
        A line that a crash cut short does not count as torn: what it was to cover is not signed yet.
        """
        found = self._file.read()
        key = self.public_key()
        is_expected = found.notes or (isinstance(self._key_source, KeyFile) and not self._file.path.exists())
        torn = tuple(sorted(set(found.torn_lines) - set(found.healed_lines)))
        return found.notes, (key,) if key is not None and is_expected else (), torn

    @property
    def has_file(self) -> bool:
        """Whether there is a file of checkpoints, even if it is empty."""
        return self._file.path.exists()

    def has_note(self, note: str) -> bool:
        """Whether a checkpoint is in the file. It is searched from its end on."""
        return note in self._file.newest()

    def public_key(self) -> VerifyingKey | None:
        """The key that would sign now; None if there is none yet."""
        source = self._key_source
        return source.public() if isinstance(source, KeyFile) else source.verifying_key

    @property
    def _key(self) -> SigningKey:
        return self._key_source.load() if isinstance(self._key_source, KeyFile) else self._key_source

    @property
    def verifying_key(self) -> VerifyingKey:
        """The public key, with which others verify what is signed here."""
        return self._key.verifying_key

    def checkpoint(self, *, elsewhere: str | None = None) -> str:
        """Sign the present head and append it to the file; return the checkpoint that is there already.

        Args:
            elsewhere: The newest checkpoint of another machine. It is held against the ledger too.
        """
        with self._lock:
            self._file.extend(lambda notes: self._following(notes, elsewhere))
            self._keep_edge()
            assert self._last is not None, "a checkpoint was found or made"
            return self._last

    def is_behind(self) -> bool:
        """Whether the newest checkpoint lacks entries, as after a crash, and this process could sign one."""
        newest = next(self._file.newest(), None)
        can_sign = not isinstance(self._key_source, KeyFile) or self._key_source.can_sign(
            signed_before=newest is not None
        )
        return can_sign and next(iter(self._entries_after(size_of(newest))), None) is not None

    def signed_size(self) -> int:
        """How many entries the newest checkpoint covers, as its text says. Nothing is verified."""
        return size_of(next(self._file.newest(), None))

    def _newest_own(self, notes: Iterable[str], key: VerifyingKey) -> tuple[str, Checkpoint] | None:
        """The newest checkpoint that this log has signed, and that no restore has left behind.

        Notes of other keys are passed over. Verification reports them; signing does not depend on them.
        """
        branches = self._branches()
        for note in notes:
            with suppress(StandfastError):
                checkpoint = Checkpoint.verify(note, [key])
                if not checkpoint.is_left(branches):
                    return note, checkpoint
        return None

    def _following(self, notes: Iterator[str], elsewhere: str | None) -> str | None:
        """The checkpoint to add to the file; None if the present head has one."""
        # The entries are read only now: everything that another process signed before is in the ledger by
        # now.
        key = self.verifying_key
        newest = self._newest_own(notes, key)
        # A key that has signed is named by the ledger.
        if newest is None and self._announce is not None and not has_signed(self._file.newest(), key):
            self._announce(key)
        if newest is not None and newest[0] != self._last:
            self._hold_against(newest[1])
            self._last = newest[0]
        if elsewhere is not None and size_of(elsewhere) > (0 if newest is None else newest[1].size):
            self._hold_against(Checkpoint.parse(unverified_text(elsewhere)))
        self._catch_up()
        if newest is not None and newest[1].size == self._edge.size:
            return None
        branch = max(self._branches(), key=lambda one: one.number, default=None)
        head = Checkpoint.of_branch(
            branch, origin=self._key.name, size=self._edge.size, root_hash=self._edge.root()
        )
        self._last = head.sign([self._key])
        return self._last

    def _hold_against(self, checkpoint: Checkpoint) -> None:
        """Move to the end of a checkpoint's tree. If the ledger contradicts it, that is a ``BrokenChain``."""
        if self._edge.size > checkpoint.size or not self._tip.seq:
            self._edge, self._tip = self._kept_edge(checkpoint)
        self._catch_up(checkpoint.size)
        if problem := contradiction(checkpoint, self._edge.size, self._edge.root):
            seq = min(checkpoint.size, self._edge.size + 1)
            # What was read so far is of a ledger that is not the signed one.
            self._edge, self._tip = TreeEdge(), Tip()
            raise BrokenChain(seq=seq, problem=problem)

    def _kept_edge(self, checkpoint: Checkpoint) -> tuple[TreeEdge, Tip]:
        """The edge of the checkpoint's tree, if it was kept and the ledger has its last entry; else empty."""
        with suppress(OSError, ValueError, KeyError, TypeError, StandfastError):
            kept = json.loads(self._edge_path.read_bytes())
            edge, tip = TreeEdge(kept["size"], kept["hashes"]), Tip(seq=kept["size"], hash=kept["tip"])
            last = next(iter(self._entries_after(tip.seq - 1)), None) if tip.seq else None
            is_signed = (edge.size, edge.root()) == (checkpoint.size, checkpoint.root_hash)
            if kept["format"] == _EDGE_FORMAT and is_signed and last is not None and last.tip == tip:
                return edge, tip
        return TreeEdge(), Tip()

    def _keep_edge(self) -> None:
        """Keep the edge for the next process. It is only a shortcut, so it may fail."""
        kept = {
            "format": _EDGE_FORMAT,
            "size": self._edge.size,
            "hashes": self._edge.hashes,
            "tip": self._tip.hash,
        }
        draft = self._edge_path.with_name(f"{self._edge_path.name}.{os.getpid()}")
        with suppress(OSError):
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump(kept, file)
            draft.replace(self._edge_path)

    def receipt(self, seq: int) -> InclusionReceipt:
        """Make the receipt of entry ``seq`` under the newest checkpoint, and verify it.

        The first one reads the whole ledger.
        """
        with self._lock:
            note = self.checkpoint()
            tree = self._whole_tree()
            if type(seq) is not int or not 0 < seq <= len(tree):
                problem = f"the ledger has entries 1 to {len(tree)}, not {seq!r:.40}"
                raise InvalidValue(what="seq", problem=problem)
            entry = next(iter(self._entries_after(seq - 1)))
            receipt = InclusionReceipt.of(entry, tree, note)
            verify_receipt(receipt, self.verifying_key)
            return receipt

    def set_witness(self, url: str, key: WitnessKey) -> None:
        """Have each checkpoint cosigned by a witness. What it cosigned is kept next to the checkpoints."""
        file = self._file.path.with_name(f"{self._file.path.name}.cosigned")
        self.cosigner = Cosigner(url, key, CheckpointFile(file))

    def cosign(self, note: str) -> None:
        """Ask the witness for its cosignature, if there is one. The first call reads the whole ledger."""
        if self.cosigner is not None:
            with self._lock:
                self.cosigner.cosign(note, lambda old, size: self._whole_tree().consistency_proof(old, size))

    def consistency_proof(self, older: str, newer: str | None = None) -> tuple[str, ...]:
        """Prove that a newer checkpoint (by default that of the present head) extends an older one."""
        with self._lock:
            note = self.checkpoint() if newer is None else newer
            sizes = [Checkpoint.verify(one, [self.verifying_key]).size for one in (older, note)]
            return self._whole_tree().consistency_proof(*sizes)

    def _whole_tree(self) -> Tree:
        """The tree up to the end that was read last, with all its leaves."""
        self._catch_up()
        added = walk(self._entries_after(self._tree_tip.seq), start=self._tree_tip)
        while page := list(islice(added, min(SCAN_PAGE_RECORDS, self._tip.seq - len(self._tree)))):
            self._tree.extend(entry.hash for entry in page)
            self._tree_tip = page[-1].tip
        if self._tree_tip != self._tip:
            raise BrokenChain(seq=self._tree_tip.seq, problem="it was replaced while it was read")
        return self._tree

    def _catch_up(self, last: int | None = None) -> None:
        """Read the new entries of the ledger, up to ``last`` if given. The last known one must be there."""
        entries = iter(self._entries_after(max(self._tip.seq - 1, 0)))
        if self._tip.seq:
            known = next(entries, None)
            if known is None or known.tip != self._tip:
                problem = "it is missing or was replaced; the store was rolled back"
                raise BrokenChain(seq=self._tip.seq, problem=problem)
        count = None if last is None else max(last - self._tip.seq, 0)
        for entry in islice(walk(entries, start=self._tip), count):
            self._edge.append(entry.hash)
            self._tip = entry.tip
