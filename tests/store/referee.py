"""The referee of the lease simulation: watches every append and every answer, and knows the rules by heart,
not from the code.

It keeps its own count of who was given which commit, so that a stale fence shows even where the numbers
happen to match.
"""

from standfast.errors import CommitAborted, PayloadMismatch, StoreError
from standfast.ledger.chain import Tip, check
from standfast.limits import LEASE_SECONDS, MAX_CLOCK_SKEW_SECONDS
from standfast.records.vocabulary import ActionType, BufferState, Receipt
from standfast.store.commit import Commit
from standfast.store.in_memory import InMemoryStorage
from standfast.store.pipeline import receipt_of
from standfast.store.protocol import AppliedCommit, Buffer, Changes, RecordKey, StateQuery, Version
from tests.store.request import Request


class Violation(AssertionError):
    """A rule was broken; the seed and the history are in the message."""


class Referee:
    """The rules of commits, leases and snapshots.

    A grant is a turn at a commit: each staging and each claim gives one.
    """

    def __init__(self, storage: InMemoryStorage) -> None:
        self.storage = storage
        self.commits: dict[tuple[str, str], Commit] = {}
        self.applied: dict[str, AppliedCommit] = {}
        self.aborted: set[str] = set()
        self.settled: set[str] = set()
        self.grants: dict[str, int] = {}
        self.holder: dict[str, str] = {}
        self.told: set[str] = set()
        self.first_told: set[str] = set()
        self.told_aborted: set[str] = set()
        self.latest: dict[RecordKey, Version] = {}
        self.tip = Tip()
        self.takeovers = 0

    def require(self, rule: bool, problem: str) -> None:
        """Blow the whistle unless the rule holds."""
        if not rule:
            raise Violation(problem)

    # What is appended.

    def judge(self, request: Request, changes: Changes, now: float) -> None:
        """Judge an append that is about to take effect."""
        check(changes.entries, start=self.tip)
        self.require(len(changes.entries) == len(changes.applied), "one ledger entry a commit")
        for applied, entry in zip(changes.applied, changes.entries, strict=True):
            self._judge_applied(request, applied, changes)
            self.require(
                (applied.ledger_seq, applied.ledger_hash) == (entry.seq, entry.hash), "a wrong ledger place"
            )
            self.tip = entry.tip
        for buffer in changes.buffers:
            self._judge_buffer(request, buffer, now)
        for commit_id in changes.dropped:
            self._judge_drop(request, commit_id)

    def _judge_applied(self, request: Request, applied: AppliedCommit, changes: Changes) -> None:
        commit_id = applied.commit_id
        self.require(commit_id not in self.applied, f"{commit_id:.8} is applied twice")
        self.require(commit_id not in self.aborted, f"{commit_id:.8} is applied after it was aborted")
        self.require(applied.memory_snapshot_id == len(self.applied) + 1, "a gap between snapshots")
        held = self._held(commit_id)
        if held is None:
            self.require(
                commit_id not in request.held, f"{commit_id:.8} is applied under a fence that is gone"
            )
        else:
            self._require_turn(request, commit_id)
            self.require(commit_id in changes.dropped, f"{commit_id:.8} is applied, but its buffer stays")
        commit = self.commits[commit_id, applied.payload_fingerprint]
        rows = [row for row in changes.versions if row.memory_snapshot_id == applied.memory_snapshot_id]
        self.require(
            [((row.namespace, row.key), row.content) for row in rows]
            == [(write.record_key, write.content) for write in commit.writes],
            f"{commit_id:.8} is applied in part",
        )
        for row in rows:
            place = (row.namespace, row.key)
            before = self.latest.get(place)
            self.require(
                row.action is ActionType.WRITE
                or (before is not None and before.memory_snapshot_id <= commit.memory_snapshot_id),
                f"{commit_id:.8} overwrites an update that it never saw",
            )
            self.latest[place] = row
        self.applied[commit_id] = applied

    def _held(self, commit_id: str) -> Buffer | None:
        """The buffer that somebody holds, before the append."""
        held = self.storage.load(StateQuery(commit_ids=[commit_id])).buffers.get(commit_id)
        return None if held is None or held.is_discarded else held

    def _require_turn(self, request: Request, commit_id: str) -> None:
        turn = request.held.get(commit_id)
        self.require(
            turn == self.grants[commit_id],
            f"{request.owner} acts on {commit_id:.8} in turn {turn}, but {self.holder[commit_id]} has turn"
            f" {self.grants[commit_id]}: a stale fence took effect",
        )

    def _judge_buffer(self, request: Request, buffer: Buffer, now: float) -> None:
        commit_id = buffer.commit_id
        held = self._held(commit_id)
        self.require(commit_id not in self.applied, f"{commit_id:.8} gets a buffer after it was applied")
        self.require(commit_id not in self.aborted, f"{commit_id:.8} changes after it was aborted")
        if held is None:
            self.require(commit_id not in request.held or request.stages, "a fence that is gone took effect")
            if buffer.state is not BufferState.ABORTED:
                self._grant(request, buffer)
        elif buffer.is_discarded:
            self._judge_drop(request, commit_id)
        elif (held.owner, held.fence) != (buffer.owner, buffer.fence):
            honest_until = now + LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS
            is_leased = now < held.lease_until <= honest_until
            self.require(not is_leased, f"{commit_id:.8} is claimed before its lease ran out")
            self.require(held.waits_for is None, f"{commit_id:.8} is claimed although it waits")
            self.require(buffer.fence > held.fence, f"{commit_id:.8} is claimed without a higher fence")
            self.takeovers += 1
            self._grant(request, buffer)
        elif request.stages:
            self.require(self.holder[commit_id] == request.owner, f"{commit_id:.8} is staged by two owners")
            request.granted[commit_id] = self.grants[commit_id]
        else:
            self._require_turn(request, commit_id)
        if held is not None and held.waits_for is not None and buffer.state is not BufferState.ABORTED:
            self.require(buffer.waits_for is not None, f"{commit_id:.8} waits no more, and nobody decided")
        if commit_id in self.settled:
            self.require(
                buffer.state is not BufferState.OPEN, f"{commit_id:.8} was settled and is open again"
            )
        if buffer.state is BufferState.PENDING:
            self.settled.add(commit_id)
        if buffer.state is BufferState.ABORTED:
            self.aborted.add(commit_id)

    def _grant(self, request: Request, buffer: Buffer) -> None:
        grant = self.grants.get(buffer.commit_id, 0) + 1
        self.grants[buffer.commit_id] = request.granted[buffer.commit_id] = grant
        self.holder[buffer.commit_id] = request.owner

    def _judge_drop(self, request: Request, commit_id: str) -> None:
        if commit_id not in self.applied:
            self._require_turn(request, commit_id)
            self.require(commit_id not in self.settled, f"{commit_id:.8} was settled and is dropped")

    # What is answered.

    def hears(self, commit: Commit, answer: object) -> None:
        """An answer reached whoever asked; from now on it must stay true."""
        commit_id = commit.commit_id
        match answer:
            case Receipt():
                self._hears_receipt(commit, answer)
            case CommitAborted():
                self.require(commit_id in self.aborted, f"{commit_id:.8} is said to be aborted and is not")
                self.told_aborted.add(commit_id)
            case PayloadMismatch():
                self.require(
                    answer.facts["known_fingerprint"] != commit.payload_fingerprint, "a mismatch without one"
                )
            case _:
                self.require(isinstance(answer, StoreError), f"no answer at all: {answer!r}")

    def _hears_receipt(self, commit: Commit, receipt: Receipt) -> None:
        commit_id = commit.commit_id
        self.require(
            receipt.payload_fingerprint == commit.payload_fingerprint, "the receipt of another payload"
        )
        if not receipt.replayed:
            self.require(commit_id not in self.first_told, f"{commit_id:.8} has two first receipts")
            self.first_told.add(commit_id)
        plain = receipt_of(self.applied[commit_id])
        self.require(
            Receipt(**receipt.as_json() | {"replayed": False}) == plain, f"a false receipt for {commit_id:.8}"
        )
        self.told.add(commit_id)

    # What must hold at every moment.

    def look(self) -> None:
        """Every answer ever given is still true."""
        self.require(self.storage.head() == len(self.applied), "the head is not the number of commits")
        view = self.storage.load(StateQuery(commit_ids=[*self.told, *self.told_aborted]))
        applied, buffers = view.applied, view.buffers
        for commit_id in self.told:
            # Rows are frozen, so the same one says the same as when the receipt was made from it.
            self.require(
                applied.get(commit_id) is self.applied[commit_id],
                f"the receipt of {commit_id:.8} is not true any more",
            )
        for commit_id in self.told_aborted:
            self.require(
                commit_id not in applied and buffers[commit_id].state is BufferState.ABORTED,
                f"{commit_id:.8} is not aborted any more",
            )
        self.require(not self.aborted & self.applied.keys(), "a commit is both applied and aborted")
