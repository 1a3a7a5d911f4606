"""Retention: how long each band keeps what it holds.

The age is in days, whole or not, and handed in. Exactly seven days is not past seven days. Where the document leaves
room:

- The archive that takes LEDGER entries after 90 days is a tier, not a band, so ``move_to_band`` says ``COLD``. What is
  in it already (the item's ``tier`` is ``COLD``) stays, for good: ``RETENTION_COLD_DAYS`` tells how an archive is
  counted, in years, and nothing is ever deleted by it.
- A PHOENIX proposal moves to LEDGER once its ``status`` is ``sealed`` or ``rejected``, and is never deleted: one that
  nobody has decided in 90 days is reported as stale.
- ``delete_after_days`` counts down to deletion, and is 0 for what is to be deleted now.
- An item whose band can't be read is kept: deleting is the one mistake that can't be mended.
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
    """Whether to keep a thing, where it should go, and in how many days it will be deleted."""

    keep: bool
    move_to_band: str | None
    reason: str
    delete_after_days: int | None = None

    def __post_init__(self) -> None:
        if self.move_to_band == Band.VAULT:
            raise InvalidValue(what="RetentionDecision", problem="nothing grows into law by growing old")
        if not self.keep and (self.move_to_band is not None or self.delete_after_days != 0):
            raise InvalidValue(what="RetentionDecision", problem="what is not kept is deleted now, not moved")


def decide_retention(memory_item: object, age_days: float) -> RetentionDecision:
    """What is to become of an item of this age. A negative age, of a clock that was set back, counts as none."""
    if type(age_days) not in (int, float) or not (type(age_days) is int or isfinite(age_days)):
        raise InvalidValue(what="age_days", problem="it must be a finite number of days")
    age = max(age_days, 0)
    given = _field(memory_item, "band")
    band = read_word(Band, given)
    match band:
        case None:
            return RetentionDecision(True, None, "The band is unknown: kept, for somebody to look at")
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
