"""I/O errors: whatever the disk does to a commit, it is aborted or its outcome can be learned, and reads stay
true.
"""

import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from standfast.errors import OutcomeUnknown, StoreError, StoreFailed
from standfast.records.vocabulary import Receipt
from standfast.store.store import Store
from tests.figures import Figures
from tests.store.builders import commit, contents, noise, sqlite_store, write
from tests.store.faulty_disk import CODES, fold, try_chaos, try_every_moment, try_opening
from tests.store.recording_vfs import Op, WatchedVFS, Watcher, in_child, io_error

FAST_SEEDS, SLOW_SEEDS = 40, 3_000
KINDS = ("sync", "write", "read", "short read", "any")
LENGTHS = (1, 3, 1_000)
"""How many operations in a row fail; the last one stands for a disk that stays broken until it is replaced.
"""


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [
        ("sync", LENGTHS),
        # One fault at each moment, of whatever kind the moment is, and a disk that stays full.
        ("any", LENGTHS[:1]),
        ("write", LENGTHS[2:]),
        *(pytest.param(kind, LENGTHS, marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_a_fault_at_any_moment_aborts_a_commit_or_leaves_its_outcome_to_be_learned(
    ram_folder: Path, kind: str, lengths: tuple[int, ...], figures: Figures
) -> None:
    found = in_child(try_every_moment, ram_folder, kind, lengths, folder=ram_folder)
    figures(f"I/O errors ({kind})", found)

    assert found["faults"] > 0
    assert found["aborted"] + found["unknown, then resolved"] > 0
    assert found["true reads"] > 0


@pytest.mark.parametrize("one_in", [5, 20, 50])
def test_a_disk_that_fails_at_random_gives_no_wrong_answer(
    ram_folder: Path, one_in: int, figures: Figures
) -> None:
    found = in_child(try_chaos, ram_folder, range(FAST_SEEDS), one_in, folder=ram_folder)
    figures("I/O errors (at random)", found)

    assert found["faults"] > FAST_SEEDS


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [3, 5, 10, 20, 50, 100])
def test_a_disk_that_fails_at_random_for_long_gives_no_wrong_answer(
    ram_folder: Path, one_in: int, figures: Figures
) -> None:
    found = in_child(try_chaos, ram_folder, range(FAST_SEEDS, SLOW_SEEDS), one_in, folder=ram_folder)
    figures("I/O errors (at random)", found)

    assert found["faults"] > 1_000


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [
        ("any", LENGTHS[:1]),
        *((kind, LENGTHS[2:]) for kind in KINDS if kind != "any"),
        *(pytest.param(kind, LENGTHS, marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_a_fault_while_a_store_is_opened_refuses_it_and_harms_nothing(
    ram_folder: Path, kind: str, lengths: tuple[int, ...], figures: Figures
) -> None:
    """A store that does not exist yet, and one that was killed and has its log to read."""
    found = in_child(try_opening, ram_folder, kind, lengths, folder=ram_folder)
    figures(f"I/O errors while opening ({kind})", found)

    assert found["refused"] > 0


class Script(Watcher):
    """Lets operations fail in this order: ("fail", kind, name), or waits for one to happen: ("await", kind,
    name).
    """

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        WatchedVFS(self)

    def before(self, kind: str, name: str) -> None:
        """Fail, if that is the next line."""
        if self.lines[:1] == [("fail", kind, name)]:
            del self.lines[0]
            raise io_error(CODES[kind], f"injected: no {kind}")

    def happened(self, op: Op) -> None:
        """Go on, if that was awaited."""
        if self.lines[:1] == [("await", op.kind, op.name)]:
            del self.lines[0]


def _unlucky_look_up(folder: Path) -> tuple[str, Receipt]:
    script = Script()
    store = sqlite_store(folder / "store.db")
    store.commit(commit("r1", write("a")))
    # The commit is written but not synced, and the log outlives its writer, so that the next one finds it
    # there.
    script.lines = [
        ("fail", "sync", "-wal"),
        ("fail", "sync", "-wal"),
        ("await", "truncate", "-wal"),
        ("fail", "read", ""),
    ]
    told = "nothing"
    try:
        store.commit(commit("r2", write("b"), at=1))
    except StoreError as error:
        told = type(error).__name__
    assert script.lines == [], "the script was not played to its end"
    return told, store.commit(commit("r2", write("b"), at=1))


def test_an_error_while_an_unknown_outcome_is_looked_up_is_not_taken_for_an_abort(ram_folder: Path) -> None:
    """The first attempt was applied and the second can't read that: nobody may say that nothing was
    changed.
    """
    told, receipt = in_child(_unlucky_look_up, ram_folder, folder=ram_folder)

    assert told == "OutcomeUnknown"
    assert (receipt.memory_snapshot_id, receipt.replayed) == (2, True)


def _on_a_full_disk(folder: Path, room_bytes: int) -> Counter[str]:
    """Commit until no file may grow any more, see what is told and shown, get more room, and go on."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = sqlite_store(folder / "store.db")
    commits = [commit(f"r{n}", write(f"k{n}", noise(900 * n)), at=n) for n in range(25)]
    told: Counter[str] = Counter()
    shown: dict[str, object] = {}
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, resource.RLIM_INFINITY))
    for number, asked in enumerate(commits):
        try:
            receipt = store.commit(asked)
            told["committed"] += 1
        except (StoreFailed, OutcomeUnknown) as error:
            told[type(error).__name__] += 1
            assert contents(store) == shown, "reads do not go on"
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            receipt = store.commit(asked)
        assert (receipt.memory_snapshot_id, receipt.commit_id) == (number + 1, asked.commit_id)
        shown = contents(store)
        assert list(shown) == sorted(f"k{n}" for n in range(number + 1))
        if number % 5 == 4:
            told["failed checkpoints"] += not fold(store)
    store.close()
    full = sqlite_store(folder / "store.db")
    assert contents(full) == shown, "a full disk can still be read"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert full.commit(commit("last", write("last"))).memory_snapshot_id == len(commits) + 1
    full.close()
    assert list(sqlite_store(folder / "store.db").verify()) == []
    return told


@pytest.mark.parametrize("room_bytes", range(60_000, 300_001, 40_000))
def test_a_disk_that_is_really_full_aborts_the_commit_and_no_other(
    ram_folder: Path, room_bytes: int, figures: Figures
) -> None:
    """No file may grow beyond a limit of the system, so that SQLite's own writes fail half-way."""
    told = in_child(_on_a_full_disk, ram_folder, room_bytes, folder=ram_folder)
    figures("full disks", told)

    assert told["committed"] < 25 or told["failed checkpoints"] > 0


class Syncs(Watcher):
    """Counts syncs; the next one can be held up."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.hold: Callable[[], None] | None = None
        WatchedVFS(self)

    def before(self, kind: str, name: str) -> None:
        """Count, and wait if told so."""
        if kind == "sync":
            self.files[name] += 1
            hold, self.hold = self.hold, None
            if hold is not None:
                hold()


def _count_syncs(folder: Path) -> tuple[dict[str, int], ...]:
    syncs = Syncs()
    store = sqlite_store(folder / "store.db")
    phases = []

    def counted(work: Callable[[], object]) -> None:
        syncs.files.clear()
        work()
        phases.append(dict(syncs.files))

    def commit_all() -> None:
        for number in range(40):
            store.commit(commit(f"r{number}", write(f"a{number}"), write(f"b{number}", noise(3_000))))

    store.commit(commit("first", write("first")))  # It begins the log, which takes a sync of its own.
    counted(commit_all)
    counted(commit_all)
    counted(lambda: _commit_together(store, syncs, 16))
    return tuple(phases)


def _commit_together(store: Store, syncs: Syncs, followers: int) -> None:
    """One committer is held in its sync until so many others wait for it."""
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go_on.wait()

    syncs.hold = hold
    threads = [
        threading.Thread(target=store.commit, args=(commit(f"g{n}", write(f"g{n}")),))
        for n in range(followers + 1)
    ]
    threads[0].start()
    held.wait()
    for thread in threads[1:]:
        thread.start()
    while len(store._group._waiting) < followers:
        time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join()


def test_a_commit_takes_one_sync_and_so_does_a_group_of_them(ram_folder: Path, figures: Figures) -> None:
    alone, replayed, together = in_child(_count_syncs, ram_folder, folder=ram_folder)
    figures("syncs", {"for 40 commits": alone["-wal"], "for 1 commit and a group of 16": together["-wal"]})

    assert alone == {"-wal": 40}
    assert replayed == {}
    assert together == {"-wal": 2}
