"""``add`` of messages: at least as fast as ``remember`` in bulk, next to LangGraph's SQLite store and mem0's
``add(infer=False)``.

A peer that is not there is not measured, and the output says so. Every write is synced; ours is judged, with
evidence and ledger.
"""

import itertools
import json
import os
import subprocess
import time
from pathlib import Path

from benchmarks.dialogue import dialogue_turns
from benchmarks.facts import PER_COMMIT, langgraph, temporary_folder
from benchmarks.measure import Ratio, at_least, shown
from standfast.memory import Memory

TITLE = "Messages of a conversation"
MESSAGES, ROUNDS = 2_000, 3
MEM0_MESSAGES = 200


def _turns(count: int) -> list[str]:
    return list(itertools.islice(dialogue_turns(), count))


def added() -> tuple[float, float]:
    """Wall and CPU seconds a message through ``Memory.add``."""
    messages = [{"role": "user", "content": turn} for turn in _turns(MESSAGES)]
    with temporary_folder() as folder, Memory.open(str(folder / "memory.db")) as memory:
        memory.remember("The benchmark begins.")
        wall, cpu = time.perf_counter(), time.process_time()
        memory.add(messages, scope="user/ada", session="bench")
        return (time.perf_counter() - wall) / MESSAGES, (time.process_time() - cpu) / MESSAGES


def remembered() -> tuple[float, float]:
    """The same through ``run.remember``, in commits of the same size."""
    turns = _turns(MESSAGES)
    with temporary_folder() as folder, Memory.open(str(folder / "memory.db")) as memory:
        memory.remember("The benchmark begins.")
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(0, MESSAGES, PER_COMMIT):
            with memory.run(workflow="bench", mode="buffered_write") as run:
                for turn in turns[start : start + PER_COMMIT]:
                    run.remember(turn, scope="user/ada")
        return (time.perf_counter() - wall) / MESSAGES, (time.process_time() - cpu) / MESSAGES


def mem0() -> float | None:
    """Wall seconds a message of mem0's ``add(infer=False)``; None if ``MEM0_PYTHON`` names no interpreter
    that has mem0.

    mem0 needs other versions of what we use, so it has an environment of its own: ``python -m venv mem0 &&
    mem0/bin/pip install mem0ai``.
    """
    interpreter = os.environ.get("MEM0_PYTHON")
    if not interpreter:
        return None
    peer = subprocess.run(  # The interpreter is named by whoever runs the benchmark.
        [interpreter, str(Path(__file__).with_name("mem0_peer.py"))],
        input=json.dumps(_turns(MEM0_MESSAGES)),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(peer.stdout.split()[-1])


def added_one_by_one() -> float:
    """Wall seconds a message through ``Memory.add``, each by a call of its own, as mem0 is measured."""
    turns = _turns(MEM0_MESSAGES)
    with temporary_folder() as folder, Memory.open(str(folder / "memory.db")) as memory:
        memory.remember("The benchmark begins.")
        begun = time.perf_counter()
        for turn in turns:
            memory.add([{"role": "user", "content": turn}], scope="user/ada", session="bench")
        return (time.perf_counter() - begun) / MEM0_MESSAGES


def run() -> list[Ratio]:
    """The rows. CPU time is compared within one process, because machines are busy."""
    ours = [added() for _ in range(ROUNDS)]
    facts = [remembered() for _ in range(ROUNDS)]
    wall, cpu = (min(column) for column in zip(*ours, strict=True))
    fact_wall, fact_cpu = (min(column) for column in zip(*facts, strict=True))
    detail = f"{1 / wall:,.0f} messages a second against {1 / fact_wall:,.0f} facts"
    rows = [at_least("add over remember in bulk, CPU", fact_cpu / cpu, 1, detail)]
    if (peer := langgraph(MESSAGES, PER_COMMIT)) is None:
        rows.append(
            shown(
                "add over LangGraph's SQLite store",
                0,
                "skipped: langgraph-checkpoint-sqlite is not installed",
            )
        )
    else:
        rows.append(
            shown("add over LangGraph's SQLite store", peer[1] / wall, f"{1 / peer[1]:,.0f} a second there")
        )
    if (seconds := mem0()) is None:
        why = "not measured: MEM0_PYTHON names no interpreter that has mem0"
        rows.append(shown("add over mem0's add(infer=False)", 0, why))
    else:
        single = min(added_one_by_one() for _ in range(ROUNDS))
        detail = f"{1 / seconds:,.0f} messages a second there (constant embedder, Qdrant in a folder)"
        rows += [
            shown("add over mem0's add(infer=False), a call a message", seconds / single, detail),
            shown("add in bulk over mem0's add(infer=False)", seconds / wall, f"{1 / wall:,.0f} here"),
        ]
    return rows
