"""What the calls of the README cost: ``memory.remember``, ``run.remember``, ``memory.add``,
``memory.recall``, ``memory.verify`` and ``standfast import``, with all bytes in all files.

Each is measured next to a floor: the least code that stores the same rows of a fact. It checks the text with
one search, writes its words into postings, encodes record and evidence, hashes them, compresses the record
with the store's dictionary, chains a ledger entry and commits, synced. Nothing of it is judged, retried,
recovered or traced. Floor and ours take turns, and of each the best part of a run counts, by CPU time.
"""

import hashlib
import itertools
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import orjson
from snowballstemmer import stemmer  # type: ignore[import-untyped]  # It has no types.

from benchmarks.dialogue import dialogue_turns
from benchmarks.facts import langgraph, temporary_folder
from benchmarks.growth import QUESTIONS, asked
from benchmarks.measure import Ratio, at_least, at_most, shown
from standfast.memory import Memory
from standfast.store.compression import packed, unpacked

TITLE = "Writing, as users call it, over the least code that stores the same rows"
BULK, PER_COMMIT, SINGLE, PARTS, ROUNDS, VERIFY_ROUNDS = 4_000, 1_000, 400, 4, 2, 5
IMPORTED, WORKERS_BOUND = int(os.environ.get("STANDFAST_BENCH_RECORDS", "20000")), 1.6
assert BULK // PARTS % PER_COMMIT == SINGLE % PARTS == 0
# What the issue that asked for this names; docs/performance.md says what is reached.
BULK_BOUND, SINGLE_BOUND, GUEST_BOUND, ADD_BOUND, BYTES_BOUND, VERIFY_BOUND = 1.8, 2, 2.5, 0.9, 1_300, 5
FLOORS = ("Amanah", "Truth", "Witness", "Clarity", "Secrecy", "Injection", "Humility", "Novelty", "Authority")
CHECKS = [
    {"floor": f"F{number}_{name}", "hard": True, "passed": True, "score": 1, "threshold": 0.5}
    for number, name in enumerate(FLOORS, 1)
]
SUSPICIOUS = re.compile(r"ignore|disregard|system prompt|password|secret|api.?key|sk-|-----begin|\d{9}")
WORDS = re.compile(r"[a-z0-9']+")
SCHEMA = """
    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE versions (
        id INTEGER PRIMARY KEY, namespace TEXT, key TEXT, action INTEGER, fingerprint BLOB, content BLOB
    ) STRICT;
    CREATE UNIQUE INDEX places ON versions (namespace, key, id);
    CREATE TABLE ledger (seq INTEGER PRIMARY KEY, content BLOB, hash BLOB);
    CREATE TABLE commits (snapshot INTEGER PRIMARY KEY, commit_id BLOB UNIQUE, at TEXT, ledger_hash BLOB);
    CREATE TABLE postings (id INTEGER PRIMARY KEY, content BLOB)
"""
AT = "2026-01-01T00:00:00.000000Z"


class Floor:
    """The least code that stores the rows of facts."""

    def __init__(self, path: Path) -> None:
        self._file = apsw.Connection(str(path))
        self._file.execute(SCHEMA).fetchall()
        self._snapshot, self._tip = 0, "0" * 64
        self._stems: dict[str, str] = {}
        self._stem = stemmer("english").stemWord
        self._postings: dict[str, list[str]] = {}

    def write(self, texts: Sequence[str]) -> None:
        """Store facts in one commit."""
        self._snapshot += 1
        rows: list[tuple[Any, ...]] = []
        entries = [self._add_fact(text, number, rows) for number, text in enumerate(texts)]
        entry = _encoded({"at": AT, "kind": "audit", "previous": self._tip, "writes": entries})
        self._tip = _digest(entry)
        run, tip = self._file.execute, bytes.fromhex(self._tip)
        run("BEGIN IMMEDIATE")
        run("INSERT INTO ledger VALUES (?, ?, ?)", (self._snapshot, packed(entry), tip))
        run("INSERT INTO commits VALUES (?, ?, ?, ?)", (self._snapshot, os.urandom(32), AT, tip))
        self._file.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", rows)
        if len(self._postings) > 400:
            run("INSERT INTO postings VALUES (NULL, ?)", (packed(_encoded(self._postings)),))
            self._postings.clear()
        run("COMMIT")

    def _add_fact(self, text: str, number: int, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
        folded = text.lower()
        words = WORDS.findall(folded)
        memory_id, said = f"m-{self._snapshot:x}-{number:x}", _digest(" ".join(words).encode())
        looked_up = "SELECT id FROM versions WHERE namespace = 'default' AND key >= ? AND key < ? LIMIT 1"
        if SUSPICIOUS.search(folded) or self._file.execute(looked_up, (f"said/{said}/", f"said/{said}0")).get:
            verdict = "PARTIAL"
        else:
            verdict = "SEAL"
        core = {
            "memory_id": memory_id,
            "source": {"id": "agent", "kind": "agent"},
            "text": text,
            "ts_utc": AT,
        }
        content = _digest(_encoded(core))
        checks = [{"floor": "content", "passed": True, "reason": f"sha256:{content}", "score": 1}, *CHECKS]
        evidence = {"floor_checks": checks, "timestamp": AT, "verdict": verdict}
        evidence["hash"] = _digest(_encoded(evidence))
        record = _encoded({"band": "LEDGER", "evidence": evidence, **core})
        first, (other, note) = (self._snapshot << 16) + len(rows), (b'{"band":"ACTIVE",' + record[17:], b"{}")
        for place, (key, stored, kept) in enumerate(
            (
                (f"LEDGER/shared//{memory_id}", record, packed(record)),
                (f"ACTIVE/shared//{memory_id}", other, b"\x02"),
                (f"said/{said}/{memory_id}", note, packed(note)),
            ),
            first,
        ):
            rows.append((place, "default", key, 1, hashlib.sha256(stored).digest(), kept))
        for word in words:
            if (stem := self._stems.get(word)) is None:
                stem = self._stems[word] = self._stem(word)
            self._postings.setdefault(stem, []).append(memory_id)
        return {"entry_hash": content, "entry_id": memory_id, "evidence_hash": evidence["hash"]}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _encoded(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _all_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _best_part(write: Callable[[list[str]], None], facts: int, size: int) -> float:
    """CPU seconds a fact of the best part."""
    turns, part, found = list(itertools.islice(dialogue_turns(), facts)), facts // PARTS, []
    for first in range(0, facts, part):
        begun = time.process_time()
        for start in range(first, first + part, size):
            write(turns[start : start + size])
        found.append((time.process_time() - begun) / part)
    return min(found)


def _floor(facts: int, size: int) -> float:
    with temporary_folder() as folder:
        floor = Floor(folder / "floor.db")
        floor.write(["The benchmark begins."])
        seconds = _best_part(floor.write, facts, size)
        floor.close()
        return seconds


def _ours(call: str, facts: int, size: int) -> tuple[float, float]:
    """CPU seconds and bytes a fact of a call; the bytes are those of all files, when memory is closed."""
    with temporary_folder() as folder:
        with Memory.open(str(folder / "memory.db")) as memory:
            memory.remember("The benchmark begins.")

            def write(turns: list[str]) -> None:
                if call == "remember":
                    memory.remember(turns[0])
                elif call == "add":
                    memory.add([{"role": "user", "content": turn} for turn in turns])
                else:
                    with memory.run(workflow="bench", mode="buffered_write") as run:
                        for turn in turns:
                            run.remember(turn)

            seconds = _best_part(write, facts, size)
        return seconds, _all_bytes(folder) / facts


class _Import(NamedTuple):
    """What ``standfast import`` took, with the start of its processes."""

    cpu_seconds: float
    """For each line."""
    file_bytes: float
    """For each line."""
    seconds: float
    """By the clock, for all lines."""


def _imported(facts: int, *, workers: int = 1) -> _Import:
    with temporary_folder() as folder:
        lines, store = folder / "lines.jsonl", folder / "store" / "memory.db"
        lines.write_bytes(
            b"\n".join(orjson.dumps({"text": turn}) for turn in itertools.islice(dialogue_turns(), facts))
        )
        store.parent.mkdir()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "standfast", "import", str(lines), "--store", str(store), "--json"]
        begun = time.perf_counter()
        subprocess.run([*command, "--workers", str(workers)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return _Import(cpu / facts, _all_bytes(store.parent) / facts, seconds)


def _by_workers() -> Ratio:
    """How much sooner an import ends whose lines two processes judge."""
    alone, shared = (_imported(IMPORTED, workers=number).seconds for number in (1, 2))
    detail = f"{shared:.1f} s against {alone:.1f}"
    return at_least(
        f"standfast import of {IMPORTED:,} lines, 2 workers over 1", alone / shared, WORKERS_BOUND, detail
    )


def _reads() -> list[Ratio]:
    """``memory.recall``, and ``memory.verify`` over reading and hashing each content and entry once."""
    with temporary_folder() as folder, Memory.open(str(folder / "memory.db")) as memory:
        turns = dialogue_turns()
        for _ in range(BULK // PER_COMMIT):
            with memory.run(workflow="bench", mode="buffered_write") as run:
                for turn in itertools.islice(turns, PER_COMMIT):
                    run.remember(turn)
        file = apsw.Connection(str(folder / "memory.db"), vfs="cksmvfs")
        verifying, hashing = [], []
        for _ in range(VERIFY_ROUNDS):
            begun = time.process_time()
            assert list(memory.verify()) == []
            verifying.append(time.process_time() - begun)
            begun = time.process_time()
            for table, key in (("versions", "key"), ("ledger", "''")):
                contents = f"SELECT {key}, content FROM {table} WHERE content IS NOT NULL"
                for place, content in file.execute(contents):
                    hashlib.sha256(unpacked(content, place)).hexdigest()
            hashing.append(time.process_time() - begun)
        file.close()
        recalls = [
            shown(
                f"memory.recall, {title}, ms of CPU", statistics.median(times), f"{matches:.0f} records match"
            )
            for title, questions in _questions().items()
            for times, matches in [asked(memory, questions)]
        ]
    detail = f"{min(verifying) / BULK * 1e6:.0f} µs a fact against {min(hashing) / BULK * 1e6:.0f}"
    ratio = min(verifying) / min(hashing)
    return [*recalls, at_most("memory.verify over hashing the same bytes", ratio, VERIFY_BOUND, detail)]


def _questions() -> dict[str, list[str]]:
    turns = list(itertools.islice(dialogue_turns(), QUESTIONS))
    return {
        "a long question": [f"What about {turn.split(' ', 6)[-1]}" for turn in turns],
        "one word": [turn.split(" ")[6] for turn in turns],
    }


def run() -> list[Ratio]:
    """Every figure, in turns, so that other programs disturb all of them alike."""
    found: dict[str, list[Any]] = {}
    ways: dict[str, Callable[[], Any]] = {
        "floor, bulk": lambda: _floor(BULK, PER_COMMIT),
        "run.remember": lambda: _ours("run.remember", BULK, PER_COMMIT),
        "add": lambda: _ours("add", BULK, PER_COMMIT),
        "floor, single": lambda: _floor(SINGLE, 1),
        "remember": lambda: _ours("remember", SINGLE, 1),
        "LangGraph": lambda: langgraph(SINGLE, 1),
        "import": lambda: _imported(BULK),
    }
    for _ in range(ROUNDS):
        for name, way in ways.items():
            found.setdefault(name, []).append(way())
    bulk, single = min(found["floor, bulk"]), min(found["floor, single"])
    in_runs, added, alone = (min(found[name]) for name in ("run.remember", "add", "remember"))
    times = [
        f"{ours * 1e6:.0f} µs of CPU against {floor * 1e6:.0f}"
        for ours, floor in ((in_runs[0], bulk), (alone[0], single))
    ]
    ratios = [
        at_most("run.remember, 1,000 in a commit, over the floor", in_runs[0] / bulk, BULK_BOUND, times[0]),
        at_most("memory.remember over the floor", alone[0] / single, SINGLE_BOUND, times[1]),
        at_most("memory.add of 1,000 messages over run.remember", added[0] / in_runs[0], ADD_BOUND),
        at_most("bytes in all files, run.remember", in_runs[1], BYTES_BOUND, unit=" bytes"),
        shown("bytes in all files, memory.add", added[1]),
        shown("bytes in all files, memory.remember", alone[1]),
        shown("standfast import, µs of CPU a line", min(found["import"]).cpu_seconds * 1e6),
        shown("bytes in all files, standfast import", min(found["import"]).file_bytes),
        _by_workers(),
    ]
    if found["LangGraph"][0] is not None:
        guest = min(cpu for _, _, cpu in found["LangGraph"])
        name = "memory.remember over a put of LangGraph's SQLite store"
        ratios.append(at_most(name, alone[0] / guest, GUEST_BOUND, f"{guest * 1e6:.0f} µs of CPU"))
    return [*ratios, *_reads()]
