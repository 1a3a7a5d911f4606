"""Claude's memory tool over a scope. Needs ``pip install 'standfast[anthropic]'``.

Here the commands come from the script; with a key, pass the tool to ``client.beta.messages.tool_runner``.
"""

from standfast import Memory
from standfast.adapters.anthropic_memory import StandfastMemoryTool

memory = Memory.open(":memory:")
tool = StandfastMemoryTool(memory, scope="user/ada")
tool.call({"command": "create", "path": "/memories/food.md", "file_text": "Ada is allergic to nuts.\n"})
assert "allergic" in tool.call({"command": "view", "path": "/memories/food.md"})
assert "nuts" in memory.recall("What is Ada allergic to?", scope="user/ada").text
