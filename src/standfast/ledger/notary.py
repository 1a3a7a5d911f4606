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
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec

from standfast.errors import BrokenChain, InvalidValue, StandfastError
from standfast.ledger.chain import Branch, Entry, Tip, walk
from standfast.ledger.checkpoint import Checkpoint, CheckpointFile, InclusionReceipt, verify_receipt
from standfast.ledger.note import KeyFile, SigningKey, VerifyingKey, log_name
from standfast.ledger.tree import Tree, TreeEdge
from standfast.limits import MAX_LOG_NAME_CHARS, SCAN_PAGE_RECORDS
from standfast.records.vocabulary import Value

EntriesAfter = Callable[[int], Iterable[Entry]]
"""Returns the ledger's entries behind a sequence number, in order."""
Branches = Callable[[], Sequence[Branch]]
"""Returns the branches of the ledger, by number."""

LOG_FOLDER: Final = "standfast-log"
"""Where the key and the checkpoints of a store on a server are, if nobody says otherwise."""

_EDGE_FORMAT: Final = "standfast-edge/v1"
_NOT_IN_A_FILE_NAME: Final = re.compile("[^A-Za-z0-9._-]+")


class Notary:
    """Signs for one log, which has the name of the key.

    Threads may share a notary, and processes its files.
    """

    def __init__(
        self,
        key: SigningKey | KeyFile,
        file: CheckpointFile,
        entries_after: EntriesAfter,
        branches: Branches = tuple,
    ) -> None:
        self._key_source = key
        self._file = file
        self._entries_after = entries_after
        self._branches = branches
        self._lock = threading.RLock()
        self._edge_path = file.path.with_name(file.path.name + ".edge")
        self._edge = TreeEdge()
        self._tip = Tip()
        self._tree = Tree()
        self._tree_tip = Tip()
        self._last: str | None = None
        """The newest checkpoint that this process has signed, or held against the ledger."""

    @classmethod
    def for_store_file(cls, path: Path, entries_after: EntriesAfter, branches: Branches = tuple) -> Self:
        """The notary of a store's file, with the key and the checkpoints next to the file.

        The key is created when it is first needed. Whoever can change the store can also read the key; to be
        safe from them, keep the checkpoints or the key elsewhere.
        """
        return cls(
            KeyFile(path.with_name(path.name + "-log.key"), name=log_name(path)),
            CheckpointFile(path.with_name(path.name + "-log.checkpoints")),
            entries_after,
            branches,
        )

    @classmethod
    def for_store(
        cls,
        url: str,
        entries_after: EntriesAfter,
        branches: Branches = tuple,
        *,
        folder: Path = Path(LOG_FOLDER),
    ) -> Self | None:
        """The notary of a store by its URL: its files are next to a store's file, or in a folder for a store
        on a server.

        The folder is created. A store in memory has no notary.
        """
        if url == ":memory:":
            return None
        if "://" not in url:
            return cls.for_store_file(Path(url), entries_after, branches)
        with suppress(OSError):
            # Whoever can't create it gets a warning when a checkpoint is due.
            folder.mkdir(mode=0o700, exist_ok=True)
        name = _database_name(url)
        return cls(
            KeyFile(folder / f"{name}.key", name=f"standfast/{name[:MAX_LOG_NAME_CHARS]}"),
            CheckpointFile(folder / f"{name}.checkpoints"),
            entries_after,
            branches,
        )

    def checkpoints(self) -> tuple[tuple[str, ...], tuple[VerifyingKey, ...], tuple[int, ...]]:
        """The checkpoints signed so far, the key that must have signed them, and the numbers of torn lines.

        A key without checkpoints means that these are missing, because their file is created before the key.
        A line that a crash cut short counts as torn only until another one follows it.
        """
        found = self._file.read()
        key = self._public_key()
        is_expected = found.notes or (isinstance(self._key_source, KeyFile) and not self._file.path.exists())
        torn = tuple(sorted(set(found.torn_lines) - set(found.healed_lines)))
        return found.notes, (key,) if key is not None and is_expected else (), torn

    def _public_key(self) -> VerifyingKey | None:
        source = self._key_source
        return source.public() if isinstance(source, KeyFile) else source.verifying_key

    @property
    def _key(self) -> SigningKey:
        return self._key_source.load() if isinstance(self._key_source, KeyFile) else self._key_source

    @property
    def verifying_key(self) -> VerifyingKey:
        """The public key, with which others verify what is signed here."""
        return self._key.verifying_key

    def checkpoint(self) -> str:
        """Sign the present head and append it to the file; return the existing checkpoint if nothing was
        added.
        """
        with self._lock:
            self._file.extend(self._following)
            self._keep_edge()
            assert self._last is not None, "a checkpoint was found or made"
            return self._last

    def is_behind(self) -> bool:
        """Whether the newest checkpoint lacks entries, as after a crash, and this process could sign a newer
        one.
        """
        key = self._public_key()
        newest = None if key is None else self._newest_own(self._file.newest(), key)
        signed_before = newest is not None or next(self._file.newest(), None) is not None
        can_sign = not isinstance(self._key_source, KeyFile) or self._key_source.can_sign(
            signed_before=signed_before
        )
        size = 0 if newest is None else newest[1].size
        return can_sign and next(iter(self._entries_after(size)), None) is not None

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

    def _following(self, notes: Iterator[str]) -> str | None:
        """The checkpoint to add to the file; None if the present head has one."""
        # The entries are read only now: everything that another process signed before is in the ledger by
        # now.
        newest = self._newest_own(notes, self.verifying_key)
        if newest is not None and newest[0] != self._last:
            self._hold_against(newest[1])
            self._last = newest[0]
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
        """The edge of the checkpoint's tree, if it was kept and the ledger still has its last entry; else an
        empty one.
        """
        with suppress(OSError, ValueError, KeyError, TypeError, StandfastError):
            kept = json.loads(self._edge_path.read_bytes())
            edge, tip = TreeEdge(kept["size"], kept["hashes"]), Tip(seq=kept["size"], hash=kept["tip"])
            last = next(iter(self._entries_after(tip.seq - 1)), None) if tip.seq else None
            is_signed = (edge.size, edge.root()) == (checkpoint.size, checkpoint.root_hash)
            if kept["format"] == _EDGE_FORMAT and is_signed and last is not None and last.tip == tip:
                return edge, tip
        return TreeEdge(), Tip()

    def _keep_edge(self) -> None:
        """Keep the edge for the next process.

        It is only a shortcut, so it need not be durable, nor succeed.
        """
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
        """Read the new entries of the ledger, up to ``last`` if given.

        The last known entry must still be there.
        """
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


def _database_name(url: str) -> str:
    """The server and database of a URL, in characters that a file can have. It holds no password."""
    parts = urlsplit(url)
    place = f"{parts.netloc.rpartition('@')[2]}-{parts.path.strip('/')}"
    return _NOT_IN_A_FILE_NAME.sub("-", place).strip("-.") or "database"


def contradiction(
    checkpoint: Checkpoint, size: int, root: Callable[[], str], sound_size: int = 0
) -> str | None:
    """Why a tree of this size is not a later state of the checkpoint's tree, or None.

    Args:
        checkpoint: What was signed.
        size: The number of entries of the tree.
        root: Returns the root of the checkpoint's size.
        sound_size: So many entries are intact.
    """
    signed = checkpoint.size
    if signed > size:
        return (
            f"a signed checkpoint covers {signed} entries, but from {size + 1} on they are missing or broken "
            "(if you put an older copy there yourself, run: standfast restore)"
        )
    if root() != checkpoint.root_hash:
        return (
            f"a signed checkpoint of {signed} entries has another root; entries between {sound_size + 1} and"
            f" {signed} were changed"
        )
    return None


def problems_of_ledger(
    entries: Iterable[Entry],
    notes: Sequence[str] = (),
    keys: Sequence[VerifyingKey] = (),
    branches: Sequence[Branch] = (),
) -> Iterator[str]:
    """Yield one message per problem of a ledger and its checkpoints, the first break of the chain first."""
    hashes: list[str] = []
    try:
        for entry in walk(entries):
            hashes.append(entry.hash)  # noqa: PERF401  # The entries before a break count too.
    except BrokenChain as error:
        yield str(error)
    if keys and not notes:
        yield (
            "the log has a key, but its checkpoints are missing; restore their file, or sign the present head"
            " to begin anew"
        )
    if notes:
        yield from _problems_of_checkpoints(Tree(hashes), notes, keys, branches)


def _problems_of_checkpoints(
    tree: Tree, notes: Sequence[str], keys: Sequence[VerifyingKey], branches: Sequence[Branch]
) -> Iterator[str]:
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
        if checkpoint.is_left(branches):
            continue
        if problem := _contradiction_with(checkpoint, tree, sound_size):
            yield f"checkpoint {number}: {problem}"
        else:
            sound_size = size


def _contradiction_with(checkpoint: Checkpoint, tree: Tree, sound_size: int = 0) -> str | None:
    return contradiction(checkpoint, len(tree), lambda: tree.root(checkpoint.size), sound_size)


def shared_and_left(
    entries: Iterable[Entry], notes: Iterable[str], keys: Sequence[VerifyingKey], branches: Sequence[Branch]
) -> tuple[int, int]:
    """How far a restored ledger agrees with the checkpoints, and how many entries these cover at most."""
    tree = Tree(entry.hash for entry in walk(entries))
    checkpoints: list[Checkpoint] = []
    for note in notes:
        with suppress(StandfastError):
            checkpoint = Checkpoint.verify(note, keys)
            if not checkpoint.is_left(branches):
                checkpoints.append(checkpoint)
    left = max((checkpoint.size for checkpoint in checkpoints), default=0)
    agreed = 0
    for checkpoint in sorted(checkpoints, key=lambda one: one.size):
        if checkpoint.size <= len(tree) and _contradiction_with(checkpoint, tree):
            return agreed, left
        agreed = min(checkpoint.size, len(tree))
    return len(tree), left


class LedgerTail(Value, frozen=True, kw_only=True):
    """How far each witness of a ledger reaches.

    Attributes:
        newest_seq: The number of the newest entry; 0 if the ledger is empty.
        opened_seq: The newest entry when this process opened the store. Something must vouch for it; what
            came later was written meanwhile.
        signed_seq: The last entry that a signed checkpoint covers.
        signed_by: The log that signed it.
        acknowledged_seq: The last entry by the head file, which is kept next to a store's file. After a crash
            the ledger may be ahead of it.
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
        """The tail with signed checkpoints as witnesses.

        Notes that no key signed, or that a restore left behind, do not count.
        """
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
        return (
            f"{newest} is not signed yet: a checkpoint is signed on request, and when the store is closed."
            f" {covered}"
        )

    @property
    def problem(self) -> str | None:
        """What to do if nothing vouches for the entries that were there; None if something does."""
        if not self.opened_seq or self.signed_seq >= self.opened_seq or self.acknowledged_seq:
            return None
        return (
            f"nothing vouches for entry {self.opened_seq}, the newest when the store was opened: signed"
            f" checkpoints cover {self.signed_seq} entries, and no head file covers the rest, so a cut or"
            " rewritten end would not show. If you kept checkpoints elsewhere, run: standfast verify"
            " --checkpoints FILE --public-key FILE. If the log's key and checkpoints are in another place,"
            " set log_key and checkpoints, or run this where the folder standfast-log is. If the store never"
            " had any, sign it: any command that writes does"
        )
