"""Permissions of API keys: one table that says which role may do what, and in which part of the store.

Every endpoint and every tool needs one permission, and the gateway checks it before any memory is reached.
The roles:

    agent      reads its namespaces; remembers, proposes and forgets there
    operator   everything an agent may; also submits signatures, runs retention, signs checkpoints, reads the
               ledger, changes prompts and manages keys for its own namespaces
    auditor    reads everything and changes nothing

A key may also be limited to scopes; ``scope_limits.py`` says what that means.

No role can seal a record as law. That takes a person's signature, which is verified no matter who submits it.
"""

from enum import StrEnum
from typing import Final

from standfast.errors import Forbidden
from standfast.records.origins import Origin
from standfast.records.rows import SYSTEM_NAMESPACE
from standfast.records.scopes import is_within
from standfast.records.vocabulary import Value

ALL_NAMESPACES: Final = "*"


class KeyRole(StrEnum):
    """The role of an API key."""

    AGENT = "agent"
    OPERATOR = "operator"
    AUDITOR = "auditor"


ORIGIN_OF_ROLE: Final = {
    KeyRole.AGENT: Origin.ORDINARY,
    KeyRole.OPERATOR: Origin.TRUSTED,
    KeyRole.AUDITOR: Origin.UNTRUSTED,
}
"""The most that the holder of a key is trusted, unless the key says otherwise. An auditor writes nothing."""
assert set(ORIGIN_OF_ROLE) == set(KeyRole)


class Permission(StrEnum):
    """Everything that a caller can ask the server to do."""

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
    LIST_REFUSALS = "list_refusals"
    LIFT_REFUSAL = "lift_refusal"
    INVESTIGATE = "investigate"
    LIST_QUARANTINES = "list_quarantines"
    QUARANTINE = "quarantine"
    LEDGER = "ledger"
    CHECKPOINT = "checkpoint"
    READ_TRACES = "read_traces"
    READ_BENCH = "read_bench"
    READ_PROMPT = "read_prompt"
    CHANGE_PROMPT = "change_prompt"
    METRICS = "metrics"
    EVENTS = "events"
    LIST_NAMESPACES = "list_namespaces"
    LIST_KEYS = "list_keys"
    CREATE_KEY = "create_key"
    REVOKE_KEY = "revoke_key"


class KeyScope(StrEnum):
    """What a key must cover to use a permission.

    ``NAMESPACE`` needs a key for the namespace of the call, ``STORE`` a key for all namespaces, ``ANY`` a key
    for any namespace: the response leaves out whatever belongs to other namespaces.
    """

    NAMESPACE = "namespace"
    STORE = "store"
    ANY = "any"


_ALL: Final = frozenset(KeyRole)
_WRITERS: Final = frozenset({KeyRole.AGENT, KeyRole.OPERATOR})
_OVERSEERS: Final = frozenset({KeyRole.OPERATOR, KeyRole.AUDITOR})
_OPERATORS: Final = frozenset({KeyRole.OPERATOR})

ROLES_OF_PERMISSION: Final = {
    Permission.RECALL: _ALL,
    Permission.LIST_RECORDS: _ALL,
    Permission.GET_RECORD: _ALL,
    Permission.HISTORY: _ALL,
    Permission.SNAPSHOTS: _ALL,
    Permission.DIFF: _ALL,
    Permission.STATUS: _ALL,
    Permission.LIST_PROPOSALS: _ALL,
    Permission.GET_PROPOSAL: _ALL,
    Permission.VERIFY: _ALL,
    Permission.RECEIPT: _ALL,
    Permission.OPEN_RUN: _WRITERS,
    Permission.GET_RUN: _WRITERS,
    Permission.REMEMBER: _WRITERS,
    Permission.PROPOSE: _WRITERS,
    Permission.FORGET: _WRITERS,
    Permission.COMMIT: _WRITERS,
    Permission.DISCARD: _WRITERS,
    Permission.DECIDE: _OPERATORS,
    Permission.DUE: _OVERSEERS,
    Permission.SWEEP: _OPERATORS,
    Permission.LIST_REFUSALS: _OVERSEERS,
    Permission.LIFT_REFUSAL: _OPERATORS,
    Permission.INVESTIGATE: _ALL,
    Permission.LIST_QUARANTINES: _OVERSEERS,
    Permission.QUARANTINE: _OPERATORS,
    Permission.LEDGER: _OVERSEERS,
    Permission.CHECKPOINT: _OPERATORS,
    Permission.READ_TRACES: _OVERSEERS,
    Permission.READ_BENCH: _OVERSEERS,
    Permission.READ_PROMPT: _ALL,
    Permission.CHANGE_PROMPT: _OPERATORS,
    Permission.METRICS: _OVERSEERS,
    Permission.EVENTS: _ALL,
    Permission.LIST_NAMESPACES: _ALL,
    Permission.LIST_KEYS: _OVERSEERS,
    Permission.CREATE_KEY: _OPERATORS,
    Permission.REVOKE_KEY: _OPERATORS,
}
CHANGING_PERMISSIONS: Final = frozenset(
    {
        Permission.OPEN_RUN,
        Permission.REMEMBER,
        Permission.PROPOSE,
        Permission.FORGET,
        Permission.COMMIT,
        Permission.DISCARD,
        Permission.DECIDE,
        Permission.SWEEP,
        Permission.LIFT_REFUSAL,
        Permission.QUARANTINE,
        Permission.CHECKPOINT,
        Permission.CHANGE_PROMPT,
        Permission.CREATE_KEY,
        Permission.REVOKE_KEY,
    }
)
# The ledger covers every namespace. Traces, bench results and prompts belong to no namespace, and a trace may
# contain what its run read in any of them.
SCOPE_OF_PERMISSION: Final = {
    **dict.fromkeys(Permission, KeyScope.NAMESPACE),
    Permission.LEDGER: KeyScope.STORE,
    Permission.CHECKPOINT: KeyScope.STORE,
    Permission.READ_TRACES: KeyScope.STORE,
    Permission.READ_BENCH: KeyScope.STORE,
    Permission.READ_PROMPT: KeyScope.STORE,
    Permission.CHANGE_PROMPT: KeyScope.STORE,
    Permission.VERIFY: KeyScope.ANY,
    Permission.RECEIPT: KeyScope.ANY,
    Permission.METRICS: KeyScope.ANY,
    Permission.EVENTS: KeyScope.ANY,
    Permission.LIST_NAMESPACES: KeyScope.ANY,
    Permission.LIST_KEYS: KeyScope.ANY,
    Permission.CREATE_KEY: KeyScope.ANY,
    Permission.REVOKE_KEY: KeyScope.ANY,
}
NEEDS_ALL_SCOPES: Final = frozenset(
    {
        *(Permission.SWEEP, Permission.LIST_REFUSALS, Permission.LIFT_REFUSAL),
        *(Permission.LIST_QUARANTINES, Permission.QUARANTINE),
    }
    | {one for one in Permission if SCOPE_OF_PERMISSION[one] is KeyScope.STORE}
)
"""What a key that is limited to scopes may not do, because it reaches beyond them."""
assert set(ROLES_OF_PERMISSION) == set(SCOPE_OF_PERMISSION) == set(Permission)
assert all(KeyRole.OPERATOR in roles for roles in ROLES_OF_PERMISSION.values()), (
    "an operator may do everything"
)
assert {
    one for one in Permission if KeyRole.AUDITOR not in ROLES_OF_PERMISSION[one]
} == CHANGING_PERMISSIONS | {Permission.GET_RUN}, (
    "an auditor reads everything except the open runs of others, and changes nothing"
)


class Caller(Value, frozen=True, kw_only=True):
    """Who makes a call: the public part of an API key."""

    key_id: str
    name: str
    role: KeyRole
    namespaces: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    """The scopes that the key is limited to, each with all below it; none if it is for all."""
    origin: Origin = Origin.ORDINARY
    """The most that what the caller remembers is trusted, whatever source it names."""

    @property
    def covers_all(self) -> bool:
        """Whether the key is for all namespaces."""
        return ALL_NAMESPACES in self.namespaces

    def covers(self, namespace: str) -> bool:
        """Whether the key is for a namespace. No key covers the reserved namespace."""
        return namespace != SYSTEM_NAMESPACE and (self.covers_all or namespace in self.namespaces)

    def covers_scope(self, scope: str) -> bool:
        """Whether the key is for a scope and all below it."""
        return not self.scopes or any(is_within(scope, own) for own in self.scopes)


def is_allowed(caller: Caller, permission: Permission, namespace: str | None) -> bool:
    """Whether a caller has a permission in a namespace. ``None`` means the whole store."""
    return _denial(caller, permission, namespace) is None


def require(caller: Caller, permission: Permission, namespace: str | None) -> None:
    """Raise ``Forbidden``, with the reason, unless a caller has a permission in a namespace."""
    if problem := _denial(caller, permission, namespace):
        where = "the whole store" if namespace is None else f"namespace {namespace!r:.80}"
        raise Forbidden(role=caller.role.value, act=permission.value, where=where, problem=problem)


def namespace_for(permission: Permission, namespace: str | None) -> str | None:
    """The namespace to check a permission in: None for permissions that are not about one namespace."""
    return namespace if SCOPE_OF_PERMISSION[permission] is KeyScope.NAMESPACE else None


def _denial(caller: Caller, permission: Permission, namespace: str | None) -> str | None:
    roles = ROLES_OF_PERMISSION[permission]
    if caller.role not in roles:
        return f"it needs a key of role {' or '.join(role for role in KeyRole if role in roles)}"
    scope = SCOPE_OF_PERMISSION[permission]
    assert (namespace is not None) == (scope is KeyScope.NAMESPACE), f"{permission} is checked in {scope}"
    if namespace is not None and not caller.covers(namespace):
        return "the key is for other namespaces"
    if scope is KeyScope.STORE and not caller.covers_all:
        return "it needs a key for all namespaces"
    if caller.scopes and permission in NEEDS_ALL_SCOPES:
        return "it needs a key that is not limited to scopes"
    return None
