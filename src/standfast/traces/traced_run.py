"""A run as its agent sees it: it decides, calls tools, recalls, remembers and puts out, and all of it is recorded.

``Memory``'s runs are such runs, and a replay hands its agent one that answers from the record.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from standfast.errors import NotReplayable
from standfast.traces.adapters.functions import tool
from standfast.traces.drafts import EventDraft, Lane
from standfast.traces.identity import ToolProfile
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import Shape
from standfast.vocabulary import Remembered

# What a run remembers counts by what was said and what was made of it, not by ids that no two runs share.
REMEMBER: Final = ToolProfile(
    tool_name="memory.remember",
    tool_profile_version="remember-v1",
    tool_result_fields=("bands", "reasons", "verdict"),
)
FORGET: Final = ToolProfile(tool_name="memory.forget", tool_profile_version="forget-v1")

_P = ParamSpec("_P")
_R = TypeVar("_R")


class MemoryAt(Protocol):
    """Memory as of one snapshot. ``recall`` gives the same package for the same question, whenever it is asked."""

    def recall(self, query: str, *, tokens: int) -> Any:
        """What memory holds on a question, within so many tokens."""
        ...

    def retrieval_facts(self, package: Any) -> Mapping[str, Any]:
        """How a trace tells of that package: the keyword arguments of ``Recorder.retrieval``."""
        ...


class TracedRun:
    """What an agent is handed to work with: it decides, calls tools, recalls and puts out, and all of it is recorded."""

    def __init__(self, recorder: Recorder, *, memory: MemoryAt | None = None) -> None:
        self.recorder = recorder
        self._memory = memory

    def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AbstractContextManager[EventDraft]:
        """Record an event for as long as the block lasts."""
        return self.recorder.event(role=role, interceptor=interceptor, decision_type=decision_type)

    def lane(self) -> Lane:
        """A place for the events of parallel work."""
        return self.recorder.lane()

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Make a function a tool of this run: each call is recorded, and in a replay answered from the record."""
        return tool(self.recorder, profile=profile, effects=effects)

    def recall(self, query: str, *, tokens: int, **options: Any) -> Any:
        """Read memory as of the run's snapshot, and record what came back; ``options`` are the memory's own."""
        if self._memory is None:
            raise self._without_memory()
        package = self._memory.recall(query, tokens=tokens, **options)
        self.recorder.retrieval(**self._memory.retrieval_facts(package))
        return package

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        subject: str | None = None,
        source: dict[str, Any] | None = None,
        refs: Sequence[dict[str, Any]] = (),
        propose: bool = False,
        role: str = "agent",
        hold: str | None = None,
    ) -> Remembered:
        """Have something judged, and buffered for the bands that its verdict leads to. The answer says which, and why.

        A subject has one canonical content at a time, with its history; without one, the thing is new. ``propose``
        asks for a human's seal (VAULT), ``hold`` gives a reason to wait for one (888_HOLD). Floors that it fails are
        recorded as guardrails that were triggered.
        """
        self._before_write("remember")
        given = {
            "hold": hold,
            "propose": propose,
            "refs": list(refs),
            "role": str(role),
            "source": source,
            "subject": subject,
            "tags": sorted(set(tags)),
        }
        told = {name: value for name, value in given.items() if value}
        plain = self.recorder.perform(
            REMEMBER, {"text": text, **told}, lambda: self._remember(text, told).as_json()
        )
        answer = Remembered.from_json(plain)
        for reason in answer.reasons:
            self.recorder.guardrail(reason.rpartition("[")[2].rstrip("]"))
        return answer

    def forget(self, subject: str, *, reason: str) -> None:
        """End what is known of a subject (or memory id) and erase what it said; the ledger keeps that it was, and why.

        What is sealed stays: only humans end law. What was refused stays in VOID until retention deletes it, and what waits
        for a human until it is rejected.
        """
        self._before_write("forget")
        args = {"subject": subject, "reason": reason}
        self.recorder.perform(FORGET, args, lambda: self._forget(subject, reason))

    def _before_write(self, operation: str) -> None:
        """Refuse what may not be done now; a replay answers whatever was answered then."""

    def _remember(self, text: str, told: dict[str, Any]) -> Remembered:  # noqa: ARG002  # For runs that have a memory.
        raise self._without_memory()

    def _forget(self, subject: str, reason: str) -> None:  # noqa: ARG002  # As above.
        raise self._without_memory()

    def _without_memory(self) -> NotReplayable:
        snapshot = self.recorder.run.memory_snapshot_id
        return NotReplayable(
            run_id=self.recorder.run.run_id, problem=f"it uses memory; hand in snapshot {snapshot} of it"
        )

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered."""
        self.recorder.guardrail(guardrail_id)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record what the run put out, by its shape."""
        self.recorder.output(shape)
