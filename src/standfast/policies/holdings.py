"""What is held, in groups of a base and its deltas, each with a value: a base goes only with all that hangs on it."""

from heapq import heapify, heappop, heappush

from standfast.policies.byte_store import ByteMemoryStore


class Holdings:
    """Groups, from which the one with the least value per byte is found in logarithmic time."""

    def __init__(self) -> None:
        self._value: dict[int, float] = {}
        self._bytes: dict[int, int] = {}
        self._version: dict[int, int] = {}
        # (value per byte, base, version): an entry whose version is not the group's own is out of date.
        self._heap: list[tuple[float, int, int]] = []

    def value_of(self, base_t: int) -> float:
        """What a group is worth."""
        return self._value.get(base_t, 0.0)

    def bytes_of(self, base_t: int) -> int:
        """What a group takes."""
        return self._bytes.get(base_t, 0)

    def outgrown(self, base_t: int, value: float, delta_bytes: int, whole_bytes: int) -> bool:
        """Whether a newcomer is worth more per byte alone than together with the group that it could hang on."""
        together = self.value_of(base_t) + value
        alone = value * (self.bytes_of(base_t) + delta_bytes)
        return value > self.value_of(base_t) and alone > together * whole_bytes

    def add(self, base_t: int, value: float, byte_cost: int) -> None:
        """A new group, or one more delta in one."""
        self._value[base_t] = self._value.get(base_t, 0.0) + value
        self._bytes[base_t] = self._bytes.get(base_t, 0) + byte_cost
        self._enter(base_t)

    def remove(self, base_t: int) -> None:
        """The group is gone."""
        self._value.pop(base_t, None)
        self._bytes.pop(base_t, None)

    def cheapest(
        self, missing: int, gain: float, store: ByteMemoryStore, *, spare: int | None
    ) -> list[int] | None:
        """Groups that free the missing bytes and are worth less than the gain, the least per byte first.

        Nothing if there are none. ``spare`` is a group that must stay, because the newcomer hangs on it.
        """
        taken: list[int] = []
        set_aside: list[int] = []
        lost = 0.0
        heap = self._heap
        while missing > 0 and heap:
            _, base_t, version = heap[0]
            if self._version.get(base_t) != version or base_t not in self._value:
                heappop(heap)
            elif base_t not in store:
                # Someone else let it go; the group is worth nothing without its base.
                heappop(heap)
                self.remove(base_t)
            elif base_t == spare:
                heappop(heap)
                set_aside.append(base_t)
            else:
                lost += self._value[base_t]
                if lost >= gain:
                    break
                heappop(heap)
                taken.append(base_t)
                missing -= self._bytes[base_t]
        for base_t in set_aside if missing <= 0 else set_aside + taken:
            self._enter(base_t)
        return taken if missing <= 0 else None

    def _enter(self, base_t: int) -> None:
        if len(self._heap) > 4 * len(self._value) + 64:
            # Entries that are out of date must not pile up in a stream without end.
            self._version = {base: self._version[base] for base in self._value if base in self._version}
            self._heap = [entry for entry in self._heap if self._version.get(entry[1]) == entry[2]]
            heapify(self._heap)
        version = self._version[base_t] = self._version.get(base_t, 0) + 1
        heappush(self._heap, (self._value[base_t] / self._bytes[base_t], base_t, version))
