"""Recall over its stored index, against FTS5's ``bm25()`` over the same texts, and recall with vectors
against recall without; all times are CPU times.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import apsw

from benchmarks.dialogue import dialogue_turns
from benchmarks.measure import Ratio, at_most, shown
from standfast import Memory
from standfast.recall import RecallPackage
from standfast.recall.index.store_index import StoreIndex
from standfast.records.vocabulary import ActionType, Band
from standfast.store.commit import Commit, Write
from standfast.store.store import Store

TITLE = "Recall over the stored index"
RECORDS = int(os.environ.get("STANDFAST_BENCH_RECORDS", "100000"))
"""The larger store; the smaller one has a tenth of it."""
COMMIT_RECORDS = 1_000
QUESTIONS = 40
FACTS = 1_100
HYBRID_BOUND = 1.3
"""Set for 20,000 messages."""
FIRST_ANSWER = """
import sys, time
from standfast import Memory
read = lambda: next(int(line.split()[1]) for line in open("/proc/self/io") if line.startswith("rchar"))
Memory.open(":memory:").recall(sys.argv[2])  # What it imports is no part of the answer.
memory = Memory.open(sys.argv[1], create=False, notary=None)
start, before = time.process_time(), read()
memory.recall(sys.argv[2], tokens=500)
print(time.process_time() - start, read() - before)
"""


class Texts:
    """Short messages whose words are as unevenly frequent as those of a language, and questions about
    them.
    """

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        letters = "bcdfghklmnprstvwz"
        self._words = [
            "".join(
                self._random.choice(letters) + self._random.choice("aeiou")
                for _ in range(self._random.randint(1, 4))
            )
            for _ in range(40_000)
        ]
        self._sums = list(accumulate(1 / (rank + 8) for rank in range(len(self._words))))

    def text(self) -> str:
        """A message of about 20 words."""
        words = self._random.choices(self._words, cum_weights=self._sums, k=self._random.randint(6, 34))
        return " ".join(words).capitalize() + "."

    def question(self, text: str) -> str:
        """A question with five words of a message."""
        words = text.lower().rstrip(".").split()
        return "What about " + " ".join(self._random.sample(words, min(5, len(words)))) + "?"


def _records(texts: list[str], like: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(texts):
        yield {
            **like,
            "memory_id": f"m-{number:032x}",
            "text": text,
            "session": f"s{number // 40}",
            "position": number % 40,
            "speaker": ("Ada", "Bob")[number % 2],
        }


def _filled(path: Path, texts: list[str]) -> Memory:
    """A store with as many records as texts, each as large as one that was really judged."""
    with Memory.open(":memory:") as sample:
        sample.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})
        (like,) = (one.as_json() for one in sample.records(band=Band.LEDGER))
    memory = Memory.open(str(path), notary=None)
    records = _records(texts, like)
    while page := list(islice(records, COMMIT_RECORDS)):
        _commit(memory.store, page)
    return memory


def _commit(store: Store, page: list[dict[str, Any]]) -> None:
    writes = [
        Write.of("default", f"LEDGER/shared//{one['memory_id']}", ActionType.WRITE, one) for one in page
    ]
    store.commit(
        Commit.of(
            run_id=store.ids.new_id(), memory_snapshot_id=store.head(), policy_set_id="bench", writes=writes
        )
    )


def _fts5(path: Path, texts: list[str]) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
    with connection:
        connection.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in texts))
        connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")
    return connection


def _p50(ask: Callable[[str], object], questions: list[str]) -> float:
    times = []
    for question in questions:
        start = time.process_time()
        ask(question)
        times.append(time.process_time() - start)
    return statistics.median(times)


def _warm(memory: Memory, fts5: apsw.Connection, questions: list[str]) -> tuple[float, float]:
    sql = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT 50"

    def by_fts5(question: str) -> object:
        return list(fts5.execute(sql, (" OR ".join(question.lower().strip("?").split()),)))

    memory.recall(questions[0], tokens=500)
    by_fts5(questions[0])
    return _p50(lambda question: memory.recall(question, tokens=500), questions), _p50(by_fts5, questions)


def _after_commits(memory: Memory, questions: list[str]) -> float:
    """The p50 of recalls each of which follows a commit of one message of a conversation."""
    (like,) = (one.as_json() for one in islice(memory.records(band=Band.LEDGER), 1))
    times = []
    for number, question in enumerate(questions):
        _commit(memory.store, [{**like, "memory_id": f"new-{number}", "position": 40 + number}])
        start = time.process_time()
        memory.recall(question, tokens=500)
        times.append(time.process_time() - start)
    return statistics.median(times)


def _after_forgetting(memory: Memory, question: str) -> float:
    """CPU seconds of the first recall after one record was forgotten."""
    memory.forget(memory_id=f"m-{1:032x}", reason="bench")
    start = time.process_time()
    memory.recall(question, tokens=500)
    return time.process_time() - start


def _first_answer(path: Path, question: str) -> tuple[float, int]:
    """CPU seconds, and bytes read, of the first answer of a process."""
    run = subprocess.run(
        [sys.executable, "-c", FIRST_ANSWER, str(path), question], check=True, capture_output=True, text=True
    )
    seconds, read_bytes = run.stdout.split()
    return float(seconds), int(read_bytes)


def _seconds_from_records(memory: Memory) -> float:
    index = StoreIndex(memory.store, "default", may_write=False)
    memory.store.segments.drop([one.segment_id for one in memory.store.segments.heads()])
    start = time.process_time()
    index.view([Band.LEDGER])
    return time.process_time() - start


def _measured(folder: Path, count: int) -> tuple[list[Ratio], float]:
    source = Texts()
    texts = [source.text() for _ in range(count)]
    questions = [source.question(texts[number * (count // QUESTIONS)]) for number in range(QUESTIONS)]
    path = folder / f"{count}.db"
    memory, fts5 = _filled(path, texts), _fts5(folder / f"{count}-fts.db", texts)
    from_records = _seconds_from_records(memory)
    start = time.process_time()
    memory.reader.index.upkeep.rebuild()
    built = time.process_time() - start
    size = sum(one.size_bytes for one in memory.store.segments.heads())
    own, other = _warm(memory, fts5, questions)
    after_commit = _after_commits(memory, questions)
    after_forget = _after_forgetting(memory, questions[0])
    file_bytes = path.stat().st_size
    first, read_bytes = _first_answer(path, questions[1])
    memory.close()
    text_bytes = sum(len(text) for text in texts)
    # FTS5 is faster where there is little to score, because a recall also reads, packs and hashes what it
    # found.
    against_fts5 = partial(at_most, bound=0.7) if count >= 100_000 else shown
    ratios = [
        against_fts5(
            f"p50 of a recall over {count:,} records against FTS5",
            own / other,
            detail=f"{own * 1e3:.1f} ms; FTS5 {other * 1e3:.1f} ms",
        ),
        at_most(
            "… right after a commit of one message, against one without",
            after_commit / own,
            2.5,
            f"{after_commit * 1e3:.1f} ms",
        ),
        at_most(
            "first recall after forgetting a record against building the index from the records",
            after_forget / from_records,
            0.1,
            f"{after_forget * 1e3:.0f} ms",
        ),
        at_most(
            "first answer of a process against building the index from the records",
            first / from_records,
            0.1,
            f"{first * 1e3:.0f} ms; from the records {from_records:.1f} s; rebuild {built:.1f} s",
        ),
        at_most(
            "… bytes that it reads, of the file",
            read_bytes / file_bytes,
            0.05,
            f"{read_bytes / 1e6:.1f} MB of {file_bytes / 1e6:.0f} MB",
        ),
        at_most(
            "size of the index against the texts",
            size / text_bytes,
            1.0,
            f"{size / 1e6:.1f} MB, {size / count:.0f} bytes a record",
        ),
    ]
    return ratios, own


def _hybrid(folder: Path, count: int, bound: float | None) -> list[Ratio]:
    """Recall with vectors over recall without, in turns, for questions that are new in words that are not."""
    path = folder / f"dialogue-{count}.db"
    with _filled(path, list(islice(dialogue_turns(), count))) as memory:
        ratios = []
        for title, questions in {
            "long questions": [
                f"What about {turn.split(' ', 6)[-1]}" for turn in islice(dialogue_turns(), 80)
            ],
            "questions of one word": [turn.split(" ")[6] for turn in islice(dialogue_turns(), 80)],
        }.items():
            times: dict[str, list[float]] = {"lexical-v1": [], "hybrid-v1": []}
            matches = []
            for number, question in enumerate(reversed(questions)):
                # Who comes second finds the words of the first in memory.
                for controller in sorted(times, reverse=number % 2 == 0):
                    start = time.process_time()
                    package = memory.recall(question, tokens=500, controller=controller)
                    times[controller].append(time.process_time() - start)
                    assert isinstance(package, RecallPackage)
                    matches.append(package.matched)
            # The first half makes the words known.
            lexical, hybrid = (statistics.median(found[QUESTIONS:]) for found in times.values())
            detail = (
                f"{hybrid * 1e3:.1f} ms against {lexical * 1e3:.1f};"
                f" {statistics.median(matches):,.0f} records match"
            )
            name = f"hybrid-v1 over lexical-v1, {count:,} messages, {title}"
            ratio = hybrid / lexical
            ratios.append(
                shown(name, ratio, detail) if bound is None else at_most(name, ratio, bound, detail)
            )
    return ratios


def _commits(folder: Path) -> Ratio:
    """What storing the index adds to commits of one fact, over enough of them that it was stored several
    times.
    """
    source = Texts()
    texts = [source.text() for _ in range(FACTS)]
    seconds = dict.fromkeys(("with", "without"), 0.0)
    memories = {name: Memory.open(str(folder / f"{name}.db"), notary=None) for name in seconds}
    memories["without"].reader.index = StoreIndex(memories["without"].store, "default", may_write=False)
    for text in texts:
        for name, memory in memories.items():
            start = time.process_time()
            memory.remember(text, source={"kind": "doc", "id": "handbook#4"})
            seconds[name] += time.process_time() - start
    for memory in memories.values():
        memory.close()
    added = seconds["with"] / seconds["without"] - 1
    detail = (
        f"{(seconds['with'] - seconds['without']) / FACTS * 1e6:.0f} µs of"
        f" {seconds['without'] / FACTS * 1e6:.0f} µs"
    )
    return at_most("what the index adds to a commit of one fact", added, 0.25, detail)


def run() -> list[Ratio]:
    """Stores of 10,000 and 100,000 records; STANDFAST_BENCH_RECORDS=1000000 for ten times more."""
    with tempfile.TemporaryDirectory() as name:
        small, small_seconds = _measured(Path(name), RECORDS // 10)
        large, large_seconds = _measured(Path(name), RECORDS)
        commits = _commits(Path(name))
        hybrid = _hybrid(Path(name), 20_000, HYBRID_BOUND) + _hybrid(Path(name), RECORDS, None)
    grown = shown if RECORDS < 1_000_000 else lambda *given: at_most(given[0], given[1], 10, given[2])
    return [
        *small,
        *large,
        commits,
        *hybrid,
        grown("p50 with ten times as many records", large_seconds / small_seconds, ""),
    ]
