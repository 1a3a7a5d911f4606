"""What a ``Client`` opens to work in: a run on a server, and memory as of one snapshot.

Each writing call of a run has an idempotency key, so that any server of the store can answer a retry.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from standfast.client.bodies import recall_body, remember_body
from standfast.client.transport import ApiCalls
from standfast.clock import IdSource
from standfast.errors import StandfastError
from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS
from standfast.origins import Origin
from standfast.recall.filters import Filter, Where
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.server.operations import schemas
from standfast.vocabulary import JsonScalar, Receipt


class RemoteRun:
    """A run on a server. Used as a context manager, leaving the block commits; an exception discards the run."""

    def __init__(self, calls: ApiCalls, response: schemas.RunResponse, *, ids: IdSource) -> None:
        self._calls = calls
        self._ids = ids
        self.is_over = False
        self.response = response
        self.receipt: Receipt | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.response.run_id

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
    ) -> schemas.RecallResponse:
        """Recall from the run's snapshot."""
        body = recall_body(
            query,
            tokens=tokens,
            max_items=max_items,
            scope=scope,
            scopes=scopes,
            where=where,
            controller=controller,
            now_utc=now_utc,
            least_origin=least_origin,
            include_unreviewed=include_unreviewed,
        )
        return self._calls.post(self._path("/recall"), schemas.RecallResponse, body, safe=True)

    def remember(
        self,
        text: str,
        *,
        subject: str | None = None,
        source: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        refs: Sequence[Mapping[str, Any]] = (),
        propose: bool = False,
        hold: str | None = None,
        scope: str | None = None,
        metadata: Mapping[str, JsonScalar] | None = None,
        session: str | None = None,
        position: int | None = None,
        speaker: str | None = None,
        valid_from: str | datetime | None = None,
        valid_until: str | datetime | None = None,
        supersedes: str | Sequence[str] = (),
    ) -> schemas.RememberResponse:
        """Judge one text and buffer it until the run commits; see ``Client.remember``."""
        body = remember_body(
            text,
            subject=subject,
            source=source,
            tags=tags,
            refs=refs,
            propose=propose,
            hold=hold,
            scope=scope,
            metadata=metadata,
            session=session,
            position=position,
            speaker=speaker,
            valid_from=valid_from,
            valid_until=valid_until,
            supersedes=supersedes,
        )
        return self._calls.post(
            self._path("/remember"), schemas.RememberResponse, body, request_key=self._ids.new_id()
        )

    def forget(self, subject: str, *, reason: str, scope: str | None = None) -> schemas.ForgetResponse:
        """Forget a subject (or memory id) when the run commits, and erase its content."""
        body = schemas.ForgetBody.from_json({"subject": subject, "reason": reason, "scope": scope})
        return self._calls.post(
            self._path("/forget"), schemas.ForgetResponse, body, request_key=self._ids.new_id()
        )

    def commit(self) -> Receipt | None:
        """Commit the run atomically. Returns None if there was nothing to apply; repeating it gives the same receipt."""
        response = self._calls.post(self._path("/commit"), schemas.CommitResponse, safe=True)
        self.is_over = True
        self.receipt = response.receipt
        return self.receipt

    def discard(self) -> None:
        """Discard the run. None of its writes were visible to anyone."""
        self.is_over = True
        self._calls.delete(self._path(""))

    def _path(self, path: str) -> str:
        return f"/runs/{self.run_id}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_over:
            return
        if kind is None:
            self.commit()
        else:
            # The caller should see the error of the block. An open run expires on the server.
            with suppress(StandfastError):
                self.discard()


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
