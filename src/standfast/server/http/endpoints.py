"""The table of endpoints. The routes, their access control and the OpenAPI document are generated from it.

An endpoint names a path, one permission and an operation. Its request and response classes come from the
operation's annotations, its summary from the docstring. The gateway checks the permission again.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from standfast.optimize.prompts.overrides import PromptOverride
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import Permission
from standfast.server.http.examples import BODIES
from standfast.server.http.open_runs import OpenRuns
from standfast.server.operations import artifact_operations as artifacts
from standfast.server.operations import current_operations as current
from standfast.server.operations import governance_operations as governance
from standfast.server.operations import incident_operations as incidents
from standfast.server.operations import memory_operations as memory
from standfast.server.operations import schemas

REQUEST_KEY_HEADER: Final = "Idempotency-Key"
VERSION_HEADER: Final = "If-Match"
# The names under which operations receive what a request holds. ``self`` is the server's ``OpenRuns``.
INPUTS: Final = frozenset({"body", "query"})
PARAMETERS: Final = INPUTS | {
    "self",
    "gateway",
    "caller",
    "namespace",
    "run_id",
    "proposal_id",
    "ledger_seq",
    "key_id",
    "ns",
    "prompt_key",
    "request_key",
    "if_version",
}
_IN: Final = "/v1/namespaces/{namespace}"
_RUN: Final = f"{_IN}/runs/{{run_id}}"
_PROMPT: Final = "/v1/prompts/{ns}/{prompt_key}"


_TAG_OF_PLACE: Final = {
    "add": "Conversations",
    "session": "Conversations",
    "sessions": "Conversations",
    "runs": "Runs",
    "proposals": "Governance",
    "retention": "Governance",
    "refusals": "Governance",
    "investigate": "Incidents",
    "quarantine": "Incidents",
    "revert": "Incidents",
    "ledger": "Ledger",
    "verify": "Ledger",
    "namespaces": "Keys and namespaces",
    "keys": "Keys and namespaces",
    "traces": "Evaluation",
    "bench": "Evaluation",
    "prompts": "Evaluation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path. Build it with ``of``.

    ``request`` is the class of the JSON body of a POST or PUT, or of the query of a GET. ``parameters`` are
    the parameters of the operation that the request fills in.
    """

    name: str
    permission: Permission
    method: str
    path: str
    status: int
    summary: str
    operation: Callable[..., Value]
    parameters: tuple[str, ...]
    request: type[Value]
    response: type[Value]

    @classmethod
    def of(
        cls,
        name: str,
        permission: Permission,
        method_and_path: str,
        operation: Callable[..., Value],
        *,
        status: int = 200,
    ) -> "Endpoint":
        """The endpoint of an operation."""
        method, path = method_and_path.split(" ")
        hints = get_type_hints(operation)
        inputs = [hints[one] for one in INPUTS if one in hints]
        return cls(
            name=name,
            permission=permission,
            method=method,
            path=path,
            status=status,
            summary=(inspect.getdoc(operation) or "").partition("\n")[0],
            operation=operation,
            parameters=tuple(one for one in inspect.signature(operation).parameters if one in PARAMETERS),
            request=inputs[0] if inputs else schemas.NoInput,
            response=hints["return"],
        )

    @property
    def has_body(self) -> bool:
        """Whether the request has a JSON body."""
        return "body" in self.parameters

    @property
    def tag(self) -> str:
        """The group of operations that it belongs to."""
        place = self.path.removeprefix(_IN).removeprefix("/v1").split("/")[1]
        return _TAG_OF_PLACE.get(place, "Memory")

    @property
    def example(self) -> dict[str, Any]:
        """A body, for an operation that takes one."""
        return BODIES[self.name]

    @property
    def reads(self) -> bool:
        """Whether the operation only reads, so that it computes and hardly waits."""
        return self.method == "GET" or self.permission in (Permission.RECALL, Permission.INVESTIGATE)

    @property
    def takes_request_key(self) -> bool:
        """Whether the request may have an ``Idempotency-Key``."""
        return "request_key" in self.parameters

    @property
    def takes_version(self) -> bool:
        """Whether the request needs ``If-Match``: it changes only the version that the caller names."""
        return "if_version" in self.parameters

    @property
    def has_version(self) -> bool:
        """Whether the response has an ``ETag``."""
        return self.response is PromptOverride


_of = Endpoint.of
ENDPOINTS: Final = (
    _of("status", Permission.STATUS, f"GET {_IN}/status", memory.status),
    _of("recall", Permission.RECALL, f"POST {_IN}/recall", memory.recall),
    _of("recall_batch", Permission.RECALL, f"POST {_IN}/recall/batch", memory.recall_batch),
    _of("list_records", Permission.LIST_RECORDS, f"GET {_IN}/records", memory.list_records),
    _of("get_record", Permission.GET_RECORD, f"GET {_IN}/record", memory.get_record),
    _of("history", Permission.HISTORY, f"GET {_IN}/history", memory.history),
    _of("snapshots", Permission.SNAPSHOTS, f"GET {_IN}/snapshots", memory.snapshots),
    _of("diff", Permission.DIFF, f"GET {_IN}/diff", memory.diff),
    _of("remember", Permission.REMEMBER, f"POST {_IN}/remember", memory.remember),
    _of("remember_batch", Permission.REMEMBER, f"POST {_IN}/remember/batch", memory.remember_batch),
    _of("add", Permission.REMEMBER, f"POST {_IN}/add", memory.add),
    _of("session", Permission.LIST_RECORDS, f"GET {_IN}/session", memory.session),
    _of("sessions", Permission.LIST_RECORDS, f"GET {_IN}/sessions", memory.sessions),
    _of("forget", Permission.FORGET, f"POST {_IN}/forget", memory.forget),
    _of("profile", Permission.RECALL, f"GET {_IN}/profile", current.profile),
    _of("conflicts", Permission.LIST_RECORDS, f"GET {_IN}/conflicts", current.conflicts),
    _of("settle", Permission.REMEMBER, f"POST {_IN}/settle", current.settle),
    _of("open_run", Permission.OPEN_RUN, f"POST {_IN}/runs", OpenRuns.open, status=201),
    _of("get_run", Permission.GET_RUN, f"GET {_RUN}", OpenRuns.show),
    _of("discard_run", Permission.DISCARD, f"DELETE {_RUN}", OpenRuns.discard),
    _of("recall_in_run", Permission.RECALL, f"POST {_RUN}/recall", OpenRuns.recall),
    _of("remember_in_run", Permission.REMEMBER, f"POST {_RUN}/remember", OpenRuns.remember),
    _of("forget_in_run", Permission.FORGET, f"POST {_RUN}/forget", OpenRuns.forget),
    _of("record_in_run", Permission.OPEN_RUN, f"POST {_RUN}/record", OpenRuns.record),
    _of("commit_run", Permission.COMMIT, f"POST {_RUN}/commit", OpenRuns.commit),
    _of("list_proposals", Permission.LIST_PROPOSALS, f"GET {_IN}/proposals", governance.list_proposals),
    _of(
        "get_proposal",
        Permission.GET_PROPOSAL,
        f"GET {_IN}/proposals/{{proposal_id}}",
        governance.get_proposal,
    ),
    _of("decide", Permission.DECIDE, f"POST {_IN}/proposals/{{proposal_id}}/decision", governance.decide),
    _of("due", Permission.DUE, f"GET {_IN}/retention", governance.due),
    _of("sweep", Permission.SWEEP, f"POST {_IN}/retention/sweep", governance.sweep),
    _of("list_refusals", Permission.LIST_REFUSALS, f"GET {_IN}/refusals", governance.list_refusals),
    _of("lift_refusal", Permission.LIFT_REFUSAL, f"POST {_IN}/refusals/lift", governance.lift_refusal),
    _of("investigate", Permission.INVESTIGATE, f"POST {_IN}/investigate", incidents.investigate),
    _of("quarantine", Permission.QUARANTINE, f"POST {_IN}/quarantine", incidents.quarantine),
    _of("release", Permission.QUARANTINE, f"POST {_IN}/quarantine/release", incidents.release),
    _of("revert", Permission.QUARANTINE, f"POST {_IN}/revert", incidents.revert),
    _of(
        "list_quarantines",
        Permission.LIST_QUARANTINES,
        f"GET {_IN}/quarantine",
        incidents.list_quarantines,
    ),
    _of("ledger", Permission.LEDGER, "GET /v1/ledger", governance.ledger),
    _of("receipt", Permission.RECEIPT, "GET /v1/ledger/{seq}/receipt", governance.receipt),
    _of("checkpoint", Permission.CHECKPOINT, "POST /v1/ledger/checkpoint", governance.checkpoint),
    _of("verify", Permission.VERIFY, "POST /v1/verify", governance.verify),
    _of("list_namespaces", Permission.LIST_NAMESPACES, "GET /v1/namespaces", governance.list_namespaces),
    _of("list_keys", Permission.LIST_KEYS, "GET /v1/keys", governance.list_keys),
    _of("create_key", Permission.CREATE_KEY, "POST /v1/keys", governance.create_key, status=201),
    _of("revoke_key", Permission.REVOKE_KEY, "DELETE /v1/keys/{key_id}", governance.revoke_key),
    _of("list_traces", Permission.READ_TRACES, "GET /v1/traces", artifacts.list_traces),
    # Must come before the endpoint of one trace, whose path would match it too.
    _of("compare_traces", Permission.READ_TRACES, "GET /v1/traces/compare", artifacts.compare_traces),
    _of("get_trace", Permission.READ_TRACES, "GET /v1/traces/{run_id}", artifacts.get_trace),
    _of("bench", Permission.READ_BENCH, "GET /v1/bench", artifacts.bench),
    _of("get_prompt", Permission.READ_PROMPT, f"GET {_PROMPT}", artifacts.get_prompt),
    _of("put_prompt", Permission.CHANGE_PROMPT, f"PUT {_PROMPT}", artifacts.put_prompt),
    _of("roll_back_prompt", Permission.CHANGE_PROMPT, f"POST {_PROMPT}/rollback", artifacts.roll_back_prompt),
)
assert (
    len({one.name for one in ENDPOINTS})
    == len({(one.method, one.path) for one in ENDPOINTS})
    == len(ENDPOINTS)
)
assert {one.name for one in ENDPOINTS if one.has_body} == set(BODIES), "every body has an example"
# PROPOSE is checked when the text to remember is known; METRICS and EVENTS belong to plain routes.
assert {one.permission for one in ENDPOINTS} == set(Permission) - {
    Permission.PROPOSE,
    Permission.METRICS,
    Permission.EVENTS,
}
