"""Memory on a server, with the verbs of ``Memory``: ``Client`` for threads, ``AsyncClient`` for asyncio.

client.py         ``Client`` and what it returns                <- START HERE
async_client.py   the same with coroutines
bodies.py         the bodies of requests, checked before they are sent
transport.py      HTTP connections, retries, errors
"""

from standfast.client.async_client import (
    AsyncClient,
    AsyncRemoteApprovals,
    AsyncRemoteKeys,
    AsyncRemotePrompts,
    AsyncRemoteRun,
    AsyncRemoteSnapshot,
    AsyncRemoteTraces,
)
from standfast.client.client import (
    Client,
    RemoteApprovals,
    RemoteKeys,
    RemotePrompts,
    RemoteRun,
    RemoteTraces,
)
from standfast.client.remote_snapshot import RemoteSnapshot
from standfast.server.operations.schemas import RecallBody, RememberBody

__all__ = [
    "AsyncClient",
    "AsyncRemoteApprovals",
    "AsyncRemoteKeys",
    "AsyncRemotePrompts",
    "AsyncRemoteRun",
    "AsyncRemoteSnapshot",
    "AsyncRemoteTraces",
    "Client",
    "RecallBody",
    "RememberBody",
    "RemoteApprovals",
    "RemoteKeys",
    "RemotePrompts",
    "RemoteRun",
    "RemoteSnapshot",
    "RemoteTraces",
]
