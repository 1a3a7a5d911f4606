# The names of standfast.client. Each is listed here and nowhere else; see lazy_names.py.

from standfast.client.async_client import (
    AsyncClient as AsyncClient,
    AsyncRemoteApprovals as AsyncRemoteApprovals,
    AsyncRemoteKeys as AsyncRemoteKeys,
    AsyncRemotePrompts as AsyncRemotePrompts,
    AsyncRemoteRun as AsyncRemoteRun,
    AsyncRemoteSnapshot as AsyncRemoteSnapshot,
    AsyncRemoteTraces as AsyncRemoteTraces,
)
from standfast.client.client import Client as Client
from standfast.client.event_stream import (
    AsyncEventStream as AsyncEventStream,
    EventStream as EventStream,
)
from standfast.client.remote_resources import (
    RemoteApprovals as RemoteApprovals,
    RemoteKeys as RemoteKeys,
    RemotePrompts as RemotePrompts,
    RemoteTraces as RemoteTraces,
)
from standfast.client.remote_run import (
    RemoteRun as RemoteRun,
    RemoteSnapshot as RemoteSnapshot,
)
from standfast.records.requests import RememberRequest as RememberRequest
from standfast.server.operations.event_operations import ServerEvent as ServerEvent
from standfast.server.operations.schemas import RecallBody as RecallBody
