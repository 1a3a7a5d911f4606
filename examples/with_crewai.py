"""CrewAI's memory in Standfast. Needs ``pip install 'standfast[crewai]'``.

Vectors come from a small function, and no model analyses anything, so that the example runs without a key.
"""

from crewai.memory.unified_memory import Memory as CrewMemory

from standfast import Memory
from standfast.adapters.crewai import StandfastStorage


def embed(texts: list[str]) -> list[list[float]]:
    """A vector for each text: how often each letter stands in it."""
    return [[float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


memory = Memory.open(":memory:")
crew_memory = CrewMemory(storage=StandfastStorage(memory), embedder=embed)
for scope, text in {"/user/ada": "Ada drinks tea.", "/user/bob": "Bob rides a horse."}.items():
    crew_memory.remember(text, scope=scope, categories=["habits"], importance=0.5, metadata={"page": 1})
crew_memory.drain_writes()
found = crew_memory.recall("Ada drinks tea.", scope="/user/ada", depth="shallow")

assert [match.record.content for match in found] == ["Ada drinks tea."]
assert found[0].record.metadata["trust"] == "ordinary"
assert "horse" in memory.recall("What does Bob ride?", scope="user/bob").text
memory.forget(scope="user/ada", reason="she asked for it")
assert crew_memory.info("/user").record_count == 1
crew_memory.close()
