"""The origin of what a run wants remembered: what is derived is trusted no more than what it cites."""

from collections.abc import Mapping
from typing import Any, Final

from standfast.origins import CITING_KINDS, Origin, kind_of, lowest, origin_of
from standfast.policies.band_budget import OBSERVATION
from standfast.remember_request import RememberRequest
from standfast.scopes import checked_scope, scoped_key
from standfast.store.records import record_of
from standfast.store.store import Store
from standfast.vocabulary import Band

# In the order in which they are looked up: law wins.
_CITED_BANDS: Final = (Band.VAULT, Band.LEDGER, Band.ACTIVE, Band.WITNESS)


class OriginLookup:
    """Tells how far a text is trusted, by its source and refs as of a snapshot."""

    def __init__(
        self, store: Store, namespace: str, origin_of_kind: Mapping[str, Origin], *, at: int
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._origin_of_kind = origin_of_kind
        self._at = at

    def origin_of(
        self, request: RememberRequest, own: Mapping[tuple[str, str], Origin], highest: Origin
    ) -> Origin:
        """The lowest origin of the source, of every ref, and of ``highest``.

        Args:
            own: The origins of records that the run has not committed yet, by scope and id.
            highest: The most that whoever asks may be trusted.
        """
        if highest is Origin.UNTRUSTED:
            return highest
        # An observation is what a write policy is shown of the text itself, and cites nothing.
        cited = [request.source, *(ref for ref in request.refs if kind_of(ref) != OBSERVATION)]
        return lowest([highest, *(self._origin_of_one(one, request.scope, own) for one in cited)])

    def _origin_of_one(
        self, source: Mapping[str, Any] | None, scope: str, own: Mapping[tuple[str, str], Origin]
    ) -> Origin:
        if source is None or kind_of(source) not in CITING_KINDS:
            return origin_of(source, self._origin_of_kind)
        memory_id = source.get("id")
        if not isinstance(memory_id, str) or not memory_id:
            return Origin.UNTRUSTED
        within = checked_scope(source["scope"]) if isinstance(source.get("scope"), str) else scope
        if (within, memory_id) in own:
            return own[within, memory_id]
        keys = [scoped_key(band, within, memory_id) for band in _CITED_BANDS]
        found = self._store.read(self._namespace, keys, at=self._at)
        if keys[0] in found:
            return Origin.TRUSTED
        return lowest(record_of(row).origin for row in found.values()) if found else Origin.UNTRUSTED
