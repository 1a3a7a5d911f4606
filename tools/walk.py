"""Prints the files of the package that ``remember``, a commit and ``recall`` enter: ``python tools/walk.py``.

A file counts if a function of it is called. Two calls before have filled the caches; the store is in memory,
and no trace is stored.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import standfast
from standfast import Memory

PACKAGE = Path(standfast.__file__).parent


def files_of(call: Callable[[], object]) -> list[str]:
    """The files that a call enters, in the order in which it enters them."""
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered[path.relative_to(PACKAGE).as_posix()] = None

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(entered)


def main() -> None:
    """Take the three walks."""
    memory = Memory.open(":memory:")
    memory.remember("Bob likes tea.", scope="user/ada")
    memory.recall("tea", scope="user/ada")
    run = memory.run(workflow="walk", mode="buffered_write", scope="user/ada")
    walks: dict[str, Callable[[], object]] = {
        "run.remember": lambda: run.remember("Ada prefers answers in German."),
        "run.commit": run.commit,
        "memory.recall": lambda: memory.recall("How should I answer Ada?", scope="user/ada", tokens=500),
    }
    for name, call in walks.items():
        files = files_of(call)
        sys.stdout.write(f"{name}: {len(files)} files\n  {', '.join(files)}\n")


if __name__ == "__main__":
    main()
