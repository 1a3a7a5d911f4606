"""The vectors of a segment's rows as bytes, so that a process reads them in a few large pieces.

They are copies of what the table of vectors has, made when the segment is made::

    vectors        the embedders, up to which snapshot the table was read, and which snapshots of the segment
                   added vectors to rows that are older than they are
    vectors/E      of embedder number E: the rows with vectors, how many passages each has, and since when
    vectors/E/P    their bytes, piece P: the passages of one row behind those of the other

A vector that was filled in after the segment was made is read from the table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from standfast.recall.arrays import Numbers
from standfast.store.protocol import CHECKSUM_BYTES, Vector

LIST_PART: Final = "vectors"
PIECE_BYTES: Final = 1 << 18


class VectorList(msgspec.Struct, frozen=True):
    """What a segment has of vectors."""

    until: int
    """Vectors that later snapshots added are not here."""
    embedders: list[str] = []
    pieces: list[int] = []
    """How many pieces each embedder has."""
    late: list[int] = []
    """The snapshots of the segment that added vectors to older rows, which may be those of other segments."""

    def names(self, embedder: str) -> list[str]:
        """The parts of an embedder, its list of rows first; none if it has no vectors here."""
        if embedder not in self.embedders:
            return []
        number = self.embedders.index(embedder)
        return [
            f"{LIST_PART}/{number}",
            *(f"{LIST_PART}/{number}/{piece}" for piece in range(self.pieces[number])),
        ]


decode_list: Final = msgspec.json.Decoder(VectorList).decode


@dataclass(frozen=True, slots=True)
class VectorRows:
    """The vectors of one embedder in a segment: its rows in order, the passages of each, and since when."""

    rows: Numbers
    passages: Numbers
    since: Numbers
    content: bytes

    @classmethod
    def of(cls, parts: Sequence[bytes]) -> "VectorRows":
        """From the expanded parts that ``VectorList.names`` names."""
        listed, *pieces = parts
        rows, passages, since = np.frombuffer(listed, "<i8").reshape(3, -1)
        return cls(rows, passages, since, b"".join(pieces))

    def by_row(self, embedder: str) -> dict[int, tuple[int, bytes]]:
        """Since when each row has its vector, and its bytes."""
        ends = np.cumsum(self.passages * dimensions_of(embedder)).tolist()
        pieces = [self.content[start:end] for start, end in pairwise([0, *ends])]
        return dict(zip(self.rows.tolist(), zip(self.since.tolist(), pieces, strict=True), strict=True))

    def encoded(self, number: int) -> dict[str, bytes]:
        """The parts of the embedder with a number."""
        listed = np.stack([self.rows, self.passages, self.since]).astype("<i8").tobytes()
        pieces = range(0, len(self.content), PIECE_BYTES)
        return {f"{LIST_PART}/{number}": listed} | {
            f"{LIST_PART}/{number}/{piece}": self.content[at : at + PIECE_BYTES]
            for piece, at in enumerate(pieces)
        }


def vector_parts(
    vectors: Iterable[Vector], row_of: Mapping[tuple[str, int], int], *, last: int, until: int
) -> dict[str, bytes]:
    """The parts of a segment's vectors.

    Args:
        vectors: What the snapshots from its first one to ``until`` added in its band.
        row_of: Its rows by key and snapshot.
        last: The last snapshot of the segment.
    """
    found: dict[str, list[tuple[int, Vector]]] = {}
    late: set[int] = set()
    for one in vectors:
        if one.since != one.memory_snapshot_id and one.since <= last:
            late.add(one.since)
        row = row_of.get((one.key, one.memory_snapshot_id))
        if row is not None:
            found.setdefault(one.embedder, []).append((row, one))
    parts: dict[str, bytes] = {}
    pieces = []
    embedders = sorted(found)
    for number, embedder in enumerate(embedders):
        listed = sorted(found[embedder], key=lambda pair: pair[0])
        contents = [one.content[:-CHECKSUM_BYTES] for _, one in listed]
        dimensions = dimensions_of(embedder)
        of_embedder = VectorRows(
            np.array([row for row, _ in listed], dtype=np.int64),
            np.array([len(content) // dimensions for content in contents], dtype=np.int64),
            np.array([one.since for _, one in listed], dtype=np.int64),
            b"".join(contents),
        ).encoded(number)
        parts |= of_embedder
        pieces.append(len(of_embedder) - 1)
    parts[LIST_PART] = msgspec.json.encode(VectorList(until, embedders, pieces, sorted(late)))
    return parts


def dimensions_of(embedder: str) -> int:
    """The dimensions of an embedder, with which its identity ends."""
    return int(embedder.rpartition("/")[2])


def without_vectors(number: int, embedder: str, parts: Sequence[bytes], rows: Numbers) -> dict[str, bytes]:
    """Those parts of an embedder that change when the vectors of rows become zeros.

    Args:
        parts: The expanded parts that ``VectorList.names`` names.
    """
    found = VectorRows.of(parts)
    sizes = found.passages * dimensions_of(embedder)
    starts = np.cumsum(sizes) - sizes
    content = np.frombuffer(found.content, dtype=np.uint8).copy()
    touched: set[int] = set()
    for at in np.flatnonzero(np.isin(found.rows, rows)).tolist():
        start, end = int(starts[at]), int(starts[at] + sizes[at])
        content[start:end] = 0
        touched.update(range(start // PIECE_BYTES, -(-end // PIECE_BYTES)))
    return {
        f"{LIST_PART}/{number}/{piece}": content[piece * PIECE_BYTES :][:PIECE_BYTES].tobytes()
        for piece in sorted(touched)
    }
