"""A budget of bytes: what may be used, what is used, and never more than that."""

from standfast.errors import InvalidValue
from standfast.limits import MAX_BUDGET_BYTES


class ByteBudget:
    """Bytes to spend. Several stores may share one; what one uses, the others can't."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        if not (type(max_bytes) is int and 0 < max_bytes <= MAX_BUDGET_BYTES):
            problem = f"max_bytes must be a whole number from 1 to {MAX_BUDGET_BYTES}, not {max_bytes!r:.40}"
            raise InvalidValue(what="ByteBudget", problem=problem)
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def __repr__(self) -> str:
        return f"ByteBudget({self.used_bytes} of {self.max_bytes} bytes used)"

    def remaining(self) -> int:
        """How many bytes can still be used."""
        return self.max_bytes - self.used_bytes

    def consume(self, byte_cost: int) -> bool:
        """Use that many bytes, if they are there; otherwise change nothing and say so."""
        assert byte_cost >= 0, "what costs less than nothing is credited"
        if byte_cost > self.max_bytes - self.used_bytes:
            return False
        self.used_bytes += byte_cost
        return True

    def credit(self, byte_cost: int) -> None:
        """Give back what was used, at once and in full."""
        assert 0 <= byte_cost <= self.used_bytes, "only what was used can be given back"
        self.used_bytes -= byte_cost
