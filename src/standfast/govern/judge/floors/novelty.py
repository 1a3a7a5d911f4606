"""F8_Novelty: a claim is small, and not known, recalled or refused already."""

from dataclasses import dataclass
from typing import Final

from standfast.canon import fingerprint
from standfast.errors import InvalidValue, NotCanonical
from standfast.govern.judge.floors.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext, alike
from standfast.govern.judge.reading.words import READ_CHARS

# So many independent sources may say the same thing, each as a record of its own; then it is known.
_ENOUGH_WITNESSES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NoveltyFloor:
    """Not larger than a memory should be, and not said before.

    A duplicate is a known record of which the claim repeats the words or says nothing new (``reading/likeness.py``).
    It is let through if it brings an independent witness to a fact that has fewer than three. Text made of what this
    run recalled is refused whatever source it names, or memory would come to vouch for itself. Content that was
    refused before is recognised by its fingerprint, through changes of case, spacing, punctuation, accents and
    lookalike letters, and by likeness while the refused record is there; a human may bring it again, and the other
    floors judge it anew. It compares words: a paraphrase or a translation is new to it.
    """

    name: str = "F8_Novelty"
    threshold: float = 0.5
    hard: bool = True
    max_chars: int = 8_192

    def __post_init__(self) -> None:
        if not 0 < self.max_chars <= READ_CHARS:
            problem = f"max_chars must be 1 to {READ_CHARS}, because the floors read no further, not {self.max_chars!r:.80}"
            raise InvalidValue(what="Novelty", problem=problem)

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """0 for what was refused, 0.1 for what was recalled, 0.2 for what is known, 0.3 for what is too large."""
        if claim.is_overlong:
            return OVERLONG
        if len(claim.record.text) > self.max_chars:
            return Finding(
                0.3, f"size: {len(claim.record.text)} characters, and {self.max_chars} are allowed; split it"
            )
        if context.refused and not claim.is_human and _is_refused(claim, context.refused):
            return Finding(0.0, "refused: the same content was refused before")
        if context.recollection is not None and context.recollection.holds(claim.reading):
            return Finding(0.1, "recalled: made of what this run recalled; memory is no source of memory")
        return _held_against_the_shelves(claim, context) if context.indexes else CLEAN


def _is_refused(claim: Claim, refused: frozenset[str]) -> bool:
    """By the fingerprint of what it says, or of the text to the letter."""
    if claim.reading.fingerprint in refused:
        return True
    try:
        return fingerprint(claim.record.text) in refused
    except NotCanonical:
        return False


def _held_against_the_shelves(claim: Claim, context: JudgingContext) -> Finding:
    found = alike(claim, context)
    refused = [known.memory_id for known in found if known.refused]
    if refused and not claim.is_human:
        return Finding(0.0, f"refused: says what {refused[0]} was refused for")
    standing = [known for known in found if not known.refused]
    if not standing:
        return CLEAN
    vouching = frozenset[str]().union(*(known.witnesses for known in standing))
    if claim.witnesses - vouching and len(vouching) < _ENOUGH_WITNESSES:
        return Finding(0.7, f"witness: another source for {standing[0].memory_id}")
    return Finding(0.2, f"duplicate: says nothing that {standing[0].memory_id} does not say")
