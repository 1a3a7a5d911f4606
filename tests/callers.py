"""Many callers on one session and a few subjects: how many calls were refused, dropped, doubled or lost.

    python -m tests.callers --calls 100000 --threads 16 --processes 8 --store URL

Half of the calls append a turn to one session, half overwrite one of a few subjects without having read it.
Each process has as many threads as ``--threads`` says. Then the session and the subjects are held against the
receipts.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from standfast.errors import StandfastError
from standfast.memory import Memory
from standfast.records.vocabulary import Band

SCOPE, SESSION = "user/ada", "one"
SUBJECTS = 8
Answer = tuple[str, int, str]
"""What was written, where, and what it says."""


def _call(memory: Memory, name: str, number: int) -> Answer | str:
    """Append or overwrite; the code of the error if the call is refused."""
    try:
        if number % 2:
            text = f"Turn {number} of {name}."
            added = memory.add([{"role": "user", "content": text}], scope=SCOPE, session=SESSION)
            return SESSION, added.messages[0].position, text
        subject = f"gate/{number // 2 % SUBJECTS}"
        text = f"Gate {number // 2 % SUBJECTS} opens at {name}, {number}."
        answer = memory.remember(text, subject=subject, scope=SCOPE, source={"kind": "doc", "id": "plan"})
        assert answer.receipt is not None
    except StandfastError as error:
        return error.code
    except Exception as error:  # noqa: BLE001  # Whatever a caller meets is counted.
        return f"{type(error).__name__}: {error}"
    return subject, answer.receipt.memory_snapshot_id, text


def _process(url: str, name: str, threads: int, calls: int) -> list[Answer | str]:
    with Memory.open(url, notary=None, traces=None) as memory:

        def thread(number: int) -> list[Answer | str]:
            return [_call(memory, f"{name}-{number}", one) for one in range(calls)]

        with ThreadPoolExecutor(threads) as pool:
            return [answer for answers in pool.map(thread, range(threads)) for answer in answers]


def counts(url: str, *, calls: int, threads: int, processes: int) -> dict[str, Any]:
    """Make so many calls, and count what went wrong."""
    share = -(-calls // (threads * processes))
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        jobs = [(url, f"p{number}", threads, share) for number in range(processes)]
        answers = [answer for found in pool.starmap(_process, jobs) for answer in found]
    seconds = time.perf_counter() - began
    refused = Counter(answer for answer in answers if isinstance(answer, str))
    written = [answer for answer in answers if not isinstance(answer, str)]
    turns = {(position, text) for where, position, text in written if where == SESSION}
    last = {where: text for where, _, text in sorted(written, key=lambda one: one[1]) if where != SESSION}
    with Memory.open(url, notary=None, traces=None) as memory:
        said = [(one.position, one.text) for one in memory.session(SESSION, scope=SCOPE)]
        held = {one.subject: one.text for one in memory.records(band=Band.LEDGER, scope=SCOPE) if one.subject}
        problems = list(memory.store.verify())
    return {
        "calls": len(answers),
        "seconds": round(seconds, 1),
        "refused": dict(refused),
        "turns": len(turns),
        "turns_dropped": len(turns - set(said)),
        "turns_doubled": len(said) - len({text for _, text in said}),
        "turns_never_answered": len(set(said) - turns),
        "overwrites_lost": sum(held.get(subject) != text for subject, text in last.items()),
        "problems": problems,
    }


def main() -> None:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--store", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.store or str(Path(folder) / "callers.db")
        found = counts(url, calls=given.calls, threads=given.threads, processes=given.processes)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
