"""From what was recorded to the artifact: order, linkage, what is missing, and the cap on its size."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import orjson

from standfast.canon import canonical_bytes, fingerprint_of_bytes
from standfast.errors import TooLarge
from standfast.limits import MAX_TRACE_BYTES, MAX_TRACE_GAPS
from standfast.traces.artifact import UNDECIDED, VERSIONS, Trace
from standfast.traces.drafts import EventDraft, Lane, fit_words
from standfast.traces.identity import ModelConfig, ToolProfile, model_config_id
from standfast.vocabulary import RunIdentity

_HASH_BYTES: Final = len(',"artifact_hash":""') + 64


@dataclass(slots=True, kw_only=True)
class Recording:
    """All that a recorder has gathered. What comes after ``is_full`` is only counted."""

    run: RunIdentity
    model: ModelConfig | None
    root: Lane
    started_at: str
    limit_bytes: int = MAX_TRACE_BYTES
    profiles: dict[str, ToolProfile] = field(default_factory=dict)
    output: dict[str, Any] | None = None
    gaps: list[tuple[str, EventDraft | None, str]] = field(default_factory=list)
    gap_count: int = 0
    is_full: bool = False
    dropped: dict[str, int] = field(
        default_factory=lambda: {"dropped_events": 0, "dropped_tool_calls": 0, "dropped_retrievals": 0}
    )

    def gap(self, code: str, event: EventDraft | None, problem: str) -> None:
        """Note that something could not be recorded. Only so many are told, but all are counted."""
        self.gap_count += 1
        if len(self.gaps) < MAX_TRACE_GAPS:
            self.gaps.append((code, event, fit_words(problem)))

    def identity(self) -> str | None:
        """The run's ``model_config_id``: derived from the model and the tools, or as the run was told."""
        if self.model is None:
            return self.run.model_config_id
        derived = model_config_id(self.model, self.profiles.values())
        if self.run.model_config_id not in (None, derived):
            problem = (
                f"the run was opened with {self.run.model_config_id}, but model and tools give {derived}"
            )
            self.gap("model_config_mismatch", None, problem)
        return derived


def assembled(recording: Recording, *, finished_at: str) -> Trace:
    """The artifact of a recording, checked against its schema; truncated, and saying so, if it would be too large."""
    identity = recording.identity()
    if recording.output is None:
        recording.gap("no_output", None, "the run told no output")
    drafts = list(recording.root.in_order())
    place = {id(draft): index for index, draft in enumerate(drafts)}
    events, retrievals = _told(recording, drafts)
    run = recording.run
    # What users built is put into its normal form here; all else was when it was recorded.
    model = None if recording.model is None else _normal(recording.model.as_json())
    profiles = _normal([profile.as_json() for _, profile in sorted(recording.profiles.items())])
    while True:
        body = {
            **VERSIONS,
            "run_id": run.run_id,
            "workflow_id": run.workflow_id,
            "memory_snapshot_id": run.memory_snapshot_id,
            "visibility_mode": run.visibility_mode.value,
            "model_config_id": identity,
            "policy_set_id": run.policy_set_id,
            "model_config": model,
            "tool_profiles": profiles,
            "events": events,
            "retrievals": retrievals,
            "output": recording.output,
            "metadata": _metadata(recording, place, finished_at),
        }
        try:
            text = canonical_bytes(body, limit_bytes=recording.limit_bytes - _HASH_BYTES)
        except TooLarge:
            if not events:
                raise
            _drop_last(recording, events, retrievals)
        else:
            return msgspec.convert(body | {"artifact_hash": fingerprint_of_bytes(text)}, Trace)


def _normal(value: object) -> Any:
    return orjson.loads(canonical_bytes(value, limit_bytes=MAX_TRACE_BYTES))


def _told(
    recording: Recording, drafts: list[EventDraft]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events and retrievals as the artifact tells them; ids are made of places, so that they are the same each time."""
    events: list[dict[str, Any]] = []
    retrievals: list[dict[str, Any]] = []
    for index, draft in enumerate(drafts):
        event_id = f"event-{index}"
        if not draft.closed:
            recording.gap("open_event", draft, "the run ended inside the event")
        if draft.decision_type is None:
            recording.gap("no_decision", draft, "the event never told what was decided")
        if any(call.told is None for call in draft.calls):
            recording.gap("unfinished_call", draft, "a tool call did not come back")
        links = [f"retrieval-{len(retrievals) + number}" for number in range(len(draft.retrievals))]
        retrievals += [
            {**told, "retrieval_event_id": link, "run_id": recording.run.run_id, "event_id": event_id}
            for link, told in zip(links, draft.retrievals, strict=True)
        ]
        events.append(
            {
                "event_id": event_id,
                "index": index,
                "role": draft.role,
                "interceptor": draft.interceptor,
                "decision_type": draft.decision_type or UNDECIDED,
                "tool_calls": [call.told for call in draft.calls if call.told is not None],
                "guardrails_triggered": sorted(draft.guardrails),
                "retrieval_event_ids": links,
            }
        )
    return events, retrievals


def _metadata(recording: Recording, place: dict[int, int], finished_at: str) -> dict[str, Any]:
    truncation = {"limit_bytes": recording.limit_bytes, **recording.dropped} if recording.is_full else None
    return {
        "started_at": recording.started_at,
        "finished_at": finished_at,
        "complete": recording.gap_count == 0 and not recording.is_full,
        "gap_count": recording.gap_count,
        "gaps": [
            {"code": code, "event_index": place.get(id(event)), "problem": problem}
            for code, event, problem in recording.gaps
        ],
        "truncated": recording.is_full,
        "truncation": truncation,
    }


def _drop_last(recording: Recording, events: list[dict[str, Any]], retrievals: list[dict[str, Any]]) -> None:
    """Take an eighth of the events off the end: few rounds, and little is lost."""
    recording.is_full = True
    kept = len(events) - max(1, len(events) // 8)
    gone = events[kept:]
    lost = sum(len(event["retrieval_event_ids"]) for event in gone)
    del events[kept:]
    del retrievals[len(retrievals) - lost :]
    recording.dropped["dropped_events"] += len(gone)
    recording.dropped["dropped_tool_calls"] += sum(len(event["tool_calls"]) for event in gone)
    recording.dropped["dropped_retrievals"] += lost
