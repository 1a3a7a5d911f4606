"""The artifact: the one JSON file that a recorded run leaves, and the only thing that a claim is made from.

The envelope says what ran: the run, its model (``ModelConfig``) and its tools (``ToolProfile``). The events
say what was decided, in order; tool calls and retrievals belong to events. ``Trace.read`` accepts a text only
if it fits the JSON Schema and its hash, and ``Trace.as_bytes`` returns the json-v1 text.

A tool's profile decides which fields of its arguments, results and side effects are compared. Request ids and
latencies should be left out of it, so that two honest runs are comparable.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from standfast.errors import InvalidValue, NotCanonical, TraceError
from standfast.limits import (
    FLOAT_DECIMALS,
    MAX_NAME_CHARS,
    MAX_TAGS,
    MAX_TRACE_BYTES,
    MAX_TRACE_GAPS,
    SAFE_INTEGER,
)
from standfast.records.canon import canonical_bytes, fingerprint, fingerprint_of_bytes, normal_string, parse
from standfast.records.conversion import converted
from standfast.records.vocabulary import ErasedSince, Value, VisibilityMode
from standfast.traces.shapes import Count, Name, Shape

DETERMINISM_SCHEMA: Final = "memory.determinism_trace.v1"
RETRIEVAL_SCHEMA: Final = "memory.retrieval_trace.v1"
UNDECIDED: Final = "undecided"
VERSIONS: Final = {
    "determinism_trace_schema_version": DETERMINISM_SCHEMA,
    "retrieval_trace_schema_version": RETRIEVAL_SCHEMA,
    "normalization_version": "json-v1",
}
EVERY_FIELD: Final = ("*",)
NO_FIELDS: Final[tuple[str, ...]] = ()
WHOLE_PROFILE_VERSION: Final = "whole-v1"

# The length stands next to the pattern, because `$` also matches before a final line break in Python's
# dialect.
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", min_length=64, max_length=64)]
FieldNames = Annotated[tuple[Name, ...], Meta(max_length=MAX_TAGS)]
Normalization = Literal["json-v1"]
Instant = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
        min_length=27,
        max_length=27,
    ),
]


class ToolProfile(Value, frozen=True, kw_only=True):
    """Which fields of a tool's calls are compared, under a version. ``("*",)`` means the whole value.

    Args:
        tool_name: The name of the tool.
        tool_profile_version: The version of this profile; a changed profile has a new one.
        normalized_args_fields: The arguments that are compared.
        tool_result_fields: The fields of the result that are compared.
        side_effect_fields: The fields of its side effects that are compared. If there are none, the tool has
            no side effects in scope; otherwise every call must be recorded with what it did.
        keeps_result: Whether results are stored. If they are only compared, a replay needs the tool itself.
    """

    tool_name: Name
    tool_profile_version: Name
    normalized_args_fields: FieldNames = EVERY_FIELD
    tool_result_fields: FieldNames = EVERY_FIELD
    side_effect_fields: FieldNames = NO_FIELDS
    keeps_result: bool = True

    def __post_init__(self) -> None:
        for field in ("tool_name", "tool_profile_version"):
            normal = self._normal_names(field, (getattr(self, field),))
            msgspec.structs.force_setattr(self, field, normal[0])
        for field in ("normalized_args_fields", "tool_result_fields", "side_effect_fields"):
            names = getattr(self, field)
            self._require(
                isinstance(names, tuple | list) and len(names) <= MAX_TAGS,
                f"{field} must be a list of at most {MAX_TAGS} field names",
            )
            msgspec.structs.force_setattr(self, field, tuple(sorted(set(self._normal_names(field, names)))))

    def _normal_names(self, field: str, names: Iterable[str]) -> list[str]:
        normal = [normal_string(name) if isinstance(name, str) else "" for name in names]
        self._require(
            all(0 < len(name) <= MAX_NAME_CHARS for name in normal),
            f"{field} must be 1 to {MAX_NAME_CHARS} characters",
        )
        return normal

    @classmethod
    def whole(cls, tool_name: str) -> "ToolProfile":
        """Return the profile of a tool without its own: all arguments and results count, no side effects."""
        return cls(tool_name=tool_name, tool_profile_version=WHOLE_PROFILE_VERSION)

    @property
    def has_side_effects(self) -> bool:
        """Whether a call is incomplete without a ``side_effect_fingerprint``."""
        return bool(self.side_effect_fields)


def selected(fields: tuple[str, ...], value: object) -> object:
    """Return the part of a value that these fields select.

    A missing field is left out, which differs from null.

    A value without fields, such as a text, is returned whole: dropping it would make all texts equal.
    """
    if "*" in fields or not isinstance(value, dict):
        return value
    return {name: value[name] for name in fields if name in value}


def tool_runtime_profile_hash(profiles: Iterable[ToolProfile]) -> str:
    """Return one digest of all tools that a run could call, whether it called them or not."""
    by_name = sorted(profiles, key=lambda profile: profile.tool_name)
    return fingerprint(["tool-runtime-profile/v1", [profile.as_json() for profile in by_name]])


class ModelConfig(Value, frozen=True, kw_only=True):
    """The model that answered and its settings: everything that ``model_config_id`` covers.

    Args:
        provider_name: Who serves the model.
        model_name: The name of the model, as the provider writes it.
        model_revision: The revision of the model, if the provider says it.
        temperature: The sampling temperature.
        top_p: The share of probability that is sampled from.
        max_tokens: The most tokens of an answer.
        frequency_penalty: How much repeated tokens are avoided.
        presence_penalty: How much tokens are avoided that were there at all.
        seed: The seed of the sampling. Without one a run can claim determinism only if its runtime guarantees
            it.
        stochastic_unseeded: Follows from the seed; what is given is ignored.
        deterministic_runtime: The same prompt always gets the same answer without a seed: greedy decoding on
            a fixed build, or a scripted model.
        other_params: Whatever else was set, by the provider's names.
    """

    provider_name: Name
    model_name: Name
    model_revision: Name | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: Annotated[int, Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)] | None = None
    stochastic_unseeded: bool = False
    deterministic_runtime: bool = False
    other_params: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in ("provider_name", "model_name"):
            self._require(bool(getattr(self, field)), f"{field} is empty")
        msgspec.structs.force_setattr(self, "stochastic_unseeded", self.seed is None)
        # A value that is no JSON is refused here, where it can be corrected, and not when the trace is built.
        canonical_bytes(msgspec.to_builtins(self))

    @property
    def is_reproducible(self) -> bool:
        """Whether the same prompt must get the same answer."""
        return self.seed is not None or self.deterministic_runtime


def model_config_id(model: ModelConfig, profiles: Iterable[ToolProfile]) -> str:
    """Return the identity of a model together with the tools it was offered."""
    return fingerprint(["model-config-id/v1", model.as_json(), tool_runtime_profile_hash(profiles)])


class ToolCall(Value, frozen=True, kw_only=True):
    """One tool call: the arguments that its profile selects, and fingerprints of result and side effects.

    ``result`` is the whole result, stored for replay and never compared; ``result_omitted`` says why not.
    """

    tool_name: Name
    tool_profile_version: Name
    normalization_version: Normalization
    normalized_args: Any
    outcome: Literal["returned", "raised"]
    tool_result_fingerprint: Digest
    side_effect_fingerprint: Digest | None
    result: Any | UnsetType = UNSET
    result_omitted: Literal["profile", "size"] | None


class Event(Value, frozen=True, kw_only=True):
    """One decision of the agent. ``index`` orders events; ``event_id`` only links and is never compared."""

    event_id: Name
    index: Count
    role: Name
    interceptor: Name
    decision_type: Name
    tool_calls: tuple[ToolCall, ...]
    guardrails_triggered: tuple[Name, ...]
    retrieval_event_ids: tuple[Name, ...]


class SelectedRecord(Value, frozen=True, kw_only=True):
    """A record that a retrieval returned; rank 1 is the best. ``record_hash`` covers its content."""

    record_id: Name
    record_type: Name
    record_hash: Digest
    score: Annotated[float, Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]
    rank: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]


def ranked(candidates: Iterable[tuple[str, str, str, float]]) -> tuple[SelectedRecord, ...]:
    """Rank candidates, given as (id, type, record_hash, score), in the contract's order: score descending,
    then ``record_id`` ascending.

    For backends that return no order of their own. Scores are rounded as json-v1 rounds them before they are
    compared, so that the last bits of an approximate index do not decide.
    """
    rounded = [(name, kind, digest, round(score, FLOAT_DECIMALS)) for name, kind, digest, score in candidates]
    rounded.sort(key=lambda each: (-each[3], each[0], each[1], each[2]))
    return tuple(
        SelectedRecord(record_id=name, record_type=kind, record_hash=digest, score=score, rank=rank)
        for rank, (name, kind, digest, score) in enumerate(rounded, 1)
    )


class RetrievalBudget(Value, frozen=True, kw_only=True):
    """The most that a retrieval may return."""

    tokens: Count
    max_items: Count


class Retrieval(Value, frozen=True, kw_only=True):
    """One read of memory: the query, the policy, what bounded it, and the records returned, in order.

    ``store_id``, ``branch_id`` and ``package_hash`` are for audit and never compared: two stores may be
    seeded alike, and scores need not match. ``erased_since`` is set if content that the snapshot showed had
    been erased before this read.
    """

    retrieval_event_id: Name
    run_id: Name
    event_id: Name
    policy_id: Name
    policy_version: Name
    query_normalization_version: Name
    query_fingerprint: Digest
    retrieval_mode: Name
    namespace: Name
    scopes: tuple[Name, ...]
    filters: dict[str, Any]
    budget: RetrievalBudget
    candidate_count: Count
    selected_records: tuple[SelectedRecord, ...]
    package_hash: Digest | None
    store_id: Name | None
    branch_id: Name | None
    erased_since: ErasedSince | None


class Output(Value, frozen=True, kw_only=True):
    """The run's output, described by its structure."""

    output_type: Name
    output_shape: Shape
    output_shape_hash: Digest
    normalization_version: Normalization


class Gap(Value, frozen=True, kw_only=True):
    """Something that happened and could not be recorded. No claim is made from a trace with gaps."""

    code: Name
    event_index: Count | None
    problem: str


class Truncation(Value, frozen=True, kw_only=True):
    """What was dropped because the trace reached its size limit."""

    limit_bytes: Count
    dropped_events: Count
    dropped_tool_calls: Count
    dropped_retrievals: Count


class Metadata(Value, frozen=True, kw_only=True):
    """When the trace was recorded, and what is missing from it. Nothing here is compared."""

    started_at: Instant
    finished_at: Instant
    complete: bool
    gap_count: Count
    gaps: Annotated[tuple[Gap, ...], Meta(max_length=MAX_TRACE_GAPS)]
    truncated: bool
    truncation: Truncation | None


class Trace(Value, frozen=True, kw_only=True):
    """A recorded run."""

    determinism_trace_schema_version: Literal["memory.determinism_trace.v1"]
    retrieval_trace_schema_version: Literal["memory.retrieval_trace.v1"]
    normalization_version: Normalization
    run_id: Name
    workflow_id: Name
    memory_snapshot_id: Count
    visibility_mode: VisibilityMode
    scope: Name
    model_config_id: Name | None
    policy_set_id: Name
    model_config: ModelConfig | None
    tool_profiles: tuple[ToolProfile, ...]
    events: tuple[Event, ...]
    retrievals: tuple[Retrieval, ...]
    output: Output | None
    metadata: Metadata
    artifact_hash: Digest

    @classmethod
    def read(cls, text: bytes | str) -> Self:
        """Parse and verify an artifact.

        Raises ``TraceError``: ``invalid_trace``, ``trace_version`` or ``damaged_trace``.
        """
        try:
            plain = parse(text, limit_bytes=MAX_TRACE_BYTES)
        except NotCanonical as error:
            raise TraceError("invalid_trace", reason="unreadable", problem=str(error)) from error
        return cls.from_document(plain)

    @classmethod
    def from_document(cls, plain: object) -> Self:
        """Build the trace from a parsed artifact; see ``read``."""
        if not isinstance(plain, dict):
            raise TraceError("invalid_trace", reason="unreadable", problem="it is not a JSON object")
        for field, expected in VERSIONS.items():
            found = plain.get(field, expected)
            if found != expected:
                raise TraceError("trace_version", field=field, found=f"{found!r:.80}", expected=expected)
        try:
            # json-v1 writes 1.0 as 1, so a float with an integer value is accepted where the schema has an
            # integer.
            normal = orjson.loads(canonical_bytes(plain, limit_bytes=MAX_TRACE_BYTES))
            trace = converted(normal, cls)
        except (msgspec.ValidationError, InvalidValue, NotCanonical) as error:
            missing = str(error).startswith("Object missing required field")
            reason = "missing_field" if missing else "invalid_field"
            raise TraceError("invalid_trace", reason=reason, problem=str(error)) from error
        found = artifact_hash(normal)
        if found != trace.artifact_hash:
            raise TraceError("damaged_trace", run_id=trace.run_id, found=found, expected=trace.artifact_hash)
        return trace

    def as_bytes(self) -> bytes:
        """Return the json-v1 text of the artifact, which is the content of its file."""
        return canonical_bytes(self.as_json(), limit_bytes=MAX_TRACE_BYTES)


def artifact_hash(document: dict[str, Any]) -> str:
    """Return the SHA-256 of an artifact's json-v1 text without its ``artifact_hash``."""
    body = {name: value for name, value in document.items() if name != "artifact_hash"}
    return fingerprint_of_bytes(canonical_bytes(body, limit_bytes=MAX_TRACE_BYTES))
