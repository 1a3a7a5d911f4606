"""Memory on a server, with the verbs of ``Memory``: ``Client`` for threads, ``AsyncClient`` for asyncio.

client.py            ``Client``                                       <- START HERE
remote_run.py        its runs and snapshots
remote_resources.py  proposals, keys, traces and prompts
async_client.py      all of these with coroutines
event_stream.py      live events
bodies.py            the bodies of requests, checked before they are sent
transport.py         HTTP connections, retries, errors
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
from standfast.client.client import Client
from standfast.client.event_stream import AsyncEventStream, EventStream
from standfast.client.remote_resources import RemoteApprovals, RemoteKeys, RemotePrompts, RemoteTraces
from standfast.client.remote_run import RemoteRun, RemoteSnapshot
from standfast.server.operations.event_operations import ServerEvent
from standfast.server.operations.schemas import RecallBody, RememberBody

__all__ = [
    "AsyncClient",
    "AsyncEventStream",
    "AsyncRemoteApprovals",
    "AsyncRemoteKeys",
    "AsyncRemotePrompts",
    "AsyncRemoteRun",
    "AsyncRemoteSnapshot",
    "AsyncRemoteTraces",
    "Client",
    "EventStream",
    "RecallBody",
    "RememberBody",
    "RemoteApprovals",
    "RemoteKeys",
    "RemotePrompts",
    "RemoteRun",
    "RemoteSnapshot",
    "RemoteTraces",
    "ServerEvent",
]
