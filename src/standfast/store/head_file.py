"""The head file: the end of the ledger as last acknowledged, kept outside the database.

It is written after each commit, never synced, and never ahead of what is durable. Processes that use one
folder share the file. It never goes back and is never replaced by the end of a ledger that lacks its entry,
so a ledger that was cut contradicts it for ever, whatever is written afterwards.
"""

import fcntl
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from standfast.errors import CannotOpen
from standfast.ledger.chain import Branch, Tip

_LINE_BYTES: Final = 20 + 1 + 64 + 1 + 8 + 1


class HeadFile:
    """The file ``head`` among the side files of a store.

    Args:
        path: None for a store that has no side files; then nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._descriptor = -1
        self.is_replaceable = False
        """Whether the next ``write`` may go back, because a restore left the entry behind that it names."""

    def open(self) -> Tip:
        """Open or create the file, and return what it says. Where it can't be created, nothing is kept."""
        if self.path is None:
            return Tip()
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            return _tip_in(self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return Tip()
        except OSError as error:
            if not self.path.exists():
                return Tip()
            raise self._failed(error) from None

    def peek(self) -> Tip:
        """What the file says, without creating it."""
        if self.path is None:
            return Tip()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return Tip()
        except OSError as error:
            raise self._failed(error) from None
        try:
            return _tip_in(descriptor)
        except OSError as error:
            raise self._failed(error) from None
        finally:
            os.close(descriptor)

    def read(self) -> Tip:
        """What the open file says now; another process may have written it."""
        try:
            return _tip_in(self._descriptor) if self._descriptor >= 0 else Tip()
        except OSError as error:
            raise self._failed(error) from None

    def write(self, tip: Tip) -> None:
        """Note where the ledger ends, unless the file names a later entry.

        The commit is durable already, so a full disk here does no harm.
        """
        if self._descriptor < 0:
            return
        line = b"%020d %s " % (tip.seq, tip.hash.encode())
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                if self.is_replaceable or _tip_in(self._descriptor).seq < tip.seq:
                    os.pwrite(self._descriptor, line + b"%08x\n" % zlib.crc32(line), 0)
                    self.is_replaceable = False
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _failed(self, error: OSError) -> CannotOpen:
        problem = (
            f"its head file {self.path} can't be read ({error.strerror}); make it readable for this user. It"
            " says which commits were acknowledged, so the store is not used without it"
        )
        return CannotOpen(store=str(self.path), problem=problem)


def _tip_in(descriptor: int) -> Tip:
    """The end of the ledger that a head file holds; an empty one if the file holds none."""
    content = os.pread(descriptor, _LINE_BYTES, 0)
    line = content[: _LINE_BYTES - 9]
    if len(content) < _LINE_BYTES or content[-9:] != b"%08x\n" % zlib.crc32(line):
        return Tip()
    seq, digest = line.split()
    return Tip(seq=int(seq), hash=digest.decode())


def is_left_behind(tip: Tip, branches: list[Branch]) -> bool:
    """Whether a restore left an entry behind, so that the ledger need not have it."""
    return any(one.number and one.shared_seq < tip.seq <= one.left_seq for one in branches)


def lost_entry(tip: Tip, found: str | None, url: str) -> str | None:
    """What is wrong if the ledger has another entry than the one that was acknowledged, or none; else None.

    Args:
        found: The hash of the ledger's entry at the place of the tip.
    """
    if tip.seq == 0 or found == tip.hash:
        return None
    return (
        f"entry {tip.seq} of the ledger was acknowledged and is {'another' if found else 'missing'}; if you"
        f" put an older copy there yourself, run: standfast restore --store {url}"
    )
