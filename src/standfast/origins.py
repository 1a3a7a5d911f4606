"""Origins: how far whoever said something is trusted, by the kind of the source."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from standfast.casing import lowered
from standfast.errors import InvalidValue


class Origin(StrEnum):
    """How far whoever said something is trusted. It comes from the kind of the source, never from what is said."""

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
"""Kinds of sources and refs that name a record of memory by its id. What cites a record is trusted no more than it."""


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
    """The origin of what comes from a source. Without a source it is the agent's own word, which is ordinary."""
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
