"""``memory.read``: cold and warm, against a bare typed decode, a bare substring scan, and the plain implementation."""

import json
import math
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import Ratio, at_least, at_most, best_seconds, shown
from standfast.recall.controller import read
from standfast.recall.request import MemoryControllerInput
from standfast.recall.sources.corpus import Corpus
from tests.recall.plainly import read_plainly

TITLE = "memory.read, on generated stores of about 300 bytes a record"
SIZES = (10_000, 100_000, 1_000_000)
TERMS = (
    "refund",
    "warranty",
    "customs",
    "invoice",
    "escalate",
    "voucher",
    "parcel",
    "courier",
    "ledger",
    "audit",
)
WORDS = re.findall(
    r"\w+",
    """
    the of and to in a is that for it as was with be by on not he this are or his from at which but have an
    they you were her she there been one all we when who will more no if out so what up said into than them
    can only other new some could time these two may then do first any my now such like our over man me even
    most made after also did many before must through back years where much your way well down should because
    each just those people mr how too little state good very make world still own see men work long get here
    between both life being under never day same another know while last might us great old year off come
    since against go came right used take three policy order payment delivery return account customer support
    ticket contract price shipping address country tax report request review approve reject notify archive
    record
    """,
)
QUERY_TERMS = 5
NAIVE_RECORDS = 3_000
WARM_READS = 25


class BareRecord(msgspec.Struct):
    """What a typed decode of a store gives."""

    memory_id: str
    text: str
    ts_utc: str | None = None
    tags: list[str] | None = None
    refs: list[dict[str, Any]] | None = None


def write_store(path: Path, records: int) -> None:
    """Records like an agent's: about thirty words, some rarer ones among them, tags, a timestamp, now and then a ref."""
    dice = random.Random(20260115)
    weights = [1 / (rank + 3) for rank in range(len(WORDS))]
    sentences = [" ".join(dice.choices(WORDS, weights, k=9)) for _ in range(4_000)]
    tags = [[one, two] for one in ("eu", "policy", "vat", "billing") for two in ("open", "closed", "late")]
    with path.open("w", encoding="utf-8") as file:
        for number in range(records):
            rare = f" {dice.choice(TERMS)}" if number % 25 == 0 else ""
            record = {
                "memory_id": f"mem-{number:08}",
                "ts_utc": f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:{number % 60:02}:{number // 60 % 60:02}Z",
                "text": f"{' '.join(dice.choices(sentences, k=4))}{rare}.".capitalize(),
                "tags": tags[number % 12],
                "refs": [{"kind": "doc", "id": f"handbook#{number}"}] if number % 4 == 0 else [],
            }
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def request_for(path: Path, terms: int = QUERY_TERMS) -> dict[str, Any]:
    """What is asked of a store."""
    return {
        "query": " ".join(TERMS[:terms]),
        "store_paths": [str(path)],
        "budget": {"max_excerpt_tokens": 2_000},
        "dropped": "counts",
    }


def cold(path: Path, terms: int = QUERY_TERMS) -> Callable[[], object]:
    """A cold read of a store."""
    request = MemoryControllerInput.from_json(request_for(path, terms))
    return lambda: read(request)


def _cold_of(query: str, path: Path, *, recency: bool = False) -> Callable[[], object]:
    now = {"now_utc": "2026-12-31T00:00:00Z", "scoring": {"enable_recency_weight": True}} if recency else {}
    request = MemoryControllerInput.from_json(request_for(path) | {"query": query} | now)
    return lambda: read(request)


def _decoded_whole(path: Path) -> object:
    return msgspec.json.Decoder(BareRecord).decode_lines(path.read_bytes())


def decoded_line_by_line(path: Path) -> None:
    """The least that reading a store can be: each line decoded into a typed value, which is forgotten."""
    decode = msgspec.json.Decoder(BareRecord).decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


COLD_ROUNDS = {10_000: 40, 100_000: 12, 1_000_000: 3}


def _cold_ratios(paths: dict[int, Path]) -> list[Ratio]:
    ratios = []
    ours: dict[int, float] = {}
    for records, path in paths.items():
        seconds = best_seconds(
            {"ours": cold(path), "line by line": partial(decoded_line_by_line, path)},
            calls=1,
            rounds=COLD_ROUNDS[records],
            clock=time.process_time,
        )
        ours[records] = seconds["ours"] / records
        detail = ", ".join(
            f"{name} {value / records * 1e6:.2f} µs a record" for name, value in seconds.items()
        )
        name = f"cold read of {records:,} against a loop that decodes and forgets each line"
        ratios.append(at_most(name, seconds["ours"] / seconds["line by line"], 2, detail))
    return [*ratios, *_other_cold_ratios(paths[100_000], ours[100_000])]


def _other_cold_ratios(path: Path, ours_each: float) -> list[Ratio]:
    ways: dict[str, Callable[[], object]] = {
        "3 terms": cold(path, 3),
        "no match": _cold_of("zzzz qqqq xxxx jjjj vvvv", path),
        "common": _cold_of("the time that refund", path),
        "recency": _cold_of(" ".join(TERMS[:QUERY_TERMS]), path, recency=True),
        "whole": partial(_decoded_whole, path),
        "line by line": partial(decoded_line_by_line, path),
    }
    seconds = best_seconds(ways, calls=1, rounds=7, clock=time.process_time)
    each = {name: value / 1e5 * 1e6 for name, value in seconds.items()}
    loop = seconds["line by line"]
    few = path.with_name("few.jsonl")
    write_store(few, NAIVE_RECORDS)
    plain = best_seconds(
        {"plain": lambda: read_plainly(request_for(few))}, calls=1, rounds=2, clock=time.process_time
    )["plain"]
    return [
        at_most(
            "cold read of 100,000 against msgspec's decode_lines of the file",
            ours_each * 1e5 / seconds["whole"],
            2,
            f"decode_lines {each['whole']:.2f} µs",
        ),
        shown("… against the loop, 3 terms", seconds["3 terms"] / loop, f"{each['3 terms']:.2f} µs"),
        shown("… 5 terms that match nothing", seconds["no match"] / loop, f"{each['no match']:.2f} µs"),
        shown("… words that most records have", seconds["common"] / loop, f"{each['common']:.2f} µs"),
        shown("… with recency", seconds["recency"] / loop, f"{each['recency']:.2f} µs"),
        at_least(
            "cold read against the plain implementation",
            plain / NAIVE_RECORDS / ours_each,
            10,
            f"{plain / NAIVE_RECORDS * 1e6:.1f} µs a record",
        ),
    ]


def _warm_ratios(path: Path, records: int) -> list[Ratio]:
    corpus = Corpus()
    request = MemoryControllerInput.from_json(request_for(path))
    start = time.perf_counter()
    read(request, corpus.open)
    loaded = time.perf_counter() - start
    haystack = b"\n".join(segment.haystack for segment in corpus.open(str(path)).segments())
    terms = [term.encode() for term in TERMS[:QUERY_TERMS]]
    warm, scans = [], []
    for _ in range(WARM_READS):
        start = time.process_time()
        read(request, corpus.open)
        warm.append(time.process_time() - start)
        start = time.process_time()
        for term in terms:
            haystack.count(term)
        scans.append(time.process_time() - start)
    middle, slow = statistics.median(warm), sorted(warm)[math.ceil(0.99 * len(warm)) - 1]
    detail = f"p50 {middle * 1e3:.0f} ms, p99 {slow * 1e3:.0f} ms; first read {loaded:.1f} s"
    return [
        at_most(
            f"warm read of {records:,} records against a bare scan",
            middle / statistics.median(scans),
            3,
            f"{detail}; scan {statistics.median(scans) * 1e3:.0f} ms",
        ),
        shown("… p99 against the scan's median", slow / statistics.median(scans)),
    ]


MEASURED = """
import json, sys
from standfast.recall.controller import read
from standfast.recall.request import MemoryControllerInput
from standfast.recall.sources.corpus import Corpus
from standfast.recall.sources.jsonl import JsonlSource

def peak():
    # Not getrusage: that counts what the parent had when it forked.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

before = peak()
request = MemoryControllerInput.from_json(json.loads(sys.argv[1]))
opener = Corpus().open if sys.argv[2] == "warm" else JsonlSource
for _ in range(2):
    read(request, opener)
print(before, peak())
"""


def _peak_bytes(path: Path, kind: str) -> tuple[int, int]:
    """The most that a process took before and after it read a store twice."""
    call = [sys.executable, "-c", MEASURED, json.dumps(request_for(path)), kind]
    before, after = subprocess.run(call, check=True, capture_output=True, text=True).stdout.split()
    return int(before), int(after)


def _memory_ratios(paths: dict[int, Path]) -> list[Ratio]:
    largest = max(paths)
    size = paths[largest].stat().st_size
    before, after = _peak_bytes(paths[largest], "warm")
    cold = {records: _peak_bytes(path, "cold")[1] / 2**20 for records, path in paths.items()}
    told = ", ".join(f"{records:,}: {mib:.1f} MiB" for records, mib in cold.items())
    return [
        at_most(
            f"peak memory, warm, {largest:,} records, against the store's size",
            (after - before) / size,
            2.5,
            f"{size / 1e6:.0f} MB",
        ),
        at_most(
            "peak memory of a cold reader, largest store against 100,000",
            cold[largest] / cold[100_000],
            1.1,
            told,
        ),
    ]


def _growth(paths: dict[int, Path]) -> list[Ratio]:
    ways = {str(records): cold(path) for records, path in paths.items()}
    found = best_seconds(ways, calls=1, rounds=3, clock=time.process_time)
    by_size = {records: found[str(records)] for records in paths}
    by_terms = best_seconds(
        {str(n): cold(paths[100_000], n) for n in (1, 3, 5, 10)}, calls=1, rounds=5, clock=time.process_time
    )
    sizes = ", ".join(f"{records:,}: {value / records * 1e6:.2f}" for records, value in by_size.items())
    terms = ", ".join(f"{count}: {value / 1e5 * 1e6:.2f}" for count, value in by_terms.items())
    largest, smallest = max(by_size), min(by_size)
    flat = (by_size[largest] / largest) / (by_size[smallest] / smallest)
    return [
        shown("cost a record, largest store against smallest", flat, f"µs a record: {sizes}"),
        shown(
            "cost with 10 terms against 1", by_terms["10"] / by_terms["1"], f"µs a record by terms: {terms}"
        ),
    ]


def run() -> list[Ratio]:
    """Cold, warm, memory, growth."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {records: Path(folder) / f"{records}.jsonl" for records in SIZES}
        for records, path in paths.items():
            write_store(path, records)
        return [
            *_cold_ratios(paths),
            *_warm_ratios(paths[max(SIZES)], max(SIZES)),
            *_memory_ratios(paths),
            *_growth(paths),
        ]
