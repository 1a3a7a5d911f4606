"""The table of endpoints. The routes, their access control and the OpenAPI document are generated from it.

Each endpoint names one permission. The operation that it calls checks the permission again at the gateway.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from standfast.errors import NotFound
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.limits import SAFE_INTEGER
from standfast.optimize.prompts.overrides import PromptOverride
from standfast.server.access.permissions import Caller, Permission
from standfast.server.http.open_runs import OpenRuns
from standfast.server.operations import artifact_operations as artifacts
from standfast.server.operations import governance_operations as governance
from standfast.server.operations import memory_operations as memory
from standfast.server.operations import schemas
from standfast.server.operations.gateway import Gateway
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison
from standfast.vocabulary import Receipt, Value

REQUEST_KEY_HEADER: Final = "Idempotency-Key"
VERSION_HEADER: Final = "If-Match"
_IN: Final = "/v1/namespaces/{namespace}"
_RUN: Final = f"{_IN}/runs/{{run_id}}"
_PROMPT: Final = "/v1/prompts/{ns}/{prompt_key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One decoded request of an authenticated caller. ``input`` is an instance of the endpoint's ``request`` class."""

    gateway: Gateway
    runs: OpenRuns
    caller: Caller
    path: dict[str, str]
    input: Any
    request_key: str | None = None
    if_version: int = 0

    @property
    def namespace(self) -> str:
        """The namespace in the path."""
        return self.path["namespace"]

    @property
    def run_id(self) -> str:
        """The run id in the path."""
        return self.path["run_id"]

    @property
    def prompt(self) -> tuple[str, str]:
        """The namespace and key of the prompt in the path."""
        return self.path["ns"], self.path["prompt_key"]

    @property
    def ledger_seq(self) -> int:
        """The number of the ledger entry in the path."""
        digits = self.path["seq"]
        is_number = digits.isascii() and digits.isdigit() and len(digits) < 17
        if not (is_number and 0 < int(digits) <= SAFE_INTEGER):
            raise NotFound(what=f"ledger entry {digits!r:.40}")
        return int(digits)

    @property
    def place(self) -> tuple[Gateway, Caller, str]:
        """The first arguments of every operation on a namespace."""
        return self.gateway, self.caller, self.namespace


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path.

    ``request`` is the class of the JSON body of a POST or PUT, or of the query of a GET; ``response`` is what ``handler``
    returns. With ``takes_version``, a change applies only to the version that the caller names in ``If-Match``; with
    ``version_of``, the response has an ``ETag``.
    """

    name: str
    permission: Permission
    method: str
    path: str
    summary: str
    handler: Callable[[Call], Value]
    response: type[Value]
    request: type[Value] = schemas.NoInput
    status: int = 200
    takes_request_key: bool = False
    takes_version: bool = False
    version_of: Callable[[Any], int] | None = None

    @property
    def has_body(self) -> bool:
        """Whether the request has a JSON body."""
        return self.method in ("POST", "PUT") and self.request is not schemas.NoInput


def _override_version(override: PromptOverride) -> int:
    return override.version


ENDPOINTS: Final = (
    Endpoint(
        "status",
        Permission.STATUS,
        "GET",
        f"{_IN}/status",
        "Return the state of a namespace and the permissions of the caller.",
        handler=lambda call: memory.status(*call.place),
        response=schemas.StatusResponse,
    ),
    Endpoint(
        "recall",
        Permission.RECALL,
        "POST",
        f"{_IN}/recall",
        "Recall the best records for a query within a token budget.",
        request=schemas.RecallBody,
        handler=lambda call: memory.recall(*call.place, call.input),
        response=schemas.RecallResponse,
    ),
    Endpoint(
        "list_records",
        Permission.LIST_RECORDS,
        "GET",
        f"{_IN}/records",
        "List the records of one snapshot by band and id.",
        request=schemas.RecordsQuery,
        handler=lambda call: memory.list_records(*call.place, call.input),
        response=schemas.RecordsPage,
    ),
    Endpoint(
        "get_record",
        Permission.GET_RECORD,
        "GET",
        f"{_IN}/record",
        "Return one record from each band that holds it.",
        request=schemas.RecordQuery,
        handler=lambda call: memory.get_record(*call.place, call.input),
        response=schemas.RecordsPage,
    ),
    Endpoint(
        "history",
        Permission.HISTORY,
        "GET",
        f"{_IN}/history",
        "List every version of a subject, oldest first.",
        request=schemas.HistoryQuery,
        handler=lambda call: memory.history(*call.place, call.input),
        response=schemas.HistoryPage,
    ),
    Endpoint(
        "snapshots",
        Permission.SNAPSHOTS,
        "GET",
        f"{_IN}/snapshots",
        "List the snapshots, oldest first.",
        request=schemas.PageQuery,
        handler=lambda call: memory.snapshots(*call.place, call.input),
        response=schemas.SnapshotsPage,
    ),
    Endpoint(
        "diff",
        Permission.DIFF,
        "GET",
        f"{_IN}/diff",
        "Compare two snapshots.",
        request=schemas.DiffQuery,
        handler=lambda call: memory.diff(*call.place, call.input),
        response=schemas.DiffResponse,
    ),
    Endpoint(
        "remember",
        Permission.REMEMBER,
        "POST",
        f"{_IN}/remember",
        "Judge one text and remember it according to its verdict.",
        request=schemas.RememberBody,
        handler=lambda call: memory.remember(*call.place, call.input, request_key=call.request_key),
        response=schemas.RememberResponse,
        takes_request_key=True,
    ),
    Endpoint(
        "forget",
        Permission.FORGET,
        "POST",
        f"{_IN}/forget",
        "Forget a subject and erase its content.",
        request=schemas.ForgetBody,
        handler=lambda call: memory.forget(*call.place, call.input, request_key=call.request_key),
        response=schemas.ForgetResponse,
        takes_request_key=True,
    ),
    Endpoint(
        "open_run",
        Permission.OPEN_RUN,
        "POST",
        f"{_IN}/runs",
        "Open a run. It reads one snapshot; its writes become visible when it commits.",
        request=schemas.OpenRunBody,
        handler=lambda call: call.runs.open(call.caller, call.namespace, call.input, call.request_key),
        response=schemas.RunResponse,
        status=201,
        takes_request_key=True,
    ),
    Endpoint(
        "get_run",
        Permission.GET_RUN,
        "GET",
        _RUN,
        "Return an open run of the caller.",
        handler=lambda call: call.runs.show(call.caller, call.namespace, call.run_id),
        response=schemas.RunResponse,
    ),
    Endpoint(
        "discard_run",
        Permission.DISCARD,
        "DELETE",
        _RUN,
        "Discard an open run.",
        handler=lambda call: call.runs.discard(call.caller, call.namespace, call.run_id),
        response=schemas.RunResponse,
    ),
    Endpoint(
        "recall_in_run",
        Permission.RECALL,
        "POST",
        f"{_RUN}/recall",
        "Recall from the run's snapshot.",
        request=schemas.RecallBody,
        handler=lambda call: call.runs.recall(call.caller, call.namespace, call.run_id, call.input),
        response=schemas.RecallResponse,
    ),
    Endpoint(
        "remember_in_run",
        Permission.REMEMBER,
        "POST",
        f"{_RUN}/remember",
        "Judge one text and buffer it until the run commits.",
        request=schemas.RememberBody,
        handler=lambda call: call.runs.remember(call.caller, call.namespace, call.run_id, call.input),
        response=schemas.RememberResponse,
    ),
    Endpoint(
        "forget_in_run",
        Permission.FORGET,
        "POST",
        f"{_RUN}/forget",
        "Forget a subject when the run commits.",
        request=schemas.ForgetBody,
        handler=lambda call: call.runs.forget(call.caller, call.namespace, call.run_id, call.input),
        response=schemas.ForgetResponse,
    ),
    Endpoint(
        "commit_run",
        Permission.COMMIT,
        "POST",
        f"{_RUN}/commit",
        "Commit the run atomically. Repeating the request returns the same response.",
        handler=lambda call: call.runs.commit(call.caller, call.namespace, call.run_id),
        response=schemas.CommitResponse,
    ),
    Endpoint(
        "list_proposals",
        Permission.LIST_PROPOSALS,
        "GET",
        f"{_IN}/proposals",
        "List the proposals that wait for a signature, or those that were decided.",
        request=schemas.ProposalsQuery,
        handler=lambda call: governance.list_proposals(*call.place, call.input),
        response=schemas.ProposalsPage,
    ),
    Endpoint(
        "get_proposal",
        Permission.GET_PROPOSAL,
        "GET",
        f"{_IN}/proposals/{{proposal_id}}",
        "Return one proposal with the statements that decide it.",
        request=schemas.ProposalQuery,
        handler=lambda call: governance.get_proposal(*call.place, call.path["proposal_id"], call.input),
        response=schemas.ProposalResponse,
    ),
    Endpoint(
        "decide",
        Permission.DECIDE,
        "POST",
        f"{_IN}/proposals/{{proposal_id}}/decision",
        "Decide a proposal by a person's signature over one of its statements.",
        request=schemas.DecisionBody,
        handler=lambda call: governance.decide(*call.place, call.path["proposal_id"], call.input),
        response=Receipt,
    ),
    Endpoint(
        "due",
        Permission.DUE,
        "GET",
        f"{_IN}/retention",
        "List the records that a retention sweep would move or delete now.",
        handler=lambda call: governance.due(*call.place),
        response=schemas.DueResponse,
    ),
    Endpoint(
        "sweep",
        Permission.SWEEP,
        "POST",
        f"{_IN}/retention/sweep",
        "Run a retention sweep.",
        handler=lambda call: governance.sweep(*call.place),
        response=schemas.SweepResponse,
    ),
    Endpoint(
        "ledger",
        Permission.LEDGER,
        "GET",
        "/v1/ledger",
        "List the entries of the ledger, in order.",
        request=schemas.PageQuery,
        handler=lambda call: governance.ledger(call.gateway, call.caller, call.input),
        response=schemas.LedgerPage,
    ),
    Endpoint(
        "receipt",
        Permission.RECEIPT,
        "GET",
        "/v1/ledger/{seq}/receipt",
        "Return a proof that an entry is in the ledger; the log's public key is enough to check it.",
        handler=lambda call: governance.receipt(call.gateway, call.caller, call.ledger_seq),
        response=InclusionReceipt,
    ),
    Endpoint(
        "checkpoint",
        Permission.CHECKPOINT,
        "POST",
        "/v1/ledger/checkpoint",
        "Sign the head of the ledger.",
        handler=lambda call: governance.checkpoint(call.gateway, call.caller),
        response=schemas.CheckpointResponse,
    ),
    Endpoint(
        "verify",
        Permission.VERIFY,
        "POST",
        "/v1/verify",
        "Verify the whole store: storage, ledger, checkpoints, commits, evidence, seals.",
        handler=lambda call: governance.verify(call.gateway, call.caller),
        response=schemas.VerifyResponse,
    ),
    Endpoint(
        "list_traces",
        Permission.READ_TRACES,
        "GET",
        "/v1/traces",
        "List the recorded traces.",
        request=schemas.TracesQuery,
        handler=lambda call: artifacts.list_traces(call.gateway, call.caller, call.input),
        response=schemas.TracesPage,
    ),
    # Must come before the endpoint of one trace, whose path would match it too.
    Endpoint(
        "compare_traces",
        Permission.READ_TRACES,
        "GET",
        "/v1/traces/compare",
        "Compare two recorded runs; differences come in order.",
        request=schemas.ComparisonQuery,
        handler=lambda call: artifacts.compare_traces(call.gateway, call.caller, call.input),
        response=Comparison,
    ),
    Endpoint(
        "get_trace",
        Permission.READ_TRACES,
        "GET",
        "/v1/traces/{run_id}",
        "Return the trace of one run.",
        handler=lambda call: artifacts.get_trace(call.gateway, call.caller, call.run_id),
        response=Trace,
    ),
    Endpoint(
        "bench",
        Permission.READ_BENCH,
        "GET",
        "/v1/bench",
        "Return the benchmark leaderboard and a report for each policy.",
        request=schemas.BenchQuery,
        handler=lambda call: artifacts.bench(call.gateway, call.caller, call.input),
        response=schemas.BenchResponse,
    ),
    Endpoint(
        "get_prompt",
        Permission.READ_PROMPT,
        "GET",
        _PROMPT,
        "Return the overrides of a prompt's tag.",
        request=schemas.PromptQuery,
        handler=lambda call: artifacts.get_prompt(call.gateway, call.caller, *call.prompt, call.input),
        response=PromptOverride,
        version_of=_override_version,
    ),
    Endpoint(
        "put_prompt",
        Permission.CHANGE_PROMPT,
        "PUT",
        _PROMPT,
        "Replace the overrides of a prompt's tag if it still has the given version.",
        request=schemas.PutPromptBody,
        handler=lambda call: artifacts.put_prompt(
            call.gateway, call.caller, *call.prompt, call.input, if_version=call.if_version
        ),
        response=PromptOverride,
        takes_version=True,
        version_of=_override_version,
    ),
    Endpoint(
        "roll_back_prompt",
        Permission.CHANGE_PROMPT,
        "POST",
        f"{_PROMPT}/rollback",
        "Undo the last change of a prompt's tag; repeating it redoes the change.",
        request=schemas.RollbackBody,
        handler=lambda call: artifacts.roll_back_prompt(
            call.gateway, call.caller, *call.prompt, call.input, if_version=call.if_version
        ),
        response=PromptOverride,
        takes_version=True,
        version_of=_override_version,
    ),
)
assert (
    len({one.name for one in ENDPOINTS})
    == len({(one.method, one.path) for one in ENDPOINTS})
    == len(ENDPOINTS)
)
# PROPOSE is checked when the text to remember is known; METRICS belongs to a plain route.
assert {one.permission for one in ENDPOINTS} == set(Permission) - {Permission.PROPOSE, Permission.METRICS}
