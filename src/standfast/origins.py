"""Origins: how far whoever said something is trusted, by the kind of the source."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from standfast.casing import lowered


class Origin(StrEnum):
    """How far whoever said something is trusted. It comes from the kind of the source, never from what is said."""

    TRUSTED = "trusted"
    ORDINARY = "ordinary"
    UNTRUSTED = "untrusted"


ORIGIN_OF_KIND: Final[Mapping[str, Origin]] = {
    "operator": Origin.TRUSTED,
    "user": Origin.TRUSTED,
    "agent": Origin.ORDINARY,
    "doc": Origin.ORDINARY,
    "document": Origin.ORDINARY,
    "api": Origin.UNTRUSTED,
    "tool": Origin.UNTRUSTED,
    "web": Origin.UNTRUSTED,
}
"""The origin of each kind of source. A kind that is not listed is untrusted."""


def origin_of(
    source: Mapping[str, Any] | None, origin_of_kind: Mapping[str, Origin] = ORIGIN_OF_KIND
) -> Origin:
    """The origin of what comes from a source. Without a source it is the agent's own word, which is ordinary."""
    if source is None:
        return Origin.ORDINARY
    kind = source.get("kind")
    return origin_of_kind.get(lowered(kind.strip()) if isinstance(kind, str) else "", Origin.UNTRUSTED)
