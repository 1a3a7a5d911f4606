"""``memory.read`` over stores that are not written plainly: what each kind costs, against a loop that decodes and forgets."""

import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import Ratio, best_seconds, shown
from benchmarks.recall import cold, decoded_line_by_line, write_store

TITLE = "memory.read, cold, on stores of other kinds, against a loop that decodes and forgets each line"
RECORDS = 20_000
ROUNDS = 5
VOWELS = str.maketrans("aeiou", "äéïöü")

Record = dict[str, Any]
Writer = Callable[[Any], str]
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


def _decoded_if_good(path: Path) -> None:
    decode, broken = msgspec.json.Decoder(dict).decode, 0
    with path.open("rb") as file:
        for line in file:
            try:
                decode(line)
            except msgspec.DecodeError:
                broken += 1


def run() -> list[Ratio]:
    """Each kind on its own."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.jsonl"
        write_store(plain, RECORDS)
        ways: dict[str, tuple[Path, Callable[[Path], None]]] = {
            name: (_rewritten(plain, name, *kind), decoded_line_by_line) for name, kind in KINDS.items()
        }
        ways["one line in a hundred broken"] = (_with_bad_lines(plain), _decoded_if_good)
        ratios = []
        for name, (path, loop) in ways.items():
            seconds = best_seconds(
                {"ours": cold(path), "loop": partial(loop, path)},
                calls=1,
                rounds=ROUNDS,
                clock=time.process_time,
            )
            detail = ", ".join(f"{way} {value / RECORDS * 1e6:.2f} µs" for way, value in seconds.items())
            ratios.append(shown(name, seconds["ours"] / seconds["loop"], detail))
        return ratios
