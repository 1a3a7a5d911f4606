"""The full trace contract: what an artifact must hold before anything is claimed from it.

An artifact that keeps to its schema can still prove nothing: it is truncated, or its run read live memory, or its model was
free to answer anything. Each way to fall short has a code; a claim from such an artifact is rejected, never decided.
"""

from collections.abc import Iterator
from enum import StrEnum

from standfast.errors import (
    DamagedTrace,
    ForeignTraceVersion,
    InvalidTrace,
    StandfastError,
)
from standfast.traces.artifact import Retrieval, Trace
from standfast.traces.identity import model_config_id
from standfast.traces.shapes import output_shape_hash, output_type
from standfast.vocabulary import Value


class ShortfallCode(StrEnum):
    """Why an artifact can't carry a claim."""

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
    SIDE_EFFECT_MISSING = "side_effect_missing"
    RETRIEVAL_LINK = "retrieval_link"
    RANK_ORDER = "rank_order"
    OUTPUT_SHAPE_MISMATCH = "output_shape_mismatch"


class Shortfall(Value, frozen=True, kw_only=True):
    """One way in which an artifact falls short of the contract, and where."""

    code: ShortfallCode
    place: str
    problem: str


def shortfalls(trace: Trace) -> tuple[Shortfall, ...]:
    """Every way in which a trace falls short of the contract; none, if claims may be made from it."""
    checks = (_eligibility, _wholeness, _model, _events, _calls, _retrievals, _output)
    return tuple(
        Shortfall(code=code, place=place, problem=problem)
        for check in checks
        for code, place, problem in check(trace)
    )


def shortfall_of_error(error: StandfastError) -> Shortfall:
    """An artifact that could not even be read, in the same words."""
    code = ShortfallCode.UNREADABLE
    if isinstance(error, InvalidTrace):
        code = ShortfallCode(error.facts["reason"])
    elif isinstance(error, ForeignTraceVersion):
        code = ShortfallCode.SCHEMA_VERSION
    elif isinstance(error, DamagedTrace):
        code = ShortfallCode.DAMAGED
    return Shortfall(code=code, place="$", problem=str(error))


_Found = Iterator[tuple[ShortfallCode, str, str]]


def _eligibility(trace: Trace) -> _Found:
    if not trace.visibility_mode.is_deterministic:
        problem = (
            "the run read and wrote live memory; only off, read_only and buffered_write are reproducible"
        )
        yield ShortfallCode.LIVE_READ_WRITE, "visibility_mode", problem


def _wholeness(trace: Trace) -> _Found:
    metadata = trace.metadata
    if metadata.truncated or metadata.truncation is not None:
        problem = "the run outgrew the size of a trace, and what came after is not told"
        yield ShortfallCode.TRUNCATED, "metadata.truncated", problem
    for number, gap in enumerate(metadata.gaps):
        yield ShortfallCode.INCOMPLETE, f"metadata.gaps[{number}]", f"{gap.code}: {gap.problem}"
    if not metadata.gaps and (metadata.gap_count or not (metadata.complete or metadata.truncated)):
        yield (
            ShortfallCode.INCOMPLETE,
            "metadata.complete",
            "the trace says of itself that something is missing",
        )
    for field in ("model_config_id", "model_config", "output"):
        if getattr(trace, field) is None:
            yield ShortfallCode.MISSING_FIELD, field, f"{field} is null; tell it to the recorder"


def _model(trace: Trace) -> _Found:
    model = trace.model_config
    if model is None:
        return
    if trace.model_config_id != model_config_id(model, trace.tool_profiles):
        problem = "it is not the identity of model_config with tool_profiles"
        yield ShortfallCode.MODEL_CONFIG_MISMATCH, "model_config_id", problem
    if not model.is_reproducible:
        problem = "the model had no seed, and its runtime guarantees nothing; fix a seed, or say deterministic_runtime"
        yield ShortfallCode.STOCHASTIC_MODEL, "model_config", problem


def _events(trace: Trace) -> _Found:
    for number, event in enumerate(trace.events):
        if event.index != number:
            problem = f"event {number} has index {event.index}; indexes are 0, 1, 2 … in order"
            yield ShortfallCode.EVENT_ORDER, f"events[{number}].index", problem
    if len({event.event_id for event in trace.events}) != len(trace.events):
        yield ShortfallCode.EVENT_ORDER, "events", "two events have one event_id"


def _calls(trace: Trace) -> _Found:
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
            elif profile.has_side_effects and call.side_effect_fingerprint is None:
                problem = f"the profile of {call.tool_name} has side effects in scope, but none is told"
                yield ShortfallCode.SIDE_EFFECT_MISSING, place, problem


def _retrievals(trace: Trace) -> _Found:
    linked = {link: event.event_id for event in reversed(trace.events) for link in event.retrieval_event_ids}
    links = sum(len(event.retrieval_event_ids) for event in trace.events)
    ids = {retrieval.retrieval_event_id for retrieval in trace.retrievals}
    if not links == len(linked) == len(trace.retrievals) or ids != set(linked):
        problem = "events and retrievals do not name each other one to one"
        yield ShortfallCode.RETRIEVAL_LINK, "retrievals", problem
    for number, retrieval in enumerate(trace.retrievals):
        place = f"retrievals[{number}]"
        if retrieval.run_id != trace.run_id:
            yield ShortfallCode.RETRIEVAL_LINK, f"{place}.run_id", "it names another run"
        if linked.get(retrieval.retrieval_event_id, retrieval.event_id) != retrieval.event_id:
            yield ShortfallCode.RETRIEVAL_LINK, f"{place}.event_id", "another event names this retrieval"
        if not _is_ranked(retrieval):
            problem = "ranks must be 1, 2, 3 … without a record twice, scores falling"
            yield ShortfallCode.RANK_ORDER, f"{place}.selected_records", problem


def _is_ranked(retrieval: Retrieval) -> bool:
    records = retrieval.selected_records
    scores = [record.score for record in records]
    return (
        [record.rank for record in records] == list(range(1, len(records) + 1))
        and len({record.record_id for record in records}) == len(records)
        and scores == sorted(scores, reverse=True)
    )


def _output(trace: Trace) -> _Found:
    output = trace.output
    if output is None:
        return
    if output.output_type != output_type(output.output_shape):
        problem = f"the shape is a {output_type(output.output_shape)}"
        yield ShortfallCode.OUTPUT_SHAPE_MISMATCH, "output.output_type", problem
    if output.output_shape_hash != output_shape_hash(output.output_shape):
        yield (
            ShortfallCode.OUTPUT_SHAPE_MISMATCH,
            "output.output_shape_hash",
            "it is not the hash of the shape",
        )
