"""F3_Witness: somebody other than the agent vouches for a claim."""

from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, Claim, Finding, JudgingContext, alike, pattern_keys

_FEW: Final = (Finding(0.5, "witness: one"), Finding(0.75, "witness: two, independent of each other"))
_NOBODY: Final = Finding(0.0, "witness: no source but the agent's own word or memory itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorroborationFloor:
    """Independent sources that support the claim: its own source and refs, and those of records that say the same.

    One witness scores 0.5, two 0.75, three or more 1; a pattern on the subject or on a source takes one witness more. Pages
    of one document are one witness, and the agent, a model or memory itself are none. Soft; raise the threshold to
    0.75 to ask for two. It counts names, so two names for one source count twice, and it does not read the sources.
    """

    name: str = "F3_Witness"
    threshold: float = 0.5
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """The share of doubt that the witnesses take away."""
        witnesses = claim.witnesses
        troubled = context.patterns and not context.troubled.isdisjoint(pattern_keys(claim.record))
        if 0 < len(witnesses) < 3 and context.indexes:
            standing = [known for known in alike(claim, context) if not known.refused]
            witnesses = witnesses.union(*(known.witnesses for known in standing))
        if not witnesses:
            return _NOBODY
        if troubled:
            return Finding(
                _strength(len(witnesses) - 1), "witness: scarred before; it takes one witness more"
            )
        if len(witnesses) >= 3:
            return CLEAN
        return _FEW[len(witnesses) - 1]


def _strength(witnesses: int) -> float:
    return 1.0 if witnesses >= 3 else 1 - 0.5**witnesses
