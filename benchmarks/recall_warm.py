"""``memory.read`` over a snapshot of Standfast's own store that is kept in memory."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.measure import Ratio, at_least, at_most, shown
from benchmarks.recall import decode_line_by_line, request_for, write_store
from standfast.clock import CountedIds, SystemClock
from standfast.recall import MemoryControllerInput, StoreCorpus, read
from standfast.recall.store_corpus import SnapshotSource
from standfast.store.commit import Commit, Write
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from standfast.vocabulary import ActionType

TITLE = "memory.read over the store, kept in memory"
RECORDS = 100_000
MOST_TIMES_WARM = 4
COMMIT_RECORDS = 10_000
WARM_READS = 15
SMALL_COMMITS = 7
NAMESPACE = "bench"


def _commit(store: Store, writes: list[Write]) -> None:
    store.commit(
        Commit.of(
            run_id=f"run-{store.head()}",
            memory_snapshot_id=store.head(),
            policy_set_id="bench",
            writes=writes,
        )
    )


def _filled(folder: Path, lines: Path) -> Store:
    clock, ids = SystemClock(), CountedIds()
    store = Store(SQLiteStorage(str(folder / f"{lines.stem}.db"), clock=clock, ids=ids), clock=clock, ids=ids)
    for batch in _batches(lines):
        _commit(store, [Write.of(NAMESPACE, plain["memory_id"], ActionType.WRITE, plain) for plain in batch])
    return store


def _batches(lines: Path) -> Iterator[list[dict[str, str]]]:
    with lines.open(encoding="utf-8") as file:
        while batch := list(map(json.loads, islice(file, COMMIT_RECORDS))):
            yield batch


def _timed(way: Callable[[], object]) -> float:
    start = time.process_time()
    way()
    return time.process_time() - start


def _store_ratios(store: Store, lines: Path, records: int) -> list[Ratio]:
    corpus = StoreCorpus(store, NAMESPACE)
    rebuilt = _timed(corpus.source)
    request = MemoryControllerInput.from_json(request_for(Path(corpus.store_path)))
    warm = [_timed(lambda: read(request, lambda _: corpus.source())) for _ in range(WARM_READS)]
    cold = [_timed(lambda: decode_line_by_line(lines)) for _ in range(WARM_READS)]
    extended = []
    for number in range(SMALL_COMMITS):
        key = f"new-{number}"
        _commit(store, [Write.of(NAMESPACE, key, ActionType.WRITE, {"memory_id": key, "text": "x"})])
        extended.append(_timed(corpus.source))
    middle, loop, step = (statistics.median(times) for times in (warm, cold, extended))
    from_store = _timed(lambda: read(request, lambda _: SnapshotSource(store, NAMESPACE, store.head())))
    return [
        at_most(
            f"warm read of {records:,} records against decoding as many JSON lines",
            middle / loop,
            MOST_TIMES_WARM,
            f"p50 {middle * 1e3:.1f} ms, slowest {max(warm) * 1e3:.1f} ms",
        ),
        shown("… without a corpus, read from the store", from_store / loop, f"{from_store:.2f} s"),
        at_least(
            "following a small commit against reading the store anew",
            rebuilt / step,
            10,
            f"{step * 1e3:.2f} ms; anew {rebuilt:.2f} s, {rebuilt / records * 1e6:.1f} µs a record",
        ),
    ]


def run() -> list[Ratio]:
    """A store of 100,000 records."""
    with tempfile.TemporaryDirectory() as name:
        lines = Path(name) / "store.jsonl"
        write_store(lines, RECORDS)
        store = _filled(Path(name), lines)
        ratios = _store_ratios(store, lines, RECORDS)
        store.close()
        return ratios
