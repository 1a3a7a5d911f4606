"""What is said twice, exactly or nearly, in one section or across several. The first time stays."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from standfast.optimize.loops.gate.static import protected
from standfast.optimize.loops.strategies.proposals import SectionEdit, StrategySession, edit_of
from standfast.optimize.loops.strategies.units import Unit, joined, units_of
from standfast.optimize.prompts.template import PromptDescriptor
from standfast.optimize.providers.adapter import ProviderAdapter

NEAR: Final = 0.85
_SHORTEST_WORDS: Final = 4


class DuplicateRemoval:
    """Removes paragraphs and bullets that an earlier one says already: word for word, or with nearly the same words."""

    def __init__(self, *, likeness: float = NEAR) -> None:
        self._likeness = likeness

    def propose(
        self,
        prompt: PromptDescriptor,
        *,
        adapter: ProviderAdapter | None,  # noqa: ARG002  # It needs no model.
        session: StrategySession,
    ) -> Sequence[SectionEdit]:
        """The sections that get shorter."""
        seen: list[tuple[frozenset[tuple[str, ...]], set[tuple[str, str]]]] = []
        edits = []
        for section in prompt.sections:
            kept: list[Unit] = []
            for unit in units_of(section.body):
                shingles, held = _shingles(unit.text), protected(unit.text)
                if not unit.is_code and shingles and self._said_before(shingles, held, seen):
                    continue
                kept.append(unit)
                if shingles:
                    seen.append((shingles, held))
            body = joined(kept)
            if body != joined(units_of(section.body)):
                edits.append(edit_of(section, body, session=session, strategy="duplicates"))
        return edits

    def _said_before(
        self,
        shingles: frozenset[tuple[str, ...]],
        held: set[tuple[str, str]],
        seen: list[tuple[frozenset[tuple[str, ...]], set[tuple[str, str]]]],
    ) -> bool:
        """Alike in words, and holding nothing protected that the earlier one does not hold."""
        return any(
            held <= other_held and len(shingles & other) / len(shingles | other) >= self._likeness
            for other, other_held in seen
        )


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Pairs of words that follow each other; short texts are too easily alike to be compared."""
    words = re.findall(r"\w+", text.casefold())
    return frozenset(pairwise(words)) if len(words) >= _SHORTEST_WORDS else frozenset()
