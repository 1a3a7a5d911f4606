"""A run of records, laid out for scanning: one long text, where each record's part ends, times, and sets of tags.

A cold read makes segments one after the other and forgets each; a warm one keeps them. Both rank them with the same code,
so that what is kept can never show in an answer.
"""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Protocol, Self

from holdfast.recall.moments import MISSING, moment_of
from holdfast.recall.records import BadLine, Record, read_line

NO_TAGS: Final = 0


class Source(Protocol):
    """A store that can be read. Its segments hold every record of it once, in read order, and never change."""

    @property
    def store_path(self) -> str:
        """The name that records of this source carry in a package."""
        ...

    def segments(self) -> Iterator["Segment"]:
        """The records, in runs."""
        ...


class Strings:
    """Many short strings in one, for those that are kept: an object each would take more room than the text."""

    __slots__ = ("_ends", "_joined")

    def __init__(self, joined: str, ends: "array[int]") -> None:
        self._joined = joined
        self._ends = ends

    @classmethod
    def of(cls, strings: Sequence[str]) -> Self:
        """These strings."""
        return cls("".join(strings), array("I", accumulate(map(len, strings))))

    def __getitem__(self, index: int) -> str:
        return self._joined[self._ends[index - 1] if index else 0 : self._ends[index]]

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends:
            yield self._joined[start:end]
            start = end

    def __len__(self) -> int:
        return len(self._ends)

    def parts(self) -> "tuple[str, array[int]]":
        """What it is made of."""
        return self._joined, self._ends


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of records. Row ``i`` of each column is record ``i``."""

    lines: Sequence[bytes]
    """Each record as it stands in its store."""
    haystack: str | bytes
    """The texts in lower case, one after the other with a separator between: as a string if all are ASCII, or in UTF-8."""
    ends: Sequence[int]
    """Where each record's text ends in the haystack, its separator included."""
    ids: Sequence[str] | Strings
    stamps: Sequence[object]
    """What stands in ``ts_utc``; empty once the times are known."""
    times: Sequence[int]
    """Moments; empty until somebody needs them."""
    tags: Sequence[int]
    """Numbers of sets in the book."""
    book: TagBook
    places: Sequence[int] | Sequence[str] = ()
    """Where each record stands in its store, if that is not ``first_place`` and on."""
    first_place: int = 1
    bad_lines: Sequence[BadLine] = ()
    hidden: Collection[int] = ()
    """Rows that this view of the store does not show."""

    def __len__(self) -> int:
        return len(self.ends)

    def place(self, row: int) -> int | str:
        """What orders records as their store does: a line's number, or a record's key."""
        return self.places[row] if self.places else self.first_place + row

    def row_at(self, offset: int) -> int:
        """The row whose text holds this offset of the haystack."""
        return bisect_right(self.ends, offset)

    def text(self, row: int) -> str:
        """A record's text in lower case."""
        start = self.ends[row - 1] if row else 0
        part = self.haystack[start : self.ends[row] - 1]
        return part if isinstance(part, str) else part.decode()

    def record(self, row: int) -> Record:
        """A record in full, read again from its line."""
        record = read_line(self.lines[row])
        assert isinstance(record, Record), "only lines that hold a record become rows"
        return record

    def timed(self) -> Sequence[int]:
        """The moments of all rows."""
        if self.times or not self.stamps:
            return self.times
        return [moment_of(stamp) if isinstance(stamp, str) else MISSING for stamp in self.stamps]

    def hiding(self, rows: Collection[int]) -> Self:
        """The same rows, but for some."""
        return replace(self, hidden=rows)

    def with_bad_line(self, line: BadLine) -> Self:
        """The same rows, and a line more that holds none."""
        return replace(self, bad_lines=[*self.bad_lines, line])

    def kept(self) -> Self:
        """The same rows in a form that takes little room, to be kept."""
        lines = b"".join(self.lines)
        return replace(
            self,
            lines=Lines(lines, array("I", accumulate(map(len, self.lines)))),
            ends=array("I", self.ends),
            ids=Strings.of(list(self.ids)),
            stamps=(),
            times=array("q", self.timed()),
            tags=array("H" if len(self.book.sets) < 1 << 16 else "I", self.tags),
        )


class Lines(Sequence[bytes]):
    """Many lines in one, as ``Strings``."""

    __slots__ = ("ends", "joined")

    def __init__(self, joined: bytes, ends: "array[int]") -> None:
        self.joined = joined
        self.ends = ends

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # Nobody takes a slice of lines.
        return self.joined[self.ends[index - 1] if index else 0 : self.ends[index]]

    def __len__(self) -> int:
        return len(self.ends)
