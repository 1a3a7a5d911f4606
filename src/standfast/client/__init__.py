"""Memory behind a server, with the same verbs: ``Client("http://127.0.0.1:8765", key="sf_…")``."""

from standfast.client.memory import Client, RemoteApprovals, RemoteRun, RemoteSnapshot

__all__ = ["Client", "RemoteApprovals", "RemoteRun", "RemoteSnapshot"]
