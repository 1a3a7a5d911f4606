"""What the agent's loop works with: memory as far as it needs it, and the trace that each of its runs leaves.

memory.py    the small protocol that ``standfast.memory.Memory`` keeps to, and what the agent wants to keep
session.py   one request on its way, and what it has at hand
record.py    how a run is told to its recorder: model, prompt, tool calls, output
"""
