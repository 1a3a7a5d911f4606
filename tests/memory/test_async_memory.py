"""Memory from async code: the same answers, and an event loop that never waits for a disk."""

import asyncio
from pathlib import Path

import pytest

from standfast.memory import Memory
from standfast.memory.async_memory import AsyncMemory
from standfast.vocabulary import Band
from tests.memory.conftest import HANDBOOK


def test_a_run_commits_when_its_block_is_left(tmp_path: Path) -> None:
    async def play() -> list[str]:
        async with AsyncMemory(Memory.open(str(tmp_path / "agent.db"))) as memory:
            async with memory.run(workflow="w", mode="buffered_write") as run:
                judged = await run.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK)
                assert judged.verdict == "SEAL"
            assert await memory.verify() == []
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
