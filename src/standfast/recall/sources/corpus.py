"""JSONL files that are read again and again: kept in memory, extended when a file grows, rebuilt when it changed otherwise.

A file whose status (identity, size, times of change) is what it was is not read again. Any other is read and compared, block
by block, with the hashes of what is kept; only blocks that differ are decoded. So a result never depends on what was kept.
"""

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from standfast.errors import InvalidRequest
from standfast.limits import READ_CHUNK_BYTES
from standfast.recall.sources.decoding import Decoder
from standfast.recall.sources.jsonl import LongLine, blocks, open_store_file, read_chunks, unreadable
from standfast.recall.sources.segment import Segment
from standfast.recall.sources.sidecar import Sidecar

_Status = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class KeptSegment:
    """A segment, and the hash of the bytes that it was made from."""

    digest: bytes
    segment: Segment


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file as it was when it was last read. A source."""

    store_path: str
    status: _Status
    kept: tuple[KeptSegment, ...]

    def segments(self) -> Iterator[Segment]:
        """The records in runs, in the order of their lines."""
        return (kept.segment for kept in self.kept)


class Corpus:
    """Keeps the files that it opens. ``open`` is an opener for ``controller.read``. Safe to share between threads.

    With a cache folder, what was decoded is kept there as well, for the next process; a folder that can't be used is as
    good as none. It must not be a folder of the stores: those are never written to.
    """

    def __init__(self, *, cache_folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if cache_folder is None else Path(cache_folder)
        self._lock = threading.Lock()
        self._files: dict[str, KeptFile] = {}

    def open(self, store_path: str) -> KeptFile:
        """A JSONL file as a source; nothing is read if it is as it was."""
        if self._folder is not None and self._folder.resolve() == Path(store_path).resolve().parent:
            raise InvalidRequest(
                field="cache_folder", problem=f"it is the folder of the store {store_path}; choose another"
            )
        with self._lock:
            descriptor, found = open_store_file(store_path)
            try:
                status = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                known = self._files.get(store_path)
                if known is None or known.status != status:
                    kept = self._read(store_path, descriptor, found.st_size, known)
                    known = self._files[store_path] = KeptFile(store_path, status, kept)
            except OSError as error:
                raise unreadable(store_path, error) from None
            finally:
                os.close(descriptor)
            return known

    def _read(
        self, store_path: str, descriptor: int, size: int, known: KeptFile | None
    ) -> tuple[KeptSegment, ...]:
        """Every block of a file: as it was kept in memory, as the cache has it, or decoded anew."""
        sidecar = Sidecar.opened(self._folder, store_path)
        in_memory = {kept.digest: kept for kept in known.kept} if known is not None else {}
        decoder, place = Decoder(), 1
        found: list[KeptSegment] = []
        is_new = False
        for block in blocks(read_chunks(descriptor, size, READ_CHUNK_BYTES)):
            digest = _digest(block, place)
            kept = in_memory.get(digest)
            if kept is None:
                segment = None if isinstance(block, LongLine) else sidecar.segment(digest, block)
                if segment is None:
                    is_new = True
                    segment = _decoded(decoder, block, place).kept()
                kept = KeptSegment(digest, segment)
            found.append(kept)
            place = kept.segment.next_place
        if is_new:
            sidecar.write((kept.digest, kept.segment) for kept in found)
        return tuple(found)


def _digest(block: bytes | LongLine, place: int) -> bytes:
    """What a segment is kept under: the bytes that it was made from, and where they stand."""
    digest = hashlib.sha256(b"%d " % place)
    digest.update(block.digest.encode() if isinstance(block, LongLine) else block)
    return digest.digest()


def _decoded(decoder: Decoder, block: bytes | LongLine, place: int) -> Segment:
    if isinstance(block, LongLine):
        return decoder.segment(b"\n", first_place=place).with_bad_line(block.at(place))
    return decoder.segment(block, first_place=place)
