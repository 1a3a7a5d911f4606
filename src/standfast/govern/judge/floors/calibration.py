"""F7_Humility: a claim is no more certain than its evidence."""

import re
from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, Claim, Finding, JudgingContext
from standfast.govern.judge.reading.lexicon import word_set

# Words that leave no room for an exception, folded.
_ABSOLUTE: Final = word_set(
    "always never guaranteed guarantees guarantee impossible certainly undoubtedly definitely unquestionably absolutely "
    "infallible flawless undeniable irrefutable everyone nobody everybody forever perfectly invariably unbreakable "
    "unhackable bulletproof proven immer niemals garantiert unmoglich zweifellos definitiv jeder niemand unfehlbar "
    "toujours jamais garanti garantie impossible certainement indubitablement infaillible siempre nunca garantizado "
    "imposible indudablemente sempre mai garantito impossibile sicuramente nessuno garantido impossivel altijd nooit "
    "gegarandeerd onmogelijk всегда никогда гарантированно невозможно دائما أبدا مستحيل"
)
_ABSOLUTE_UNSPACED: Final = re.compile("总是|永远|绝对|从不|保证|不可能|必ず|絶対|決して|항상|절대")
_WHOLE: Final = re.compile(r"(?<![\d.,])100(?:[.,]0+)? ?(?:%|percent|prozent)")
# Before one of these an absolute word is none any more.
_HEDGES: Final = word_set(
    "not almost nearly virtually practically hardly seldom rarely usually isn't aren't wasn't doesn't don't won't can't "
    "nicht fast beinahe presque pas casi no quasi quase bijna не почти"
)
_WITH_EVIDENCE: Final = Finding(0.9, "absolute: said without exception, and sourced")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFloor:
    """Absolute words (always, never, guaranteed, 100 %) need a witness that is not the agent itself.

    Soft. It knows the words of some European languages, Chinese, Japanese, Korean and Arabic. It sees neither whether
    the source really says so nor a boast in other words.
    """

    name: str = "F7_Humility"
    threshold: float = 0.5
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # A floor's signature.
        """1 without absolute words, 0.9 with evidence for them, 0.4 and less without."""
        count = _absolutes(claim)
        if not count:
            return CLEAN
        if claim.witnesses:
            return _WITH_EVIDENCE
        return Finding(0.4 / count, "absolute: said without exception and without a source to bear it out")


def _absolutes(claim: Claim) -> int:
    reading = claim.reading
    count = 0
    if not _ABSOLUTE.isdisjoint(claim.whole.vocabulary):
        words = reading.words
        count = sum(
            word in _ABSOLUTE and (index == 0 or words[index - 1] not in _HEDGES)
            for index, word in enumerate(words)
        )
    if "100" in reading.folded:
        count += len(_WHOLE.findall(reading.folded))
    if not reading.folded.isascii():
        count += len(_ABSOLUTE_UNSPACED.findall(reading.folded))
    return count
