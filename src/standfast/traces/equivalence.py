"""Equivalence: whether two recorded runs did the same, and if not, every difference in the order in which it happened.

``compare`` is pure and total. It decides by the contract's rules and nothing else: structure and behaviour count, ids that
only link and scores do not. A side that falls short of the trace contract makes the claim rejected, whatever else is equal.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

from standfast.canon import canonical_bytes
from standfast.errors import TraceError
from standfast.limits import MAX_TRACE_BYTES
from standfast.traces.artifact import UNDECIDED, Event, Retrieval, ToolCall, Trace
from standfast.traces.contract import Shortfall, shortfall_of_error, shortfalls
from standfast.vocabulary import Value


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
    SELECTED_RECORDS = "selected_records"
    RANK_ORDER = "rank_order"
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
    """What came of comparing two traces."""

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    REJECTED = "rejected"


class Difference(Value, frozen=True, kw_only=True):
    """One difference: what, at which event (none for the envelope and the output), where exactly, and both values."""

    code: ReasonCode
    event_index: int | None
    place: str
    left: Any
    right: Any


class Comparison(Value, frozen=True, kw_only=True):
    """The answer. Differences stand in the order in which they happened; the first is where two runs parted."""

    verdict: ClaimVerdict
    left_run_id: str | None
    right_run_id: str | None
    left_shortfalls: tuple[Shortfall, ...]
    right_shortfalls: tuple[Shortfall, ...]
    differences: tuple[Difference, ...]

    @property
    def is_equivalent(self) -> bool:
        """Whether the two runs are proved to have done the same."""
        return self.verdict is ClaimVerdict.EQUIVALENT

    @property
    def first(self) -> Difference | None:
        """The difference that came first."""
        return self.differences[0] if self.differences else None


def compare(left: Trace, right: Trace) -> Comparison:
    """Prove two runs equivalent, or list every difference."""
    return _judged(left, right, shortfalls(left), shortfalls(right))


def compare_artifacts(left: bytes | str, right: bytes | str) -> Comparison:
    """Compare two artifacts as they lie in files: one that is no trace makes the claim rejected, not an error."""
    left_trace, left_shortfalls = _examined(left)
    right_trace, right_shortfalls = _examined(right)
    return _judged(left_trace, right_trace, left_shortfalls, right_shortfalls)


def _examined(text: bytes | str) -> tuple[Trace | None, tuple[Shortfall, ...]]:
    try:
        trace = Trace.read(text)
    except TraceError as error:
        return None, (shortfall_of_error(error),)
    return trace, shortfalls(trace)


def _judged(
    left: Trace | None,
    right: Trace | None,
    left_shortfalls: tuple[Shortfall, ...],
    right_shortfalls: tuple[Shortfall, ...],
) -> Comparison:
    differences = tuple(_differences(left, right)) if left is not None and right is not None else ()
    if left_shortfalls or right_shortfalls:
        verdict = ClaimVerdict.REJECTED
    else:
        verdict = ClaimVerdict.DIFFERENT if differences else ClaimVerdict.EQUIVALENT
    return Comparison(
        verdict=verdict,
        left_run_id=None if left is None else left.run_id,
        right_run_id=None if right is None else right.run_id,
        left_shortfalls=left_shortfalls,
        right_shortfalls=right_shortfalls,
        differences=differences,
    )


_Field = tuple[ReasonCode, str]
_ENVELOPE: Final[tuple[_Field, ...]] = (
    (ReasonCode.WORKFLOW_ID, "workflow_id"),
    (ReasonCode.MODEL_CONFIG_ID, "model_config_id"),
    (ReasonCode.POLICY_SET_ID, "policy_set_id"),
    (ReasonCode.MEMORY_SNAPSHOT_ID, "memory_snapshot_id"),
)
_EVENT: Final[tuple[_Field, ...]] = (
    (ReasonCode.ROLE, "role"),
    (ReasonCode.INTERCEPTOR, "interceptor"),
    (ReasonCode.DECISION_TYPE, "decision_type"),
)
_RETRIEVAL: Final[tuple[_Field, ...]] = (
    (ReasonCode.RETRIEVAL_POLICY_ID, "policy_id"),
    (ReasonCode.RETRIEVAL_POLICY_VERSION, "policy_version"),
    (ReasonCode.QUERY_NORMALIZATION_VERSION, "query_normalization_version"),
    (ReasonCode.QUERY_FINGERPRINT, "query_fingerprint"),
    (ReasonCode.RETRIEVAL_MODE, "retrieval_mode"),
)
_CALL: Final[tuple[_Field, ...]] = (
    (ReasonCode.TOOL_NAME, "tool_name"),
    (ReasonCode.TOOL_PROFILE_VERSION, "tool_profile_version"),
    (ReasonCode.NORMALIZED_ARGS, "normalized_args"),
    (ReasonCode.TOOL_OUTCOME, "outcome"),
    (ReasonCode.TOOL_RESULT, "tool_result_fingerprint"),
    (ReasonCode.SIDE_EFFECT, "side_effect_fingerprint"),
)
_OUTPUT: Final[tuple[_Field, ...]] = (
    (ReasonCode.OUTPUT_TYPE, "output_type"),
    (ReasonCode.OUTPUT_SHAPE, "output_shape_hash"),
)


def _differences(left: Trace, right: Trace) -> Iterator[Difference]:
    yield from _fields(_ENVELOPE, left, right, None, "")
    left_reads = {read.retrieval_event_id: read for read in left.retrievals}
    right_reads = {read.retrieval_event_id: read for read in right.retrievals}
    for index, (one, other) in enumerate(zip(left.events, right.events, strict=False)):
        place = f"events[{index}]"
        # An event that broke off before its decision parted from the other run by what it did, which is told first.
        broke_off = UNDECIDED in (one.decision_type, other.decision_type)
        yield from _fields(_EVENT[:2] if broke_off else _EVENT, one, other, index, f"{place}.")
        yield from _reads(_linked(one, left_reads), _linked(other, right_reads), index, place)
        yield from _calls(one.tool_calls, other.tool_calls, index, place)
        # Ids count, not how often or in which order they were triggered within the event.
        yield from _unequal(
            ReasonCode.GUARDRAILS,
            sorted(set(one.guardrails_triggered)),
            sorted(set(other.guardrails_triggered)),
            index,
            f"{place}.guardrails_triggered",
        )
        if broke_off:
            yield from _fields(_EVENT[2:], one, other, index, f"{place}.")
    # Where one run goes on and the other has ended, the first further event is where they parted.
    counts = len(left.events), len(right.events)
    yield from _unequal(ReasonCode.EVENT_COUNT, *counts, min(counts), "events")
    if left.output is not None and right.output is not None:
        yield from _fields(_OUTPUT, left.output, right.output, None, "output.")


def _fields(
    fields: Sequence[_Field], left: object, right: object, index: int | None, place: str
) -> Iterator[Difference]:
    for code, field in fields:
        yield from _unequal(code, getattr(left, field), getattr(right, field), index, f"{place}{field}")


def _unequal(code: ReasonCode, left: Any, right: Any, index: int | None, place: str) -> Iterator[Difference]:
    if not _same(left, right):
        yield Difference(code=code, event_index=index, place=place, left=left, right=right)


def _same(left: Any, right: Any) -> bool:
    """Whether two values are one in json-v1. Python would say that 1 is True."""
    if type(left) is type(right) is str:
        return bool(left == right)
    return canonical_bytes(left, limit_bytes=MAX_TRACE_BYTES) == canonical_bytes(
        right, limit_bytes=MAX_TRACE_BYTES
    )


def _linked(event: Event, reads: dict[str, Retrieval]) -> list[Retrieval]:
    return [reads[link] for link in event.retrieval_event_ids if link in reads]


def _reads(left: list[Retrieval], right: list[Retrieval], index: int, place: str) -> Iterator[Difference]:
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        where = f"{place}.retrievals[{number}]"
        yield from _fields(_RETRIEVAL, one, other, index, f"{where}.")
        ids = [record.record_id for record in one.selected_records]
        other_ids = [record.record_id for record in other.selected_records]
        # The same records in another order are a matter of ranking; others are a matter of what memory held.
        reordered = sorted(ids) == sorted(other_ids)
        code = ReasonCode.RANK_ORDER if reordered else ReasonCode.SELECTED_RECORDS
        yield from _unequal(code, ids, other_ids, index, f"{where}.selected_records")
    yield from _unequal(ReasonCode.RETRIEVAL_COUNT, len(left), len(right), index, f"{place}.retrievals")


def _calls(
    left: Sequence[ToolCall], right: Sequence[ToolCall], index: int, place: str
) -> Iterator[Difference]:
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        yield from _fields(_CALL, one, other, index, f"{place}.tool_calls[{number}].")
    yield from _unequal(ReasonCode.TOOL_CALL_COUNT, len(left), len(right), index, f"{place}.tool_calls")
