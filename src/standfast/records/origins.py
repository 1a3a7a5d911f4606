"""How far a record may be trusted: by its origin, which comes from the kind of its source, and by the doubts
about it when it is recalled.

``govern.policy`` and recall's ranking share the table of doubts.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import prod
from typing import Any, Final

from standfast.errors import InvalidValue
from standfast.limits import FLOAT_DECIMALS
from standfast.records.canon import lowered


class Origin(StrEnum):
    """How far whoever said something is trusted, by the kind of the source, never by what is said."""

    TRUSTED = "trusted"
    ORDINARY = "ordinary"
    UNTRUSTED = "untrusted"

    @property
    def rank(self) -> int:
        """0 for untrusted, 1 for ordinary, 2 for trusted."""
        return _RANK[self]


_RANK: Final = {Origin.UNTRUSTED: 0, Origin.ORDINARY: 1, Origin.TRUSTED: 2}
assert set(_RANK) == set(Origin)

ORIGIN_OF_KIND: Final[Mapping[str, Origin]] = {
    "operator": Origin.TRUSTED,
    "user": Origin.TRUSTED,
    "agent": Origin.ORDINARY,
    "assistant": Origin.ORDINARY,
    "model": Origin.ORDINARY,
    "doc": Origin.ORDINARY,
    "document": Origin.ORDINARY,
    "langgraph": Origin.ORDINARY,
    "person": Origin.ORDINARY,
    "api": Origin.UNTRUSTED,
    "tool": Origin.UNTRUSTED,
    "web": Origin.UNTRUSTED,
}
"""The origin of each kind of source. A kind that is not listed is untrusted."""

CITING_KINDS: Final = frozenset({"memory", "message", "recall", "recalled"})
"""Kinds of sources and refs that name a record of memory by its id.

What cites a record is trusted no more than it.
"""

DISPUTES: Final = "disputes"
"""The relation in a ref to what a trusted user said and an ordinary record was meant to replace."""


def disputed_in(refs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The ids that refs name as disputed."""
    named = [ref.get("id") for ref in refs if ref.get("relation") == DISPUTES]
    return tuple(one for one in named if isinstance(one, str))


def origin_table(changes: Mapping[str, Origin | str]) -> Mapping[str, Origin]:
    """The table from kinds to origins, with some kinds added or changed, as settings describe them.

    Raises:
        InvalidValue: A kind is empty or names records of memory, or an origin is none.
    """
    table = dict(ORIGIN_OF_KIND)
    for kind, origin in changes.items():
        name = lowered(kind.strip()) if isinstance(kind, str) else ""
        if not name or name in CITING_KINDS:
            problem = f"{kind!r:.80} can't have an origin of its own; name a kind of source such as 'ticket'"
            raise InvalidValue(what="origins", problem=problem)
        table[name] = checked_origin(origin, what=f"the origin of {name!r:.80}")
    return table


def checked_origin(origin: Origin | str, *, what: str) -> Origin:
    """The origin of that name; ``InvalidValue`` if there is none."""
    try:
        return Origin(origin)
    except ValueError:
        problem = f"it must be one of {', '.join(Origin)}, not {origin!r:.80}"
        raise InvalidValue(what=what, problem=problem) from None


def origin_of(
    source: Mapping[str, Any] | None, origin_of_kind: Mapping[str, Origin] = ORIGIN_OF_KIND
) -> Origin:
    """The origin of what comes from a source. Without one it is the agent's own word: ordinary."""
    if source is None:
        return Origin.ORDINARY
    return origin_of_kind.get(kind_of(source), Origin.UNTRUSTED)


def kind_of(source: Mapping[str, Any]) -> str:
    """The kind of a source, as the table has it; empty if it has none."""
    kind = source.get("kind")
    return lowered(kind.strip()) if isinstance(kind, str) else ""


def lowest(origins: Iterable[Origin]) -> Origin:
    """The least trusted of some origins; trusted if there are none."""
    return min(origins, key=lambda origin: origin.rank, default=Origin.TRUSTED)


def described_origins(origin_of_kind: Mapping[str, Origin]) -> dict[str, str]:
    """The table as part of the policy set's id."""
    return {kind: origin.value for kind, origin in origin_of_kind.items()}


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
    """The product of the multipliers, capped, rounded to json-v1's six decimals: 0.8 times 0.7 is 0.56."""
    product = prod(MULTIPLIER_OF_DOUBT[doubt] for doubt in doubts)
    return min(round(product, FLOAT_DECIMALS), MAX_RECALL_CONFIDENCE)
