"""One process of a crowd that counts together: threads that read, modify and write shared counters until they
succeed.

    python -m tests.store.crowd PATH PROCESS THREADS INCREMENTS

It says that it is ready, waits for a line, then opens the store together with all the others, and in the end
tells every run that it made: where it started, what it read, what it wanted to write, and what it was
answered.
"""

import sys
import threading
from typing import Any

import msgspec

from standfast.clock import RandomIds, SystemClock, seeded
from standfast.errors import CommitAborted, StoreBusy
from standfast.records.vocabulary import Receipt
from standfast.store.store import Store
from tests.store.builders import NAMESPACE, commit, merge, sqlite_store, write

COUNTERS = [f"counter{number:02}" for number in range(24)]
GENESIS = commit("genesis", *(write(counter, 0) for counter in COUNTERS))


class Attempt(msgspec.Struct, frozen=True):
    """One run. ``read`` is what it saw first, ``read_again`` what it saw after it had buffered its writes."""

    run_id: str
    start: int
    newest_known: int
    read: dict[str, str | None]
    read_again: dict[str, str | None]
    counter: str
    note: str
    receipt: Receipt | None
    refusal: str = ""


class Counting(threading.Thread):
    """A thread that increments counters, each time together with a new record."""

    def __init__(self, store: Store, name: str, increments: int) -> None:
        super().__init__(name=name)
        self._store = store
        self._dice = seeded(sum(name.encode()) * 1_009 + len(name))
        self._increments = increments
        self._newest_known = 0
        self.attempts: list[Attempt] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Increment until it was acknowledged as often as asked."""
        try:
            for number in range(self._increments):
                counter = self._dice.choice(COUNTERS)
                while not self._increment(counter, f"{self.name}-{number}-{len(self.attempts)}"):
                    pass
        except BaseException as error:  # noqa: BLE001  # The process tells of it and fails.
            self.failure = error

    def _increment(self, counter: str, note: str) -> bool:
        run_id, start = self._store.ids.new_id(), self._store.head()
        keys = [counter, note, *self._dice.sample(COUNTERS, 2)]
        read = self._read(keys, start)
        changes = commit(
            run_id, merge(counter, int(read[counter] or 0) + 1), write(note, self.name), at=start
        )
        read_again = self._read(keys, start)
        receipt, refusal = None, ""
        try:
            receipt = self._store.commit(changes)
        except (CommitAborted, StoreBusy) as error:
            refusal = error.code
        self.attempts.append(
            Attempt(
                run_id=run_id,
                start=start,
                newest_known=self._newest_known,
                read=read,
                read_again=read_again,
                counter=counter,
                note=note,
                receipt=receipt,
                refusal=refusal,
            )
        )
        self._newest_known = self._newest_known if receipt is None else receipt.memory_snapshot_id
        return receipt is not None

    def _read(self, keys: list[str], start: int) -> dict[str, str | None]:
        found = self._store.read(NAMESPACE, keys, at=start)
        return {key: (found[key].content or b"").decode() if key in found else None for key in keys}


def main(path: str, process: str, threads: str, increments: str) -> None:
    """Count, and tell of it in one line a run."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    store = sqlite_store(path, SystemClock(), RandomIds())
    store.commit(GENESIS)
    crowd = [Counting(store, f"{process}.{number}", int(increments)) for number in range(int(threads))]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    store.close()
    for thread in crowd:
        if thread.failure is not None:
            raise thread.failure
        told: list[Any] = thread.attempts
        sys.stdout.write("".join(f"{msgspec.json.encode(attempt).decode()}\n" for attempt in told))


if __name__ == "__main__":
    main(*sys.argv[1:])
