"""THE table of routes. The app, its access control and its description are made from it, so they can't disagree.

A route has one act of the access table; whatever it calls asks that table again on its way to memory.
"""

from typing import Final

from standfast.errors import NotFound
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.limits import SAFE_INTEGER
from standfast.server.access.table import Act
from standfast.server.http.rows.beside import BESIDE_OPERATIONS
from standfast.server.http.rows.operation import Call, Operation, do, read
from standfast.server.operations import governing, reading, shapes, writing
from standfast.vocabulary import Receipt


def _seq(call: Call) -> int:
    digits = call.path["seq"]
    if not (
        digits.isascii() and digits.isdigit() and 0 < int(digits[:17]) <= SAFE_INTEGER and len(digits) < 17
    ):
        raise NotFound(what=f"ledger entry {digits!r:.40}")
    return int(digits)


_IN: Final = "/v1/namespaces/{namespace}"
_RUN: Final = f"{_IN}/runs/{{run_id}}"

OPERATIONS: Final = (
    read(
        "status",
        Act.STATUS,
        f"{_IN}/status",
        "Where memory stands, and what the caller may do there.",
        does=lambda call: reading.status(*call.place),
        answers=shapes.Status,
    ),
    do(
        "recall",
        Act.RECALL,
        f"{_IN}/recall",
        "What is known, within a budget of tokens.",
        asks=shapes.Recall,
        does=lambda call: reading.recall(*call.place, call.asked),
        answers=shapes.Recalled,
    ),
    read(
        "list_records",
        Act.LIST_RECORDS,
        f"{_IN}/records",
        "Records by band and id, as one snapshot shows them.",
        asks=shapes.AskedRecords,
        does=lambda call: reading.list_records(*call.place, call.asked),
        answers=shapes.RecordsPage,
    ),
    read(
        "get_record",
        Act.GET_RECORD,
        f"{_IN}/record",
        "One thing, as it stands in each band that holds it.",
        asks=shapes.AskedRecord,
        does=lambda call: reading.get_record(*call.place, call.asked),
        answers=shapes.RecordsPage,
    ),
    read(
        "history",
        Act.HISTORY,
        f"{_IN}/history",
        "Every version of a subject, oldest first.",
        asks=shapes.AskedHistory,
        does=lambda call: reading.history(*call.place, call.asked),
        answers=shapes.HistoryPage,
    ),
    read(
        "snapshots",
        Act.SNAPSHOTS,
        f"{_IN}/snapshots",
        "Committed states, oldest first.",
        asks=shapes.AskedPage,
        does=lambda call: reading.snapshots(*call.place, call.asked),
        answers=shapes.SnapshotsPage,
    ),
    read(
        "diff",
        Act.DIFF,
        f"{_IN}/diff",
        "What a newer snapshot shows differently.",
        asks=shapes.AskedDiff,
        does=lambda call: reading.diff(*call.place, call.asked),
        answers=shapes.Diff,
    ),
    do(
        "remember",
        Act.REMEMBER,
        f"{_IN}/remember",
        "Have something judged, and remembered where its verdict leads.",
        asks=shapes.Remember,
        does=lambda call: writing.remember(*call.place, call.asked, request_key=call.request_key),
        answers=shapes.Remembered,
        takes_request_key=True,
    ),
    do(
        "forget",
        Act.FORGET,
        f"{_IN}/forget",
        "End what is known of a subject, and erase what it said.",
        asks=shapes.Forget,
        does=lambda call: writing.forget(*call.place, call.asked, request_key=call.request_key),
        answers=shapes.Forgotten,
        takes_request_key=True,
    ),
    do(
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
    read(
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
    do(
        "recall_in_run",
        Act.RECALL,
        f"{_RUN}/recall",
        "What the run's snapshot knows.",
        asks=shapes.Recall,
        does=lambda call: call.runs.recall(call.caller, call.namespace, call.run_id, call.asked),
        answers=shapes.Recalled,
    ),
    do(
        "remember_in_run",
        Act.REMEMBER,
        f"{_RUN}/remember",
        "Have something judged, and buffered until the run commits.",
        asks=shapes.Remember,
        does=lambda call: call.runs.remember(call.caller, call.namespace, call.run_id, call.asked),
        answers=shapes.Remembered,
    ),
    do(
        "forget_in_run",
        Act.FORGET,
        f"{_RUN}/forget",
        "Have something forgotten when the run commits.",
        asks=shapes.Forget,
        does=lambda call: call.runs.forget(call.caller, call.namespace, call.run_id, call.asked),
        answers=shapes.Forgotten,
    ),
    do(
        "commit_run",
        Act.COMMIT,
        f"{_RUN}/commit",
        "Apply the run, atomically, durably and once; asked again, the answer is the same.",
        does=lambda call: call.runs.commit(call.caller, call.namespace, call.run_id),
        answers=shapes.Committed,
    ),
    read(
        "list_proposals",
        Act.LIST_PROPOSALS,
        f"{_IN}/proposals",
        "What waits for a human's signature, or was decided by one.",
        asks=shapes.AskedProposals,
        does=lambda call: governing.list_proposals(*call.place, call.asked),
        answers=shapes.ProposalsPage,
    ),
    read(
        "get_proposal",
        Act.GET_PROPOSAL,
        f"{_IN}/proposals/{{proposal_id}}",
        "All of one proposal, and exactly what is signed to decide it.",
        asks=shapes.AskedProposal,
        does=lambda call: governing.get_proposal(*call.place, call.path["proposal_id"], call.asked),
        answers=shapes.ShownProposal,
    ),
    do(
        "decide",
        Act.DECIDE,
        f"{_IN}/proposals/{{proposal_id}}/decision",
        "Decide a proposal by a human's signature over the statement that was shown.",
        asks=shapes.Decide,
        does=lambda call: governing.decide(*call.place, call.path["proposal_id"], call.asked),
        answers=Receipt,
    ),
    read(
        "due",
        Act.DUE,
        f"{_IN}/retention",
        "What a retention sweep would move or delete now.",
        does=lambda call: governing.due(*call.place),
        answers=shapes.DueList,
    ),
    do(
        "sweep",
        Act.SWEEP,
        f"{_IN}/retention/sweep",
        "Carry retention out.",
        does=lambda call: governing.sweep(*call.place),
        answers=shapes.Swept,
    ),
    read(
        "ledger",
        Act.LEDGER,
        "/v1/ledger",
        "Entries of the ledger, in order.",
        asks=shapes.AskedPage,
        does=lambda call: governing.ledger(call.hall, call.caller, call.asked),
        answers=shapes.LedgerPage,
    ),
    read(
        "receipt",
        Act.RECEIPT,
        "/v1/ledger/{seq}/receipt",
        "Proof that an entry is in the ledger, to be checked with the log's public key alone.",
        does=lambda call: governing.receipt(call.hall, call.caller, _seq(call)),
        answers=InclusionReceipt,
    ),
    do(
        "checkpoint",
        Act.CHECKPOINT,
        "/v1/ledger/checkpoint",
        "Sign the ledger's head.",
        does=lambda call: governing.checkpoint(call.hall, call.caller),
        answers=shapes.SignedHead,
    ),
    do(
        "verify",
        Act.VERIFY,
        "/v1/verify",
        "Walk everything: storage, ledger, checkpoints, commits, evidence, seals.",
        does=lambda call: governing.verify(call.hall, call.caller),
        answers=shapes.Verified,
    ),
    *BESIDE_OPERATIONS,
)
OPERATION_NAMED: Final = {operation.name: operation for operation in OPERATIONS}
assert len(OPERATION_NAMED) == len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)
# A proposal comes in as something to remember; metrics are the app's own.
assert {one.act for one in OPERATIONS} == set(Act) - {Act.PROPOSE, Act.METRICS}
