"""A trace in the making: events in lanes, with their calls and retrievals, and how they become the artifact.

The order of events comes from the program, not from the timing of threads. A lane is a sequence of events and
of further lanes. Code that starts parallel work creates the lanes in program order and hands one to each
worker. Read depth first, the lanes give the same order in every run.
"""

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import orjson

from standfast.errors import InvalidValue, TooLarge
from standfast.limits import (
    MAX_DEPTH_LEVELS,
    MAX_NAME_CHARS,
    MAX_TRACE_BYTES,
    MAX_TRACE_GAPS,
    MAX_VALUE_BYTES,
)
from standfast.records.canon import (
    NORMALIZATION_VERSION,
    CanonicalPart,
    canonical_bytes,
    fingerprint,
    fingerprint_of_bytes,
    normal_string,
)
from standfast.records.vocabulary import RunIdentity
from standfast.traces.artifact import (
    UNDECIDED,
    VERSIONS,
    ModelConfig,
    ToolProfile,
    model_config_id,
    selected,
)

RUN_FAILED: Final = "run_failed"
"""The code of the gap of a run that raised, or whose commit was refused."""
MAX_SHOWN_CHARS: Final = 500
Redact = Callable[[Any], Any]
"""Returns a JSON value with its secrets replaced."""
_CALL_LEVELS: Final = MAX_DEPTH_LEVELS - 5
"""An artifact holds arguments and results five levels down."""
_HASH_BYTES: Final = len(',"artifact_hash":""') + 64


class CallDraft:
    """A tool call that has begun. ``entry`` is its entry in the artifact once it has ended.

    The arguments are copied in canonical form before the tool runs, because the tool may change them. Journal
    and artifact take the entry over as it is printed here.
    """

    __slots__ = ("args", "entry", "event", "profile", "result_bytes")

    def __init__(self, event: "EventDraft", profile: ToolProfile, args: object) -> None:
        self.event: EventDraft | None = event
        self.profile = profile
        self.args = canonical_bytes(selected(profile.normalized_args_fields, args), max_levels=_CALL_LEVELS)
        self.result_bytes = 0
        self.entry: CanonicalPart | None = None

    def returned(self, result: object, side_effects: object, *, max_result_bytes: int) -> dict[str, Any]:
        """Build the entry of a call that returned. Results above ``max_result_bytes`` are fingerprinted."""
        profile = self.profile
        canonical = canonical_bytes(result, limit_bytes=MAX_TRACE_BYTES, max_levels=_CALL_LEVELS)
        # Fields are selected from the canonical form, so that the fingerprint can be checked from the result
        # that is kept.
        counted = canonical
        if "*" not in profile.tool_result_fields:
            part = selected(profile.tool_result_fields, orjson.loads(canonical))
            counted = canonical_bytes(part, limit_bytes=MAX_TRACE_BYTES)
        effects = None
        if profile.has_side_effects:
            effects = fingerprint(selected(profile.side_effect_fields, side_effects))
        entry = self.ended("returned", fingerprint_of_bytes(counted), effects)
        if not profile.keeps_result:
            entry["result_omitted"] = "profile"
        elif len(canonical) > min(max_result_bytes, MAX_VALUE_BYTES):
            entry["result_omitted"] = "size"
        else:
            entry["result"] = orjson.Fragment(canonical)
            self.result_bytes = len(canonical)
        return entry

    def raised(self, error: BaseException, redact: Redact | None = None) -> dict[str, Any]:
        """Build the entry of a call that failed. The error's type is compared; its message is not."""
        return self.failed(error_name(error), shown(error, redact))

    def failed(self, name: str, message: str) -> dict[str, Any]:
        """Build the entry of a call that failed with an error of this type."""
        digest = fingerprint({"error": name})
        entry = self.ended("raised", digest, digest if self.profile.has_side_effects else None)
        # The message may quote a result that the profile says must not be kept.
        failure = {"error": name, "message": message if self.profile.keeps_result else ""}
        entry["result"] = orjson.Fragment(canonical_bytes(failure))
        self.result_bytes = MAX_SHOWN_CHARS
        return entry

    def ended(self, outcome: str, result: str, effects: str | None) -> dict[str, Any]:
        """Build the part of the entry that every outcome has. What is not plain in it is printed already."""
        return {
            "tool_name": self.profile.tool_name,
            "tool_profile_version": self.profile.tool_profile_version,
            "normalization_version": NORMALIZATION_VERSION,
            "normalized_args": orjson.Fragment(self.args),
            "outcome": outcome,
            "tool_result_fingerprint": result,
            "side_effect_fingerprint": effects,
            "result_omitted": None,
        }

    def end(self, entry: dict[str, Any]) -> CanonicalPart:
        """End the call with its entry, and return that as it is printed."""
        # Names and digests are in normal form, so that these are canonical bytes.
        self.entry = CanonicalPart(orjson.dumps(entry, option=orjson.OPT_SORT_KEYS))
        self.event = None
        return self.entry


class EventDraft:
    """An event that is being recorded."""

    __slots__ = (
        "_redact",
        "calls",
        "closed",
        "decision_type",
        "guardrails",
        "interceptor",
        "number",
        "retrievals",
        "role",
    )

    def __init__(
        self, *, role: str, interceptor: str, decision_type: str | None, redact: Redact | None = None
    ) -> None:
        self._redact = redact
        self.role = checked_name("role", role)
        self.interceptor = checked_name("interceptor", interceptor)
        self.decision_type = None if decision_type is None else checked_name("decision_type", decision_type)
        self.calls: list[CallDraft] = []
        self.retrievals: list[dict[str, Any]] = []
        self.guardrails: set[str] = set()
        self.closed = False
        self.number = 0
        """Its number in the journal, in the order in which events began."""

    def decide(self, decision_type: str) -> None:
        """Name the decision, if it was not known when the event began."""
        name = checked_name("decision_type", decision_type)
        self.decision_type = name if self._redact is None else self._redact(name)


class Lane:
    """A sequence of events and of the lanes created between them. ``with lane:`` records into it.

    One thread or task at a time may use a lane.
    """

    __slots__ = ("_entered", "items", "lock", "owner")

    def __init__(self, owner: object, lock: threading.RLock) -> None:
        self.owner = owner
        self.lock = lock
        self.items: list[EventDraft | Lane] = []
        self._entered: list[Token[Position | None]] = []

    def branch(self) -> "Lane":
        """Create a lane here. Its events keep this position, however late they are recorded."""
        lane = Lane(self.owner, self.lock)
        with self.lock:
            self.items.append(lane)
        return lane

    def in_order(self) -> Iterator[EventDraft]:
        """Yield all events, depth first. Iterative, because lanes may nest as deep as agents do."""
        waiting: list[EventDraft | Lane] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Lane):
                waiting += reversed(item.items)
            else:
                yield item

    def __enter__(self) -> Self:
        self._entered.append(POSITION.set(Position(self.owner, self, None, POSITION.get())))
        return self

    def __exit__(self, *_: object) -> None:
        POSITION.reset(self._entered.pop())


class Position(NamedTuple):
    """Where a thread or task records: for which recorder, in which lane, and in which event of it, if any."""

    owner: object
    lane: Lane
    event: EventDraft | None
    outer: "Position | None"


# One variable for all recorders, because a context variable is never freed. Each position names its recorder.
POSITION: ContextVar[Position | None] = ContextVar("standfast_trace_position", default=None)


def position_of(owner: object, root: Lane) -> Position:
    """Where this thread or task records for ``owner``: at the root, or in the lane or event it entered."""
    position = POSITION.get()
    while position is not None and position.owner is not owner:
        position = position.outer
    return position or Position(owner, root, None, None)


def checked_name(field: str, name: str) -> str:
    """Return a name in the form that an artifact holds."""
    if type(name) is str and name.isascii():
        normal = name
    else:
        normal = normal_string(name) if isinstance(name, str) else ""
    if not 0 < len(normal) <= MAX_NAME_CHARS:
        raise InvalidValue(what="Trace", problem=f"{field} must be 1 to {MAX_NAME_CHARS} characters")
    return normal


def error_name(error: BaseException) -> str:
    """The type of an error, with its module unless that is Python's own."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def shown(error: BaseException, redact: Redact | None = None) -> str:
    """Return an error's message, without secrets and shortened, or the name of its type if it has no message
    that can be read.
    """
    try:
        return shortened(str(error) if redact is None else redact(str(error)))
    except Exception:  # noqa: BLE001  # Someone else's ``__str__`` may fail, and that must not stop a run.
        return type(error).__qualname__


def shortened(text: str) -> str:
    """Return a text from anywhere in a form and length that an artifact can hold."""
    return normal_string(text[:MAX_SHOWN_CHARS].encode(errors="replace").decode())


@dataclass(slots=True, kw_only=True)
class Recording:
    """Everything that a recorder has collected. After ``is_full`` further entries are only counted."""

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
        """Note that something could not be recorded. All gaps are counted; only the first ones are listed."""
        self.gap_count += 1
        if len(self.gaps) < MAX_TRACE_GAPS:
            self.gaps.append((code, event, shortened(problem)))

    def finish(self, *, finished_at: str) -> bytes:
        """Build the text of the artifact.

        If it would be too large, the last events are dropped and the artifact says so.
        """
        config_id = self._model_config_id()
        if self.output is None:
            self.gap("no_output", None, "the run recorded no output")
        drafts = list(self.root.in_order())
        index_of = {id(draft): index for index, draft in enumerate(drafts)}
        events, retrievals = self._entries(drafts)
        # What users built is normalised here; everything else was when it was recorded.
        model = None if self.model is None else _normal(self.model.as_json())
        profiles = _normal([profile.as_json() for _, profile in sorted(self.profiles.items())])
        while True:
            body = {
                **VERSIONS,
                "run_id": self.run.run_id,
                "workflow_id": self.run.workflow_id,
                "memory_snapshot_id": self.run.memory_snapshot_id,
                "visibility_mode": self.run.visibility_mode.value,
                "scope": self.run.scope,
                "model_config_id": config_id,
                "policy_set_id": self.run.policy_set_id,
                "model_config": model,
                "tool_profiles": profiles,
                "events": events,
                "retrievals": retrievals,
                "output": self.output,
                "metadata": self._metadata(index_of, finished_at),
            }
            try:
                text = canonical_bytes(body, limit_bytes=self.limit_bytes - _HASH_BYTES)
            except TooLarge:
                if not events:
                    raise
                self._drop_last(events, retrievals)
            else:
                digest = fingerprint_of_bytes(text)
                # In canonical order the hash comes first.
                return b'{"artifact_hash":"%b",%b' % (digest.encode(), text[1:])

    def _model_config_id(self) -> str | None:
        """Derive the id from the model and the tools; without a model, take the opened run's."""
        if self.model is None:
            return self.run.model_config_id
        derived = model_config_id(self.model, self.profiles.values())
        if self.run.model_config_id not in (None, derived):
            problem = (
                f"the run was opened with {self.run.model_config_id}, but model and tools give {derived}"
            )
            self.gap("model_config_mismatch", None, problem)
        return derived

    def _entries(self, drafts: list[EventDraft]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Build the artifact's events and retrievals. Ids are positions, so equal runs have equal ids."""
        events: list[dict[str, Any]] = []
        retrievals: list[dict[str, Any]] = []
        for index, draft in enumerate(drafts):
            event_id = f"event-{index}"
            if not draft.closed:
                self.gap("open_event", draft, "the run ended inside the event")
            if draft.decision_type is None:
                self.gap("no_decision", draft, "the event has no decision_type")
            if any(call.entry is None for call in draft.calls):
                self.gap("unfinished_call", draft, "a tool call did not return")
            links = [f"retrieval-{len(retrievals) + number}" for number in range(len(draft.retrievals))]
            retrievals += [
                {**entry, "retrieval_event_id": link, "run_id": self.run.run_id, "event_id": event_id}
                for link, entry in zip(links, draft.retrievals, strict=True)
            ]
            events.append(
                {
                    "event_id": event_id,
                    "index": index,
                    "role": draft.role,
                    "interceptor": draft.interceptor,
                    "decision_type": draft.decision_type or UNDECIDED,
                    "tool_calls": [call.entry for call in draft.calls if call.entry is not None],
                    "guardrails_triggered": sorted(draft.guardrails),
                    "retrieval_event_ids": links,
                }
            )
        return events, retrievals

    def _metadata(self, index_of: dict[int, int], finished_at: str) -> dict[str, Any]:
        return {
            "started_at": self.started_at,
            "finished_at": finished_at,
            "complete": self.gap_count == 0 and not self.is_full,
            "gap_count": self.gap_count,
            "gaps": [
                {"code": code, "event_index": index_of.get(id(event)), "problem": problem}
                for code, event, problem in self.gaps
            ],
            "truncated": self.is_full,
            "truncation": {"limit_bytes": self.limit_bytes, **self.dropped} if self.is_full else None,
        }

    def _drop_last(self, events: list[dict[str, Any]], retrievals: list[dict[str, Any]]) -> None:
        """Drop the last eighth of the events: few rounds are needed, and little is lost."""
        self.is_full = True
        first = len(events) - max(1, len(events) // 8)
        dropped = events[first:]
        lost = sum(len(event["retrieval_event_ids"]) for event in dropped)
        del events[first:]
        del retrievals[len(retrievals) - lost :]
        self.dropped["dropped_events"] += len(dropped)
        self.dropped["dropped_tool_calls"] += sum(len(event["tool_calls"]) for event in dropped)
        self.dropped["dropped_retrievals"] += lost


def _normal(value: object) -> Any:
    return orjson.loads(canonical_bytes(value, limit_bytes=MAX_TRACE_BYTES))
