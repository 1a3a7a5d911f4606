"""The ledger of a memory: signed checkpoints, receipts, and what vouches for its newest entry.

A memory that writes signs the ledger's head when it is opened, while it is used and when it is closed. One
process at a time does so: processes with one folder of side files lock its file of checkpoints, and those of
other machines see a lease in the database. The database also holds the newest checkpoint: for them, and so
that a file of checkpoints that was deleted or cut shows, whatever is signed afterwards.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.audit import GovernanceAudit
from standfast.govern.evidence import read_instant
from standfast.ledger.chain import Branch
from standfast.ledger.checkpoint import Checkpoint, InclusionReceipt
from standfast.ledger.notary import Notary
from standfast.ledger.note import VerifyingKey, unverified_text
from standfast.ledger.witness import (
    LedgerFindings,
    LedgerState,
    LedgerTail,
    Verification,
    has_signed,
    problems_of_ledger,
    size_of,
)
from standfast.limits import LEASE_SECONDS, MAX_SHOWN_NOTICES
from standfast.recall.index.upkeep import IndexAudit
from standfast.store.protocol import Progress, TemporaryRow
from standfast.store.store import Store

_LEDGER: Final = "ledger"
_NOTE: Final = "checkpoint"
_SIGNER: Final = "signer"
_CENTURY_SECONDS: Final = 100 * 366 * 86_400.0


class MemoryLedger:
    """The ledger of a store, and the notary that signs it, if there is one. Threads may share it.

    Args:
        warn: Takes what failed after something was applied.
    """

    def __init__(self, store: Store, notary: Notary | None, *, warn: Callable[[str], None]) -> None:
        self.notary = notary
        self._store = store
        self._warn = warn
        self._head_at_opening = store.head()
        self._lock = threading.Lock()
        self._signer: _Signer | None = None

    # Verifying.

    def verify(
        self,
        checkpoints: Sequence[str] = (),
        public_keys: Sequence[VerifyingKey] = (),
        *,
        progress: Progress | None = None,
    ) -> Iterator[str]:
        """Check storage, ledger, signed checkpoints, commits, evidence, seals, the stored index, and that
        nothing acknowledged is missing.

        Yields one message per problem; nothing if all is intact. Entries that no checkpoint covers yet are no
        problem; ``verification`` and ``tail`` tell of them.

        Args:
            checkpoints: Signed checkpoints that you kept elsewhere; the ledger must be a later state of each.
            public_keys: The keys that may have signed those.
            progress: Called with the snapshots checked and with all.
        """
        return self._problems(checkpoints, public_keys, progress, LedgerFindings())

    def verification(
        self,
        checkpoints: Sequence[str] = (),
        public_keys: Sequence[VerifyingKey] = (),
        *,
        progress: Progress | None = None,
    ) -> Verification:
        """Verify like ``verify``, and tell three states apart: ``sound``, ``unsigned_tail``, ``broken``. The
        arguments are those of ``verify``.
        """
        findings, snapshots = LedgerFindings(), self._store.head()
        problems = tuple(self._problems(checkpoints, public_keys, progress, findings))
        tail = self._tail(findings.signed_seq, findings.signed_by)
        is_vouched = not tail.unsigned_entries or not self._is_witnessed(checkpoints)
        state = LedgerState.SOUND if is_vouched else LedgerState.UNSIGNED_TAIL
        return Verification(
            state=LedgerState.BROKEN if problems else state,
            problems=problems,
            notices=tuple(self._notices(findings))[:MAX_SHOWN_NOTICES],
            tail=tail,
            snapshots=snapshots,
            entries=findings.entries,
        )

    def tail(self, checkpoints: Sequence[str] = (), public_keys: Sequence[VerifyingKey] = ()) -> LedgerTail:
        """How far signed checkpoints reach: the log's own, and those that were kept elsewhere. The arguments
        are those of ``verify``.

        It reads the checkpoints, not the ledger; ``verification`` also holds them against each other.
        """
        notes, keys, _ = self.checkpoints()
        findings = LedgerFindings()
        for size, log in _signed([*notes, *checkpoints], [*keys, *public_keys], self._store.branches()):
            findings.is_signed(size, log)
        return self._tail(findings.signed_seq, findings.signed_by)

    def _problems(
        self,
        checkpoints: Sequence[str],
        public_keys: Sequence[VerifyingKey],
        progress: Progress | None,
        findings: LedgerFindings,
    ) -> Iterator[str]:
        notes, keys, torn = self.checkpoints()
        yield from (f"line {number} of the checkpoints is torn" for number in torn)
        if self.notary is not None and self.notary.cosigner is not None:
            yield from self.notary.cosigner.problems()
        checkers = (GovernanceAudit(self._store), IndexAudit(self._store))
        yield from self._store.verify(notes, keys, progress=progress, findings=findings, checkers=checkers)
        if checkpoints:
            kept = LedgerFindings()
            found = problems_of_ledger(
                self._store.entries(),
                checkpoints,
                public_keys,
                self._store.branches(),
                kept,
                kept_elsewhere=True,
            )
            yield from (f"kept {problem}" for problem in found if problem.startswith("checkpoint"))
            findings.is_signed(kept.signed_seq, kept.signed_by)
        if self.notary is not None and not self._store.is_shared:
            yield from self._missing_checkpoints(self.notary, findings, checkpoints)

    def _missing_checkpoints(
        self, notary: Notary, findings: LedgerFindings, elsewhere: Sequence[str]
    ) -> Iterator[str]:
        """Every key that the ledger names must have signed something, since the last restore, and the newest
        checkpoint that the database holds must be in a file.

        Args:
            elsewhere: Checkpoints that somebody kept.
        """
        # In this order: every checkpoint is in the file before it is in the database.
        published = self._published_note()
        notes = [*notary.checkpoints()[0], *elsewhere]
        since = self._store.branches()[-1].ledger_seq
        named = list(dict.fromkeys(one.key for one in findings.keys if one.ledger_seq > since))
        # The newest key may not have signed yet: its file is created before it is named, and a crash may
        # follow.
        lost = [key for key in named[:-1] if not has_signed(notes, VerifyingKey.parse(key))]
        if named and not notes and not notary.has_file:
            lost = named[-1:]
        if not lost and published is not None and published not in notes:
            origin = Checkpoint.parse(unverified_text(published)).origin
            yield _missing(f"a checkpoint of {size_of(published)} entries was signed by {origin}, but it is")
        for key in lost:
            yield _missing(f"the ledger names the key {key.rpartition('+')[0]}, but its checkpoints are")

    def _notices(self, findings: LedgerFindings) -> Iterator[str]:
        yield from findings.key_changes
        key = None if self.notary is None else self.notary.public_key()
        named = findings.keys[-1].key if findings.keys else None
        if self.notary is None or named is None or self._store.is_shared:
            return
        if key is None:
            yield "The log's key is missing. The next process that signs makes another, and the ledger tells."
        elif key.text not in {one.key for one in findings.keys}:
            yield f"The log's key file holds {key.name}+{key.key_id}, which the ledger does not name yet."

    def _is_witnessed(self, checkpoints: Sequence[str]) -> bool:
        """Whether anything is to vouch for the ledger; nothing is in a store in memory."""
        return self.notary is not None or bool(checkpoints) or self._store.acknowledged is not None

    def _newest_seq(self) -> int:
        head = self._store.head()
        newest = self._store.commit_of(head).ledger_seq if head else 0
        for entry in self._store.entries(after=newest):
            newest = entry.seq
        return newest

    def _tail(self, signed_seq: int, signed_by: str) -> LedgerTail:
        newest = self._newest_seq()
        acknowledged = self._store.acknowledged
        tail = LedgerTail(
            newest_seq=newest,
            signed_seq=min(signed_seq, newest),
            signed_by=signed_by,
            acknowledged_seq=0 if acknowledged is None else min(newest, acknowledged.seq),
        )
        cosigner = None if self.notary is None else self.notary.cosigner
        if cosigner is not None:
            cosigned = size_of(next(cosigner.file.newest(), None))
            tail = msgspec.structs.replace(tail, cosigned_seq=cosigned, cosigned_by=cosigner.key.name)
        if not tail.unsigned_entries:
            return tail
        first = next(iter(self._store.entries_page(after=tail.signed_seq, limit=1)))
        since = first.read()["at"]
        at = read_instant(since)
        seconds = 0.0 if at is None else max(0.0, (self._store.clock.now() - at).total_seconds())
        return msgspec.structs.replace(tail, unsigned_since=since, unsigned_seconds=seconds)

    def checkpoints(self) -> tuple[Sequence[str], Sequence[VerifyingKey], Sequence[int]]:
        """The log's own checkpoints, the keys that signed them, and the unreadable lines of their file."""
        if self.notary is None:
            return (), (), ()
        notes, keys, torn = self.notary.checkpoints()
        published, cosigner = self._published_note(), self.notary.cosigner
        others = () if published is None or published in notes else (published,)
        cosigned = () if cosigner is None else cosigner.file.read().notes
        return (*notes, *others, *cosigned), keys, torn

    def _published_note(self) -> str | None:
        """The newest checkpoint by the database: that of a process of this or another machine. None if there
        is none, or if a restore left it behind.

        A restore into a file may leave all checkpoints behind, so those of earlier branches do not count.
        """
        row = self._store.temporary.get(_LEDGER, _NOTE)
        branches = self._store.branches()
        with suppress(StandfastError):
            note = "" if row is None else row.content.decode()
            checkpoint = Checkpoint.parse(unverified_text(note))
            is_of_branch = self._store.is_shared or checkpoint.is_of(branches[-1])
            if is_of_branch and not checkpoint.is_left(branches):
                return note
        return None

    # Signing.

    def checkpoint(self) -> str | None:
        """Sign the ledger's head and store the checkpoint outside the store.

        Returns None without a notary.
        """
        if self.notary is None:
            return None
        # A store that was replaced is not signed: the side files belong to the one in its place.
        _ = self._store.acknowledged
        with self._lock:
            # What another machine has signed is not in the file of this one.
            elsewhere = self._published_note() if self._store.is_shared else None
            note = self.notary.checkpoint(elsewhere=elsewhere)
        # It is signed already. The next signature is published again.
        with suppress(StandfastError):
            self._publish(note, self.notary)
        try:
            self.notary.cosign(note)
        except StandfastError as error:
            self._warn(f"The ledger's head is signed. {error}")
        return note

    def _publish(self, note: str, notary: Notary) -> None:
        """Keep the newest checkpoint in the database.

        One that is missing in the file stays there, so that ``verify`` goes on reporting it. Every note is in
        the file before it is in the database, so processes that sign at once miss nothing.
        """
        row, published = self._store.temporary.get(_LEDGER, _NOTE), self._published_note()
        if published is not None:
            is_kept = self._store.is_shared or notary.has_note(published)
            if not is_kept or size_of(note) <= size_of(published):
                return
        version = 0 if row is None else row.version
        new = TemporaryRow(
            kind=_LEDGER,
            row_id=_NOTE,
            content=note.encode(),
            keep_seconds=_CENTURY_SECONDS,
            version=version + 1,
        )
        # Another process may have published a newer one meanwhile.
        self._store.temporary.put(new, replaces=None if row is None else version)

    def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """Return the proof that an entry is in the ledger. It can be checked with only the public key."""
        if self.notary is None:
            raise InvalidValue(
                what="Memory", problem="it has no notary; open it with notary=… to issue receipts"
            )
        with self._lock:
            return self.notary.receipt(ledger_seq)

    def start_signing(self) -> None:
        """Sign what another process left unsigned, and henceforth what is written here, in the background."""
        if self.notary is not None and self._signer is None:
            self._signer = _Signer(self, self.notary, self._store)

    def sign_if_due(self) -> bool:
        """Sign the head unless another process does, or has done so. Returns whether everything is signed."""
        assert self.notary is not None, "there is a signer only with a notary"
        # In this order, because both grow.
        signed = max(self.notary.signed_size(), size_of(self._published_note()))
        if signed == self._newest_seq():
            return True
        if self._store.is_shared and not self._take_lease():
            return False
        self.checkpoint()
        return True

    def _take_lease(self) -> bool:
        """Become the process that signs, for as long as a lease lasts. False if another one is."""
        held = self._store.temporary.get(_LEDGER, _SIGNER)
        owner = self._store.worker_id.encode()
        if held is not None and held.content != owner:
            return False
        version = 0 if held is None else held.version
        row = TemporaryRow(
            kind=_LEDGER, row_id=_SIGNER, content=owner, keep_seconds=LEASE_SECONDS, version=version + 1
        )
        return self._store.temporary.put(row, replaces=None if held is None else version)

    def _release_lease(self) -> None:
        held = self._store.temporary.get(_LEDGER, _SIGNER) if self._store.is_shared else None
        if held is not None and held.content == self._store.worker_id.encode():
            self._store.temporary.remove(_LEDGER, _SIGNER)

    def sign_at_close(self) -> None:
        """Sign the head if it moved, or if another process ended before it signed. A failure is a warning."""
        if self.notary is None:
            return
        if self._signer is not None:
            self._signer.stop()
            self._signer = None
        has_written = True
        try:
            has_written = self._store.head() != self._head_at_opening
            # A process whose key the ledger names signs also while another one has the lease.
            is_due = has_written or self.notary.is_behind()
            if is_due and not self.sign_if_due() and self.notary.signed_size():
                self.checkpoint()
            self._release_lease()
        except StandfastError as error:
            # A caller that only read gets no warning about what others left unsigned; ``verify`` reports it.
            if has_written:
                self._warn(f"Everything is stored, but the ledger's head could not be signed: {error}")


def _missing(what: str) -> str:
    return (
        f"{what} missing, so a rewritten end would not show. Bring the folder of side files along"
        " (agent.db-files for agent.db), or run: standfast verify --checkpoints FILE --public-key FILE. To go"
        " on without them, run: standfast restore"
    )


def _signed(
    notes: Sequence[str], keys: Sequence[VerifyingKey], branches: Sequence[Branch]
) -> Iterator[tuple[int, str]]:
    """Size and log of the checkpoints that a key signed and no restore left behind."""
    for note in notes:
        with suppress(StandfastError):
            checkpoint = Checkpoint.verify(note, keys)
            if not checkpoint.is_left(branches):
                yield checkpoint.size, checkpoint.origin


class _Signer:
    """A thread that signs soon after something was written: after so many entries, or after some seconds.

    It starts with the first commit, or at once if another process left entries unsigned.
    """

    def __init__(self, ledger: MemoryLedger, notary: Notary, store: Store) -> None:
        self._ledger = ledger
        self._notary = notary
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._unsigned = 0
        self._started = threading.Lock()
        self._thread: threading.Thread | None = None
        store.after_commit.append(self._note)
        self._store = store
        try:
            if notary.is_behind():
                self._unsigned = notary.every_entries
                self._start()
        except StandfastError:
            # Whoever signs next meets it again, and tells.
            pass

    def _note(self, entries: int) -> None:
        self._unsigned += entries
        if self._thread is None:
            self._start()
        if self._unsigned >= self._notary.every_entries:
            self._changed.set()

    def _start(self) -> None:
        with self._started:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="standfast-signer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._unsigned < self._notary.every_entries:
                self._changed.wait(self._notary.every_seconds)
            self._changed.clear()
            if self._ended.is_set() or not self._unsigned:
                continue
            unsigned, self._unsigned = self._unsigned, 0
            try:
                is_done = self._ledger.sign_if_due()
            except StandfastError:
                # It is tried again after the next interval, and when the memory is closed, which tells.
                is_done = False
            if not is_done:
                self._unsigned += min(unsigned, self._notary.every_entries - 1) or 1
                self._ended.wait(self._notary.every_seconds)

    def stop(self) -> None:
        """End the thread, and wait for a signature that it is making."""
        with suppress(ValueError):
            self._store.after_commit.remove(self._note)
        self._ended.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()
