"""Retention: how long each band keeps its items.

The age is in days, whole or not, and handed in. Exactly seven days is not past seven days. Decisions where the document leaves
room:

- The archive that LEDGER entries move to after 90 days is a tier, not a band, so ``move_to_band`` says ``COLD``. An item that is
  already there (its ``tier`` is ``COLD``) stays for good: nothing is deleted by ``RETENTION_COLD_DAYS``.
- A PHOENIX proposal moves to LEDGER once its ``status`` is ``sealed`` or ``rejected``. It is never deleted: one that nobody has
  decided in 90 days is reported.
- ``delete_after_days`` counts down to deletion; it is 0 for an item to delete now.
- An item whose band cannot be read is kept, because deletion cannot be undone.
"""

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Final, assert_never

from standfast.errors import InvalidValue
from standfast.govern.authority import plain_text, read_word
from standfast.vocabulary import Band, Record, Tier

RETENTION_HOT_DAYS: Final = 7
RETENTION_WARM_DAYS: Final = 90
RETENTION_COLD_DAYS: Final = 365
RETENTION_VOID_DAYS: Final = 90
assert RETENTION_HOT_DAYS < RETENTION_WARM_DAYS < RETENTION_COLD_DAYS

_DECIDED: Final = ("sealed", "rejected")


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """Whether an item is kept, where it moves, and in how many days it will be deleted."""

    keep: bool
    move_to_band: str | None
    reason: str
    delete_after_days: int | None = None

    def __post_init__(self) -> None:
        if self.move_to_band == Band.VAULT:
            raise InvalidValue(what="RetentionDecision", problem="age moves nothing into VAULT")
        if not self.keep and (self.move_to_band is not None or self.delete_after_days != 0):
            raise InvalidValue(
                what="RetentionDecision",
                problem="an item that is not kept is deleted now (delete_after_days=0) and not moved",
            )


def decide_retention(memory_item: object, age_days: float) -> RetentionDecision:
    """Decides on an item of this age. A negative age, from a clock that was set back, counts as 0."""
    if type(age_days) not in (int, float) or not (type(age_days) is int or isfinite(age_days)):
        raise InvalidValue(what="age_days", problem="must be a finite number of days")
    age = max(age_days, 0)
    band = read_word(Band, _field(memory_item, "band"))
    match band:
        case None:
            return RetentionDecision(True, None, "Unknown band: kept, for a human to look at")
        case Band.VAULT:
            return RetentionDecision(True, None, "VAULT never expires: it is constitutional")
        case Band.LEDGER:
            return _ledger(memory_item, age)
        case Band.PHOENIX:
            return _phoenix(memory_item, age)
        case Band.ACTIVE:
            return _until(RETENTION_HOT_DAYS, band, age)
        case Band.WITNESS:
            return _until(RETENTION_WARM_DAYS, band, age)
        case Band.VOID:
            return _until(RETENTION_VOID_DAYS, band, age)
        case _:
            assert_never(band)


def _ledger(item: object, age: float) -> RetentionDecision:
    if read_word(Tier, _field(item, "tier")) is Tier.COLD:
        return RetentionDecision(True, None, "LEDGER entry in the COLD archive tier: kept for good")
    if age > RETENTION_WARM_DAYS:
        reason = f"LEDGER entry past {RETENTION_WARM_DAYS} days: to the COLD archive tier"
        return RetentionDecision(True, Tier.COLD.value, reason)
    return RetentionDecision(True, None, f"LEDGER entry within {RETENTION_WARM_DAYS} days: WARM tier")


def _phoenix(item: object, age: float) -> RetentionDecision:
    status = (plain_text(_field(item, "status")) or "").lower()
    if status in _DECIDED:
        return RetentionDecision(True, Band.LEDGER.value, f"PHOENIX proposal is {status}: to LEDGER")
    if age > RETENTION_WARM_DAYS:
        reason = f"PHOENIX proposal past {RETENTION_WARM_DAYS} days and undecided: a human should look at it"
        return RetentionDecision(True, None, reason)
    return RetentionDecision(True, None, f"PHOENIX proposal within {RETENTION_WARM_DAYS} days: WARM tier")


def _until(limit_days: int, band: Band, age: float) -> RetentionDecision:
    if age > limit_days:
        return RetentionDecision(False, None, f"{band} entry past {limit_days} days: deleted", 0)
    return RetentionDecision(
        True, None, f"{band} entry within {limit_days} days: {band.tier} tier", ceil(limit_days - age)
    )


def _field(item: object, name: str) -> object:
    if isinstance(item, dict):
        return item.get(name)
    return getattr(item, name, None) if isinstance(item, Record) else None
