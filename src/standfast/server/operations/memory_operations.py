"""Operations on the memory of one namespace: recall, listings, history, remember, forget, and conversations.

Each function takes the gateway, the caller and the namespace, checks the permission, and calls ``Memory``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Final

import msgspec

from standfast.errors import (
    AccessError,
    Forbidden,
    InvalidValue,
    NoSuchSnapshot,
    NotCanonical,
    NotFound,
    PayloadMismatch,
)
from standfast.govern.authority import Role
from standfast.limits import (
    EXTRACTION_WAIT_SECONDS,
    MAX_DIFF_SNAPSHOTS,
    MAX_LISTED_RECORDS,
    MAX_PAGE_ITEMS,
    MAX_RECALL_TOKENS,
    MAX_RUN_ITEMS,
    MAX_SNAPSHOTS_EXAMINED,
    SCAN_PAGE_RECORDS,
)
from standfast.memory import Memory, Run
from standfast.memory.conversations import AddedMessages
from standfast.memory.idempotency import IdempotencyRecord
from standfast.memory.listings import listed_rows
from standfast.memory.snapshot_view import SnapshotView
from standfast.recall.answers import Package
from standfast.recall.package import RecallPackage
from standfast.recall.tokens import TokenCounter
from standfast.records.canon import parse
from standfast.records.filters import NO_FILTER, Filter
from standfast.records.requests import (
    RECALLED_BANDS,
    RECORD_BANDS,
    AddRequest,
    ForgetFields,
    ForgetRequest,
    RecallRequest,
    RememberRequest,
    fields_of,
    require_no_proposals,
)
from standfast.records.rows import RULES, Reader, RowKind
from standfast.records.scopes import SHARED, prefix_in, scope_in, scoped_key
from standfast.records.vocabulary import Band, Record, Snapshot, VisibilityMode
from standfast.server.access.permissions import Caller, KeyRole, Permission, is_allowed, namespace_for
from standfast.server.access.scope_limits import listed_scopes, own_scope, own_scopes, sees_any, sees_key
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.schemas import (
    DiffQuery,
    DiffResponse,
    ForgetInRunBody,
    ForgetResponse,
    HistoryPage,
    HistoryQuery,
    NewestQuery,
    PageQuery,
    RecallBatchBody,
    RecallBatchResponse,
    RecallBody,
    RecallResponse,
    RecordQuery,
    RecordsPage,
    RecordsQuery,
    RememberBatchBody,
    RememberBatchResponse,
    RememberResponse,
    SessionPage,
    SessionQuery,
    SessionsPage,
    SessionsQuery,
    SnapshotsPage,
    StatusResponse,
    decode_number,
    decode_place,
    encode_cursor,
    paginate,
    wrong_cursor,
)
from standfast.server.operations.telemetry import VERSION
from standfast.store.stored_records import HistoryEntry, record_of

DEFAULT_WORKFLOW: Final = "server"


def readable_bands(caller: Caller) -> tuple[Band, ...]:
    """The bands whose records the caller may read. Rejected content is for people, not for agents."""
    readers = {Reader.EVERYBODY} if caller.role is KeyRole.AGENT else {Reader.EVERYBODY, Reader.PEOPLE}
    return tuple(band for band in RECORD_BANDS if RULES[RowKind(band)].seen_by in readers)


def may_read(caller: Caller, key: str) -> bool:
    """Whether the caller may read the record with a key."""
    return prefix_in(key) in (*readable_bands(caller), Band.PHOENIX) and sees_key(caller, key)


# Reading.


def recall(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: RecallBody,
    *,
    token_counter: TokenCounter | None = None,
) -> RecallResponse:
    """Recall the best records for a query within a token budget, from the newest snapshot or that of
    ``body.at``.
    """
    memory = gateway.authorize(caller, Permission.RECALL, namespace)
    at = memory.store.head() if body.at is None else body.at
    return _recalled(memory.at(at), caller, body, token_counter)


def recall_batch(
    gateway: Gateway, caller: Caller, namespace: str, body: RecallBatchBody
) -> RecallBatchResponse:
    """Recall for several queries. Those without ``at`` read the same snapshot, the newest."""
    memory = gateway.authorize(caller, Permission.RECALL, namespace)
    if sum(item.tokens for item in body.items) > MAX_RECALL_TOKENS:
        problem = f"the budgets together are more than {MAX_RECALL_TOKENS} tokens; send fewer queries at once"
        raise InvalidValue(what="batch", problem=problem)
    head = memory.store.head()
    responses = []
    for item in body.items:
        at = head if item.at is None else item.at
        responses.append(_recalled(memory.at(at), caller, item))
    return RecallBatchResponse(items=responses)


def recall_in(run: Run, caller: Caller, body: RecallRequest) -> RecallResponse:
    """Recall from the snapshot of an open run."""
    options = _options_of(caller, body.within(run.scope))
    return _recall_response(run.recall(body.query, **options), run.identity.memory_snapshot_id)


def _recalled(
    view: SnapshotView, caller: Caller, body: RecallBody, token_counter: TokenCounter | None = None
) -> RecallResponse:
    options = _options_of(caller, body)
    answer = view.handed_to(caller.name).explain(body.query, token_counter=token_counter, **options)
    package = answer.package
    if caller.scopes and isinstance(package, RecallPackage) and package.advice:
        # A key that is limited to scopes is not told of others.
        advice = view.advice(RecallRequest.of(body.query, **options), names_scopes=False)
        package = msgspec.structs.replace(package, advice=advice)
    response = _recall_response(package, view.memory_snapshot_id)
    if not body.explain:
        return response
    return msgspec.structs.replace(response, explanation=answer.explanation.as_json())


def _options_of(caller: Caller, body: RecallRequest) -> dict[str, Any]:
    """What is recalled besides the query, by the names that ``Run.recall`` has for it."""
    require_no_proposals(body.bands)
    hidden = set(body.bands).difference(readable_bands(caller))
    if hidden:
        problem = "leave it out, or ask with a key that may read it"
        raise Forbidden(
            role=caller.role.value,
            act=Permission.RECALL.value,
            where=f"band {min(hidden)}",
            problem=problem,
        )
    return {**fields_of(body), "scopes": own_scopes(caller, Permission.RECALL, body.scopes)}


def _recall_response(package: Package, at: int) -> RecallResponse:
    return RecallResponse(
        memory_snapshot_id=at, package_hash=package.package_hash, text=package.text, package=package.as_json()
    )


def list_records(gateway: Gateway, caller: Caller, namespace: str, query: RecordsQuery) -> RecordsPage:
    """List the records of one snapshot by band and id. Later pages show the same snapshot."""
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    memory.require_readable("list records")
    require_no_proposals([] if query.band is None else [query.band])
    at, after = existing_snapshot(memory, query.at), ""
    if query.cursor is not None:
        at, after = decode_place(query.cursor)
        if prefix_in(after) not in RECORD_BANDS or not 0 <= at <= memory.store.head():
            raise wrong_cursor()
    bands = [band for band in readable_bands(caller) if query.band in (None, band)]
    scopes = listed_scopes(caller, Permission.LIST_RECORDS, query.scope)
    chosen = NO_FILTER if query.where is None else _filter_in(query.where)
    rows = listed_rows(memory.store, memory.namespace, bands, scopes, at=at, after=after)
    page, cursor = paginate(
        (row for row in rows if not chosen or chosen.matches(record_of(row))),
        limit=query.limit,
        size=lambda version: len(version.content or b""),
        position=lambda version: (at, version.key),
    )
    advice = "" if page or after else _scope_advice(memory, caller, scopes, at)
    records = [record_of(version) for version in page]
    return RecordsPage(memory_snapshot_id=at, records=records, next=cursor, advice=advice)


def _filter_in(where: str) -> Filter:
    try:
        return Filter.from_json(parse(where.encode()))
    except (NotCanonical, InvalidValue) as error:
        raise InvalidValue(what="where", problem=f"it is not the JSON of a filter: {error}") from None


def _scope_advice(memory: Memory, caller: Caller, scopes: Sequence[str], at: int) -> str:
    """What to try if nothing is listed. A key that is limited to scopes is not told of others."""
    return "" if caller.scopes else memory.reader.scope_advice(scopes, at=at)


def newest_records(gateway: Gateway, caller: Caller, namespace: str, query: NewestQuery) -> RecordsPage:
    """Return law and accepted memory of a scope, the newest first.

    Of a scope with very many records, the first ones by id are looked at.
    """
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    memory.require_readable("list records")
    at, scopes = (
        existing_snapshot(memory, query.at),
        listed_scopes(caller, Permission.LIST_RECORDS, query.scope),
    )
    rows = islice(
        listed_rows(memory.store, memory.namespace, RECALLED_BANDS, scopes, at=at), MAX_LISTED_RECORDS
    )
    records = [record for record in map(record_of, rows) if query.where.matches(record)]
    records.sort(key=lambda one: (one.ts_utc or "", one.key), reverse=True)
    advice = "" if records else _scope_advice(memory, caller, scopes, at)
    return RecordsPage(memory_snapshot_id=at, records=records[:MAX_PAGE_ITEMS], advice=advice)


def get_record(gateway: Gateway, caller: Caller, namespace: str, query: RecordQuery) -> RecordsPage:
    """Return one record from each band that holds it."""
    memory = gateway.authorize(caller, Permission.GET_RECORD, namespace)
    memory.require_readable("read records")
    at = existing_snapshot(memory, query.at)
    found = records_of(
        memory, query.memory_id, at, scope=own_scope(caller, Permission.GET_RECORD, query.scope)
    )
    records = [record for record in found if may_read(caller, record.key)]
    if not records:
        raise NotFound(what=f"record {query.memory_id!r:.80} in snapshot {at}")
    return RecordsPage(memory_snapshot_id=at, records=records)


def records_of(memory: Memory, memory_id: str, at: int | None = None, *, scope: str = SHARED) -> list[Record]:
    """The records of a scope with one id in a snapshot, by band."""
    keys = [scoped_key(band, scope, memory_id) for band in RECORD_BANDS]
    found = memory.store.read(memory.namespace, keys, at=at)
    return [record_of(found[key]) for key in keys if key in found]


def history(gateway: Gateway, caller: Caller, namespace: str, query: HistoryQuery) -> HistoryPage:
    """Return every version of a subject (or memory id) in every band, oldest first."""
    memory = gateway.authorize(caller, Permission.HISTORY, namespace)
    scope, after = own_scope(caller, Permission.HISTORY, query.scope), decode_place(query.cursor)
    hidden = memory.store.hidden_at(namespace, memory.store.head()).versions
    # What is in quarantine is for people, not for agents.
    withheld = hidden if caller.role is KeyRole.AGENT else {}
    page, cursor = paginate(
        (
            chapter
            for chapter in memory.history(query.subject, scope=scope)
            if _position(chapter) > after
            and may_read(caller, chapter.key)
            and chapter.memory_snapshot_id not in withheld.get(chapter.key, ())
        ),
        limit=query.limit,
        size=lambda chapter: len(chapter.record.text) if chapter.record else 0,
        position=_position,
    )
    return HistoryPage(versions=page, next=cursor)


def _position(chapter: HistoryEntry) -> tuple[int, str]:
    return chapter.memory_snapshot_id, chapter.key


def snapshots(gateway: Gateway, caller: Caller, namespace: str, query: PageQuery) -> SnapshotsPage:
    """List the snapshots that changed the namespace, or the scopes of the key, oldest first."""
    store = gateway.authorize(caller, Permission.SNAPSHOTS, namespace).store
    listed, last = list[Snapshot](), 0
    # Other namespaces may have made any number of snapshots in between, so a page looks at a bounded number
    # of them.
    examined = store.commits(after=decode_number(query.cursor), limit=MAX_SNAPSHOTS_EXAMINED)
    for applied in examined:
        if len(listed) == query.limit:
            break
        last = applied.memory_snapshot_id
        versions = (one for one in store.versions_of(last) if one.namespace == namespace)
        if sees_any(caller, store, versions):
            listed.append(
                Snapshot(
                    memory_snapshot_id=last, commit_id=applied.commit_id, committed_at=applied.committed_at
                )
            )
    head = store.head()
    return SnapshotsPage(head=head, snapshots=listed, next=encode_cursor(last) if 0 < last < head else None)


def diff(gateway: Gateway, caller: Caller, namespace: str, query: DiffQuery) -> DiffResponse:
    """Return the records that differ between two snapshots."""
    memory = gateway.authorize(caller, Permission.DIFF, namespace)
    old, new = existing_snapshot(memory, query.old), existing_snapshot(memory, query.new)
    if not 0 <= new - old <= MAX_DIFF_SNAPSHOTS:
        problem = f"new must be at most {MAX_DIFF_SNAPSHOTS} snapshots after old"
        raise InvalidValue(what="diff", problem=problem)
    scopes = listed_scopes(caller, Permission.DIFF, query.scope)
    found = [change for scope in scopes for change in memory.diff(old, new, scope=scope)]
    changes = [one for one in found if may_read(caller, one.key)]
    advice = "" if changes else _scope_advice(memory, caller, scopes, new)
    return DiffResponse(old=old, new=new, changes=changes, advice=advice)


def status(gateway: Gateway, caller: Caller, namespace: str) -> StatusResponse:
    """Return the state of a namespace, and the permissions of the caller there."""
    memory = gateway.authorize(caller, Permission.STATUS, namespace)
    proposals = islice(memory.approvals.waiting(), SCAN_PAGE_RECORDS)
    waiting = sum(1 for one in proposals if caller.covers_scope(scope_in(one.proposal.key)))
    permissions = [one.value for one in Permission if is_allowed(caller, one, namespace_for(one, namespace))]
    return StatusResponse(
        namespace=namespace,
        head=memory.store.head(),
        policy_set_id=memory.policy_set_id,
        proposals_waiting=waiting,
        name=caller.name,
        role=caller.role.value,
        may=permissions,
        version=VERSION,
        extraction=memory.extractions.status(),
    )


def waiting_records(gateway: Gateway, caller: Caller, namespace: str) -> list[Record]:
    """Return the first records that wait for a person's decision."""
    memory = gateway.authorize(caller, Permission.STATUS, namespace)
    waiting = (one.record for one in islice(memory.approvals.waiting(), SCAN_PAGE_RECORDS))
    return list(islice((one for one in waiting if caller.covers_scope(one.scope)), MAX_PAGE_ITEMS))


def existing_snapshot(memory: Memory, at: int | None) -> int:
    """The snapshot that a query names; the newest without one."""
    head = memory.store.head()
    if at is not None and at > head:
        raise NoSuchSnapshot(memory_snapshot_id=at, head=head)
    return head if at is None else at


# Writing. Each call is a run of its own. A request key makes it idempotent.


def remember(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: RememberRequest,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> RememberResponse:
    """Judge one text and commit it. The caller is recorded as its author."""
    memory = gateway.authorize(caller, remember_permission(body), namespace)
    scope = own_scope(caller, remember_permission(body), body.scope)
    with request_run_id(caller, namespace, request_key, "remember") as run_id:
        remembered = memory.retry(
            lambda: memory.remember(
                body.text,
                **{**fields_of(body), "scope": scope},
                workflow=workflow,
                agent=caller.name,
                run_id=run_id,
                max_origin=caller.origin,
            ),
            key=body.subject or "",
        )
    gateway.metrics.wrote(namespace, [remembered.verdict], [remembered.receipt])
    return msgspec.structs.replace(RememberResponse.of(remembered), receipt=remembered.receipt)


def remember_batch(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: RememberBatchBody,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> RememberBatchResponse:
    """Judge several texts in one run, in their order, and commit them together."""
    if len(body.items) > MAX_RUN_ITEMS:
        raise InvalidValue(what="batch", problem=f"it has more than {MAX_RUN_ITEMS} texts; send fewer")
    for permission in sorted({remember_permission(item) for item in body.items}):
        memory = gateway.authorize(caller, permission, namespace)
    items = tuple(
        msgspec.structs.replace(item, scope=own_scope(caller, remember_permission(item), item.scope))
        for item in body.items
    )
    with request_run_id(caller, namespace, request_key, "remember_batch") as run_id:
        response = memory.retry(lambda: _batch_in_one_run(memory, caller, items, workflow, run_id))
    gateway.metrics.wrote(namespace, [item.verdict for item in response.items], [response.receipt])
    return response


def _batch_in_one_run(
    memory: Memory, caller: Caller, items: Sequence[RememberRequest], workflow: str, run_id: str | None
) -> RememberBatchResponse:
    run = memory.run(
        workflow=workflow,
        mode=VisibilityMode.BUFFERED_WRITE,
        agent=caller.name,
        run_id=run_id,
        max_origin=caller.origin,
    )
    responses = [remember_in(run, caller, item) for item in items]
    receipt = run.commit()
    # If another attempt committed first, its answers are those that hold.
    answers = [RememberResponse.of(answer) for answer in run.answers] or responses
    return RememberBatchResponse(items=answers, receipt=receipt)


def remember_in(run: Run, caller: Caller, body: RememberRequest) -> RememberResponse:
    """Judge one text in an open run, and buffer it until the run commits."""
    scope = run.scope if body.scope is None else body.scope
    scope = own_scope(caller, remember_permission(body), scope)
    return RememberResponse.of(run.remember_request(msgspec.structs.replace(body, scope=scope)))


def remember_permission(body: RememberRequest) -> Permission:
    """The permission that a text to remember needs."""
    if body.role != Role.AGENT:
        problem = "it is for programs that use the library; here the key says who asks, so leave it out"
        raise InvalidValue(what="role", problem=problem)
    return Permission.PROPOSE if body.propose else Permission.REMEMBER


def forget(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: ForgetRequest,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> ForgetResponse:
    """Forget a subject, all of a scope or all from a source, and erase its content. Sealed records stay."""
    memory = gateway.authorize(caller, Permission.FORGET, namespace)
    fields: ForgetFields = {
        "scope": _forgotten_scope(caller, body),
        "memory_id": body.memory_id,
        "source": body.source,
    }
    if body.rehearse:
        plan = memory.forget(body.subject, rehearse=True, **fields)
        return ForgetResponse(
            subject=body.subject, records=plan.records, rows=plan.rows, traces=plan.traces, law=plan.law
        )
    with request_run_id(caller, namespace, request_key, "forget") as run_id:
        done = memory.retry(
            lambda: memory.forget(
                body.subject,
                reason=body.reason,
                workflow=workflow,
                agent=caller.name,
                run_id=run_id,
                max_origin=caller.origin,
                **fields,
            ),
            key=body.subject or "",
        )
    gateway.metrics.wrote(namespace, receipts=[done.receipt])
    return ForgetResponse(
        subject=body.subject,
        receipt=done.receipt,
        records=done.records,
        rows=done.rows,
        traces=done.traces,
        law=done.law,
    )


def named_by_text(gateway: Gateway, caller: Caller, namespace: str, body: ForgetRequest) -> str:
    """The subject to forget. One that names nothing may be the exact text of a memory: then its id."""
    memory = gateway.authorize(caller, Permission.FORGET, namespace)
    scope, name = own_scope(caller, Permission.FORGET, body.scope), body.name
    if records_of(memory, name, scope=scope):
        return name
    rows = memory.store.scan(memory.namespace, prefix=scoped_key(Band.LEDGER, scope, ""))
    records = map(record_of, islice(rows, MAX_LISTED_RECORDS))
    return next((one.memory_id for one in records if one.text.strip() == name.strip()), name)


def _forgotten_scope(caller: Caller, body: ForgetRequest) -> str | None:
    """The scope to forget in. A key that is limited to scopes forgets a source there."""
    if body.scope is None and not caller.scopes:
        return None
    return own_scope(caller, Permission.FORGET, body.scope)


def forget_in(run: Run, caller: Caller, body: ForgetInRunBody) -> ForgetResponse:
    """Forget a subject when an open run commits."""
    scope = own_scope(caller, Permission.FORGET, run.scope if body.scope is None else body.scope)
    run.forget(body.name, reason=body.reason, scope=scope)
    return ForgetResponse(subject=body.name)


@contextmanager
def request_run_id(
    caller: Caller, namespace: str, request_key: str | None, verb: str
) -> Iterator[str | None]:
    """Yield the id of the run that carries out a request: one per caller, namespace and request key."""
    if request_key is None:
        yield None
        return
    try:
        yield IdempotencyRecord.of(caller.key_id, namespace, request_key, [verb]).run_id
    except (PayloadMismatch, AccessError) as error:
        # What is refused below names the id of the run, which the caller has never seen.
        if isinstance(error, AccessError) and error.code != "request_reused":
            raise
        raise AccessError("request_reused", request_key=request_key) from None


def add(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: AddRequest,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> AddedMessages:
    """Judge the messages of a conversation and commit them.

    Messages that the session has already are not added again. With ``extract``, the operator's model finds
    facts in them; what takes long goes on in the background.
    """
    memory = gateway.authorize(caller, Permission.REMEMBER, namespace)
    scope = own_scope(caller, Permission.REMEMBER, body.scope)
    is_background = body.background or not body.extract
    with (
        request_run_id(caller, namespace, request_key, "add") as run_id,
        gateway.may_wait_for_model(not is_background) as may_wait,
    ):
        added = memory.add(
            body.messages,
            **{**fields_of(body), "scope": scope},
            extract=body.extract or memory.extractions.is_for_all,
            background=not may_wait,
            wait_seconds=EXTRACTION_WAIT_SECONDS,
            workflow=workflow,
            agent=caller.name,
            run_id=run_id,
            max_origin=caller.origin,
            is_operator=caller.role is KeyRole.OPERATOR,
        )
    gateway.metrics.wrote(namespace, [one.verdict for one in added.messages if not one.known], added.receipts)
    return added


def session(gateway: Gateway, caller: Caller, namespace: str, query: SessionQuery) -> SessionPage:
    """Return the messages of a session, in order.

    Those that were not accepted have no text, but their verdict.
    """
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    scope = own_scope(caller, Permission.LIST_RECORDS, query.scope)
    at, after = _place(memory, query.at, query.cursor)
    page, cursor = paginate(
        memory.at(at).session(query.session, scope=scope, after=after),
        limit=query.limit,
        size=lambda message: len(message.text or ""),
        position=lambda message: (at, message.memory_ids[0]),
    )
    return SessionPage(memory_snapshot_id=at, messages=page, next=cursor)


def sessions(gateway: Gateway, caller: Caller, namespace: str, query: SessionsQuery) -> SessionsPage:
    """List the sessions of a scope with all below it."""
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    scopes = listed_scopes(caller, Permission.LIST_RECORDS, query.scope)
    at, after = _place(memory, query.at, query.cursor)
    page, cursor = paginate(
        chain.from_iterable(memory.at(at).sessions(scope=one, after=after) for one in scopes),
        limit=query.limit,
        size=lambda info: len(info.session),
        position=lambda info: (at, info.key),
    )
    return SessionsPage(memory_snapshot_id=at, sessions=page, next=cursor)


def _place(memory: Memory, at: int | None, cursor: str | None) -> tuple[int, str]:
    """The snapshot of a page and the item before it."""
    memory.require_readable("read sessions")
    if cursor is None:
        return existing_snapshot(memory, at), ""
    at, after = decode_place(cursor)
    if at > memory.store.head():
        raise wrong_cursor()
    return at, after
