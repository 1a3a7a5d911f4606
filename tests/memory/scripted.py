"""A scripted agent over a real memory: it recalls, works in parallel, calls tools, remembers, is refused
something, and answers.

Run as a program it plays itself many times, in threads whose timing is left to chance, at any time, and
prints each trace on a line.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from standfast.clock import ManualClock, RandomIds
from standfast.memory import AgentRun, Memory
from standfast.traces.artifact import ModelConfig, Trace

HANDBOOK = {"kind": "doc", "id": "handbook#4"}
SECRET = "The deploy key is " + "AKIA" + "Q3EGR7ZP2MX5TN4B and it works."
MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=7)
CITIES = ("Athens", "Bergen", "Cork", "Dijon")
KNOWN = (
    ("policy/eu-refunds", "EU refunds take 14 days."),
    ("policy/eu-parcels", "Parcels within the EU take 5 days."),
    ("policy/uk-refunds", "UK refunds need a receipt."),
)


@dataclass(frozen=True, kw_only=True)
class Script:
    """What there is to know, and what the agent does, so that a test can change one thing."""

    known: tuple[tuple[str, str], ...] = KNOWN
    city: str = "Athens"
    guardrail: str = "pii-masked"
    strict: bool = True
    jitter: Random | None = None

    def play(self, *, clock: ManualClock | None = None) -> Trace:
        """The trace of one run over a new memory."""
        seeded = Memory.open(":memory:", clock=ManualClock(), ids=RandomIds(), strict=self.strict)
        with seeded.run(workflow="seed", mode="buffered_write") as run:
            for subject, text in self.known:
                run.remember(text, subject=subject, source=HANDBOOK)
        # What is known was written at one time; the run takes place at any time.
        seeded.store.clock = clock or ManualClock()
        memory = Memory(seeded.store, strict=self.strict)
        with memory.run(workflow="triage", mode="buffered_write", model=MODEL) as run:
            self(run)
        assert run.trace is not None
        memory.close()
        return run.trace

    def __call__(self, run: AgentRun) -> None:
        """The agent."""

        @run.tool()
        def weather(city: str) -> dict[str, Any]:
            self._wait()
            return {"city": city, "rain": len(city) > 5}

        with run.event(role="agent", interceptor="memory", decision_type="recall"):
            run.recall("EU refunds and parcels", tokens=200)
            weather(self.city)
        lanes = [run.lane() for _ in CITIES]

        def work(number: int) -> None:
            self._wait()
            with lanes[number], run.event(role="worker", interceptor="weather", decision_type="look_up"):
                weather(CITIES[number])

        with ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(work, range(len(CITIES))))
        with run.event(role="agent", interceptor="answer", decision_type="final"):
            run.remember(
                "UK parcels take 9 days.", subject="policy/uk-parcels", source=HANDBOOK, tags=["b", "a"]
            )
            run.remember(SECRET)
            run.guardrail(self.guardrail)
            run.output({"type": "text", "sections": ["answer"]})

    def _wait(self) -> None:
        if self.jitter is not None:
            time.sleep(self.jitter.random() / 500)


if __name__ == "__main__":
    dice = Random()
    for _ in range(int(sys.argv[1])):
        moment = datetime.fromtimestamp(dice.randrange(2_000_000_000), tz=UTC)
        trace = Script(jitter=dice).play(clock=ManualClock(moment))
        sys.stdout.buffer.write(trace.as_bytes() + b"\n")
