"""An agent of Pydantic AI with a memory for each user. Needs ``pip install 'standfast[pydantic-ai]'``.

A function plays the model, so that the example runs without a key.
"""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from standfast import Memory
from standfast.adapters.pydantic_ai import StandfastToolset


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call one tool for what the user said, then repeat what it returned."""
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(str(last.content))])
    said = str(last.content)
    call = {"recall": {"question": said}} if said.endswith("?") else {"remember": {"text": said}}
    (name, arguments) = next(iter(call.items()))
    assert name in {tool.name for tool in info.function_tools}
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


memory = Memory.open(":memory:")
toolset = StandfastToolset(memory, scope=lambda context: f"user/{context.deps}", tokens=300)
agent = Agent(FunctionModel(answer), deps_type=str, toolsets=[toolset])

assert agent.run_sync("Ada prefers answers in German.", deps="ada").output == "Remembered."
assert "German" in agent.run_sync("Which language does Ada prefer?", deps="ada").output
assert "nothing" in agent.run_sync("Which language does Ada prefer?", deps="bob").output
