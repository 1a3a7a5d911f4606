"""Resources: records, histories, conversations and snapshots by address, and completions of what an address or a prompt names."""

import inspect
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import Completion

from standfast.scopes import ALL_SCOPES, scoped_key
from standfast.server.access.permissions import Caller, Permission
from standfast.server.access.scope_limits import own_scope
from standfast.server.mcp.tools import AnyContext, Place, ToolAuth, ToolOperation
from standfast.server.operations import conversation_operations, key_operations, memory_operations
from standfast.server.operations.conversation_schemas import SessionQuery, SessionsQuery
from standfast.server.operations.pages import encode_cursor
from standfast.server.operations.schemas import HistoryQuery, RecordQuery, RecordsPage, RecordsQuery
from standfast.store.protocol import BEHIND_ALL_KEYS
from standfast.vocabulary import Band

_JSON: Final = "application/json"
_NEWEST: Final = "newest"
_MAX_COMPLETIONS: Final = 100
# Each scope is looked up by itself.
_MAX_SCOPES: Final = 20


class MemoryResources:
    """Standfast's resources. Each takes the scope as a query, by default ``shared`` or the key's own."""

    def __init__(self, auth: ToolAuth) -> None:
        self._auth = auth

    def add_to(self, server: MCPServer[Any]) -> None:
        """Register the templates of all of them."""
        for path, title, function in (
            ("records/{+memory_id}", "Record", self.record),
            ("history/{+subject}", "History", self.history),
            ("sessions/{+session}", "Conversation", self.session),
            ("snapshots/{snapshot}", "Snapshot", self.snapshot),
        ):
            template = f"standfast://{{namespace}}/{path}{{?scope}}"
            description = inspect.getdoc(function)
            server.resource(
                template, name=function.__name__, title=title, description=description, mime_type=_JSON
            )(function)

    def record(self, namespace: str, memory_id: str, context: AnyContext, scope: str = "") -> str:
        """One record, by its id or subject, from each band that holds it."""
        query = {"memory_id": memory_id, "scope": scope or None}
        return self._read(
            context,
            Permission.GET_RECORD,
            namespace,
            lambda place: memory_operations.get_record(*place, RecordQuery.from_json(query)),
        )

    def history(self, namespace: str, subject: str, context: AnyContext, scope: str = "") -> str:
        """The versions of a subject, oldest first."""
        query = {"subject": subject, "scope": scope or None}
        return self._read(
            context,
            Permission.HISTORY,
            namespace,
            lambda place: memory_operations.history(*place, HistoryQuery.from_json(query)),
        )

    def session(self, namespace: str, session: str, context: AnyContext, scope: str = "") -> str:
        """The first messages of a conversation."""
        query = {"session": session, "scope": scope or None}
        return self._read(
            context,
            Permission.LIST_RECORDS,
            namespace,
            lambda place: conversation_operations.session(*place, SessionQuery.from_json(query)),
        )

    def snapshot(self, namespace: str, snapshot: str, context: AnyContext, scope: str = "") -> str:
        """The first records of a snapshot, given by its number or as 'newest'."""
        at = int(snapshot) if snapshot.isascii() and snapshot.isdigit() and len(snapshot) < 16 else None
        query = {"at": at, "scope": scope or None}
        return self._read(
            context,
            Permission.LIST_RECORDS,
            namespace,
            lambda place: memory_operations.list_records(*place, RecordsQuery.from_json(query)),
        )

    def _read(
        self, context: AnyContext, permission: Permission, namespace: str, operation: ToolOperation
    ) -> str:
        return json.dumps(self._auth.read(context, permission, namespace, operation))


class Completions:
    """Completes the arguments of resource templates and prompts, from what the caller may read."""

    def __init__(self, auth: ToolAuth) -> None:
        self._auth = auth
        self._by_argument: dict[str, Callable[..., Iterator[str]]] = {
            "namespace": self._namespaces,
            "scope": self._scopes,
            "memory_id": self._subjects,
            "subject": self._subjects,
            "session": self._sessions,
            "snapshot": self._snapshots,
        }

    async def complete(
        self, context: AnyContext, argument: str, begun: str, resolved: dict[str, str]
    ) -> Completion:
        """The values that begin with what was typed. ``resolved`` are the other arguments, as far as they are known."""

        def values() -> list[str]:
            candidates = self._by_argument.get(argument)
            if candidates is None:
                return []
            try:
                return list(islice(candidates(context, begun, resolved), _MAX_COMPLETIONS + 1))
            except ToolError:
                # A completion is a convenience: who may not read has none. The refusal is in the access log.
                return []

        found = await anyio.to_thread.run_sync(values)
        return Completion(values=found[:_MAX_COMPLETIONS], has_more=len(found) > _MAX_COMPLETIONS)

    def _namespaces(self, context: AnyContext, begun: str, _: dict[str, str]) -> Iterator[str]:
        answer = self._auth.call(
            context,
            Permission.LIST_NAMESPACES,
            None,
            lambda place: key_operations.list_namespaces(*place[:2]),
        )
        yield from (name for name in answer["namespaces"] if name.startswith(begun))

    def _subjects(self, context: AnyContext, begun: str, resolved: dict[str, str]) -> Iterator[str]:
        def page_of(caller: Caller) -> tuple[str, str]:
            scope = own_scope(caller, Permission.LIST_RECORDS, resolved.get("scope") or None)
            return scope, scoped_key(Band.LEDGER, scope, begun)

        for record in self._records(context, resolved, page_of, limit=_MAX_COMPLETIONS + 1):
            if not record["memory_id"].startswith(begun):
                return
            yield record["memory_id"]

    def _scopes(self, context: AnyContext, begun: str, resolved: dict[str, str]) -> Iterator[str]:
        """Each scope once: behind its first record comes the last name that it could have."""

        def page_of(_: Caller) -> tuple[str, str]:
            return ALL_SCOPES, after

        after = f"{Band.LEDGER}/{begun}"
        for _ in range(_MAX_SCOPES):
            records = self._records(context, resolved, page_of, limit=1)
            if not records or not records[0]["scope"].startswith(begun):
                return
            yield records[0]["scope"]
            after = scoped_key(Band.LEDGER, records[0]["scope"], BEHIND_ALL_KEYS)

    def _records(
        self,
        context: AnyContext,
        resolved: dict[str, str],
        page_of: Callable[[Caller], tuple[str, str]],
        *,
        limit: int,
    ) -> list[dict[str, Any]]:
        """Records of canonical memory. ``page_of`` says in which scope, and behind which key."""

        def listed(place: Place) -> RecordsPage:
            scope, after = page_of(place[1])
            cursor = encode_cursor((place[0].store.head(), after))
            query = RecordsQuery(band=Band.LEDGER, scope=scope, limit=limit, cursor=cursor)
            return memory_operations.list_records(*place, query)

        answer = self._auth.call(context, Permission.LIST_RECORDS, resolved.get("namespace"), listed)
        return list(answer["records"])

    def _sessions(self, context: AnyContext, begun: str, resolved: dict[str, str]) -> Iterator[str]:
        query = {"scope": resolved.get("scope") or None, "limit": _MAX_COMPLETIONS}
        answer = self._auth.call(
            context,
            Permission.LIST_RECORDS,
            resolved.get("namespace"),
            lambda place: conversation_operations.sessions(*place, SessionsQuery.from_json(query)),
        )
        yield from (one["session"] for one in answer["sessions"] if one["session"].startswith(begun))

    def _snapshots(self, context: AnyContext, begun: str, resolved: dict[str, str]) -> Iterator[str]:
        """The newest ones first."""
        answer = self._auth.call(
            context,
            Permission.STATUS,
            resolved.get("namespace"),
            lambda place: memory_operations.status(*place),
        )
        numbers = map(str, range(answer["head"], max(0, answer["head"] - _MAX_COMPLETIONS), -1))
        yield from (value for value in (_NEWEST, *numbers) if value.startswith(begun))
