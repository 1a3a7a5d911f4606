"""``memory.read``, cold, on stores of every kind, against a loop that decodes each line into a typed value
and forgets it.
"""

import json
import random
import re
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import Ratio, at_most, best_seconds
from standfast.recall import MemoryControllerInput, read

TITLE = "memory.read, cold, against a loop that decodes and forgets each line"
SIZES = (10_000, 100_000)
ROUNDS = {10_000: 9, 20_000: 5, 100_000: 5}
KIND_RECORDS = 20_000
MOST_TIMES = 6
"""A cold read takes at most so many times as long as the loop, whatever the store and the query."""
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


class BareRecord(msgspec.Struct):
    """What a typed decode of a store gives."""

    memory_id: str
    text: str
    ts_utc: str | None = None
    tags: list[str] | None = None
    refs: list[dict[str, Any]] | None = None


def write_store(path: Path, records: int) -> None:
    """Records like an agent's: about thirty words, some rarer ones among them, tags, a timestamp, now and
    then a ref.
    """
    dice = random.Random(20260115)
    weights = [1 / (rank + 3) for rank in range(len(WORDS))]
    sentences = [" ".join(dice.choices(WORDS, weights, k=9)) for _ in range(4_000)]
    tags = [[one, two] for one in ("eu", "policy", "vat", "billing") for two in ("open", "closed", "late")]
    with path.open("w", encoding="utf-8") as file:
        for number in range(records):
            rare = f" {dice.choice(TERMS)}" if number % 25 == 0 else ""
            record = {
                "memory_id": f"mem-{number:08}",
                "ts_utc": (
                    f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:{number % 60:02}:{number // 60 % 60:02}Z"  # noqa: E501  # A timestamp.
                ),
                "text": f"{' '.join(dice.choices(sentences, k=4))}{rare}.".capitalize(),
                "tags": tags[number % 12],
                "refs": [{"kind": "doc", "id": f"handbook#{number}"}] if number % 4 == 0 else [],
            }
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def request_for(path: Path, terms: int = QUERY_TERMS) -> dict[str, Any]:
    """A request for a store."""
    return {
        "query": " ".join(TERMS[:terms]),
        "store_paths": [str(path)],
        "budget": {"max_excerpt_tokens": 2_000},
        "dropped": "counts",
    }


def decode_line_by_line(path: Path) -> None:
    """The least that reading a store can be."""
    decode = msgspec.json.Decoder(BareRecord).decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


VOWELS = str.maketrans("aeiou", "äéïöü")

Record = dict[str, Any]
Writer = Callable[[Any], str]
Loop = Callable[[Path], None]
compact: Writer = partial(json.dumps, separators=(",", ":"))
unescaped: Writer = partial(json.dumps, separators=(",", ":"), ensure_ascii=False)


def _shuffled(number: int, record: Record) -> Record:
    keys = list(record)
    random.Random(number).shuffle(keys)
    return {key: record[key] for key in keys}


def _one_in(count: int, number: int, record: Record, change: Callable[[Record], Record]) -> Record:
    return record if number % count else change(record)


def _quoted(record: Record) -> Record:
    return record | {"text": record["text"].replace(" the ", '\n"the"\t')}


KINDS: dict[str, tuple[Callable[[int, Record], Record], Writer]] = {
    "compact, ASCII: the plain one": (lambda _, record: record, compact),
    "spaces after colons and commas": (lambda _, record: record, json.dumps),
    "fields that only some have": (
        lambda number, record: {key: value for key, value in record.items() if key != "refs" or number % 3},
        compact,
    ),
    "three extra fields": (
        lambda number, record: record | {"importance": number % 7, "author": f"a{number}", "w": number / 7},
        compact,
    ),
    "a nested extra field": (lambda _, record: record | {"meta": {"a": [1, {"text": "y"}]}}, compact),
    "nested refs, each another": (
        lambda number, record: record | {"refs": [{"doc": f"d{number}", "at": {"page": [number]}}]},
        compact,
    ),
    "tags that are all different": (
        lambda number, record: record | {"tags": [f"user-{number}", "eu"]},
        compact,
    ),
    "one in ten not ASCII": (
        lambda number, record: _one_in(
            10, number, record, lambda one: one | {"text": one["text"] + " naïve"}
        ),
        unescaped,
    ),
    "all not ASCII": (lambda _, record: record | {"text": record["text"].translate(VOWELS)}, unescaped),
    "all not ASCII, written as \\u escapes": (
        lambda _, record: record | {"text": record["text"].translate(VOWELS)},
        compact,
    ),
    "one in ten with escapes": (
        lambda number, record: _one_in(10, number, record, _quoted),
        compact,
    ),
    "all with escapes": (lambda _, record: _quoted(record), compact),
    "keys in any order": (_shuffled, compact),
}


def _rewritten(plain: Path, name: str, change: Callable[[int, Record], Record], write: Writer) -> Path:
    path = plain.with_name(f"{name.replace(' ', '-').replace(chr(92), '')}.jsonl")
    with plain.open(encoding="utf-8") as source, path.open("w", encoding="utf-8") as file:
        for number, line in enumerate(source):
            file.write(write(change(number, json.loads(line))) + "\n")
    return path


def _with_bad_lines(plain: Path) -> Path:
    path = plain.with_name("bad.jsonl")
    with plain.open("rb") as source, path.open("wb") as file:
        for number, line in enumerate(source):
            file.write(line if number % 100 else line[:-6] + b"\n")
    return path


def _decode_what_is_good(path: Path) -> None:
    decode, broken = msgspec.json.Decoder(dict).decode, 0
    with path.open("rb") as file:
        for line in file:
            try:
                decode(line)
            except msgspec.DecodeError:
                broken += 1


def _ratio(name: str, path: Path, records: int, *, loop: Loop = decode_line_by_line, **changes: Any) -> Ratio:
    request = MemoryControllerInput.from_json(request_for(path) | changes)
    seconds = best_seconds(
        {"ours": lambda: read(request), "loop": partial(loop, path)},
        calls=1,
        rounds=ROUNDS[records],
        clock=time.process_time,
    )
    detail = ", ".join(f"{way} {value / records * 1e6:.2f} µs a record" for way, value in seconds.items())
    return at_most(name, seconds["ours"] / seconds["loop"], MOST_TIMES, detail)


QUERIES: dict[str, dict[str, Any]] = {
    "one term": {"query": TERMS[0]},
    "ten terms": {"query": " ".join(TERMS)},
    "terms that match nothing": {"query": "zzzz qqqq xxxx jjjj vvvv"},
    "words that most records have": {"query": "the time that refund"},
    "a term with a space": {"scoring": {"query_terms": ["refund of", "warranty", "customs"]}},
    "with recency": {"now_utc": "2026-12-31T00:00:00Z", "scoring": {"enable_recency_weight": True}},
}


def _peak_bytes(path: Path) -> int:
    tracemalloc.start()
    read(MemoryControllerInput.from_json(request_for(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def run() -> list[Ratio]:
    """By size, by query, by kind of store; and memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {records: folder / f"{records}.jsonl" for records in (*SIZES, KIND_RECORDS)}
        for records, path in paths.items():
            write_store(path, records)
        plain = paths[KIND_RECORDS]
        ratios = [_ratio(f"{records:,} records, 5 terms", paths[records], records) for records in SIZES]
        ratios += [_ratio(f"… {query}", plain, KIND_RECORDS, **changes) for query, changes in QUERIES.items()]
        for kind, how in KINDS.items():
            ratios.append(_ratio(kind, _rewritten(plain, kind, *how), KIND_RECORDS))
        bad = _with_bad_lines(plain)
        ratios.append(_ratio("one line in a hundred broken", bad, KIND_RECORDS, loop=_decode_what_is_good))
        small, large = (_peak_bytes(paths[records]) for records in SIZES)
        detail = f"{large / 2**20:.1f} MiB"
        return [*ratios, at_most("peak memory, 100,000 records against 10,000", large / small, 1.1, detail)]
