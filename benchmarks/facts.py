"""What a fact costs: bytes on disk and facts a second, next to an FTS5 table and LangGraph's SQLite store
where it is installed.

The texts are dialogue turns of about 130 bytes. Every write is synced. Ours is judged, with evidence and
ledger. Where a C compiler is at hand, single facts are measured a second time with a library preloaded that
makes each sync take some milliseconds.
"""

import hashlib
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from benchmarks.dialogue import dialogue_turns
from benchmarks.measure import Ratio, at_least, at_most, shown
from standfast.clock import RandomIds
from standfast.memory import Memory
from standfast.store.compression import unpacked

TITLE = "A fact of 130 bytes: room and time"
BULK, SINGLE, THREADS = 12_000, 300, 16
PER_COMMIT = 1_000
# Of a bulk load, a part is long enough to hold its share of the segments of recall's index.
BULK_PART, SINGLE_PART = 4_000, 50
assert BULK % BULK_PART == BULK_PART % PER_COMMIT == SINGLE % SINGLE_PART == 0
BULK_BYTES, SINGLE_BYTES = 1_200, 2_400
SLOW_SYNCS_MICROSECONDS = (1_000, 5_000)
THREADS_BOUND, PROCESSES_BOUND = 1.0, 1.6
BULK_MICROSECONDS = 400
"""With the index of recall, which a bulk load writes as it goes."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _measured(facts: int, write: Callable[[list[str]], None], size: int) -> tuple[float, float]:
    """Wall and CPU seconds a fact, written in portions: those of the best part, because others use the
    machine too.
    """
    turns = list(itertools.islice(dialogue_turns(), facts))
    part = BULK_PART if size == PER_COMMIT else SINGLE_PART
    walls, cpus = [], []
    for first in range(0, facts, part):
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(first, first + part, size):
            write(turns[start : start + size])
        walls.append((time.perf_counter() - wall) / part)
        cpus.append((time.process_time() - cpu) / part)
    return min(walls), min(cpus)


def ours(facts: int, size: int) -> tuple[float, float, float]:
    """Bytes, wall seconds and CPU seconds a fact through ``Memory``: single ones by ``remember``, others in
    runs.
    """
    with temporary_folder() as folder:
        with Memory.open(str(folder / "memory.db")) as memory:
            memory.remember("The benchmark begins.")

            def write(turns: list[str]) -> None:
                if len(turns) == 1:
                    memory.remember(turns[0])
                    return
                with memory.run(workflow="bench", mode="buffered_write") as run:
                    for turn in turns:
                        run.remember(turn)

            wall, cpu = _measured(facts, write, size)
        return _bytes_in(folder) / facts, wall, cpu


def fts5(facts: int, size: int) -> tuple[float, float, float]:
    """The same of a table of texts with SQLite's own text index."""
    with temporary_folder() as folder:
        file = apsw.Connection(str(folder / "fts5.db"))
        file.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").fetchall()
        file.execute("CREATE VIRTUAL TABLE facts USING fts5 (text)")

        def write(turns: list[str]) -> None:
            file.execute("BEGIN IMMEDIATE")
            file.executemany("INSERT INTO facts VALUES (?)", [(turn,) for turn in turns])
            file.execute("COMMIT")

        wall, cpu = _measured(facts, write, size)
        file.close()
        return _bytes_in(folder) / facts, wall, cpu


def langgraph(facts: int, size: int) -> tuple[float, float, float] | None:
    """The same of LangGraph's SQLite store; None if it is not installed."""
    try:
        from langgraph.store.base import PutOp  # noqa: PLC0415  # A guest.
        from langgraph.store.sqlite import SqliteStore  # noqa: PLC0415  # As above.
    except ImportError:
        return None
    with temporary_folder() as folder:
        file = sqlite3.connect(folder / "langgraph.db", isolation_level=None, check_same_thread=False)
        file.execute("PRAGMA journal_mode = WAL").fetchall()
        file.execute("PRAGMA synchronous = FULL")
        store, ids = SqliteStore(file), RandomIds()
        store.setup()

        def write(turns: list[str]) -> None:
            store.batch([PutOp(("bench",), ids.new_id(), {"text": turn}) for turn in turns])

        wall, cpu = _measured(facts, write, size)
        file.close()
        return _bytes_in(folder) / facts, wall, cpu


def _threads(threads: int) -> float:
    """Facts a second of several threads, each of which remembers one fact at a time."""
    each = SINGLE // threads if threads > 1 else SINGLE // 3
    with temporary_folder() as folder, Memory.open(str(folder / "memory.db")) as memory:
        memory.remember("The benchmark begins.")
        portions = [list(itertools.islice(dialogue_turns(seed), each)) for seed in range(100, 100 + threads)]

        def client(turns: list[str]) -> None:
            for turn in turns:
                memory.remember(turn)

        workers = [threading.Thread(target=client, args=(turns,)) for turns in portions]
        begun = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return threads * each / (time.perf_counter() - begun)


PROCESS = """
import itertools, sys
from benchmarks.dialogue import dialogue_turns
from standfast.memory import Memory
path, seed, facts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
turns = dialogue_turns(seed)
with Memory.open(path) as memory:
    for turn in itertools.islice(turns, 20):
        memory.remember(turn)
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in itertools.islice(turns, facts):
        memory.remember(turn)
    print("done", flush=True)
"""


def _processes(processes: int) -> float:
    """Facts a second of several processes that share a store, each of which remembers one at a time."""
    with temporary_folder() as folder:
        path = str(folder / "memory.db")
        with Memory.open(path) as memory:
            memory.remember("The benchmark begins.")
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", PROCESS, path, str(seed), str(SINGLE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed in range(100, 100 + processes)
        ]
        outputs = [worker.stdout for worker in workers if worker.stdout is not None]
        for output in outputs:
            output.readline()
        begun = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.close()
        for output in outputs:
            output.readline()
        seconds = time.perf_counter() - begun
        for worker in workers:
            worker.wait()
        return processes * SINGLE / seconds


def _over_one(title: str, rate: Callable[[int], float], workers: int, bound: float) -> Ratio:
    """The rate of several workers over that of one, the best of three each."""
    one, many = (max(rate(number) for _ in range(3)) for number in (1, workers))
    return at_least(
        f"{title} over one, on this disk", many / one, bound, f"{many:,.0f} a second against {one:,.0f}"
    )


def _best_of_three(call: Callable[[], object]) -> float:
    """CPU seconds."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return min(times)


def _verify_ratio() -> tuple[float, str]:
    """CPU seconds of verifying a store, over reading and hashing each of its contents and entries once."""
    with temporary_folder() as folder:
        with Memory.open(str(folder / "memory.db")) as memory:
            turns = dialogue_turns()
            for _ in range(BULK // PER_COMMIT):
                with memory.run(workflow="bench", mode="buffered_write") as run:
                    for turn in itertools.islice(turns, PER_COMMIT):
                        run.remember(turn)
            verifying = _best_of_three(lambda: list(memory.store.verify()))
        file = apsw.Connection(str(folder / "memory.db"), vfs="cksmvfs")

        def hash_all() -> None:
            for table, key in (("versions", "key"), ("ledger", "''")):
                contents = f"SELECT {key}, content FROM {table} WHERE content IS NOT NULL"
                for place, content in file.execute(contents):
                    hashlib.sha256(unpacked(content, place)).hexdigest()

        hashing = _best_of_three(hash_all)
        file.close()
    return verifying / hashing, f"{verifying / BULK * 1e6:.0f} µs a fact against {hashing / BULK * 1e6:.0f}"


def _diff_ratio() -> tuple[float, str]:
    """CPU seconds a change of comparing the last of ten commits with the one before, over that of comparing
    all of them.
    """
    with Memory.open(":memory:") as memory:
        turns = dialogue_turns()
        for _ in range(10):
            with memory.run(workflow="bench", mode="buffered_write") as run:
                for turn in itertools.islice(turns, 200):
                    run.remember(turn)
        costs = []
        for old in (9, 0):
            begun = time.process_time()
            changes = memory.diff(old, 10)
            costs.append((time.process_time() - begun) / len(changes))
    return costs[0] / costs[1], f"{costs[0] * 1e6:.0f} µs a change against {costs[1] * 1e6:.0f}"


def _singles() -> dict[str, float]:
    """Seconds of single facts: ours, LangGraph's if it is installed, and ours in one thread and in many."""
    seconds = {"ours": ours(SINGLE, 1)[1], "one": 1 / _threads(1), "many": 1 / _threads(THREADS)}
    if (guest := langgraph(SINGLE, 1)) is not None:
        seconds["langgraph"] = guest[1]
    return seconds


def _where_syncs_cost() -> list[Ratio]:
    """Single facts on a disk whose sync takes some milliseconds, which a preloaded library makes of any
    disk.
    """
    if (compiler := shutil.which("cc")) is None:
        return []
    ratios = []
    with temporary_folder() as folder:
        library = folder / "slow_sync.so"
        source = Path(__file__).with_name("slow_sync.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        for sync in SLOW_SYNCS_MICROSECONDS:
            slow = {**os.environ, "LD_PRELOAD": str(library), "SYNC_MICROSECONDS": str(sync)}
            command = [sys.executable, "-m", "benchmarks.facts"]
            printed = subprocess.run(command, env=slow, check=True, capture_output=True, text=True).stdout
            seconds = json.loads(printed)
            where = f"where a sync takes {sync / 1e3:g} ms more"
            if "langgraph" in seconds:
                name = f"one fact, rate over LangGraph's SQLite store, {where}"
                detail = f"{1 / seconds['ours']:,.0f} a second against {1 / seconds['langgraph']:,.0f}"
                ratios.append(at_least(name, seconds["langgraph"] / seconds["ours"], 1, detail))
            detail = f"{1 / seconds['many']:,.0f} a second against {1 / seconds['one']:,.0f}"
            ratios.append(
                at_least(f"{THREADS} threads over one, {where}", seconds["one"] / seconds["many"], 3, detail)
            )
    return ratios


def run() -> list[Ratio]:
    """Every figure of a fact."""
    ratios = []
    guests: dict[str, Callable[[int, int], tuple[float, float, float] | None]] = {
        "LangGraph's SQLite store": langgraph,
        "an FTS5 table": fts5,
    }
    singles: dict[str, float] = {}
    for label, facts, size, bound in (
        ("in commits of 1,000", BULK, PER_COMMIT, BULK_BYTES),
        ("in a commit of its own", SINGLE, 1, SINGLE_BYTES),
    ):
        stored, wall, cpu = ours(facts, size)
        detail = f"{1 / wall:,.0f} a second, {cpu * 1e6:,.0f} µs of CPU"
        ratios.append(at_most(f"bytes on disk, {label}", stored, bound, detail, unit=" bytes"))
        if size > 1:
            name = "µs of CPU a fact, in commits of 1,000"
            ratios.append(at_most(name, cpu * 1e6, BULK_MICROSECONDS, unit=" µs"))
        else:
            singles["ours"] = wall
        for name, guest in guests.items():
            if (found := guest(facts, size)) is None:
                continue
            stored, wall, cpu = found
            singles[name] = wall
            detail = f"{1 / wall:,.0f} a second, {cpu * 1e6:,.0f} µs of CPU"
            ratios.append(shown(f"bytes on disk, {label}: {name}", stored, detail))
    with suppress(KeyError):
        name = "LangGraph's SQLite store"
        ratios.append(shown(f"one fact, rate over {name}, on this disk", singles[name] / singles["ours"]))
    ratios.append(_over_one(f"{THREADS} threads", _threads, THREADS, THREADS_BOUND))
    ratios.append(_over_one("two processes", _processes, 2, PROCESSES_BOUND))
    ratios += _where_syncs_cost()
    ratio, detail = _verify_ratio()
    ratios.append(at_most("verify over hashing", ratio, 3, detail))
    ratio, detail = _diff_ratio()
    ratios.append(at_most("diff: a change of a tenth of the store over one of all of it", ratio, 2, detail))
    return ratios


if __name__ == "__main__":
    print(json.dumps(_singles()))
