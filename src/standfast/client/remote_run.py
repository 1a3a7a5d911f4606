"""What a ``Client`` opens to work in: a run on a server, and memory as of one snapshot.

Each writing call of a run has an idempotency key, so that any server of the store can answer a retry.
"""

from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from standfast.client.bodies import recall_body
from standfast.client.transport import ApiCalls
from standfast.clock import IdSource
from standfast.errors import StandfastError
from standfast.records.requests import (
    ForgetRequest,
    RecallFields,
    RecallRequest,
    RememberFields,
    RememberRequest,
    takes_fields_of,
)
from standfast.records.vocabulary import Receipt
from standfast.server.operations import schemas


class RemoteRun:
    """A run on a server.

    Used as a context manager, leaving the block commits; an exception discards the run.
    """

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

    @takes_fields_of(RecallRequest)
    def recall(
        self, query: str, *, explain: bool = False, **fields: Unpack[RecallFields]
    ) -> schemas.RecallResponse:
        """Recall from the run's snapshot; see ``Client.recall``."""
        body = recall_body(query, explain=explain, **fields)
        return self._calls.post(self._path("/recall"), schemas.RecallResponse, body, safe=True)

    @takes_fields_of(RememberRequest)
    def remember(self, text: str, **fields: Unpack[RememberFields]) -> schemas.RememberResponse:
        """Judge one text and buffer it until the run commits; see ``Client.remember``."""
        request, key = RememberRequest.of(text, **fields), self._ids.new_id()
        return self._calls.post(self._path("/remember"), schemas.RememberResponse, request, request_key=key)

    def forget(self, subject: str, *, reason: str, scope: str | None = None) -> schemas.ForgetResponse:
        """Forget a subject (or memory id) when the run commits, and erase its content."""
        request = ForgetRequest.of(subject, reason=reason, scope=scope)
        return self._calls.post(
            self._path("/forget"), schemas.ForgetResponse, request, request_key=self._ids.new_id()
        )

    def commit(self) -> Receipt | None:
        """Commit the run atomically.

        Returns None if there was nothing to apply; repeating it gives the same receipt.
        """
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

    @takes_fields_of(RecallRequest)
    def recall(
        self, query: str, *, explain: bool = False, **fields: Unpack[RecallFields]
    ) -> schemas.RecallResponse:
        """Recall from the snapshot within a token budget; see ``Client.recall``."""
        body = recall_body(query, at=self.snapshot, explain=explain, **fields)
        return self._calls.post("/recall", schemas.RecallResponse, body, safe=True)
