"""Recall ceilings: how far a remembered thing may be trusted. A recalled memory is a suggestion, never a fact.

Each doubt has a multiplier; those that apply are multiplied, and the product is capped at 0.85. Where the document's
table leaves room:

- Age is measured from the instant handed in. Exactly 30 or 90 days is not older than that; a microsecond more is.
- A timestamp that is missing, or lies in the future, is invalid: neither tells the age, and a forged future would
  otherwise never grow old. A sound memory stamped by a clock that runs ahead still gets 0.85, with a warning.
- A missing evidence chain counts once, as that, not again for the floor checks that it can't hold.
- The topic is ``current_context["topic"]`` against the item's ``topic``, or else its ``subject``; it counts only where
  both are known, and case and Unicode form do not matter.
- An item without a band is read as ``Record`` reads it, as LEDGER. A band that nobody knows might be VOID by another
  name, so it is blocked.

An item is a ``Record``, or a dict with the document's names (``timestamp``, ``evidence_chain``) or the vocabulary's
(``ts_utc``, ``evidence``).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import prod
from typing import Final

from standfast.canon import normal_string
from standfast.errors import InvalidValue, LoneSurrogate
from standfast.govern.authority import plain_text, read_word
from standfast.govern.evidence import read_instant, read_verdict
from standfast.limits import FLOAT_DECIMALS
from standfast.vocabulary import Band, Evidence, Record, Verdict

MAX_RECALL_CONFIDENCE: Final = 0.85


class Doubt(StrEnum):
    """A reason to trust a memory less, in words."""

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


@dataclass(frozen=True, slots=True)
class RecallDecision:
    """Whether a memory may be recalled, how far it may be trusted, and what is wrong with it, in words."""

    allowed: bool
    reason: str
    confidence_ceiling: float
    floor_warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_ceiling <= (MAX_RECALL_CONFIDENCE if self.allowed else 0):
            raise InvalidValue(
                what="RecallDecision",
                problem=f"confidence_ceiling is from 0 to {MAX_RECALL_CONFIDENCE}, and 0 for what is blocked",
            )


def decide_recall(memory_item: object, current_context: object, now: datetime) -> RecallDecision:
    """The ceiling of one item at an instant. Never raises: what can't be read is blocked, or doubted."""
    if not isinstance(memory_item, dict | Record):
        return _blocked("what is no memory item cannot be recalled")
    given_band = _first(memory_item, "band")
    band = Band.LEDGER if given_band is None else read_word(Band, given_band)
    if band is None:
        return _blocked("a memory of an unknown band cannot be recalled")
    if band is Band.VOID:
        return _blocked("the VOID band is diagnostic and cannot be recalled")
    doubts = _doubts(memory_item, current_context, now)
    ceiling = ceiling_of(doubts)
    warnings = [doubt.value for doubt in doubts]
    if given_band is None:
        warnings.append("It names no band; it is read as LEDGER")
    return RecallDecision(True, f"A suggestion, to be trusted up to {ceiling:g}", ceiling, warnings)


def ceiling_of(doubts: list[Doubt]) -> float:
    """The product of the multipliers, capped, to the six decimals that json-v1 keeps: 0.8 times 0.7 is 0.56."""
    product = prod(MULTIPLIER_OF_DOUBT[doubt] for doubt in doubts)
    return min(round(product, FLOAT_DECIMALS), MAX_RECALL_CONFIDENCE)


def _doubts(item: object, context: object, now: datetime) -> list[Doubt]:
    """The doubts that apply, in the order of the document's table."""
    doubts = []
    if read_verdict(_first(item, "verdict")) not in (Verdict.SEAL, Verdict.SABAR):
        doubts.append(Doubt.VERDICT)
    then = read_instant(_first(item, "timestamp", "ts_utc"))
    age = None if then is None or then > now else now - then
    if age is not None and age > timedelta(days=30):
        doubts.append(Doubt.OLDER_THAN_30_DAYS)
    if age is not None and age > timedelta(days=90):
        doubts.append(Doubt.OLDER_THAN_90_DAYS)
    chain = _first(item, "evidence_chain", "evidence")
    if not isinstance(chain, dict | Evidence) or not chain:
        doubts.append(Doubt.NO_EVIDENCE)
    elif not isinstance(checks := _first(chain, "floor_checks"), list | tuple) or not checks:
        doubts.append(Doubt.NO_FLOOR_CHECKS)
    current, remembered = _topic(_first(context, "topic")), _topic(_first(item, "topic", "subject"))
    if current and remembered and current != remembered:
        doubts.append(Doubt.OTHER_TOPIC)
    if age is None:
        doubts.append(Doubt.BAD_TIMESTAMP)
    return doubts


def _blocked(why: str) -> RecallDecision:
    return RecallDecision(False, f"Recall blocked: {why}", 0.0, [why[0].upper() + why[1:]])


def _first(holder: object, *names: str) -> object:
    """The first of these fields that is set, of a dict or of a value of the vocabulary."""
    for name in names:
        value = None
        if isinstance(holder, dict):
            value = holder.get(name)
        elif isinstance(holder, Record | Evidence):
            value = getattr(holder, name, None)
        if value is not None:
            return value
    return None


def _topic(given: object) -> str:
    text = (plain_text(given) or "").strip()
    try:
        return normal_string(text).casefold()
    except LoneSurrogate:
        return text
