"""F1_Amanah: a claim says where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, Claim, Finding, JudgingContext
from standfast.govern.judge.reading.lexicon import word_set

_NO_SOURCE: Final = Finding(0.0, "provenance: no source; give its kind and id")
_HALF_A_SOURCE: Final = Finding(0.4, "provenance: the source needs both a kind and an id")
_PLACEHOLDERS: Final = word_set("unknown none null n/a na tbd ? - anonymous somewhere internet web")
_PLACEHOLDER_SOURCE: Final = Finding(0.2, "provenance: the source's id names nothing that could be looked up")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceFloor:
    """The source has a kind and an id, both of them words that name something.

    Soft: what is missing can be filled in by a reviewer. It does not look the source up, so an invented one passes.
    """

    name: str = "F1_Amanah"
    threshold: float = 0.5
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # A floor's signature.
        """1 for a kind and an id, less for half a source, 0 for none."""
        source = claim.record.source
        if not isinstance(source, Mapping) or not source:
            return _NO_SOURCE
        kind, named = source.get("kind"), source.get("id")
        if not (_is_word(kind) and _is_word(named)):
            return _HALF_A_SOURCE
        if str(named).strip().lower() in _PLACEHOLDERS or str(kind).strip().lower() in _PLACEHOLDERS:
            return _PLACEHOLDER_SOURCE
        return CLEAN


def _is_word(given: object) -> bool:
    return isinstance(given, str) and bool(given.strip())
