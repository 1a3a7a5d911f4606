"""What is declared before anything is tried."""

from standfast.limits import GATE_LEVEL, GATE_MARGIN
from standfast.vocabulary import Value


class GateSettings(Value, frozen=True, kw_only=True):
    """The promise: a prompt that loses ``margin`` of what the baseline passes is reported with a chance of ``level`` at most."""

    level: float = GATE_LEVEL
    margin: float = GATE_MARGIN
    held_out_share: float = 0.4
    repeats: int = 3
    max_repeats: int = 9
    regression_share: float = 0.4
    max_rounds: int = 2

    def __post_init__(self) -> None:
        for field in ("level", "margin", "held_out_share", "regression_share"):
            value = getattr(self, field)
            self._require(0 < value < 1, f"{field} must be between 0 and 1, not {value!r:.40}")
        self._require_whole("repeats", self.repeats, least=1)
        self._require_whole("max_rounds", self.max_rounds, least=1)
        self._require(
            self.repeats % 2 == 1 and self.max_repeats % 2 == 1,
            "repeats and max_repeats must be odd, so that a majority exists",
        )
        self._require(self.max_repeats >= self.repeats, "max_repeats can't be below repeats")

    def level_of(self, round_number: int, candidates: int) -> float:
        """The level for one candidate of a round: halved with every round and shared among its candidates."""
        return self.level * 0.5**round_number / max(candidates, 1)
