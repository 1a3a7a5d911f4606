"""What governance costs: judging compared with committing, and verifying a ledger compared with hashing
it.
"""

import gc
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.measure import Ratio, at_most, shown
from standfast.clock import CountedIds, SystemClock
from standfast.govern.admission import JudgedRecord
from standfast.ledger.chain import Entry, Tip, extend
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.note import SigningKey, open_note
from standfast.ledger.tree import Tree
from standfast.ledger.witness import problems_of_ledger
from standfast.memory import Memory, Run
from standfast.memory import request_judge as judge_module
from standfast.memory.commit_plan import plan_commit
from standfast.records.vocabulary import Verdict
from standfast.store.protocol import Changes
from standfast.store.sqlite import SQLiteStorage

TITLE = "Governance"
WRITES = 50
ROUNDS = 40
ENTRIES = 100_000
CHECKPOINTS = 100
LEDGER_ROUNDS = 7
MOMENT = "2026-01-15T10:30:00.000000Z"


@contextmanager
def _folder(kind: str) -> Iterator[Path]:
    parent = "/dev/shm" if kind == "memory" and Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _judged(memory: Memory, number: int) -> Run:
    """A run that has had one fact judged and gated, as an agent's would."""
    run = memory.run(workflow="bench", mode="buffered_write", agent="bench")
    judged = run.remember(
        f"Parcel {number} of the spring delivery weighs {number % 30} kg and left the depot on time.",
        subject=f"parcel/{number}",
        source={"kind": "doc", "id": f"delivery-note#{number}"},
        tags=["parcels", "spring"],
    )
    assert judged.verdict is Verdict.SEAL
    return run


def _sync_seconds(folder: Path) -> float:
    """The best that this disk does: how long a page takes to be durable."""
    best = float("inf")
    with (folder / "page").open("wb") as file:
        for _ in range(200):
            file.write(bytes(4_096))
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            best = min(best, time.perf_counter() - begun)
    return best


@contextmanager
def _timed_judge(took: list[float]) -> Iterator[None]:
    """Adds the seconds that 888_JUDGE takes inside ``remember`` to the first of these."""
    admit = judge_module.admit  # type: ignore[attr-defined]  # It is timed from outside.

    def timed(*given: Any, **named: Any) -> JudgedRecord:
        begun = time.perf_counter()
        judged = admit(*given, **named)
        took[0] += time.perf_counter() - begun
        return judged

    judge_module.admit = timed  # type: ignore[attr-defined]  # As above.
    try:
        yield
    finally:
        judge_module.admit = admit  # type: ignore[attr-defined]  # As it was.


def _against_commits(kind: str) -> tuple[float, float, float, str]:
    """Of one write a run: 888_JUDGE, and all up to the commit, over the commit; and all but the store over
    the store.

    The commit is what leaving the run does: sealing, and the store's own commit. All before it is opening the
    run and ``remember`` whole, with its reads, its record for the trace and the judge. The best round of
    each, taken in turns.
    """
    with _folder(kind) as folder:
        memory = Memory.open(str(folder / "store.db"), notary=None)
        best = [float("inf")] * 4
        for turn in range(ROUNDS):
            took = [0.0] * 4
            with _timed_judge(took):
                for number in range(turn * WRITES, (turn + 1) * WRITES):
                    marks = [time.perf_counter()]
                    run = _judged(memory, number)
                    marks.append(time.perf_counter())
                    commit = plan_commit(
                        run._judged,  # noqa: SLF001  # What leaving the run does first.
                        {},
                        run=run.identity,
                        namespace=memory.namespace,
                        store=memory.store,
                        budgets=memory.band_budgets,
                    )
                    assert commit is not None
                    marks.append(time.perf_counter())
                    receipt = memory.store.commit(commit)
                    marks.append(time.perf_counter())
                    memory.judging_cache.saw(commit, receipt)
                    took[1:] = [
                        sum(one) for one in zip(took[1:], (b - a for a, b in pairwise(marks)), strict=True)
                    ]
            best = list(map(min, best, took))
        memory.close()
        sync = _sync_seconds(folder) * 1e6
    judging, remembering, sealing, storing = (seconds / WRITES * 1e6 for seconds in best)
    each = (
        f"{judging:.0f} µs to judge and gate, of {remembering:.0f} to open a run and remember; "
        f"{sealing:.0f} to seal, {storing:.0f} to store; a bare sync takes {sync:.0f}"
    )
    committing = sealing + storing
    return judging / committing, remembering / committing, (remembering + sealing) / storing, each


def _ledger() -> list[Entry]:
    """Entries as long as those of real commits, with what governance tells of them."""
    tip, entries = Tip(), []
    audited = {"band": "LEDGER", "entry_hash": "0" * 64, "evidence_hash": "1" * 64, "verdict": "SEAL"}
    for number in range(ENTRIES):
        body = {
            "commit_id": f"{number:064x}",
            "told": {"writes": [{**audited, "entry_id": f"m-{number}"}] * 2},
        }
        entry = extend(tip, kind="audit", at=MOMENT, body=body)
        entries.append(entry)
        tip = entry.tip
    return entries


def _checkpoints(entries: Sequence[Entry], key: SigningKey) -> list[str]:
    tree = Tree(entry.hash for entry in entries)
    sizes = range(ENTRIES // CHECKPOINTS, ENTRIES + 1, ENTRIES // CHECKPOINTS)
    return [Checkpoint(origin=key.name, size=size, root_hash=tree.root(size)).sign([key]) for size in sizes]


def _bare(entries: Iterator[Entry], notes: Sequence[str], key: SigningKey) -> None:
    """What nobody can do without: hash each entry's bytes, check each signature."""
    for entry in entries:
        hashlib.sha256(b"\x00" + entry.content).hexdigest()
    for note in notes:
        open_note(note, [key.verifying_key])


def _seconds(ways: Sequence[Callable[[], object]]) -> list[float]:
    best = [float("inf")] * len(ways)
    gc.disable()
    for _ in range(LEDGER_ROUNDS):
        for number, way in enumerate(ways):
            begun = time.perf_counter()
            way()
            best[number] = min(best[number], time.perf_counter() - begun)
    gc.enable()
    return best


def _verifying() -> list[Ratio]:
    key = SigningKey(name="bench/log", seed=bytes(32))
    entries = _ledger()
    notes = _checkpoints(entries, key)
    size_bytes = sum(len(entry.content) for entry in entries)
    ratios = []
    with _folder("memory") as folder:
        storage = SQLiteStorage(str(folder / "store.db"), clock=SystemClock(), ids=CountedIds())
        with storage.transaction() as transaction:
            transaction.append(Changes(entries=entries))

        def stored() -> Iterator[Entry]:
            after = 0
            while page := storage.entries(after=after, limit=1_000):
                yield from page
                after = page[-1].seq

        for label, given in (("in memory", lambda: iter(entries)), ("read from the file", stored)):
            bare, ours = _seconds(
                [
                    lambda given=given: _bare(given(), notes, key),  # type: ignore[misc]  # Bound on purpose.
                    lambda given=given: list(problems_of_ledger(given(), notes, [key.verifying_key])),  # type: ignore[misc]  # As above.
                ]
            )
            detail = (
                f"{size_bytes / 1e6:.0f} MB, {CHECKPOINTS} checkpoints; {ours:.2f} s against {bare:.2f} s"
            )
            ratios.append(
                at_most(f"verifying {ENTRIES:,} entries, {label}, against hashing", ours / bare, 3, detail)
            )
        storage.close()
    return ratios


def run() -> list[Ratio]:
    """Every figure of governance."""
    judge_on_disk, before_on_disk, all_on_disk, on_disk = _against_commits("disk")
    judge_in_memory, before_in_memory, all_in_memory, in_memory = _against_commits("memory")
    return [
        at_most(
            "judging and gating, over committing the same write, on a disk", judge_on_disk, 0.25, on_disk
        ),
        # Not judging alone: it opens a run, looks into the store for what is known, and records the call in
        # the trace.
        shown("opening a run and all of remember, over committing, on a disk", before_on_disk),
        shown("all that a run does but the store's commit, over that, on a disk", all_on_disk),
        shown("judging and gating, over committing where a sync is free", judge_in_memory, in_memory),
        shown("opening a run and all of remember, over committing where a sync is free", before_in_memory),
        shown("all that a run does but the store's commit, over that, where a sync is free", all_in_memory),
        *_verifying(),
    ]
