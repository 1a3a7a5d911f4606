"""Equivalence: whether two recorded runs did the same, and if not, every difference in its order.

``shortfalls`` checks the trace contract: what an artifact must hold before a claim is made from it. An
artifact can fit its schema and still prove nothing, for example because it is truncated or its model had no
seed. Each such reason has a code.

``compare`` is pure and total. It compares structure and behaviour, and ignores scores and ids that only link.
If either side falls short of the contract, the claim is rejected, whatever else is equal.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import UNSET

from standfast.errors import StandfastError, TraceError
from standfast.limits import MAX_TRACE_BYTES
from standfast.records.canon import canonical_bytes, fingerprint_of_bytes
from standfast.records.vocabulary import Value
from standfast.traces.artifact import (
    UNDECIDED,
    Event,
    Retrieval,
    ToolCall,
    ToolProfile,
    Trace,
    model_config_id,
    selected,
)
from standfast.traces.shapes import output_shape_hash, output_type


class ShortfallCode(StrEnum):
    """Why no claim can be made from an artifact."""

    UNREADABLE = "unreadable"
    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    SCHEMA_VERSION = "schema_version"
    DAMAGED = "damaged"
    LIVE_READ_WRITE = "live_read_write"
    TRUNCATED = "truncated"
    INCOMPLETE = "incomplete"
    STOCHASTIC_MODEL = "stochastic_model"
    MODEL_CONFIG_MISMATCH = "model_config_mismatch"
    EVENT_ORDER = "event_order"
    TOOL_PROFILE_MISSING = "tool_profile_missing"
    TOOL_RESULT_MISMATCH = "tool_result_mismatch"
    SIDE_EFFECT_MISSING = "side_effect_missing"
    RETRIEVAL_LINK = "retrieval_link"
    RANK_ORDER = "rank_order"
    OUTPUT_SHAPE_MISMATCH = "output_shape_mismatch"


class Shortfall(Value, frozen=True, kw_only=True):
    """One way in which an artifact falls short of the contract, and its place in the artifact."""

    code: ShortfallCode
    place: str
    problem: str


def shortfalls(trace: Trace) -> tuple[Shortfall, ...]:
    """Return every way in which a trace falls short of the contract; empty if claims can be made from it."""
    checks = (
        _check_mode,
        _check_complete,
        _check_model,
        _check_events,
        _check_calls,
        _check_retrievals,
        _check_output,
    )
    return tuple(
        Shortfall(code=code, place=place, problem=problem)
        for check in checks
        for code, place, problem in check(trace)
    )


def shortfall_of_error(error: StandfastError) -> Shortfall:
    """Return the shortfall of an artifact that could not be read."""
    code = ShortfallCode.UNREADABLE
    if error.code == "invalid_trace":
        code = ShortfallCode(error.facts["reason"])
    elif error.code == "trace_version":
        code = ShortfallCode.SCHEMA_VERSION
    elif error.code == "damaged_trace":
        code = ShortfallCode.DAMAGED
    return Shortfall(code=code, place="$", problem=str(error))


_Findings = Iterator[tuple[ShortfallCode, str, str]]


def _check_mode(trace: Trace) -> _Findings:
    if not trace.visibility_mode.is_deterministic:
        problem = (
            "the run read and wrote live memory; only off, read_only and buffered_write are reproducible"
        )
        yield ShortfallCode.LIVE_READ_WRITE, "visibility_mode", problem


def _check_complete(trace: Trace) -> _Findings:
    metadata = trace.metadata
    if metadata.truncated or metadata.truncation is not None:
        problem = "the trace reached its size limit, and what came after is missing"
        yield ShortfallCode.TRUNCATED, "metadata.truncated", problem
    for number, gap in enumerate(metadata.gaps):
        yield ShortfallCode.INCOMPLETE, f"metadata.gaps[{number}]", f"{gap.code}: {gap.problem}"
    if not metadata.gaps and (metadata.gap_count or not (metadata.complete or metadata.truncated)):
        yield (ShortfallCode.INCOMPLETE, "metadata.complete", "the trace says that something is missing")
    for field in ("model_config_id", "model_config", "output"):
        if getattr(trace, field) is None:
            yield ShortfallCode.MISSING_FIELD, field, f"{field} is null; pass it to the recorder"


def _check_model(trace: Trace) -> _Findings:
    model = trace.model_config
    if model is None:
        return
    if trace.model_config_id != model_config_id(model, trace.tool_profiles):
        problem = "it is not the id of model_config with tool_profiles"
        yield ShortfallCode.MODEL_CONFIG_MISMATCH, "model_config_id", problem
    if not model.is_reproducible:
        problem = (
            "the model had no seed; set one, or set deterministic_runtime if its runtime guarantees equal"
            " answers"
        )
        yield ShortfallCode.STOCHASTIC_MODEL, "model_config", problem


def _check_events(trace: Trace) -> _Findings:
    for number, event in enumerate(trace.events):
        if event.index != number:
            problem = f"event {number} has index {event.index}; indexes must be 0, 1, 2 … in order"
            yield ShortfallCode.EVENT_ORDER, f"events[{number}].index", problem
    if len({event.event_id for event in trace.events}) != len(trace.events):
        yield ShortfallCode.EVENT_ORDER, "events", "two events have the same event_id"


def _check_calls(trace: Trace) -> _Findings:
    profiles = {profile.tool_name: profile for profile in trace.tool_profiles}
    if len(profiles) != len(trace.tool_profiles):
        yield ShortfallCode.TOOL_PROFILE_MISSING, "tool_profiles", "a tool has two profiles"
    for number, event in enumerate(trace.events):
        for position, call in enumerate(event.tool_calls):
            place = f"events[{number}].tool_calls[{position}]"
            profile = profiles.get(call.tool_name)
            if profile is None or profile.tool_profile_version != call.tool_profile_version:
                problem = f"there is no profile {call.tool_profile_version} of {call.tool_name}"
                yield ShortfallCode.TOOL_PROFILE_MISSING, place, problem
                continue
            if not _fits_fingerprint(call, profile):
                problem = (
                    f"the result that was kept of {call.tool_name} does not have its tool_result_fingerprint"
                )
                yield ShortfallCode.TOOL_RESULT_MISMATCH, f"{place}.result", problem
            if profile.has_side_effects and call.side_effect_fingerprint is None:
                problem = f"the profile of {call.tool_name} has side effects in scope, but none were recorded"
                yield ShortfallCode.SIDE_EFFECT_MISSING, place, problem


def _fits_fingerprint(call: ToolCall, profile: ToolProfile) -> bool:
    """Whether the result that was kept, if one was, has the fingerprint that is compared."""
    if call.result is UNSET:
        return True
    if call.outcome == "returned":
        compared = selected(profile.tool_result_fields, call.result)
    elif isinstance(call.result, dict):
        compared = {"error": call.result.get("error")}
    else:
        return False
    counted = canonical_bytes(compared, limit_bytes=MAX_TRACE_BYTES)
    return fingerprint_of_bytes(counted) == call.tool_result_fingerprint


def _check_retrievals(trace: Trace) -> _Findings:
    linked = {link: event.event_id for event in reversed(trace.events) for link in event.retrieval_event_ids}
    links = sum(len(event.retrieval_event_ids) for event in trace.events)
    ids = {retrieval.retrieval_event_id for retrieval in trace.retrievals}
    if not links == len(linked) == len(trace.retrievals) or ids != set(linked):
        problem = "events and retrievals do not refer to each other one to one"
        yield ShortfallCode.RETRIEVAL_LINK, "retrievals", problem
    for number, retrieval in enumerate(trace.retrievals):
        place = f"retrievals[{number}]"
        if retrieval.run_id != trace.run_id:
            yield ShortfallCode.RETRIEVAL_LINK, f"{place}.run_id", "it names another run"
        if linked.get(retrieval.retrieval_event_id, retrieval.event_id) != retrieval.event_id:
            yield ShortfallCode.RETRIEVAL_LINK, f"{place}.event_id", "another event names this retrieval"
        if not _is_ranked(retrieval):
            problem = "ranks must be 1, 2, 3 … by descending score and then by id, and no record twice"
            yield ShortfallCode.RANK_ORDER, f"{place}.selected_records", problem


def _is_ranked(retrieval: Retrieval) -> bool:
    records = retrieval.selected_records
    order = [(-record.score, record.record_id) for record in records]
    return (
        [record.rank for record in records] == list(range(1, len(records) + 1))
        and len({record.record_id for record in records}) == len(records)
        and order == sorted(order)
    )


def _check_output(trace: Trace) -> _Findings:
    output = trace.output
    if output is None:
        return
    if output.output_type != output_type(output.output_shape):
        problem = f"the shape is a {output_type(output.output_shape)}"
        yield ShortfallCode.OUTPUT_SHAPE_MISMATCH, "output.output_type", problem
    if output.output_shape_hash != output_shape_hash(output.output_shape):
        problem = "it is not the hash of the shape"
        yield ShortfallCode.OUTPUT_SHAPE_MISMATCH, "output.output_shape_hash", problem


class ReasonCode(StrEnum):
    """What differs between two runs."""

    WORKFLOW_ID = "workflow_id"
    MODEL_CONFIG_ID = "model_config_id"
    POLICY_SET_ID = "policy_set_id"
    MEMORY_SNAPSHOT_ID = "memory_snapshot_id"
    EVENT_COUNT = "event_count"
    ROLE = "role"
    INTERCEPTOR = "interceptor"
    DECISION_TYPE = "decision_type"
    RETRIEVAL_COUNT = "retrieval_count"
    RETRIEVAL_POLICY_ID = "retrieval_policy_id"
    RETRIEVAL_POLICY_VERSION = "retrieval_policy_version"
    QUERY_FINGERPRINT = "query_fingerprint"
    QUERY_NORMALIZATION_VERSION = "query_normalization_version"
    RETRIEVAL_MODE = "retrieval_mode"
    NAMESPACE = "namespace"
    SCOPES = "scopes"
    FILTERS = "filters"
    BUDGET = "budget"
    ERASED_SINCE = "erased_since"
    SELECTED_RECORDS = "selected_records"
    RANK_ORDER = "rank_order"
    RECORD_HASH = "record_hash"
    TOOL_CALL_COUNT = "tool_call_count"
    TOOL_NAME = "tool_name"
    TOOL_PROFILE_VERSION = "tool_profile_version"
    NORMALIZED_ARGS = "normalized_args"
    TOOL_OUTCOME = "tool_outcome"
    TOOL_RESULT = "tool_result_fingerprint"
    SIDE_EFFECT = "side_effect_fingerprint"
    GUARDRAILS = "guardrails_triggered"
    OUTPUT_TYPE = "output_type"
    OUTPUT_SHAPE = "output_shape_hash"


class ClaimVerdict(StrEnum):
    """The result of comparing two traces.

    ``erased`` means that the runs diverged where one of them read memory from which content had been erased
    meanwhile. Erasure wins over replay, so nothing can be claimed, and nobody did anything wrong.
    """

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    ERASED = "erased"
    REJECTED = "rejected"


class Difference(Value, frozen=True, kw_only=True):
    """One difference: its code, event (none for envelope and output), place, and both values."""

    code: ReasonCode
    event_index: int | None
    place: str
    left: Any
    right: Any


class Comparison(Value, frozen=True, kw_only=True):
    """The result. Differences are in the order they happened; at the first the runs diverged."""

    verdict: ClaimVerdict
    left_run_id: str | None
    right_run_id: str | None
    left_shortfalls: tuple[Shortfall, ...]
    right_shortfalls: tuple[Shortfall, ...]
    differences: tuple[Difference, ...]

    @property
    def is_equivalent(self) -> bool:
        """Whether the two runs are proved equivalent."""
        return self.verdict is ClaimVerdict.EQUIVALENT

    @property
    def first(self) -> Difference | None:
        """The first difference, if there is one."""
        return self.differences[0] if self.differences else None


def compare(left: Trace, right: Trace) -> Comparison:
    """Compare two runs: equivalent, different or erased with every difference listed, or rejected."""
    return _compared(left, right, shortfalls(left), shortfalls(right))


def compare_artifacts(left: bytes | str, right: bytes | str) -> Comparison:
    """Compare the contents of two artifact files. One that is no trace makes the claim rejected."""
    left_trace, left_shortfalls = _examined(left)
    right_trace, right_shortfalls = _examined(right)
    return _compared(left_trace, right_trace, left_shortfalls, right_shortfalls)


def _examined(text: bytes | str) -> tuple[Trace | None, tuple[Shortfall, ...]]:
    try:
        trace = Trace.read(text)
    except TraceError as error:
        return None, (shortfall_of_error(error),)
    return trace, shortfalls(trace)


def _compared(
    left: Trace | None,
    right: Trace | None,
    left_shortfalls: tuple[Shortfall, ...],
    right_shortfalls: tuple[Shortfall, ...],
) -> Comparison:
    differences = tuple(_differences(left, right)) if left is not None and right is not None else ()
    if left_shortfalls or right_shortfalls:
        verdict = ClaimVerdict.REJECTED
    elif not differences:
        verdict = ClaimVerdict.EQUIVALENT
    else:
        verdict = verdict_of(differences[0])
    return Comparison(
        verdict=verdict,
        left_run_id=None if left is None else left.run_id,
        right_run_id=None if right is None else right.run_id,
        left_shortfalls=left_shortfalls,
        right_shortfalls=right_shortfalls,
        differences=differences,
    )


def verdict_of(first: Difference) -> ClaimVerdict:
    """Return the verdict on two runs that first diverged like this. The rest may follow from it."""
    return ClaimVerdict.ERASED if first.code is ReasonCode.ERASED_SINCE else ClaimVerdict.DIFFERENT


_Fields = dict[str, ReasonCode]


def _named(*fields: str) -> _Fields:
    """Fields whose reason code has their name."""
    return {field: ReasonCode(field) for field in fields}


# The fields that are compared, in order.
_ENVELOPE: Final = _named("workflow_id", "model_config_id", "policy_set_id", "memory_snapshot_id")
_EVENT: Final = _named("role", "interceptor")
_DECISION: Final = _named("decision_type")
_RETRIEVAL: Final = {
    "policy_id": ReasonCode.RETRIEVAL_POLICY_ID,
    "policy_version": ReasonCode.RETRIEVAL_POLICY_VERSION,
    **_named("query_normalization_version", "query_fingerprint", "retrieval_mode"),
    **_named("namespace", "scopes", "filters"),
}
_CALL: Final = {
    **_named("tool_name", "tool_profile_version", "normalized_args"),
    "outcome": ReasonCode.TOOL_OUTCOME,
    **_named("tool_result_fingerprint", "side_effect_fingerprint"),
}
_OUTPUT: Final = _named("output_type", "output_shape_hash")


def _differences(left: Trace, right: Trace) -> Iterator[Difference]:
    yield from _fields(_ENVELOPE, left, right, None, "")
    left_reads = {read.retrieval_event_id: read for read in left.retrievals}
    right_reads = {read.retrieval_event_id: read for read in right.retrievals}
    for index, (one, other) in enumerate(zip(left.events, right.events, strict=False)):
        place = f"events[{index}]"
        # An event that ended before its decision diverged by what it did, so that is listed first.
        broke_off = UNDECIDED in (one.decision_type, other.decision_type)
        yield from _fields(_EVENT, one, other, index, f"{place}.")
        if not broke_off:
            yield from _fields(_DECISION, one, other, index, f"{place}.")
        yield from _reads(_linked(one, left_reads), _linked(other, right_reads), index, place)
        yield from _calls(one.tool_calls, other.tool_calls, index, place)
        # Only the ids are compared, not how often or in which order they were triggered.
        yield from _unequal(
            ReasonCode.GUARDRAILS,
            sorted(set(one.guardrails_triggered)),
            sorted(set(other.guardrails_triggered)),
            index,
            f"{place}.guardrails_triggered",
        )
        if broke_off:
            yield from _fields(_DECISION, one, other, index, f"{place}.")
    # If one run has more events, the first additional one is where they diverged.
    counts = len(left.events), len(right.events)
    yield from _unequal(ReasonCode.EVENT_COUNT, *counts, min(counts), "events")
    if left.output is not None and right.output is not None:
        yield from _fields(_OUTPUT, left.output, right.output, None, "output.")


def _fields(
    fields: _Fields, left: object, right: object, index: int | None, place: str
) -> Iterator[Difference]:
    for field, code in fields.items():
        yield from _unequal(code, getattr(left, field), getattr(right, field), index, f"{place}{field}")


def _unequal(code: ReasonCode, left: Any, right: Any, index: int | None, place: str) -> Iterator[Difference]:
    if not _same(left, right):
        yield Difference(code=code, event_index=index, place=place, left=left, right=right)


def _same(left: Any, right: Any) -> bool:
    """Whether two values are equal in json-v1. In Python, 1 == True."""
    return canonical_bytes(left, limit_bytes=MAX_TRACE_BYTES) == canonical_bytes(
        right, limit_bytes=MAX_TRACE_BYTES
    )


def _linked(event: Event, reads: dict[str, Retrieval]) -> list[Retrieval]:
    return [reads[link] for link in event.retrieval_event_ids if link in reads]


def _reads(left: list[Retrieval], right: list[Retrieval], index: int, place: str) -> Iterator[Difference]:
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        where = f"{place}.retrievals[{number}]"
        yield from _fields(_RETRIEVAL, one, other, index, f"{where}.")
        budgets = one.budget.as_json(), other.budget.as_json()
        yield from _unequal(ReasonCode.BUDGET, *budgets, index, f"{where}.budget")
        yield from _records(one, other, index, where)
    yield from _unequal(ReasonCode.RETRIEVAL_COUNT, len(left), len(right), index, f"{place}.retrievals")


def _records(left: Retrieval, right: Retrieval, index: int, where: str) -> Iterator[Difference]:
    """Compare the records that two reads returned, by id, content and rank."""
    ids, other_ids = ([record.record_id for record in one.selected_records] for one in (left, right))
    hashes, other_hashes = ([record.record_hash for record in one.selected_records] for one in (left, right))
    if (ids, hashes) == (other_ids, other_hashes):
        return
    erased, other_erased = (
        None if one.erased_since is None else one.erased_since.as_json() for one in (left, right)
    )
    if erased != other_erased:
        place = f"{where}.erased_since"
        yield Difference(
            code=ReasonCode.ERASED_SINCE, event_index=index, place=place, left=erased, right=other_erased
        )
    place = f"{where}.selected_records"
    # The same records in another order point to ranking; other records point to what memory held.
    if ids == other_ids:
        yield from _unequal(ReasonCode.RECORD_HASH, hashes, other_hashes, index, place)
    else:
        reordered = sorted(ids) == sorted(other_ids)
        code = ReasonCode.RANK_ORDER if reordered else ReasonCode.SELECTED_RECORDS
        yield from _unequal(code, ids, other_ids, index, place)


def _calls(
    left: Sequence[ToolCall], right: Sequence[ToolCall], index: int, place: str
) -> Iterator[Difference]:
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        yield from _fields(_CALL, one, other, index, f"{place}.tool_calls[{number}].")
    yield from _unequal(ReasonCode.TOOL_CALL_COUNT, len(left), len(right), index, f"{place}.tool_calls")
