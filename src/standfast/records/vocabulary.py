"""The types that all packages share, with the names of the five contract documents.

Values are frozen and validate themselves: an invalid one can't be built and raises ``InvalidValue``. Field
names are those of the documents, so ``as_json`` and ``from_json`` need no translation.

    what happened       RunIdentity -> VisibilityMode, BufferState, AbortReason, Snapshot
    what is remembered  Remembered, Receipt; Record -> Band, Tier, Origin (what a caller asks for:
                        records/requests.py)
    who allowed it      Evidence -> FloorCheck, Verdict
    what it costs       Step -> MemoryAction, ActionType; Budget
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final, NoReturn, Self, TypeAlias, TypeVar

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.limits import (
    DEFAULT_MAX_ITEMS,
    MAX_ID_CHARS,
    MAX_METADATA_CHARS,
    MAX_METADATA_FIELDS,
    MAX_NAME_CHARS,
    MAX_OFFSET_MINUTES,
    MAX_SUPERSEDED,
    MAX_TAGS,
    SAFE_INTEGER,
)
from standfast.records.canon import lowered, normal_string, utc_text
from standfast.records.conversion import converted, invalid_argument
from standfast.records.origins import Origin
from standfast.records.outcomes import RememberOutcome
from standfast.records.rows import RowKind
from standfast.records.scopes import SHARED, checked_scope, scoped_key
from standfast.records.statements import PlainStatement

_HEX_DIGEST: Final = re.compile("[0-9a-f]{64}")
_E = TypeVar("_E", bound=StrEnum)
JsonScalar: TypeAlias = str | int | float | bool | None  # A value of a record's metadata.


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of frozen values that validate themselves."""

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON, ready for ``canonical_bytes``."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """Build the value from what ``as_json`` gave, or raise an ``InvalidValue`` that names the field."""
        try:
            return converted(plain, cls)
        except msgspec.ValidationError as error:
            raise invalid_argument(error, kind=cls) from None

    def with_fields(self, **fields: object) -> Self:
        """The value with other fields. Nothing is checked: ``replace`` is for what somebody else gave."""
        changed: Self = self.__copy__()  # type: ignore[attr-defined]  # msgspec has it, and no type for it.
        for name, value in fields.items():
            msgspec.structs.force_setattr(changed, name, value)
        return changed

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise InvalidValue(what=type(self).__name__, problem=problem)

    def _coerce(self, field: str, kind: type[StrEnum]) -> None:
        """Turn a string such as ``"VOID"`` into its enum member."""
        value = getattr(self, field)
        if type(value) is kind:
            return
        try:
            msgspec.structs.force_setattr(self, field, kind(value))
        except ValueError:
            raise InvalidValue(what=type(self).__name__, problem=f"{field} {none_of(value, kind)}") from None

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidValue(what=type(self).__name__, problem=problem)

    def _require_whole(self, field: str, number: int, *, least: int) -> None:
        if not (type(number) is int and number >= least):
            self._refuse(f"{field} must be a whole number from {least} on, not {shown(number)}")

    def _require_name(self, field: str, name: str, most_chars: int = MAX_NAME_CHARS) -> None:
        if not (
            isinstance(name, str)
            and 0 < len(name) <= most_chars
            and name.isprintable()
            and (name.isascii() or normal_string(name) == name)
        ):
            self._refuse(f"{field} must be 1 to {most_chars} printable characters in NFC, not {shown(name)}")

    def _require_digest(self, field: str, digest: str) -> None:
        if not (isinstance(digest, str) and _HEX_DIGEST.fullmatch(digest)):
            self._refuse(f"{field} must be 64 lower-case hexadecimal digits, not {shown(digest)}")

    def _require_aware(self, field: str, instant: datetime) -> None:
        if not (isinstance(instant, datetime) and instant.tzinfo is not None):
            self._refuse(f"{field} must be a datetime with a time zone, not {shown(instant)}")

    def _require_instant(self, field: str, text: str) -> None:
        try:
            is_exact = utc_text(datetime.fromisoformat(text)) == text
        except (TypeError, ValueError, StandfastError):
            is_exact = False
        if not is_exact:
            self._refuse(f"{field} must be written YYYY-MM-DDTHH:MM:SS.ffffffZ, not {shown(text)}")


def shown(value: object) -> str:
    """A value for an error message: short, and never an error itself."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        # Python does not print integers of thousands of digits, or values that are nested too deeply.
        return f"a {type(value).__name__}"


def none_of(value: object, kind: type[StrEnum]) -> str:
    """The message that something is not a member of an enum."""
    return f"is {shown(value)}, which is not one of {', '.join(kind)}"


def member_of(kind: type[_E], value: str, *, what: str) -> _E:
    """The member of an enum that a value names; ``InvalidValue`` about ``what`` if there is none."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidValue(what=what, problem=f"it {none_of(value, kind)}") from None


class VisibilityMode(StrEnum):
    """What a run may see and write. Only ``live_read_write`` is outside the determinism contract."""

    OFF = "off"
    READ_ONLY = "read_only"
    BUFFERED_WRITE = "buffered_write"
    LIVE_READ_WRITE = "live_read_write"

    @property
    def is_deterministic(self) -> bool:
        """Whether a run in this mode can claim determinism."""
        return self is not VisibilityMode.LIVE_READ_WRITE

    @property
    def may_read(self) -> bool:
        """Whether a run in this mode can read memory."""
        return self is not VisibilityMode.OFF

    @property
    def may_write(self) -> bool:
        """Whether a run in this mode can change memory."""
        return self in (VisibilityMode.BUFFERED_WRITE, VisibilityMode.LIVE_READ_WRITE)


class BufferState(StrEnum):
    """The four states of a run's write buffer."""

    OPEN = "buffer_open"
    PENDING = "commit_pending"
    APPLIED = "commit_applied"
    ABORTED = "commit_aborted"


class CommitPolicy(StrEnum):
    """What becomes of a run with texts that are not accepted. By default the others are committed."""

    ACCEPTED = "accepted"
    # The whole run is aborted as ``policy_rejected``.
    ALL_OR_NOTHING = "all_or_nothing"


class AbortReason(StrEnum):
    """Why a commit was aborted."""

    POLICY_REJECTED = "policy_rejected"
    VALIDATION_FAILED = "validation_failed"
    STORAGE_APPLY_FAILED = "storage_apply_failed"
    PAYLOAD_MISMATCH = "payload_mismatch"


class Verdict(StrEnum):
    """The judge's decision about something to remember."""

    SEAL = "SEAL"
    SABAR = "SABAR"
    PARTIAL = "PARTIAL"
    VOID = "VOID"
    HOLD = "888_HOLD"

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a verdict in upper or lower case; ``HOLD`` means ``888_HOLD``."""
        upper = text.upper() if isinstance(text, str) and text.isascii() else text
        try:
            return cls("888_HOLD" if upper == "HOLD" else upper)
        except ValueError:
            raise InvalidValue(what="Verdict", problem=none_of(text, cls)) from None

    @property
    def label(self) -> str:
        """The plain word that people read; data and ``--json`` keep the contract's word."""
        return LABEL_OF_VERDICT[self]


LABEL_OF_VERDICT: Final = {
    Verdict.SEAL: "accepted",
    Verdict.SABAR: "accepted, with a reason noted",
    Verdict.PARTIAL: "needs review",
    Verdict.HOLD: "on hold",
    Verdict.VOID: "rejected",
}
assert set(LABEL_OF_VERDICT) == set(Verdict)


class Band(StrEnum):
    """The part of memory that a record is in."""

    VAULT = "VAULT"
    LEDGER = "LEDGER"
    ACTIVE = "ACTIVE"
    PHOENIX = "PHOENIX"
    WITNESS = "WITNESS"
    VOID = "VOID"

    @property
    def tier(self) -> "Tier":
        """How long this band keeps its records."""
        return TIER_OF_BAND[self]

    @property
    def label(self) -> str:
        """The plain words that people read; data and ``--json`` keep the contract's word."""
        return LABEL_OF_BAND[self]


LABEL_OF_BAND: Final = {
    Band.VAULT: "law",
    Band.LEDGER: "long-term memory",
    Band.ACTIVE: "working memory",
    Band.PHOENIX: "waiting",
    Band.WITNESS: "observations",
    Band.VOID: "rejected",
}
assert set(LABEL_OF_BAND) == set(Band)
assert set(map(str, Band)) <= set(map(str, RowKind)), "a record is a row of the kind of its band"


class Tier(StrEnum):
    """How long a record is kept."""

    HOT = "HOT"
    WARM = "WARM"
    COLD = "COLD"
    VOID = "VOID"


TIER_OF_BAND: Final = {
    Band.VAULT: Tier.COLD,
    Band.LEDGER: Tier.WARM,
    Band.ACTIVE: Tier.HOT,
    Band.PHOENIX: Tier.WARM,
    Band.WITNESS: Tier.WARM,
    Band.VOID: Tier.VOID,
}
assert set(TIER_OF_BAND) == set(Band)


class ActionType(StrEnum):
    """What a write policy can do at a step."""

    SKIP = "SKIP"
    WRITE = "WRITE"
    MERGE = "MERGE"
    EXPIRE = "EXPIRE"


_WRITE, _MERGE, _EXPIRE = ActionType.WRITE, ActionType.MERGE, ActionType.EXPIRE


class Snapshot(Value, frozen=True, kw_only=True):
    """A committed state. Ids are 0 (the empty store), 1, 2 … without gaps, each but 0 made by one commit."""

    memory_snapshot_id: int
    commit_id: str | None = None
    committed_at: str | None = None

    def __post_init__(self) -> None:
        self._require_whole("memory_snapshot_id", self.memory_snapshot_id, least=0)
        self._require(
            (self.memory_snapshot_id == 0) == (self.commit_id is None),
            "every snapshot except 0 has a commit_id, and 0 has none",
        )
        if self.commit_id is not None:
            self._require_digest("commit_id", self.commit_id)


class ErasedSince(Value, frozen=True, kw_only=True):
    """How many records that a snapshot showed were erased since, and the snapshot of the last time."""

    records: Annotated[int, msgspec.Meta(ge=1, le=SAFE_INTEGER)]
    memory_snapshot_id: Annotated[int, msgspec.Meta(ge=1, le=SAFE_INTEGER)]


class RunIdentity(Value, frozen=True, kw_only=True):
    """One run of an agent: its ids, the snapshot that it reads, and its visibility mode."""

    run_id: str
    workflow_id: str
    memory_snapshot_id: int
    visibility_mode: VisibilityMode = VisibilityMode.READ_ONLY
    policy_set_id: str
    model_config_id: str | None = None
    scope: str = SHARED
    """Where the run reads and writes unless a call names a scope."""

    def __post_init__(self) -> None:
        self._require_name("run_id", self.run_id)
        self._require_name("workflow_id", self.workflow_id)
        self._require_name("policy_set_id", self.policy_set_id)
        self._coerce("visibility_mode", VisibilityMode)
        self._require_whole("memory_snapshot_id", self.memory_snapshot_id, least=0)
        checked_scope(self.scope)


class FloorCheck(Value, frozen=True, kw_only=True, gc=False):
    """The result of one floor. A hard floor that fails makes the verdict VOID, a soft one PARTIAL."""

    floor: str
    score: float
    passed: bool
    threshold: float | None = None
    hard: bool | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        self._require_name("floor", self.floor)
        for field, number in (("score", self.score), ("threshold", self.threshold)):
            if not (number is None or (isinstance(number, int | float) and 0 <= number <= 1)):
                self._refuse(f"{field} must be between 0 and 1, not {number!r}")

    def as_json(self) -> dict[str, Any]:
        """Only the fields that are set, as the document writes a floor check."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}


class Evidence(Value, frozen=True, kw_only=True, gc=False):
    """The chain that ties a write to its verdict: floor checks, verdict, time, and a hash over the three."""

    floor_checks: tuple[FloorCheck, ...]
    verdict: Verdict
    timestamp: str
    hash: str

    def __post_init__(self) -> None:
        self._coerce("verdict", Verdict)
        self._require_digest("hash", self.hash)
        self._require_name("timestamp", self.timestamp)

    def as_json(self) -> dict[str, Any]:
        """The chain as the document writes it."""
        return {
            "floor_checks": [check.as_json() for check in self.floor_checks],
            "verdict": self.verdict.value,
            "timestamp": self.timestamp,
            "hash": self.hash,
        }


class Record(Value, frozen=True, kw_only=True, gc=False):
    """One record of memory, as ``memory.read`` knows it, with its place, its verdict and its evidence.

    Attributes:
        scope: Where in the namespace it is, e.g. ``"user/ada"``. Ids and subjects are unique within a scope.
        metadata: The caller's own fields, to filter by.
        session: The conversation that it is part of, with its ``position`` there and its ``speaker``.
        origin: How far its source is trusted.
        valid_from: When it begins to hold; with ``valid_until``, when it ends to hold.
        utc_offset: How many minutes its own time is ahead of UTC, by which "yesterday" is meant; None for 0.
        validity_words: The words of its text that the two were read from, e.g. ``"until friday"``; None if
            the caller gave them.
        supersedes: The ids of records of its scope that ended when it was accepted.
        pinned: True if recalls of its scope show it first; None for others.
        several: True if it is one value among several of its subject; None for others.
        statements: What its text plainly says, by which later statements on the same matter are found.
    """

    memory_id: str
    text: str
    ts_utc: str | None = None
    tags: tuple[str, ...] = ()
    refs: tuple[dict[str, Any], ...] = ()
    subject: str | None = None
    source: dict[str, Any] | None = None
    band: Band = Band.LEDGER
    tier: Tier | None = None
    """The tier that it was archived to; None for that of its band."""
    verdict: Verdict | None = None
    evidence: Evidence | None = None
    scope: str = SHARED
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    session: str | None = None
    position: int | None = None
    speaker: str | None = None
    origin: Origin = Origin.ORDINARY
    valid_from: str | None = None
    valid_until: str | None = None
    supersedes: tuple[str, ...] = ()
    pinned: bool | None = None
    several: bool | None = None
    statements: tuple[PlainStatement, ...] = ()
    validity_words: str | None = None
    utc_offset: int | None = None

    def __post_init__(self) -> None:
        self._require_name("memory_id", self.memory_id, MAX_ID_CHARS)
        if not isinstance(self.text, str):
            self._refuse("text must be a string")
        if self.scope != SHARED:
            checked_scope(self.scope)
        if type(self.origin) is not Origin:
            self._coerce("origin", Origin)
        if type(self.band) is not Band:
            self._coerce("band", Band)
        if self.tier is not None:
            self._coerce("tier", Tier)
        if self.verdict is not None and type(self.verdict) is not Verdict:
            self._coerce("verdict", Verdict)
        if self.tags != ():
            self._require(len(self.tags) <= MAX_TAGS, f"at most {MAX_TAGS} tags")
            self._require(self.tags == normal_tags(self.tags), "tags must be sorted, unique, in lower case")
        if self.metadata:
            self._require_metadata(self.metadata)
        if self.subject is not None:
            self._require_name("subject", self.subject)
        if self.session is not None:
            self._require_name("session", self.session)
        if self.speaker is not None:
            self._require_name("speaker", self.speaker)
        if self.position is not None:
            self._require_whole("position", self.position, least=0)
            self._require(self.position <= SAFE_INTEGER, f"position must be at most {SAFE_INTEGER}")
        if self.utc_offset is not None:
            self._require_whole("utc_offset", self.utc_offset, least=-MAX_OFFSET_MINUTES)
            self._require(self.utc_offset <= MAX_OFFSET_MINUTES, "utc_offset must be less than a day")
        if self.valid_from is not None or self.valid_until is not None or self.supersedes:
            self._require_times_and_superseded()
        if self.band is Band.VOID and self.verdict not in (None, Verdict.VOID):
            self._refuse("a record in the VOID band needs a VOID verdict")
        if self.verdict is Verdict.VOID and self.band is not Band.VOID:
            self._refuse("a record with a VOID verdict belongs in the VOID band")

    def _require_times_and_superseded(self) -> None:
        for field in ("valid_from", "valid_until"):
            if (instant := getattr(self, field)) is not None:
                self._require_instant(field, instant)
        if self.valid_from is not None and self.valid_until is not None:
            self._require(self.valid_from < self.valid_until, "valid_from must be before valid_until")
        self._require(len(self.supersedes) <= MAX_SUPERSEDED, f"at most {MAX_SUPERSEDED} superseded ids")
        for memory_id in self.supersedes:
            self._require_name("supersedes", memory_id, MAX_ID_CHARS)

    def _require_metadata(self, metadata: Mapping[str, JsonScalar]) -> None:
        self._require(
            isinstance(metadata, dict) and len(metadata) <= MAX_METADATA_FIELDS,
            f"metadata must be an object of at most {MAX_METADATA_FIELDS} fields",
        )
        for name, value in metadata.items():
            self._require_name("a field of metadata", name)
            if not is_metadata_value(value):
                self._refuse(
                    f"metadata[{name!r:.80}] must be a string of at most {MAX_METADATA_CHARS} characters, a"
                    f" finite number, true, false or null, not {shown(value)}"
                )

    @property
    def key(self) -> str:
        """Its key in the namespace. The band is part of it, because a record can be in two bands."""
        return scoped_key(self.band, self.scope, self.memory_id)

    def __repr__(self) -> str:
        label = self.verdict.label if self.verdict else "not judged"
        return f"<{self.text!r:.80} in {self.scope}, {label}: {self.memory_id}>"

    def as_json(self) -> dict[str, Any]:
        """Only the fields that are set, because an absent field and a null one differ in json-v1."""
        every = zip(_FIELDS_BUT_EVIDENCE, _values_but_evidence(self), strict=True)
        fields = {name: one for name, one in every if one is not None and one not in _EMPTY}
        if self.scope == SHARED:
            del fields["scope"]
        if self.origin is Origin.ORDINARY:
            del fields["origin"]
        plain: dict[str, Any] = msgspec.to_builtins(fields)
        if self.evidence is not None:
            plain["evidence"] = self.evidence.as_json()
        return plain


_EMPTY: Final[tuple[object, ...]] = ((), {})
_NOT_SET: Final[tuple[object, ...]] = (None, *_EMPTY)
_FIELDS_BUT_EVIDENCE: Final = tuple(name for name in Record.__struct_fields__ if name != "evidence")
_values_but_evidence: Final = attrgetter(*_FIELDS_BUT_EVIDENCE)


class Receipt(Value, frozen=True, kw_only=True):
    """The answer to an applied commit. The same one again gets the same receipt, with ``replayed`` set."""

    commit_id: str
    memory_snapshot_id: int
    payload_fingerprint: str
    committed_at: str
    ledger_seq: int
    ledger_hash: str
    replayed: bool = False


class Remembered(RememberOutcome, Value, frozen=True, kw_only=True):
    """The result of remembering: whether it is accepted, rejected or needs review; the verdict with its
    reasons, the bands the record goes to, and the proposal that waits, if any.

    ``receipt`` is set once it is committed: at once by ``memory.remember``, and not by a run, which commits
    later. ``known`` is the id of the record that says the same already; then no record is stored, only a
    witness if the source is new. ``earlier`` are ids of records that say something else about the same
    matter, ``similar`` of those with nearly the same text; ``supersedes=`` says that one is replaced.
    ``valid_from`` and ``valid_until`` are set if the text itself says when it holds ("until Friday").
    """

    memory_id: str
    verdict: Verdict
    bands: tuple[Band, ...]
    reasons: tuple[str, ...] = ()
    proposal_id: str | None = None
    known: str | None = None
    earlier: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    valid_from: str | None = None
    valid_until: str | None = None
    receipt: Receipt | None = None

    def as_json(self) -> dict[str, Any]:
        """The result as plain JSON, without an empty ``receipt``, ``known``, related records and validity."""
        plain = super().as_json()
        for name in ("receipt", "known", "earlier", "similar", "valid_from", "valid_until"):
            if plain[name] in _NOT_SET:
                del plain[name]
        return plain


# Streams hold thousands of steps, which contain no reference cycles: the garbage collector can skip them.
class Step(Value, frozen=True, kw_only=True, gc=False):
    """One observation of a stream, at timestep ``t``."""

    t: int
    observation: Any
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (type(self.t) is int and self.t >= 0):
            self._require_whole("t", self.t, least=0)
        if not isinstance(self.metadata, dict):
            self._refuse("metadata must be an object")


class MemoryAction(Value, frozen=True, kw_only=True, gc=False):
    """What a policy asks for. The store decides; ``compress`` only where it offers compression."""

    action: ActionType
    step: Step | None = None
    target_t: int | None = None
    delta: dict[str, Any] | None = None
    reason: str | None = None
    compress: bool = False

    def __post_init__(self) -> None:
        # Policies build one for every step of a stream, so this checks no more than it has to.
        if type(self.action) is not ActionType:
            self._coerce("action", ActionType)
        action, target_t = self.action, self.target_t
        if self.step is None and (action is _WRITE or action is _MERGE):
            self._refuse(f"{action} needs a step")
        if target_t is None:
            if action is _MERGE or action is _EXPIRE:
                self._refuse(f"{action} needs a target_t")
        elif not (type(target_t) is int and target_t >= 0):
            self._require_whole("target_t", target_t, least=0)


class Budget(Value, frozen=True, kw_only=True):
    """How much ``memory.read`` may return, in tokens of its deterministic estimator."""

    max_excerpt_tokens: int
    per_item_max_excerpt_tokens: int | None = None
    max_items: int = DEFAULT_MAX_ITEMS

    def __post_init__(self) -> None:
        self._require_whole("max_excerpt_tokens", self.max_excerpt_tokens, least=1)
        self._require_whole("max_items", self.max_items, least=1)
        if self.per_item_max_excerpt_tokens is not None:
            self._require_whole("per_item_max_excerpt_tokens", self.per_item_max_excerpt_tokens, least=1)


def is_metadata_value(value: object) -> bool:
    """Whether a value can stand in metadata: a short string, a finite number, a bool or None."""
    if isinstance(value, str):
        return len(value) <= MAX_METADATA_CHARS
    if isinstance(value, int | float) and not isinstance(value, bool):
        return -SAFE_INTEGER <= value <= SAFE_INTEGER
    return value is None or isinstance(value, bool)


def normal_tags(tags: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Tags in the form in which they are stored and compared: lower case, NFC, unique and sorted."""
    return tuple(sorted({normal_string(lowered(tag)) for tag in tags}))
