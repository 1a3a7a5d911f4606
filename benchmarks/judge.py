"""The judge: what its floors find in the labelled corpus, and what judging costs compared with committing."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.measure import Ratio, at_most, best_seconds, shown
from standfast.clock import CountedIds, SystemClock
from standfast.govern.judge.judge import Claim, FloorRegistry, Judge, Judgement, JudgingContext
from standfast.records.vocabulary import ActionType, Record
from standfast.store.commit import Commit, Write
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.govern.corpus import HOSTILE, PARTS, SHORT_HOSTILE_CHARS, cases, figures, known, sealed_share

TITLE = "The judge"
FACT = Record(
    memory_id="mem-000123",
    ts_utc="2026-01-15T10:30:00.000000Z",
    text=(
        "The staging database runs PostgreSQL 18.1 on db-stage-02 and is rebuilt every Sunday night from the"
        " last backup of production, with all names and addresses replaced; the job takes about forty"
        " minutes."
    ),
    tags=("database", "staging"),
    subject="infra/staging",
    source={"kind": "doc", "id": "runbook#7"},
)
KNOWN = tuple(
    Record(
        memory_id=f"k{number}",
        text=(
            f"Gate {number} of hall {number % 40} is closed for deliveries on day {number % 365} of the year."
        ),
        subject=f"gates/{number}",
        source={"kind": "doc", "id": f"plan#{number}"},
    )
    for number in range(10_000)
)
RECALLED = tuple(record.text for record in KNOWN[:50])


def run() -> list[Ratio]:
    """Recall and precision by label for each part of the corpus, then the cost of one judgement and of
    hostile texts.
    """
    judge = Judge(FloorRegistry.shipped())
    return [*_found(judge), *_cost(judge), _hostile(judge)]


def _found(judge: Judge) -> list[Ratio]:
    ratios = []
    for part in PARTS:
        for figure in figures(judge, part).values():
            detail = (
                f"precision {figure.precision:.2f}: {figure.found} of {figure.of} found, {figure.wrongly}"
                " wrongly"
            )
            ratios.append(shown(f"{part}: recall of {figure.label}", figure.recall, detail))
        count_clean = sum(case.label == "clean" for case in cases(part))
        share = sealed_share(judge, part)
        ratios.append(shown(f"{part}: clean facts that are sealed", share, f"of {count_clean}"))
    return ratios


def _cost(judge: Judge) -> list[Ratio]:
    """Each judgement reads its claim anew, as in a run; the context is read once for all of them."""
    few = JudgingContext(related=KNOWN[:20], vault=KNOWN[20:25], recalled=RECALLED)
    many = JudgingContext(related=KNOWN, recalled=RECALLED)
    law = JudgingContext(vault=KNOWN)
    without_subject = Record(memory_id=FACT.memory_id, text=FACT.text, source=FACT.source)
    long = Record(memory_id="long", text=" ".join(record.text for record in KNOWN[:40]), source=FACT.source)
    with tempfile.TemporaryDirectory() as folder:
        clock, ids = SystemClock(), CountedIds()
        store = Store(
            SQLiteStorage(str(Path(folder) / "bench.db"), clock=clock, ids=ids), clock=clock, ids=ids
        )
        seconds = best_seconds(
            {
                "alone": _judging(judge, FACT, JudgingContext()),
                "few": _judging(judge, FACT, few),
                "many": _judging(judge, FACT, many),
                "law": _judging(judge, without_subject, law),
                "long": _judging(judge, long, JudgingContext()),
                "commit": _committing(store),
            },
            calls=100,
        )
        store.close()
    took = f"{seconds['alone'] * 1e6:.0f} µs for {len(FACT.text)} characters"
    size = len(long.text) / len(FACT.text)
    return [
        at_most(
            "judging a fact, in units of committing it", seconds["alone"] / seconds["commit"], 0.25, took
        ),
        shown(
            "… beside 25 known records and 50 recalled",
            seconds["few"] / seconds["alone"],
            f"{seconds['few'] * 1e6:.0f} µs",
        ),
        at_most(
            "… beside 10,000 known records",
            seconds["many"] / seconds["alone"],
            3,
            f"{seconds['many'] * 1e6:.0f} µs",
        ),
        at_most(
            "… without a subject beside 10,000 sealed ones",
            seconds["law"] / seconds["alone"],
            5,
            f"{seconds['law'] * 1e6:.0f} µs",
        ),
        at_most(
            "a long fact, in units of its length",
            seconds["long"] / seconds["alone"] / size,
            1.5,
            f"{size:.0f} times as long",
        ),
    ]


def _hostile(judge: Judge) -> Ratio:
    """Sixteen times a hostile text should take sixteen times as long; what is quadratic takes sixteen times
    that.
    """
    growth = {}
    for name, make in HOSTILE.items():
        short, long = make(SHORT_HOSTILE_CHARS), make(16 * SHORT_HOSTILE_CHARS)
        context = JudgingContext(
            related=(known("k", short),), vault=(known("v", short, band="VAULT"),), recalled=(short,)
        )
        ways: dict[str, Callable[[], object]] = {
            "short": _judging(judge, Record(memory_id="m", text=short), context),
            "long": _judging(judge, Record(memory_id="m", text=long), context),
        }
        seconds = best_seconds(ways, calls=1, rounds=3, clock=time.process_time)
        growth[name] = seconds["long"] / max(seconds["short"], 0.0005) / 16
    worst = max(growth, key=lambda name: (growth[name], name))
    return at_most("the worst hostile text, 16 times as long, over 16", growth[worst], 5, worst)


def _judging(judge: Judge, record: Record, context: JudgingContext) -> Callable[[], Judgement]:
    judge.judge(Claim(record=record), context)
    return lambda: judge.judge(Claim(record=record), context)


def _committing(store: Store) -> Callable[[], object]:
    numbers = count(1)
    content = FACT.as_json()

    def commit() -> object:
        number = next(numbers)
        write = Write.of("bench", f"LEDGER/shared//key-{number}", ActionType.WRITE, content)
        return store.commit(
            Commit.of(
                run_id=f"run-{number}", memory_snapshot_id=number - 1, policy_set_id="bench", writes=[write]
            )
        )

    return partial(commit)
