"""THE table of routes. The app, its access control and its description are made from it, so they can't disagree.

A route has one act of the access table; whatever it calls asks that table again on its way to memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.access.table import Act, Caller
from holdfast.errors import NotFound
from holdfast.ledger.receipt import InclusionReceipt
from holdfast.limits import SAFE_INTEGER
from holdfast.store.commit import Receipt
from holdfast.verbs import governing, reading, shapes, writing
from holdfast.verbs.hall import Hall
from holdfast.vocabulary import Value
from holdfast.web.runs import OpenRuns

REQUEST_KEY_HEADER: Final = "Idempotency-Key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that was read: who, where, what."""

    hall: Hall
    runs: OpenRuns
    caller: Caller
    path: dict[str, str]
    asked: Any
    request_key: str | None = None

    @property
    def namespace(self) -> str:
        """The namespace in the address."""
        return self.path["namespace"]

    @property
    def run_id(self) -> str:
        """The run in the address."""
        return self.path["run_id"]

    @property
    def place(self) -> tuple[Hall, Caller, str]:
        """What the verbs of a namespace begin with."""
        return self.hall, self.caller, self.namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route: ``asks`` comes as the body of a POST and as the query of a GET; ``does`` gives an ``answers``."""

    name: str
    act: Act
    method: str
    path: str
    says: str
    does: Callable[[Call], Value]
    answers: type[Value]
    asks: type[Value] = shapes.Nothing
    status: int = 200
    takes_request_key: bool = False

    @property
    def has_body(self) -> bool:
        """Whether what is asked comes as a JSON body."""
        return self.method == "POST" and self.asks is not shapes.Nothing


def _seq(call: Call) -> int:
    digits = call.path["seq"]
    if not (
        digits.isascii() and digits.isdigit() and 0 < int(digits[:17]) <= SAFE_INTEGER and len(digits) < 17
    ):
        raise NotFound(what=f"ledger entry {digits!r:.40}")
    return int(digits)


_IN: Final = "/v1/namespaces/{namespace}"
_RUN: Final = f"{_IN}/runs/{{run_id}}"


def _read(
    name: str, act: Act, path: str, says: str, *, does: Callable[[Call], Value], **rest: Any
) -> Operation:
    return Operation(name=name, act=act, method="GET", path=path, says=says, does=does, **rest)


def _do(
    name: str, act: Act, path: str, says: str, *, does: Callable[[Call], Value], **rest: Any
) -> Operation:
    return Operation(name=name, act=act, method="POST", path=path, says=says, does=does, **rest)


OPERATIONS: Final = (
    _read(
        "status",
        Act.STATUS,
        f"{_IN}/status",
        "Where memory stands, and what the caller may do there.",
        does=lambda call: reading.status(*call.place),
        answers=shapes.Status,
    ),
    _do(
        "recall",
        Act.RECALL,
        f"{_IN}/recall",
        "What is known, within a budget of tokens.",
        asks=shapes.Recall,
        does=lambda call: reading.recall(*call.place, call.asked),
        answers=shapes.Recalled,
    ),
    _read(
        "list_records",
        Act.LIST_RECORDS,
        f"{_IN}/records",
        "Records by band and id, as one snapshot shows them.",
        asks=shapes.AskedRecords,
        does=lambda call: reading.list_records(*call.place, call.asked),
        answers=shapes.RecordsPage,
    ),
    _read(
        "get_record",
        Act.GET_RECORD,
        f"{_IN}/record",
        "One thing, as it stands in each band that holds it.",
        asks=shapes.AskedRecord,
        does=lambda call: reading.get_record(*call.place, call.asked),
        answers=shapes.RecordsPage,
    ),
    _read(
        "history",
        Act.HISTORY,
        f"{_IN}/history",
        "Every version of a subject, oldest first.",
        asks=shapes.AskedHistory,
        does=lambda call: reading.history(*call.place, call.asked),
        answers=shapes.HistoryPage,
    ),
    _read(
        "snapshots",
        Act.SNAPSHOTS,
        f"{_IN}/snapshots",
        "Committed states, oldest first.",
        asks=shapes.AskedPage,
        does=lambda call: reading.snapshots(*call.place, call.asked),
        answers=shapes.SnapshotsPage,
    ),
    _read(
        "diff",
        Act.DIFF,
        f"{_IN}/diff",
        "What a newer snapshot shows differently.",
        asks=shapes.AskedDiff,
        does=lambda call: reading.diff(*call.place, call.asked),
        answers=shapes.Diff,
    ),
    _do(
        "remember",
        Act.REMEMBER,
        f"{_IN}/remember",
        "Have something judged, and remembered where its verdict leads.",
        asks=shapes.Remember,
        does=lambda call: writing.remember(*call.place, call.asked, request_key=call.request_key),
        answers=shapes.Remembered,
        takes_request_key=True,
    ),
    _do(
        "forget",
        Act.FORGET,
        f"{_IN}/forget",
        "End what is known of a subject, and erase what it said.",
        asks=shapes.Forget,
        does=lambda call: writing.forget(*call.place, call.asked, request_key=call.request_key),
        answers=shapes.Forgotten,
        takes_request_key=True,
    ),
    _do(
        "open_run",
        Act.OPEN_RUN,
        f"{_IN}/runs",
        "Open a run: it reads one snapshot, and nothing of it is seen before it commits.",
        asks=shapes.OpenRun,
        does=lambda call: call.runs.open(call.caller, call.namespace, call.asked, call.request_key),
        answers=shapes.ShownRun,
        status=201,
        takes_request_key=True,
    ),
    _read(
        "get_run",
        Act.GET_RUN,
        _RUN,
        "An open run of the caller's.",
        does=lambda call: call.runs.show(call.caller, call.namespace, call.run_id),
        answers=shapes.ShownRun,
    ),
    Operation(
        name="discard_run",
        act=Act.DISCARD,
        method="DELETE",
        path=_RUN,
        says="Forget an open run.",
        does=lambda call: call.runs.discard(call.caller, call.namespace, call.run_id),
        answers=shapes.ShownRun,
    ),
    _do(
        "recall_in_run",
        Act.RECALL,
        f"{_RUN}/recall",
        "What the run's snapshot knows.",
        asks=shapes.Recall,
        does=lambda call: call.runs.recall(call.caller, call.namespace, call.run_id, call.asked),
        answers=shapes.Recalled,
    ),
    _do(
        "remember_in_run",
        Act.REMEMBER,
        f"{_RUN}/remember",
        "Have something judged, and buffered until the run commits.",
        asks=shapes.Remember,
        does=lambda call: call.runs.remember(call.caller, call.namespace, call.run_id, call.asked),
        answers=shapes.Remembered,
    ),
    _do(
        "forget_in_run",
        Act.FORGET,
        f"{_RUN}/forget",
        "Have something forgotten when the run commits.",
        asks=shapes.Forget,
        does=lambda call: call.runs.forget(call.caller, call.namespace, call.run_id, call.asked),
        answers=shapes.Forgotten,
    ),
    _do(
        "commit_run",
        Act.COMMIT,
        f"{_RUN}/commit",
        "Apply the run, atomically, durably and once; asked again, the answer is the same.",
        does=lambda call: call.runs.commit(call.caller, call.namespace, call.run_id),
        answers=shapes.Committed,
    ),
    _read(
        "list_proposals",
        Act.LIST_PROPOSALS,
        f"{_IN}/proposals",
        "What waits for a human's signature, or was decided by one.",
        asks=shapes.AskedProposals,
        does=lambda call: governing.list_proposals(*call.place, call.asked),
        answers=shapes.ProposalsPage,
    ),
    _read(
        "get_proposal",
        Act.GET_PROPOSAL,
        f"{_IN}/proposals/{{proposal_id}}",
        "All of one proposal, and exactly what is signed to decide it.",
        asks=shapes.AskedProposal,
        does=lambda call: governing.get_proposal(*call.place, call.path["proposal_id"], call.asked),
        answers=shapes.ShownProposal,
    ),
    _do(
        "decide",
        Act.DECIDE,
        f"{_IN}/proposals/{{proposal_id}}/decision",
        "Decide a proposal by a human's signature over the statement that was shown.",
        asks=shapes.Decide,
        does=lambda call: governing.decide(*call.place, call.path["proposal_id"], call.asked),
        answers=Receipt,
    ),
    _read(
        "due",
        Act.DUE,
        f"{_IN}/retention",
        "What a retention sweep would move or delete now.",
        does=lambda call: governing.due(*call.place),
        answers=shapes.DueList,
    ),
    _do(
        "sweep",
        Act.SWEEP,
        f"{_IN}/retention/sweep",
        "Carry retention out.",
        does=lambda call: governing.sweep(*call.place),
        answers=shapes.Swept,
    ),
    _read(
        "ledger",
        Act.LEDGER,
        "/v1/ledger",
        "Entries of the ledger, in order.",
        asks=shapes.AskedPage,
        does=lambda call: governing.ledger(call.hall, call.caller, call.asked),
        answers=shapes.LedgerPage,
    ),
    _read(
        "receipt",
        Act.RECEIPT,
        "/v1/ledger/{seq}/receipt",
        "Proof that an entry is in the ledger, to be checked with the log's public key alone.",
        does=lambda call: governing.receipt(call.hall, call.caller, _seq(call)),
        answers=InclusionReceipt,
    ),
    _do(
        "checkpoint",
        Act.CHECKPOINT,
        "/v1/ledger/checkpoint",
        "Sign the ledger's head.",
        does=lambda call: governing.checkpoint(call.hall, call.caller),
        answers=shapes.SignedHead,
    ),
    _do(
        "verify",
        Act.VERIFY,
        "/v1/verify",
        "Walk everything: storage, ledger, checkpoints, commits, evidence, seals.",
        does=lambda call: governing.verify(call.hall, call.caller),
        answers=shapes.Verified,
    ),
)
OPERATION_NAMED: Final = {operation.name: operation for operation in OPERATIONS}
assert len(OPERATION_NAMED) == len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)
# A proposal comes in as something to remember; metrics are the app's own.
assert {one.act for one in OPERATIONS} == set(Act) - {Act.PROPOSE, Act.METRICS}
