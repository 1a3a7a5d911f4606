"""The artifact: the one JSON file that a recorded run leaves, and the only thing that a claim may be made from.

Its envelope says what ran, its events what was decided, in order; calls and retrievals hang on them. ``Trace.read``
accepts a text only if it keeps to the JSON Schema and its hash fits, and ``as_bytes`` gives its json-v1 text back.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from standfast.canon import canonical_bytes, fingerprint_of_bytes, parse
from standfast.errors import DamagedTrace, ForeignTraceVersion, InvalidTrace, InvalidValue, NotCanonical
from standfast.limits import FLOAT_DECIMALS, MAX_TRACE_BYTES, MAX_TRACE_GAPS, SAFE_INTEGER
from standfast.traces.identity import Count, Digest, ModelConfig, Name, ToolProfile
from standfast.traces.shapes import Shape
from standfast.vocabulary import Value, VisibilityMode

DETERMINISM_SCHEMA: Final = "memory.determinism_trace.v1"
RETRIEVAL_SCHEMA: Final = "memory.retrieval_trace.v1"
UNDECIDED: Final = "undecided"
VERSIONS: Final = {
    "determinism_trace_schema_version": DETERMINISM_SCHEMA,
    "retrieval_trace_schema_version": RETRIEVAL_SCHEMA,
    "normalization_version": "json-v1",
}

Normalization = Literal["json-v1"]
Instant = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
        min_length=27,
        max_length=27,
    ),
]


class ToolCall(Value, frozen=True, kw_only=True):
    """One call of a tool: the fields that its profile counts, and fingerprints of what came back and what it did.

    ``result`` is the whole result, kept for replay and never compared; ``result_omitted`` says why it is not there.
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
    """One decision of the agent. ``index`` orders events; ``event_id`` only links, and never matters to equivalence."""

    event_id: Name
    index: Count
    role: Name
    interceptor: Name
    decision_type: Name
    tool_calls: tuple[ToolCall, ...]
    guardrails_triggered: tuple[Name, ...]
    retrieval_event_ids: tuple[Name, ...]


class SelectedRecord(Value, frozen=True, kw_only=True):
    """A record that a retrieval handed back; rank 1 is the best."""

    record_id: Name
    record_type: Name
    score: Annotated[float, Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]
    rank: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]


def ranked(candidates: Iterable[tuple[str, str, float]]) -> tuple[SelectedRecord, ...]:
    """Candidates of a backend that has no order of its own, given as id, type and score, in the contract's order.

    Score descending, then ``record_id`` ascending. Scores are compared as json-v1 keeps them, so that the last bits of an
    approximate index, which no two machines share, decide nothing.
    """
    rounded = [(name, kind, round(score, FLOAT_DECIMALS)) for name, kind, score in candidates]
    rounded.sort(key=lambda each: (-each[2], each[0], each[1]))
    return tuple(
        SelectedRecord(record_id=name, record_type=kind, score=score, rank=rank)
        for rank, (name, kind, score) in enumerate(rounded, 1)
    )


class Retrieval(Value, frozen=True, kw_only=True):
    """One read of memory: what was asked, under which policy, and what came back in which order."""

    retrieval_event_id: Name
    run_id: Name
    event_id: Name
    policy_id: Name
    policy_version: Name
    query_normalization_version: Name
    query_fingerprint: Digest
    retrieval_mode: Name
    candidate_count: Count
    selected_records: tuple[SelectedRecord, ...]
    filters: dict[str, Any]


class Output(Value, frozen=True, kw_only=True):
    """What the run put out, told by its structure."""

    output_type: Name
    output_shape: Shape
    output_shape_hash: Digest
    normalization_version: Normalization


class Gap(Value, frozen=True, kw_only=True):
    """Something that happened and could not be recorded; a trace with gaps claims nothing."""

    code: Name
    event_index: Count | None
    problem: str


class Truncation(Value, frozen=True, kw_only=True):
    """What a run did beyond the size that a trace may have."""

    limit_bytes: Count
    dropped_events: Count
    dropped_tool_calls: Count
    dropped_retrievals: Count


class Metadata(Value, frozen=True, kw_only=True):
    """When the trace was made, and what is missing from it. Nothing here is compared."""

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
        """The trace that a text holds. Raises ``InvalidTrace``, ``ForeignTraceVersion`` or ``DamagedTrace``."""
        try:
            plain = parse(text, limit_bytes=MAX_TRACE_BYTES)
        except NotCanonical as error:
            raise InvalidTrace(reason="unreadable", problem=str(error)) from error
        return cls.from_document(plain)

    @classmethod
    def from_document(cls, plain: object) -> Self:
        """The trace that a parsed text is; see ``read``."""
        if not isinstance(plain, dict):
            raise InvalidTrace(reason="unreadable", problem="it is no JSON object")
        for field, expected in VERSIONS.items():
            found = plain.get(field, expected)
            if found != expected:
                raise ForeignTraceVersion(field=field, found=f"{found!r:.80}", expected=expected)
        try:
            # In json-v1 1.0 is 1, so that the schema's integers are ours.
            normal = orjson.loads(canonical_bytes(plain, limit_bytes=MAX_TRACE_BYTES))
            trace = msgspec.convert(normal, cls)
        except (msgspec.ValidationError, InvalidValue, NotCanonical) as error:
            missing = str(error).startswith("Object missing required field")
            reason = "missing_field" if missing else "invalid_field"
            raise InvalidTrace(reason=reason, problem=str(error)) from error
        found = artifact_hash(normal)
        if found != trace.artifact_hash:
            raise DamagedTrace(run_id=trace.run_id, found=found, expected=trace.artifact_hash)
        return trace

    def as_bytes(self) -> bytes:
        """The json-v1 text of the artifact, which is what its file holds."""
        return canonical_bytes(self.as_json(), limit_bytes=MAX_TRACE_BYTES)


def artifact_hash(document: dict[str, Any]) -> str:
    """The SHA-256 of an artifact's json-v1 text without its ``artifact_hash``."""
    body = {name: value for name, value in document.items() if name != "artifact_hash"}
    return fingerprint_of_bytes(canonical_bytes(body, limit_bytes=MAX_TRACE_BYTES))
