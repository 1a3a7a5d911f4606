"""mem0's calls: only the import differs. Run it with ``python examples/with_mem0.py``."""

from standfast.adapters.mem0 import Memory

memory = Memory(":memory:")
memory.add(
    [
        {"role": "user", "content": "I'm Kim. I bake bread and I play chess."},
        {"role": "assistant", "content": "Nice to meet you, Kim!"},
    ],
    user_id="kim",
)
found = memory.search("What does Kim bake?", filters={"user_id": "kim"}, top_k=1)["results"]
assert "bread" in found[0]["memory"]
memory.delete_all(user_id="kim")
assert memory.get_all(filters={"user_id": "kim"})["results"] == []
memory.close()
