"""Segments of the index of ``lexical-v1`` as bytes: postings in blocks of terms, columns of rows, and keys.

A segment holds the rows of one band for a range of snapshots, in the order of snapshot, checksum of the key,
and key. Its content is decided by the records alone, however it came about, so that it can be compared with
them. Every part carries a checksum over its name and its segment.

    columns   the numbers of each row, in as few bytes as they need
    crc       the checksum of each key, to find a row by its key; read when one is looked for
    tables    the scopes and threads that columns number, ids that differ from the key's, and which older rows
              end here
    blocks    the first and the last term of each block
    post/N    block N: its terms, and for each the rows and how often it is in them
    keys/N    the keys of the rows from N times 64 on, without their band
    gone      the rows that were erased since: their words and keys are in no part any more
    vectors…  the vectors of the rows; see ``vector_parts``
"""

import hashlib
import struct
import zlib
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from standfast.limits import MAX_SEGMENT_ROWS
from standfast.recall.analysis import COLUMNS, FREQUENCY_BITS, MAX_FREQUENCY
from standfast.recall.arrays import Numbered, Numbers
from standfast.recall.index.vector_parts import LIST_PART, VectorList, decode_list, without_vectors
from standfast.store.protocol import PartName, PartReader, SegmentHead

_Name = TypeVar("_Name", bound=Hashable)
FORMAT: Final = "lexical-segment-6"
NEVER: Final = (1 << 62) - 1
KEYS_A_PART: Final = 64
_BLOCK_BYTES: Final = 1 << 12
_DIGEST_BYTES: Final = 8
_WIDTHS: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<i8"),
}
assert MAX_SEGMENT_ROWS <= 1 << 16, "a row of a segment fits two bytes"


class SegmentLost(Exception):
    """A part of a segment is missing or damaged. Its rows have to be read from the records."""

    def __init__(self, segment_id: str, problem: str, *, is_damaged: bool) -> None:
        super().__init__(problem)
        self.segment_id = segment_id
        self.is_damaged = is_damaged


class RowEnd(NamedTuple):
    """A row of another segment ends with a snapshot: that of a key that an earlier snapshot wrote."""

    previous: int
    place: str
    snapshot: int


class SegmentTables(msgspec.Struct, frozen=True):
    """What the columns of a segment number, and its exceptions."""

    scopes: list[str]
    threads: list[tuple[str, str]]
    """Scope and session."""
    ids: dict[int, tuple[str, str]]
    """The scope and id of rows whose key says something else."""
    ends: list[RowEnd]


@dataclass(slots=True)
class SegmentRows:
    """The content of a segment: rows, postings by term, and which older rows end in its snapshots.

    ``packed`` has the postings of all terms one after the other, ``lengths`` how many each term has.
    """

    columns: dict[str, Numbers]
    places: list[str]
    tables: SegmentTables
    terms: list[str]
    lengths: Numbers
    packed: Numbers

    def __len__(self) -> int:
        return len(self.places)

    @property
    def crcs(self) -> Numbers:
        """The checksum of each key."""
        return np.array([crc_of(place) for place in self.places], dtype=np.int64)

    def encoded(self) -> dict[str, bytes]:
        """The parts, compressed, without the checksums that ``sealed`` adds."""
        parts = {
            "columns": _encoded_columns(self.columns),
            "crc": self.crcs.astype("<u4").tobytes(),
            "gone": b"",
            "tables": msgspec.json.encode(self.tables),
        }
        for at in range(0, len(self.places), KEYS_A_PART):
            parts[f"keys/{at // KEYS_A_PART}"] = "\n".join(self.places[at : at + KEYS_A_PART]).encode()
        bounds = []
        for number, (start, end) in enumerate(_block_bounds(self.terms, self.lengths)):
            bounds += [self.terms[start], self.terms[end - 1]]
            parts[f"post/{number}"] = self._block(start, end)
        parts["blocks"] = "\n".join(bounds).encode()
        return parts

    def _block(self, start: int, end: int) -> bytes:
        before, lengths = int(self.lengths[:start].sum()), self.lengths[start:end]
        packed = self.packed[before : before + int(lengths.sum())]
        return _encoded_block(self.terms[start:end], lengths, packed)


def _encoded_block(names: Sequence[str], lengths: Numbers, packed: Numbers) -> bytes:
    """A block of terms with how many postings each has, and these."""
    rows, counts = packed >> FREQUENCY_BITS, packed & MAX_FREQUENCY
    steps = np.diff(rows, prepend=0)
    starts = np.cumsum(lengths) - lengths
    steps[starts] = rows[starts]
    terms = "\n".join(names).encode()
    width = _width_of(counts)
    return b"".join(
        [
            struct.pack("<IIIB", len(names), len(terms), len(packed), width),
            terms,
            lengths.astype("<u4").tobytes(),
            (steps & 0xFF).astype("<u1").tobytes(),
            (steps >> 8).astype("<u1").tobytes(),
            counts.astype(_WIDTHS[width]).tobytes(),
        ]
    )


def crc_of(place: str) -> int:
    """The checksum by which a row is found."""
    return zlib.crc32(place.encode())


def id_of(named: Sequence[str | int], parts: Mapping[str, bytes]) -> str:
    """The id of a segment with these encoded parts."""
    digest = hashlib.blake2b(msgspec.json.encode(named), digest_size=16)
    for name in sorted(parts):
        digest.update(msgspec.json.encode([name, len(parts[name])]) + parts[name])
    return digest.hexdigest()


def sealed(segment_id: str, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Encoded parts as they are stored: compressed, each with its checksum."""
    # Pieces of vectors are as good as random.
    levels = {name: 0 if name.count("/") == 2 else 6 for name in parts}
    compressed = {name: zlib.compress(part, levels[name]) for name, part in parts.items()}
    return {name: _digest(segment_id, name, part) + part for name, part in compressed.items()}


def _digest(segment_id: str, name: str, content: bytes) -> bytes:
    named = f"{segment_id}\0{name}\0".encode()
    return hashlib.blake2b(named + content, digest_size=_DIGEST_BYTES).digest()


def _width_of(values: Numbers) -> int:
    greatest = int(values.max(initial=0))
    return 1 if greatest < 1 << 8 else 2 if greatest < 1 << 16 else 4 if greatest < 1 << 32 else 8


def _encoded_columns(columns: Mapping[str, Numbers]) -> bytes:
    """All columns, each as steps from its least value, and snapshots and times as steps from row to row."""
    encoded = []
    for name in COLUMNS:
        values = columns[name]
        if name in ("first", "time"):
            values = np.diff(values, prepend=0)
        elif name == "end":
            values = np.where(values == NEVER, 0, values - columns["first"])
        least = int(values.min(initial=0))
        values = values - least
        width = _width_of(values)
        encoded += [struct.pack("<qB", least, width), values.astype(_WIDTHS[width]).tobytes()]
    return b"".join(encoded)


def _decoded_columns(raw: bytes, rows: int) -> dict[str, Numbers]:
    columns: dict[str, Numbers] = {}
    at = 0
    for name in COLUMNS:
        least, width = struct.unpack_from("<qB", raw, at)
        values = np.frombuffer(raw, _WIDTHS[width], rows, at + 9).astype(np.int64) + least
        at += 9 + rows * width
        if name in ("first", "time"):
            values = np.cumsum(values)
        elif name == "end":
            values = np.where(values == 0, NEVER, values + columns["first"])
        columns[name] = values
    return columns


def _block_bounds(terms: Sequence[str], lengths: Numbers) -> list[tuple[int, int]]:
    """Which terms stand together in a block: as many as fill some bytes. A longer one stands alone."""
    if not terms:
        return []
    sizes = 2 * lengths + np.array([len(term) for term in terms], dtype=np.int64)
    numbers = (np.cumsum(sizes) - sizes) // _BLOCK_BYTES
    is_large = sizes > _BLOCK_BYTES
    is_start = (np.diff(numbers) > 0) | is_large[1:] | is_large[:-1]
    bounds = [0, *(np.flatnonzero(is_start) + 1).tolist(), len(terms)]
    return list(pairwise(bounds))


class Block(NamedTuple):
    """Some terms in order, with how many rows each has, the rows as steps from one to the next, and how often
    it is in each.
    """

    names: bytes
    """The terms, each behind a line feed, and one at the end."""
    lengths: Numbers
    low: npt.NDArray[np.uint8]
    """The low and the high bytes of the steps."""
    high: npt.NDArray[np.uint8]
    counts: npt.NDArray[Any]

    @classmethod
    def of(cls, raw: bytes) -> "Block":
        """The block of a part."""
        count, size, postings, width = struct.unpack_from("<IIIB", raw)
        at = 13 + size
        lengths = np.frombuffer(raw, "<u4", count, at).astype(np.int64)
        at += 4 * count
        low = np.frombuffer(raw, "<u1", postings, at)
        high = np.frombuffer(raw, "<u1", postings, at + postings)
        counts = np.frombuffer(raw, _WIDTHS[width], postings, at + 2 * postings)
        return cls(b"\n" + raw[13 : 13 + size] + b"\n", lengths, low, high, counts)

    @property
    def terms(self) -> list[str]:
        """The terms, in order."""
        return self.names[1:-1].decode().split("\n") if len(self.lengths) else []

    @property
    def packed(self) -> Numbers:
        """Rows and counts of all postings."""
        steps = self.steps(0, len(self.low))
        sums = np.cumsum(steps)
        starts = np.cumsum(self.lengths) - self.lengths
        # Each term counts its rows from 0, so the sum of all steps before it is taken off.
        before = np.repeat(sums[starts] - steps[starts], self.lengths)
        packed: Numbers = (sums - before) << FREQUENCY_BITS | self.counts.astype(np.int64)
        return packed

    def matching(self, term: str, *, as_prefix: bool = False) -> Iterator[tuple[Numbers, Numbers]]:
        """The rows of a term, or of each that begins with it, and the counts there."""
        found = self.names.find(f"\n{term}".encode() + (b"" if as_prefix else b"\n"))
        number = self.names.count(b"\n", 0, max(0, found))
        while found >= 0:
            yield self.postings(number)
            found = self.names.find(f"\n{term}".encode(), found + 1) if as_prefix else -1
            number += 1

    def postings(self, number: int) -> tuple[Numbers, Numbers]:
        """The rows of the term with this number, and the counts there."""
        start = int(self.lengths[:number].sum())
        end = start + int(self.lengths[number])
        return np.cumsum(self.steps(start, end)), self.counts[start:end].astype(np.int64)

    def steps(self, start: int, end: int) -> Numbers:
        """The steps of some postings."""
        steps: Numbers = self.low[start:end] | self.high[start:end].astype(np.int64) << 8
        return steps


def expanded(name: PartName, stored: Mapping[PartName, bytes]) -> bytes:
    """A part that was read, checked and expanded; ``SegmentLost`` if it is missing or damaged."""
    segment_id, part = name
    if name not in stored:
        raise SegmentLost(segment_id, f"its part {part} is missing", is_damaged=False)
    digest, content = stored[name][:_DIGEST_BYTES], stored[name][_DIGEST_BYTES:]
    if digest != _digest(segment_id, part, content):
        raise SegmentLost(segment_id, f"its part {part} does not match its checksum", is_damaged=True)
    return zlib.decompress(content)


def checksums_in(raw: bytes) -> Numbers:
    """The checksums of the part ``crc``."""
    return np.frombuffer(raw, "<u4").astype(np.int64)


class Segment:
    """A stored segment. Its columns are read when it is opened, its postings and keys by whoever needs them.

    Args:
        stored: At least the parts that ``needed`` names.
    """

    OPENED: Final = ("columns", "tables", "blocks", "gone")

    def __init__(self, head: SegmentHead, stored: Mapping[PartName, bytes]) -> None:
        self.head = head
        columns, tables, blocks, gone = (expanded((head.segment_id, name), stored) for name in self.OPENED)
        self.columns = _decoded_columns(columns, head.rows)
        self.gone: Numbers = np.frombuffer(gone, "<u4").astype(np.int64)
        """The rows that were erased since, in order."""
        # No snapshot shows them.
        self.columns["end"][self.gone] = self.columns["first"][self.gone]
        self.tables = _decode_tables(tables)
        terms = blocks.decode().split("\n") if blocks else []
        self._first_terms, self._last_terms = terms[::2], terms[1::2]

    @classmethod
    def needed(cls, heads: Iterable[SegmentHead]) -> list[PartName]:
        """The parts that opening segments takes."""
        return [(head.segment_id, name) for head in heads for name in cls.OPENED]

    def blocks_of(self, term: str, *, as_prefix: bool = False) -> list[PartName]:
        """The parts that may have the postings of a term, or of all that begin with it."""
        start = end = bisect_left(self._last_terms, term)
        while end < len(self._first_terms) and (
            self._first_terms[end] <= term or (as_prefix and self._first_terms[end].startswith(term))
        ):
            end += 1
        return [(self.head.segment_id, f"post/{number}") for number in range(start, end)]

    def vector_list(self, read: PartReader) -> VectorList:
        """Which vectors there are."""
        name = (self.head.segment_id, LIST_PART)
        return decode_list(expanded(name, read([name])))

    def vector_parts(self, embedder: str, read: PartReader) -> list[bytes]:
        """The vectors of an embedder, as ``VectorRows.of`` takes them; nothing if there are none."""
        names = [(self.head.segment_id, name) for name in self.vector_list(read).names(embedder)]
        stored = read(names)
        return [expanded(name, stored) for name in names]

    @property
    def crc_part(self) -> PartName:
        """The part with the checksums of the keys; see ``checksums_in``."""
        return self.head.segment_id, "crc"

    def keys_part(self, row: int) -> PartName:
        """The part with the key of a row; it is at ``row % KEYS_A_PART`` there."""
        return self.head.segment_id, f"keys/{row // KEYS_A_PART}"

    def all_parts(self) -> list[PartName]:
        """The names of all parts but those that were read already."""
        keys = [f"keys/{number}" for number in range(-(-self.head.rows // KEYS_A_PART))]
        posts = [f"post/{number}" for number in range(len(self._first_terms))]
        return [(self.head.segment_id, name) for name in ["crc", *keys, *posts]]

    def rows(self, stored: Mapping[PartName, bytes]) -> SegmentRows:
        """The content without what was erased since, from ``all_parts``: what the records give now."""
        places: list[str] = []
        blocks: list[Block] = []
        for name in self.all_parts():
            raw = expanded(name, stored)
            if name[1].startswith("keys/"):
                places += raw.decode().split("\n")
            elif name[1].startswith("post/"):
                blocks.append(Block.of(raw))
        lengths = np.concatenate([block.lengths for block in blocks] or [_NO_NUMBERS])
        rows = SegmentRows(
            columns=self.columns,
            places=places,
            tables=self.tables,
            terms=[term for block in blocks for term in block.terms],
            lengths=lengths,
            packed=np.concatenate([block.packed for block in blocks] or [_NO_NUMBERS]),
        )
        return _without(rows, self.gone) if len(self.gone) else rows


_NO_NUMBERS: Final[Numbers] = np.zeros(0, dtype=np.int64)
_decode_tables: Final = msgspec.json.Decoder(SegmentTables).decode


def tombstoned(
    head: SegmentHead, erased: Collection[tuple[str, int]], read: PartReader
) -> dict[str, bytes] | None:
    """The parts of a segment that change when versions are erased, without a byte of their words and keys; a
    ``SegmentEraser`` of the store.

    Every block is looked through, so that nothing depends on how a text was analysed. None if the segment is
    damaged or of another format, so that it has to be dropped.
    """
    if not head.analysis.startswith(f"{FORMAT};"):
        return None
    try:
        segment = Segment(head, read(Segment.needed([head])))
        stored = read(segment.all_parts())
        rows = _rows_erased(segment, erased, stored)
        changed = _without_words(segment, rows, stored) | _without_keys(segment, rows, stored)
        changed |= _without_vectors(segment, rows, read)
    except SegmentLost:
        return None
    gone = np.union1d(segment.gone, rows)
    if len(gone) == len(segment.gone):
        return {}
    changed["gone"] = gone.astype("<u4").tobytes()
    return sealed(head.segment_id, changed)


def _rows_erased(
    segment: "Segment", erased: Collection[tuple[str, int]], stored: Mapping[PartName, bytes]
) -> Numbers:
    """The rows of versions, each given by its key without the band and its snapshot."""
    crcs, firsts = checksums_in(expanded(segment.crc_part, stored)), segment.columns["first"]
    snapshots = np.array([snapshot for _, snapshot in erased], dtype=np.int64)
    bounds = (np.searchsorted(firsts, snapshots, side).tolist() for side in ("left", "right"))
    places: dict[PartName, list[str]] = {}
    found: list[int] = []
    for (place, _), low, high in zip(erased, *bounds, strict=True):
        # Rows are in the order of snapshot and checksum.
        alike = low + np.flatnonzero(crcs[low:high] == crc_of(place))
        for row in alike.tolist():
            name = segment.keys_part(row)
            if name not in places:
                places[name] = expanded(name, stored).decode().split("\n")
            if places[name][row % KEYS_A_PART] == place:
                found.append(row)
    return np.array(sorted(found), dtype=np.int64)


def _without_words(segment: "Segment", rows: Numbers, stored: Mapping[PartName, bytes]) -> dict[str, bytes]:
    """The blocks that lose postings of rows, and the list of blocks."""
    is_gone = np.zeros(segment.head.rows, dtype=np.bool_)
    is_gone[rows] = True
    changed: dict[str, bytes] = {}
    bounds: list[str] = []
    for name in (name for name in segment.all_parts() if name[1].startswith("post/")):
        block = Block.of(expanded(name, stored))
        packed, terms = block.packed, block.terms
        stays = ~is_gone[packed >> FREQUENCY_BITS]
        if not stays.all():
            numbers = np.repeat(np.arange(len(terms)), block.lengths)[stays]
            lengths = np.bincount(numbers, minlength=len(terms)).astype(np.int64)
            terms = [term for term, length in zip(terms, lengths.tolist(), strict=True) if length]
            changed[name[1]] = _encoded_block(terms, lengths[lengths > 0], packed[stays])
        # An empty block stands where the one before it ends, so that blocks stay in order.
        bounds += [terms[0], terms[-1]] if terms else [bounds[-1] if bounds else ""] * 2
    if changed:
        changed["blocks"] = "\n".join(bounds).encode()
    return changed


def _without_keys(segment: "Segment", rows: Numbers, stored: Mapping[PartName, bytes]) -> dict[str, bytes]:
    """The parts with keys of rows, without these; and the tables, if they name one of the rows."""
    changed: dict[str, bytes] = {}
    for name in dict.fromkeys(segment.keys_part(row) for row in rows.tolist()):
        places = expanded(name, stored).decode().split("\n")
        first = int(name[1].removeprefix("keys/")) * KEYS_A_PART
        for row in rows[(rows >= first) & (rows < first + KEYS_A_PART)].tolist():
            places[row - first] = ""
        changed[name[1]] = "\n".join(places).encode()
    if ids := segment.tables.ids.keys() & set(rows.tolist()):
        kept = {row: named for row, named in segment.tables.ids.items() if row not in ids}
        changed["tables"] = msgspec.json.encode(msgspec.structs.replace(segment.tables, ids=kept))
    return changed


def _without_vectors(segment: "Segment", rows: Numbers, read: PartReader) -> dict[str, bytes]:
    """The pieces of vectors that hold those of rows, with zeros in their place."""
    changed: dict[str, bytes] = {}
    for number, embedder in enumerate(segment.vector_list(read).embedders):
        changed |= without_vectors(number, embedder, segment.vector_parts(embedder, read), rows)
    return changed


def _without(rows: SegmentRows, gone: Numbers) -> SegmentRows:
    """The rows but for some: what the records give once these are erased."""
    is_kept = np.ones(len(rows), dtype=np.bool_)
    is_kept[gone] = False
    new_rows = np.cumsum(is_kept) - 1
    columns = {name: values[is_kept] for name, values in rows.columns.items()}
    scopes, columns["scope"] = _renumbered(rows.tables.scopes, columns["scope"])
    threads, columns["thread"] = _renumbered(rows.tables.threads, columns["thread"])
    ids = {int(new_rows[row]): names for row, names in rows.tables.ids.items() if is_kept[row]}
    old_rows = rows.packed >> FREQUENCY_BITS
    stays = is_kept[old_rows]
    terms = np.repeat(np.arange(len(rows.terms)), rows.lengths)[stays]
    lengths = np.bincount(terms, minlength=len(rows.terms)).astype(np.int64)
    return SegmentRows(
        columns=columns,
        places=[place for place, stay in zip(rows.places, is_kept.tolist(), strict=True) if stay],
        tables=SegmentTables(scopes, threads, ids, rows.tables.ends),
        terms=[term for term, length in zip(rows.terms, lengths.tolist(), strict=True) if length],
        lengths=lengths[lengths > 0],
        packed=new_rows[old_rows[stays]] << FREQUENCY_BITS | rows.packed[stays] & MAX_FREQUENCY,
    )


def _renumbered(names: Sequence[_Name], numbers: Numbers) -> tuple[list[_Name], Numbers]:
    """The names that are still used, in the order in which they come, and their new numbers; -1 stays."""
    used, first = np.unique(numbers[numbers >= 0], return_index=True)
    order = used[np.argsort(first)]
    table: Numbers = np.full(len(names) + 1, -1, dtype=np.int64)
    table[order] = np.arange(len(order))
    return [names[number] for number in order.tolist()], table[numbers]


def merged(segments: Sequence[SegmentRows], first: int) -> SegmentRows:
    """The rows of adjacent segments as those of one that begins with a snapshot."""
    bases = np.cumsum([0, *(len(one) for one in segments)])
    scopes, threads = Numbered[str](), Numbered[tuple[str, str]]()
    columns: dict[str, list[Numbers]] = {name: [] for name in COLUMNS}
    for one in segments:
        for name in COLUMNS:
            columns[name].append(one.columns[name])
        columns["scope"][-1] = scopes.renumbered(one.tables.scopes, one.columns["scope"])
        columns["thread"][-1] = threads.renumbered(one.tables.threads, one.columns["thread"])
    joined = {name: np.concatenate(values) for name, values in columns.items()}
    places = [place for one in segments for place in one.places]
    ends = [end for one in segments for end in one.tables.ends]
    _apply_ends(joined, places, [end for end in ends if end.previous >= first])
    ids = {
        row + int(base): names
        for base, one in zip(bases, segments, strict=False)
        for row, names in one.tables.ids.items()
    }
    kept = [end for end in ends if end.previous < first]
    tables = SegmentTables(scopes.names, threads.names, ids, kept)
    return SegmentRows(joined, places, tables, *_merged_postings(segments, bases))


def _merged_postings(segments: Sequence[SegmentRows], bases: Numbers) -> tuple[list[str], Numbers, Numbers]:
    packed = np.concatenate(
        [one.packed + (int(base) << FREQUENCY_BITS) for base, one in zip(bases, segments, strict=False)]
    )
    return grouped_by_term([one.terms for one in segments], packed, [one.lengths for one in segments])


def grouped_by_term(
    named: Sequence[Sequence[str]], packed: Numbers, lengths: Sequence[Numbers] = ()
) -> tuple[list[str], Numbers, Numbers]:
    """Postings, by term: the terms in order, how many postings each has, and these.

    Rows stay in the order in which they come.

    Args:
        named: The term of each posting, in any number of portions.
        lengths: How many postings each name stands for; by default one.
    """
    terms = sorted({term for portion in named for term in portion})
    number_of = dict(zip(terms, range(len(terms)), strict=True))
    numbers = np.array([number_of[term] for portion in named for term in portion], dtype=np.int64)
    if lengths:
        numbers = np.repeat(numbers, np.concatenate(lengths))
    order = np.argsort(numbers, kind="stable")
    return terms, np.bincount(numbers, minlength=len(terms)).astype(np.int64), packed[order]


def _apply_ends(columns: Mapping[str, Numbers], places: Sequence[str], ends: Sequence[RowEnd]) -> None:
    wanted = {end.place for end in ends}
    firsts = columns["first"].tolist()
    row_of = {(firsts[row], place): row for row, place in enumerate(places) if place in wanted}
    for previous, place, snapshot in ends:
        # A row that was erased is not there.
        if (row := row_of.get((previous, place))) is not None:
            columns["end"][row] = min(int(columns["end"][row]), snapshot)
