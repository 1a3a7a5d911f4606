"""Doubts about a recalled memory, and how far they let it be trusted. ``govern.ceilings`` and recall's ranking share this table."""

from collections.abc import Iterable
from enum import StrEnum
from math import prod
from typing import Final

from standfast.limits import FLOAT_DECIMALS

MAX_RECALL_CONFIDENCE: Final = 0.85


class Doubt(StrEnum):
    """A reason to trust a memory less."""

    VERDICT = "Its verdict is neither SEAL nor SABAR"
    OLDER_THAN_30_DAYS = "It is more than 30 days old"
    OLDER_THAN_90_DAYS = "It is more than 90 days old and may be stale"
    NO_EVIDENCE = "It has no evidence chain"
    NO_FLOOR_CHECKS = "Its evidence chain holds no floor checks"
    OTHER_TOPIC = "Its topic is not the current one"
    BAD_TIMESTAMP = "Its timestamp is missing, unreadable or in the future, so its age is unknown"


MULTIPLIER_OF_DOUBT: Final = {
    Doubt.VERDICT: 0.5,
    Doubt.OLDER_THAN_30_DAYS: 0.8,
    Doubt.OLDER_THAN_90_DAYS: 0.7,
    Doubt.NO_EVIDENCE: 0.6,
    Doubt.NO_FLOOR_CHECKS: 0.7,
    Doubt.OTHER_TOPIC: 0.9,
    Doubt.BAD_TIMESTAMP: 0.9,
}
assert set(MULTIPLIER_OF_DOUBT) == set(Doubt)
assert all(0 < multiplier < 1 for multiplier in MULTIPLIER_OF_DOUBT.values()), "a doubt never adds trust"


def ceiling_of(doubts: Iterable[Doubt]) -> float:
    """The product of the multipliers, capped, and rounded to the six decimals of json-v1: 0.8 times 0.7 is 0.56."""
    product = prod(MULTIPLIER_OF_DOUBT[doubt] for doubt in doubts)
    return min(round(product, FLOAT_DECIMALS), MAX_RECALL_CONFIDENCE)
