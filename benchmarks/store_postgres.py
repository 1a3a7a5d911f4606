"""The store on PostgreSQL against the naive way: a transaction for each commit, in line behind a lock on a
head row.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from msgspec.structs import astuple

from benchmarks.measure import Ratio, at_least, shown
from standfast.clock import CountedIds, SystemClock
from standfast.ledger.chain import Tip
from standfast.records.vocabulary import ActionType
from standfast.store.commit import Commit, Write
from standfast.store.compression import packed
from standfast.store.pipeline import Submission, decide_commits
from standfast.store.postgres import PostgresStorage
from standfast.store.protocol import Changes, StateView
from standfast.store.store import Store
from tests.servers.postgres import PostgresServer

TITLE = "The store on PostgreSQL, against a lock on a head row"
RECORD = {
    "memory_id": "mem-000123",
    "ts_utc": "2026-01-15T10:30:00.000000Z",
    "text": "EU refunds take 14 days from the day the parcel is back, whoever pays the postage.",
    "tags": ["eu", "policy", "refunds"],
    "subject": "policy/eu-refunds",
}
CLIENTS = 16
COMMITS_EACH = 40
ROUNDS = 5


@contextmanager
def _server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp())
    server = PostgresServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _store(url: str) -> Store:
    clock, ids = SystemClock(), CountedIds()
    return Store(PostgresStorage(url, clock=clock, ids=ids), clock=clock, ids=ids, any_rows=True)


def _commit(number: int) -> Commit:
    write = Write.of("bench", f"key-{number:08}", ActionType.WRITE, RECORD)
    return Commit.of(run_id=f"run-{number}", memory_snapshot_id=0, policy_set_id="bench", writes=[write])


class NaiveClient:
    """What one would write first: the same tables and the same decisions, a statement at a time behind ``FOR
    UPDATE``.
    """

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, options="-c search_path=standfast")
        self._one("SELECT 1")
        self._connection.commit()

    def _one(self, sql: str, *values: Any) -> Any:
        return self._connection.execute(sql, values).fetchone()

    def commit(self, commit: Commit) -> None:
        """Lock, look, decide, append, commit."""
        with self._connection.transaction():
            changes, _ = decide_commits(self._look(commit), [Submission(commit)])
            self._append(changes)

    def _look(self, commit: Commit) -> StateView:
        (head,) = self._one("SELECT memory_snapshot_id FROM head FOR UPDATE")
        known = self._one("SELECT 1 FROM commits WHERE commit_id = %s", bytes.fromhex(commit.commit_id))
        held = self._one("SELECT 1 FROM buffers WHERE commit_id = %s", commit.commit_id)
        newest = (
            "SELECT 1 FROM versions WHERE namespace = %s AND key = %s ORDER BY memory_snapshot_id DESC"
            " LIMIT 1"
        )
        there = [self._one(newest, *write.record_key) for write in commit.writes]
        assert (known, held, *there) == (None,) * (2 + len(there)), "every commit here is new"
        tip = self._one("SELECT seq, hash FROM ledger ORDER BY seq DESC LIMIT 1")
        return StateView(
            now=time.time(),
            head=head,
            tip=Tip() if tip is None else Tip(seq=tip[0], hash=tip[1].hex()),
            applied={},
            buffers={},
            latest={},
            commit_of=str,
            is_written=lambda *_: False,
        )

    def _append(self, changes: Changes) -> None:
        execute = self._connection.execute
        (entry,), (applied,) = changes.entries, changes.applied
        digest = bytes.fromhex(entry.hash)
        execute("INSERT INTO ledger VALUES (%s, %s, %s)", (entry.seq, packed(entry.content), digest))
        snapshot, commit_id, run_id, payload, at, seq, _ = astuple(applied)
        row = (snapshot, bytes.fromhex(commit_id), run_id, bytes.fromhex(payload), at, seq, digest)
        execute("INSERT INTO commits VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
        for version in changes.versions:
            values = (version.memory_snapshot_id, None, 1, version.namespace, version.key)
            sql = "INSERT INTO versions VALUES (%s, %s, %s, %s, %s, %s, %s)"
            execute(sql, (*values, bytes.fromhex(version.fingerprint or ""), packed(version.content or b"")))
        execute("UPDATE head SET memory_snapshot_id = %s", (applied.memory_snapshot_id,))

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def _rate(commits: Callable[[int], Callable[[Commit], object]], first: int) -> float:
    """Commits a second, all clients together."""
    work = [
        [_commit(first + client * COMMITS_EACH + n) for n in range(COMMITS_EACH)] for client in range(CLIENTS)
    ]
    ready = threading.Barrier(CLIENTS + 1)

    def client(number: int) -> None:
        commit = commits(number)
        ready.wait()
        for own in work[number]:
            commit(own)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    return CLIENTS * COMMITS_EACH / (time.perf_counter() - begun)


def run() -> list[Ratio]:
    """Rates in turns, the best of each compared; then one client alone, for comparison."""
    with _server() as server:
        ours, naive = server.new_database(), server.new_database()
        store = _store(ours)
        _store(naive).close()
        with psycopg.connect(naive, options="-c search_path=standfast") as connection:
            connection.execute("CREATE TABLE head (memory_snapshot_id bigint NOT NULL)")
            connection.execute("INSERT INTO head VALUES (0)")
        clients = [NaiveClient(naive) for _ in range(CLIENTS)]
        best_ours = best_naive = 0.0
        for turn in range(ROUNDS):
            first = turn * CLIENTS * COMMITS_EACH
            best_naive = max(best_naive, _rate(lambda number: clients[number].commit, first))
            best_ours = max(best_ours, _rate(lambda _: store.commit, first))
        begun = time.perf_counter()
        for number in range(COMMITS_EACH):
            store.commit(_commit(1_000_000 + number))
        alone = COMMITS_EACH / (time.perf_counter() - begun)
        assert list(store.verify()) == []
        for client in clients:
            client.close()
        store.close()
    detail = f"{best_ours:.0f} commits/s against {best_naive:.0f}"
    return [
        at_least(f"{CLIENTS} clients against a head-row lock", best_ours / best_naive, 5, detail),
        shown(f"{CLIENTS} clients against one of our own", best_ours / alone, f"alone {alone:.0f} commits/s"),
    ]
