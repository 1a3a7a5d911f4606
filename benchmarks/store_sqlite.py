"""The embedded store against bare SQLite: single commits, group commits, time travel, opening."""

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from benchmarks.measure import Ratio, at_least, at_most, shown
from standfast.clock import CountedIds, SystemClock
from standfast.records.canon import canonical_bytes
from standfast.records.vocabulary import ActionType
from standfast.store.commit import Commit, Write
from standfast.store.compression import packed
from standfast.store.sqlite import SQLiteStorage
from standfast.store.sqlite.schema import MIGRATIONS
from standfast.store.store import Store

TITLE = "The embedded store, against bare SQLite on the same disk"
RECORD = {
    "memory_id": "mem-000123",
    "ts_utc": "2026-01-15T10:30:00.000000Z",
    "text": "EU refunds take 14 days from the day the parcel is back, whoever pays the postage.",
    "tags": ["eu", "policy", "refunds"],
    "subject": "policy/eu-refunds",
}
CONTENT = canonical_bytes(RECORD)
MOMENT = "2026-01-15T10:30:00.000000Z"
LEDGER_ENTRY = b"x" * 240  # As long as an entry of the ledger is, compressed.
DIGEST = hashlib.sha256(CONTENT).digest()
STORED = packed(CONTENT)
COMMITS = 400
CLIENTS = 16
ROUNDS = 5
VERSIONS = 500_000
RECORDS = 1_000_000


@contextmanager
def _folder(kind: str) -> Iterator[Path]:
    parent = "/dev/shm" if kind == "memory" and Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _store(path: Path) -> Store:
    clock, ids = SystemClock(), CountedIds()
    return Store(SQLiteStorage(str(path), clock=clock, ids=ids), clock=clock, ids=ids, any_rows=True)


def _bare(path: Path) -> apsw.Connection:
    """SQLite with the same tables and the same promise at COMMIT, and nothing else."""
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute(MIGRATIONS[0])
    return connection


def _bare_rows(connection: apsw.Connection, commit: Commit, number: int) -> None:
    """The very rows that the store writes for this commit, made beforehand."""
    connection.execute("INSERT INTO ledger VALUES (?, ?, ?)", (number, LEDGER_ENTRY, DIGEST))
    payload = bytes.fromhex(commit.payload_fingerprint)
    row = (number, bytes.fromhex(commit.commit_id), commit.run_id, payload, MOMENT, number, DIGEST)
    connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    write = commit.writes[0]
    version = (number << 16, write.namespace, write.key, 1, DIGEST, STORED, None)
    connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", version)


def _commit(number: int, head: int) -> Commit:
    write = Write.of("bench", f"key-{number:08}", ActionType.WRITE, RECORD)
    return Commit.of(run_id=f"run-{number}", memory_snapshot_id=head, policy_set_id="bench", writes=[write])


def _rate(work: Callable[[int], None], start: int, count: int) -> float:
    begun = time.perf_counter()
    for number in range(start, start + count):
        work(number)
    return count / (time.perf_counter() - begun)


def _one_at_a_time(kind: str) -> float:
    """Our rate over the bare rate, the best round of each, taken in turns."""
    with _folder(kind) as folder:
        store, bare = _store(folder / "ours.db"), _bare(folder / "bare.db")
        commits: dict[int, Commit] = {}

        def bare_commit(number: int) -> None:
            bare.execute("BEGIN IMMEDIATE")
            _bare_rows(bare, commits[number], number)
            bare.execute("COMMIT")

        def our_commit(number: int) -> None:
            store.commit(commits[number])

        best_ours = best_bare = 0.0
        for turn in range(ROUNDS):
            start = 1 + turn * COMMITS
            commits = {number: _commit(number, number - 1) for number in range(start, start + COMMITS)}
            best_bare = max(best_bare, _rate(bare_commit, start, COMMITS))
            best_ours = max(best_ours, _rate(our_commit, start, COMMITS))
        store.close()
        bare.close()
    return best_ours / best_bare


def _grouped(kind: str) -> tuple[float, float]:
    """Our rate with 16 threads over a bare loop that groups 16 under one sync, and over our own single
    commits.
    """
    with _folder(kind) as folder:
        store, bare = _store(folder / "ours.db"), _bare(folder / "bare.db")
        commits: dict[int, Commit] = {}

        def bare_group(group: int) -> None:
            bare.execute("BEGIN IMMEDIATE")
            for number in range(group * CLIENTS, (group + 1) * CLIENTS):
                bare.execute("SAVEPOINT one")
                _bare_rows(bare, commits[number], number)
                bare.execute("RELEASE one")
            bare.execute("COMMIT")

        def our_commit(number: int) -> None:
            store.commit(commits[number])

        best_bare = best_group = best_single = 0.0
        groups = COMMITS // CLIENTS
        for turn in range(ROUNDS):
            start = 1 + turn * groups
            numbers = range(start * CLIENTS, (start + groups) * CLIENTS)
            commits = {number: _commit(number, 0) for number in numbers}
            best_bare = max(best_bare, CLIENTS * _rate(bare_group, start, groups))
            best_single = max(best_single, _rate(our_commit, numbers.start, len(numbers)))
            best_group = max(best_group, _threads(store, turn))
        store.close()
        bare.close()
    return best_group / best_bare, best_group / best_single


def _threads(store: Store, turn: int) -> float:
    each = COMMITS // 4
    ready = threading.Barrier(CLIENTS + 1)

    def client(name: int) -> None:
        first = 1_000_000 * (turn + 1) + name * each
        commits = [_commit(number, 0) for number in range(first, first + each)]
        ready.wait()
        for commit in commits:
            store.commit(commit)

    threads = [threading.Thread(target=client, args=(name,)) for name in range(CLIENTS)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    return CLIENTS * each / (time.perf_counter() - begun)


def _fill(store: Store, commits: int, writes: int, keys: int) -> None:
    """Commits of many writes each, over a ring of keys, so that every key has many versions."""
    for number in range(commits):
        names = {f"key-{(number * writes + n) % keys:08}": n for n in range(writes)}
        action = ActionType.WRITE if number * writes < keys else ActionType.MERGE
        made = [Write.of("bench", key, action, {"n": number, "text": RECORD["text"]}) for key in names]
        commit = Commit.of(
            run_id=f"fill-{number}", memory_snapshot_id=number, policy_set_id="bench", writes=made
        )
        store.commit(commit)


def _time_travel() -> tuple[float, str]:
    with _folder("memory") as folder:
        store = _store(folder / "store.db")
        _fill(store, commits=VERSIONS // 5_000, writes=5_000, keys=10_000)
        head = store.head()
        keys = [f"key-{n * 7 % 10_000:08}" for n in range(1_000)]
        best = {head: float("inf"), 5: float("inf")}
        for _ in range(7):
            for at, seconds in best.items():
                begun = time.perf_counter()
                assert len(store.read("bench", keys, at=at)) == len(keys)
                best[at] = min(seconds, time.perf_counter() - begun)
        store.close()
    return best[5] / best[head], f"{VERSIONS:,} versions; {best[head] * 1e3:.1f} ms at the head"


def _opening() -> tuple[float, str]:
    """Bytes read to open a store of a million records, as a share of its size: a full scan would be all of
    it.
    """
    with _folder("memory") as folder:
        store = _store(folder / "store.db")
        _fill(store, commits=RECORDS // 10_000, writes=10_000, keys=RECORDS)
        store.close()
        size = (folder / "store.db").stat().st_size
        before = _bytes_read()
        begun = time.perf_counter()
        store = _store(folder / "store.db")
        took = time.perf_counter() - begun
        read = _bytes_read() - before
        store.close()
    return (
        read / size,
        f"{RECORDS:,} records, {size / 1e6:.0f} MB; {read / 1e3:.0f} kB read in {took * 1e3:.1f} ms",
    )


def _bytes_read() -> int:
    return int(Path(f"/proc/{os.getpid()}/io").read_text(encoding="ascii").split()[1])


def run() -> list[Ratio]:
    """Every figure of the embedded store."""
    ratios = []
    for kind, label in (("disk", "a disk"), ("memory", "a disk whose sync is free")):
        ratios.append(at_least(f"single commits, on {label}", _one_at_a_time(kind), 0.4))
        group, over_single = _grouped(kind)
        name = f"16 committers against a bare group of 16, on {label}"
        # Where the sync is free there is nothing to share, and only the threads' own cost is seen.
        ratios.append(at_least(name, group, 0.6) if kind == "disk" else shown(name, group))
        ratios.append(at_least(f"16 committers against one at a time, on {label}", over_single, 1.0))
    travel, detail = _time_travel()
    ratios.append(at_most("1,000 keys at an old snapshot against the head", travel, 2, detail))
    share, detail = _opening()
    ratios.append(at_most("share of the file read to open it", share, 0.01, detail))
    return ratios
