"""Prints the files of the package that ``memory.remember`` and ``memory.recall`` enter: ``python
tools/walk.py``.

A file counts if a function of it is called. The store is a SQLite file, opened as the README opens it. One
call of each kind before has filled the caches.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import standfast
from standfast import Memory

PACKAGE = Path(standfast.__file__).parent


def files_of(call: Callable[[], object]) -> dict[str, list[str]]:
    """The files that a call enters, in the order in which it enters them, each with its functions."""
    entered: dict[str, list[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            functions = entered.setdefault(path.relative_to(PACKAGE).as_posix(), [])
            if frame.f_code.co_qualname not in functions:
                functions.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    """Take the two walks. With ``--functions``, print what is called in each file too."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(f"{folder}/agent.db") as memory:
        memory.remember("Bob likes tea.", scope="user/ada")
        memory.recall("tea", scope="user/ada")
        walks: dict[str, Callable[[], object]] = {
            "memory.remember": lambda: memory.remember("Ada prefers answers in German.", scope="user/ada"),
            "memory.recall": lambda: memory.recall("How should I answer Ada?", scope="user/ada"),
        }
        for name, call in walks.items():
            files = files_of(call)
            functions = sum(map(len, files.values()))
            sys.stdout.write(f"{name}: {len(files)} files, {functions} functions\n")
            for file, called in files.items():
                shown = f": {', '.join(called)}" if "--functions" in sys.argv else ""
                sys.stdout.write(f"  {file}{shown}\n")


if __name__ == "__main__":
    main()
