"""Raises small processes that commit until they are killed.

A process of one thread, so that it can fork in milliseconds.

    python -m tests.store.nursery URL

It reads names, a line each, and answers each with the pid of a new child that commits under that name to the
store at the URL, and tells in the file of that name what was acknowledged.
"""

import os
import signal
import sys
from itertools import count, takewhile
from pathlib import Path

from standfast.clock import RandomIds, SystemClock
from standfast.store.commit import Commit
from standfast.store.postgres import PostgresStorage
from standfast.store.store import Store
from tests.store.builders import commit, write


def nth_commit(name: str, number: int) -> Commit:
    """What the child of that name commits as its nth; two records, so that half a commit would show."""
    key = f"{Path(name).name}/{number}"
    return commit(key, write(f"{key}/left", number), write(f"{key}/right", number))


def commit_until_killed(url: str, name: str) -> None:
    """Tell every receipt as one line, only after it was given.

    Without the nursery there is no reason to go on.
    """
    parent = os.getppid()
    clock, ids = SystemClock(), RandomIds()
    store = Store(PostgresStorage(url, clock=clock, ids=ids), clock=clock, ids=ids, any_rows=True)
    told = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in takewhile(lambda _: os.getppid() == parent, count()):
        receipt = store.commit(nth_commit(name, number))
        os.write(told, f"{receipt.memory_snapshot_id} {receipt.ledger_hash}\n".encode())


def main(url: str) -> None:
    """Fork a child for each name that is read."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                commit_until_killed(url, line.strip())
            finally:
                os._exit(1)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
