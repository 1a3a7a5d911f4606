"""The sidecar cache: decoded segments on disk, for processes that start cold. Deletable at any time, never trusted blindly.

An entry is found by the hash of the very bytes that it was made from, so it can't outlive a change of the store; its own
bytes are hashed too, so that damage shows. Whatever does not fit is passed over, and the block is decoded anew. The file
lies outside the store's folder, is written whole under another name first, and is used only if nobody else could have
written it.
"""

import hashlib
import os
import stat
import sys
from array import array
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from standfast.recall.records import BadLine, Fault
from standfast.recall.sources.segment import BlockLines, Lines, Segment, TagBook

MAGIC: Final = b"standfast-recall-cache/v1\n"


class _Entry(msgspec.Struct, array_like=True, frozen=True):
    """A segment without its lines, which are the store's."""

    first_place: int
    haystack: bytes
    ends: bytes
    times: bytes
    tags: bytes
    sets: list[tuple[str, ...]]
    rows: bytes
    """Numbers of the block's lines that hold a record; empty if all do."""
    bad_lines: list[tuple[int, str, str, str]]
    lines_read: int | None


_Index = dict[bytes, tuple[int, int, bytes]]
"""By a segment's digest: where its entry starts and how long it is, and the hash of the entry."""
_decode_index: Final = msgspec.msgpack.Decoder(_Index).decode
_decode_entry: Final = msgspec.msgpack.Decoder(_Entry).decode
_LENGTH_BYTES: Final = 8


class Sidecar:
    """The cache of one store. One that is missing, damaged or foreign holds nothing."""

    def __init__(self, path: Path | None, content: bytes = b"", index: _Index | None = None) -> None:
        self._path = path
        self._content = content
        self._index = index or {}

    @classmethod
    def opened(cls, folder: Path | None, store_path: str) -> Self:
        """The cache of a store in a folder; an empty one that is never written, without a folder."""
        if folder is None:
            return cls(None)
        path = folder / (hashlib.sha256(store_path.encode()).hexdigest()[:32] + ".recall")
        try:
            content = _own_content(path)
            head = len(MAGIC) + _LENGTH_BYTES
            size = int.from_bytes(content[len(MAGIC) : head], "big")
            index_text, digest = content[head : head + size], content[head + size : head + size + 32]
            if not content.startswith(MAGIC) or hashlib.sha256(index_text).digest() != digest:
                return cls(path)
            return cls(path, content[head + size + 32 :], _decode_index(index_text))
        except (OSError, msgspec.MsgspecError):
            return cls(path)

    def segment(self, digest: bytes, block: bytes) -> Segment | None:
        """The segment that was made from this block, if it is there and whole."""
        start, size, expected = self._index.get(digest, (0, 0, b""))
        content = self._content[start : start + size]
        if not content or hashlib.sha256(content).digest() != expected:
            return None
        try:
            return _segment(_decode_entry(content), block)
        except (msgspec.MsgspecError, ValueError, LookupError):
            return None

    def write(self, segments: Iterable[tuple[bytes, Segment]]) -> None:
        """Replace the cache, as a whole or not at all. A failure is no failure of the read."""
        if self._path is None:
            return
        entries: list[bytes] = []
        index: _Index = {}
        start = 0
        for digest, segment in segments:
            content = msgspec.msgpack.encode(_entry(segment))
            index[digest] = (start, len(content), hashlib.sha256(content).digest())
            entries.append(content)
            start += len(content)
        index_text = msgspec.msgpack.encode(index)
        parts = [MAGIC, len(index_text).to_bytes(_LENGTH_BYTES, "big"), index_text]
        _replace(self._path, [*parts, hashlib.sha256(index_text).digest(), *entries])


def _own_content(path: Path) -> bytes:
    """A file's bytes; an ``OSError`` if somebody else owns it or may write it."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        is_ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        if not is_ours or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError("somebody else could have written it")
        return file.read()


def _replace(path: Path, parts: list[bytes]) -> None:
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _packed(code: str, numbers: Iterable[int]) -> bytes:
    return _little_endian(array(code, numbers)).tobytes()


def _unpacked(code: str, content: bytes) -> "array[int]":
    numbers = array(code)
    numbers.frombytes(content)
    return _little_endian(numbers)


def _entry(segment: Segment) -> _Entry:
    used = sorted(set(segment.tags))
    numbers = {number: place for place, number in enumerate(used)}
    rows = (place - segment.first_place for place in segment.places)
    return _Entry(
        first_place=segment.first_place,
        haystack=segment.haystack,
        ends=_packed("I", segment.ends),
        times=_packed("q", segment.times),
        tags=_packed("I", (numbers[number] for number in segment.tags)),
        sets=[segment.book.sets[number] for number in used],
        rows=_packed("I", rows),
        bad_lines=[
            (int(bad.place), bad.memory_id, bad.record_hash, bad.fault.name) for bad in segment.bad_lines
        ],
        lines_read=segment.lines_read,
    )


def _segment(entry: _Entry, block: bytes) -> Segment:
    """The segment of an entry; any contradiction between its columns is a ``ValueError``."""
    rows = _unpacked("I", entry.rows)
    of_block = BlockLines(block)
    lines = Lines.of([of_block[row] for row in rows] if entry.bad_lines or rows else of_block)
    columns = _unpacked("I", entry.ends), _unpacked("q", entry.times), _unpacked("I", entry.tags)
    if {len(lines)} != {len(column) for column in columns} or max(columns[2], default=0) >= max(
        1, len(entry.sets)
    ):
        raise ValueError("columns of different lengths")
    return Segment(
        lines=lines,
        haystack=entry.haystack,
        ends=columns[0],
        stamps=(),
        times=columns[1],
        tags=columns[2],
        book=TagBook(entry.sets or [()]),
        first_place=entry.first_place,
        places=array("Q", (entry.first_place + row for row in rows)),
        bad_lines=[
            BadLine(place, name, digest, Fault[fault]) for place, name, digest, fault in entry.bad_lines
        ],
        lines_read=entry.lines_read,
    )
