"""A disk that fails on purpose, and a store that has to live with it."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from standfast.clock import CountedIds, ManualClock, seeded
from standfast.errors import OutcomeUnknown, StoreError, StoreFailed
from standfast.records.vocabulary import Receipt
from standfast.store.commit import Commit
from standfast.store.protocol import AppliedCommit
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.store.builders import NAMESPACE, commit, contents, expire, merge, noise, sqlite_store, write
from tests.store.recording_vfs import WatchedVFS, Watcher, io_error

CODES = {
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "write": apsw.SQLITE_FULL,
    "read": apsw.SQLITE_IOERR_READ,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
COMMITS = (
    commit("r1", *(write(f"a{number}", number) for number in range(3)), write("old", "z" * 9_000)),
    commit("r2", merge("a0", "changed"), write("long", noise(6_000)), at=1),
    commit("staged", write("s", "was staged first"), at=2),
    commit("r3", expire("a1"), merge("a2", "y" * 3_000), at=3),
    commit("r4", write("b"), merge("old", "new"), at=4),
)
STAGED = COMMITS[2]
T = TypeVar("T")


class Fault(NamedTuple):
    """From the ``first`` operation of a kind on, ``length`` of them fail.

    Of kind "chaos": with the seed ``first``, each operation of whatever kind fails with a chance of one in
    ``length``.
    """

    kind: str
    first: int
    length: int


class Faults(Watcher):
    """Counts operations, and lets those fail that the fault names; not while the disk is ``well``."""

    def __init__(self) -> None:
        self.is_well = True
        self.struck = 0
        self._fault = Fault("none", 0, 0)
        self._seen = 0
        self._dice = seeded(0)
        WatchedVFS(self)

    def arm(self, fault: Fault) -> None:
        """From now on, count; when the time has come, strike."""
        self._fault, self._seen, self.struck, self.is_well = fault, 0, 0, False
        self._dice = seeded(fault.first)

    @contextmanager
    def well(self) -> Iterator[None]:
        """The disk works meanwhile, and nothing is counted."""
        before, self.is_well = self.is_well, True
        try:
            yield
        finally:
            self.is_well = before

    def before(self, kind: str, name: str) -> None:  # noqa: ARG002  # All files are on the one disk.
        """Fail, if the time has come."""
        if self._strikes(kind, also="any"):
            raise io_error(CODES[kind], f"injected: no {kind}")

    def read(self, name: str, data: bytes) -> bytes:
        """Give half of it, if the time has come.

        Not of the database: there SQLite reads on until the end of the file, so half a page means that it was
        cut off, which is tried with the flipped bits.
        """
        return data[: len(data) // 2] if name and self._strikes("short read") else data

    def _strikes(self, kind: str, *, also: str = "") -> bool:
        if self.is_well or self._fault.kind not in (kind, also, "chaos"):
            return False
        self._seen += 1
        if self._fault.kind == "chaos":
            fails = self._dice.randrange(self._fault.length) == 0
        else:
            fails = 0 <= self._seen - self._fault.first < self._fault.length
        self.struck += fails
        return fails


class Trial:
    """One store on a disk with one fault: each commit is submitted until it is acknowledged, and reads go
    on.
    """

    def __init__(self, folder: Path, faults: Faults, *, is_alone: bool = False) -> None:
        self._faults = faults
        self._is_alone = is_alone
        self._path = folder / "store.db"
        self.clock = ManualClock()
        self.answers: Counter[str] = Counter()
        self._receipts: list[Receipt] = []

    def run(self, fault: Fault) -> None:
        """Commit everything on the failing disk; then it is well again, and everything is there, once."""
        self._store = self._bystander = self._open()
        if not self._is_alone:
            self._bystander = self._open()
        self._receipts.append(self._store.commit(COMMITS[0]))
        self._fold()
        self._faults.arm(fault)
        for asked in COMMITS[1:]:
            fence = self._insist(asked, lambda: self._store.stage(STAGED).fence) if asked is STAGED else None
            self._receipts.append(self._insist(asked, partial(self._commit, asked, fence)))
            self._read_on(self._store)
            self._read_on(self._bystander)
            # What the other one wrote is in nobody's cache, and has to be read.
            self._store, self._bystander = self._bystander, self._store
        self._fold()
        self._read_on(self._bystander)
        self._store.close()
        self._faults.is_well = True
        self._bystander.close()
        self.check_all_is_there()

    def _commit(self, asked: Commit, fence: int | None) -> Receipt:
        return self._store.commit(asked, fence=fence)

    def _open(self) -> Store:
        return sqlite_store(self._path, self.clock, CountedIds())

    def _insist(self, asked: Commit, work: Callable[[], T]) -> T:
        """Do it; if that fails, see that the error told the truth, and do it again on a disk that is well."""
        with self._faults.well():
            before = self._store.status(asked.commit_id)
            self._forget()
        try:
            done = work()
        except StoreFailed:
            self.answers["aborted"] += 1
            with self._faults.well():
                assert self._store.status(asked.commit_id) == before, "StoreFailed, but something was changed"
                assert self._seen_by(self._store) == self._seen_by(self._bystander) == len(self._receipts)
                return work()
        except OutcomeUnknown:
            self.answers["unknown, then resolved"] += 1
            with self._faults.well():
                return work()
        self.answers["acknowledged"] += 1
        return done

    def _seen_by(self, store: Store) -> int:
        """The newest snapshot, if everything in it is as it should be."""
        head = store.head()
        assert contents(store, head) == EXPECTED[head]
        return head

    def _read_on(self, store: Store) -> None:
        """A read gives the truth or an error, and the truth once the disk is well."""
        acknowledged = len(self._receipts)
        try:
            assert self._seen_by(store) == acknowledged
            assert store.history(NAMESPACE, "a0")[0].content == b"0"
            self.answers["true reads"] += 1
        except StoreError:
            self.answers["failed reads"] += 1
        with self._faults.well():
            assert self._seen_by(store) == acknowledged

    def _forget(self) -> None:
        """Let what the writer keeps in memory go, so that it has to be read."""
        assert isinstance(self._store._storage, SQLiteStorage)
        with suppress(apsw.Error):
            self._store._storage._writer.execute("PRAGMA shrink_memory")

    def _fold(self) -> None:
        self.answers["failed checkpoints"] += not fold(self._store)

    def check_all_is_there(self) -> None:
        """Open the file anew: every receipt is true, nothing happened twice, nothing is damaged."""
        store = self._open()
        applied = store.commits(after=0, limit=100)
        assert [(entry.commit_id, entry.memory_snapshot_id) for entry in applied] == [
            (asked.commit_id, number) for number, asked in enumerate(COMMITS, 1)
        ]
        assert [_facts(entry) for entry in applied] == [_facts(receipt) for receipt in self._receipts]
        assert self._seen_by(store) == len(COMMITS)
        assert list(store.verify()) == []
        store.close()


def fold(store: Store) -> bool:
    """Fold the log into the database, as SQLite does by itself from time to time; False if that fails."""
    assert isinstance(store._storage, SQLiteStorage)
    try:
        store._storage._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        return False
    return True


def _facts(told: AppliedCommit | Receipt) -> tuple[Any, ...]:
    return (
        told.commit_id,
        told.memory_snapshot_id,
        told.payload_fingerprint,
        told.committed_at,
        told.ledger_seq,
        told.ledger_hash,
    )


def try_every_moment(folder: Path, kind: str, lengths: tuple[int, ...]) -> Counter[str]:
    """In a process of its own: the fault at the first operation, the second …, until the work is done without
    it.
    """
    faults = Faults()
    sums: Counter[str] = Counter()
    for length in lengths:
        for first in count(1):
            trial = Trial(_emptied(folder / "trial"), faults)
            fault = Fault(kind, first, length)
            try:
                trial.run(fault)
            except BaseException as error:
                raise AssertionError(f"{fault} broke a promise") from error
            if not faults.struck:
                break
            sums += trial.answers + Counter(faults=1)
    return sums


def try_chaos(folder: Path, seeds: Sequence[int], one_in: int) -> Counter[str]:
    """In a process of its own: operations of all kinds fail at random; with odd seeds nobody else has the
    file open.
    """
    faults = Faults()
    sums: Counter[str] = Counter()
    for seed in seeds:
        trial = Trial(_emptied(folder / "trial"), faults, is_alone=bool(seed % 2))
        fault = Fault("chaos", seed, one_in)
        try:
            trial.run(fault)
        except BaseException as error:
            raise AssertionError(f"{fault} broke a promise") from error
        sums += trial.answers + Counter(faults=faults.struck)
    return sums


def try_opening(folder: Path, kind: str, lengths: tuple[int, ...]) -> Counter[str]:
    """In a process of its own: the fault at each moment of opening a store, a new one and one that was
    killed.
    """
    faults = Faults()
    killed = _emptied(folder / "killed")
    victim = sqlite_store(killed / "store.db", ManualClock())
    receipts = [victim.commit(asked) for asked in COMMITS[:2]]
    sums: Counter[str] = Counter()
    for length in lengths:
        for expected in ([], receipts):
            for first in count(1):
                path = _emptied(folder / "trial") / "store.db"
                if expected:
                    without = shutil.ignore_patterns("*-shm")
                    shutil.copytree(killed, path.parent, ignore=without, dirs_exist_ok=True)
                faults.arm(Fault(kind, first, length))
                try:
                    sqlite_store(path, ManualClock()).close()
                    sums["opened"] += 1
                except StoreError:
                    sums["refused"] += 1
                faults.is_well = True
                store = sqlite_store(path, ManualClock())
                assert store.head() == len(expected), f"{faults} broke a promise"
                assert contents(store) == EXPECTED[len(expected)]
                assert list(store.verify()) == []
                assert [store.status(receipt.commit_id) for receipt in expected] == [
                    msgspec.structs.replace(receipt, replayed=True) for receipt in expected
                ]
                store.close()
                if not faults.struck:
                    break
                sums["faults"] += 1
    victim.close()
    return sums


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _expected() -> list[dict[str, Any]]:
    """What each snapshot shows, told by the commits alone."""
    shown: list[dict[str, Any]] = [{}]
    for asked in COMMITS:
        after = dict(shown[-1])
        for change in asked.writes:
            after.pop(change.key, None)
            if change.content is not None:
                after[change.key] = change.content.decode()
        shown.append(dict(sorted(after.items())))
    return shown


EXPECTED = _expected()
