"""``memory.read`` over what is kept: a snapshot of Standfast's own store in memory, and decoded files on disk."""

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.measure import Ratio, at_least, at_most, best_seconds, shown
from benchmarks.recall import QUERY_TERMS, TERMS, cold, request_for, write_store
from standfast.clock import CountedIds, SystemClock
from standfast.recall.controller import read
from standfast.recall.request import MemoryControllerInput
from standfast.recall.sources.corpus import Corpus
from standfast.recall.sources.snapshot import SnapshotSource, StoreCorpus
from standfast.store.commit import Commit, Write
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from standfast.vocabulary import ActionType

TITLE = "memory.read over what is kept: the store in memory, and decoded files on disk"
SIZES = (100_000, 1_000_000)
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


def _store_ratios(store: Store, records: int) -> list[Ratio]:
    corpus = StoreCorpus(store, NAMESPACE)
    rebuilt = _timed(corpus.source)
    request = MemoryControllerInput.from_json(request_for(Path(corpus.store_path)))
    shown_segments = corpus.source().segments()
    haystack = b"\n".join(segment.haystack for segment in shown_segments if not callable(segment))
    terms = [term.encode() for term in TERMS[:QUERY_TERMS]]
    warm = [_timed(lambda: read(request, lambda _: corpus.source())) for _ in range(WARM_READS)]
    scans = [_timed(lambda: [haystack.count(term) for term in terms]) for _ in range(WARM_READS)]
    extended = []
    for number in range(SMALL_COMMITS):
        _commit(
            store,
            [
                Write.of(
                    NAMESPACE, f"new-{number}", ActionType.WRITE, {"memory_id": f"new-{number}", "text": "x"}
                )
            ],
        )
        extended.append(_timed(corpus.source))
    middle, scan, step = (statistics.median(times) for times in (warm, scans, extended))
    from_store = min(
        _timed(lambda: read(request, lambda _: SnapshotSource(store, NAMESPACE, store.head())))
        for _ in range(1 if records > SIZES[0] else 2)
    )
    return [
        at_most(
            f"warm read of {records:,} records of the store against a bare scan",
            middle / scan,
            3,
            f"p50 {middle * 1e3:.1f} ms, slowest {max(warm) * 1e3:.1f} ms; scan {scan * 1e3:.1f} ms",
        ),
        shown("… without a corpus, read from the store", from_store / scan, f"{from_store:.2f} s"),
        at_least(
            "taking in a small commit against reading the store anew",
            rebuilt / step,
            10,
            f"{step * 1e3:.2f} ms; anew {rebuilt:.2f} s, {rebuilt / records * 1e6:.1f} µs a record",
        ),
    ]


def _sidecar_ratios(lines: Path, folder: Path) -> list[Ratio]:
    records = SIZES[0]
    request = MemoryControllerInput.from_json(request_for(lines))
    cache = folder / "cache"
    written = _timed(lambda: Corpus(cache_folder=cache).open(str(lines)))
    content, (entry,) = lines.read_bytes(), cache.iterdir()
    kept = entry.read_bytes()
    seconds = best_seconds(
        {
            "with it": lambda: read(request, Corpus(cache_folder=cache).open),
            "without": lambda: read(request, Corpus().open),
            "cold": cold(lines),
            "hashes": lambda: (hashlib.sha256(content).digest(), hashlib.sha256(kept).digest()),
        },
        calls=1,
        rounds=5,
        clock=time.process_time,
    )
    each = {name: f"{value / records * 1e6:.2f} µs" for name, value in seconds.items()}
    return [
        at_least(
            "first read of a corpus without the cache on disk against one with it",
            seconds["without"] / seconds["with it"],
            1,
            f"{each['without']} a record, {each['with it']} with it",
        ),
        shown(
            "a cold read that keeps nothing against a corpus with the cache",
            seconds["cold"] / seconds["with it"],
            f"{each['cold']} a record",
        ),
        shown(
            "what checking the cache takes of a read with it",
            seconds["hashes"] / seconds["with it"],
            f"{each['hashes']} a record: two hashes",
        ),
        shown(
            "first read that also writes the cache, against one that does not",
            written / seconds["without"],
            f"the cache has {len(kept) / len(content):.2f} of the store's size",
        ),
    ]


def run() -> list[Ratio]:
    """The store at two sizes, then the cache on disk."""
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {records: folder / "stores" / f"{records}.jsonl" for records in SIZES}
        for records, path in paths.items():
            path.parent.mkdir(exist_ok=True)
            write_store(path, records)
            store = _filled(folder, path)
            ratios += _store_ratios(store, records)
            store.close()
        return [*ratios, *_sidecar_ratios(paths[SIZES[0]], folder)]
