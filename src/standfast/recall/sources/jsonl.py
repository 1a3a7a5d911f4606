"""JSONL files as sources: read only, in pieces of bounded size, up to where the file ended when it was opened.

A file is never locked and never written. What is appended after it was opened is not seen; a line that was being written
just then is a bad last line, as every JSON object that is cut short is.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from standfast.errors import MissingStore, UnreadableStore
from standfast.limits import BLOCK_BYTES, MAX_VALUE_BYTES, READ_CHUNK_BYTES
from standfast.recall.records import BadLine, Fault
from standfast.recall.sources.decoding import Decoder
from standfast.recall.sources.proved import ProvedBlock
from standfast.recall.sources.segment import Segment

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# A named pipe must be refused, not waited for; elsewhere the flags that do not exist are not needed.
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
)


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is too long to be gathered, and the hash of its bytes."""

    digest: str

    def at(self, place: int) -> BadLine:
        """What is told of it."""
        return BadLine(place, "", self.digest, Fault.TOO_LONG)


class JsonlSource:
    """A JSONL file, read anew each time. ``MissingStore`` or ``UnreadableStore`` if there is none to read."""

    def __init__(self, store_path: str, *, chunk_bytes: int = READ_CHUNK_BYTES) -> None:
        self.store_path = store_path
        self._chunk_bytes = chunk_bytes
        os.close(open_store_file(store_path)[0])

    def segments(self) -> Iterator[Segment | ProvedBlock]:
        """The records in runs, in the order of their lines."""
        descriptor, status = open_store_file(self.store_path)
        try:
            yield from segments_of(read_chunks(descriptor, status.st_size, self._chunk_bytes))
        except OSError as error:
            raise unreadable(self.store_path, error) from None
        finally:
            os.close(descriptor)


def open_store_file(store_path: str) -> tuple[int, os.stat_result]:
    """A file's descriptor, and what it was when it was opened; an error of ours if that can't be."""
    try:
        descriptor = os.open(store_path, _FLAGS)
    except OSError as error:
        raise unreadable(store_path, error) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UnreadableStore(store_path=store_path, problem="it is not a file")
    return descriptor, status


def unreadable(store_path: str, error: OSError) -> MissingStore | UnreadableStore:
    """The system's refusal in words of ours, which are the same in every language that the system speaks."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingStore(store_path=store_path)
    if isinstance(error, PermissionError):
        return UnreadableStore(store_path=store_path, problem="permission denied")
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return UnreadableStore(store_path=store_path, problem=f"the system says {name}")


def read_chunks(descriptor: int, size_bytes: int, chunk_bytes: int) -> Iterator[bytes]:
    """The first bytes of an open file, in chunks; fewer, if it was cut in the meantime."""
    left = size_bytes
    while left > 0 and (chunk := os.read(descriptor, min(chunk_bytes, left))):
        yield chunk
        left -= len(chunk)


def segments_of(chunks: Iterator[bytes]) -> Iterator[Segment | ProvedBlock]:
    """The records of a file, from its bytes."""
    decoder, place = Decoder(), 1
    for block in blocks(chunks):
        if isinstance(block, LongLine):
            segment: Segment | ProvedBlock
            segment = decoder.segment(b"\n", first_place=place).with_bad_line(block.at(place))
        else:
            segment = decoder.proved(block, first_place=place)
        place = segment.next_place
        yield segment
        # What was looked at is let go before more is read: two blocks and their rows do not fit a processor's cache.
        del block, segment


def blocks(chunks: Iterator[bytes]) -> Iterator[bytes | LongLine]:
    """Whole lines, each with its end, from chunks that may be cut anywhere."""
    rest = b""
    chunks = _without_mark(chunks)
    for given in chunks:
        chunk = given
        if len(rest) > MAX_VALUE_BYTES + 1:
            long_line, chunk = _skip_line(rest, chunk, chunks)
            yield long_line
            rest = b""
        has_returns, start = b"\r" in chunk or b"\r" in rest, 0
        while cut := chunk.rfind(b"\n", start, start + BLOCK_BYTES) + 1 or chunk.find(b"\n", start) + 1:
            block = b"".join((rest, memoryview(chunk)[start:cut]))
            rest, start = b"", cut
            yield block.replace(b"\r\n", b"\n") if has_returns else block
            del block
        rest += chunk[start:]
        del chunk, given
    if rest:
        yield rest.removesuffix(b"\r") + b"\n"


def _without_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes without a byte-order mark at their start."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(BYTE_ORDER_MARK):
            break
    yield head.removeprefix(BYTE_ORDER_MARK)
    yield from chunks


def _skip_line(start: bytes, chunk: bytes, chunks: Iterator[bytes]) -> tuple[LongLine, bytes]:
    """A line that is too long, hashed as it passes by, and what stands after it in the last chunk."""
    digest = hashlib.sha256()
    held = start
    while chunk and b"\n" not in chunk:
        # The last byte is held back: a carriage return before the line's end is no part of the line.
        digest.update(held[:-1])
        held, chunk = held[-1:] + chunk, next(chunks, b"")
    last, _, after = chunk.partition(b"\n")
    digest.update((held + last).removesuffix(b"\r"))
    return LongLine(digest.hexdigest()), after
