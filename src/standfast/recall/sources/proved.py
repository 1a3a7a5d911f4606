"""A block of lines that were proved to be records, and not taken apart: a cold read needs no more of most blocks.

A record that has no term in its text or among its tags has no points. So where points are needed to be among the best, only
the few lines that hold a term anywhere are looked at.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from standfast.recall.sources.finding import Finder
from standfast.recall.sources.segment import Segment

# More lines than this are looked at faster by columns.
_FEW_OF: Final = 8


class Line(msgspec.Struct):
    """What a question asks about a line that is a record."""

    memory_id: str
    text: str
    ts_utc: str | None = None
    tags: list[str] | None = None


look_at: Final = msgspec.json.Decoder(Line).decode


@dataclass(frozen=True, slots=True, eq=False)
class ProvedBlock:
    """Lines in ASCII, without a backslash, each of which is a record and ends in a line's end."""

    block: bytes
    rows: int
    first_place: int
    taken_apart: Callable[[], Segment]
    """Makes the segment of these lines."""

    def __len__(self) -> int:
        return self.rows

    @property
    def next_place(self) -> int:
        """Where the lines after these begin."""
        return self.first_place + self.rows

    def lines_with(self, words: Iterable[bytes]) -> list[bytes] | None:
        """Every line that holds one of these words in lower case, and perhaps others; None if they are not few."""
        block = self.block
        found: dict[int, int] = {}
        low = block.lower()
        finder = Finder(low)
        few = self.rows // _FEW_OF + 1
        for word in words:
            start = 0
            while (at := finder.find(word, start)) >= 0:
                start = low.find(b"\n", at) + 1
                found[block.rfind(b"\n", 0, at) + 1] = start
                if len(found) > few:
                    return None
        return [block[start : end - 1] for start, end in found.items()]


class Source(Protocol):
    """A store that can be read. Its segments hold every record of it once, in read order, and never change."""

    @property
    def store_path(self) -> str:
        """The name that records of this source carry in a package."""
        ...

    def segments(self) -> Iterator[Segment | ProvedBlock]:
        """The records, in runs."""
        ...
