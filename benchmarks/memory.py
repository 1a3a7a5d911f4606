"""A whole run (recall 800 tokens, remember one fact, commit), compared with a bare commit and a bare recall.

The rest is the cost of judging, evidence, ledger facts and the trace.
"""

import itertools
import os
import tempfile
from pathlib import Path

from benchmarks.measure import Ratio, at_most, best_seconds, shown
from standfast.clock import RandomIds, SystemClock
from standfast.memory import Memory, Run
from standfast.memory.snapshot_view import SnapshotView
from standfast.recall.answers import Package
from standfast.records.requests import RecallRequest
from standfast.records.vocabulary import ActionType, Band, Remembered, Verdict, VisibilityMode
from standfast.store.commit import Commit, Write
from standfast.traces.artifact import ModelConfig
from standfast.traces.folder import TraceFolder
from standfast.traces.recorder import REMEMBER, Recorder

TITLE = "A whole run through memory"
KNOWN = 1_000
QUERY = "refund rules for customers of shop 7 in region 3"
SOURCE = {"kind": "doc", "id": "handbook#4"}
MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=1)
ROUNDS = 8
CALLS = 4


def run() -> list[Ratio]:
    """Measure over one SQLite file with a thousand records."""
    with tempfile.TemporaryDirectory() as folder:
        traces = TraceFolder(Path(folder) / "traces", ids=RandomIds())
        with Memory.open(f"{folder}/agent.db") as memory:
            _seed(memory)
            recorded = Memory(memory.store, traces=traces)
            return _measured(memory, recorded, Path(folder))


def _measured(memory: Memory, recorded: Memory, folder: Path) -> list[Ratio]:
    numbers = itertools.count(KNOWN)
    last, view, package = _request(memory, next(numbers)), memory.at(1), memory.recall(QUERY, tokens=800)
    with (folder / "synced").open("wb", buffering=0) as file:

        def sync() -> None:
            file.write(b"x" * 4_096)
            os.fsync(file.fileno())

        best = best_seconds(
            {
                "whole": lambda: _request(memory, next(numbers)),
                "whole, trace stored": lambda: _request(recorded, next(numbers)),
                "recall": lambda: memory.recall(QUERY, tokens=800),
                "commit": lambda: _bare_commit(memory, next(numbers)),
                "recording": lambda: _recorded_alone(view, package, last),
                "sync": sync,
            },
            calls=CALLS,
            rounds=ROUNDS,
        )
    parts = best["recall"] + best["commit"]
    times = {name: f"{seconds * 1e3:.2f} ms" for name, seconds in best.items()}
    return [
        shown(
            "a whole run against a bare commit",
            best["whole"] / best["commit"],
            f"{times['whole']} against {times['commit']}",
        ),
        shown(
            "a whole run against a bare recall",
            best["whole"] / best["recall"],
            f"{KNOWN} records, {times['recall']}",
        ),
        at_most(
            "a whole run against both together",
            best["whole"] / parts,
            3,
            "the rest is judging, evidence and the trace",
        ),
        at_most(
            "share of recording, in percent",
            best["recording"] / best["whole"] * 100,
            25,
            times["recording"],
            unit=" %",
        ),
        shown(
            "with the trace written to disk",
            best["whole, trace stored"] / best["whole"],
            times["whole, trace stored"],
        ),
        shown(
            "a whole run against a bare sync",
            best["whole"] / best["sync"],
            f"the limit of the disk, {times['sync']}",
        ),
    ]


def _seed(memory: Memory) -> None:
    """Write different facts, so that none counts as known."""
    for start in range(0, KNOWN, 200):
        with memory.run(workflow="seed", mode="buffered_write") as opened:
            for number in range(start, start + 200):
                opened.remember(_fact(number), subject=f"shop/{number}", source=SOURCE)


def _fact(number: int) -> str:
    return f"Shop {number} in region {number % 9} refunds its customers within {number % 31 + 1} days."


def _request(memory: Memory, number: int) -> Run:
    with memory.run(workflow="triage", mode=VisibilityMode.BUFFERED_WRITE, model=MODEL) as opened:
        opened.recall(QUERY, tokens=800)
        opened.remember(_fact(number), subject=f"shop/{number}", source=SOURCE)
        opened.output({"type": "text", "sections": ["answer"]})
    return opened


def _bare_commit(memory: Memory, number: int) -> None:
    """Commit the same two rows without judging."""
    store = memory.store
    row = {"memory_id": f"shop/{number}", "text": _fact(number)}
    writes = [
        Write.of("bare", f"{band}/shared//shop/{number}", ActionType.WRITE, row)
        for band in ("LEDGER", "ACTIVE")
    ]
    store.commit(
        Commit.of(
            run_id=store.ids.new_id(), memory_snapshot_id=store.head(), policy_set_id="none", writes=writes
        )
    )


def _recorded_alone(view: SnapshotView, package: Package, like: Run) -> None:
    """Record the events of such a run without running it."""
    recorder = Recorder(like.identity, clock=SystemClock(), model=MODEL)
    recorder.retrieval(**view.retrieval_facts(package, RecallRequest(query=QUERY)))
    answer = Remembered(memory_id="shop/1", verdict=Verdict.SEAL, bands=(Band.LEDGER, Band.ACTIVE)).as_json()
    recorder.perform(REMEMBER, {"text": _fact(1), "subject": "shop/1", "source": SOURCE}, lambda: answer)
    recorder.output({"type": "text", "sections": ["answer"]})
    recorder.finish()
