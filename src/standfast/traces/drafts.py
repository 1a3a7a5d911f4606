"""A trace in the making: events in lanes, so that their order comes from the program and never from the timing of threads.

A lane is a sequence of events with places for further lanes. Whoever starts parallel work makes the lanes, in the order of
its program, and hands one to each worker; read out depth first, they give the same order in every run.
"""

import threading
from collections.abc import Iterator
from contextvars import ContextVar, Token
from typing import Any, Final, NamedTuple, Self

import orjson

from standfast.canon import (
    NORMALIZATION_VERSION,
    canonical_bytes,
    fingerprint,
    fingerprint_of_bytes,
    normal_string,
)
from standfast.errors import InvalidValue
from standfast.limits import MAX_NAME_CHARS, MAX_TRACE_BYTES, MAX_VALUE_BYTES
from standfast.traces.identity import ToolProfile, selected

MAX_SHOWN_CHARS: Final = 500


class CallDraft:
    """A call that has begun; ``told`` is its record once it has ended.

    Arguments are taken down before the tool runs, because it may change them; so is everything in its normal form.
    """

    __slots__ = ("args", "args_bytes", "event", "profile", "result_bytes", "told")

    def __init__(self, event: "EventDraft", profile: ToolProfile, args: object) -> None:
        canonical = canonical_bytes(selected(profile.normalized_args_fields, args))
        self.event: EventDraft | None = event
        self.profile = profile
        self.args = orjson.loads(canonical)
        self.args_bytes = len(canonical)
        self.result_bytes = 0
        self.told: dict[str, Any] | None = None

    def returned(self, result: object, side_effects: object, *, result_room_bytes: int) -> dict[str, Any]:
        """The record of a call that came back, and how many bytes of its result are kept."""
        profile = self.profile
        canonical = canonical_bytes(result, limit_bytes=MAX_TRACE_BYTES)
        part = selected(profile.tool_result_fields, result)
        counted = canonical if part is result else canonical_bytes(part, limit_bytes=MAX_TRACE_BYTES)
        digest = fingerprint_of_bytes(counted)
        effects = None
        if profile.has_side_effects:
            effects = fingerprint(selected(profile.side_effect_fields, side_effects))
        told = self.record("returned", digest, effects)
        if not profile.keeps_result:
            told["result_omitted"] = "profile"
        elif len(canonical) > min(result_room_bytes, MAX_VALUE_BYTES):
            told["result_omitted"] = "size"
        else:
            told["result"] = orjson.loads(canonical)
            self.result_bytes = len(canonical)
        return told

    def raised(self, error: BaseException) -> dict[str, Any]:
        """The record of a call that failed: the error's type counts; its words, which hold paths and times, do not."""
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        name = f"{module}{kind.__qualname__}"
        digest = fingerprint({"error": name})
        told = self.record("raised", digest, digest if self.profile.has_side_effects else None)
        # A result that must not be kept may be in the error's words, too.
        told["result"] = {"error": name, "message": shown(error) if self.profile.keeps_result else ""}
        self.result_bytes = MAX_SHOWN_CHARS
        return told

    def record(self, outcome: str, result: str, effects: str | None) -> dict[str, Any]:
        """The record of a call as far as every outcome has it."""
        return {
            "tool_name": self.profile.tool_name,
            "tool_profile_version": self.profile.tool_profile_version,
            "normalization_version": NORMALIZATION_VERSION,
            "normalized_args": self.args,
            "outcome": outcome,
            "tool_result_fingerprint": result,
            "side_effect_fingerprint": effects,
            "result_omitted": None,
        }


class EventDraft:
    """An event that is being recorded."""

    __slots__ = ("calls", "closed", "decision_type", "guardrails", "interceptor", "retrievals", "role")

    def __init__(self, *, role: str, interceptor: str, decision_type: str | None) -> None:
        self.role = checked_name("role", role)
        self.interceptor = checked_name("interceptor", interceptor)
        self.decision_type = None if decision_type is None else checked_name("decision_type", decision_type)
        self.calls: list[CallDraft] = []
        self.retrievals: list[dict[str, Any]] = []
        self.guardrails: set[str] = set()
        self.closed = False

    def decide(self, decision_type: str) -> None:
        """Say what was decided, where it was not known when the event began."""
        self.decision_type = checked_name("decision_type", decision_type)


class Lane:
    """A sequence of events, and of lanes that were made in between. ``with lane:`` records into it from here on.

    A lane is for one thread, or task, at a time.
    """

    __slots__ = ("_entered", "items", "lock", "owner")

    def __init__(self, owner: object, lock: threading.RLock) -> None:
        self.owner = owner
        self.lock = lock
        self.items: list[EventDraft | Lane] = []
        self._entered: list[Token[Place | None]] = []

    def branch(self) -> "Lane":
        """A lane whose events stand here, however late they come."""
        lane = Lane(self.owner, self.lock)
        with self.lock:
            self.items.append(lane)
        return lane

    def in_order(self) -> Iterator[EventDraft]:
        """All events, depth first. Not recursive, because lanes may nest as deep as agents do."""
        waiting: list[EventDraft | Lane] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Lane):
                waiting += reversed(item.items)
            else:
                yield item

    def __enter__(self) -> Self:
        self._entered.append(PLACE.set(Place(self.owner, self, None, PLACE.get())))
        return self

    def __exit__(self, *_: object) -> None:
        PLACE.reset(self._entered.pop())


class Place(NamedTuple):
    """Where a thread, or task, is recording: for whom, in which lane, and in which event of it, if any."""

    owner: object
    lane: Lane
    event: EventDraft | None
    outer: "Place | None"


# One variable for all recorders, because a context variable is never given back; a place names its owner.
PLACE: ContextVar[Place | None] = ContextVar("standfast_trace_place", default=None)


def place_of(owner: object, root: Lane) -> Place:
    """Where this thread is recording for ``owner``; at the root, if it was not told."""
    place = PLACE.get()
    while place is not None and place.owner is not owner:
        place = place.outer
    return place or Place(owner, root, None, None)


def checked_name(field: str, name: str) -> str:
    """The name as it stands in an artifact."""
    normal = normal_string(name) if isinstance(name, str) else ""
    if not 0 < len(normal) <= MAX_NAME_CHARS:
        raise InvalidValue(what="Trace", problem=f"{field} must be 1 to {MAX_NAME_CHARS} characters")
    return normal


def shown(error: BaseException) -> str:
    """An error's words, as far as it can tell them."""
    try:
        return fit_words(str(error))
    except Exception:  # noqa: BLE001  # Someone else's error may fail to tell itself, and that must not stop a run.
        return type(error).__qualname__


def fit_words(words: str) -> str:
    """Words from anywhere, short and fit for an artifact."""
    return normal_string(words[:MAX_SHOWN_CHARS].encode(errors="replace").decode())
