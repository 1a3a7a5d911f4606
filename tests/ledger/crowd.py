"""What other processes do in the notary's tests: sign at the same time, make a key, or die at a step of
signing.

python -m tests.ledger.crowd sign PATH COUNT      commit and sign, so many times; tells whether it was let to
python -m tests.ledger.crowd key PATH             load or make the key; tells its public half
python -m tests.ledger.crowd die PATH             read steps; for each, a child commits and is killed at that
step
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast.errors import BrokenChain
from standfast.ledger.notary import Notary
from standfast.ledger.note import KeyFile
from standfast.memory import Memory
from standfast.store.commit import Fact
from standfast.store.opening import open_store

STEPS = ("open", "write", "fsync", "link", "unlink", "rename", "replace", "pread")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def sign(path: str, count: str) -> None:
    """Sign when all are ready."""
    memory = Memory.open(path)
    _say("ready")
    sys.stdin.readline()
    try:
        for number in range(int(count)):
            memory.store.append_fact(Fact.of("note", {"number": number, "by": os.getpid()}))
            memory.checkpoint()
    except BrokenChain as error:
        _say(f"refused: {error}")
    else:
        _say("signed")
    memory.store.close()


def key(path: str) -> None:
    """Make the key when all are ready."""
    _say("ready")
    sys.stdin.readline()
    _say(KeyFile(Path(path), name="test/log").load().verifying_key.text)


def die(path: str) -> None:
    """A child for each step; this process has one thread and no store open, so that it can fork."""
    for step in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                _die_at(path, int(step))
            finally:
                os._exit(1)
        _say(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


def _die_at(path: str, step: int) -> None:
    store = open_store(path, create=True)
    # Not by Memory.open, which signs in a thread of its own.
    notary = Notary.for_store(path, store.entries, store.branches, store.announce_key)
    memory = Memory(store, notary=notary)
    memory.store.append_fact(Fact.of("note", {"step": step}))
    left = [step]

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            if left[0] == 0:
                if call.__name__ == "write":
                    # A line that is half written when the power goes.
                    call(given[0], given[1][: len(given[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*given, **named)

        return called

    for name in STEPS:
        setattr(os, name, mortal(getattr(os, name)))
    memory.checkpoint()
    os._exit(0)


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"sign": sign, "key": key, "die": die}
    roles[sys.argv[1]](*sys.argv[2:])
