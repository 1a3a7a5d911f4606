"""The same verbs as ``Memory``, over HTTP: ``Client("http://127.0.0.1:8765", key="sf_…")``.

Errors are the same classes, with the same codes and facts. What changes memory is sent with an idempotency key, so that a
call that broke off can be sent again, and has one effect.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

from standfast.client.beside import RemotePrompts, RemoteTraces
from standfast.client.wire import Wire
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import StandfastError
from standfast.govern.approvals.approvals import Proposal, Statement
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.server.operations.schemas import (
    BenchResponse,
    CheckpointResponse,
    CommitResponse,
    DiffResponse,
    DueItem,
    DueResponse,
    ForgetResponse,
    HistoryPage,
    LedgerEntry,
    LedgerPage,
    ProposalResponse,
    ProposalsPage,
    RecallResponse,
    RecordsPage,
    RememberResponse,
    RunResponse,
    StatusResponse,
    SweepResponse,
    VerifyResponse,
)
from standfast.settings import KEY_VARIABLE
from standfast.store.records import HistoryEntry, RecordChange
from standfast.vocabulary import Band, Receipt, Record, Value, VisibilityMode

TIMEOUT_SECONDS: Final = 30.0
_Shape = TypeVar("_Shape", bound=Value)


class Client:
    """Memory behind a server, in one namespace. Safe to share between threads; each has its own connection."""

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        namespace: str = "default",
        timeout_seconds: float = TIMEOUT_SECONDS,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self.namespace = namespace
        self._wire = Wire(
            address,
            key if key is not None else os.environ.get(KEY_VARIABLE, ""),
            timeout_seconds=timeout_seconds,
            clock=clock or SystemClock(),
        )
        self.address = self._wire.address
        self._ids = ids or RandomIds()

    # Writing.

    def run(self, *, workflow: str, mode: VisibilityMode | str = VisibilityMode.READ_ONLY) -> "RemoteRun":
        """Start a run from the newest snapshot. Writing is an explicit choice: ``mode="buffered_write"``."""
        body = {"workflow": workflow, "mode": str(mode)}
        return RemoteRun(self, self._post("/runs", body, RunResponse, request_key=self._ids.new_id()))

    def remember(self, text: str, *, request_key: str | None = None, **options: Any) -> RememberResponse:
        """Have one thing judged and committed; ``options`` are those of ``RemoteRun.remember``."""
        return self._post(
            "/remember",
            {"text": text, **options},
            RememberResponse,
            request_key=request_key or self._ids.new_id(),
        )

    def forget(self, subject: str, *, reason: str, request_key: str | None = None) -> ForgetResponse:
        """End what is known of a subject and erase what it said."""
        body = {"subject": subject, "reason": reason}
        return self._post("/forget", body, ForgetResponse, request_key=request_key or self._ids.new_id())

    # Reading.

    def recall(
        self, query: str, *, tokens: int, max_items: int | None = None, at: int | None = None
    ) -> RecallResponse:
        """What is known, within a budget of tokens."""
        return self._post("/recall", _recall(query, tokens, max_items, at), RecallResponse, safe=True)

    def at(self, snapshot: int) -> "RemoteSnapshot":
        """Memory as of a snapshot, to recall from."""
        return RemoteSnapshot(self, snapshot)

    def history(self, subject: str) -> list[HistoryEntry]:
        """Every version of a subject (or memory id) in every band, oldest first."""
        pages = self._pages("/history", {"subject": subject}, HistoryPage)
        return [chapter for page in pages for chapter in page.versions]

    def diff(self, old: int, new: int | None = None) -> list[RecordChange]:
        """What a newer snapshot (by default the newest) shows differently."""
        return self._get("/diff", {"old": old, "new": new}, DiffResponse).changes

    def records(self, *, band: Band | None = None, at: int | None = None) -> Iterator[Record]:
        """Every record that a snapshot shows, by band and id; all from one snapshot, however long it takes."""
        for page in self._pages("/records", {"band": band, "at": at}, RecordsPage):
            yield from page.records

    def record(self, memory_id: str, *, at: int | None = None) -> list[Record]:
        """One thing, as it stands in each band that holds it."""
        return self._get("/record", {"memory_id": memory_id, "at": at}, RecordsPage).records

    def status(self) -> StatusResponse:
        """Where memory stands, and what this key may do there."""
        return self._get("/status", {}, StatusResponse)

    # Governing.

    def approvals(self) -> "RemoteApprovals":
        """The desk where proposals wait for a human's signature."""
        return RemoteApprovals(self)

    def due(self) -> list[DueItem]:
        """What a retention sweep would move or delete now."""
        return self._get("/retention", {}, DueResponse).due

    def sweep(self) -> list[Receipt]:
        """Carry out retention."""
        return self._post("/retention/sweep", None, SweepResponse).receipts

    def verify(self) -> VerifyResponse:
        """Walk everything; the server does one walk at a time."""
        return self._post("/v1/verify", None, VerifyResponse, safe=True)

    def checkpoint(self) -> str | None:
        """Sign the ledger's head."""
        return self._post("/v1/ledger/checkpoint", None, CheckpointResponse, safe=True).checkpoint

    def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """Proof that an entry is in the ledger, for someone who has only the public key."""
        return self._get(f"/v1/ledger/{ledger_seq}/receipt", {}, InclusionReceipt)

    def entries(self) -> Iterator[LedgerEntry]:
        """Every entry of the ledger, in order."""
        for page in self._pages("/v1/ledger", {}, LedgerPage):
            yield from page.entries

    # What stands beside memory.

    def traces(self) -> RemoteTraces:
        """The runs that left a trace with the server."""
        return RemoteTraces(self._wire)

    def bench(self, *, budget_bytes: int | None = None) -> BenchResponse:
        """The leaderboard of the server's finished grid, and a report for each policy."""
        return self._get("/v1/bench", {"budget_bytes": budget_bytes}, BenchResponse)

    def prompts(self) -> RemotePrompts:
        """The overrides of prompts that the server keeps."""
        return RemotePrompts(self._wire)

    def close(self) -> None:
        """Let go of this thread's connection."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # How they are sent.

    def _path(self, path: str) -> str:
        return path if path.startswith("/v1/") else f"/v1/namespaces/{quote(self.namespace, safe='')}{path}"

    def _get(self, path: str, asked: dict[str, Any], kind: type[_Shape]) -> _Shape:
        given = {name: str(value) for name, value in asked.items() if value is not None}
        query = f"?{urlencode(given)}" if given else ""
        return kind.from_json(self._wire.ask("GET", f"{self._path(path)}{query}", safe=True))

    def _pages(self, path: str, asked: dict[str, Any], kind: type[_Shape]) -> Iterator[_Shape]:
        cursor: str | None = None
        while True:
            page = self._get(path, {**asked, "cursor": cursor}, kind)
            yield page
            cursor = getattr(page, "next", None)
            if cursor is None:
                return

    def _post(
        self,
        path: str,
        body: dict[str, Any] | None,
        kind: type[_Shape],
        *,
        request_key: str | None = None,
        safe: bool = False,
    ) -> _Shape:
        answer = self._wire.ask("POST", self._path(path), body, request_key=request_key, safe=safe)
        return kind.from_json(answer)

    def _delete(self, path: str) -> None:
        self._wire.ask("DELETE", self._path(path))


class RemoteRun:
    """One run of an agent, held open by the server. As a context manager, leaving the block commits, an error discards."""

    def __init__(self, client: Client, shown: RunResponse) -> None:
        self._client = client
        self.shown = shown
        self.receipt: Receipt | None = None
        self._over = False

    def recall(self, query: str, *, tokens: int, max_items: int | None = None) -> RecallResponse:
        """What the run's snapshot knows."""
        return self._post("/recall", _recall(query, tokens, max_items, None), RecallResponse, safe=True)

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        subject: str | None = None,
        source: dict[str, Any] | None = None,
        refs: Sequence[dict[str, Any]] = (),
        propose: bool = False,
        hold: str | None = None,
    ) -> RememberResponse:
        """Have something judged, and buffered until the run commits. The answer says where it goes, and why."""
        body = {"text": text, "tags": list(tags), "subject": subject, "source": source, "refs": list(refs)}
        return self._post("/remember", {**body, "propose": propose, "hold": hold}, RememberResponse)

    def forget(self, subject: str, *, reason: str) -> ForgetResponse:
        """End what is known of a subject (or memory id) when the run commits, and erase what it said."""
        return self._post("/forget", {"subject": subject, "reason": reason}, ForgetResponse)

    def commit(self) -> Receipt | None:
        """Apply all of it atomically and durably; None if there was nothing to apply. Again gives the same receipt."""
        answer = self._post("/commit", None, CommitResponse, safe=True)
        self._over = True
        self.receipt = answer.receipt
        return self.receipt

    def discard(self) -> None:
        """Forget the buffer; nothing of it was ever visible."""
        self._over = True
        self._client._delete(self._path(""))  # noqa: SLF001  # A run is its client's other half.

    def _path(self, path: str) -> str:
        return f"/runs/{self.shown.run_id}{path}"

    def _post(
        self, path: str, body: dict[str, Any] | None, kind: type[_Shape], *, safe: bool = False
    ) -> _Shape:
        return self._client._post(self._path(path), body, kind, safe=safe)  # noqa: SLF001  # As above.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._over:
            # What went wrong inside is what the caller should hear of; an open run ends by itself.
            with suppress(StandfastError):
                self.discard()
        elif not self._over:
            self.commit()


class RemoteSnapshot:
    """Memory as of a snapshot: the same question gives the same package as then."""

    def __init__(self, client: Client, snapshot: int) -> None:
        self._client = client
        self.snapshot = snapshot

    def recall(self, query: str, *, tokens: int, max_items: int | None = None) -> RecallResponse:
        """What was known then, within a budget of tokens."""
        return self._client.recall(query, tokens=tokens, max_items=max_items, at=self.snapshot)


class RemoteApprovals:
    """Proposals of the client's namespace. A decision is a human's signature, made wherever the human's key is."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def waiting(self) -> Iterator[Proposal]:
        """All that waits, in the order of their ids."""
        return self._listed(decided=False)

    def decided(self) -> Iterator[Proposal]:
        """All that was decided, in the order of their ids."""
        return self._listed(decided=True)

    def find(self, proposal_id: str) -> ProposalResponse:
        """All of one proposal, with the statements that would decide it."""
        path = f"/proposals/{quote(proposal_id, safe='')}"
        return self._client._get(path, {}, ProposalResponse)  # noqa: SLF001  # A desk is its client's other half.

    def decide(self, statement: Statement, signature: str) -> Receipt:
        """Hand in the armored SSH signature over a statement's text."""
        body = {"statement": statement.as_json(), "signature": signature}
        path = f"/proposals/{statement.proposal_id}/decision"
        return self._client._post(path, body, Receipt)  # noqa: SLF001  # As above.

    def _listed(self, *, decided: bool) -> Iterator[Proposal]:
        asked = {"decided": "true" if decided else "false"}
        for page in self._client._pages("/proposals", asked, ProposalsPage):  # noqa: SLF001  # As above.
            yield from page.proposals


def _recall(query: str, tokens: int, max_items: int | None, at: int | None) -> dict[str, Any]:
    asked = {"query": query, "tokens": tokens, "max_items": max_items, "at": at}
    return {name: value for name, value in asked.items() if value is not None}
