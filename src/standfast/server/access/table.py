"""The one table of who may do what through a door, total over acts and roles.

Every route and every tool names one act; nothing reaches memory without asking here. The roles are those of API keys:

    agent      reads its namespaces, and has things judged, remembered, proposed and forgotten there
    operator   all that, and manages: hands in signatures, sweeps, signs checkpoints, reads the ledger, changes prompts
    auditor    reads everything, and changes nothing

No role seals. Law is made by a human's signature, which is checked for what it is whoever hands it in.
"""

from enum import StrEnum
from typing import Final

from standfast.errors import Forbidden
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.vocabulary import Value

ALL_NAMESPACES: Final = "*"


class KeyRole(StrEnum):
    """What the holder of a key is."""

    AGENT = "agent"
    OPERATOR = "operator"
    AUDITOR = "auditor"


class Act(StrEnum):
    """Everything that can be asked of a door."""

    RECALL = "recall"
    LIST_RECORDS = "list_records"
    GET_RECORD = "get_record"
    HISTORY = "history"
    SNAPSHOTS = "snapshots"
    DIFF = "diff"
    STATUS = "status"
    LIST_PROPOSALS = "list_proposals"
    GET_PROPOSAL = "get_proposal"
    VERIFY = "verify"
    RECEIPT = "receipt"
    OPEN_RUN = "open_run"
    GET_RUN = "get_run"
    REMEMBER = "remember"
    PROPOSE = "propose"
    FORGET = "forget"
    COMMIT = "commit"
    DISCARD = "discard"
    DECIDE = "decide"
    DUE = "due"
    SWEEP = "sweep"
    LEDGER = "ledger"
    CHECKPOINT = "checkpoint"
    READ_TRACES = "read_traces"
    READ_BENCH = "read_bench"
    READ_PROMPT = "read_prompt"
    CHANGE_PROMPT = "change_prompt"
    METRICS = "metrics"


class Reach(StrEnum):
    """How far an act goes: into one namespace, over the whole store, or over it with an answer for everybody."""

    NAMESPACE = "namespace"
    STORE = "store"
    OPEN = "open"


_ALL: Final = frozenset(KeyRole)
_WRITERS: Final = frozenset({KeyRole.AGENT, KeyRole.OPERATOR})
_OVERSEERS: Final = frozenset({KeyRole.OPERATOR, KeyRole.AUDITOR})
_OPERATORS: Final = frozenset({KeyRole.OPERATOR})

ROLES_OF_ACT: Final = {
    Act.RECALL: _ALL,
    Act.LIST_RECORDS: _ALL,
    Act.GET_RECORD: _ALL,
    Act.HISTORY: _ALL,
    Act.SNAPSHOTS: _ALL,
    Act.DIFF: _ALL,
    Act.STATUS: _ALL,
    Act.LIST_PROPOSALS: _ALL,
    Act.GET_PROPOSAL: _ALL,
    Act.VERIFY: _ALL,
    Act.RECEIPT: _ALL,
    Act.OPEN_RUN: _WRITERS,
    Act.GET_RUN: _WRITERS,
    Act.REMEMBER: _WRITERS,
    Act.PROPOSE: _WRITERS,
    Act.FORGET: _WRITERS,
    Act.COMMIT: _WRITERS,
    Act.DISCARD: _WRITERS,
    Act.DECIDE: _OPERATORS,
    Act.DUE: _OVERSEERS,
    Act.SWEEP: _OPERATORS,
    Act.LEDGER: _OVERSEERS,
    Act.CHECKPOINT: _OPERATORS,
    Act.READ_TRACES: _OVERSEERS,
    Act.READ_BENCH: _OVERSEERS,
    Act.READ_PROMPT: _ALL,
    Act.CHANGE_PROMPT: _OPERATORS,
    Act.METRICS: _OVERSEERS,
}
CHANGING_ACTS: Final = frozenset(
    {
        Act.OPEN_RUN,
        Act.REMEMBER,
        Act.PROPOSE,
        Act.FORGET,
        Act.COMMIT,
        Act.DISCARD,
        Act.DECIDE,
        Act.SWEEP,
        Act.CHECKPOINT,
        Act.CHANGE_PROMPT,
    }
)
# The ledger and the checkpoint tell of every namespace; traces, bench results and prompts belong to none, and a trace
# may hold what a run read in any. Verifying, receipts and metrics are for everybody whose role has
# them: their answers leave out what is not the caller's.
REACH_OF_ACT: Final = {
    **dict.fromkeys(Act, Reach.NAMESPACE),
    Act.LEDGER: Reach.STORE,
    Act.CHECKPOINT: Reach.STORE,
    Act.READ_TRACES: Reach.STORE,
    Act.READ_BENCH: Reach.STORE,
    Act.READ_PROMPT: Reach.STORE,
    Act.CHANGE_PROMPT: Reach.STORE,
    Act.VERIFY: Reach.OPEN,
    Act.RECEIPT: Reach.OPEN,
    Act.METRICS: Reach.OPEN,
}
assert set(ROLES_OF_ACT) == set(REACH_OF_ACT) == set(Act)
assert all(KeyRole.OPERATOR in roles for roles in ROLES_OF_ACT.values()), "an operator manages"
assert {act for act in Act if KeyRole.AUDITOR not in ROLES_OF_ACT[act]} == CHANGING_ACTS | {Act.GET_RUN}, (
    "an auditor reads everything but others' open runs, and changes nothing"
)


class Caller(Value, frozen=True, kw_only=True):
    """Who calls: the holder of a key, as the keyring knows it."""

    key_id: str
    name: str
    role: KeyRole
    namespaces: tuple[str, ...]

    @property
    def reaches_all(self) -> bool:
        """Whether every namespace is the caller's."""
        return ALL_NAMESPACES in self.namespaces

    def reaches(self, namespace: str) -> bool:
        """Whether a namespace is the caller's. Standfast's own is nobody's."""
        return namespace != SYSTEM_NAMESPACE and (self.reaches_all or namespace in self.namespaces)


def is_allowed(caller: Caller, act: Act, namespace: str | None) -> bool:
    """Whether the table lets this caller do this there; None is the whole store."""
    return _problem(caller, act, namespace) is None


def require(caller: Caller, act: Act, namespace: str | None) -> None:
    """Raise ``Forbidden``, with the reason, if the table does not let this caller do this there."""
    if problem := _problem(caller, act, namespace):
        where = "the whole store" if namespace is None else f"namespace {namespace!r:.80}"
        raise Forbidden(role=caller.role.value, act=act.value, where=where, problem=problem)


def _problem(caller: Caller, act: Act, namespace: str | None) -> str | None:
    roles = ROLES_OF_ACT[act]
    if caller.role not in roles:
        return f"that takes a key of role {' or '.join(role for role in KeyRole if role in roles)}"
    reach = REACH_OF_ACT[act]
    assert (namespace is not None) == (reach is Reach.NAMESPACE), f"{act} reaches into {reach}"
    if namespace is not None and not caller.reaches(namespace):
        return "the key is for other namespaces"
    if reach is Reach.STORE and not caller.reaches_all:
        return "that takes a key for all namespaces"
    return None
