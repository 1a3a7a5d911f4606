"""Memory on a server, with the verbs of ``Memory``: ``Client`` for threads, ``AsyncClient`` for asyncio.

client.py            ``Client``                                       <- START HERE
remote_run.py        its runs and snapshots
remote_resources.py  proposals, keys, traces and prompts
async_client.py      all of these with coroutines
event_stream.py      live events
bodies.py            the bodies of requests
transport.py         HTTP connections, retries, errors
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
