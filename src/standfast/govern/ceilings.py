"""Recall ceilings: how far a recalled memory may be trusted. It is a suggestion, never a fact.

Each doubt has a multiplier. Those that apply are multiplied, and the product is capped at 0.85. Decisions where the document's
table leaves room:

- Age is measured from the time handed in. Exactly 30 or 90 days is not older than that; a microsecond more is.
- A missing or future timestamp is invalid: it does not tell the age, and a forged future would never grow old. A sound memory
  stamped by a clock that runs ahead still gets 0.85, with a warning.
- A missing evidence chain counts once, and not again for its missing floor checks.
- The topic is ``current_context["topic"]`` against the item's ``topic`` or else its ``subject``. It counts only if both are
  known; case and Unicode form make no difference.
- An item without a band is treated as LEDGER, as ``Record`` does. An unknown band is blocked, because it might be VOID under
  another name.

An item is a ``Record``, or a dict with the document's names (``timestamp``, ``evidence_chain``) or the vocabulary's
(``ts_utc``, ``evidence``).
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from standfast.canon import normal_string
from standfast.doubts import MAX_RECALL_CONFIDENCE, Doubt, ceiling_of
from standfast.errors import InvalidValue, LoneSurrogate
from standfast.govern.authority import plain_text, read_word
from standfast.govern.evidence import read_instant, read_verdict
from standfast.vocabulary import Band, Evidence, Record, Verdict


@dataclass(frozen=True, slots=True)
class RecallDecision:
    """Whether a memory may be recalled, how far it may be trusted, and a warning for each doubt."""

    allowed: bool
    reason: str
    confidence_ceiling: float
    floor_warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_ceiling <= (MAX_RECALL_CONFIDENCE if self.allowed else 0):
            raise InvalidValue(
                what="RecallDecision",
                problem=f"confidence_ceiling must be 0 to {MAX_RECALL_CONFIDENCE}, and 0 if recall is blocked",
            )


def decide_recall(memory_item: object, current_context: object, now: datetime) -> RecallDecision:
    """Decides on one item at a given time. Never raises: what cannot be read is blocked or doubted."""
    if not isinstance(memory_item, dict | Record):
        return _blocked("only a record or a dict can be recalled")
    band_text = _first(memory_item, "band")
    band = Band.LEDGER if band_text is None else read_word(Band, band_text)
    if band is None:
        return _blocked("its band is unknown")
    if band is Band.VOID:
        return _blocked("the VOID band holds rejected content, for diagnosis only")
    doubts = _doubts(memory_item, current_context, now)
    ceiling = ceiling_of(doubts)
    warnings = [doubt.value for doubt in doubts]
    if band_text is None:
        warnings.append("It names no band and is treated as LEDGER")
    return RecallDecision(True, f"Suggestion with a confidence of at most {ceiling:g}", ceiling, warnings)


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


def _blocked(problem: str) -> RecallDecision:
    return RecallDecision(False, f"Recall blocked: {problem}", 0.0, [problem[0].upper() + problem[1:]])


def _first(holder: object, *names: str) -> object:
    """The first of these fields that is set in a dict, a ``Record`` or an ``Evidence``."""
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
