"""Segments: the parts of a derived index that a store holds beside its records, and the rules for putting and dropping them.

A segment covers the versions that one band of a namespace got in a range of snapshots. What is in its parts is the index's own affair. Nothing
here is a source of truth: a segment that is missing is made anew from the records. Erasing a record drops, in the same transaction, every segment that covers
one of its versions, and no segment that was made from an older state can be put there later.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from standfast.scopes import prefix_in
from standfast.vocabulary import Band

INDEXED_BANDS: Final = tuple(band for band in Band if band is not Band.VOID)
"""Rejected content is never recalled."""
PartName = tuple[str, str]
"""Which part: the id of its segment, and its name."""


class SegmentHead(msgspec.Struct, frozen=True):
    """What a segment covers: the snapshots from ``first`` to ``last`` of one band. ``analysis`` says what made it."""

    segment_id: str
    namespace: str
    band: str
    analysis: str
    first: int
    last: int
    rows: int
    size_bytes: int


class SegmentTable(Protocol):
    """The segments of a store. A backend has one as ``Storage.segments``."""

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments of a namespace, or of all, by namespace, band, first snapshot and id."""
        ...

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names. One that is not there is left out."""
        ...

    def put(self, head: SegmentHead, parts: Mapping[str, bytes], *, replaces: Sequence[str], at: int) -> bool:
        """Put a segment in the place of others, in one transaction. False, and nothing changed, if it may not be put.

        Args:
            at: The newest snapshot when the records were read that it was made from. If something of the namespace was erased since,
                the segment may hold it.
        """
        ...

    def drop(self, segment_ids: Sequence[str]) -> None:
        """Remove segments."""
        ...

    def last_erasure(self, namespace: str) -> int:
        """The newest snapshot that erased something of the bands that are indexed; 0 if none did."""
        ...


def may_put(
    head: SegmentHead, present: Sequence[SegmentHead], *, replaces: Sequence[str], at: int, last_erasure: int
) -> bool:
    """Whether a segment may be put beside those that are present: nothing overlaps, all it replaces is there, nothing was erased since."""
    known = {one.segment_id for one in present}
    others = (one for one in present if one.segment_id not in replaces and one.band == head.band)
    is_free = all(one.last < head.first or head.last < one.first for one in others)
    return last_erasure <= at and known.issuperset(replaces) and is_free


def is_indexed(key: str) -> bool:
    """Whether a key is that of a record in a band that is indexed."""
    return prefix_in(key) in INDEXED_BANDS
