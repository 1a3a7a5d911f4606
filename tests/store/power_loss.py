"""What a disk may hold after the power went, given what was asked of it before.

Durable is what was synced. Of what was written to a file since, any part may be there: each write wholly, not
at all, or only some of its 512-byte sectors; a file may have grown without its data. A file that was made or
deleted is so for certain only when its folder was synced. After a failed sync the system may forget which
pages were dirty: what was unsynced then stays uncertain, whatever later syncs say, until it is overwritten or
cut off.
"""

from collections.abc import Iterator, Mapping
from random import Random

from tests.store.recording_vfs import Op

SECTOR_BYTES = 512
WHOLE = -1

Kept = Mapping[int, int]
"""Which uncertain writes made it to the disk, by their place in the log: ``WHOLE``, or a bit for each sector,
and one
more for a file that grew to the write's end whether its data came or not."""


class _Inode:
    """A file's durable bytes, and what was done to it since."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.since: dict[int, Op] = {}
        self.settled: set[int] = set()
        self.lost_track: set[int] = set()

    def sync(self) -> None:
        self.settled |= self.since.keys() - self.lost_track
        while self.since and (first := next(iter(self.since))) in self.settled:
            _apply(self.durable, self.since.pop(first), WHOLE)

    def failed_sync(self) -> None:
        self.lost_track |= self.since.keys() - self.settled

    def uncertain(self) -> dict[int, Op]:
        return {place: op for place, op in self.since.items() if place not in self.settled}

    def image(self, kept: Kept) -> bytes:
        data = bytearray(self.durable)
        for place, op in self.since.items():
            sectors = WHOLE if place in self.settled else kept.get(place, 0)
            if sectors:
                _apply(data, op, sectors)
        return bytes(data)


class Disk:
    """Files and their folder, with what is certain and what is not."""

    def __init__(self) -> None:
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._renamed: list[tuple[str, _Inode | None]] = []
        self.heads: list[bytes] = []

    def play(self, place: int, op: Op) -> None:
        """Let what stands at a place of the log happen."""
        match op.kind:
            case "create":
                self._rename(op.name, _Inode())
            case "delete":
                self._rename(op.name, None)
            case "sync_folder":
                while self._renamed:
                    _set_name(self._durable_names, *self._renamed.pop(0))
            case "sync":
                self._names[op.name].sync()
            case "failed_sync":
                self._names[op.name].failed_sync()
            case "head":
                self.heads.append(op.data)
            case "write" | "truncate":
                self._names[op.name].since[place] = op
            case _:
                raise AssertionError(op.kind)

    def _rename(self, name: str, inode: _Inode | None) -> None:
        self._renamed.append((name, inode))
        _set_name(self._names, name, inode)

    def uncertain(self) -> dict[int, Op]:
        """What may or may not be on the disk, in the order in which it was asked for."""
        found: dict[int, Op] = {}
        for inode in (*self._durable_names.values(), *(inode for _, inode in self._renamed if inode)):
            found |= inode.uncertain()
        return dict(sorted(found.items()))

    def uncertain_names(self) -> int:
        """How many files were made or deleted since the folder was synced."""
        return len(self._renamed)

    def image(self, kept: Kept, names: int) -> dict[str, bytes]:
        """The files after a power loss that spared ``kept`` and the first ``names`` of the makings and
        deletions.
        """
        found = dict(self._durable_names)
        for name, inode in self._renamed[:names]:
            _set_name(found, name, inode)
        return {name: inode.image(kept) for name, inode in found.items()}


def systematic(uncertain: Mapping[int, Op]) -> Iterator[Kept]:
    """All, none, each alone, all but each, each prefix; the first and the last torn before and after each
    sector.
    """
    places = list(uncertain)
    everything = dict.fromkeys(places, WHOLE)
    yield everything
    if not places:
        return
    yield {}
    for number, place in enumerate(places):
        yield {place: WHOLE}
        yield {other: WHOLE for other in places if other != place}
        yield dict.fromkeys(places[:number], WHOLE)
    for place in dict.fromkeys((places[0], places[-1])):
        for sectors in _tears(uncertain[place]):
            yield everything | {place: sectors}
            yield {place: sectors}


def at_random(uncertain: Mapping[int, Op], dice: Random) -> Kept:
    """Any subset, with any of its writes torn."""
    kept, chance = {}, dice.choice([0.1, 0.5, 0.9])
    for place, op in uncertain.items():
        if dice.random() < chance:
            torn = dice.random() < 0.25
            kept[place] = dice.getrandbits(_sectors(op) + 1) if torn else WHOLE
    return kept


def _tears(op: Op) -> Iterator[int]:
    count = _sectors(op)
    grown = 1 << count
    yield grown
    for cut in range(1, count):
        head = (1 << cut) - 1
        yield head
        yield (grown - 1) & ~head


def _sectors(op: Op) -> int:
    if op.kind == "truncate":
        return 1
    return (op.offset + len(op.data) - 1) // SECTOR_BYTES - op.offset // SECTOR_BYTES + 1


def _apply(data: bytearray, op: Op, sectors: int) -> None:
    if op.kind == "truncate":
        del data[op.offset :]
        _grow(data, op.offset)
        return
    end, count = op.offset + len(op.data), _sectors(op)
    first = op.offset // SECTOR_BYTES
    if sectors == WHOLE or sectors >> count:
        _grow(data, end)
    if sectors == WHOLE:
        data[op.offset : end] = op.data
        return
    for number in range(count):
        if sectors >> number & 1:
            start = max(op.offset, (first + number) * SECTOR_BYTES)
            stop = min(end, (first + number + 1) * SECTOR_BYTES)
            _grow(data, stop)
            data[start:stop] = op.data[start - op.offset : stop - op.offset]


def _grow(data: bytearray, size: int) -> None:
    data.extend(bytes(max(0, size - len(data))))


def _set_name(names: dict[str, _Inode], name: str, inode: _Inode | None) -> None:
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode
