"""Concurrency: 8 processes with 8 threads each count together in one file; no update is lost, no run sees
another's.

Everything is judged afterwards, from what the runs told and from the states that the store can still show.
"""

import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from standfast.clock import RandomIds, SystemClock
from standfast.records.vocabulary import Receipt
from standfast.store.sqlite import file as sqlite_file
from standfast.store.store import Store
from tests.figures import Figures
from tests.store.builders import NAMESPACE, commit, contents, memory_store, sqlite_store, write
from tests.store.crowd import COUNTERS, GENESIS, Attempt, Counting

ROOT = Path(__file__).parents[2]
PROCESSES, THREADS = 8, 8
FAST_INCREMENTS, SLOW_INCREMENTS = 15, 300


def test_a_crowd_loses_no_update_and_every_run_is_alone(tmp_path: Path, figures: Figures) -> None:
    _count_together(tmp_path / "store.db", FAST_INCREMENTS, figures)


@pytest.mark.slow
def test_a_crowd_that_counts_for_long_loses_no_update(tmp_path: Path, figures: Figures) -> None:
    _count_together(tmp_path / "store.db", SLOW_INCREMENTS, figures)


def _count_together(path: Path, increments: int, figures: Figures) -> None:
    attempts = _attempts_of_the_crowd(path, increments)
    store = sqlite_store(path, SystemClock(), RandomIds())
    applied = [attempt for attempt in attempts if attempt.receipt is not None]
    refusals = Counter(attempt.refusal for attempt in attempts if attempt.receipt is None)
    figures(
        "concurrency",
        processes=PROCESSES,
        threads=PROCESSES * THREADS,
        increments=len(applied),
        refused_runs=refusals.total(),
        lost_updates=0,
        leaks=0,
    )
    try:
        assert len(applied) == PROCESSES * THREADS * increments
        assert set(refusals) <= {"commit_aborted"}
        _check_counters(store, applied)
        _check_receipts(store, applied)
        _check_isolation(store, attempts)
        assert list(store.verify()) == []
    finally:
        store.close()


def _attempts_of_the_crowd(path: Path, increments: int) -> list[Attempt]:
    """Start all processes, let them open the store at the same moment, and hear what they tell."""
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "tests.store.crowd",
                        path,
                        str(number),
                        str(THREADS),
                        str(increments),
                    ],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(PROCESSES)
        ]
        for process in crowd:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in crowd:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.communicate()[0] for process in crowd]
        assert [process.returncode for process in crowd] == [0] * PROCESSES
    return [msgspec.json.decode(line, type=Attempt) for lines in told for line in lines.splitlines()]


def _check_counters(store: Store, applied: list[Attempt]) -> None:
    """A counter shows as many increments as were acknowledged, one after the other."""
    increments = Counter(attempt.counter for attempt in applied)

    for counter in COUNTERS:
        values = [int(version.content or b"") for version in store.history(NAMESPACE, counter)]
        assert values == list(range(increments[counter] + 1)), counter
    assert contents(store).keys() == {*COUNTERS, *(attempt.note for attempt in applied)}


def _check_receipts(store: Store, applied: list[Attempt]) -> None:
    """Every receipt is true, and tells of exactly what its run wrote; snapshots have no gaps."""
    receipts = {attempt.receipt.memory_snapshot_id: attempt for attempt in applied if attempt.receipt}

    assert sorted(receipts) == list(range(2, len(applied) + 2))
    assert store.head() == len(applied) + 1
    assert isinstance(store.status(GENESIS.commit_id), Receipt)
    for snapshot, attempt in receipts.items():
        assert attempt.receipt is not None
        known = store.status(attempt.receipt.commit_id)
        assert known == msgspec.structs.replace(attempt.receipt, replayed=True)
        rows = {row.key: (row.content or b"").decode() for row in store.versions_of(snapshot)}
        assert rows.keys() == {attempt.counter, attempt.note}
        assert int(rows[attempt.counter]) == int(attempt.read[attempt.counter] or 0) + 1


def _check_isolation(store: Store, attempts: list[Attempt]) -> None:
    """Each run read the state of its own start snapshot, before and after it wrote, and nothing of any
    other.
    """
    histories = {}
    for key in {key for attempt in attempts for key in attempt.read}:
        versions = store.history(NAMESPACE, key)
        histories[key] = (
            [version.memory_snapshot_id for version in versions],
            [(version.content or b"").decode() for version in versions],
        )

    for attempt in attempts:
        assert attempt.start >= attempt.newest_known, "a run starts before its own thread's last commit"
        for key, value in attempt.read.items():
            snapshots, values = histories[key]
            place = bisect_right(snapshots, attempt.start)
            assert value == (values[place - 1] if place else None), f"{attempt} read another state of {key}"
        assert attempt.read_again == attempt.read, f"{attempt} saw its own buffer, or a later state"


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_many_processes_may_open_a_new_store_at_the_same_moment(
    tmp_path: Path, rounds: int, figures: Figures
) -> None:
    """Who comes second finds the schema half made, the log just switched on, or a first commit, and is not
    confused.
    """
    command = [sys.executable, "-m", "tests.store.openers", str(tmp_path), str(rounds), str(PROCESSES)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures("opening together", openings=rounds * PROCESSES, refused=len(told.stdout.splitlines()))

    assert told.stdout == ""
    for number in range(rounds):
        store = sqlite_store(tmp_path / f"{number}.db")
        assert contents(store).keys() == {f"k{place}" for place in range(PROCESSES)}
        assert store.head() == PROCESSES
        store.close()


def test_who_opened_the_file_while_it_was_empty_writes_checksums_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's checksum VFS wakes up when it sees the file's first bytes.

    Who finds them in another's log, never sees them.
    """
    path, others = tmp_path / "store.db", list[Store]()
    refuse_foreign, migrate, settle = (
        sqlite_file._refuse_foreign_database,
        sqlite_file._migrate,
        sqlite_file._settle,
    )

    def another_is_faster(*given: Any) -> None:
        monkeypatch.setattr(sqlite_file, "_refuse_foreign_database", refuse_foreign)
        monkeypatch.setattr(sqlite_file, "_settle", lambda *_: None)
        refuse_foreign(*given)
        others.append(sqlite_store(path))
        monkeypatch.setattr(sqlite_file, "_settle", settle)
        monkeypatch.setattr(sqlite_file, "_migrate", and_goes_on)

    def and_goes_on(*given: Any) -> None:
        monkeypatch.setattr(sqlite_file, "_migrate", migrate)
        migrate(*given)
        writer = others[0]._storage._writer  # type: ignore[attr-defined]
        writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        others[0].commit(commit("r1", write("a")))

    monkeypatch.setattr(sqlite_file, "_refuse_foreign_database", another_is_faster)
    late = sqlite_store(path)
    late.commit(commit("r2", write("b")))
    others[0].close()
    late.close()
    after = sqlite_store(path)

    assert list(after.verify()) == []
    assert contents(after).keys() == {"a", "b"}
    after.close()


# The judges must be able to find something.


@pytest.fixture(scope="module")
def counted() -> tuple[Store, list[Attempt]]:
    """A store in which two threads have counted, and what they told."""
    store = memory_store(SystemClock())
    store.commit(GENESIS)
    crowd = [Counting(store, f"0.{number}", 20) for number in range(2)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    return store, [attempt for thread in crowd for attempt in thread.attempts if attempt.receipt is not None]


def test_the_judges_find_nothing_in_an_honest_history(counted: tuple[Store, list[Attempt]]) -> None:
    _check_counters(*counted)
    _check_receipts(*counted)
    _check_isolation(*counted)


def test_an_increment_that_is_acknowledged_and_missing_is_found(counted: tuple[Store, list[Attempt]]) -> None:
    store, attempts = counted

    with pytest.raises(AssertionError):
        _check_counters(store, [*attempts, attempts[0]])


def test_an_increment_that_nobody_made_is_found(counted: tuple[Store, list[Attempt]]) -> None:
    store, attempts = counted

    with pytest.raises(AssertionError):
        _check_receipts(store, attempts[1:])


@pytest.mark.parametrize(
    ("leak", "problem"),
    [
        (lambda attempt: {"start": attempt.start - 1}, "another state"),
        (lambda attempt: {"read": attempt.read | {attempt.note: "early"}}, "another state"),
        (lambda attempt: {"read_again": attempt.read | {attempt.counter: "99"}}, "its own buffer"),
        (lambda attempt: {"newest_known": attempt.start + 1}, "before its own"),
    ],
    ids=["a later snapshot", "another run's write", "the own buffer", "an old snapshot"],
)
def test_a_leak_is_found(
    counted: tuple[Store, list[Attempt]], leak: Callable[[Attempt], dict[str, Any]], problem: str
) -> None:
    store, attempts = counted
    leaky = [msgspec.structs.replace(attempt, **leak(attempt)) for attempt in attempts]

    with pytest.raises(AssertionError, match=problem):
        _check_isolation(store, leaky)
