"""LlamaIndex's memory with its messages in Standfast. Needs ``pip install 'standfast[llamaindex]'``."""

import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory as AgentMemory

from standfast import Memory
from standfast.adapters.llamaindex import StandfastChatStore, StandfastMemoryBlock


async def main() -> None:
    """Say more than the queue holds; what left it is still known."""
    memory = Memory.open(":memory:")
    block = StandfastMemoryBlock(memory, scope="user/ada", tokens=200, accept_short_term_memory=False)
    agent_memory = AgentMemory.from_defaults(
        session_id="monday",
        token_limit=120,
        token_flush_size=30,
        chat_history_token_ratio=0.4,
        chat_store=StandfastChatStore(memory, scope="user/ada"),
        memory_blocks=[block],
        tokenizer_fn=str.split,
    )
    await agent_memory.aput(ChatMessage(role="user", content="My sister Ines keeps bees in Porto."))
    for number in range(12):
        said = ChatMessage(role="user", content=f"Crate {number} holds {number * 7} apples, in the old barn.")
        await agent_memory.aput(said)
    await agent_memory.aput(ChatMessage(role="user", content="What does my sister keep?"))
    prompt = await agent_memory.aget()

    assert "keeps bees" in str(prompt[0].content)
    assert len(prompt) < 12 < len(await agent_memory.aget_all())


asyncio.run(main())
