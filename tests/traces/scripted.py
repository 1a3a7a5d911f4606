"""A scripted agent that uses everything a trace can tell: memory, tools, side effects, guardrails, parallel
work, an output.

Run as a program it records itself many times, in threads whose timing is left to chance, and prints each
artifact on a line.
"""

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any

from standfast.clock import ManualClock
from standfast.records.canon import fingerprint
from standfast.records.requests import RecallRequest
from standfast.records.vocabulary import RunIdentity, VisibilityMode
from standfast.traces.artifact import ModelConfig, RetrievalBudget, SelectedRecord, ToolProfile, Trace
from standfast.traces.recorder import Recorder
from standfast.traces.replay import ReplayedRun
from standfast.traces.shapes import TextShape

MODEL = ModelConfig(
    provider_name="scripted", model_name="parrot", model_revision="3", temperature=0.2, max_tokens=400, seed=7
)
SEARCH = ToolProfile(
    tool_name="search",
    tool_profile_version="search-v1",
    normalized_args_fields=("query",),
    tool_result_fields=("hits",),
)
SEND = ToolProfile(
    tool_name="send_mail",
    tool_profile_version="send-v2",
    side_effect_fields=("to", "subject"),
    tool_result_fields=("status",),
)
CITIES = ("Athens", "Bergen", "Cork", "Dijon")


class FixedMemory:
    """Memory as of one snapshot: three records, always in the same order."""

    records: tuple[tuple[str, float], ...] = (("eu-refunds", 0.91), ("eu-postage", 0.5), ("us-refunds", 0.5))

    def answer(self, request: RecallRequest, *, token_counter: Any = None) -> Any:
        """An answer, with what a package would be."""
        assert token_counter is None
        package = {"query": request.query, "tokens": request.tokens, "records": list(self.records)}
        return SimpleNamespace(package=package)

    def retrieval_facts(self, package: Any, request: RecallRequest) -> Mapping[str, Any]:
        """How a trace tells of it."""
        return {
            "policy_id": "memory.read",
            "policy_version": "phase6-v1",
            "query_fingerprint": fingerprint(package["query"]),
            "query_normalization_version": "query-v1",
            "retrieval_mode": "lexical",
            "candidate_count": 12,
            "selected_records": [
                SelectedRecord(
                    record_id=name,
                    record_type="record",
                    record_hash=fingerprint(name),
                    score=score,
                    rank=rank,
                )
                for rank, (name, score) in enumerate(package["records"], 1)
            ],
            "namespace": "default",
            "scopes": ["shared"],
            "filters": {"bands": [band.value for band in request.bands]},
            "budget": RetrievalBudget(tokens=package["tokens"], max_items=50),
            "package_hash": fingerprint(["package", package["query"]]),
            "store_id": "store-1",
            "branch_id": "store-1",
        }


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the agent does, so that a test can change one thing; ``jitter`` is the timing of its threads."""

    question: str = "refund rules for EU customers"
    query: str = "parcel status"
    hits: tuple[str, ...] = ("delivered",)
    recipient: str = "ada@example.org"
    guardrails: tuple[str, ...] = ("pii-masked",)
    sections: tuple[str, ...] = ("intro", "body", "conclusion")
    jitter: Random | None = None
    calls_made: list[str] = field(default_factory=list)

    def __call__(self, run: ReplayedRun) -> None:
        """The agent."""
        run_search, run_send, run_weather = self._tools(run)
        with run.event(role="agent", interceptor="memory", decision_type="recall"):
            run.recall(self.question, tokens=800)
        with run.event(role="agent", interceptor="tools") as event:
            found = run_search(self.query, 5)
            event.decide("call_tools" if found["hits"] else "give_up")
            run_send(to=self.recipient, subject="Your parcel")
            for guardrail in self.guardrails:
                run.guardrail(guardrail)
        self._in_parallel(run, run_weather)
        with run.event(role="agent", interceptor="answer", decision_type="final"):
            run.output(TextShape(sections=self.sections))

    def _tools(self, run: ReplayedRun) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
        @run.tool(profile=SEARCH)
        def search(query: str, limit: int) -> dict[str, Any]:
            self.calls_made.append("search")
            return {"hits": list(self.hits), "took_ms": 3.25 if self.jitter is None else self.jitter.random()}

        @run.tool(profile=SEND, effects=lambda sent: {"to": sent["to"], "subject": sent["subject"]})
        def send_mail(to: str, subject: str) -> dict[str, str]:
            self.calls_made.append("send_mail")
            return {"status": "sent", "to": to, "subject": subject}

        @run.tool()
        def weather(city: str) -> str:
            self.calls_made.append("weather")
            return f"rain in {city}"

        return search, send_mail, weather

    def _in_parallel(self, run: ReplayedRun, weather: Callable[..., Any]) -> None:
        lanes = [run.lane() for _ in CITIES]

        def work(number: int) -> None:
            if self.jitter is not None:
                time.sleep(self.jitter.random() / 500)
            with lanes[number], run.event(role="worker", interceptor="weather", decision_type="look_up"):
                weather(CITIES[number])

        with ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(work, range(len(CITIES))))


def a_run(run_id: str = "run-1", **changes: Any) -> RunIdentity:
    """The run that the agent is recorded in."""
    fields: dict[str, Any] = {
        "run_id": run_id,
        "workflow_id": "triage",
        "memory_snapshot_id": 41,
        "visibility_mode": VisibilityMode.BUFFERED_WRITE,
        "policy_set_id": "policies-v1",
    }
    return RunIdentity(**{**fields, **changes})


def a_recorder(**options: Any) -> Recorder:
    """A recorder of that run."""
    return Recorder(a_run(), clock=ManualClock(), model=MODEL, **options)


def recorded(
    agent: Callable[[ReplayedRun], object] | None = None,
    run: RunIdentity | None = None,
    *,
    model: ModelConfig | None = MODEL,
    memory: FixedMemory | None = None,
    clock: ManualClock | None = None,
) -> Trace:
    """The trace of one run of an agent."""
    recorder = Recorder(run or a_run(), clock=clock or ManualClock(), model=model)
    (agent or Script())(ReplayedRun(recorder, memory=memory or FixedMemory()))
    trace = recorder.finish()
    assert recorder.text == trace.as_bytes(), "what is stored is the artifact, byte for byte"
    return trace


if __name__ == "__main__":
    dice = Random()
    for number in range(int(sys.argv[1])):
        moment = datetime.fromtimestamp(dice.randrange(2_000_000_000), tz=UTC)
        jittered = Script(jitter=dice)
        trace = recorded(
            jittered, a_run(f"run-{number}-{dice.randrange(1_000_000)}"), clock=ManualClock(moment)
        )
        sys.stdout.buffer.write(trace.as_bytes() + b"\n")
