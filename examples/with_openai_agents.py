"""An agent of the OpenAI Agents SDK that keeps its conversation in memory.

Needs ``pip install openai-agents``. A scripted model answers, so that the example runs without a key.
"""

import asyncio

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message

from standfast import Memory
from standfast.adapters import StandfastSession


async def main() -> None:
    """Talk twice, and look at what memory has."""
    memory = Memory.open(":memory:")
    session = StandfastSession("2026-11-18", memory, scope="user/ada")
    model = ScriptedModel([[assistant_message("Noted.")], [assistant_message("In Cork.")]])
    agent = Agent(name="Desk", model=model)
    quiet = RunConfig(tracing_disabled=True)
    await Runner.run(agent, "I live in Cork.", session=session, run_config=quiet)
    await Runner.run(agent, "Where do I live?", session=session, run_config=quiet)

    assert "I live in Cork." in str(model.calls[1].input)
    assert len(await session.get_items()) == 4
    assert "Cork" in memory.recall("Where does the user live?", scope="user/ada").text


asyncio.run(main())
