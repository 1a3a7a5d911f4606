"""Processes that open the same new store at the same moment, and commit to it.

    python -m tests.store.openers FOLDER ROUNDS PROCESSES

Each round is a new file and a fork for each process. Whoever could not open it, or commit, tells why.
"""

import os
import sys
import time

from standfast.clock import RandomIds, SystemClock
from standfast.errors import StandfastError
from tests.store.builders import commit, sqlite_store, write

HEAD_START_SECONDS = 0.01


def _open_and_commit(path: str, number: int, begin: float) -> None:
    time.sleep(max(0.0, begin - time.monotonic()))
    try:
        store = sqlite_store(path, SystemClock(), RandomIds())
        store.commit(commit(f"opener{number}", write(f"k{number}")))
        store.close()
    except StandfastError as error:
        os.write(sys.stdout.fileno(), f"{path}: {error!r}\n".encode())


def main(folder: str, rounds: str, processes: str) -> None:
    """Fork a generation of openers for each file."""
    for number in range(int(rounds)):
        begin = time.monotonic() + HEAD_START_SECONDS
        children = []
        for place in range(int(processes)):
            child = os.fork()
            if child == 0:
                try:
                    _open_and_commit(f"{folder}/{number}.db", place, begin)
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
