"""Adapters: they record what an agent does without changing the agent. One way of calling tools a file."""
