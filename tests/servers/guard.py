"""The guard: a small process that ends the servers when the test process has ended, even by SIGKILL.

It runs as its own script and reads messages of the test process from standard input: `watch 123 15`,
`forget 123`. The end of the input means that the test process has ended. Each process that is still watched
then gets the named signal, and is killed if it does not end.

PR_SET_PDEATHSIG would need no process, but it fires when the *thread* that started the server ends, so a test
that restarts a server from a thread would lose it. It is also not inherited by PostgreSQL's backends, which
moreover leave the process group (each calls `setsid`), so that a process-group kill misses them: hence the
tree.

The script imports little and nothing of this project, because it is started with `-I -S` to be up in
milliseconds.
"""

import os
import signal
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path

WATCH = b"watch"
FORGET = b"forget"
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.02


def children(pid: int) -> tuple[int, ...]:
    """The direct children of a process, by pid."""
    found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return tuple(sorted(child for child in found if _state_and_parent(child)[1] == pid))


def descendants(pid: int) -> tuple[int, ...]:
    """All descendants of a process."""
    direct = children(pid)
    return direct + tuple(grandchild for child in direct for grandchild in descendants(child))


def is_alive(pid: int) -> bool:
    """Whether the process runs. A zombie does not; it waits to be reaped."""
    return _state_and_parent(pid)[0] not in ("", "Z", "X")


def kill_tree(pid: int) -> tuple[int, ...]:
    """Send SIGKILL to a process and all its descendants; returns their pids.

    Each is stopped before its children are listed, so that it cannot fork one that the list misses.
    """
    if not _send(pid, signal.SIGSTOP):
        return ()
    below = tuple(killed for child in children(pid) for killed in kill_tree(child))
    _send(pid, signal.SIGKILL)
    return (pid, *below)


def wait_until_gone(pids: Collection[int], *, within_seconds: float) -> bool:
    """Whether all of these processes ended in time."""
    deadline = time.monotonic() + within_seconds
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    # The program's name stands in parentheses and may contain anything, so the fields are counted from the
    # last one.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


def stand_guard(messages: Iterable[bytes]) -> None:
    """Read all messages, then end the processes that are still watched.

    A pid can't be reused meanwhile: an ended server keeps its pid until the test process reaps it, and the
    test process then asks the guard to forget it.
    """
    stop_signals: dict[int, int] = {}
    for message in messages:
        word, pid, *stop_signal = message.split()
        if word == WATCH:
            stop_signals[int(pid)] = int(stop_signal[0])
        else:
            stop_signals.pop(int(pid), None)
    for watched, number in stop_signals.items():
        _send(watched, number)
    wait_until_gone(stop_signals, within_seconds=GRACE_SECONDS)
    for watched in filter(is_alive, stop_signals):
        kill_tree(watched)


if __name__ == "__main__":
    stand_guard(sys.stdin.buffer)
