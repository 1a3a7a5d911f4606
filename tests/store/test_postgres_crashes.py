"""Nothing acknowledged is lost and nothing is half there, whichever process dies and wherever the line is
cut.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from standfast.clock import RandomIds, SystemClock, seeded
from standfast.errors import OutcomeUnknown, StoreError
from standfast.records.vocabulary import Receipt
from standfast.store.pipeline import Submission, decide_commits, query_for
from standfast.store.store import Store
from tests.figures import Figures
from tests.servers import guard
from tests.servers.postgres import PostgresServer
from tests.store.builders import commit, postgres_store, write
from tests.store.cutting_proxy import LATE_SECONDS, TO_CLIENT, TO_SERVER, CuttingProxy
from tests.store.nursery import nth_commit

ROOT = Path(__file__).parents[2]
# What a client sends behind its last statement.
SYNC = b"S\0\0\0\4"


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[CuttingProxy]:
    with CuttingProxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
def cut_store(proxy: CuttingProxy) -> Iterator[Store]:
    """A store whose connections go through the proxy."""
    store = postgres_store(proxy.url)
    yield store
    store.close()


def _measured(proxy: CuttingProxy, store: Store) -> dict[str, int]:
    """How many bytes a commit takes either way, once everything is prepared."""
    for name in ("000000", "000001"):
        before = dict(proxy.passed_bytes)
        store.commit(commit(name, write(name)))
    return {direction: passed - before[direction] for direction, passed in proxy.passed_bytes.items()}


def _cut_along_a_commit(proxy: CuttingProxy, store: Store, step_bytes: int, tell: Figures) -> None:
    lengths = _measured(proxy, store)
    # The end is where a commit was done though nobody heard of it.
    points = [
        (way, at)
        for way in (TO_SERVER, TO_CLIENT)
        for at in sorted({*range(0, lengths[way], step_bytes), *range(lengths[way] - 24, lengths[way])})
    ]
    receipts = []
    for number, (way, at) in enumerate(points, 2):
        name = f"{number:06}"
        proxy.cut_after(way, at)
        receipts.append(store.commit(commit(name, write(name))))
        assert proxy.cuts == len(receipts)
    again = [
        store.commit(commit(f"{number:06}", write(f"{number:06}"))) for number in range(2, len(points) + 2)
    ]
    applied_unheard = sum(receipt.replayed for receipt in receipts)
    lost = sum(first.ledger_hash != second.ledger_hash for first, second in zip(receipts, again, strict=True))
    tell(
        "PostgreSQL, line cut along a commit",
        points=len(points),
        applied_though_unheard=applied_unheard,
        lost=lost,
        doubled=store.head() - len(points) - 2,
    )

    assert [receipt.memory_snapshot_id for receipt in receipts] == list(range(3, len(points) + 3))
    assert lost == 0
    assert 0 < applied_unheard < len(points)
    assert (store.head(), list(store.verify())) == (len(points) + 2, [])


def test_a_line_that_is_cut_anywhere_loses_and_doubles_nothing(
    proxy: CuttingProxy, cut_store: Store, figures: Figures
) -> None:
    _cut_along_a_commit(proxy, cut_store, 61, figures)


@pytest.mark.slow
def test_a_line_that_is_cut_after_any_byte_loses_and_doubles_nothing(
    proxy: CuttingProxy, cut_store: Store, figures: Figures
) -> None:
    _cut_along_a_commit(proxy, cut_store, 1, figures)


def test_a_commit_that_arrives_late_is_waited_for(proxy: CuttingProxy, cut_store: Store) -> None:
    """The client has lost its line, but its COMMIT still travels: after a reset, looking tells how that
    ended.
    """
    length = _measured(proxy, cut_store)[TO_SERVER]
    late = commit("000002", write("000002"))
    proxy.cut_after(TO_SERVER, length - len(SYNC) - 1, late=True)
    storage = cut_store._storage

    def lose_the_line() -> None:
        with storage.transaction() as transaction:
            changes, _ = decide_commits(transaction.load(query_for([Submission(late)])), [Submission(late)])
            transaction.append(changes)

    with pytest.raises(OutcomeUnknown):
        lose_the_line()
    storage.reset()
    seen = [applied.commit_id for applied in storage.commits(after=0, limit=9)]
    time.sleep(2 * LATE_SECONDS)
    seen_later = [applied.commit_id for applied in storage.commits(after=0, limit=9)]

    assert late.commit_id in seen
    assert seen == seen_later


def test_a_line_that_is_cut_again_and_again_loses_and_doubles_nothing(
    proxy: CuttingProxy, cut_store: Store, figures: Figures
) -> None:
    """Connections are cut while they open, too.

    Who submits the same commit until it is answered gets a true receipt.
    """
    dice = seeded(7)
    proxy.patience = lambda: dice.randrange(500, 12_000)
    cut_store.close()
    receipts, refusals = [], 0
    for number in range(60):
        receipt, refused = _insist(cut_store, f"{number:06}")
        receipts.append(receipt)
        refusals += refused
    proxy.patience = None
    cut_store._storage.reset()
    doubled = cut_store.head() - len(receipts)
    figures(
        "PostgreSQL, bad line", commits=len(receipts), cuts=proxy.cuts, refusals=refusals, doubled=doubled
    )

    assert proxy.cuts > 30
    assert [receipt.memory_snapshot_id for receipt in receipts] == list(range(1, 61))
    assert list(cut_store.verify()) == []


def _insist(store: Store, name: str) -> tuple[Receipt, int]:
    """Submit a commit until it is answered, as a client does that wants to know; and how often it was not."""
    asked = commit(name, write(name + "/left"), write(name + "/right"))
    for refused in range(1_000):
        try:
            return store.commit(asked), refused
        except StoreError:
            continue
    raise AssertionError("the server never came back")


def _commit_through(url: str, kill: Callable[[], None], kills: int, tell: Callable[..., None]) -> None:
    """Commit from 8 threads while something is killed again and again; then check every receipt."""
    store = postgres_store(url, SystemClock(), RandomIds())
    over = threading.Event()
    receipts: list[list[Receipt]] = [[] for _ in range(8)]
    refusals = [0]

    def commit_on(thread: int) -> None:
        while not over.is_set():
            receipt, refused = _insist(store, f"{thread}-{len(receipts[thread])}")
            receipts[thread].append(receipt)
            refusals[0] += refused

    threads = [threading.Thread(target=commit_on, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            done = sum(map(len, receipts))
            kill()
            while sum(map(len, receipts)) < done + 40:
                time.sleep(0.005)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    given = [receipt for own in receipts for receipt in own]
    lost = sum(_kept(store, receipt) is not True for receipt in given)
    head, problems = store.head(), list(store.verify())
    store.close()
    tell(commits=len(given), refusals=refusals[0], lost=lost)

    assert lost == 0
    assert sorted(receipt.memory_snapshot_id for receipt in given) == list(range(1, head + 1))
    assert problems == []


def _kept(store: Store, receipt: Receipt) -> bool:
    known = store.status(receipt.commit_id)
    return (
        isinstance(known, Receipt) and known.as_json() | {"replayed": receipt.replayed} == receipt.as_json()
    )


def _kill_a_backend(url: str) -> None:
    """SIGKILL for the one that serves the writer; the postmaster then ends all the others and recovers."""
    pid = None
    while pid is None:
        with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as connection:
            sql = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted ORDER BY pid LIMIT 1"
            pid = next((row[0] for row in connection.execute(sql)), None)
    os.kill(pid, signal.SIGKILL)


def _kill_the_server(server: PostgresServer) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_killing_the_backend_of_the_writer_loses_nothing(
    kills: int, postgres_url: str, figures: Figures
) -> None:
    tell = partial(figures, "PostgreSQL, kill -9 of a backend", kills=kills)
    _commit_through(postgres_url, lambda: _kill_a_backend(postgres_url), kills, tell)


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_killing_the_whole_server_loses_nothing(
    kills: int, postgres_server: PostgresServer, postgres_url: str, figures: Figures
) -> None:
    tell = partial(figures, "PostgreSQL, kill -9 of the server", kills=kills)
    _commit_through(postgres_url, lambda: _kill_the_server(postgres_server), kills, tell)


@pytest.mark.parametrize("points", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_killing_clients_at_any_moment_loses_nothing(
    points: int, postgres_url: str, tmp_path: Path, figures: Figures
) -> None:
    """Some die while they open the store, most in the midst of a commit; two live at a time."""
    store = postgres_store(postgres_url)
    dice = seeded(points)
    names = [str(tmp_path / f"child{number:04}") for number in range(points)]
    with _nursery(postgres_url) as nursery:
        pids = []
        for number, name in enumerate(names):
            pids.append(_born(nursery, name))
            # A child is killed after it told of up to 5 commits and some milliseconds more; its elder brother
            # lives on until then, so that they wait for each other's lock.
            _await_lines(name, dice.randrange(6))
            time.sleep(dice.uniform(0.0, 0.01))
            if number:
                os.kill(pids[number - 1], signal.SIGKILL)
        os.kill(pids[-1], signal.SIGKILL)
        assert guard.wait_until_gone(pids, within_seconds=5)
    acknowledged = {name: _told(name) for name in names}
    ids = {
        nth_commit(name, number).commit_id: line
        for name, told in acknowledged.items()
        for number, line in enumerate(told)
    }
    kept = {
        known.commit_id: f"{known.memory_snapshot_id} {known.ledger_hash}"
        for known in store.commits(limit=1_000_000)
    }
    lost = len(ids.items() - kept.items())
    unheard = sum(store.commit(nth_commit(name, len(told))).replayed for name, told in acknowledged.items())
    count = sum(map(len, acknowledged.values()))
    head, problems = store.head(), list(store.verify())
    store.close()
    figures(
        "PostgreSQL, kill -9 of clients",
        points=points,
        acknowledged=count,
        applied_though_unheard=unheard,
        lost=lost,
        partial=len(problems),
    )

    assert (lost, problems) == (0, [])
    assert head == count + points
    assert count > points


def _nursery(url: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.store.nursery", url]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _born(nursery: "subprocess.Popen[str]", name: str) -> int:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{name}\n")
    nursery.stdin.flush()
    return int(nursery.stdout.readline())


def _await_lines(name: str, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(_told(name)) < count:
        assert time.monotonic() < deadline, "the child commits nothing"
        time.sleep(0.001)


def _told(name: str) -> list[str]:
    """What a child told of its receipts; a child that died early told nothing."""
    told = Path(name)
    return told.read_text().splitlines() if told.exists() else []
