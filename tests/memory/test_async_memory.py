"""Memory from async code: the same answers, typed, and an event loop that never waits for a disk."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import (
    AgentRun,
    AsyncMemory,
    AsyncRun,
    AsyncSnapshotView,
    Forgotten,
    Memory,
    Run,
    SnapshotView,
)
from standfast.records.vocabulary import Band, Verdict
from standfast.traces.artifact import ModelConfig
from standfast.traces.equivalence import ClaimVerdict
from standfast.traces.replay import ReplayedRun, replay
from tests.memory.conftest import HANDBOOK

MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=7)


def test_a_run_commits_when_its_block_is_left(tmp_path: Path) -> None:
    async def play() -> list[str]:
        async with await AsyncMemory.open(str(tmp_path / "agent.db")) as memory:
            async with memory.run(workflow="w", mode="buffered_write") as run:
                judged = await run.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK)
                assert judged.verdict == "SEAL"
                assert await memory.records() == []
            assert await memory.verify() == []
            assert run.receipt is not None
            assert run.trace is not None
            return [record.text for record in await memory.records(band=Band.LEDGER)]

    assert asyncio.run(play()) == ["EU refunds take 14 days."]


def test_an_exception_or_a_cancellation_discards(tmp_path: Path) -> None:
    memory = AsyncMemory(Memory.open(str(tmp_path / "agent.db")))

    async def fail(error: BaseException) -> None:
        async with memory.run(workflow="w", mode="buffered_write") as run:
            await run.remember("EU refunds take 14 days.", source=HANDBOOK)
            raise error

    for error in (ValueError(), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            asyncio.run(fail(error))
    assert memory.store.head() == 0


def test_many_runs_at_once_share_the_loop(tmp_path: Path) -> None:
    async def play() -> int:
        async with AsyncMemory(Memory.open(str(tmp_path / "agent.db"))) as memory:

            async def one(number: int) -> None:
                async with memory.run(workflow="w", mode="buffered_write") as run:
                    await run.remember(f"Order {number} shipped on May {number + 1}.", source=HANDBOOK)

            await asyncio.gather(*(one(number) for number in range(12)))
            return len(await memory.records(band=Band.LEDGER))

    assert asyncio.run(play()) == 12


def test_every_verb_gives_what_the_synchronous_one_gives() -> None:
    plain = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())
    memory = AsyncMemory(plain)

    async def play() -> None:
        answer = await memory.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK)
        assert answer.verdict is Verdict.SEAL
        assert answer.receipt is not None
        await memory.remember("EU refunds take 30 days.", subject="a", source=HANDBOOK)
        proposed = await memory.remember("Refunds are in euros.", subject="b", source=HANDBOOK, propose=True)
        assert [one.proposal.proposal_id for one in memory.approvals.waiting()] == [proposed.proposal_id]
        assert await memory.recall("refunds") == plain.recall("refunds")
        old = await memory.at(1)
        assert old.memory_snapshot_id == 1
        assert await old.recall("refunds", tokens=100) == plain.at(1).recall("refunds", tokens=100)
        explained = await old.explain("refunds", tokens=100)
        assert explained.package == await old.recall("refunds", tokens=100)
        assert await old.records(band=Band.LEDGER) == list(plain.at(1).records(band=Band.LEDGER))
        assert await memory.history("a") == plain.history("a")
        assert await memory.diff(1) == plain.diff(1)
        assert (memory.namespace, memory.policy_set_id) == (plain.namespace, plain.policy_set_id)
        assert await memory.due() == list(plain.due()) == []
        assert await memory.sweep() == []
        assert await memory.verify() == []
        assert await memory.checkpoint() is None
        with pytest.raises(InvalidValue, match="notary"):
            await memory.receipt(1)
        receipt = await memory.forget("a", reason="asked for")
        assert isinstance(receipt, Forgotten)
        assert receipt.memory_snapshot_id == plain.store.head()
        async with memory.run(workflow="w", mode="buffered_write") as run:
            await run.remember("UK refunds take 28 days.", source=HANDBOOK)
            await run.discard()
            assert await run.commit() is None
        await memory.close()

    asyncio.run(play())


def test_nothing_of_the_synchronous_classes_is_missing() -> None:
    def names(kind: type) -> dict[str, Any]:
        found = {name: value for one in kind.__mro__[:-1] for name, value in vars(one).items()}
        return {name: value for name, value in found.items() if not name.startswith("_")}

    left_out = {
        Memory: set(),
        Run: {"agent", "erased", "resume"},
        SnapshotView: {
            "advice",
            "answer",
            "handed_to",
            "sources",
            "history",
            "record_at",
            "redacted_json",
            "redacted_request",
            "retrieval_facts",
        },
    }
    pairs: list[tuple[type, type]] = [
        (Memory, AsyncMemory),
        (Run, AsyncRun),
        (SnapshotView, AsyncSnapshotView),
    ]
    for plain, asynchronous in pairs:
        assert names(plain).keys() - names(asynchronous).keys() <= left_out[plain]
        assert not hasattr(asynchronous, "__getattr__")
        for name in names(asynchronous).keys() & names(plain).keys():
            here, there = getattr(asynchronous, name), getattr(plain, name)
            # What is retried is a coroutine function in one and a function in the other.
            if callable(here) and name != "retry":
                parameters = [inspect.signature(one).parameters.values() for one in (here, there)]
                assert list(parameters[0]) == list(parameters[1]), name


def test_a_replayed_run_has_the_agents_part_of_a_run() -> None:
    for name in ("recall", "remember", "forget", "event", "lane", "tool", "guardrail", "output"):
        here, there = (inspect.signature(getattr(kind, name)).parameters for kind in (ReplayedRun, Run))
        assert list(here) == list(there), name


async def talk(run: AgentRun | AsyncRun) -> list[str]:
    """An agent with async tools, some of them at once."""

    @run.tool()
    async def weather(city: str) -> str:
        await asyncio.sleep(0 if city == "Athens" else 0.01)
        return f"rain in {city}"

    @run.tool()
    async def fail() -> None:
        raise TimeoutError("too slow")

    lanes = [run.lane() for _ in range(3)]

    async def look_up(number: int, city: str) -> str:
        with lanes[number]:
            return await weather(city)

    found = await asyncio.gather(*(look_up(n, c) for n, c in enumerate(("Cork", "Bergen", "Athens"))))
    with pytest.raises(TimeoutError):
        await fail()
    run.guardrail("spend-limit")
    run.output({"type": "text", "sections": list(found)})
    return list(found)


def test_async_tools_are_recorded_in_program_order_and_replayed() -> None:
    memory = AsyncMemory(Memory.open(":memory:", clock=ManualClock(), ids=CountedIds()))
    found: list[list[str]] = []

    async def play() -> AsyncRun:
        async with memory.run(workflow="w", model=MODEL) as run:
            found.append(await talk(run))
        return run

    trace = asyncio.run(play()).trace
    assert trace is not None
    calls = [call for event in trace.events for call in event.tool_calls]
    again = replay(trace, lambda run: found.append(asyncio.run(talk(run))))

    assert [call.normalized_args for call in calls] == [
        {"city": "Cork"},
        {"city": "Bergen"},
        {"city": "Athens"},
        {},
    ]
    assert [call.outcome for call in calls] == ["returned"] * 3 + ["raised"]
    assert found == [["rain in Cork", "rain in Bergen", "rain in Athens"]] * 2
    assert again.verdict is ClaimVerdict.EQUIVALENT, again.comparison.differences


def test_events_of_tasks_do_not_mix() -> None:
    memory = AsyncMemory(Memory.open(":memory:", clock=ManualClock(), ids=CountedIds()))

    async def play() -> AsyncRun:
        async with memory.run(workflow="w", mode="buffered_write") as run:

            async def one(number: int, lane: Any) -> None:
                with lane:
                    async with run.event(role="worker", interceptor="i") as event:
                        await asyncio.sleep(0.01 * (3 - number))
                        await run.remember(f"Order {number} left on May {number + 1}.", source=HANDBOOK)
                        run.guardrail(f"g{number}")
                        event.decide(f"d{number}")

            await asyncio.gather(*(one(n, lane) for n, lane in enumerate([run.lane() for _ in range(3)])))
        return run

    trace = asyncio.run(play()).trace

    assert trace is not None
    assert [event.decision_type for event in trace.events] == ["d0", "d1", "d2"]
    assert [event.guardrails_triggered for event in trace.events] == [("g0",), ("g1",), ("g2",)]
    assert [call.normalized_args["text"][:7] for event in trace.events for call in event.tool_calls] == [
        "Order 0",
        "Order 1",
        "Order 2",
    ]
