"""A run of records, laid out for scanning: one long text, where each record's part ends, times, and sets of tags.

A cold read makes segments one after the other and forgets each; a warm one keeps them. Both rank them with the same code,
so that what is kept can never show in an answer.
"""

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import Final, Self, TypeVar

import msgspec
from msgspec import Struct

from standfast.recall.moments import MISSING, moment_of, sortable
from standfast.recall.records import BadLine, Record, read_line

NO_TAGS: Final = 0
_T = TypeVar("_T")


class TagBook:
    """The different sets of tags that records carry, by number. Most stores have few; a full book is followed by another."""

    __slots__ = ("_numbers", "sets")

    def __init__(self, sets: Iterable[tuple[str, ...]] = ((),)) -> None:
        self.sets = list(sets)
        self._numbers = {tags: number for number, tags in enumerate(self.sets)}

    def number_of(self, tags: tuple[str, ...]) -> int:
        """The number of a set, which is put into the book if it is new."""
        number = self._numbers.setdefault(tags, len(self.sets))
        if number == len(self.sets):
            self.sets.append(tags)
        return number


class Lines(Sequence[bytes]):
    """Many lines in one, each with its end, for those that are kept: an object each would take more room.

    Where each ends is found out when one is first looked at; of most segments, none ever is.
    """

    __slots__ = ("_ends", "joined")

    def __init__(self, joined: bytes) -> None:
        self.joined = joined
        self._ends: array[int] | None = None

    @classmethod
    def of(cls, lines: Sequence[bytes]) -> Self:
        """These lines."""
        if isinstance(lines, BlockLines):
            return cls(lines.block)
        return cls(b"".join([line + b"\n" for line in lines]))

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # Nobody takes a slice of lines.
        if self._ends is None:
            sizes = map(len, self.joined.split(b"\n")[:-1])
            self._ends = array("I", accumulate(map((1).__add__, sizes)))
        return self.joined[self._ends[index - 1] if index else 0 : self._ends[index] - 1]

    def __len__(self) -> int:
        return self.joined.count(b"\n") if self._ends is None else len(self._ends)


class BlockLines(Sequence[bytes]):
    """The lines of a block. Few are ever looked at, so they are told apart only when several have been."""

    __slots__ = ("_lines", "_looks_left", "block")

    def __init__(self, block: bytes) -> None:
        self.block = block
        self._lines: list[bytes] | None = None
        self._looks_left = 1

    def told_apart(self) -> list[bytes]:
        """All of them."""
        if self._lines is None:
            self._lines = self.block.split(b"\n")[:-1]
        return self._lines

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # As above.
        if self._lines is not None or self._looks_left == 0:
            return self.told_apart()[index]
        self._looks_left -= 1
        return self.block.split(b"\n", index + 1)[index]

    def __len__(self) -> int:
        return len(self.told_apart())


class _Id(Struct):
    memory_id: str


_decode_id: Final = msgspec.json.Decoder(_Id).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of records. Row ``i`` of each column is record ``i``."""

    lines: Sequence[bytes]
    """Each record as it stands in its store."""
    haystack: bytes
    """The texts in lower case, in UTF-8, one after the other with a separator of one byte after each."""
    ends: Sequence[int]
    """Where each record's text ends in the haystack, its separator included."""
    stamps: Sequence[str | bytes | None]
    """What stands in ``ts_utc``, as text or as JSON; empty once the times are known."""
    times: Sequence[int]
    """Moments; empty until somebody needs them."""
    tags: Sequence[int]
    """Numbers of sets in the book."""
    book: TagBook
    first_place: int
    places: Sequence[int] = ()
    """The number of each record's line, if that is not ``first_place`` and on."""
    is_keyed: bool = False
    """Whether records stand in their store by key, not line after line."""
    bad_lines: Sequence[BadLine] = ()
    lines_read: int | None = None
    """How many lines of the store it covers, if not as many as there are rows."""
    hidden: Collection[int] = ()
    """Rows that this view of the store does not show."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def next_place(self) -> int:
        """Where the lines after these begin."""
        return self.first_place + (len(self) if self.lines_read is None else self.lines_read)

    def place(self, row: int) -> int | str:
        """What orders records as their store does: a line's number, or a record's key, which is its id."""
        if self.is_keyed:
            return self.memory_id(row)
        return self.places[row] if self.places else self.first_place + row

    def memory_id(self, row: int) -> str:
        """A record's id, read again from its line."""
        try:
            return _decode_id(self.lines[row]).memory_id
        except msgspec.DecodeError:
            # The decoder refuses a lone surrogate even in a field that nobody reads.
            return self.record(row).memory_id

    def text(self, row: int) -> str:
        """A record's text in lower case."""
        start = self.ends[row - 1] if row else 0
        return self.haystack[start : self.ends[row] - 1].decode()

    def record(self, row: int) -> Record:
        """A record in full, read again from its line."""
        record = read_line(self.lines[row])
        assert isinstance(record, Record), "only lines that hold a record become rows"
        return record

    def moment(self, row: int) -> int:
        """When a record was made."""
        return self.times[row] if self.times else _moment_of(self.stamps[row])

    def moments(self) -> Sequence[int]:
        """The moments of all rows."""
        return self.times or list(map(_moment_of, self.stamps))

    def sortable_stamps(self) -> list[bytes] | None:
        """The timestamps as they stand, if that is enough to sort them; None if it is not, or the times are known."""
        return sortable(self.stamps) if self.stamps else None

    def hiding(self, rows: Collection[int]) -> Self:
        """The same rows, but for some."""
        return replace(self, hidden=rows)

    @classmethod
    def joined(cls, pieces: Sequence[Self], *, lines_read: int) -> Self:
        """The rows of pieces of so many lines, which have one book, in the order of their lines."""
        if len(pieces) == 1:
            return replace(pieces[0], lines_read=lines_read)
        places = [place for piece in pieces for place in piece.places]
        order = sorted(range(len(places)), key=places.__getitem__)
        texts = [text for piece in pieces for text in piece.texts()]
        sizes = [len(texts[row]) for row in order]

        def ordered(columns: Iterable[Sequence[_T]]) -> list[_T]:
            cells = list(chain.from_iterable(columns))
            return [cells[row] for row in order]

        return replace(
            pieces[0],
            lines=ordered(piece.lines for piece in pieces),
            haystack=b"".join([texts[row] for row in order]),
            ends=list(accumulate(sizes)),
            stamps=ordered(piece.stamps for piece in pieces),
            tags=ordered(piece.tags for piece in pieces),
            places=[places[row] for row in order],
            bad_lines=[line for piece in pieces for line in piece.bad_lines],
            lines_read=lines_read,
        )

    def texts(self) -> list[bytes]:
        """The texts in lower case, each with its separator."""
        return [self.haystack[start:end] for start, end in pairwise([0, *self.ends])]

    def with_bad_line(self, line: BadLine) -> Self:
        """The same rows, and a line more that holds none."""
        return replace(self, bad_lines=[*self.bad_lines, line])

    def kept(self) -> Self:
        """The same rows in a form that takes little room, to be kept."""
        return replace(
            self,
            lines=self.lines if isinstance(self.lines, Lines) else Lines.of(self.lines),
            ends=array("I", self.ends),
            stamps=(),
            times=array("q", self.moments()),
            tags=array("I", self.tags),
            places=array("Q", self.places),
        )


def _moment_of(stamp: str | bytes | None) -> int:
    if stamp is None or stamp == b"null":
        return MISSING
    return moment_of(stamp if isinstance(stamp, str) else stamp[1:-1].decode())
