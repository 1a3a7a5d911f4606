"""Memory on a server as of one snapshot."""

from collections.abc import Sequence

from standfast.client.bodies import recall_body
from standfast.client.transport import ApiCalls
from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS
from standfast.origins import Origin
from standfast.recall.filters import Filter, Where
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.server.operations import schemas


class RemoteSnapshot:
    """Memory as of a snapshot. The same query returns the same package as it did then."""

    def __init__(self, calls: ApiCalls, snapshot: int) -> None:
        self._calls = calls
        self.snapshot = snapshot

    def recall(
        self,
        query: str,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        max_items: int = DEFAULT_MAX_ITEMS,
        scope: str | None = None,
        scopes: Sequence[str] | None = None,
        where: Filter | Where | None = None,
        controller: str = DEFAULT_CONTROLLER,
        now_utc: str | None = None,
        least_origin: Origin | str | None = None,
        include_unreviewed: bool = False,
        explain: bool = False,
    ) -> schemas.RecallResponse:
        """Recall from the snapshot within a token budget."""
        body = recall_body(
            query,
            tokens=tokens,
            max_items=max_items,
            at=self.snapshot,
            scope=scope,
            scopes=scopes,
            where=where,
            controller=controller,
            now_utc=now_utc,
            least_origin=least_origin,
            include_unreviewed=include_unreviewed,
            explain=explain,
        )
        return self._calls.post("/recall", schemas.RecallResponse, body, safe=True)
