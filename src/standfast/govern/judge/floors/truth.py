"""F2_Truth: a claim does not contradict what is sealed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, Claim, Finding, JudgingContext
from standfast.govern.judge.reading.lexicon import (
    MONTHS,
    NO_CERTAIN_MONTHS,
    OPPOSITES,
    WEEKDAYS,
)
from standfast.govern.judge.reading.likeness import KnownText, says_nothing_new
from standfast.govern.judge.reading.words import TextReading
from standfast.vocabulary import Band

# How much of the shorter text must stand in the other before the two are taken to speak of one thing. A claim that
# names no subject has less to show for that, so more is asked of it.
_LEAST_SHARED: Final = 0.5
_LEAST_SHARED_WITHOUT_SUBJECT: Final = 0.7
_LEAST_WORDS_WITHOUT_SUBJECT: Final = 3
# From here on, a word in place of another is taken for a change of the statement.
_LEAST_SHARED_FOR_A_SWAP: Final = 0.6
_LEAST_SHARED_UNEVENLY: Final = 0.75
_MOST_SWAPPED_WORDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthFloor:
    """Nothing sealed about the same subject is denied: no other number, date, weekday or month, no negation, no opposite.

    Two texts of one subject that share most words but for one or two in each contradict each other as well; otherwise
    the claim adds to the subject and passes with a lower score. Without a subject, all that is sealed is compared, and
    the texts must be closer. A proposal that is to amend the sealed text (meant for PHOENIX, or for VAULT by a human)
    passes: amending is what it is for, and a human seals it. It compares words: a contradiction in other words, or
    one that takes reasoning or knowledge of the world, passes.
    """

    name: str = "F2_Truth"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """0 for a denial, 0.2 for another statement in its place, 0.8 for something beside what is sealed."""
        if not context.vault:
            return CLEAN
        record = claim.record
        subject = record.subject
        if subject is None:
            sealed = _sharing_words(claim.reading, context)
        else:
            sealed = [*context.sealed.get(subject, ()), *context.sealed.get(None, ())]
        amends = _is_amendment(claim)
        # Law that is to be replaced does not speak against what replaces it. It does against all else of its name: what
        # an agent remembers of a subject has that subject's name, and so has the law.
        spared = record.memory_id if amends else None
        found = _worst(claim.reading, (one for one in sealed if one.memory_id != spared), subject is not None)
        if found.score >= self.threshold or not amends:
            return found
        return Finding(0.6, f"amends: {found.reason.partition(': ')[2]}")


def _sharing_words(text: TextReading, context: JudgingContext) -> list[KnownText]:
    """What may speak of the same thing. It shares some words, so it shares one even if the commonest are left out."""
    by_word = context.sealed_by_topic
    shared = sorted((len(by_word[word]), word) for word in text.topic if word in by_word)
    rarest = shared[: max(0, len(shared) - _LEAST_WORDS_WITHOUT_SUBJECT + 1)]
    return list({id(known): known for _, word in rarest for known in by_word[word]}.values())


def _is_amendment(claim: Claim) -> bool:
    return claim.record.band is Band.PHOENIX or (claim.record.band is Band.VAULT and claim.is_human)


def _worst(text: TextReading, sealed: Iterable[KnownText], has_subject: bool) -> Finding:
    """The finding with the lowest score; the smallest memory id among equals, so that order never shows."""
    findings = [
        (score, known.memory_id, why)
        for known in sealed
        for score, why in [_held_against(text, known.reading, has_subject)]
        if score < 1
    ]
    if not findings:
        return CLEAN
    score, memory_id, why = min(findings)
    return Finding(score, f"{'contradiction' if score < 0.5 else 'beside'}: {why} in {memory_id}")


def _held_against(text: TextReading, sealed: TextReading, has_subject: bool) -> tuple[float, str]:
    ours, theirs = text.topic, sealed.topic
    shared = ours & theirs
    share = len(shared) / max(1, min(len(ours), len(theirs)))
    beside = (0.8, "adds to what is sealed") if has_subject else (1.0, "")
    if has_subject and share < _LEAST_SHARED:
        return (1.0, "") if text.words == sealed.words else beside
    if not has_subject and (
        share < _LEAST_SHARED_WITHOUT_SUBJECT or len(shared) < _LEAST_WORDS_WITHOUT_SUBJECT
    ):
        return beside
    if text.words == sealed.words or says_nothing_new(text, sealed):
        return 1.0, ""
    if _other_figure(text, sealed):
        return 0.0, "another number or date than is sealed"
    if _other_member(text, sealed, WEEKDAYS) or _other_member(text, sealed, MONTHS):
        return 0.0, "another day or month than is sealed"
    if ("not" in text.qualifiers) != ("not" in sealed.qualifiers) and share >= _LEAST_SHARED_FOR_A_SWAP:
        return 0.0, "the negation of what is sealed"
    if any(
        not OPPOSITES.get(word, _NO_WORDS).isdisjoint(sealed.vocabulary - text.vocabulary)
        for word in text.vocabulary
    ):
        return 0.1, "the opposite of what is sealed"
    if _is_swapped(text, sealed, share):
        return 0.2, "another statement in place of what is sealed"
    return beside


def _is_swapped(text: TextReading, sealed: TextReading, share: float) -> bool:
    """Whether a word or two stand in place of others: in the very same places, or in a text that is alike enough."""
    only_ours, only_theirs = text.topic - sealed.topic, sealed.topic - text.topic
    if not 0 < len(only_ours) <= _MOST_SWAPPED_WORDS or not 0 < len(only_theirs) <= _MOST_SWAPPED_WORDS:
        return False
    if len(only_ours) != len(only_theirs):
        return share >= _LEAST_SHARED_UNEVENLY
    if share >= _LEAST_SHARED_FOR_A_SWAP:
        return True
    pairs = zip(text.carrying, sealed.carrying, strict=False)
    same_places = all(one == other or (one in only_ours and other in only_theirs) for one, other in pairs)
    return same_places and len(text.carrying) == len(sealed.carrying)


_NO_WORDS: Final[frozenset[str]] = frozenset()


def _other_figure(text: TextReading, sealed: TextReading) -> bool:
    """A unit that both name, with no number in common; or one number each, another, and of no unit that sets them apart."""
    ours, theirs = text.quantities, sealed.quantities
    both = ours.keys() & theirs.keys()
    if both:
        return any(ours[unit].isdisjoint(theirs[unit]) for unit in both)
    return len(text.numbers) == len(sealed.numbers) == 1 and ("" in ours or "" in theirs)


def _other_member(text: TextReading, sealed: TextReading, members: dict[str, int]) -> bool:
    certain = members.keys() - NO_CERTAIN_MONTHS
    ours = {members[word] for word in text.vocabulary & certain}
    theirs = {members[word] for word in sealed.vocabulary & certain}
    return bool(ours) and bool(theirs) and ours.isdisjoint(theirs)
