"""Memory on a server, with the verbs of ``Memory``.

    with Client("http://127.0.0.1:8765", key="sf_…") as memory:
        memory.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})
        print(memory.recall("How long do refunds take?", tokens=500).text)

Errors are the classes that ``Memory`` raises, with the same codes and facts. Arguments are checked before a
request is sent. Writes have an idempotency key, so that an interrupted request can be sent again and takes
effect once.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Self, Unpack
from weakref import WeakSet

import msgspec

from standfast.client.bodies import joined, message_pages, recall_body
from standfast.client.event_stream import EventStream
from standfast.client.remote_resources import (
    RemoteApprovals,
    RemoteKeys,
    RemotePrompts,
    RemoteTraces,
    require_text,
)
from standfast.client.remote_run import RemoteRun, RemoteSnapshot
from standfast.client.transport import ApiCalls, Transport
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import InvalidValue
from standfast.govern.refusals import ListedRefusal
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.limits import DEFAULT_RECALL_TOKENS, SAFE_INTEGER
from standfast.memory.conversations import AddedMessages
from standfast.memory.current import Conflict, Profile, Settlement
from standfast.memory.investigation import Investigation
from standfast.memory.messages import SessionInfo, SessionMessage
from standfast.memory.quarantine import QuarantineAct, QuarantinedRecord, Released
from standfast.records.canon import canonical_bytes
from standfast.records.filters import Filter, Where
from standfast.records.incident_requests import (
    InvestigateFields,
    InvestigateRequest,
    QuarantineFields,
    QuarantineRequest,
    RevertFields,
    RevertRequest,
)
from standfast.records.requests import (
    AddFields,
    AddRequest,
    ForgetFields,
    ForgetRequest,
    RecallFields,
    RecallRequest,
    RememberFields,
    RememberRequest,
    takes_fields_of,
)
from standfast.records.vocabulary import Band, Receipt, Record, VisibilityMode
from standfast.server.operations import incident_operations, schemas, store_schemas
from standfast.server.operations.current_operations import (
    ConflictsQuery,
    ConflictsResponse,
    ProfileQuery,
    ProfileResponse,
    SettleBody,
    SettleResponse,
)
from standfast.server.operations.schemas import SessionPage, SessionQuery, SessionsPage, SessionsQuery
from standfast.server.operations.store_schemas import BenchQuery, BenchResponse
from standfast.settings import KEY_VARIABLE
from standfast.store.stored_records import HistoryEntry, RecordChange
from standfast.traces.artifact import ModelConfig

TIMEOUT_SECONDS: Final = 30.0


class Client:
    """Memory on a server, in one namespace.

    Safe to share between threads; each thread has its own connection.

    Args:
        address: The URL of the server, such as ``"http://127.0.0.1:8765"``.
        key: The API key; by default that of the environment variable ``STANDFAST_API_KEY``.
        timeout_seconds: How long to wait for a response.
    """

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
        require_text("namespace", namespace)
        clock = clock or SystemClock()
        transport = Transport(
            address,
            key if key is not None else os.environ.get(KEY_VARIABLE, ""),
            timeout_seconds=timeout_seconds,
            clock=clock,
        )
        self.address = transport.address
        self.namespace = namespace
        self._calls = ApiCalls(transport, namespace)
        self._ids = ids or RandomIds()
        self._clock = clock
        self._streams = WeakSet[EventStream]()

    # Writing.

    def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str | None = None,
        scope: str | None = None,
        model: ModelConfig | None = None,
    ) -> RemoteRun:
        """Open a run on the newest snapshot.

        To write, pass ``mode="buffered_write"``; the default is the server's.

        Args:
            scope: Where the run reads and writes unless a call names a scope.
            model: The model that answers. Without it, the trace can't claim determinism.
        """
        named: dict[str, Any] = {} if mode is None else {"mode": str(mode)}
        if model is not None:
            named["model"] = model.as_json()
        body = schemas.OpenRunBody.from_json({"workflow": workflow, "scope": scope, **named})
        response = self._calls.post("/runs", schemas.RunResponse, body, request_key=self._ids.new_id())
        return RemoteRun(self._calls, response, ids=self._ids)

    @takes_fields_of(RememberRequest)
    def remember(
        self, text: str, *, request_key: str | None = None, **fields: Unpack[RememberFields]
    ) -> schemas.RememberResponse:
        """Judge one text and commit it. The fields are those of ``RememberRequest``.

        Args:
            request_key: An idempotency key of your own. Repeating the call with it has one effect.
        """
        request = RememberRequest.of(text, **fields)
        return self._calls.post(
            "/remember", schemas.RememberResponse, request, request_key=self._key(request_key)
        )

    def remember_batch(
        self, items: Sequence[RememberRequest], *, request_key: str | None = None
    ) -> schemas.RememberBatchResponse:
        """Judge several texts, in their order, and commit them together.

        Example:
            client.remember_batch([RememberRequest(text="VAT is 19 %."), RememberRequest(text="Ada likes
            tea.")])
        """
        body = schemas.RememberBatchBody.from_json({"items": [item.as_json() for item in items]})
        return self._calls.post(
            "/remember/batch", schemas.RememberBatchResponse, body, request_key=self._key(request_key)
        )

    @takes_fields_of(AddRequest)
    def add(
        self,
        messages: Iterable[Any],
        *,
        extract: bool = False,
        background: bool = False,
        request_key: str | None = None,
        **fields: Unpack[AddFields],
    ) -> AddedMessages:
        """Add the messages of a conversation; see ``Memory.add``. Many messages are sent in several requests.

        The fields are those of ``AddRequest``.

        Args:
            messages: OpenAI- or Anthropic-style messages, as dicts or as the objects of a client library.
            extract: Let the model that the server's operator set find facts in them; each is judged. If it
                takes long, the answer has ``facts_pending``, and an event tells when the facts are there.
            background: Answer before the model does.
            request_key: An idempotency key of your own. Repeating the call with it has one effect.
        """
        key = self._key(request_key)
        added: AddedMessages | None = None
        for number, page in enumerate(message_pages(messages)):
            request = msgspec.structs.replace(
                AddRequest.of(page, **fields), extract=extract, background=background
            )
            if added is not None:
                place = {"session": added.session, "position": added.messages[-1].position + 1}
                request = msgspec.structs.replace(request, **place, supersedes=())
            response = self._calls.post(
                "/add", AddedMessages, request, request_key=f"{key}#{number}" if number else key
            )
            added = response if added is None else joined(added, response)
        assert added is not None, "there is at least one page"
        return added

    @takes_fields_of(ForgetRequest)
    def forget(
        self,
        subject: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        request_key: str | None = None,
        **fields: Unpack[ForgetFields],
    ) -> schemas.ForgetResponse:
        """Erase a subject (or memory id) of a scope, all of a scope, or all from a source; see
        ``Memory.forget``. Sealed records stay.
        """
        request = ForgetRequest.of(subject, reason=reason, rehearse=rehearse, **fields)
        return self._calls.post(
            "/forget", schemas.ForgetResponse, request, request_key=self._key(request_key)
        )

    # Reading.

    @takes_fields_of(RecallRequest)
    def recall(
        self, query: str, *, at: int | None = None, explain: bool = False, **fields: Unpack[RecallFields]
    ) -> schemas.RecallResponse:
        """Recall the best records for a query within a token budget. The fields are those of
        ``RecallRequest``.

        Args:
            at: The snapshot to read; by default the newest.
            explain: Whether ``explanation`` says why each record was chosen or not.
        """
        return self._calls.post(
            "/recall", schemas.RecallResponse, recall_body(query, at=at, explain=explain, **fields), safe=True
        )

    @takes_fields_of(RecallRequest)
    def explain(
        self, query: str, *, at: int | None = None, **fields: Unpack[RecallFields]
    ) -> schemas.RecallResponse:
        """Recall, with an ``explanation`` of why each record was chosen or not; see ``recall``."""
        body = recall_body(query, at=at, explain=True, **fields)
        return self._calls.post("/recall", schemas.RecallResponse, body, safe=True)

    def recall_batch(self, items: Sequence[schemas.RecallBody]) -> list[schemas.RecallResponse]:
        """Recall for several queries. Those without ``at`` read the same snapshot, the newest."""
        body = schemas.RecallBatchBody.from_json({"items": [item.as_json() for item in items]})
        return self._calls.post("/recall/batch", schemas.RecallBatchResponse, body, safe=True).items

    def at(self, snapshot: int) -> RemoteSnapshot:
        """Memory as of a snapshot, to recall from."""
        return RemoteSnapshot(self._calls, snapshot)

    def history(self, subject: str, *, scope: str | None = None) -> list[HistoryEntry]:
        """Every version of a scope's subject (or memory id) in every band, oldest first."""
        query = schemas.HistoryQuery.from_json({"subject": subject, "scope": scope})
        return [
            one for page in self._calls.pages("/history", schemas.HistoryPage, query) for one in page.versions
        ]

    def diff(self, old: int, new: int | None = None, *, scope: str | None = None) -> list[RecordChange]:
        """The records of a scope, with all below it (``"*"`` for all), that differ between two snapshots."""
        query = schemas.DiffQuery.from_json({"old": old, "new": new, "scope": scope})
        return self._calls.get("/diff", schemas.DiffResponse, query).changes

    def records(
        self,
        *,
        band: Band | None = None,
        at: int | None = None,
        scope: str | None = None,
        where: Filter | Where | None = None,
    ) -> Iterator[Record]:
        """Yield the records of a snapshot in a scope and below it (``"*"`` for all), by band, scope and id.

        Args:
            where: Which records to list, such as ``{"tag": "billing"}``.
        """
        chosen = Filter.of(where)
        query = schemas.RecordsQuery.from_json(
            {
                "band": None if band is None else str(band),
                "at": at,
                "scope": scope,
                "where": canonical_bytes(chosen.as_json()).decode() if chosen else None,
            }
        )
        return (
            one for page in self._calls.pages("/records", schemas.RecordsPage, query) for one in page.records
        )

    def record(self, memory_id: str, *, at: int | None = None, scope: str | None = None) -> list[Record]:
        """One record of a scope, from each band that holds it."""
        query = schemas.RecordQuery.from_json({"memory_id": memory_id, "at": at, "scope": scope})
        return self._calls.get("/record", schemas.RecordsPage, query).records

    def session(
        self, session: str, *, scope: str | None = None, at: int | None = None
    ) -> list[SessionMessage]:
        """The messages of a session, in order. Those not accepted have no text, but their verdict."""
        query = SessionQuery.from_json({"session": session, "scope": scope, "at": at})
        return [one for page in self._calls.pages("/session", SessionPage, query) for one in page.messages]

    def sessions(self, *, scope: str | None = None, at: int | None = None) -> list[SessionInfo]:
        """The sessions of a scope, with all below it (``"*"`` for all)."""
        query = SessionsQuery.from_json({"scope": scope, "at": at})
        return [one for page in self._calls.pages("/sessions", SessionsPage, query) for one in page.sessions]

    # What is current.

    def profile(
        self, scope: str | None = None, *, tokens: int = DEFAULT_RECALL_TOKENS, at: int | None = None
    ) -> Profile:
        """What memory knows about the owner of a scope, for the start of a prompt; see ``Memory.profile``."""
        query = ProfileQuery.from_json({"scope": scope, "tokens": tokens, "at": at})
        return self._calls.get("/profile", ProfileResponse, query).profile

    def conflicts(self, *, scope: str | None = None, at: int | None = None) -> list[Conflict]:
        """What disagrees in a scope, with all below it (``"*"`` for all); see ``Memory.conflicts``."""
        query = ConflictsQuery.from_json({"scope": scope, "at": at})
        return self._calls.get("/conflicts", ConflictsResponse, query).conflicts

    def settle(
        self,
        conflict_id: str,
        keep: str,
        *,
        reason: str,
        scope: str | None = None,
        rehearse: bool = False,
        propose: bool = False,
    ) -> Settlement:
        """Settle a conflict; see ``Memory.settle``. The key says who does it, and whether it is a person."""
        body = SettleBody(
            conflict_id=conflict_id, keep=keep, reason=reason, scope=scope, rehearse=rehearse, propose=propose
        )
        (settled,) = self._calls.post("/settle", SettleResponse, body).settled
        return settled

    def settle_all(
        self, *, reason: str, scope: str | None = None, rehearse: bool = False, propose: bool = False
    ) -> list[Settlement]:
        """Settle each conflict of a scope (``"*"``: all) by what was said last; see ``Memory.settle_all``."""
        body = SettleBody(all=True, reason=reason, scope=scope, rehearse=rehearse, propose=propose)
        return self._calls.post("/settle", SettleResponse, body).settled

    def status(self) -> schemas.StatusResponse:
        """The state of the namespace, and the permissions of this key there."""
        return self._calls.get("/status", schemas.StatusResponse)

    # Governance.

    @property
    def approvals(self) -> RemoteApprovals:
        """The proposals that wait for a person's signature."""
        return RemoteApprovals(self._calls)

    def due(self) -> list[store_schemas.DueItem]:
        """The records that a retention sweep would move or delete now."""
        return self._calls.get("/retention", store_schemas.DueResponse).due

    def sweep(self) -> list[Receipt]:
        """Run a retention sweep."""
        return self._calls.post("/retention/sweep", store_schemas.SweepResponse).receipts

    def refusals(self, *, scope: str | None = None) -> list[ListedRefusal]:
        """The refusals that are remembered, in a scope with all below it; by default in every scope."""
        query = store_schemas.RefusalsQuery(scope=scope)
        return self._calls.get("/refusals", store_schemas.RefusalsPage, query).refusals

    def lift_refusal(self, refusal: str, *, reason: str, scope: str | None = None) -> Receipt:
        """End a refusal before it fades. The ledger records whose key it was, and why.

        Args:
            refusal: The id that ``refusals`` gives, or a source such as ``"web:example.com"``.
            scope: Where, with all below it; by default in every scope.
        """
        body = store_schemas.LiftBody(refusal=refusal, reason=reason, scope=scope)
        return self._calls.post("/refusals/lift", Receipt, body)

    @takes_fields_of(InvestigateRequest, InvestigateFields)
    def investigate(self, memory_id: str | None = None, **fields: Unpack[InvestigateFields]) -> Investigation:
        """Find the causes and the reach of something, within the key's scopes; see ``Memory.investigate``."""
        request = InvestigateRequest.of(memory_id, **fields)
        return self._calls.post("/investigate", Investigation, request, safe=True)

    @takes_fields_of(QuarantineRequest, QuarantineFields)
    def quarantine(
        self,
        memory_id: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        request_key: str | None = None,
        **fields: Unpack[QuarantineFields],
    ) -> incident_operations.ActResponse:
        """Take records out of recall, or rehearse it; see ``Memory.quarantine``."""
        request = QuarantineRequest.of(memory_id, reason=reason, rehearse=rehearse, **fields)
        return self._calls.post(
            "/quarantine", incident_operations.ActResponse, request, request_key=self._key(request_key)
        )

    @takes_fields_of(RevertRequest, RevertFields)
    def revert(
        self,
        *,
        reason: str = "",
        rehearse: bool = False,
        request_key: str | None = None,
        **fields: Unpack[RevertFields],
    ) -> incident_operations.ActResponse:
        """Undo what a run wrote, or rehearse it; see ``Memory.revert``."""
        request = RevertRequest.of(reason=reason, rehearse=rehearse, **fields)
        return self._calls.post(
            "/revert", incident_operations.ActResponse, request, request_key=self._key(request_key)
        )

    def release(self, act_id: str, *, reason: str) -> Released:
        """Take a quarantine or a revert back. The ledger records whose key it was, and why."""
        body = incident_operations.ReleaseBody(act_id=act_id, reason=reason)
        return self._calls.post("/quarantine/release", Released, body, safe=True)

    def quarantines(self) -> list[QuarantineAct]:
        """Return every act of quarantine or revert, the newest last."""
        query = incident_operations.QuarantinesQuery()
        return self._calls.get("/quarantine", incident_operations.QuarantinesPage, query).acts

    def quarantined(self, *, scope: str | None = None) -> list[QuarantinedRecord]:
        """Return what is in quarantine now in a scope and below it, by default everywhere (a first page)."""
        query = incident_operations.QuarantinesQuery(scope=scope)
        return self._calls.get("/quarantine", incident_operations.QuarantinesPage, query).records

    def verify(self) -> store_schemas.VerifyResponse:
        """Verify the whole store. The server runs one verification at a time."""
        return self._calls.post("/v1/verify", store_schemas.VerifyResponse, safe=True)

    def checkpoint(self) -> str | None:
        """Sign the head of the ledger and return the checkpoint."""
        return self._calls.post(
            "/v1/ledger/checkpoint", store_schemas.CheckpointResponse, safe=True
        ).checkpoint

    def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """A proof that an entry is in the ledger; the log's public key is enough to check it."""
        if not (type(ledger_seq) is int and 0 < ledger_seq <= SAFE_INTEGER):
            raise InvalidValue(
                what="ledger_seq", problem=f"it must be a positive number, not {ledger_seq!r:.80}"
            )
        return self._calls.get(f"/v1/ledger/{ledger_seq}/receipt", InclusionReceipt)

    def entries(self) -> Iterator[store_schemas.LedgerEntry]:
        """Yield every entry of the ledger, in order."""
        pages = self._calls.pages("/v1/ledger", store_schemas.LedgerPage, schemas.PageQuery())
        return (one for page in pages for one in page.entries)

    def events(self, *, after: int | None = None) -> EventStream:
        """Follow commits, proposals and refusals of all namespaces of the key, as they happen.

        Args:
            after: The id of the last event that is known (``EventStream.last_id``); 0 for everything from the
                beginning. Without one, only later events.
        """
        stream = EventStream(self._calls.transport, after, sleep=self._clock.sleep)
        self._streams.add(stream)
        return stream

    # Traces, bench results, prompts.

    def keys(self) -> RemoteKeys:
        """The API keys of the server, for operators."""
        return RemoteKeys(self._calls)

    def namespaces(self) -> list[str]:
        """The namespaces of this key; with a key for all, every namespace that ever held a record."""
        return self._calls.get("/v1/namespaces", store_schemas.NamespacesResponse).namespaces

    def traces(self) -> RemoteTraces:
        """The recorded traces of the server."""
        return RemoteTraces(self._calls)

    def bench(self, *, budget_bytes: int | None = None) -> BenchResponse:
        """The benchmark leaderboard of the server, and a report for each policy."""
        return self._calls.get(
            "/v1/bench", BenchResponse, BenchQuery.from_json({"budget_bytes": budget_bytes})
        )

    def prompts(self) -> RemotePrompts:
        """The prompt overrides of the server."""
        return RemotePrompts(self._calls)

    def close(self) -> None:
        """Close all connections, and end the streams of events."""
        for stream in list(self._streams):
            stream.close()
        self._calls.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _key(self, request_key: str | None) -> str:
        if request_key is None:
            return self._ids.new_id()
        require_text("request_key", request_key)
        return request_key
