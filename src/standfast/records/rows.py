"""Kinds of rows: everything that a store holds, and what holds for each kind.

A key begins with the kind of its row and a slash. Keys (``scopes.py``), commits, ``forget``, retention,
access,
the index and the audit read this table and no other. Adding a kind is one line in each of its two parts.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from standfast.errors import InvalidValue
from standfast.limits import MAX_NAME_CHARS

SYSTEM_NAMESPACE: Final = "standfast"
"""The reserved namespace of rows that belong to no tenant."""


class RowKind(StrEnum):
    """Every kind of row, in the order in which ``forget`` erases them.

    What stands about a record goes before the record, because it is recognised by the record. A session's row
    goes last: a message that is added meanwhile must not get the position of one that is still there.
    """

    SAID = "said"
    """A record of the scope says this text."""
    REFUSED = "refused"
    """A human rejected this text in the scope, or it is an attack."""
    MARK = "mark"
    """An attack from one source was rejected in the scope."""
    TTL = "ttl"
    """When an adapter's item expires."""
    PHOENIX = "PHOENIX"
    """A proposal that waits, with its record."""
    DECISION = "decision"
    """A proposal that a human decided."""
    STREAM = "stream"
    """One step that the write policy of a budgeted band was shown."""
    WITNESS = "WITNESS"
    VOID = "VOID"
    ACTIVE = "ACTIVE"
    LEDGER = "LEDGER"
    QUARANTINED = "quarantined"
    """Which versions of a record are in quarantine, and by which acts.

    It goes after the records: without it they would be shown again while an erasure is under way.
    """
    EXTRACTION = "extraction"
    """A model was asked for the facts in messages of a conversation; it holds no text of them."""
    SESSION = "session"
    """How far a conversation has come."""
    VAULT = "VAULT"
    BUDGET = "budget"
    """The policy of a budgeted band, and how far it has come."""
    VECTORS = "vectors"
    """How far the vectors of an embedder were filled in."""
    QUARANTINE = "quarantine"
    """An act that puts records into quarantine, or releases them: what it names, and how far it has come.

    Every commit that writes rows of kind ``quarantined`` also writes the row of its act.
    """
    REQUEST = "request"
    """The answer to a request under an idempotency key."""
    FORGETTING = "forgetting"
    """An erasure that has not ended."""
    FORGOTTEN = "forgotten"
    """An erasure that has ended, in numbers."""
    NONCE = "nonce"
    """The nonce of a signature that was used."""
    SIGNERS = "signers"
    """A list of signers that a decision was checked against."""
    API_KEY = "key"


class Place(Enum):
    """Where rows of a kind are, and so what their keys look like."""

    SCOPE = "KIND/scope//name, in a tenant's namespace"
    NAMESPACE = "KIND/name, in a tenant's namespace"
    SYSTEM = "KIND/name, in the reserved namespace"


class ErasedBy(Enum):
    """What makes ``forget`` erase a row."""

    RECORD = "it is a record; it goes with its scope, its source, or alone"
    ITS_RECORD = "its key names a record, and it goes with that"
    ITS_SCOPE = "it goes with all of its scope"
    ITS_CONTENT = "its content names a record, and it goes with that"
    SIGNATURE = "it is law, which only a human's signature ends"
    NOTHING = "it holds nothing that anybody said"


class Retention(Enum):
    """What a retention sweep does to a row."""

    BY_BAND = "it is archived or deleted as the policy says of its band"
    BY_AGE = "it is deleted at the age of rejected records"
    WITH_ITS_RECORD = "it is deleted with the record that it repeats"
    NONE = "it stays"


class Reader(Enum):
    """Who may be shown a row, within the scopes of their key."""

    EVERYBODY = "agents and people"
    PEOPLE = "people, and no agent"
    NOBODY = "it is kept about memory, and is no memory"


class RowRule(NamedTuple):
    """What holds for the rows of one kind.

    ``append_only`` rows are only ever added: if one exists already, the commit must conflict and not replace
    it. ``indexed`` ones are found by recall.
    """

    place: Place
    erased_by: ErasedBy
    retention: Retention = Retention.NONE
    seen_by: Reader = Reader.NOBODY
    append_only: bool = False
    indexed: bool = False


_RECORD: Final = RowRule(Place.SCOPE, ErasedBy.RECORD, Retention.BY_BAND, Reader.EVERYBODY, indexed=True)
_PROPOSAL: Final = RowRule(
    Place.NAMESPACE, ErasedBy.ITS_CONTENT, seen_by=Reader.EVERYBODY, append_only=True, indexed=True
)
_SYSTEM: Final = RowRule(Place.SYSTEM, ErasedBy.NOTHING)

RULES: Final[Mapping[RowKind, RowRule]] = {
    RowKind.SAID: RowRule(Place.SCOPE, ErasedBy.ITS_RECORD),
    RowKind.REFUSED: RowRule(Place.SCOPE, ErasedBy.ITS_SCOPE, Retention.BY_AGE),
    RowKind.MARK: RowRule(Place.SCOPE, ErasedBy.ITS_SCOPE, Retention.BY_AGE, append_only=True),
    RowKind.TTL: RowRule(Place.SCOPE, ErasedBy.ITS_RECORD),
    RowKind.PHOENIX: _PROPOSAL,
    RowKind.DECISION: RowRule(Place.NAMESPACE, ErasedBy.ITS_CONTENT),
    RowKind.STREAM: RowRule(
        Place.NAMESPACE, ErasedBy.ITS_CONTENT, Retention.WITH_ITS_RECORD, append_only=True
    ),
    RowKind.WITNESS: _RECORD,
    RowKind.VOID: _RECORD._replace(seen_by=Reader.PEOPLE, indexed=False),
    RowKind.ACTIVE: _RECORD,
    RowKind.LEDGER: _RECORD,
    RowKind.QUARANTINED: RowRule(Place.SCOPE, ErasedBy.ITS_CONTENT),
    RowKind.EXTRACTION: RowRule(Place.SCOPE, ErasedBy.ITS_SCOPE, append_only=True),
    RowKind.SESSION: RowRule(Place.SCOPE, ErasedBy.ITS_SCOPE),
    RowKind.VAULT: _RECORD._replace(erased_by=ErasedBy.SIGNATURE, retention=Retention.NONE),
    RowKind.BUDGET: RowRule(Place.NAMESPACE, ErasedBy.NOTHING),
    RowKind.VECTORS: RowRule(Place.NAMESPACE, ErasedBy.NOTHING),
    RowKind.QUARANTINE: RowRule(Place.NAMESPACE, ErasedBy.NOTHING),
    RowKind.REQUEST: _SYSTEM,
    RowKind.FORGETTING: _SYSTEM,
    RowKind.FORGOTTEN: _SYSTEM,
    RowKind.NONCE: _SYSTEM,
    RowKind.SIGNERS: _SYSTEM,
    RowKind.API_KEY: _SYSTEM,
}
assert set(RULES) == set(RowKind), "a kind of row without a rule could be forgotten by forget"

ERASED_KINDS: Final = tuple(
    kind for kind in RowKind if RULES[kind].erased_by not in (ErasedBy.SIGNATURE, ErasedBy.NOTHING)
)
"""What ``forget`` erases, in its order."""
RECORD_KINDS: Final = frozenset(
    kind for kind in RowKind if RULES[kind].erased_by in (ErasedBy.RECORD, ErasedBy.SIGNATURE)
)
"""The bands whose rows are records."""
SHOWN_KINDS: Final = frozenset(kind for kind in RowKind if RULES[kind].seen_by is not Reader.NOBODY)
"""What is memory, or waits to be."""
APPEND_ONLY: Final = tuple(f"{kind}/" for kind in RowKind if RULES[kind].append_only)
"""The beginnings of the keys of rows that are only ever added."""


def kind_of_row(namespace: str, key: str) -> RowKind:
    """The kind of a row that may be written under this key.

    Raises:
        InvalidValue: The key begins with no kind, or is not where rows of its kind are.
    """
    name, slash, rest = key.partition("/")
    kind = RowKind._value2member_map_.get(name)
    if not slash or not isinstance(kind, RowKind):
        problem = f"{key!r:.80} is of no kind of rows; add its kind to records/rows.py, with a rule"
        raise InvalidValue(what="key", problem=problem)
    place = RULES[kind].place
    scope, slashes, _ = rest.partition("//")
    is_there = (namespace == SYSTEM_NAMESPACE) == (place is Place.SYSTEM)
    if not is_there or (place is Place.SCOPE and not (scope and slashes)):
        problem = f"{key!r:.80} in namespace {namespace} is not where such a row is: {place.value}"
        raise InvalidValue(what="key", problem=problem)
    return kind


def checked_namespace(namespace: str) -> str:
    """The namespace, if it may be one; ``InvalidValue`` otherwise."""
    is_name = isinstance(namespace, str) and 0 < len(namespace) <= MAX_NAME_CHARS and namespace.isprintable()
    if not is_name:
        problem = f"it must be 1 to {MAX_NAME_CHARS} printable characters, not {namespace!r:.80}"
        raise InvalidValue(what="namespace", problem=problem)
    if namespace == SYSTEM_NAMESPACE:
        raise InvalidValue(what="namespace", problem=f"{namespace!r} is reserved; choose another")
    return namespace
