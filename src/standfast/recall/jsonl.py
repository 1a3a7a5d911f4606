"""JSONL files as sources: read-only, in blocks of bounded size, up to the end at their opening.

A file is never locked and never written. What is appended after it was opened is not seen. A last line that
is still being written is a bad line, because a JSON object that is cut short is not JSON.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from standfast.errors import UnreadableStore
from standfast.limits import BLOCK_BYTES, MAX_VALUE_BYTES, READ_CHUNK_BYTES
from standfast.recall.candidates import BadLine, Candidate, Fault, bad_line, read_block

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# O_NONBLOCK refuses a named pipe instead of waiting for its writer. Flags that a platform lacks are not
# needed there.
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
)


class Source(Protocol):
    """A store that can be read. Reading it twice gives the same records."""

    @property
    def store_path(self) -> str:
        """The name that records of this source carry in a package."""
        ...

    def batches(self) -> Iterator[Sequence[Candidate | BadLine]]:
        """Yield every record once, and every line that holds none, in read order, in batches of any size."""
        ...


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is too long to be read into memory, and the hash of its bytes."""

    digest: str


class JsonlSource:
    """A JSONL file that is read anew each time.

    Raises:
        UnreadableStore: There is no such file, it is not a regular one, or it may not be read.
    """

    def __init__(self, store_path: str, *, chunk_bytes: int = READ_CHUNK_BYTES) -> None:
        self.store_path = store_path
        self._chunk_bytes = chunk_bytes
        os.close(open_store_file(store_path)[0])

    def batches(self) -> Iterator[Sequence[Candidate | BadLine]]:
        """Yield the records in the order of their lines."""
        descriptor, status = open_store_file(self.store_path)
        place = 1
        try:
            for block in blocks(read_chunks(descriptor, status.st_size, self._chunk_bytes)):
                yield _read(block, place)
                place += _count_lines(block)
        except OSError as error:
            raise unreadable(self.store_path, error) from None
        finally:
            os.close(descriptor)


def _read(block: bytes | LongLine, first_place: int) -> list[Candidate | BadLine]:
    if isinstance(block, LongLine):
        return [BadLine(first_place, "", block.digest, Fault.TOO_LONG)]
    found = read_block(block)
    if set(map(type, found)) == {Candidate}:
        return cast("list[Candidate | BadLine]", found)
    lines = block.split(b"\n")
    return [
        bad_line(lines[row], first_place + row, record) if isinstance(record, Fault) else record
        for row, record in enumerate(found)
        if record is not None
    ]


def _count_lines(block: bytes | LongLine) -> int:
    return 1 if isinstance(block, LongLine) else block.count(b"\n")


def open_store_file(store_path: str) -> tuple[int, os.stat_result]:
    """Open a regular file and return its descriptor and its status at that time."""
    try:
        descriptor = os.open(store_path, _FLAGS)
    except OSError as error:
        raise unreadable(store_path, error) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UnreadableStore(store_path=store_path, problem="it is not a file")
    return descriptor, status


def unreadable(store_path: str, error: OSError) -> UnreadableStore:
    """Translate an error of the system into one whose message is the same in every locale."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return UnreadableStore("recall_missing_store", store_path=store_path)
    if isinstance(error, PermissionError):
        return UnreadableStore(store_path=store_path, problem="permission denied")
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return UnreadableStore(store_path=store_path, problem=f"the system says {name}")


def read_chunks(descriptor: int, size_bytes: int, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the first bytes of an open file in chunks; fewer, if it was truncated in the meantime."""
    left = size_bytes
    while left > 0 and (chunk := os.read(descriptor, min(chunk_bytes, left))):
        yield chunk
        left -= len(chunk)


def blocks(chunks: Iterator[bytes]) -> Iterator[bytes | LongLine]:
    """Yield whole lines, each with its end, in blocks, from chunks that may be cut anywhere."""
    rest = b""
    chunks = _without_byte_order_mark(chunks)
    for given in chunks:
        chunk = given
        if len(rest) > MAX_VALUE_BYTES + 1:
            long_line, chunk = _skip_line(rest, chunk, chunks)
            yield long_line
            rest = b""
        has_returns, start = b"\r" in chunk or b"\r" in rest, 0
        while cut := chunk.rfind(b"\n", start, start + BLOCK_BYTES) + 1 or chunk.find(b"\n", start) + 1:
            block = rest + chunk[start:cut]
            rest, start = b"", cut
            yield block.replace(b"\r\n", b"\n") if has_returns else block
        rest += chunk[start:]
    if rest:
        yield rest.removesuffix(b"\r") + b"\n"


def _without_byte_order_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(BYTE_ORDER_MARK):
            break
    yield head.removeprefix(BYTE_ORDER_MARK)
    yield from chunks


def _skip_line(start: bytes, chunk: bytes, chunks: Iterator[bytes]) -> tuple[LongLine, bytes]:
    """Hash a line that is too long as it passes by; return it, and what comes after it in its last chunk."""
    digest = hashlib.sha256()
    held = start
    while chunk and b"\n" not in chunk:
        # The last byte is held back: a carriage return before the line's end is no part of the line.
        digest.update(held[:-1])
        held, chunk = held[-1:] + chunk, next(chunks, b"")
    last, _, after = chunk.partition(b"\n")
    digest.update((held + last).removesuffix(b"\r"))
    return LongLine(digest.hexdigest()), after
